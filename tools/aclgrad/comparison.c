#include "comparison.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "cli.h"

double element_error(int got_dtype, int want_dtype, double got, double want)
{
    if (got == want || (isnan(got) && isnan(want))) {
        return 0;
    }
    if (isnan(got) || isnan(want)) {
        return INFINITY;
    }
    if (isinf(got)) {
        return round_to_dtype(got_dtype, want) == got ? 0 : INFINITY;
    }
    if (isinf(want)) {
        return round_to_dtype(want_dtype, got) == want ? 0 : INFINITY;
    }
    return fabs(got - want);
}

/* got is infinite because a number that the bound still allows rounds to infinity. */
static bool overflows_within(int dtype, double got, double want, double bound)
{
    return isinf(got) && isfinite(want) && isfinite(bound) &&
           round_to_dtype(dtype, want + copysign(bound, got)) == got;
}

/* --- bits ------------------------------------------------------------------------------------------------ */

static bool has_same_bits(const struct tensor *a, const struct tensor *b, int64_t at)
{
    const size_t bytes = ag_dtype_bytes(a->dtype), from = (size_t)at * bytes;
    return memcmp((const char *)a->data + from, (const char *)b->data + from, bytes) == 0 ||
           (isnan(tensor_get(a, at)) && isnan(tensor_get(b, at)));
}

/* Of two integers exactly: as doubles, neighbours beyond 2^53 are one number. */
static double distance(int64_t a, int64_t b)
{
    return (double)(a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a);
}

double bits_error(const struct tensor *got, const struct tensor *want, int64_t at)
{
    if (has_same_bits(got, want, at)) {
        return 0;
    }
    if (got->dtype == AG_INT64) {
        return distance(((const int64_t *)got->data)[at], ((const int64_t *)want->data)[at]);
    }
    const double value = tensor_get(got, at),
                 error = element_error(got->dtype, want->dtype, value, tensor_get(want, at));
    return error > 0 ? error : ulp_of_dtype(got->dtype, value);
}

/* --- sums over the elements ------------------------------------------------------------------------------ */

struct sums {
    double error, error_squared, relative;      /* got against want, or trusted where there is one */
    double other_error_squared, other_relative; /* want against trusted */
    double got_squared, want_squared, product;
};

/* Keeps the worst, greatest first: by error / limit where limits exist, else by error. */
static double badness(const struct worst_element *e)
{
    return e->error == 0 ? 0 : isinf(e->error) ? INFINITY : isnan(e->limit) ? e->error : e->error / e->limit;
}

static void keep_worst(struct comparison *c, int most, const struct worst_element *element)
{
    int place = c->worst_count;
    const double its = badness(element);
    while (place > 0 && badness(&c->worst[place - 1]) < its) {
        --place;
    }
    if (place < most) {
        const int last = c->worst_count < most ? c->worst_count++ : most - 1;
        memmove(&c->worst[place + 1], &c->worst[place], (size_t)(last - place) * sizeof *c->worst);
        c->worst[place] = *element;
    }
}

static double greater(double a, double b)
{
    return a > b ? a : b;
}

/* |a - g| / (|g| + 1e-7), the relative error of the rule "ratio". */
static double relative(double error, double golden)
{
    return isinf(error) ? error : isfinite(golden) ? error / (fabs(golden) + 1e-7) : 0;
}

static void add_other(const struct comparison_sides *s, struct comparison *c, struct sums *sums, int64_t at)
{
    const double want = tensor_get(s->want, at), golden = tensor_get(s->trusted, at);
    const double error = element_error(s->want->dtype, s->trusted->dtype, want, golden);
    c->other_max = greater(c->other_max, error);
    c->other_max_relative = greater(c->other_max_relative, relative(error, golden));
    sums->other_error_squared += error * error;
    sums->other_relative += relative(error, golden);
}

