/* The tolerance rules, all of them, in one place.
 *
 *   bound      every element within its own bound, which the definition accumulates (docs/accuracy.md). Ours.
 *   opbase     at least 99 % of elements with |a - g| <= atol + rtol |g|, and the maximal error at most the greater of
 *              a floor and 32 ULP at the worst point. f16: atol = rtol = 2^-9, floor 0.1; bf16: 2^-6, 1;
 *              f32: rtol 2^-10, atol 2^-16, 0.01. The vendor's operator tests.
 *   ratio:Lx   maximal relative, mean relative and RMS error against a third, trusted tensor at most x times those of
 *              the other implementation: L0 10, 2, 2; L1 5, 1.5, 1.5; L2 2, 1.2, 1.2. Relative is |a - g| / (|g| + 1e-7).
 *              The vendor's acceptance of operators against two benchmarks.
 *   dual1000   less than 0.1 % of elements off by more than 0.1 % of |g|. The vendor's dump comparison.
 *   fa3x       maximal error at most 3 times that of a 16-bit reference, both against a trusted tensor. Tests of
 *              flash attention.
 *   cosine     cosine of the angle at least 0.9999 (or the number given), norms within 1 %.
 *   bits       the same bits; NaN equals NaN. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "comparison.h"

struct plain_rule {
    const char *name;
    enum standard_rule rule;
};
static const struct plain_rule plain_rules[] = {{"bound", STANDARD_BOUND},         {"opbase", STANDARD_OPBASE},
                                                {"opbase-mixed", STANDARD_OPBASE}, {"dual1000", STANDARD_DUAL1000},
                                                {"msprobe", STANDARD_DUAL1000},    {"fa3x", STANDARD_FA3X},
                                                {"cosine", STANDARD_COSINE},       {"bits", STANDARD_BITS}};
enum { PLAIN_RULES = sizeof plain_rules / sizeof *plain_rules };

struct ratio_level {
    const char *name;
    double most[3];
};
static const struct ratio_level ratio_levels[] = {
    {"ratio:L0", {10, 2, 2}}, {"ratio:L1", {5, 1.5, 1.5}}, {"ratio:L2", {2, 1.2, 1.2}}};
enum { RATIO_LEVELS = sizeof ratio_levels / sizeof *ratio_levels };

static bool parse_cosine(const char *text, struct standard *standard)
{
    char *end;
    standard->rule = STANDARD_COSINE;
    standard->least_cosine = strtod(text, &end);
    return (end != text && !*end && !isspace((unsigned char)*text) && standard->least_cosine > 0 &&
            standard->least_cosine <= 1) ||
           cli_fail(CLI_USAGE, "--standard cosine: got '%s', want a number in (0, 1]", text);
}

bool standard_parse(const char *text, struct standard *standard)
{
    *standard = (struct standard){.least_cosine = 0.9999};
    snprintf(standard->name, sizeof standard->name, "%s", text);
    for (int i = 0; i < PLAIN_RULES; ++i) {
        if (strcmp(plain_rules[i].name, text) == 0) {
            standard->rule = plain_rules[i].rule;
            return true;
        }
    }
    for (int i = 0; i < RATIO_LEVELS; ++i) {
        if (strcmp(ratio_levels[i].name, text) == 0) {
            standard->rule = STANDARD_RATIO;
            memcpy(standard->most_ratio, ratio_levels[i].most, sizeof standard->most_ratio);
            return true;
        }
    }
    if (strncmp(text, "cosine:", strlen("cosine:")) == 0) {
        return parse_cosine(text + strlen("cosine:"), standard);
    }
    return cli_fail(CLI_USAGE,
                    "--standard: got '%s', want bound, opbase, ratio:L0, ratio:L1, ratio:L2, dual1000, fa3x, "
                    "cosine, cosine:NUMBER or bits",
                    text);
}

bool standard_needs_trusted(const struct standard *standard)
{
    return standard->rule == STANDARD_RATIO || standard->rule == STANDARD_FA3X;
}

static double opbase_limit(int dtype, double want)
{
    const double rtol = dtype == AG_FLOAT16 ? 0x1p-9 : dtype == AG_BF16 ? 0x1p-6 : 0x1p-10;
    const double atol = dtype == AG_FLOAT16 || dtype == AG_BF16 ? rtol : 0x1p-16;
    return atol + rtol * fabs(want);
}

double standard_limit(const struct standard *standard, int dtype, double want, double bound)
{
    switch (standard->rule) {
    case STANDARD_BOUND:
        return bound;
    case STANDARD_OPBASE:
        return opbase_limit(dtype, want);
    case STANDARD_DUAL1000:
        return 0.001 * fabs(want);
    case STANDARD_BITS:
        return 0;
    default:
        return NAN;
    }
}
