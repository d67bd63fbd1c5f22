/* labels: smoke ci emulated */
/* aclnnLightningIndexerGrad: small problems whose right values are known, in every kernel table. Each is a mistake
 * that someone has made in such a kernel. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/indexer_problem.h"

enum { DIM = 128 };

/* --- tiny problems by hand -------------------------------------------------------------------------------------- */

static void set_slots(struct indexer_call *call, int64_t row, const int32_t *indices, const double *dy)
{
    for (int64_t j = 0; j < call->c.topk; ++j) {
        indexer_set_index(call, row * call->c.topk + j, indices[j]);
        test_tensor_set(&call->dy, row * call->c.topk + j, dy[j]);
    }
}

/* A row of DIM elements is value * e0. */
static void expect_e0(const char *what, const struct test_tensor *tensor, int64_t row, double value)
{
    for (int64_t d = 0; d < DIM; ++d) {
        indexer_expect(what, tensor, row * DIM + d, d == 0 ? value : 0);
    }
}

#define EVERYWHERE(body)                                                                                             \
    do {                                                                                                             \
        static const int dtypes[] = {AG_BF16, AG_FLOAT16};                                                           \
        TEST_EACH_ISA (isa) {                                                                                        \
            for (int t = 0; t < 2; ++t) {                                                                            \
                test_configure(2, isa, AG_LIMITS_DOCUMENTED);                                                        \
                body(dtypes[t]);                                                                                     \
            }                                                                                                        \
        }                                                                                                            \
    } while (0)

/* -1 is skipped where keys are read and where gradients are written. */
static void empty_slot(int dtype)
{
    struct indexer_call call;
    indexer_call_create_blank(&call, &(struct indexer_case){.dtype = dtype, .q_len = {1}, .kv_len = {1}, .topk = 2});
    test_tensor_set(&call.query, 0, 1);
    test_tensor_set(&call.key, 0, 2);
    set_slots(&call, 0, (const int32_t[]){0, -1}, (const double[]){3, 5});
    indexer_call_run(&call);
    indexer_expect("dweights", &call.dweights, 0, 6);
    expect_e0("dq", &call.dq, 0, 6);
    expect_e0("dk", &call.dk, 0, 3);
    indexer_call_destroy(&call);
}

static void test_empty_slot(void **state)
{
    (void)state;
    EVERYWHERE(empty_slot);
}

/* Slots are judged by their value, not by their column: late valid ones count in sparse mode 0. */
static void late_slots(int dtype)
{
    struct indexer_call call;
    indexer_call_create_blank(&call, &(struct indexer_case){.dtype = dtype, .q_len = {1}, .kv_len = {4}, .topk = 8});
    test_tensor_set(&call.query, 0, 1);
    test_tensor_set(&call.key, 0, 1);
    test_tensor_set(&call.key, 3 * DIM, 2);
    set_slots(&call, 0, (const int32_t[]){-1, -1, -1, -1, -1, 3, -1, 0},
              (const double[]){NAN, NAN, NAN, NAN, NAN, 10, NAN, 100});
    indexer_call_run(&call);
    indexer_expect("dweights", &call.dweights, 0, 2 * 10 + 100);
    expect_e0("dq", &call.dq, 0, 2 * 10 + 100);
    expect_e0("dk", &call.dk, 0, 100);
    expect_e0("dk", &call.dk, 1, 0);
    expect_e0("dk", &call.dk, 3, 10);
    indexer_call_destroy(&call);
}

static void test_late_slots(void **state)
{
    (void)state;
    EVERYWHERE(late_slots);
}

/* Sparse mode 3 takes as many leading slots as keys are visible, whatever stands in them. */
static void leading_slots(int dtype)
{
    static const int32_t indices[4][4] = {{0, 3, 2, 1}, {1, 0, 3, 2}, {2, 0, 1, 3}, {0, 1, 2, 3}};
    static const double dy[4] = {1, 10, 100, 1000}, dw[4] = {1, 11, 111, 1111}, dk[4] = {22, 111, 101, 1000};
    struct indexer_call call;
    indexer_call_create_blank(
        &call, &(struct indexer_case){.dtype = dtype, .q_len = {4}, .kv_len = {4}, .topk = 4, .mode = 3});
    for (int i = 0; i < 4; ++i) {
        test_tensor_set(&call.query, i * DIM, 1);
        test_tensor_set(&call.key, i * DIM, 1);
        set_slots(&call, i, indices[i], dy);
    }
    indexer_call_run(&call);
    for (int i = 0; i < 4; ++i) { /* bf16 rounds 1111, and nothing else here */
        indexer_expect("dweights", &call.dweights, i, dtype == AG_BF16 && i == 3 ? 1112 : dw[i]);
        expect_e0("dq", &call.dq, i, dtype == AG_BF16 && i == 3 ? 1112 : dw[i]);
        expect_e0("dk", &call.dk, i, dk[i]);
    }
    indexer_call_destroy(&call);
}

