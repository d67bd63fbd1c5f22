/* labels: smoke ci */
/* aclnnLightningIndexerGrad: the published example's shapes, more rows than keys, memory too large for 32 bits. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "base/half.h"
#include "support/indexer_problem.h"

enum { DIM = 128 };

/* --- the published example -------------------------------------------------------------------------------------- */

/* dy has query's shape: its last dim, 128, is the number of slots; rows of both tensors lie 128 elements apart. */
static void example(double one, double dq, double dw, double dk1)
{
    const int64_t query_dims[] = {2, 3, 64, DIM}, index_dims[] = {2, 3, 2048};
    struct indexer_call call;
    indexer_call_create_blank(
        &call, &(struct indexer_case){.dtype = AG_FLOAT16, .q_len = {3, 3}, .kv_len = {2048, 2048}, .heads = 64});
    test_tensor_destroy(&call.dy);
    test_tensor_destroy(&call.indices);
    call.dy = test_tensor_create(AG_FLOAT16, 4, query_dims);
    call.indices = test_tensor_create(AG_INT32, 3, index_dims);
    call.args.dy = call.dy.handle;
    call.args.sparse_indices = call.indices.handle;
    call.args.sparse_mode = 3;
    call.is_deterministic = true;
    test_tensor_fill_value(&call.query, one);
    test_tensor_fill_value(&call.key, one);
    test_tensor_fill_value(&call.dy, NAN);
    for (int64_t i = 0; i < 2 * 3 * DIM; ++i) { /* no more of dy is read, and as little of the indices */
        test_tensor_set(&call.dy, i, one);
    }
    test_tensor_fill_value(&call.weights, one);
    test_tensor_fill_bytes(&call.indices, 0x7f);
    for (int64_t i = 0; i < 2 * 3 * DIM; ++i) {
        indexer_set_index(&call, i, 1);
    }
    indexer_call_run(&call);
    for (int64_t i = 0; i < 2 * 3 * 64 * DIM; ++i) {
        indexer_expect("dq", &call.dq, i, dq);
    }
    for (int64_t i = 0; i < 2 * 3 * 64; ++i) {
        indexer_expect("dweights", &call.dweights, i, dw);
    }
    for (int64_t i = 0; i < 2 * 2048 * DIM; ++i) {
        indexer_expect("dk", &call.dk, i, i / DIM % 2048 == 1 ? dk1 : 0);
    }
    indexer_call_destroy(&call);
}

static void test_published_example(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        test_configure(2, isa, AG_LIMITS_DOCUMENTED);
        example(1, 128, 16384, 24576);
        example(0x1p-24, 0, 0, 0); /* its own inputs: the number 1 stored as the bits of an aclFloat16 */
    }
}

/* Rows of the indices then cross the rows that their shape suggests. */
static void test_flat_rows_cross(void **state)
{
    const int64_t query_dims[] = {1, 5, 2, DIM}, index_dims[] = {1, 5, 200};
    struct indexer_call call, plain;
    (void)state;
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    indexer_call_create(
        &plain,
        &(struct indexer_case){
            .dtype = AG_BF16, .q_len = {5}, .kv_len = {300}, .heads = 2, .topk = DIM, .indices = TEST_INDICES_WILD});
    indexer_call_run(&plain);
    indexer_call_create(&call, &plain.c);
    test_tensor_copy_values(&call.query, &plain.query);
    test_tensor_copy_values(&call.key, &plain.key);
    test_tensor_copy_values(&call.weights, &plain.weights);
    test_tensor_destroy(&call.dy);
    test_tensor_destroy(&call.indices);
    call.dy = test_tensor_create(AG_BF16, 4, query_dims);
    call.indices = test_tensor_create(AG_INT32, 3, index_dims);
    indexer_copy_rows(&call.dy, 0, &plain.dy, 0, 5, DIM);
    indexer_copy_rows(&call.indices, 0, &plain.indices, 0, 5, DIM);
    call.args.dy = call.dy.handle;
    call.args.sparse_indices = call.indices.handle;
    indexer_call_run(&call);
    indexer_call_assert_same(&call, &plain);
    indexer_call_destroy(&call);
    indexer_call_destroy(&plain);
}

/* --- more rows than keys ---------------------------------------------------------------------------------------- */

