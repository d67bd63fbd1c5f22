/* labels: ci slow */
/* Many sequences, long sequences, far addresses; work and workspace in proportion to what is asked; heads and dims that
 * were wrong elsewhere. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "op/attention/attention_plan.h"
#include "support/attention_problem.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int dtypes[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};

/* --- calls with more sequences than a case holds --------------------------------------------------------- */

/* q, k, v, dy random; statistics max 0, sum 1; attentionIn = v of the row's own index (right for length 1). */
struct pack {
    struct test_tensor q, k, v, dy, out, max, sum, dq, dk, dv;
    aclIntArray *list;
    struct attention_args args;
    uint64_t workspace_size;
    aclOpExecutor *executor;
};

static void pack_create(struct pack *p, int dtype, int64_t n, int64_t d, int64_t count, const int64_t *ends)
{
    struct test_random random = test_random_seed(3);
    const int64_t t = ends[count - 1];
    const int64_t dims[3] = {t, n, d}, statistics[3] = {t, n, 8};
    struct test_tensor *const tensors[] = {&p->q, &p->k, &p->v, &p->dy, &p->out, &p->dq, &p->dk, &p->dv};
    for (size_t i = 0; i < COUNT(tensors); ++i) {
        *tensors[i] = test_tensor_create(dtype, 3, dims);
        test_tensor_fill_normal(tensors[i], &random, 1);
    }
    p->max = test_tensor_create(AG_FLOAT, 3, statistics);
    p->sum = test_tensor_create(AG_FLOAT, 3, statistics);
    p->list = aclCreateIntArray(ends, (uint64_t)count);
    p->args = (struct attention_args){.query = p->q.handle,
                                      .key = p->k.handle,
                                      .value = p->v.handle,
                                      .dy = p->dy.handle,
                                      .softmax_max = p->max.handle,
                                      .softmax_sum = p->sum.handle,
                                      .attention_in = p->out.handle,
                                      .actual_seq_q = p->list,
                                      .actual_seq_kv = p->list,
                                      .scale = 1,
                                      .keep_prob = 1,
                                      .head_num = n,
                                      .input_layout = "TND",
                                      .pse_type = 1,
                                      .dq = p->dq.handle,
                                      .dk = p->dk.handle,
                                      .dv = p->dv.handle,
                                      .workspace_size = &p->workspace_size,
                                      .executor = &p->executor};
}

static void pack_destroy(struct pack *p)
{
    struct test_tensor *const tensors[] = {&p->q,  &p->k,  &p->v,  &p->dy,  &p->out,
                                           &p->dq, &p->dk, &p->dv, &p->max, &p->sum};
    for (size_t i = 0; i < COUNT(tensors); ++i) {
        test_tensor_destroy(tensors[i]);
    }
    aclDestroyIntArray(p->list);
}

/* Phase 1 by names, as attention_call has it. */
static void phase1(const struct attention_args *args)
{
    struct attention_call call = {.args = *args};
    if (attention_call_phase1(&call) != 0) {
        fail_msg("phase 1: %s", ag_error_take());
    }
}

static void pack_run(struct pack *p)
{
    phase1(&p->args);
    void *workspace = malloc((size_t)p->workspace_size + 1);
    assert_non_null(workspace);
    assert_int_equal(aclnnFlashAttentionUnpaddingScoreGradV3(workspace, p->workspace_size, p->executor, NULL), 0);
    free(workspace);
}

static int64_t *ends_of_ones(int64_t count)
{
    int64_t *ends = malloc((size_t)count * sizeof *ends);
    assert_non_null(ends);
    for (int64_t b = 0; b < count; ++b) {
        ends[b] = b + 1;
    }
    return ends;
}

/* Sequences of length 1: P = 1, so dq = dk = 0 and dv is dy bit for bit. */
static void many_single_tokens(int dtype, int64_t count)
{
    struct pack p;
    int64_t *ends = ends_of_ones(count);
    pack_create(&p, dtype, 2, 64, count, ends);
    test_tensor_copy_values(&p.out, &p.v);
    for (int64_t row = 0; row < count * 2; ++row) {
        double score = 0;
        for (int64_t d = 0; d < 64; ++d) { /* whole products: every order of summation gives the same */
            test_tensor_set(&p.q, row * 64 + d, (double)((row + d) % 5 - 2));
            test_tensor_set(&p.k, row * 64 + d, (double)((row + 2 * d) % 3 - 1));
            score += test_tensor_get(&p.q, row * 64 + d) * test_tensor_get(&p.k, row * 64 + d);
        }
        test_tensor_set(&p.max, row * 8, score);
        test_tensor_set(&p.sum, row * 8, 1);
    }
    pack_run(&p);
    test_assert_same_bits("dv", &p.dv, &p.dy);
    for (int64_t at = 0; at < count * 128; ++at) {
        if (fabs(test_tensor_get(&p.dq, at)) > 1e-4 || fabs(test_tensor_get(&p.dk, at)) > 1e-4) {
            fail_msg("dq[%d] %g dk %g", (int)at, test_tensor_get(&p.dq, at), test_tensor_get(&p.dk, at));
        }
    }
    pack_destroy(&p);
    free(ends);
}

