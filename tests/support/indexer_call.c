#include "support/indexer_problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_lightning_indexer_grad.h"

/* --- the case -------------------------------------------------------------------------------------------------- */

static struct indexer_case with_defaults(struct indexer_case c)
{
    for (int64_t b = 0; b < TEST_INDEXER_SEQUENCES && c.sequences <= b; ++b) {
        for (int64_t later = b; later < TEST_INDEXER_SEQUENCES; ++later) {
            if (c.q_len[later] || c.kv_len[later]) {
                c.sequences = b + 1;
            }
        }
    }
    c.sequences = c.sequences ? c.sequences : 1;
    c.heads = c.heads ? c.heads : 1;
    c.dim = c.dim ? c.dim : 128;
    c.topk = c.topk ? c.topk : 16;
    c.deviation = c.deviation > 0 ? c.deviation : 1;
    return c;
}

const char *indexer_case_text(const struct indexer_case *c)
{
    static char text[512];
    int used = snprintf(text, sizeof text,
                        "%s %s n=%" PRId64 " d=%" PRId64 " k=%" PRId64 " mode=%" PRId64
                        " indices=%d views=%d seed=%" PRIu64 " slack=%" PRId64 ",%" PRId64 " lengths",
                        c->is_packed ? "TND" : "BSND", ag_dtype_name(c->dtype), c->heads, c->dim, c->topk, c->mode,
                        (int)c->indices, (int)c->views, c->seed, c->q_slack, c->kv_slack);
    for (int64_t b = 0; b < c->sequences; ++b) {
        used += snprintf(text + used, sizeof text - (size_t)used, " %" PRId64 "x%" PRId64, c->q_len[b], c->kv_len[b]);
    }
    return text;
}

int64_t indexer_test_sum(const int64_t *values, int64_t count)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        sum += values[i];
    }
    return sum;
}

int64_t indexer_test_largest(const int64_t *values, int64_t count)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < count; ++i) {
        largest = values[i] > largest ? values[i] : largest;
    }
    return largest;
}

int64_t indexer_call_row(const struct indexer_call *call, int64_t number)
{
    return call->c.is_packed ? indexer_test_sum(call->c.q_len, number) : number * call->s1;
}

int64_t indexer_call_key(const struct indexer_call *call, int64_t number)
{
    return call->c.is_packed ? indexer_test_sum(call->c.kv_len, number) : number * call->s2;
}

/* --- tensors --------------------------------------------------------------------------------------------------- */

struct test_tensor indexer_test_tensor(enum test_indexer_views views, int dtype, int rank, const int64_t *dims)
{
    int64_t strides[AG_MAX_RANK], next = views == TEST_INDEXER_PADDED ? 2 : 1;
    if (views == TEST_INDEXER_DENSE) {
        return test_tensor_create(dtype, rank, dims);
    }
    for (int i = 0; i < rank; ++i) {
        const int d = views == TEST_INDEXER_REVERSED ? i : rank - 1 - i;
        strides[d] = next;
        next = next * dims[d] + (views == TEST_INDEXER_PADDED ? 3 : 0);
        next += views == TEST_INDEXER_SPREAD && d == rank - 1;
        next = next > 0 ? next : 1;
    }
    return test_tensor_create_strided(dtype, rank, dims, strides, views == TEST_INDEXER_SPREAD ? 4 : 5);
}

/* [B, S, a, b] or [T, a, b], without trailing dims of -1. */
static struct test_tensor create_rows(const struct indexer_call *call, int dtype, bool is_key, int64_t a, int64_t b)
{
    int64_t dims[4];
    int rank = 0;
    if (!call->c.is_packed) {
        dims[rank++] = call->c.sequences;
    }
    dims[rank++] = call->c.is_packed ? (is_key ? call->keys : call->rows) : is_key ? call->s2 : call->s1;
    dims[rank++] = a;
    if (b >= 0) {
        dims[rank++] = b;
    }
    return indexer_test_tensor(call->c.views, dtype, rank, dims);
}

static void create_tensors(struct indexer_call *call)
{
    const struct indexer_case *c = &call->c;
    const int64_t slots = c->has_rank4_slots ? 1 : c->topk, behind = c->has_rank4_slots ? c->topk : -1;
    call->query = create_rows(call, c->dtype, false, c->heads, c->dim);
    call->key = create_rows(call, c->dtype, true, 1, c->dim);
    call->dy = create_rows(call, c->dtype, false, slots, behind);
    call->indices = create_rows(call, AG_INT32, false, slots, behind);
    call->weights = create_rows(call, c->dtype, false, c->heads, -1);
    call->dq = create_rows(call, c->dtype, false, c->heads, c->dim);
    call->dk = create_rows(call, c->dtype, true, 1, c->dim);
    call->dweights = create_rows(call, c->dtype, false, c->heads, -1);
    call->q_lengths = indexer_test_tensor(call->c.views, AG_INT32, 1, &c->sequences);
    call->kv_lengths = indexer_test_tensor(call->c.views, AG_INT32, 1, &c->sequences);
}

