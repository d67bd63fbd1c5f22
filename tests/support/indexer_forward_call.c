#include "support/indexer_forward_problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_lightning_indexer.h"
#include "base/elem.h"

/* --- the case -------------------------------------------------------------------------------------------------- */

static struct indexer_forward_case with_defaults(struct indexer_forward_case c)
{
    for (int64_t b = 0; b < TEST_INDEXER_SEQUENCES; ++b) {
        if ((c.q_len[b] || c.kv_len[b]) && c.sequences <= b) {
            c.sequences = b + 1;
        }
    }
    c.sequences = c.sequences ? c.sequences : 1;
    c.block_size = c.block_size ? c.block_size : 16;
    c.heads = c.heads ? c.heads : 1;
    c.dim = c.dim ? c.dim : 128;
    c.topk = c.topk ? c.topk : 16;
    return c;
}

const char *indexer_forward_case_text(const struct indexer_forward_case *c)
{
    static char text[512];
    int used = snprintf(text, sizeof text,
                        "%s%s %s%s n=%" PRId64 " d=%" PRId64 " k=%" PRId64 " mode=%" PRId64 " views=%d seed=%" PRIu64
                        " slack=%" PRId64 ",%" PRId64 " lengths",
                        c->is_packed ? "TND" : "BSND", c->is_paged ? " paged" : "", ag_dtype_name(c->dtype),
                        c->has_float_weights ? " float weights" : "", c->heads, c->dim, c->topk, c->mode,
                        (int)c->views, c->seed, c->q_slack, c->kv_slack);
    for (int64_t b = 0; b < c->sequences; ++b) {
        used += snprintf(text + used, sizeof text - (size_t)used, " %" PRId64 "x%" PRId64, c->q_len[b], c->kv_len[b]);
    }
    return text;
}

/* --- tensors --------------------------------------------------------------------------------------------------- */

static struct test_tensor create(const struct indexer_forward_call *call, int dtype, int rank, const int64_t *dims)
{
    return indexer_test_tensor(call->c.views, dtype, rank, dims);
}

/* [B, S1, a, b] or [T1, a, b]; without b where it is negative. */
static struct test_tensor create_rows(const struct indexer_forward_call *call, int dtype, int64_t a, int64_t b)
{
    const int64_t dims[4] = {call->c.sequences, call->c.is_packed ? call->rows : call->s1, a, b};
    const int skipped = call->c.is_packed, rank = b < 0 ? 3 : 4;
    return create(call, dtype, rank - skipped, dims + skipped);
}

static int64_t blocks_of_sequence(const struct indexer_forward_call *call)
{
    return (call->s2 + call->c.block_size - 1) / call->c.block_size;
}

/* Two blocks more than all sequences need, in no order. */
static void create_keys(struct indexer_forward_call *call, struct test_random *random)
{
    const struct indexer_forward_case *c = &call->c;
    const int64_t width = blocks_of_sequence(call), blocks = c->sequences * width + 2;
    if (!c->is_paged) {
        const int64_t batch[4] = {c->sequences, call->s2, 1, c->dim}, packed[3] = {call->keys, 1, c->dim};
        call->key = create(call, c->dtype, c->is_packed ? 3 : 4, c->is_packed ? packed : batch);
        return;
    }
    call->key = create(call, c->dtype, 4, (const int64_t[]){blocks, c->block_size, 1, c->dim});
    call->table = create(call, AG_INT32, 2, (const int64_t[]){c->sequences, width});
    int32_t *order = malloc((size_t)blocks * sizeof *order);
    test_random_permutation(random, blocks, order);
    for (int64_t b = 0; b < c->sequences; ++b) {
        for (int64_t i = 0; i < width; ++i) {
            const bool is_used = i * c->block_size < c->kv_len[b];
            const int32_t block = is_used ? order[b * width + i] : i % 2 ? INT32_MIN : INT32_MAX;
            memcpy(test_tensor_at(&call->table, b * width + i), &block, sizeof block);
        }
    }
    free(order);
}

/* Where key t of sequence b begins, in elements of the key tensor counted row-major. */
static int64_t key_place(const struct indexer_forward_call *call, int64_t b, int64_t t)
{
    const struct indexer_forward_case *c = &call->c;
    if (c->is_paged) {
        int32_t block;
        memcpy(&block, test_tensor_at(&call->table, b * blocks_of_sequence(call) + t / c->block_size), sizeof block);
        return (block * c->block_size + t % c->block_size) * c->dim;
    }
    return ((c->is_packed ? indexer_test_sum(c->kv_len, b) : b * call->s2) + t) * c->dim;
}

int64_t indexer_forward_call_row(const struct indexer_forward_call *call, int64_t b)
{
    return call->c.is_packed ? indexer_test_sum(call->c.q_len, b) : b * call->s1;
}

/* --- values ---------------------------------------------------------------------------------------------------- */

