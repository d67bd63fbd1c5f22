/* Self-checks of a mixture-of-experts call's inputs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "call_moe.h"
#include "cli.h"
#include "facts.h"
#include "inspect.h"

/* --- the map --------------------------------------------------------------------------------------------- */

struct map_tally {
    int64_t outside, duplicates, beyond; /* beyond: inside the window, without a row */
    int64_t first_outside, first_duplicate, first_other, first_beyond;
};

static bool tally_map(const struct sorted_map *m, struct map_tally *t)
{
    int64_t *slot_of = calloc((size_t)m->slots + 1, sizeof *slot_of); /* counted from 1 */
    for (int64_t i = 0; slot_of && i < m->slots; ++i) {
        const int64_t position = m->indices[i];
        if (position < 0 || position >= m->slots) {
            t->first_outside = t->outside++ ? t->first_outside : i;
            continue;
        }
        if (slot_of[position] && t->duplicates++ == 0) {
            t->first_duplicate = i;
            t->first_other = slot_of[position] - 1;
        }
        slot_of[position] = i + 1;
        if (position >= m->begin && position < m->end && position - m->begin >= m->local_rows) {
            t->first_beyond = t->beyond++ ? t->first_beyond : i;
        }
    }
    const bool is_good = slot_of != NULL;
    free(slot_of);
    return is_good || cli_fail(CLI_USAGE, "out of memory");
}

static void report_map(const struct sorted_map *m, const struct map_tally *t, const struct findings *findings)
{
    const int32_t *indices = m->indices;
    if (t->duplicates > 0) {
        add_finding(findings, SEVERITY_ERROR, "sortedIndices", "map-duplicate",
                    "no permutation: %" PRId64 " %s twice, first %d in slots %" PRId64 " and %" PRId64
                    " (token %" PRId64 ", slot %" PRId64 "); %s",
                    t->duplicates, word_for(t->duplicates, "position appears", "positions appear"),
                    (int)indices[t->first_duplicate], t->first_other, t->first_duplicate,
                    t->first_duplicate / m->topk, t->first_duplicate % m->topk, m->of_duplicates);
    }
    if (t->outside > 0) {
        const bool is_minus_one = indices[t->first_outside] == -1;
        add_finding(findings, is_minus_one ? SEVERITY_NOTE : SEVERITY_ERROR, "sortedIndices", "map-range",
                    "%" PRId64 " %s not in [0, %" PRId64 "), the first %d at slot %" PRId64 " (token %" PRId64
                    ", slot %" PRId64 "): such slots are dropped",
                    t->outside, word_for(t->outside, "position is", "positions are"), m->slots,
                    (int)indices[t->first_outside], t->first_outside, t->first_outside / m->topk,
                    t->first_outside % m->topk);
    }
    if (t->beyond > 0) {
        add_finding(findings, SEVERITY_WARNING, m->rows, "map-rows",
                    "%" PRId64 " %s in the window but behind the last row, the first slot %" PRId64
                    ": dropped here, read out of bounds on a device",
                    t->beyond, word_for(t->beyond, "slot lies", "slots lie"), t->first_beyond);
    }
}

bool inspect_map(const struct sorted_map *map, const struct findings *findings)
{
    struct map_tally tally = {0};
    const bool is_good = tally_map(map, &tally);
    if (is_good) {
        report_map(map, &tally, findings);
    }
    return is_good;
}

/* --- numbers --------------------------------------------------------------------------------------------- */

static void inspect_one(struct call *call, const char *name, const char *is_live, int64_t row_elems,
                        const struct findings *findings)
{
    const struct tensor *t = tensor_set_find(&call->inputs, name);
    if (t && row_elems > 0) {
        const struct axes axes = call_axes(call, t);
        inspect_numbers(t, &axes, is_live, row_elems, findings);
    }
}

static void inspect_values(struct call *call, const struct moe_problem *p, const int32_t *indices,
                           const struct findings *findings)
{
    char *slots = calloc((size_t)p->slots + 1, 1);
    const struct tensor *permuted = tensor_set_find(&call->inputs, "permutedTokens");
    char *all_rows = calloc((size_t)(permuted ? permuted->dims[0] : 0) + 1, 1);
    for (int64_t i = 0; slots && all_rows && i < p->slots; ++i) {
        const int64_t row = indices[i] - p->window_begin;
        const bool is_local = indices[i] >= p->window_begin && indices[i] < p->window_end && row < p->local_rows;
        slots[i] = is_local;
        if (is_local && permuted && row < permuted->dims[0]) {
            all_rows[row] = 1;
        }
    }
    if (slots && all_rows) {
        inspect_one(call, "unpermutedTokensGrad", NULL, p->hidden, findings);
        inspect_one(call, "permutedTokens", all_rows, p->hidden, findings);
        inspect_one(call, "probs", slots, 1, findings);
    }
    free(slots);
    free(all_rows);
}

void inspect_probs(const struct call *call, const struct findings *findings)
{
    const struct tensor *probs = tensor_set_find(&call->inputs, "probs");
    int64_t odd = 0, first = 0;
    char place[PLACE_TEXT];
    for (int64_t at = 0; probs && at < probs->elems; ++at) {
        const double value = tensor_get(probs, at);
        if (value < 0 || value > 1) {
            first = odd++ ? first : at;
        }
    }
    if (odd > 0) {
        const struct axes axes = axes_of_tensor(probs);
        add_finding(findings, SEVERITY_NOTE, "probs", "probs-range",
                    "%" PRId64 " %s not in [0, 1], the first %g at %s", odd, word_for(odd, "is", "are"),
                    tensor_get(probs, first), axes_place(&axes, probs, first, place));
    }
}

bool inspect_moe(struct call *call, const struct findings *findings)
{
    struct tensor_set outputs = {0};
    struct checked_moe checked = {0};
    if (!operation_of(call)->make_outputs(call, &outputs)) {
        return false;
    }
    bool is_good = true;
    if (!check_moe(call, &outputs, &checked)) {
        add_finding(findings, SEVERITY_ERROR, "", "rejected", "%s", cli_failure());
        cli_forgive();
    } else if (!checked.problem.is_empty) {
        const struct moe_problem *p = &checked.problem;
        const struct sorted_map map = {.indices = tensor_set_find(&call->inputs, "sortedIndices")->data,
                                       .slots = p->slots,
                                       .topk = p->topk,
                                       .begin = p->window_begin,
                                       .end = p->window_end,
                                       .local_rows = p->local_rows,
                                       .rows = "permutedTokens",
                                       .of_duplicates = "the last one owns the row"};
        is_good = inspect_map(&map, findings);
        inspect_values(call, p, map.indices, findings);
        inspect_probs(call, findings);
    }
    release_moe(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}
