/* Two tensors, a rule, a verdict. The rules are listed in standard.c and in the manual. */
#ifndef ACLGRAD_COMPARISON_H
#define ACLGRAD_COMPARISON_H

#include "cli_tensor.h"

/* --- rules (standard.c) ---------------------------------------------------------------------------------- */

enum standard_rule {
    STANDARD_BOUND,
    STANDARD_OPBASE,
    STANDARD_RATIO,
    STANDARD_DUAL1000,
    STANDARD_FA3X,
    STANDARD_COSINE,
    STANDARD_BITS
};

struct standard {
    enum standard_rule rule;
    char name[24];        /* as it is written: "ratio:L1" */
    double most_ratio[3]; /* ratio: of the maximal, the mean and the RMS error */
    double least_cosine;
};

/* "bound", "opbase", "ratio:L0", "ratio:L1", "ratio:L2", "dual1000", "fa3x", "cosine", "cosine:0.999", "bits";
 * "opbase-mixed" and "msprobe" are other names of opbase and dual1000. */
bool standard_parse(const char *text, struct standard *standard);
bool standard_needs_trusted(const struct standard *standard);

/* What one element may be off by under the rule; NAN where the rule has no limit per element. */
double standard_limit(const struct standard *standard, int dtype, double want, double bound);

/* --- one comparison (comparison.c) ----------------------------------------------------------------------- */

struct comparison_sides {
    const struct tensor *got, *want;
    const struct tensor *trusted; /* ratio, fa3x: where want is only another implementation */
    const struct tensor *bound;   /* bound: f64, what each element may be off by */
};

struct worst_element {
    int64_t at;
    double got, want, error, limit;
};

enum { MOST_WORST = 100 };

struct comparison {
    int64_t elems;
    int64_t bad;                             /* beyond their limit; without limits: not equal */
    int64_t special;                         /* NaN or infinity against something else */
    int64_t zeros;                           /* of want */
    double worst_ratio;                      /* greatest error / limit, where there are limits */
    double max_error, mean_error, rms_error; /* absolute, against want; special pairs make them infinite */
    double max_want;                         /* want where the error is max_error */
    double max_relative, mean_relative;      /* |a - g| / (|g| + 1e-7) */
    double other_max, other_max_relative, other_mean_relative, other_rms; /* of want against trusted */
    double cosine, norm_ratio;
    struct worst_element worst[MOST_WORST]; /* greatest first */
    int worst_count;
    bool is_passed, is_mistrusted;
    char reason[256]; /* the numbers that decided */
};

/* The first element from `at` on that may differ: where both sides have one type, equal bytes are passed over quickly.
 * got->elems when there is none. */
int64_t next_difference(const struct tensor *got, const struct tensor *want, int64_t at);

/* |got - want| as all rules see it: NaN equals NaN, infinities by sign; a finite number equals an infinity of a
 * narrower type when it rounds to it; every other meeting with NaN or infinity is an infinite error. */
double element_error(int got_dtype, int want_dtype, double got, double want);

/* The error as the rule bits sees it, of sides of one type: 0 only for the same bytes or two NaN; -0 against 0 is one
 * ULP, and integers differ exactly. */
double bits_error(const struct tensor *got, const struct tensor *want, int64_t at);

/* The two sides have the same dims and, under bits, the same type; else false, and why. */
bool sides_match(const struct comparison_sides *sides, const struct standard *standard, char *why, size_t bytes);

/* Of sides that match. CLI_USAGE when a side that the rule needs is missing or has other dims. Of the worst elements at
 * most `worst` are kept. */
bool compare_tensors(const struct comparison_sides *sides, const struct standard *standard, int worst,
                     struct comparison *result);

/* Fewer than this share of want's elements are not zero: the verdict says little, and is called MISTRUSTED. */
#define MISTRUSTED_SHARE 0.01

#endif