static void fill(struct indexer_forward_call *call, struct test_tensor *tensor, int64_t first, int64_t count,
                 struct test_random *random)
{
    for (int64_t i = first; i < first + count; ++i) {
        const double whole = (double)test_random_between(random, -1, 1);
        test_tensor_set(tensor, i, call->c.is_whole ? whole : test_random_normal(random));
    }
}

static void fill_lengths(struct indexer_forward_call *call)
{
    const struct indexer_forward_case *c = &call->c;
    int32_t q = 0, kv = 0;
    for (int64_t b = 0; b < c->sequences; ++b) {
        q = (int32_t)c->q_len[b] + (c->is_packed ? q : 0);
        kv = (int32_t)c->kv_len[b] + (c->is_packed && !c->is_paged ? kv : 0);
        memcpy(test_tensor_at(&call->q_lengths, b), &q, sizeof q);
        memcpy(test_tensor_at(&call->kv_lengths, b), &kv, sizeof kv);
    }
}

/* The same numbers whatever the layout: paged equals contiguous. */
static void fill_values(struct indexer_forward_call *call)
{
    const struct indexer_forward_case *c = &call->c;
    struct test_random random = test_random_seed(c->seed + 1);
    test_tensor_fill_bytes(&call->query, 0xff);
    test_tensor_fill_bytes(&call->key, 0xff);
    test_tensor_fill_bytes(&call->weights, 0xff);
    fill_lengths(call);
    for (int64_t b = 0; b < c->sequences; ++b) {
        const int64_t row = indexer_forward_call_row(call, b), heads = c->heads;
        for (int64_t t = 0; t < c->kv_len[b]; ++t) {
            fill(call, &call->key, key_place(call, b, t), c->dim, &random);
        }
        fill(call, &call->query, row * heads * c->dim, c->q_len[b] * heads * c->dim, &random);
        fill(call, &call->weights, row * heads, c->q_len[b] * heads, &random);
    }
}

/* --- life ------------------------------------------------------------------------------------------------------ */

static void set_args(struct indexer_forward_call *call)
{
    const struct indexer_forward_case *c = &call->c;
    const bool has_counts = c->is_packed || c->has_counts;
    call->args = (struct indexer_forward_args){.query = call->query.handle,
                                               .key = call->key.handle,
                                               .weights = call->weights.handle,
                                               .actual_seq_lengths_query = has_counts ? call->q_lengths.handle : NULL,
                                               .actual_seq_lengths_key =
                                                   has_counts || c->is_paged ? call->kv_lengths.handle : NULL,
                                               .block_table = c->is_paged ? call->table.handle : NULL,
                                               .layout_query = c->is_packed ? "TND" : "BSND",
                                               .layout_key = c->is_paged    ? "PA_BSND"
                                                             : c->is_packed ? "TND"
                                                                            : "BSND",
                                               .sparse_count = c->topk,
                                               .sparse_mode = c->mode,
                                               .pre_tokens = INT64_MAX,
                                               .next_tokens = INT64_MAX,
                                               .return_values = c->has_values,
                                               .sparse_indices = call->indices.handle,
                                               .sparse_values = c->has_values ? call->values.handle : NULL,
                                               .workspace_size = &call->workspace_size,
                                               .executor = &call->executor};
}

void indexer_forward_call_create(struct indexer_forward_call *call, const struct indexer_forward_case *from)
{
    *call = (struct indexer_forward_call){.c = with_defaults(*from)};
    const struct indexer_forward_case *c = &call->c;
    struct test_random random = test_random_seed(c->seed + 99);
    call->s1 = indexer_test_largest(c->q_len, c->sequences) + c->q_slack;
    call->s2 = indexer_test_largest(c->kv_len, c->sequences) + c->kv_slack;
    call->rows = indexer_test_sum(c->q_len, c->sequences) + c->q_slack;
    call->keys = indexer_test_sum(c->kv_len, c->sequences) + c->kv_slack;
    call->query = create_rows(call, c->dtype, c->heads, c->dim);
    call->weights = create_rows(call, c->has_float_weights ? AG_FLOAT : c->dtype, c->heads, -1);
    call->q_lengths = create(call, AG_INT32, 1, &c->sequences);
    call->kv_lengths = create(call, AG_INT32, 1, &c->sequences);
    call->indices = create_rows(call, AG_INT32, 1, c->topk);
    call->values = create_rows(call, c->dtype, 1, c->topk);
    create_keys(call, &random);
    set_args(call);
    fill_values(call);
}

void indexer_forward_call_destroy(struct indexer_forward_call *call)
{
    struct test_tensor *const all[] = {&call->query,      &call->key,   &call->weights, &call->q_lengths,
                                       &call->kv_lengths, &call->table, &call->indices, &call->values};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        if (all[i]->handle) {
            test_tensor_check_gaps(all[i]);
        }
        test_tensor_destroy(all[i]);
    }
}