static void fifteen_thousand_sequences(void **state)
{
    (void)state;
    many_single_tokens(AG_BF16, 15000);
}

static void more_than_2048_sequences(void **state)
{
    (void)state;
    for (size_t t = 0; t < COUNT(dtypes); ++t) {
        many_single_tokens(dtypes[t], 2049);
    }
}

/* --- workspace and work ---------------------------------------------------------------------------------- */

static uint64_t workspace_of(int64_t n1, int64_t n2, int64_t d, int64_t count, const int64_t *ends)
{
    const int64_t t = ends[count - 1];
    const int64_t q_dims[3] = {t, n1, d}, k_dims[3] = {t, n2, d}, s_dims[3] = {t, n1, 8};
    aclTensor *q = aclCreateTensor(q_dims, 3, ACL_BF16, NULL, 0, ACL_FORMAT_ND, q_dims, 3, NULL);
    aclTensor *k = aclCreateTensor(k_dims, 3, ACL_BF16, NULL, 0, ACL_FORMAT_ND, k_dims, 3, NULL);
    aclTensor *s = aclCreateTensor(s_dims, 3, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, s_dims, 3, NULL);
    aclIntArray *list = aclCreateIntArray(ends, (uint64_t)count);
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    phase1(&(struct attention_args){.query = q,
                                    .key = k,
                                    .value = k,
                                    .dy = q,
                                    .softmax_max = s,
                                    .softmax_sum = s,
                                    .attention_in = q,
                                    .actual_seq_q = list,
                                    .actual_seq_kv = list,
                                    .scale = 1,
                                    .keep_prob = 1,
                                    .head_num = n1,
                                    .input_layout = "TND",
                                    .pse_type = 1,
                                    .dq = q,
                                    .dk = k,
                                    .dv = k,
                                    .workspace_size = &bytes,
                                    .executor = &executor});
    aclDestroyAclOpExecutor(executor);
    aclDestroyTensor(q);
    aclDestroyTensor(k);
    aclDestroyTensor(s);
    aclDestroyIntArray(list);
    return bytes;
}

/* 4096 sequences of one token, then one of 4096: a workspace of tokens, not of sequences times the longest. */
static void workspace_is_linear(void **state)
{
    enum { ONES = 4096, LONG = 4096, MIB = 1 << 20 };
    int64_t *ends = ends_of_ones(ONES + 1);
    (void)state;
    ag_config_set_threads(1);
    ends[ONES] = ONES + LONG;
    const uint64_t skewed = workspace_of(1, 1, 128, ONES + 1, ends);
    const uint64_t single = workspace_of(1, 1, 128, 1, &ends[ONES]);
    assert_true(skewed <= 64u * MIB);
    assert_true(skewed <= single + 8 * MIB);
    const int64_t longer = 4 * (ONES + LONG);
    assert_true(workspace_of(1, 1, 128, 1, &longer) <= 4 * single);
    ag_config_set_threads(2);
    assert_true(workspace_of(1, 1, 128, ONES + 1, ends) <= 128u * MIB);
    ag_config_set_threads(1);
    free(ends);
}

/* Keys and values are not copied out to the query heads: 8 heads a group cost no more than 1. */
static void heads_are_not_expanded(void **state)
{
    const int64_t length = 12288;
    (void)state;
    ag_config_set_threads(1);
    const uint64_t grouped = workspace_of(16, 2, 512, 1, &length), plain = workspace_of(2, 2, 512, 1, &length);
    const uint64_t expanded = 2u * 12288 * 16 * 512 * 2; /* k and v in BF16 for 16 heads */
    assert_int_equal(grouped, plain);
    assert_true(grouped < expanded);
}