static void test_leading_slots(void **state)
{
    (void)state;
    EVERYWHERE(leading_slots);
}

/* Negative scores, and scores of exactly 0, pass no gradient. */
static void relu(int dtype)
{
    static const double dq[3] = {2, 0, 0}, dw[3] = {1, 0, 0};
    struct indexer_call call;
    indexer_call_create_blank(
        &call, &(struct indexer_case){.dtype = dtype, .q_len = {1}, .kv_len = {1}, .heads = 3, .topk = 1});
    test_tensor_set(&call.query, 0, 1);
    test_tensor_set(&call.query, DIM, -1);
    test_tensor_set(&call.query, 2 * DIM + 1, 1);
    test_tensor_set(&call.key, 0, 1);
    test_tensor_fill_value(&call.weights, 2);
    set_slots(&call, 0, (const int32_t[]){0}, (const double[]){1});
    indexer_call_run(&call);
    for (int h = 0; h < 3; ++h) {
        indexer_expect("dweights", &call.dweights, h, dw[h]);
        expect_e0("dq", &call.dq, h, dq[h]);
    }
    expect_e0("dk", &call.dk, 0, 2);
    indexer_call_destroy(&call);
}

static void test_relu(void **state)
{
    (void)state;
    EVERYWHERE(relu);
}

/* A score of -0 is a score of 0. */
static void minus_zero(int dtype)
{
    struct indexer_call call;
    indexer_call_create_blank(&call, &(struct indexer_case){.dtype = dtype, .q_len = {1}, .kv_len = {2}, .topk = 2});
    test_tensor_fill_value(&call.query, -0.0);
    test_tensor_fill_value(&call.key, 1);
    set_slots(&call, 0, (const int32_t[]){0, 1}, (const double[]){1, 1});
    indexer_call_run(&call);
    indexer_expect("dweights", &call.dweights, 0, 0);
    expect_e0("dq", &call.dq, 0, 0);
    expect_e0("dk", &call.dk, 1, 0);
    indexer_call_destroy(&call);
}

static void test_minus_zero(void **state)
{
    (void)state;
    EVERYWHERE(minus_zero);
}

/* The smallest score there is passes all of the gradient, not a part. */
static void test_smallest_score(void **state)
{
    struct indexer_call call;
    (void)state;
    TEST_EACH_ISA (isa) {
        test_configure(1, isa, AG_LIMITS_DOCUMENTED);
        indexer_call_create_blank(
            &call, &(struct indexer_case){.dtype = AG_FLOAT16, .q_len = {1}, .kv_len = {1}, .topk = 1});
        test_tensor_set(&call.query, 0, 0x1p-12);
        test_tensor_set(&call.key, 0, 0x1p-12);
        set_slots(&call, 0, (const int32_t[]){0}, (const double[]){1});
        indexer_call_run(&call);
        expect_e0("dq", &call.dq, 0, 0x1p-12);
        expect_e0("dk", &call.dk, 0, 0x1p-12);
        indexer_expect("dweights", &call.dweights, 0, 0x1p-24);
        indexer_call_destroy(&call);
    }
}

/* FLOAT16: subnormal inputs count, weights * dy may pass 65504, results beyond it become infinite. */
static void test_half_range(void **state)
{
    struct indexer_call call;
    (void)state;
    TEST_EACH_ISA (isa) {
        test_configure(1, isa, AG_LIMITS_DOCUMENTED);
        indexer_call_create_blank(
            &call, &(struct indexer_case){.dtype = AG_FLOAT16, .q_len = {1}, .kv_len = {2}, .topk = 2});
        test_tensor_set(&call.query, 0, 0x1p-24);
        test_tensor_set(&call.key, 0, 0x1p-10);
        test_tensor_set(&call.key, DIM, 1024);
        test_tensor_set(&call.weights, 0, 1024);
        set_slots(&call, 0, (const int32_t[]){0, 1}, (const double[]){1024, -1024});
        indexer_call_run(&call);
        expect_e0("dq", &call.dq, 0, -INFINITY); /* 2^20 * (2^-10 - 2^10) */
        expect_e0("dk", &call.dk, 0, 0x1p-4);
        expect_e0("dk", &call.dk, 1, -0x1p-4);
        indexer_expect("dweights", &call.dweights, 0, -0x1p-4); /* 2^-24 less rounds to it */
        indexer_call_destroy(&call);
    }
}