/* --- both phases ----------------------------------------------------------------------------------------------- */

aclnnStatus indexer_forward_call_phase1(struct indexer_forward_call *call)
{
    const struct indexer_forward_args *a = &call->args;
    return aclnnLightningIndexerGetWorkspaceSize(
        a->query, a->key, a->weights, a->actual_seq_lengths_query, a->actual_seq_lengths_key, a->block_table,
        (char *)(uintptr_t)a->layout_query, (char *)(uintptr_t)a->layout_key, a->sparse_count, a->sparse_mode,
        a->pre_tokens, a->next_tokens, a->return_values, a->sparse_indices, a->sparse_values,
        (uint64_t *)(uintptr_t)a->workspace_size, (aclOpExecutor **)(uintptr_t)a->executor);
}

aclnnStatus indexer_forward_call_phase2(struct indexer_forward_call *call)
{
    struct test_buffer workspace = test_buffer_create(call->workspace_size ? call->workspace_size : 1, 1);
    memset(workspace.data, 0xff, workspace.bytes);
    const aclnnStatus status = aclnnLightningIndexer(call->workspace_size ? workspace.data : NULL,
                                                     call->workspace_size, call->executor, NULL);
    test_buffer_destroy(&workspace);
    return status;
}

static void must_succeed(const struct indexer_forward_call *call, aclnnStatus status)
{
    if (status != 0) {
        fail_msg("status %d: %s\n%s", (int)status, ag_error_peek(), indexer_forward_case_text(&call->c));
    }
}

void indexer_forward_call_run(struct indexer_forward_call *call)
{
    test_tensor_fill_bytes(&call->indices, 0x77);
    test_tensor_fill_bytes(&call->values, 0x77);
    must_succeed(call, indexer_forward_call_phase1(call));
    must_succeed(call, indexer_forward_call_phase2(call));
}

/* --- judgement ------------------------------------------------------------------------------------------------- */

int32_t indexer_forward_index(const struct indexer_forward_call *call, int64_t row, int64_t slot)
{
    int32_t index;
    memcpy(&index, test_tensor_at(&call->indices, row * call->c.topk + slot), sizeof index);
    return index;
}

/* Where sums are exact there is one right result. */
static void assert_exact_row(const struct indexer_forward_call *call, int64_t row,
                             const struct indexer_forward_row *want)
{
    for (int64_t j = 0; j < call->c.topk; ++j) {
        const int32_t key = indexer_forward_index(call, row, j);
        const double value = call->c.has_values ? test_tensor_get(&call->values, row * call->c.topk + j) : 0;
        const double rounded = ag_elem_round(ag_elem_of(call->c.dtype), (float)want->values[j]);
        if (key != want->keys[j] || (call->c.has_values && value != rounded)) {
            fail_msg("row %" PRId64 " slot %" PRId64 ": key %d value %g, want %d and %g\n%s", row, j, (int)key, value,
                     (int)want->keys[j], rounded, indexer_forward_case_text(&call->c));
        }
    }
}

static void assert_exact(const struct indexer_forward_call *call, const struct indexer_forward_problem *p)
{
    const struct indexer_tokens tokens = indexer_forward_tokens(p);
    double *block = malloc((size_t)p->topk * 3 * sizeof *block);
    const struct indexer_forward_row want = {
        .keys = (int32_t *)(void *)(block + 2 * p->topk), .values = block, .bounds = block + p->topk};
    for (int64_t b = 0; b < indexer_tokens_count(&tokens); ++b) {
        const struct indexer_sequence sequence = indexer_tokens_sequence(&tokens, b);
        for (int64_t s = 0; s < sequence.rows; ++s) {
            must_succeed(call, indexer_forward_settle(p, b, s, NULL, &want));
            assert_exact_row(call, sequence.row_begin + s, &want);
        }
    }
    free(block);
}

void indexer_forward_call_judge(const struct indexer_forward_call *call)
{
    struct indexer_forward_problem problem;
    char text[512];
    bool is_right = false;
    must_succeed(call, indexer_forward_check(&call->args, &problem));
    must_succeed(call, indexer_forward_judge(&problem, &is_right, text, sizeof text));
    if (!is_right) {
        fail_msg("%s\n%s", text, indexer_forward_case_text(&call->c));
    }
    if (call->c.is_whole) {
        assert_exact(call, &problem);
    }
}

void indexer_forward_call_verify(struct indexer_forward_call *call)
{
    indexer_forward_call_run(call);
    indexer_forward_call_judge(call);
}

void indexer_forward_call_assert_same(const struct indexer_forward_call *a, const struct indexer_forward_call *b)
{
    test_assert_same_bits("sparseIndices", &a->indices, &b->indices);
    if (a->c.has_values && b->c.has_values) {
        test_assert_same_bits("sparseValues", &a->values, &b->values);
    }
}