/* A window of 128: twice the length is exactly twice the tiles, and they are few. */
static int64_t tiles_of_window(int64_t length, int64_t window)
{
    struct attention_sequence sequence = {.query_len = length, .key_len = length};
    attention_set_intervals(&sequence, 1, 4, window, 0, NULL, 0);
    return attention_sequence_tile_count(&sequence);
}

static void work_follows_the_window(void **state)
{
    (void)state;
    const int64_t tiles = tiles_of_window(32768, 128);
    assert_int_equal(tiles, 2 * tiles_of_window(16384, 128));
    assert_true(tiles <= (int64_t)32768 * (128 + 2 * ATTENTION_TILE) / (ATTENTION_TILE * ATTENTION_TILE));
}

/* --- far addresses --------------------------------------------------------------------------------------- */

/* A tensor whose second row lies past 2^31 elements, in memory that costs only the pages that are touched. */
struct far_tensor {
    char *memory;
    size_t bytes;
    aclTensor *handle;
    int64_t row_stride;
    int dtype;
};

static struct far_tensor far_create(int dtype, int64_t heads, int64_t dim, int64_t offset)
{
    const int64_t stride = ((int64_t)1 << 31) + 64;
    const int64_t dims[3] = {2, heads, dim}, strides[3] = {stride, dim, 1};
    const int64_t elems = offset + stride + heads * dim;
    struct far_tensor far = {.bytes = (size_t)elems * ag_dtype_bytes(dtype), .row_stride = stride, .dtype = dtype};
    far.memory = mmap(NULL, far.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (far.memory == MAP_FAILED) {
        print_message("no address space for 4 GiB: skipped\n");
        skip();
    }
    far.handle = aclCreateTensor(dims, 3, (aclDataType)dtype, strides, offset, ACL_FORMAT_ND, &elems, 1, far.memory);
    assert_non_null(far.handle);
    return far;
}

static void *far_row(const struct far_tensor *far, int64_t row)
{
    return far->memory + (size_t)(row * far->row_stride) * ag_dtype_bytes(far->dtype);
}

static void far_destroy(struct far_tensor *far)
{
    aclDestroyTensor(far->handle);
    munmap(far->memory, far->bytes);
}

static void rows_past_2_31_elements(void **state)
{
    const struct attention_case c = {.dtype = AG_BF16, .n1 = 2, .n2 = 2, .d = 16, .q_ends = {2}};
    struct attention_call near, far;
    (void)state;
    attention_call_create(&near, &c);
    attention_call_create(&far, &c);
    attention_call_run(&near);
    const struct test_tensor *const from[] = {&near.q, &near.k, &near.v, &near.dy, &near.out, &near.max, &near.sum};
    struct far_tensor to[COUNT(from)], dq = far_create(AG_BF16, 2, 16, 0), dk = far_create(AG_BF16, 2, 16, 0);
    for (size_t i = 0; i < COUNT(from); ++i) {
        const size_t row_bytes = from[i]->buffer.bytes / 2;
        to[i] = far_create(from[i]->view.dtype, 2, from[i]->view.dims[2], 0);
        memcpy(far_row(&to[i], 0), from[i]->view.data, row_bytes);
        memcpy(far_row(&to[i], 1), (char *)from[i]->view.data + row_bytes, row_bytes);
    }
    far.args.query = to[0].handle;
    far.args.key = to[1].handle;
    far.args.value = to[2].handle;
    far.args.dy = to[3].handle;
    far.args.attention_in = to[4].handle;
    far.args.softmax_max = to[5].handle;
    far.args.softmax_sum = to[6].handle;
    far.args.dq = dq.handle;
    far.args.dk = dk.handle;
    attention_call_run(&far);
    test_assert_same_bits("dv", &near.dv, &far.dv);
    assert_true(test_tensor_get(&near.dk, 40) != 0);
    for (int row = 0; row < 2; ++row) {
        assert_memory_equal(far_row(&dq, row), (char *)near.dq.view.data + row * 64, 64);
        assert_memory_equal(far_row(&dk, row), (char *)near.dk.view.data + row * 64, 64);
    }
    for (size_t i = 0; i < COUNT(from); ++i) {
        far_destroy(&to[i]);
    }
    far_destroy(&dq);
    far_destroy(&dk);
    attention_call_destroy(&near);
    attention_call_destroy(&far);
}

/* A [1, 4, 1, Skv] mask whose heads lie 2^31 bytes apart. */
static void a_mask_of_far_heads(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT,
                                     .n1 = 4,
                                     .d = 8,
                                     .mode = 1,
                                     .q_ends = {1},
                                     .kv_ends = {70},
                                     .mask_shape = TEST_MASK_BNSS,
                                     .mask_bytes = TEST_MASK_RANDOM};
    const int64_t stride = ((int64_t)1 << 31) + 5, elems = 3 * stride + 70;
    const int64_t dims[4] = {1, 4, 1, 70}, strides[4] = {0, stride, 70, 1};
    struct attention_call near, far;
    (void)state;
    char *memory =
        mmap(NULL, (size_t)elems, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        skip();
    }
    attention_call_create(&near, &c);
    attention_call_create(&far, &c);
    for (int64_t n = 0; n < 4; ++n) {
        memcpy(memory + n * stride, (char *)near.mask.view.data + n * 70, 70);
    }
    aclTensor *mask = aclCreateTensor(dims, 4, ACL_BOOL, strides, 0, ACL_FORMAT_ND, &elems, 1, memory);
    assert_non_null(mask);
    far.args.atten_mask = mask;
    attention_call_run(&near);
    attention_call_run(&far);
    attention_call_assert_same(&near, &far);
    aclDestroyTensor(mask);
    munmap(memory, (size_t)elems);
    attention_call_destroy(&near);
    attention_call_destroy(&far);
}

