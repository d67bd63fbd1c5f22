/* Self-checks of an indexer call's inputs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_indexer.h"
#include "cli.h"
#include "facts.h"
#include "inspect.h"

struct slots_tally {
    int64_t outside, absent, duplicates, blind;
    char first_outside[128], first_duplicate[128], first_blind[64];
};

static void note_first(char *text, size_t bytes, int64_t number, int64_t row, int64_t slot, int64_t index)
{
    snprintf(text, bytes, "(batch %" PRId64 ", token %" PRId64 ", slot %" PRId64 ") = %" PRId64, number, row, slot,
             index);
}

/* last_seen[key]: the row, counted from 1, that chose the key last. */
static void tally_row(const struct indexer_problem *p, const struct indexer_sequence *s, int64_t number, int64_t i,
                      int64_t *last_seen, struct slots_tally *t)
{
    const int64_t limit = indexer_slot_limit(p, s, i), row = s->row_begin + i;
    int64_t live = 0;
    for (int64_t j = 0; j < limit; ++j) {
        const int32_t index = *(const int32_t *)indexer_element(&p->indices, row * p->topk + j);
        if (index < 0 || index >= s->live_keys) {
            t->absent += index == -1;
            if (index != -1 && t->outside++ == 0) {
                note_first(t->first_outside, sizeof t->first_outside, number, i, j, index);
            }
            continue;
        }
        ++live;
        if (last_seen[index] == row + 1 && t->duplicates++ == 0) {
            note_first(t->first_duplicate, sizeof t->first_duplicate, number, i, j, index);
        }
        last_seen[index] = row + 1;
    }
    if (live == 0 && t->blind++ == 0) {
        snprintf(t->first_blind, sizeof t->first_blind, "(batch %" PRId64 ", token %" PRId64 ")", number, i);
    }
}

static bool tally_slots(const struct indexer_problem *p, struct slots_tally *t)
{
    int64_t *last_seen = calloc((size_t)p->keys + 1, sizeof *last_seen);
    for (int64_t number = 0; last_seen && number < indexer_sequence_count(p); ++number) {
        const struct indexer_sequence s = indexer_sequence_at(p, number);
        for (int64_t i = 0; i < s.live_rows; ++i) {
            tally_row(p, &s, number, i, last_seen, t);
        }
    }
    const bool is_good = last_seen != NULL;
    free(last_seen);
    return is_good || cli_fail(CLI_USAGE, "out of memory");
}

static void report_slots(const struct slots_tally *t, const struct findings *findings)
{
    if (t->outside > 0) {
        add_finding(findings, SEVERITY_ERROR, "sparseIndices", "index-range",
                    "%" PRId64 " live %s a key that the sequence has not, the first %s: skipped here, read out of "
                    "bounds on a device",
                    t->outside, word_for(t->outside, "slot names", "slots name"), t->first_outside);
    }
    if (t->duplicates > 0) {
        add_finding(findings, SEVERITY_WARNING, "sparseIndices", "index-duplicate",
                    "%" PRId64 " %s a key that the row named before, the first %s: both count", t->duplicates,
                    word_for(t->duplicates, "slot names", "slots name"), t->first_duplicate);
    }
    if (t->absent > 0) {
        add_finding(findings, SEVERITY_NOTE, "sparseIndices", "index-absent", "%" PRId64 " live %s -1: skipped",
                    t->absent, word_for(t->absent, "slot holds", "slots hold"));
    }
    if (t->blind > 0) {
        add_finding(findings, SEVERITY_NOTE, "sparseIndices", "blind-rows",
                    "%" PRId64 " %s no live slot, the first is %s: their gradients are zero", t->blind,
                    word_for(t->blind, "row has", "rows have"), t->first_blind);
    }
}

/* --- numbers --------------------------------------------------------------------------------------------- */

struct marks {
    char *rows, *keys, *slots;
};

static void mark_live(const struct indexer_problem *p, struct marks *m)
{
    for (int64_t number = 0; number < indexer_sequence_count(p); ++number) {
        const struct indexer_sequence s = indexer_sequence_at(p, number);
        for (int64_t i = 0; i < s.live_rows; ++i) {
            const int64_t row = s.row_begin + i, limit = indexer_slot_limit(p, &s, i);
            for (int64_t j = 0; j < limit; ++j) {
                const int32_t index = *(const int32_t *)indexer_element(&p->indices, row * p->topk + j);
                if (index >= 0 && index < s.live_keys) {
                    m->rows[row] = m->slots[row * p->topk + j] = 1;
                    m->keys[s.key_begin + index] = 1;
                }
            }
        }
    }
}

