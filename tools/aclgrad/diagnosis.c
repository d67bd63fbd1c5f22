#include "diagnosis.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* --- what is looked at ----------------------------------------------------------------------------------- */

/* Along one axis the tensor falls into slices: the heads, the rows. */
struct slices {
    const struct comparison_sides *sides;
    const struct tensor *golden;
    const struct standard *standard;
    const struct axes *axes;
    int axis;
    bool is_folded;       /* the axis and the one before it are one: the rows of all sequences of a batch */
    int64_t origin;       /* elements before the first slice */
    int64_t count;        /* slices */
    int64_t inner, outer; /* elements of a slice lie in `outer` runs of `inner` */
    int64_t *bad;         /* [count] wrong elements */
    int64_t bad_slices, bad_elems;
};

static int64_t slice_elems(const struct slices *s)
{
    return s->inner * s->outer;
}

/* Element e of slice number i. */
static int64_t element_of(const struct slices *s, int64_t i, int64_t e)
{
    return s->origin + (e / s->inner * s->count + i) * s->inner + e % s->inner;
}

static double got_at(const struct slices *s, int64_t i, int64_t e)
{
    return tensor_get(s->sides->got, element_of(s, i, e));
}

static double want_at(const struct slices *s, int64_t i, int64_t e)
{
    return tensor_get(s->golden, element_of(s, i, e));
}

/* Coarse on purpose: a slice that obeys a guess to a few parts in a hundred obeys it. */
static double closeness(const struct slices *s)
{
    const int dtype = s->sides->got->dtype;
    return dtype == AG_BF16 ? 0.03 : dtype == AG_FLOAT16 ? 0.005 : 1e-3;
}

static bool is_bad_element(const struct slices *s, int64_t at)
{
    const double got = tensor_get(s->sides->got, at), want = tensor_get(s->golden, at);
    const double error = element_error(s->sides->got->dtype, s->golden->dtype, got, want);
    const double bound = s->sides->bound ? tensor_get(s->sides->bound, at) : NAN;
    double limit = standard_limit(s->standard, s->sides->got->dtype, want, bound);
    if (isnan(limit)) {
        limit = closeness(s) * fabs(want);
    }
    return error > 0 && !(error <= limit);
}

/* Folded: of two or more leading axes as one. */
static bool open_slices(struct slices *s, int axis, bool is_folded)
{
    const struct tensor *got = s->sides->got;
    s->axis = axis;
    s->is_folded = is_folded;
    s->count = s->inner = s->outer = 1;
    s->bad_slices = s->bad_elems = 0;
    for (int i = 0; i < got->rank; ++i) {
        int64_t *factor = i > axis ? &s->inner : i == axis || is_folded ? &s->count : &s->outer;
        *factor *= got->dims[i];
    }
    s->bad = calloc((size_t)s->count + 1, sizeof *s->bad);
    for (int64_t at = 0; s->bad && (at = next_difference(got, s->golden, at)) < got->elems; ++at) {
        if (is_bad_element(s, at)) {
            int64_t *bad = &s->bad[at / s->inner % s->count];
            s->bad_slices += *bad == 0;
            ++s->bad_elems;
            ++*bad;
        }
    }
    return s->bad != NULL;
}

/* A slice of fewer elements obeys many guesses. */
enum { LEAST_ELEMS = 4 };

/* --- groups of rows: the sequences of a pack or of a batch, the experts ---------------------------------- */

static int64_t group_count(const struct slices *s)
{
    const bool has_groups = s->axes->group && s->axis == s->axes->row_axis && s->outer == 1;
    return s->is_folded ? s->sides->got->dims[0] : has_groups ? s->axes->group_count : 0;
}

static const char *group_word(const struct slices *s)
{
    return s->is_folded ? s->axes->names[0] : s->axes->group;
}

/* The group of slice i and its row there; -1: none. */
static int64_t group_of(const struct slices *s, int64_t i, int64_t *row)
{
    *row = i;
    if (s->is_folded) {
        *row = i % s->sides->got->dims[s->axis];
        return i / s->sides->got->dims[s->axis];
    }
    return s->axes->group && s->axis == s->axes->row_axis ? axes_group_of(s->axes, i, row) : -1;
}

static int64_t row_in_group(const struct slices *s, int64_t i)
{
    int64_t row;
    group_of(s, i, &row);
    return row;
}

/* Behind the last row of the group that begins with row `begin`. */
static int64_t group_end(const struct slices *s, int64_t group, int64_t begin)
{
    const int64_t end = s->is_folded ? begin + s->sides->got->dims[s->axis] : s->axes->group_ends[group];
    return end < begin ? begin : end < s->count ? end : s->count;
}