/* --- shapes that were wrong elsewhere -------------------------------------------------------------------- */

static void expect_zero_rows(const char *what, const struct test_tensor *tensor, int64_t begin, int64_t end)
{
    const int64_t width = tensor->view.dims[1] * tensor->view.dims[2];
    for (int64_t at = begin * width; at < end * width; ++at) {
        if (test_tensor_get(tensor, at) != 0) {
            fail_msg("%s: row %d is not zero", what, (int)(at / width));
        }
    }
}

static void expect_finite(const char *what, const struct test_tensor *tensor)
{
    for (int64_t at = 0; at < test_tensor_elems(tensor); ++at) {
        if (!isfinite(test_tensor_get(tensor, at))) {
            fail_msg("%s[%d] is not finite", what, (int)at);
        }
    }
}

/* Long sequences without queries at both ends of the pack: their keys' gradients are zeros. */
static void long_sequences_without_queries(void **state)
{
    const struct attention_case c = {.dtype = AG_BF16,
                                     .n1 = 4,
                                     .n2 = 1,
                                     .d = 256,
                                     .count = 4,
                                     .mode = 3,
                                     .q_ends = {0, 1208, 2048, 2048},
                                     .kv_ends = {2538, 4280, 5120, 8192},
                                     .mask_shape = TEST_MASK_COMPRESSED,
                                     .invent_statistics = true,
                                     .deviation = .3};
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &c);
    attention_call_run(&call);
    expect_zero_rows("dk", &call.dk, 0, 2538);
    expect_zero_rows("dv", &call.dv, 0, 2538);
    expect_zero_rows("dk", &call.dk, 5120, 8192);
    expect_zero_rows("dv", &call.dv, 5120, 8192);
    expect_finite("dq", &call.dq);
    expect_finite("dk", &call.dk);
    attention_call_destroy(&call);
}

/* Two rows of padding full of NaN behind three sequences: the same bits as without them, and zeros there. */
static void padding_rows(void **state)
{
    struct attention_case c = {.dtype = AG_BF16,
                               .n1 = 16,
                               .n2 = 16,
                               .d = 64,
                               .q_ends = {144, 432, 944},
                               .invent_statistics = true,
                               .deviation = .3};
    struct attention_call bare, padded;
    (void)state;
    attention_call_create(&bare, &c);
    c.q_slack = c.kv_slack = 2;
    attention_call_create(&padded, &c);
    struct test_tensor *const pairs[][2] = {
        {&padded.q, &bare.q},     {&padded.k, &bare.k},     {&padded.v, &bare.v},    {&padded.dy, &bare.dy},
        {&padded.out, &bare.out}, {&padded.max, &bare.max}, {&padded.sum, &bare.sum}};
    for (size_t k = 0; k < COUNT(pairs); ++k) {
        memcpy(pairs[k][0]->view.data, pairs[k][1]->view.data, pairs[k][1]->buffer.bytes);
    }
    attention_call_run(&bare);
    attention_call_run(&padded);
    const size_t row_bytes = (size_t)16 * 64 * 2;
    assert_memory_equal(bare.dq.view.data, padded.dq.view.data, 944 * row_bytes);
    assert_memory_equal(bare.dk.view.data, padded.dk.view.data, 944 * row_bytes);
    assert_memory_equal(bare.dv.view.data, padded.dv.view.data, 944 * row_bytes);
    expect_zero_rows("dq", &padded.dq, 944, 946);
    expect_zero_rows("dk", &padded.dk, 944, 946);
    expect_zero_rows("dv", &padded.dv, 944, 946);
    attention_call_destroy(&bare);
    attention_call_destroy(&padded);
}

