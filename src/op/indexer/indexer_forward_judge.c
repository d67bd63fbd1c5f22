/* Which results are right. Scores that are nearly equal may change places by rounding, so the definition takes the result
 * at hand wherever nothing speaks against it. With score and bound of the definition, for each row:
 *
 *     slots behind min(K, limit) hold -1 and -inf
 *     before them stand different keys that the row sees
 *     no key stands behind one whose score is lower by more than both bounds; NaN stand last
 *     no key is missing whose score is higher than that of one chosen by more than both bounds
 *     a value is the score of its key, within that key's bound and the rounding to its type
 *
 * Where float may overflow the bound is infinite, and any place and value will do. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/elem.h"
#include "base/memory.h"
#include "op/indexer/indexer_forward.h"

enum { OPEN = -2 }; /* a slot whose key is wrong */

struct key {
    double score;
    int32_t number;
};

struct settling {
    double *score, *bound; /* [limit] */
    struct key *order;     /* [limit] best first */
    bool *is_chosen;       /* [limit] */
    int64_t limit, topk, count;
};

/* --- the definition's order --------------------------------------------------------------------------------- */

/* Higher scores first, NaN last, then lower numbers first. */
static int compare_keys(const void *left, const void *right)
{
    const struct key *a = left, *b = right;
    const bool a_is_nan = isnan(a->score), b_is_nan = isnan(b->score);
    if (a_is_nan != b_is_nan) {
        return a_is_nan ? 1 : -1;
    }
    if (!a_is_nan && a->score != b->score) {
        return a->score > b->score ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

static void sort_keys(struct settling *s)
{
    for (int64_t t = 0; t < s->limit; ++t) {
        s->order[t] = (struct key){.score = s->score[t], .number = (int32_t)t};
    }
    qsort(s->order, (size_t)s->limit, sizeof *s->order, compare_keys);
}

/* More than rounding can explain. */
static bool is_surely_higher(const struct settling *s, int64_t a, int64_t b)
{
    if (isnan(s->score[b])) {
        return !isnan(s->score[a]) && isfinite(s->bound[a]);
    }
    return s->score[a] - s->bound[a] > s->score[b] + s->bound[b]; /* false for NaN and infinite bounds */
}

/* --- what of the result at hand is right -------------------------------------------------------------------- */

static void take_slots(struct settling *s, const int32_t *got, int32_t *want)
{
    int64_t before = -1; /* the last right slot */
    for (int64_t j = 0; j < s->topk; ++j) {
        const int32_t key = got && j < s->count ? got[j] : OPEN;
        want[j] = j < s->count ? OPEN : -1;
        if (key >= 0 && key < s->limit && !s->is_chosen[key] &&
            (before < 0 || !is_surely_higher(s, key, want[before]))) {
            want[j] = key;
            s->is_chosen[key] = true;
            before = j;
        }
    }
}

/* The slot of the lowest key that is chosen; -1: none is. */
static int64_t find_lowest(const struct settling *s, const int32_t *want)
{
    int64_t lowest = -1;
    for (int64_t j = 0; j < s->count; ++j) {
        const int32_t key = want[j], low = lowest < 0 ? -1 : want[lowest];
        if (key >= 0 &&
            (low < 0 || isnan(s->score[key]) || s->score[key] + s->bound[key] < s->score[low] + s->bound[low])) {
            lowest = j;
        }
    }
    return lowest;
}

/* The best missing key takes the place of the lowest chosen one where it is surely higher. */
static void drop_lowest(struct settling *s, int32_t *want)
{
    const int64_t slot = find_lowest(s, want);
    for (int64_t t = 0; slot >= 0 && t < s->limit; ++t) {
        if (!s->is_chosen[t] && is_surely_higher(s, t, want[slot])) {
            s->is_chosen[want[slot]] = false;
            want[slot] = OPEN;
            return;
        }
    }
}

/* Open slots get the best keys that are left, in order. */
static void fill_slots(struct settling *s, int32_t *want)
{
    int64_t next = 0;
    for (int64_t j = 0; j < s->count; ++j) {
        if (want[j] == OPEN) {
            while (s->is_chosen[s->order[next].number]) {
                ++next;
            }
            want[j] = s->order[next].number;
            s->is_chosen[want[j]] = true;
        }
    }
}

static void *allocate(struct settling *s)
{
    const size_t limit = (size_t)s->limit + 1;
    char *block = ag_alloc_zeroed(limit * (2 * sizeof *s->score + sizeof *s->order + sizeof *s->is_chosen));
    if (block) {
        s->score = (double *)(void *)block;
        s->bound = s->score + limit;
        s->order = (struct key *)(void *)(s->bound + limit);
        s->is_chosen = (bool *)(s->order + limit);
    }
    return block;
}

ag_status indexer_forward_settle(const struct indexer_forward_problem *p, int64_t number, int64_t row_in_sequence,
                                 const int32_t *got, const struct indexer_forward_row *want)
{
    const struct indexer_tokens tokens = indexer_forward_tokens(p);
    const struct indexer_sequence sequence = indexer_tokens_sequence(&tokens, number);
    struct settling s = {.limit = indexer_forward_limit(p, &sequence, row_in_sequence), .topk = p->topk};
    s.count = s.limit < s.topk ? s.limit : s.topk;
    void *block = allocate(&s);
    AG_REQUIRE(block, CREATE_EXECUTOR, "out of memory for the reference");
    const ag_status status = indexer_forward_ref(p, number, row_in_sequence, s.score, s.bound);
    if (status == AG_OK) {
        sort_keys(&s);
        take_slots(&s, got, want->keys);
        drop_lowest(&s, want->keys);
        fill_slots(&s, want->keys);
        for (int64_t j = 0; j < s.topk; ++j) {
            want->values[j] = j < s.count ? s.score[want->keys[j]] : -INFINITY;
            want->bounds[j] = j < s.count ? s.bound[want->keys[j]] : 0;
        }
    }
    ag_free(block);
    return status;
}

/* --- the outputs of a problem ------------------------------------------------------------------------------- */

struct judge {
    const struct indexer_forward_problem *p;
    int32_t *got;                    /* [K] */
    struct indexer_forward_row want; /* [K] each */
    char *text;
    size_t text_bytes;
};

/* The values that scores at the ends of the bound are rounded to; rounding keeps the order. */
static bool is_value(enum ag_elem elem, double value, double score, double bound)
{
    const float low = nextafterf((float)(score - bound), -INFINITY);
    const float high = nextafterf((float)(score + bound), INFINITY);
    if (isnan(score)) {
        return isnan(value);
    }
    return isinf(bound) || (value >= ag_elem_round(elem, low) && value <= ag_elem_round(elem, high));
}

static bool accepts_row(const struct judge *judge, int64_t row)
{
    const struct indexer_forward_problem *p = judge->p;
    for (int64_t j = 0; j < p->topk; ++j) {
        const int64_t at = row * p->topk + j;
        const double score = judge->want.values[j], bound = judge->want.bounds[j];
        const double value = p->values.present ? ag_elem_load(p->elem, indexer_element(&p->values, at), 0) : NAN;
        if (judge->got[j] != judge->want.keys[j] || (p->values.present && !is_value(p->elem, value, score, bound))) {
            snprintf(judge->text, judge->text_bytes,
                     "row %" PRId64 " slot %" PRId64 ": key %" PRId32 " of value %.9g, want key %" PRId32
                     " of %.17g within %.3g",
                     row, j, judge->got[j], value, judge->want.keys[j], score, bound);
            return false;
        }
    }
    return true;
}

static ag_status judge_sequence(const struct judge *judge, int64_t number, bool *is_right)
{
    const struct indexer_forward_problem *p = judge->p;
    const struct indexer_tokens tokens = indexer_forward_tokens(p);
    const struct indexer_sequence sequence = indexer_tokens_sequence(&tokens, number);
    for (int64_t s = 0; s < sequence.rows && *is_right; ++s) {
        indexer_gather(judge->got, &p->indices, (sequence.row_begin + s) * p->topk, p->topk);
        AG_TRY(indexer_forward_settle(p, number, s, judge->got, &judge->want));
        *is_right = accepts_row(judge, sequence.row_begin + s);
    }
    return AG_OK;
}

ag_status indexer_forward_judge(const struct indexer_forward_problem *p, bool *is_right, char *text, size_t bytes)
{
    struct judge judge = {.p = p, .text = text, .text_bytes = bytes};
    const struct indexer_tokens tokens = indexer_forward_tokens(p);
    double *values = ag_alloc((size_t)p->topk * 2 * sizeof *values);
    int32_t *keys = ag_alloc((size_t)p->topk * 2 * sizeof *keys);
    ag_status status = AG_OK;
    *is_right = true;
    if (values && keys) {
        judge.got = keys;
        judge.want =
            (struct indexer_forward_row){.keys = keys + p->topk, .values = values, .bounds = values + p->topk};
        for (int64_t b = 0; !p->is_nothing && status == AG_OK && *is_right && b < indexer_tokens_count(&tokens);
             ++b) {
            status = judge_sequence(&judge, b, is_right);
        }
    }
    const bool has_memory = values && keys;
    ag_free(values);
    ag_free(keys);
    AG_REQUIRE(has_memory, CREATE_EXECUTOR, "out of memory for the reference");
    return status;
}