static void add_element(const struct comparison_sides *s, const struct standard *standard, int worst,
                        struct comparison *c, struct sums *sums, int64_t at)
{
    const struct tensor *golden = s->trusted ? s->trusted : s->want;
    struct worst_element e = {.at = at, .got = tensor_get(s->got, at), .want = tensor_get(golden, at)};
    const double bound = s->bound ? tensor_get(s->bound, at) : NAN;
    e.error = element_error(s->got->dtype, golden->dtype, e.got, e.want);
    e.limit = standard_limit(standard, s->got->dtype, e.want, bound);
    if (isinf(e.error) && overflows_within(s->got->dtype, e.got, e.want, bound)) {
        e.error = 0;
    }
    if (standard->rule == STANDARD_BITS) {
        e.error = bits_error(s->got, s->want, at);
    }
    if (s->trusted) {
        add_other(s, c, sums, at);
    }
    c->bad += isinf(e.error) || (e.error > 0 && !(e.error <= e.limit)); /* a limit that is NaN allows nothing */
    c->special += isinf(e.error);
    c->zeros += e.want == 0;
    if (e.error > c->max_error) {
        c->max_error = e.error;
        c->max_want = e.want;
    }
    c->max_relative = greater(c->max_relative, relative(e.error, e.want));
    c->worst_ratio = greater(c->worst_ratio, isnan(standard_limit(standard, s->got->dtype, 1, 1)) ? 0 : badness(&e));
    sums->error += e.error;
    sums->error_squared += e.error * e.error;
    sums->relative += relative(e.error, e.want);
    if (isfinite(e.got) && isfinite(e.want)) {
        sums->got_squared += e.got * e.got;
        sums->want_squared += e.want * e.want;
        sums->product += e.got * e.want;
    }
    if (e.error > 0) {
        keep_worst(c, worst, &e);
    }
}

/* --- verdicts -------------------------------------------------------------------------------------------- */

static void judge_share(struct comparison *c, const char *what, double most_share, bool may_reach)
{
    const double share = (double)c->bad / (double)c->elems;
    c->is_passed = may_reach ? share <= most_share : share < most_share;
    snprintf(c->reason, sizeof c->reason, "%" PRId64 " of %" PRId64 " elements %s: %.4g %%, want %s %g %%", c->bad,
             c->elems, what, share * 100, may_reach ? "at most" : "less than", most_share * 100);
}

static void judge_opbase(struct comparison *c, int dtype)
{
    const double floor_of_max = dtype == AG_FLOAT16 ? 0.1 : dtype == AG_BF16 ? 1 : 0.01;
    const double most = greater(floor_of_max, isfinite(c->max_want) ? 32 * ulp_of_dtype(dtype, c->max_want) : 0);
    judge_share(c, "beyond atol + rtol |g|", 0.01, true);
    const size_t used = strlen(c->reason);
    snprintf(c->reason + used, sizeof c->reason - used, "; max error %.4g, want at most %.4g", c->max_error, most);
    c->is_passed = c->is_passed && c->max_error <= most;
}

static void judge_ratio(struct comparison *c, const struct standard *standard)
{
    c->is_passed = c->max_relative <= standard->most_ratio[0] * c->other_max_relative &&
                   c->mean_relative <= standard->most_ratio[1] * c->other_mean_relative &&
                   c->rms_error <= standard->most_ratio[2] * c->other_rms;
    snprintf(c->reason, sizeof c->reason,
             "max relative %.4g against %.4g (want at most %gx), mean %.4g against %.4g (%gx), RMS %.4g against %.4g "
             "(%gx)",
             c->max_relative, c->other_max_relative, standard->most_ratio[0], c->mean_relative,
             c->other_mean_relative, standard->most_ratio[1], c->rms_error, c->other_rms, standard->most_ratio[2]);
}

static void judge_cosine(struct comparison *c, const struct standard *standard)
{
    c->is_passed = c->special == 0 && c->cosine >= standard->least_cosine && fabs(c->norm_ratio - 1) <= 0.01;
    snprintf(c->reason, sizeof c->reason,
             "cosine %.9g, want at least %g; norms %.6g : 1, want within 1 %%; %" PRId64
             " meeting%s with NaN or infinity",
             c->cosine, standard->least_cosine, c->norm_ratio, c->special, plural(c->special));
}

/* An infinite error is no multiple of another one. */
static void judge_special(struct comparison *c)
{
    if (c->special > 0) {
        const size_t used = strlen(c->reason);
        c->is_passed = false;
        snprintf(c->reason + used, sizeof c->reason - used, "; %" PRId64 " meeting%s with NaN or infinity, want none",
                 c->special, plural(c->special));
    }
}

static void judge(const struct comparison_sides *s, const struct standard *standard, struct comparison *c)
{
    if (c->elems == 0) {
        c->is_passed = true;
        snprintf(c->reason, sizeof c->reason, "no elements");
        return;
    }
    switch (standard->rule) {
    case STANDARD_BOUND:
        c->is_passed = c->bad == 0;
        if (c->bad > 0) {
            snprintf(c->reason, sizeof c->reason, "%" PRId64 " element%s beyond %s bound", c->bad, plural(c->bad),
                     word_for(c->bad, "its", "their"));
        } else {
            snprintf(c->reason, sizeof c->reason, "all within their bound");
        }
        break;
    case STANDARD_OPBASE:
        judge_opbase(c, s->got->dtype);
        break;
    case STANDARD_RATIO:
        judge_ratio(c, standard);
        judge_special(c);
        break;
    case STANDARD_DUAL1000:
        judge_share(c, "off by more than 0.1 %", 0.001, false);
        break;
    case STANDARD_FA3X:
        c->is_passed = c->max_error <= 3 * c->other_max;
        snprintf(c->reason, sizeof c->reason, "max error %.4g against %.4g of the reference, want at most 3x",
                 c->max_error, c->other_max);
        judge_special(c);
        break;
    case STANDARD_COSINE:
        judge_cosine(c, standard);
        break;
    case STANDARD_BITS:
        c->is_passed = c->bad == 0;
        snprintf(c->reason, sizeof c->reason, "%" PRId64 " of %" PRId64 " elements differ", c->bad, c->elems);
        break;
    }
}