/* Row `row` of one tensor to another with more heads or columns; the rest keeps its value. */
static void copy_head(struct test_tensor *to, int64_t row, int64_t to_head, const struct test_tensor *from,
                      int64_t from_head)
{
    const int64_t to_dim = to->view.dims[2], from_dim = from->view.dims[2];
    for (int64_t d = 0; d < from_dim; ++d) {
        test_tensor_set(to, (row * to->view.dims[1] + to_head) * to_dim + d,
                        test_tensor_get(from, (row * from->view.dims[1] + from_head) * from_dim + d));
    }
}

/* A group is the sum of heads that have their own copy of key and value. */
static void groups_are_sums_of_heads(void **state)
{
    static const int64_t heads[][2] = {{6, 2}, {14, 2}, {9, 3}, {16, 1}, {7, 7}};
    (void)state;
    for (size_t k = 0; k < COUNT(heads); ++k) {
        const int64_t n1 = heads[k][0], n2 = heads[k][1], group = n1 / n2;
        struct attention_case c = {.dtype = AG_FLOAT,
                                   .n1 = n1,
                                   .n2 = n2,
                                   .d = 16,
                                   .q_ends = {9, 40},
                                   .mode = 3,
                                   .kv_ends = {20, 45},
                                   .mask_shape = TEST_MASK_COMPRESSED,
                                   .seed = k};
        struct attention_call grouped, single;
        attention_call_create(&grouped, &c);
        c.n2 = n1;
        attention_call_create(&single, &c);
        test_tensor_copy_values(&single.q, &grouped.q);
        test_tensor_copy_values(&single.dy, &grouped.dy);
        for (int64_t j = 0; j < 45; ++j) {
            for (int64_t n = 0; n < n1; ++n) {
                copy_head(&single.k, j, n, &grouped.k, n / group);
                copy_head(&single.v, j, n, &grouped.v, n / group);
            }
        }
        attention_call_refresh(&single);
        attention_call_run(&grouped);
        attention_call_run(&single);
        for (int64_t at = 0; at < test_tensor_elems(&grouped.dk); ++at) {
            const int64_t j = at / (n2 * 16), h = at / 16 % n2, d = at % 16;
            double dk = 0, dv = 0;
            for (int64_t n = h * group; n < (h + 1) * group; ++n) {
                dk += test_tensor_get(&single.dk, (j * n1 + n) * 16 + d);
                dv += test_tensor_get(&single.dv, (j * n1 + n) * 16 + d);
            }
            assert_true(fabs(dk - test_tensor_get(&grouped.dk, at)) < 1e-5);
            assert_true(fabs(dv - test_tensor_get(&grouped.dv, at)) < 1e-5);
        }
        attention_call_destroy(&grouped);
        attention_call_destroy(&single);
    }
}

/* Dv < D is Dv = D with zeros behind value, dy and attentionIn. */
static void narrow_values_are_padded_ones(void **state)
{
    static const int64_t dims[][2] = {{192, 128}, {128, 64}, {72, 40}};
    (void)state;
    for (size_t k = 0; k < COUNT(dims); ++k) {
        struct attention_case c = {.dtype = AG_FLOAT,
                                   .n1 = 2,
                                   .d = dims[k][0],
                                   .dv = dims[k][1],
                                   .q_ends = {9, 40},
                                   .kv_ends = {20, 45},
                                   .mode = 3,
                                   .mask_shape = TEST_MASK_COMPRESSED};
        struct attention_call narrow, padded;
        attention_call_create(&narrow, &c);
        c.dv = c.d;
        attention_call_create(&padded, &c);
        test_tensor_copy_values(&padded.q, &narrow.q);
        test_tensor_copy_values(&padded.k, &narrow.k);
        test_tensor_fill_value(&padded.v, 0);
        test_tensor_fill_value(&padded.dy, 0);
        for (int64_t j = 0; j < 45; ++j) {
            copy_head(&padded.v, j, 0, &narrow.v, 0);
        }
        for (int64_t i = 0; i < 40 * 2; ++i) {
            copy_head(&padded.dy, i / 2, i % 2, &narrow.dy, i % 2);
        }
        attention_call_refresh(&padded);
        attention_call_run(&narrow);
        attention_call_run(&padded);
        for (int64_t at = 0; at < test_tensor_elems(&narrow.dq); ++at) {
            assert_true(fabs(test_tensor_get(&narrow.dq, at) - test_tensor_get(&padded.dq, at)) < 1e-5);
        }
        for (int64_t at = 0; at < test_tensor_elems(&padded.dv); ++at) {
            const int64_t j = at / c.d, e = at % c.d;
            const double want = e < dims[k][1] ? test_tensor_get(&narrow.dv, j * dims[k][1] + e) : 0;
            assert_true(fabs(test_tensor_get(&padded.dv, at) - want) <= (e < dims[k][1] ? 1e-5 : 0));
        }
        attention_call_destroy(&narrow);
        attention_call_destroy(&padded);
    }
}