static void inspect_one(struct call *call, const char *name, const char *is_live, int64_t parts,
                        const struct findings *findings)
{
    const struct tensor *t = tensor_set_find(&call->inputs, name);
    if (t && parts > 0 && t->elems % parts == 0 && t->elems > 0) {
        const struct axes axes = call_axes(call, t);
        inspect_numbers(t, &axes, is_live, t->elems / parts, findings);
    }
}

static void inspect_values(struct call *call, const struct indexer_problem *p, const struct findings *findings)
{
    struct marks m = {calloc((size_t)p->rows + 1, 1), calloc((size_t)p->keys + 1, 1),
                      calloc((size_t)(p->rows * p->topk) + 1, 1)};
    if (m.rows && m.keys && m.slots) {
        mark_live(p, &m);
        inspect_one(call, "query", m.rows, p->rows, findings);
        inspect_one(call, "weights", m.rows, p->rows, findings);
        inspect_one(call, "key", m.keys, p->keys, findings);
        inspect_one(call, "dy", m.slots, p->rows * p->topk, findings);
    }
    free(m.rows);
    free(m.keys);
    free(m.slots);
}

/* --- the forward ----------------------------------------------------------------------------------------- */

/* The key's place in its tensor: in a block of the table, or behind the sequence's first. */
static int64_t place_of_key(const struct indexer_forward_problem *p, int64_t number,
                            const struct indexer_sequence *sequence, int64_t key)
{
    if (!p->is_paged) {
        return sequence->key_begin + key;
    }
    const int64_t entry = number * p->block_table.dims[1] + key / p->block_size;
    return *(const int32_t *)indexer_element(&p->block_table, entry) * p->block_size + key % p->block_size;
}

static void mark_seen(const struct indexer_forward_problem *p, char *rows, char *keys)
{
    const struct indexer_tokens tokens = indexer_forward_tokens(p);
    for (int64_t number = 0; number < indexer_tokens_count(&tokens); ++number) {
        const struct indexer_sequence s = indexer_tokens_sequence(&tokens, number);
        int64_t seen = 0;
        for (int64_t i = 0; i < s.live_rows; ++i) {
            const int64_t limit = indexer_forward_limit(p, &s, i);
            rows[s.row_begin + i] = limit > 0;
            seen = limit > seen ? limit : seen;
        }
        for (int64_t key = 0; key < seen; ++key) {
            keys[place_of_key(p, number, &s, key)] = 1;
        }
    }
}

bool inspect_forward_numbers(struct call *call, const struct indexer_forward_problem *p,
                             const struct findings *findings)
{
    const int64_t all_keys = p->key.dims[0] * (p->has_packed_keys ? 1 : p->key.dims[1]);
    char *rows = calloc((size_t)p->rows + 1, 1), *keys = calloc((size_t)all_keys + 1, 1);
    const bool is_good = rows && keys;
    if (is_good) {
        mark_seen(p, rows, keys);
        inspect_one(call, "query", rows, p->rows, findings);
        inspect_one(call, "weights", rows, p->rows, findings);
        inspect_one(call, "key", keys, all_keys, findings);
    }
    free(rows);
    free(keys);
    return is_good || cli_fail(CLI_USAGE, "out of memory");
}

/* --- the gradient ---------------------------------------------------------------------------------------- */

bool inspect_indexer(struct call *call, const struct findings *findings)
{
    struct tensor_set outputs = {0};
    struct checked_indexer checked = {0};
    struct slots_tally tally = {0};
    if (!operation_of(call)->make_outputs(call, &outputs)) {
        return false;
    }
    bool is_good = true;
    if (!check_indexer(call, &outputs, &checked)) {
        add_finding(findings, SEVERITY_ERROR, "", "rejected", "%s", cli_failure());
        cli_forgive();
    } else if (!checked.problem.is_nothing) {
        is_good = tally_slots(&checked.problem, &tally);
        report_slots(&tally, findings);
        inspect_values(call, &checked.problem, findings);
    }
    release_indexer(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}
