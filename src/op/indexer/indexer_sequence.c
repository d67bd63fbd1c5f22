/* The length tensors and the order of elements: what phase 2 and the definitions share. */
#include "op/indexer/indexer_sequence.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "op/indexer/indexer.h"

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

/* --- matrices ----------------------------------------------------------------------------------------------- */

struct ag_matrix indexer_heads_of_row(const struct ag_view *view, int64_t row)
{
    const int64_t *dims = view->dims + view->rank, *strides = view->strides + view->rank; /* from the end */
    return (struct ag_matrix){.data = indexer_element(view, row * dims[-2] * dims[-1]),
                              .rows = dims[-2],
                              .cols = dims[-1],
                              .row_stride = strides[-2],
                              .col_stride = strides[-1]};
}

struct ag_matrix indexer_last_of_row(const struct ag_view *view, int64_t row)
{
    const int64_t cols = view->dims[view->rank - 1];
    return (struct ag_matrix){.data = indexer_element(view, row * cols),
                              .rows = 1,
                              .cols = cols,
                              .col_stride = view->strides[view->rank - 1]};
}

struct ag_matrix indexer_some_keys(const struct ag_view *view, int64_t first, int64_t count)
{
    const int64_t dim = view->dims[view->rank - 1];
    return (struct ag_matrix){.data = indexer_element(view, first * dim),
                              .rows = count,
                              .cols = dim,
                              .row_stride = view->strides[view->rank - 3],
                              .col_stride = view->strides[view->rank - 1]};
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

ag_status indexer_tokens_check(const struct indexer_tokens *t)
{
    if (t->is_packed) {
        AG_TRY(check_prefix_sums(t->query_lengths, t->query_lengths_name, t->sequences, t->rows));
    }
    return t->has_packed_keys ? check_prefix_sums(t->key_lengths, t->key_lengths_name, t->sequences, t->keys) : AG_OK;
}

int64_t indexer_tokens_count(const struct indexer_tokens *t)
{
    return t->sequences + (t->is_packed ? 1 : 0);
}

/* One side of a sequence: where it begins, what it holds, what of that is no padding. */
struct span {
    int64_t begin, count, live;
};

/* Entry `sequences` is the tail. */
static struct span packed_span(const struct ag_view *sums, int64_t sequences, int64_t tokens, int64_t number)
{
    const int64_t begin = number ? length_at(sums, number - 1) : 0;
    if (number == sequences) {
        return (struct span){.begin = begin, .count = tokens - begin};
    }
    const int64_t count = length_at(sums, number) - begin;
    return (struct span){.begin = begin, .count = count, .live = count};
}

/* A count, cut to what the tensor has; all of it where no counts are given. */
static struct span batch_span(const struct ag_view *counts, int64_t sequences, int64_t tokens, int64_t number)
{
    const int64_t most = sequences ? tokens / sequences : 0;
    if (number == sequences) { /* behind packed rows */
        return (struct span){.begin = tokens};
    }
    const int64_t value = counts->present ? length_at(counts, number) : most;
    return (struct span){.begin = number * most, .count = most, .live = value < 0 ? 0 : value > most ? most : value};
}

struct indexer_sequence indexer_tokens_sequence(const struct indexer_tokens *t, int64_t number)
{
    const struct span rows = t->is_packed ? packed_span(t->query_lengths, t->sequences, t->rows, number)
                                          : batch_span(t->query_lengths, t->sequences, t->rows, number);
    const struct span keys = t->has_packed_keys ? packed_span(t->key_lengths, t->sequences, t->keys, number)
                                                : batch_span(t->key_lengths, t->sequences, t->keys, number);
    return (struct indexer_sequence){.row_begin = rows.begin,
                                     .rows = rows.count,
                                     .live_rows = rows.live,
                                     .key_begin = keys.begin,
                                     .keys = keys.count,
                                     .live_keys = keys.live};
}

int64_t indexer_visible_keys(const struct indexer_sequence *sequence, int64_t s)
{
    const int64_t visible = sequence->live_keys - sequence->live_rows + s + 1;
    return s >= sequence->live_rows || visible < 0 ? 0 : visible;
}

/* --- the gradient's --------------------------------------------------------------------------------------- */

static struct indexer_tokens tokens_of(const struct indexer_problem *p)
{
    return (struct indexer_tokens){.query_lengths = &p->query_lengths,
                                   .key_lengths = &p->key_lengths,
                                   .query_lengths_name = "actualSeqQLenOptional",
                                   .key_lengths_name = "actualSeqKvLenOptional",
                                   .is_packed = p->is_packed,
                                   .has_packed_keys = p->is_packed,
                                   .sequences = p->sequences,
                                   .rows = p->rows,
                                   .keys = p->keys};
}

ag_status indexer_check_lengths(const struct indexer_problem *p)
{
    const struct indexer_tokens tokens = tokens_of(p);
    return p->is_nothing ? AG_OK : indexer_tokens_check(&tokens);
}

int64_t indexer_sequence_count(const struct indexer_problem *p)
{
    const struct indexer_tokens tokens = tokens_of(p);
    return indexer_tokens_count(&tokens);
}

struct indexer_sequence indexer_sequence_at(const struct indexer_problem *p, int64_t number)
{
    const struct indexer_tokens tokens = tokens_of(p);
    return indexer_tokens_sequence(&tokens, number);
}

int64_t indexer_slot_limit(const struct indexer_problem *p, const struct indexer_sequence *sequence, int64_t s)
{
    if (s >= sequence->live_rows) {
        return 0;
    }
    const int64_t visible = p->sparse_mode == 3 ? indexer_visible_keys(sequence, s) : p->topk;
    return visible < p->topk ? visible : p->topk;
}