static void set_args(struct indexer_call *call)
{
    const bool has_lengths = call->c.is_packed || call->c.has_counts;
    call->args = (struct indexer_args){.query = call->query.handle,
                                       .key = call->key.handle,
                                       .dy = call->dy.handle,
                                       .sparse_indices = call->indices.handle,
                                       .weights = call->weights.handle,
                                       .actual_seq_q_len = has_lengths ? call->q_lengths.handle : NULL,
                                       .actual_seq_kv_len = has_lengths ? call->kv_lengths.handle : NULL,
                                       .input_layout = call->c.is_packed ? "TND" : "BSND",
                                       .sparse_mode = call->c.mode,
                                       .dq = call->dq.handle,
                                       .dk = call->dk.handle,
                                       .dweights = call->dweights.handle,
                                       .workspace_size = &call->workspace_size,
                                       .executor = &call->executor};
    call->head_num = call->c.heads;
    call->pre_tokens = call->next_tokens = INT64_MAX;
}

/* --- values ---------------------------------------------------------------------------------------------------- */

static int64_t limit_of(const struct indexer_case *c, int64_t b, int64_t s)
{
    const int64_t visible = c->kv_len[b] - c->q_len[b] + s + 1;
    if (c->mode == 0) {
        return c->topk;
    }
    return visible < 0 ? 0 : visible < c->topk ? visible : c->topk;
}

static int32_t wild_index(struct test_random *random, int64_t keys, int32_t before)
{
    switch (test_random_below(random, 12)) {
    case 0:
        return -1;
    case 1:
        return (int32_t)keys;
    case 2:
        return (int32_t)(keys + test_random_below(random, 100));
    case 3:
        return test_random_below(random, 2) ? INT32_MIN : INT32_MAX;
    case 4:
    case 5:
        return before;
    default:
        return keys ? (int32_t)test_random_below(random, keys) : 0;
    }
}

static void fill_indices(struct indexer_call *call, struct test_random *random, int64_t b, int64_t s)
{
    const struct indexer_case *c = &call->c;
    const int64_t keys = c->kv_len[b], at = (indexer_call_row(call, b) + s) * c->topk;
    const int64_t visible = c->mode == 3 ? keys - c->q_len[b] + s + 1 : keys;
    int32_t *order = malloc((size_t)(keys + 1) * sizeof *order), before = -1;
    const int32_t same = keys ? (int32_t)test_random_below(random, keys) : 0;
    test_random_permutation(random, visible > 0 ? visible : 0, order);
    for (int64_t j = 0; j < c->topk; ++j) {
        int32_t index = j < visible ? order[j] : -1;
        if (c->indices == TEST_INDICES_WILD) {
            index = before = wild_index(random, keys, before);
        } else if (c->indices == TEST_INDICES_SAME) {
            index = same;
        }
        memcpy(test_tensor_at(&call->indices, at + j), &index, sizeof index);
    }
    free(order);
}

static void poison_dead_slots(struct indexer_call *call, int64_t b, int64_t s)
{
    const struct indexer_case *c = &call->c;
    const int64_t at = (indexer_call_row(call, b) + s) * c->topk;
    for (int64_t j = 0; j < c->topk; ++j) {
        int32_t index;
        memcpy(&index, test_tensor_at(&call->indices, at + j), sizeof index);
        if (j >= limit_of(c, b, s) || index < 0 || index >= c->kv_len[b]) {
            test_tensor_set(&call->dy, at + j, NAN);
        }
    }
}

static void fill_row(struct indexer_call *call, struct test_random *random, int64_t b, int64_t s)
{
    const struct indexer_case *c = &call->c;
    const int64_t row = indexer_call_row(call, b) + s;
    for (int64_t i = 0; i < c->heads * c->dim; ++i) {
        test_tensor_set(&call->query, row * c->heads * c->dim + i, c->deviation * test_random_normal(random));
    }
    for (int64_t h = 0; h < c->heads; ++h) {
        test_tensor_set(&call->weights, row * c->heads + h, c->deviation * test_random_normal(random));
    }
    for (int64_t j = 0; j < c->topk; ++j) {
        test_tensor_set(&call->dy, row * c->topk + j, c->deviation * test_random_normal(random));
    }
    fill_indices(call, random, b, s);
    poison_dead_slots(call, b, s);
}

