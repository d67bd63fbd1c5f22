/* The length tensors and the order of elements: what phase 2 and the definition share. */
#include "op/indexer/indexer.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"

/* --- elements counted row-major ----------------------------------------------------------------------------- */

void *indexer_element(const struct ag_view *view, int64_t flat)
{
    int64_t offset = 0;
    for (int d = view->rank - 1; d >= 0; --d) {
        offset += flat % view->dims[d] * view->strides[d];
        flat /= view->dims[d];
    }
    return (char *)ag_view_origin(view) + offset * (int64_t)ag_dtype_bytes(view->dtype);
}

/* A run of elements inside the last dim: one start, one stride. */
struct run {
    char *start;
    int64_t count, step_bytes;
};

/* view has a dim, at least. */
static struct run run_at(const struct ag_view *view, int64_t first, int64_t count)
{
    const int64_t width = view->dims[view->rank - 1], step = view->strides[view->rank - 1];
    const int64_t left = width - first % width;
    return (struct run){.start = indexer_element(view, first),
                        .count = count < left ? count : left,
                        /* A dim of 1 may have any stride, also one whose bytes no number holds. */
                        .step_bytes = width > 1 ? step * (int64_t)ag_dtype_bytes(view->dtype) : 0};
}

static void copy_strided(char *to, const char *from, int64_t from_step, int64_t count, size_t bytes)
{
    if (from_step == (int64_t)bytes) {
        memcpy(to, from, (size_t)count * bytes);
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        memcpy(to + i * (int64_t)bytes, from + i * from_step, bytes);
    }
}

void indexer_gather(void *dense, const struct ag_view *view, int64_t first, int64_t count)
{
    const size_t bytes = ag_dtype_bytes(view->dtype);
    char *to = dense;
    while (count > 0) {
        const struct run run = run_at(view, first, count);
        copy_strided(to, run.start, run.step_bytes, run.count, bytes);
        to += run.count * (int64_t)bytes;
        first += run.count;
        count -= run.count;
    }
}

/* --- lengths ------------------------------------------------------------------------------------------------ */

static int64_t length_at(const struct ag_view *lengths, int64_t i)
{
    int32_t value;
    memcpy(&value, indexer_element(lengths, i), sizeof value);
    return value;
}

static ag_status check_prefix_sums(const struct ag_view *lengths, const char *argument, int64_t count, int64_t tokens)
{
    int64_t before = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t value = length_at(lengths, i);
        AG_REQUIRE(value >= before, INVALID,
                   "%s: entry %" PRId64 " is %" PRId64 " after %" PRId64 ", want prefix sums that never fall",
                   argument, i, value, before);
        AG_REQUIRE(value <= tokens, INVALID,
                   "%s: entry %" PRId64 " is %" PRId64 ", want at most the %" PRId64 " tokens of the tensor",
                   argument, i, value, tokens);
        before = value;
    }
    return AG_OK;
}

ag_status indexer_check_lengths(const struct indexer_problem *p)
{
    if (!p->is_packed || p->is_nothing) {
        return AG_OK;
    }
    AG_TRY(check_prefix_sums(&p->query_lengths, "actualSeqQLenOptional", p->sequences, p->rows));
    return check_prefix_sums(&p->key_lengths, "actualSeqKvLenOptional", p->sequences, p->keys);
}

int64_t indexer_sequence_count(const struct indexer_problem *p)
{
    return p->sequences + (p->is_packed ? 1 : 0);
}

static struct indexer_sequence packed_sequence(const struct indexer_problem *p, int64_t number)
{
    const int64_t row_begin = number ? length_at(&p->query_lengths, number - 1) : 0;
    const int64_t key_begin = number ? length_at(&p->key_lengths, number - 1) : 0;
    if (number == p->sequences) { /* the tail */
        return (struct indexer_sequence){
            .row_begin = row_begin, .rows = p->rows - row_begin, .key_begin = key_begin, .keys = p->keys - key_begin};
    }
    const int64_t rows = length_at(&p->query_lengths, number) - row_begin;
    const int64_t keys = length_at(&p->key_lengths, number) - key_begin;
    return (struct indexer_sequence){.row_begin = row_begin,
                                     .rows = rows,
                                     .live_rows = rows,
                                     .key_begin = key_begin,
                                     .keys = keys,
                                     .live_keys = keys};
}

/* A count, cut to what the tensor has; all of it where no counts are given. */
static int64_t count_at(const struct ag_view *counts, int64_t number, int64_t most)
{
    const int64_t value = counts->present ? length_at(counts, number) : most;
    return value < 0 ? 0 : value > most ? most : value;
}

struct indexer_sequence indexer_sequence_at(const struct indexer_problem *p, int64_t number)
{
    if (p->is_packed) {
        return packed_sequence(p, number);
    }
    const int64_t rows = p->rows / p->sequences, keys = p->keys / p->sequences;
    return (struct indexer_sequence){.row_begin = number * rows,
                                     .rows = rows,
                                     .live_rows = count_at(&p->query_lengths, number, rows),
                                     .key_begin = number * keys,
                                     .keys = keys,
                                     .live_keys = count_at(&p->key_lengths, number, keys)};
}

int64_t indexer_slot_limit(const struct indexer_problem *p, const struct indexer_sequence *sequence, int64_t s)
{
    if (s >= sequence->live_rows) {
        return 0;
    }
    const int64_t visible = sequence->live_keys - sequence->live_rows + s + 1;
    const int64_t limit = p->sparse_mode == 3 && visible < p->topk ? visible : p->topk;
    return limit < 0 ? 0 : limit;
}