/* --- the whole ------------------------------------------------------------------------------------------- */

static bool has_same_shape(const struct tensor *a, const struct tensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static bool check_side(const struct comparison_sides *s, const struct tensor *side, const char *what)
{
    char got[AG_SHAPE_TEXT], want[AG_SHAPE_TEXT];
    return has_same_shape(s->got, side) || cli_fail(CLI_USAGE, "%s: shape %s, %s has %s", s->got->name,
                                                    tensor_shape(s->got, got), what, tensor_shape(side, want));
}

bool sides_match(const struct comparison_sides *s, const struct standard *standard, char *why, size_t bytes)
{
    char got[AG_SHAPE_TEXT], want[AG_SHAPE_TEXT];
    if (!has_same_shape(s->got, s->want)) {
        snprintf(why, bytes, "shape %s, want %s", tensor_shape(s->got, got), tensor_shape(s->want, want));
        return false;
    }
    if (standard->rule == STANDARD_BITS && s->got->dtype != s->want->dtype) {
        snprintf(why, bytes, "type %s, want %s", dtype_word(s->got->dtype), dtype_word(s->want->dtype));
        return false;
    }
    return true;
}

static bool check_sides(const struct comparison_sides *s, const struct standard *standard)
{
    if (standard_needs_trusted(standard) && !s->trusted) {
        return cli_fail(CLI_USAGE, "--standard %s needs --trusted", standard->name);
    }
    if (standard->rule == STANDARD_BOUND && !s->bound) {
        return cli_fail(CLI_USAGE,
                        "--standard bound needs the bounds: --bound, as `aclgrad run --definition` writes them");
    }
    return (!s->trusted || check_side(s, s->trusted, "--trusted")) &&
           (!s->bound || check_side(s, s->bound, "--bound"));
}

int64_t next_difference(const struct tensor *got, const struct tensor *want, int64_t at)
{
    enum { BLOCK = 4096 };
    const size_t bytes = ag_dtype_bytes(got->dtype);
    const char *a = got->data, *b = want->data;
    if (got->dtype != want->dtype) {
        return at;
    }
    while (at + BLOCK <= got->elems && memcmp(a + (size_t)at * bytes, b + (size_t)at * bytes, BLOCK * bytes) == 0) {
        at += BLOCK;
    }
    while (at < got->elems && memcmp(a + (size_t)at * bytes, b + (size_t)at * bytes, bytes) == 0) {
        ++at;
    }
    return at;
}

bool compare_tensors(const struct comparison_sides *s, const struct standard *standard, int worst,
                     struct comparison *c)
{
    struct sums sums = {0};
    const bool is_bits = standard->rule == STANDARD_BITS;
    *c = (struct comparison){.elems = s->got->elems};
    if (!check_sides(s, standard)) {
        return false;
    }
    for (int64_t at = 0; at < c->elems; ++at) {
        at = is_bits ? next_difference(s->got, s->want, at) : at; /* equal bytes say nothing to this rule */
        if (at < c->elems) {
            add_element(s, standard, worst, c, &sums, at);
        }
    }
    const double elems = c->elems ? (double)c->elems : 1;
    c->mean_error = sums.error / elems;
    c->rms_error = sqrt(sums.error_squared / elems);
    c->mean_relative = sums.relative / elems;
    c->other_mean_relative = sums.other_relative / elems;
    c->other_rms = sqrt(sums.other_error_squared / elems);
    const double norms = sqrt(sums.got_squared) * sqrt(sums.want_squared);
    c->cosine = norms > 0 ? sums.product / norms : sums.got_squared == sums.want_squared ? 1 : 0;
    c->norm_ratio = sums.want_squared > 0  ? sqrt(sums.got_squared / sums.want_squared)
                    : sums.got_squared > 0 ? INFINITY
                                           : 1;
    judge(s, standard, c);
    c->is_mistrusted =
        c->is_passed && !is_bits && c->elems > 0 && (double)(c->elems - c->zeros) < MISTRUSTED_SHARE * elems;
    return true;
}
