/* labels: ci */
/* aclnnLightningIndexerGrad beyond the documented limits: any D, more than 64 heads, more than 2048 slots, FLOAT. */
#include <string.h>

#include "support/indexer_problem.h"

static const int dtypes[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};

static void verify_everywhere(struct indexer_case c)
{
    TEST_EACH_ISA (isa) {
        for (int t = 0; t < 3; ++t) {
            struct indexer_call call;
            c.dtype = dtypes[t];
            c.seed += 1;
            test_configure(1, isa, AG_LIMITS_EXTENDED);
            indexer_call_create(&call, &c);
            indexer_call_verify(&call);
            indexer_call_destroy(&call);
        }
    }
}

static void test_dims(void **state)
{
    static const int64_t dims[] = {1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 192, 300};
    (void)state;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; ++i) {
        verify_everywhere((struct indexer_case){.is_packed = true,
                                                .q_len = {2, 3},
                                                .kv_len = {9, 13},
                                                .heads = 5,
                                                .dim = dims[i],
                                                .topk = 11,
                                                .mode = i % 2 ? 3 : 0,
                                                .views = (enum test_indexer_views)(i % TEST_INDEXER_VIEWS),
                                                .indices = TEST_INDICES_WILD});
    }
}

static void test_many_heads(void **state)
{
    static const int64_t heads[] = {65, 95, 97, 128, 200};
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; ++i) {
        verify_everywhere((struct indexer_case){
            .q_len = {2}, .kv_len = {15}, .heads = heads[i], .dim = i % 2 ? 128 : 20, .topk = 17});
    }
}

static void test_many_slots(void **state)
{
    (void)state;
    verify_everywhere((struct indexer_case){.q_len = {2}, .kv_len = {3000}, .heads = 2, .dim = 9, .topk = 2999});
    verify_everywhere((struct indexer_case){
        .q_len = {1}, .kv_len = {100}, .heads = 2, .dim = 9, .topk = 5000, .indices = TEST_INDICES_WILD});
}

/* FLOAT is computed in FLOAT: errors far below what a bf16 product would make. */
static void test_float_is_float(void **state)
{
    struct indexer_call call;
    (void)state;
    TEST_EACH_ISA (isa) {
        test_configure(1, isa, AG_LIMITS_EXTENDED);
        indexer_call_create(&call, &(struct indexer_case){.dtype = AG_FLOAT, .q_len = {1}, .kv_len = {1}, .topk = 1});
        test_tensor_fill_value(&call.query, 0);
        test_tensor_fill_value(&call.key, 0);
        test_tensor_set(&call.query, 0, 1 + 0x1p-20);
        test_tensor_set(&call.key, 0, 1 - 0x1p-22);
        test_tensor_set(&call.weights, 0, 1 + 0x1p-18);
        test_tensor_set(&call.dy, 0, 1);
        indexer_call_run(&call);
        assert_true(test_tensor_get(&call.dq, 0) == (double)(float)((1 + 0x1p-18) * (1 - 0x1p-22)));
        assert_true(test_tensor_get(&call.dk, 0) == (double)(float)((1 + 0x1p-18) * (1 + 0x1p-20)));
        assert_true(test_tensor_get(&call.dweights, 0) == (double)(float)((1 + 0x1p-20) * (1 - 0x1p-22)));
        indexer_call_destroy(&call);
    }
}

/* Rows of an odd D that begin at whole words, a NaN behind each: it is nobody's second half. */
static void test_gap_behind_an_odd_row(void **state)
{
    enum { KEYS = 20, DIM = 9, STRIDE = 10 };
    static _Alignas(64) uint16_t spread[KEYS * STRIDE];
    static const int64_t dims[] = {KEYS, 1, DIM}, strides[] = {STRIDE, STRIDE, 1}, storage[] = {KEYS * STRIDE};
    const struct indexer_case c = {
        .dtype = AG_BF16, .is_packed = true, .q_len = {3}, .kv_len = {KEYS}, .heads = 3, .dim = DIM, .topk = 11};
    (void)state;
    TEST_EACH_ISA (isa) {
        struct indexer_call dense, call;
        test_configure(1, isa, AG_LIMITS_EXTENDED);
        indexer_call_create(&dense, &c);
        indexer_call_create(&call, &c);
        memset(spread, 0xff, sizeof spread);
        for (int64_t i = 0; i < KEYS * DIM; ++i) {
            memcpy(&spread[i / DIM * STRIDE + i % DIM], test_tensor_at(&dense.key, i), sizeof *spread);
        }
        aclTensor *key = aclCreateTensor(dims, 3, ACL_BF16, strides, 0, ACL_FORMAT_ND, storage, 1, spread);
        call.args.key = key;
        indexer_call_run(&dense);
        indexer_call_run(&call);
        indexer_call_assert_same(&call, &dense);
        aclDestroyTensor(key);
        indexer_call_destroy(&call);
        indexer_call_destroy(&dense);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dims),
        cmocka_unit_test(test_many_heads),
        cmocka_unit_test(test_many_slots),
        cmocka_unit_test(test_float_is_float),
        cmocka_unit_test(test_gap_behind_an_odd_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