/* One segment of 512 at D = 72 and 104; the bound is per element, and guard pages end every tensor. */
static void dims_between_vectors(void **state)
{
    static const int64_t dims[] = {72, 104};
    (void)state;
    for (int k = 0; k < 2; ++k) {
        const struct attention_case c = {
            .dtype = AG_BF16, .n1 = 2, .d = dims[k], .q_ends = {512}, .deviation = .5, .invent_statistics = true};
        struct attention_call call;
        attention_call_create(&call, &c);
        attention_call_verify_each_isa(&call);
        attention_call_destroy(&call);
    }
}

/* A few loud channels and tokens, as trained models have: the direction of the whole gradient is right. */
static void loud_channels(void **state)
{
    const struct attention_case c = {.dtype = AG_BF16,
                                     .n1 = 16,
                                     .n2 = 2,
                                     .d = 256,
                                     .q_ends = {24, 64},
                                     .mode = 3,
                                     .mask_shape = TEST_MASK_COMPRESSED};
    struct attention_call call;
    double dot = 0, got_norm = 0, want_norm = 0;
    (void)state;
    attention_call_create(&call, &c);
    struct test_tensor *const loud[] = {&call.q, &call.k};
    for (int k = 0; k < 2; ++k) {
        for (int64_t at = 0; at < test_tensor_elems(loud[k]); ++at) {
            const int64_t token = at / (loud[k]->view.dims[1] * 256);
            const double factor = (at % 256 < 4 ? 50 : 1) * (token < 4 ? 8 : 1);
            test_tensor_set(loud[k], at, factor * test_tensor_get(loud[k], at) / 16);
        }
    }
    attention_call_refresh(&call);
    struct attention_ref ref = attention_call_ref(&call, AG_SOFTMAX_CANN);
    attention_call_run(&call);
    attention_call_compare_with(&call, &ref);
    for (int64_t at = 0; at < test_tensor_elems(&call.dq); ++at) {
        const double got = test_tensor_get(&call.dq, at);
        dot += got * ref.dq[at];
        got_norm += got * got;
        want_norm += ref.dq[at] * ref.dq[at];
    }
    assert_true(dot / sqrt(got_norm * want_norm) > 0.9999);
    assert_true(fabs(sqrt(got_norm / want_norm) - 1) < 0.01);
    attention_call_ref_free(&ref);
    attention_call_destroy(&call);
}

/* 70,000 rows under a narrow window: several chunks of rows; values at both ends against the definition. */
static void a_long_window(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT,
                                     .d = 8,
                                     .q_ends = {70000},
                                     .mode = 4,
                                     .pre = 20,
                                     .next = 0,
                                     .mask_shape = TEST_MASK_COMPRESSED,
                                     .invent_statistics = true};
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &c);
    attention_call_verify(&call);
    attention_call_destroy(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifteen_thousand_sequences),
        cmocka_unit_test(more_than_2048_sequences),
        cmocka_unit_test(workspace_is_linear),
        cmocka_unit_test(heads_are_not_expanded),
        cmocka_unit_test(work_follows_the_window),
        cmocka_unit_test(rows_past_2_31_elements),
        cmocka_unit_test(a_mask_of_far_heads),
        cmocka_unit_test(long_sequences_without_queries),
        cmocka_unit_test(padding_rows),
        cmocka_unit_test(groups_are_sums_of_heads),
        cmocka_unit_test(narrow_values_are_padded_ones),
        cmocka_unit_test(dims_between_vectors),
        cmocka_unit_test(loud_channels),
        cmocka_unit_test(a_long_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