/* BF16 has float's exponents. */
static void test_bf16_range(void **state)
{
    struct indexer_call call;
    (void)state;
    TEST_EACH_ISA (isa) {
        test_configure(1, isa, AG_LIMITS_DOCUMENTED);
        indexer_call_create_blank(&call,
                                  &(struct indexer_case){.dtype = AG_BF16, .q_len = {1}, .kv_len = {1}, .topk = 1});
        test_tensor_set(&call.query, 0, 0x1p100);
        test_tensor_set(&call.key, 0, 0x1p-90);
        test_tensor_set(&call.weights, 0, 0x1p60);
        set_slots(&call, 0, (const int32_t[]){0}, (const double[]){0x1p-30});
        indexer_call_run(&call);
        indexer_expect("dweights", &call.dweights, 0, 0x1p-20);
        expect_e0("dq", &call.dq, 0, 0x1p-60);
        expect_e0("dk", &call.dk, 0, INFINITY); /* 2^30 * 2^100 */
        indexer_call_destroy(&call);
    }
}

/* weights * dy is rounded to bf16, for bf16 only: 1.5 * 1.0078125 = 1.51171875 lies between bf16 numbers. */
static void rounded_product(int dtype)
{
    const double product = 1.5 * 1.0078125;
    struct indexer_call call;
    indexer_call_create_blank(&call, &(struct indexer_case){.dtype = dtype, .q_len = {1}, .kv_len = {2}, .topk = 2});
    test_tensor_set(&call.query, 0, 1);
    test_tensor_set(&call.key, 0, 128);
    test_tensor_set(&call.key, DIM, 128);
    test_tensor_set(&call.weights, 0, 1.5);
    set_slots(&call, 0, (const int32_t[]){0, 1}, (const double[]){1.0078125, -1.5});
    indexer_call_run(&call);
    const double flow = dtype == AG_BF16 ? 1.515625 : product; /* a tie: to even */
    expect_e0("dq", &call.dq, 0, 128 * (flow - 2.25));
    indexer_call_destroy(&call);
}

static void test_rounded_product(void **state)
{
    (void)state;
    EVERYWHERE(rounded_product);
}

/* --- what must not be touched ----------------------------------------------------------------------------------- */

/* An index equal to the number of keys is one too large. */
static void beyond_the_end(int dtype)
{
    struct indexer_call call;
    indexer_call_create_blank(&call, &(struct indexer_case){.dtype = dtype, .q_len = {1}, .kv_len = {4}, .topk = 2});
    test_tensor_fill_value(&call.query, 1);
    test_tensor_fill_value(&call.key, 1);
    set_slots(&call, 0, (const int32_t[]){0, 4}, (const double[]){1, NAN});
    indexer_call_run(&call);
    indexer_expect("dweights", &call.dweights, 0, 128);
    indexer_expect("dk", &call.dk, 0, 1);
    indexer_expect("dk", &call.dk, 4 * DIM - 1, 0);
    indexer_call_destroy(&call);
}

static void test_beyond_the_end(void **state)
{
    (void)state;
    EVERYWHERE(beyond_the_end);
}

/* A row without any valid index. */
static void no_valid_slot(int dtype)
{
    struct indexer_call call;
    indexer_call_create_blank(
        &call, &(struct indexer_case){.dtype = dtype, .q_len = {2}, .kv_len = {4}, .topk = 2, .heads = 3});
    test_tensor_fill_value(&call.query, 1);
    test_tensor_fill_value(&call.key, 1);
    set_slots(&call, 0, (const int32_t[]){-1, INT32_MIN}, (const double[]){NAN, INFINITY});
    set_slots(&call, 1, (const int32_t[]){1, 1}, (const double[]){1, 2});
    indexer_call_run(&call);
    for (int i = 0; i < 3; ++i) {
        indexer_expect("dweights", &call.dweights, i, 0);
        indexer_expect("dweights", &call.dweights, 3 + i, 3 * 128);
        indexer_expect("dq", &call.dq, i * DIM, 0);
        indexer_expect("dq", &call.dq, (3 + i) * DIM, 3);
    }
    indexer_expect("dk", &call.dk, 0, 0);
    indexer_expect("dk", &call.dk, DIM, 9);
    indexer_call_destroy(&call);
}

