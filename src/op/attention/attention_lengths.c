#include "op/attention/attention_lengths.h"

#include <assert.h>
#include <inttypes.h>

#include "base/check.h"
#include "runtime/tensor.h"

/* Walks a list: where the next sequence begins, and whether the zero tail has begun. */
struct walk {
    int64_t begin;
    bool is_tail;
};

/* Length of the entry whose end is `end`; moves on. Negative: the entry is wrong. */
static int64_t step(struct walk *walk, int64_t end)
{
    walk->is_tail = walk->is_tail || (end == 0 && walk->begin > 0);
    if (walk->is_tail) {
        return end == 0 ? 0 : -1;
    }
    const int64_t length = end < walk->begin ? -1 : end - walk->begin;
    walk->begin = end;
    return length;
}

static ag_status fail_entry(const struct attention_lengths *lengths, int64_t index, bool is_tail)
{
    const int64_t before = index > 0 ? lengths->ends[index - 1] : 0;
    if (is_tail) {
        return ag_fail(AG_INVALID,
                       "%s[%" PRId64 "]: got %" PRId64 ", want 0 (a 0 after a positive end starts the tail)",
                       lengths->name, index, lengths->ends[index]);
    }
    return ag_fail(AG_INVALID,
                   "%s[%" PRId64 "]: got %" PRId64 ", want at least %" PRId64
                   " (ends are cumulative and never fall), or 0 for this and all that follow",
                   lengths->name, index, lengths->ends[index], before);
}

ag_status attention_read_lengths(const aclIntArray *array, const char *name, int64_t rows,
                                 struct attention_lengths *lengths)
{
    struct walk walk = {0, false};
    *lengths = (struct attention_lengths){.name = name};
    AG_TRY(ag_int_array_values(array, name, &lengths->ends, &lengths->count));
    AG_REQUIRE(lengths->count > 0, NULLPTR, "%s: got %s, want a list of cumulative ends", name,
               array ? "a list of size 0" : "null");
    for (int64_t b = 0; b < lengths->count; ++b) {
        const bool was_tail = walk.is_tail;
        if (step(&walk, lengths->ends[b]) < 0) {
            return fail_entry(lengths, b, was_tail);
        }
        lengths->live_count += !walk.is_tail;
    }
    lengths->sum = walk.begin;
    AG_REQUIRE(lengths->sum <= rows, INVALID, "%s: got %" PRId64 " rows in all, want at most T = %" PRId64, name,
               lengths->sum, rows);
    return AG_OK;
}

void attention_lay_out_sequences(const struct attention_lengths *query, const struct attention_lengths *key,
                                 struct attention_sequence *sequences)
{
    struct walk query_walk = {0, false}, key_walk = {0, false};
    assert(query->count == key->count);
    for (int64_t b = 0; b < query->count; ++b) {
        sequences[b] =
            (struct attention_sequence){.batch = b, .query_begin = query_walk.begin, .key_begin = key_walk.begin};
        sequences[b].query_len = step(&query_walk, query->ends[b]);
        sequences[b].key_len = step(&key_walk, key->ends[b]);
    }
}