/* More rows than keys: the leading ones see none. They must not spoil their neighbours. */
static void more_rows_than_keys(int dtype)
{
    struct indexer_call call, alone;
    const struct indexer_case c = {
        .dtype = dtype, .is_packed = true, .q_len = {64}, .kv_len = {40}, .heads = 7, .topk = 40, .mode = 3};
    struct indexer_case later = c;
    later.q_len[0] = 40;
    indexer_call_create(&call, &c);
    indexer_call_run(&call);
    indexer_call_compare(&call);
    indexer_expect_zero_rows("dq", &call.dq, 0, 24, 7 * DIM);
    indexer_expect_zero_rows("dweights", &call.dweights, 0, 24, 7);
    indexer_call_create(&alone, &later);
    indexer_copy_rows(&alone.query, 0, &call.query, 24, 40, 7 * DIM);
    indexer_copy_rows(&alone.weights, 0, &call.weights, 24, 40, 7);
    indexer_copy_rows(&alone.dy, 0, &call.dy, 24, 40, 40);
    indexer_copy_rows(&alone.indices, 0, &call.indices, 24, 40, 40);
    indexer_copy_rows(&alone.key, 0, &call.key, 0, 40, DIM);
    indexer_call_run(&alone);
    for (int64_t i = 0; i < 40 * 7 * DIM; ++i) {
        indexer_expect("dq", &call.dq, 24 * 7 * DIM + i, test_tensor_get(&alone.dq, i));
    }
    for (int64_t i = 0; i < 40 * 7; ++i) {
        indexer_expect("dweights", &call.dweights, 24 * 7 + i, test_tensor_get(&alone.dweights, i));
    }
    test_assert_same_bits("dk", &call.dk, &alone.dk);
    indexer_call_destroy(&call);
    indexer_call_destroy(&alone);
}

static void test_more_rows_than_keys(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        test_configure(2, isa, AG_LIMITS_DOCUMENTED);
        more_rows_than_keys(AG_BF16);
        more_rows_than_keys(AG_FLOAT16);
    }
}

/* --- far apart -------------------------------------------------------------------------------------------------- */

/* Rows and keys 2^31 elements and more apart: 64-bit arithmetic everywhere. The memory is not real. */
struct far {
    char *memory;
    size_t bytes;
    aclTensor *handle;
    struct ag_view view;
};

static struct far create_far(int64_t rows, int64_t columns, int64_t row_stride)
{
    struct far far = {.bytes = (size_t)(row_stride * rows) * 2};
    const int64_t dims[3] = {rows, columns, DIM}, strides[3] = {row_stride, DIM, 1}, storage = row_stride * rows;
    far.memory = mmap(NULL, far.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(far.memory, MAP_FAILED);
    far.handle = aclCreateTensor(dims, 3, ACL_BF16, strides, 0, ACL_FORMAT_ND, &storage, 1, far.memory);
    assert_non_null(far.handle);
    return far;
}

static ag_bf16 *far_row(const struct far *far, int64_t row, int64_t row_stride)
{
    return (ag_bf16 *)(void *)far->memory + row * row_stride;
}

static void destroy_far(struct far *far)
{
    munmap(far->memory, far->bytes);
    aclDestroyTensor(far->handle);
}

static void test_far_rows(void **state)
{
    const int64_t stride = ((int64_t)1 << 31) + 64;
    struct indexer_call near;
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    indexer_call_create(
        &near, &(struct indexer_case){.dtype = AG_BF16, .is_packed = true, .q_len = {3}, .kv_len = {5}, .heads = 4});
    indexer_call_run(&near);
    struct far query = create_far(3, 4, stride), key = create_far(5, 1, stride);
    struct far dq = create_far(3, 4, stride), dk = create_far(5, 1, stride);
    for (int64_t r = 0; r < 3; ++r) {
        memcpy(far_row(&query, r, stride), test_tensor_at(&near.query, r * 4 * DIM), 4 * DIM * sizeof(ag_bf16));
    }
    for (int64_t t = 0; t < 5; ++t) {
        memcpy(far_row(&key, t, stride), test_tensor_at(&near.key, t * DIM), DIM * sizeof(ag_bf16));
    }
    struct indexer_call call = near;
    call.args.query = query.handle;
    call.args.key = key.handle;
    call.args.dq = dq.handle;
    call.args.dk = dk.handle;
    call.args.workspace_size = &call.workspace_size;
    call.args.executor = &call.executor;
    assert_int_equal(indexer_call_phase1(&call), 0);
    assert_int_equal(indexer_call_phase2(&call), 0);
    for (int64_t r = 0; r < 3; ++r) {
        assert_memory_equal(far_row(&dq, r, stride), test_tensor_at(&near.dq, r * 4 * DIM),
                            4 * DIM * sizeof(ag_bf16));
    }
    for (int64_t t = 0; t < 5; ++t) {
        assert_memory_equal(far_row(&dk, t, stride), test_tensor_at(&near.dk, t * DIM), DIM * sizeof(ag_bf16));
    }
    destroy_far(&query), destroy_far(&key), destroy_far(&dq), destroy_far(&dk);
    indexer_call_destroy(&near);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_example),
        cmocka_unit_test(test_flat_rows_cross),
        cmocka_unit_test(test_more_rows_than_keys),
        cmocka_unit_test(test_far_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