static void fill_lengths(struct indexer_call *call)
{
    int32_t q = 0, kv = 0;
    for (int64_t b = 0; b < call->c.sequences; ++b) {
        q = (int32_t)call->c.q_len[b] + (call->c.is_packed ? q : 0);
        kv = (int32_t)call->c.kv_len[b] + (call->c.is_packed ? kv : 0);
        memcpy(test_tensor_at(&call->q_lengths, b), &q, sizeof q);
        memcpy(test_tensor_at(&call->kv_lengths, b), &kv, sizeof kv);
    }
}

static void fill_values(struct indexer_call *call)
{
    const struct indexer_case *c = &call->c;
    struct test_random random = test_random_seed(c->seed + 1);
    test_tensor_fill_bytes(&call->query, 0xff);
    test_tensor_fill_bytes(&call->key, 0xff);
    test_tensor_fill_bytes(&call->dy, 0xff);
    test_tensor_fill_bytes(&call->weights, 0xff);
    fill_lengths(call);
    for (int64_t b = 0; b < c->sequences; ++b) {
        const int64_t key = indexer_call_key(call, b);
        for (int64_t i = 0; i < c->kv_len[b] * c->dim; ++i) {
            test_tensor_set(&call->key, key * c->dim + i, c->deviation * test_random_normal(&random));
        }
        for (int64_t s = 0; s < c->q_len[b]; ++s) {
            fill_row(call, &random, b, s);
        }
    }
}

void indexer_call_create(struct indexer_call *call, const struct indexer_case *c)
{
    *call = (struct indexer_call){.c = with_defaults(*c)};
    call->s1 = indexer_test_largest(call->c.q_len, call->c.sequences) + c->q_slack;
    call->s2 = indexer_test_largest(call->c.kv_len, call->c.sequences) + c->kv_slack;
    call->rows =
        c->is_packed ? indexer_test_sum(call->c.q_len, call->c.sequences) + c->q_slack : call->c.sequences * call->s1;
    call->keys = c->is_packed ? indexer_test_sum(call->c.kv_len, call->c.sequences) + c->kv_slack
                              : call->c.sequences * call->s2;
    create_tensors(call);
    set_args(call);
    fill_values(call);
}

void indexer_copy_rows(struct test_tensor *to, int64_t to_row, const struct test_tensor *from, int64_t from_row,
                       int64_t rows, int64_t width)
{
    for (int64_t i = 0; i < rows * width; ++i) {
        memcpy(test_tensor_at(to, to_row * width + i), test_tensor_at(from, from_row * width + i),
               ag_dtype_bytes(to->view.dtype));
    }
}

void indexer_call_create_single(struct indexer_call *single, const struct indexer_call *from, int64_t number)
{
    struct indexer_case c = from->c;
    const int64_t row = indexer_call_row(from, number), key = indexer_call_key(from, number);
    c.is_packed = true;
    c.sequences = 1;
    c.q_slack = c.kv_slack = 0;
    c.q_len[0] = from->c.q_len[number];
    c.kv_len[0] = from->c.kv_len[number];
    for (int b = 1; b < TEST_INDEXER_SEQUENCES; ++b) {
        c.q_len[b] = c.kv_len[b] = 0;
    }
    indexer_call_create(single, &c);
    indexer_copy_rows(&single->query, 0, &from->query, row, c.q_len[0], c.heads * c.dim);
    indexer_copy_rows(&single->dy, 0, &from->dy, row, c.q_len[0], c.topk);
    indexer_copy_rows(&single->indices, 0, &from->indices, row, c.q_len[0], c.topk);
    indexer_copy_rows(&single->weights, 0, &from->weights, row, c.q_len[0], c.heads);
    indexer_copy_rows(&single->key, 0, &from->key, key, c.kv_len[0], c.dim);
}

void indexer_call_destroy(struct indexer_call *call)
{
    struct test_tensor *const all[] = {&call->query,   &call->key,       &call->dy,         &call->indices,
                                       &call->weights, &call->q_lengths, &call->kv_lengths, &call->dq,
                                       &call->dk,      &call->dweights};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        test_tensor_check_gaps(all[i]);
        test_tensor_destroy(all[i]);
    }
}

void indexer_call_create_blank(struct indexer_call *call, const struct indexer_case *c)
{
    indexer_call_create(call, c);
    test_tensor_fill_value(&call->query, 0);
    test_tensor_fill_value(&call->key, 0);
    test_tensor_fill_value(&call->weights, 1);
}