static void test_no_valid_slot(void **state)
{
    (void)state;
    EVERYWHERE(no_valid_slot);
}

/* Rows and keys behind the last prefix sum: zeros, their inputs (NaN) never read. */
static void tail(int dtype)
{
    struct indexer_call call;
    indexer_call_create(&call, &(struct indexer_case){.dtype = dtype,
                                                      .is_packed = true,
                                                      .q_len = {3, 2},
                                                      .kv_len = {4, 6},
                                                      .q_slack = 3,
                                                      .kv_slack = 5,
                                                      .heads = 2,
                                                      .topk = 5});
    indexer_call_verify(&call);
    indexer_expect_zero_rows("dq", &call.dq, 5, 3, 2 * DIM);
    indexer_expect_zero_rows("dweights", &call.dweights, 5, 3, 2);
    indexer_expect_zero_rows("dk", &call.dk, 10, 5, DIM);
    indexer_call_destroy(&call);
}

static void test_tail(void **state)
{
    (void)state;
    EVERYWHERE(tail);
}

/* Counts in BSND are cut to the tensor: a cumulative list of full lengths means full lengths, negatives nothing. */
static void cut_counts(int dtype)
{
    static const int32_t counts[2][2] = {{3, 6}, {-4, 100}};
    static const struct indexer_case meant[2] = {{.q_len = {3, 3}, .kv_len = {5, 5}},
                                                 {.q_len = {0, 3}, .kv_len = {0, 5}}};
    for (int i = 0; i < 2; ++i) {
        struct indexer_call call, want;
        struct indexer_case c = {.dtype = dtype,
                                 .q_len = {3, 3},
                                 .kv_len = {5, 5},
                                 .has_counts = true,
                                 .topk = 9,
                                 .mode = 3,
                                 .indices = TEST_INDICES_WILD};
        indexer_call_create(&call, &c);
        memcpy(c.q_len, meant[i].q_len, sizeof c.q_len);
        memcpy(c.kv_len, meant[i].kv_len, sizeof c.kv_len);
        c.sequences = 2;
        indexer_call_create(&want, &c);
        test_tensor_copy_values(&want.query, &call.query);
        test_tensor_copy_values(&want.key, &call.key);
        test_tensor_copy_values(&want.dy, &call.dy);
        test_tensor_copy_values(&want.indices, &call.indices);
        test_tensor_copy_values(&want.weights, &call.weights);
        for (int b = 0; b < 2; ++b) {
            const int32_t kv = counts[i][b] * (i ? 1 : 5) / (i ? 1 : 3);
            memcpy(test_tensor_at(&call.q_lengths, b), &counts[i][b], sizeof counts[i][b]);
            memcpy(test_tensor_at(&call.kv_lengths, b), &kv, sizeof kv);
        }
        indexer_call_run(&call);
        indexer_call_run(&want);
        indexer_call_assert_same(&call, &want);
        indexer_call_destroy(&call);
        indexer_call_destroy(&want);
    }
}

static void test_cut_counts(void **state)
{
    (void)state;
    EVERYWHERE(cut_counts);
}

static void empty_query(int dtype)
{
    const int64_t slots[] = {1, 0, 7};
    struct indexer_call call;
    indexer_call_create(&call, &(struct indexer_case){.dtype = dtype, .kv_len = {16}, .heads = 8, .topk = 7});
    assert_memory_equal(call.dy.view.dims, slots, sizeof slots);
    indexer_call_verify(&call);
    assert_int_equal(call.workspace_size, 0);
    indexer_expect_zero_rows("dk", &call.dk, 0, 16, DIM);
    indexer_call_destroy(&call);
}

static void test_empty_query(void **state)
{
    (void)state;
    EVERYWHERE(empty_query);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_slot),      cmocka_unit_test(test_late_slots),
        cmocka_unit_test(test_leading_slots),   cmocka_unit_test(test_relu),
        cmocka_unit_test(test_minus_zero),      cmocka_unit_test(test_smallest_score),
        cmocka_unit_test(test_half_range),      cmocka_unit_test(test_bf16_range),
        cmocka_unit_test(test_rounded_product), cmocka_unit_test(test_beyond_the_end),
        cmocka_unit_test(test_no_valid_slot),   cmocka_unit_test(test_tail),
        cmocka_unit_test(test_cut_counts),      cmocka_unit_test(test_empty_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
