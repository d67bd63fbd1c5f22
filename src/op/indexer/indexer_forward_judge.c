/* Whether outputs are right. Scores that are nearly equal may change places by rounding, so a result is judged by what
 * must hold and not by the definition's own choice. With score and bound of the definition, for each row:
 *
 *     slots behind min(K, limit) hold -1 and -inf
 *     before them stand different keys that the row sees
 *     a value is the score of its key, within that key's bound and the rounding to its type
 *     no key stands before one whose score is higher by more than both bounds; NaN stand last
 *     no key is missing whose score is higher than that of one chosen by more than both bounds
 *
 * Where float may overflow the bound is infinite, and any place and value will do. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/elem.h"
#include "base/memory.h"
#include "op/indexer/indexer_forward.h"

struct judge {
    const struct indexer_forward_problem *p;
    double *score, *bound; /* [the most keys of a sequence] */
    bool *is_chosen;       /* [likewise] */
    int64_t row, limit;    /* the row at hand, and what it sees */
    char *text;
    size_t text_bytes;
};

static bool refuse(const struct judge *judge, int64_t slot, int32_t key, const char *what)
{
    snprintf(judge->text, judge->text_bytes,
             "row %" PRId64 " of %" PRId64 " keys, slot %" PRId64 ": key %" PRId32 " %s", judge->row, judge->limit,
             slot, key, what);
    return false;
}

static int32_t key_at(const struct judge *judge, int64_t slot)
{
    int32_t key;
    memcpy(&key, indexer_element(&judge->p->indices, judge->row * judge->p->topk + slot), sizeof key);
    return key;
}

static double value_at(const struct judge *judge, int64_t slot)
{
    const struct indexer_forward_problem *p = judge->p;
    return ag_elem_load(p->elem, indexer_element(&p->values, judge->row * p->topk + slot), 0);
}

/* --- one slot ----------------------------------------------------------------------------------------------- */

/* The values that scores at the ends of the bound are rounded to; rounding keeps the order. */
static bool is_value(const struct judge *judge, int32_t key, double value)
{
    const double score = judge->score[key], bound = judge->bound[key];
    if (isnan(score)) {
        return isnan(value);
    }
    const float low = nextafterf((float)(score - bound), -INFINITY);
    const float high = nextafterf((float)(score + bound), INFINITY);
    return isinf(bound) ||
           (value >= ag_elem_round(judge->p->elem, low) && value <= ag_elem_round(judge->p->elem, high));
}

/* More than rounding can explain. */
static bool is_surely_higher(const struct judge *judge, int64_t a, int64_t b)
{
    if (isnan(judge->score[b])) {
        return !isnan(judge->score[a]) && isfinite(judge->bound[a]);
    }
    return judge->score[a] - judge->bound[a] >
           judge->score[b] + judge->bound[b]; /* false for NaN and infinite bounds */
}

static bool accepts_slot(struct judge *judge, int64_t slot, int64_t count)
{
    const int32_t key = key_at(judge, slot);
    const bool has_value = judge->p->values.present;
    if (slot >= count) {
        return (key == -1 && (!has_value || value_at(judge, slot) == -INFINITY)) ||
               refuse(judge, slot, key, "or its value in an empty slot");
    }
    if (key < 0 || key >= judge->limit || judge->is_chosen[key]) {
        return refuse(judge, slot, key, "is none that the row sees, or not the first time");
    }
    judge->is_chosen[key] = true;
    if (has_value && !is_value(judge, key, value_at(judge, slot))) {
        char text[160];
        snprintf(text, sizeof text, "has value %.9g, want %.17g within %.3g", value_at(judge, slot),
                 judge->score[key], judge->bound[key]);
        return refuse(judge, slot, key, text);
    }
    return slot == 0 || !is_surely_higher(judge, key, key_at(judge, slot - 1)) ||
           refuse(judge, slot, key, "is higher than the one before it");
}

/* --- one row ------------------------------------------------------------------------------------------------ */

/* No key that is missing is surely higher than the lowest that is chosen. */
static bool has_the_best(const struct judge *judge, int64_t count)
{
    int32_t lowest = count > 0 ? key_at(judge, 0) : -1;
    for (int64_t slot = 1; slot < count; ++slot) {
        const int32_t key = key_at(judge, slot);
        const double upper = judge->score[key] + judge->bound[key];
        if (isnan(judge->score[key]) || upper < judge->score[lowest] + judge->bound[lowest]) {
            lowest = key;
        }
    }
    for (int64_t key = 0; count > 0 && key < judge->limit; ++key) {
        if (!judge->is_chosen[key] && is_surely_higher(judge, key, lowest)) {
            return refuse(judge, count, (int32_t)key, "is missing, and higher than the lowest that is chosen");
        }
    }
    return true;
}

static bool accepts_row(struct judge *judge)
{
    const int64_t topk = judge->p->topk, count = judge->limit < topk ? judge->limit : topk;
    memset(judge->is_chosen, 0, (size_t)judge->limit * sizeof *judge->is_chosen);
    for (int64_t slot = 0; slot < topk; ++slot) {
        if (!accepts_slot(judge, slot, count)) {
            return false;
        }
    }
    return has_the_best(judge, count);
}

/* --- all of them -------------------------------------------------------------------------------------------- */

static ag_status judge_sequence(struct judge *judge, int64_t number, bool *is_right)
{
    const struct indexer_tokens tokens = indexer_forward_tokens(judge->p);
    const struct indexer_sequence sequence = indexer_tokens_sequence(&tokens, number);
    for (int64_t s = 0; s < sequence.rows && *is_right; ++s) {
        judge->row = sequence.row_begin + s;
        judge->limit = indexer_forward_limit(judge->p, &sequence, s);
        AG_TRY(indexer_forward_ref(judge->p, number, s, judge->score, judge->bound));
        *is_right = accepts_row(judge);
    }
    return AG_OK;
}

ag_status indexer_forward_judge(const struct indexer_forward_problem *p, bool *is_right, char *text, size_t bytes)
{
    struct judge judge = {.p = p, .text = text, .text_bytes = bytes};
    const struct indexer_tokens tokens = indexer_forward_tokens(p);
    const int64_t most = p->is_nothing ? 0 : p->has_packed_keys ? p->keys : p->keys / p->sequences;
    double *block = ag_alloc((size_t)(2 * most + 2) * sizeof *block + (size_t)(most + 1) * sizeof *judge.is_chosen);
    ag_status status = AG_OK;
    *is_right = true;
    AG_REQUIRE(block, CREATE_EXECUTOR, "out of memory for the reference");
    judge.score = block;
    judge.bound = block + most + 1;
    judge.is_chosen = (bool *)(block + 2 * most + 2);
    for (int64_t b = 0; !p->is_nothing && status == AG_OK && *is_right && b < indexer_tokens_count(&tokens); ++b) {
        status = judge_sequence(&judge, b, is_right);
    }
    ag_free(block);
    return status;
}