/* The one group of several that holds all wrong slices; -1: none does. */
static int64_t only_wrong_group(const struct slices *s)
{
    int64_t first = 0, last = s->count - 1, row;
    if (group_count(s) < 2 || s->bad_slices == 0) {
        return -1;
    }
    while (s->bad[first] == 0) {
        ++first;
    }
    while (s->bad[last] == 0) {
        --last;
    }
    const int64_t group = group_of(s, first, &row);
    return group == group_of(s, last, &row) ? group : -1;
}

/* --- findings -------------------------------------------------------------------------------------------- */

static void find(struct diagnosis *d, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void find(struct diagnosis *d, const char *code, const char *format, ...)
{
    if (d->count < MOST_FINDINGS) {
        va_list arguments;
        va_start(arguments, format);
        d->findings[d->count].code = code;
        vsnprintf(d->findings[d->count].text, DIAGNOSIS_TEXT, format, arguments);
        va_end(arguments);
        ++d->count;
    }
}

/* "token 17", or "batch 1, token 3" where rows have groups. */
static const char *slice_name(const struct slices *s, int64_t i, char text[64])
{
    int64_t row;
    const int64_t group = group_of(s, i, &row);
    if (group >= 0) {
        snprintf(text, 64, "%s %" PRId64 ", %s %" PRId64, group_word(s), group, s->axes->names[s->axis], row);
    } else {
        snprintf(text, 64, "%s %" PRId64, s->axes->names[s->axis], i);
    }
    return text;
}

/* The factor c that makes got = c want in the least-squares sense, and whether the slice then fits. */
static bool fit_factor(const struct slices *s, int64_t i, double *factor)
{
    double product = 0, want_squared = 0, left = 0, got_squared = 0;
    int64_t telling = 0; /* elements that say something about the factor */
    for (int64_t e = 0; e < slice_elems(s); ++e) {
        product += got_at(s, i, e) * want_at(s, i, e);
        want_squared += want_at(s, i, e) * want_at(s, i, e);
        got_squared += got_at(s, i, e) * got_at(s, i, e);
        telling += want_at(s, i, e) != 0;
    }
    *factor = product / want_squared;
    for (int64_t e = 0; e < slice_elems(s); ++e) {
        const double error = got_at(s, i, e) - *factor * want_at(s, i, e);
        left += error * error;
    }
    return telling >= LEAST_ELEMS && got_squared > 0 && sqrt(left / got_squared) <= closeness(s);
}

static double size_of(const struct slices *s, int64_t i)
{
    double size = 0;
    for (int64_t e = 0; e < slice_elems(s); ++e) {
        const double want = want_at(s, i, e);
        size += isfinite(want) ? want * want : 0;
    }
    return size;
}

/* Slice `mine` of got against slice `its` of want; what is off is measured against its size, or `least`. */
static bool slices_match(const struct slices *s, int64_t mine, int64_t its, double least)
{
    const double size = fmax(size_of(s, its), least);
    double left = 0;
    for (int64_t e = 0; e < slice_elems(s); ++e) {
        const double got = got_at(s, mine, e), want = want_at(s, its, e);
        const double error = element_error(s->sides->got->dtype, s->golden->dtype, got, want);
        left += error * error;
    }
    return size > 0 && sqrt(left / size) <= closeness(s);
}

/* More of them, all by one factor: an expert's rows, a sequence's tokens. */
static void find_scaled_run(const struct slices *s, struct diagnosis *d)
{
    int64_t first = -1, last = -1;
    double factor = 1, one;
    char from[64], to[64];
    for (int64_t i = 0; i < s->count; ++i) {
        if (s->bad[i] > 0) {
            if (!fit_factor(s, i, &one) || (first >= 0 && fabs(one / factor - 1) > 2 * closeness(s))) {
                return;
            }
            factor = first < 0 ? one : factor;
            first = first < 0 ? i : first;
            last = i;
        }
    }
    if (fabs(factor - 1) > closeness(s) && (last - first + 1) * 3 <= s->bad_slices * 4) {
        find(d, "scaled", "%s to %s are %.4g times what they should be, all else is right",
             slice_name(s, first, from), slice_name(s, last, to), factor);
    }
}

/* A few wrong slices, and each a multiple of what belongs there. */
static void find_scaled(const struct slices *s, struct diagnosis *d)
{
    enum { MOST = 4 };
    double factors[MOST];
    int64_t which[MOST], fitting = 0;
    char name[64];
    if (s->bad_slices == 0 || s->count < 2 || slice_elems(s) < LEAST_ELEMS) {
        return;
    }
    if (s->bad_slices > MOST) {
        find_scaled_run(s, d);
        return;
    }
    for (int64_t i = 0; i < s->count; ++i) {
        if (s->bad[i] > 0 && fit_factor(s, i, &factors[fitting]) && fabs(factors[fitting] - 1) > closeness(s)) {
            which[fitting++] = i;
        }
    }
    for (int64_t i = 0; fitting == s->bad_slices && i < fitting; ++i) {
        find(d, "scaled", "%s is %.4g times what it should be, all else is right", slice_name(s, which[i], name),
             factors[i]);
    }
}

/* The rows [begin, end) taken as one slice, of which at least half must be wrong: one large row alone would fit. */
static bool fit_rows(const struct slices *rows, int64_t begin, int64_t end, double *factor)
{
    struct slices one = *rows;
    int64_t bad = 0, bad_rows = 0, telling = 0;
    one.origin = begin * rows->inner;
    one.inner = (end - begin) * rows->inner;
    one.count = 1;
    for (int64_t i = begin; i < end; ++i) {
        bad += rows->bad[i];
        bad_rows += rows->bad[i] > 0;
    }
    for (int64_t e = 0; e < one.inner; ++e) {
        telling += want_at(&one, 0, e) != 0;
    }
    return bad_rows > 1 && bad * 2 >= telling && fit_factor(&one, 0, factor) && fabs(*factor - 1) > closeness(rows);
}

/* A few groups of rows wrong, and each as a whole a multiple of what belongs there. */
static bool find_scaled_groups(const struct slices *s, struct diagnosis *d)
{
    enum { MOST = 4 };
    double factors[MOST];
    int64_t which[MOST], wrong = 0, begin = 0;
    const int64_t groups = group_count(s);
    for (int64_t g = 0; groups > 1 && g < groups; ++g) {
        const int64_t end = group_end(s, g, begin);
        bool is_wrong = false;
        for (int64_t i = begin; i < end; ++i) {
            is_wrong = is_wrong || s->bad[i] > 0;
        }
        if (is_wrong && (wrong == MOST || !fit_rows(s, begin, end, &factors[wrong]))) {
            return false;
        }
        if (is_wrong) {
            which[wrong++] = g;
        }
        begin = end;
    }
    for (int64_t i = 0; i < wrong; ++i) {
        find(d, "scaled", "%s %" PRId64 " is %.4g times what it should be, all else is right", group_word(s),
             which[i], factors[i]);
    }
    return wrong > 0;
}

/* The whole tensor, taken as one slice. */
static bool find_all_scaled(const struct slices *parts, struct diagnosis *d)
{
    struct slices s = *parts;
    double factor;
    s.count = s.outer = 1;
    s.inner = s.sides->got->elems;
    const bool may_be = s.inner >= LEAST_ELEMS && next_difference(s.sides->got, s.golden, 0) * 2 < s.inner;
    const bool is_scaled = may_be && fit_factor(&s, 0, &factor) && fabs(factor - 1) > closeness(&s);
    if (is_scaled) {
        find(d, "scaled", "everything is %.4g times what it should be", factor);
    }
    return is_scaled;
}

/* The slice holds what belongs to another one, and not what belongs to it. */
static bool is_from(const struct slices *s, int64_t mine, int64_t its, double least)
{
    return slice_elems(s) >= LEAST_ELEMS && slices_match(s, mine, its, least) && !slices_match(s, mine, mine, 0);
}

static void find_swapped(const struct slices *s, struct diagnosis *d)
{
    char one[64], other[64];
    for (int64_t i = 0; i < s->count; ++i) {
        for (int64_t j = i + 1; s->bad[i] > 0 && j < s->count; ++j) {
            /* one of the two may be all but zero */
            const double larger = fmax(size_of(s, i), size_of(s, j));
            if (s->bad[j] > 0 && is_from(s, i, j, larger) && is_from(s, j, i, larger)) {
                find(d, "swapped", "%s and %s are exchanged", slice_name(s, i, one), slice_name(s, j, other));
            }
        }
    }
}

static void tell_shift(const struct slices *s, int64_t shift, struct diagnosis *d)
{
    const char *name = s->axes->names[s->axis];
    const int64_t group = only_wrong_group(s), distance = shift < 0 ? -shift : shift;
    char where[64] = "";
    if (group >= 0) {
        snprintf(where, sizeof where, "in %s %" PRId64 " ", group_word(s), group);
    }
    find(d, "shifted", "%s%s i holds what belongs to %s i %c %" PRId64 "%s", where, name, name, shift > 0 ? '+' : '-',
         distance,
         s->axes->row_axis == s->axis && group < 0 ? ": a start was not subtracted, or subtracted twice" : "");
}

/* Most wrong slices hold what belongs `shift` slices away. */
static void find_shifted(const struct slices *s, struct diagnosis *d)
{
    int64_t first = 0;
    while (first < s->count && s->bad[first] == 0) {
        ++first;
    }
    for (int64_t shift = 1; shift < s->count; ++shift) {
        for (int sign = -1; sign <= 1; sign += 2) {
            int64_t fitting = 0, tried = 0;
            for (int64_t i = first; i < s->count && tried < 16; ++i) {
                const int64_t from = i + sign * shift;
                if (s->bad[i] > 0 && from >= 0 && from < s->count) {
                    ++tried;
                    fitting += is_from(s, i, from, 0);
                    tried = tried == 2 && fitting == 0 ? INT64_MAX : tried; /* hopeless: stop early */
                }
            }
            if (tried >= 3 && tried <= 16 && fitting * 4 >= tried * 3) {
                tell_shift(s, sign * shift, d);
                return;
            }
        }
    }
}

static void find_confined(const struct slices *s, struct diagnosis *d)
{
    char name[64], other[64];
    const int64_t group = only_wrong_group(s);
    const bool is_few = s->bad_slices == 1 || s->bad_slices * 4 <= s->count + 3;
    if (s->count < 2 || s->bad_slices == 0 || s->bad_slices == s->count || (!is_few && group < 0)) {
        return;
    }
    if (!is_few) {
        find(d, "confined", "all wrong elements lie in %s %" PRId64, group_word(s), group);
        return;
    }
    int64_t first = 0, last = s->count - 1;
    while (s->bad[first] == 0) {
        ++first;
    }
    while (s->bad[last] == 0) {
        --last;
    }
    if (s->bad_slices == 1) {
        find(d, "confined", "all wrong elements lie in %s", slice_name(s, first, name));
    } else if (last - first + 1 == s->bad_slices && group >= 0) {
        find(d, "confined", "all wrong elements lie in %s to %" PRId64, slice_name(s, first, name),
             last - first + row_in_group(s, first));
    } else if (last - first + 1 == s->bad_slices) {
        find(d, "confined", "all wrong elements lie in %s %" PRId64 " to %" PRId64, s->axes->names[s->axis], first,
             last);
    } else if (s->bad_slices == 2) {
        find(d, "confined", "all wrong elements lie in %s and %s", slice_name(s, first, name),
             slice_name(s, last, other));
    } else if (group >= 0) {
        find(d, "confined", "all wrong elements lie in %s %" PRId64, group_word(s), group);
    }
}

/* --- NaN, zeros ------------------------------------------------------------------------------------------ */

static void find_special(const struct slices *s, struct diagnosis *d)
{
    const struct tensor *got = s->sides->got;
    int64_t special = 0, first = -1, different = 0;
    char place[PLACE_TEXT];
    for (int64_t at = 0; (at = next_difference(got, s->golden, at)) < got->elems; ++at) {
        ++different;
        if (!isfinite(tensor_get(got, at)) && isfinite(tensor_get(s->golden, at))) {
            first = special++ ? first : at;
        }
    }
    if (special > 0) {
        find(d, "not-finite", "%" PRId64 " element%s NaN or infinite where a number belongs, the first at %s",
             special, word_for(special, " is", "s are"), axes_place(s->axes, got, first, place));
    }
    int64_t zeros = 0;
    while (zeros < got->elems && tensor_get(got, zeros) == 0) {
        ++zeros;
    }
    if (zeros == got->elems && different > 0) {
        find(d, "zero", "everything is zero: was it written at all?");
    }
}

/* Along every axis that could be meant. */
static void diagnose_axis(struct slices *s, int axis, bool is_folded, struct diagnosis *d)
{
    enum { MOST_SLICES = 4096 }; /* pairs are tried */
    if (open_slices(s, axis, is_folded)) {
        const int before = d->count;
        if (!find_scaled_groups(s, d)) {
            find_scaled(s, d);
        }
        if (d->count == before && s->bad_slices > 1 && s->bad_slices <= MOST_SLICES) {
            find_shifted(s, d); /* first: shifted rows that are zero look exchanged */
            if (d->count == before && s->bad_slices <= 64) {
                find_swapped(s, d);
            }
        }
        if (d->count == before) {
            find_confined(s, d);
        }
    }
    free(s->bad);
    s->bad = NULL;
}

static bool is_confined(const struct diagnosis *d)
{
    for (int i = 0; i < d->count; ++i) {
        if (strcmp(d->findings[i].code, "confined") != 0) {
            return false;
        }
    }
    return true;
}

/* [batch, token, ...]: what befell the rows of one sequence is seen neither in whole sequences nor in the tokens of all. It
 * says more than where it lies. */
static void diagnose_rows_of_a_batch(struct slices *s, struct diagnosis *d)
{
    struct diagnosis rows = {.count = 0};
    if (is_confined(d)) {
        diagnose_axis(s, s->axes->row_axis, true, &rows);
        *d = rows.count > 0 ? rows : *d;
    }
}

/* --- rows in another order ------------------------------------------------------------------------------- */

struct row_key {
    const unsigned char *bytes;
    size_t size;
    int64_t row;
};

static int compare_keys(const void *a, const void *b)
{
    const struct row_key *x = a, *y = b;
    const int order = memcmp(x->bytes, y->bytes, x->size);
    return order != 0 ? order : x->row < y->row ? -1 : 1;
}

/* The rows of a tensor (all axes but the last), sorted by their bytes. */
static struct row_key *sort_rows(const struct tensor *t, int64_t rows)
{
    struct row_key *keys = calloc((size_t)rows + 1, sizeof *keys);
    const size_t bytes = tensor_bytes(t) / (size_t)rows;
    for (int64_t i = 0; keys && i < rows; ++i) {
        keys[i] = (struct row_key){(const unsigned char *)t->data + (size_t)i * bytes, bytes, i};
    }
    if (keys) {
        qsort(keys, (size_t)rows, sizeof *keys, compare_keys);
    }
    return keys;
}

/* Statistics in another order hold the same rows: where each of them went is a question of places, not of numbers. */
static void find_reordered(const struct slices *s, struct diagnosis *d)
{
    enum { LEAST_ROWS = 4, MOST_ROWS = 1 << 20 };
    const struct tensor *got = s->sides->got, *want = s->golden;
    const int64_t inner = got->rank > 1 ? got->dims[got->rank - 1] : 0, rows = inner > 0 ? got->elems / inner : 0;
    if (got->dtype != want->dtype || rows < LEAST_ROWS || rows > MOST_ROWS) {
        return;
    }
    struct row_key *mine = sort_rows(got, rows), *its = sort_rows(want, rows);
    int64_t moved = 0, first = -1, from = -1;
    bool is_same = mine && its;
    for (int64_t i = 0; is_same && i < rows; ++i) {
        is_same = memcmp(mine[i].bytes, its[i].bytes, mine[i].size) == 0;
        if (is_same && mine[i].row != its[i].row) {
            ++moved;
            from = first < 0 || mine[i].row < first ? its[i].row : from;
            first = first < 0 || mine[i].row < first ? mine[i].row : first;
        }
    }
    if (is_same && moved > 0) {
        char place[PLACE_TEXT], source[PLACE_TEXT];
        find(d, "reordered",
             "the same rows in another order, %" PRId64 " of %" PRId64 " elsewhere: %s holds what belongs to %s",
             moved, rows, axes_place(s->axes, got, first * inner, place),
             axes_place(s->axes, got, from * inner, source));
    }
    free(mine);
    free(its);
}

/* Heads that are scaled say more than what was found before. */
static void add_findings(struct diagnosis *d, const struct diagnosis *found, bool is_head)
{
    if (is_head && found->count > 0 && strcmp(found->findings[0].code, "scaled") == 0) {
        d->count = 0;
    }
    for (int i = 0; i < found->count && d->count < MOST_FINDINGS; ++i) {
        d->findings[d->count++] = found->findings[i];
    }
}

void diagnose(const struct comparison_sides *sides, const struct standard *standard, const struct axes *axes,
              struct diagnosis *d)
{
    struct slices s = {
        .sides = sides, .golden = sides->trusted ? sides->trusted : sides->want, .standard = standard, .axes = axes};
    d->count = 0;
    find_special(&s, d);
    if (find_all_scaled(&s, d)) {
        return;
    }
    for (int axis = 0; axis < axes->rank; ++axis) {
        if (axis == axes->head_axis || axis == axes->row_axis || axis == 0 || axes->rank == 2) {
            struct diagnosis found = {.count = 0};
            diagnose_axis(&s, axis, false, &found);
            add_findings(d, &found, axis == axes->head_axis);
        }
    }
    if (axes->row_axis == 1) {
        diagnose_rows_of_a_batch(&s, d);
    }
    if (d->count == 0) {
        find_reordered(&s, d);
    }
}