void indexer_set_index(struct indexer_call *call, int64_t at, int32_t index)
{
    memcpy(test_tensor_at(&call->indices, at), &index, sizeof index);
}

/* --- both phases ----------------------------------------------------------------------------------------------- */

aclnnStatus indexer_call_phase1(struct indexer_call *call)
{
    const struct indexer_args *a = &call->args;
    return aclnnLightningIndexerGradGetWorkspaceSize(
        a->query, a->key, a->dy, a->sparse_indices, a->weights, a->actual_seq_q_len, a->actual_seq_kv_len,
        call->head_num, (char *)(uintptr_t)a->input_layout, a->sparse_mode, call->pre_tokens, call->next_tokens,
        call->is_deterministic, a->dq, a->dk, a->dweights, (uint64_t *)(uintptr_t)a->workspace_size,
        (aclOpExecutor **)(uintptr_t)a->executor);
}

aclnnStatus indexer_call_phase2(struct indexer_call *call)
{
    struct test_buffer workspace = test_buffer_create(call->workspace_size ? call->workspace_size : 1, 1);
    memset(workspace.data, 0xff, workspace.bytes);
    const aclnnStatus status = aclnnLightningIndexerGrad(call->workspace_size ? workspace.data : NULL,
                                                         call->workspace_size, call->executor, NULL);
    test_buffer_destroy(&workspace);
    return status;
}

static void must_succeed(const struct indexer_call *call, aclnnStatus status)
{
    if (status != 0) {
        fail_msg("status %d: %s\n%s", (int)status, ag_error_peek(), indexer_case_text(&call->c));
    }
}

void indexer_call_run(struct indexer_call *call)
{
    test_tensor_fill_bytes(&call->dq, 0xff);
    test_tensor_fill_bytes(&call->dk, 0xff);
    test_tensor_fill_bytes(&call->dweights, 0xff);
    must_succeed(call, indexer_call_phase1(call));
    must_succeed(call, indexer_call_phase2(call));
}

/* --- comparison ------------------------------------------------------------------------------------------------ */

void indexer_call_problem(const struct indexer_call *call, struct indexer_problem *problem)
{
    must_succeed(call, indexer_check(&call->args, problem));
}

static double *doubles(int64_t count)
{
    double *values = malloc((size_t)(count ? count : 1) * sizeof *values);
    assert_non_null(values);
    return values;
}

double indexer_call_compare(const struct indexer_call *call)
{
    const int64_t q = call->rows * call->c.heads * call->c.dim, k = call->keys * call->c.dim;
    const int64_t w = call->rows * call->c.heads;
    const struct indexer_reference r = {doubles(q), doubles(q), doubles(k), doubles(k), doubles(w), doubles(w)};
    const char *text = indexer_case_text(&call->c);
    struct indexer_problem problem;
    indexer_call_problem(call, &problem);
    must_succeed(call, indexer_ref(&problem, &r));
    double worst = test_compare("dq", &call->dq, r.dq, r.dq_bound, text);
    worst = fmax(worst, test_compare("dk", &call->dk, r.dk, r.dk_bound, text));
    worst = fmax(worst, test_compare("dweights", &call->dweights, r.dweights, r.dweights_bound, text));
    free(r.dq), free(r.dq_bound), free(r.dk), free(r.dk_bound), free(r.dweights), free(r.dweights_bound);
    return worst;
}

double indexer_call_verify(struct indexer_call *call)
{
    indexer_call_run(call);
    return indexer_call_compare(call);
}

void indexer_call_assert_same(const struct indexer_call *a, const struct indexer_call *b)
{
    test_assert_same_bits("dq", &a->dq, &b->dq);
    test_assert_same_bits("dk", &a->dk, &b->dk);
    test_assert_same_bits("dweights", &a->dweights, &b->dweights);
}

void indexer_expect(const char *what, const struct test_tensor *tensor, int64_t at, double want)
{
    if (test_tensor_get(tensor, at) != want) {
        fail_msg("%s: element %" PRId64 " is %.9g, want %.9g", what, at, test_tensor_get(tensor, at), want);
    }
}

void indexer_expect_zero_rows(const char *what, const struct test_tensor *tensor, int64_t row, int64_t rows,
                              int64_t width)
{
    for (int64_t i = row * width; i < (row + rows) * width; ++i) {
        uint64_t bits = 0;
        memcpy(&bits, test_tensor_at(tensor, i), ag_dtype_bytes(tensor->view.dtype));
        if (bits != 0) {
            fail_msg("%s: element %" PRId64 " is %g, want +0", what, i, test_tensor_get(tensor, i));
        }
    }
}
