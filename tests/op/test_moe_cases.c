/* labels: smoke ci emulated */
/* aclnnMoeTokenUnpermuteWithEpGrad on worked examples: small problems with their right answers written out. */
#include "support/moe_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "base/check.h"

/* A problem and its answer. Lists that are NULL: no such tensor; without probs probsGradOut is not touched. Ranges have
 * `range_values` values, 0 means none. */
struct worked {
    const char *name;
    int64_t tokens, topk, hidden, rows, out_rows;
    const double *grad, *indices, *permuted, *probs;
    int64_t range[2];
    bool has_range;
    const double *permuted_grad, *probs_grad;
};

#define LIST(...)                                                                                                    \
    (const double[])                                                                                                 \
    {                                                                                                                \
        __VA_ARGS__                                                                                                  \
    }

/* Two tokens, two experts each. */
#define M4_GRAD    LIST(1, 2, 3, 4)
#define M4_TOKENS  LIST(10, 20, 30, 40, 50, 60, 70, 80)
#define M4_PROBS   LIST(.5, .25, 2, 4)
#define M4_INDICES LIST(0, 2, 1, 3)
#define M4         .tokens = 2, .topk = 2, .hidden = 2, .grad = M4_GRAD, .permuted = M4_TOKENS, .probs = M4_PROBS

static const struct worked worked_examples[] = {
    {"two tokens, two experts, no range", M4, .rows = 4, .out_rows = 4, .indices = M4_INDICES,
     .permuted_grad = LIST(.5, 1, 6, 8, .25, .5, 12, 16), .probs_grad = LIST(50, 170, 250, 530)},
    {"case 71: -1 is dropped and moves nothing", M4, .rows = 2, .out_rows = 2, .indices = LIST(-1, 0, 1, -1),
     .permuted_grad = LIST(.25, .5, 6, 8), .probs_grad = LIST(0, 50, 250, 0)},
    {"case 73: slots outside the window get exactly 0", M4, .rows = 2, .out_rows = 2, .indices = M4_INDICES,
     .range = {1, 3}, .has_range = true, .permuted_grad = LIST(6, 8, .25, .5), .probs_grad = LIST(0, 110, 110, 0)},
    {"case 75: the first rank of two", M4, .rows = 2, .out_rows = 2, .indices = M4_INDICES, .range = {0, 2},
     .has_range = true, .permuted_grad = LIST(.5, 1, 6, 8), .probs_grad = LIST(50, 0, 250, 0)},
    {"case 78: neither probs nor tokens", .tokens = 2, .topk = 2, .hidden = 2, .out_rows = 4, .grad = M4_GRAD,
     .indices = M4_INDICES, .permuted_grad = LIST(1, 2, 3, 4, 1, 2, 3, 4)},
    {"case 81: an end counted from the end", M4, .rows = 3, .out_rows = 3, .indices = M4_INDICES, .range = {0, -1},
     .has_range = true, .permuted_grad = LIST(.5, 1, 6, 8, .25, .5), .probs_grad = LIST(50, 170, 250, 0)},
    {"case 81: an end behind the last position", M4, .rows = 4, .out_rows = 4, .indices = M4_INDICES,
     .range = {0, 999}, .has_range = true, .permuted_grad = LIST(.5, 1, 6, 8, .25, .5, 12, 16),
     .probs_grad = LIST(50, 170, 250, 530)},
    {"an end behind the last position asks for no more rows than there are", .tokens = 2, .topk = 2, .hidden = 2,
     .out_rows = 4, .grad = M4_GRAD, .indices = M4_INDICES, .range = {0, 999}, .has_range = true,
     .permuted_grad = LIST(1, 2, 3, 4, 1, 2, 3, 4)},
    {"a start before the first position", M4, .rows = 4, .out_rows = 4, .indices = M4_INDICES, .range = {-999, 4},
     .has_range = true, .permuted_grad = LIST(.5, 1, 6, 8, .25, .5, 12, 16), .probs_grad = LIST(50, 170, 250, 530)},
    {"the range -1, -1 is an empty window", M4, .rows = 0, .out_rows = 3, .indices = M4_INDICES, .range = {-1, -1},
     .has_range = true, .permuted_grad = LIST(0, 0, 0, 0, 0, 0), .probs_grad = LIST(0, 0, 0, 0)},
    {"a rank without tokens", M4, .rows = 0, .out_rows = 0, .indices = M4_INDICES, .range = {2, 2}, .has_range = true,
     .permuted_grad = LIST(0), .probs_grad = LIST(0, 0, 0, 0)},
    {"case 82: fewer tokens than the window", M4, .rows = 2, .out_rows = 2, .indices = M4_INDICES, .range = {1, 4},
     .has_range = true, .permuted_grad = LIST(6, 8, .25, .5), .probs_grad = LIST(0, 110, 110, 0)},
    {"case 87: one token, three experts, all ones", .tokens = 1, .topk = 3, .hidden = 2, .rows = 3, .out_rows = 3,
     .grad = LIST(1, 1), .indices = LIST(0, 1, 2), .permuted = LIST(1, 1, 1, 1, 1, 1), .probs = LIST(1, 1, 1),
     .permuted_grad = LIST(1, 1, 1, 1, 1, 1), .probs_grad = LIST(2, 2, 2)},
    {"three tokens, two experts, a window in the middle", .tokens = 3, .topk = 2, .hidden = 2, .rows = 3,
     .out_rows = 3, .grad = LIST(1, 2, 3, 5, 7, 11), .indices = LIST(2, 0, 4, 1, 5, 3),
     .permuted = LIST(1, 2, 3, 4, 5, 6), .probs = LIST(.5, .25, 1, 2, 4, 8), .range = {2, 5}, .has_range = true,
     .permuted_grad = LIST(.5, 1, 56, 88, 3, 5), .probs_grad = LIST(5, 0, 45, 0, 0, 65)},
    {"the same without probs, an output with all rows", .tokens = 3, .topk = 2, .hidden = 2, .out_rows = 6,
     .grad = LIST(1, 2, 3, 5, 7, 11), .indices = LIST(2, 0, 4, 1, 5, 3), .range = {2, 5}, .has_range = true,
     .permuted_grad = LIST(1, 2, 7, 11, 3, 5, 0, 0, 0, 0, 0, 0)},
    {"of two slots with one row the last wins", .tokens = 2, .topk = 2, .hidden = 1, .rows = 4, .out_rows = 4,
     .grad = LIST(1, 10), .indices = LIST(1, 1, 0, 3), .permuted = LIST(1, 2, 3, 4), .probs = LIST(1, 2, 3, 4),
     .permuted_grad = LIST(30, 2, 0, 40), .probs_grad = LIST(2, 2, 10, 40)},
    {"the same without probs", .tokens = 2, .topk = 2, .hidden = 1, .out_rows = 4, .grad = LIST(1, 10),
     .indices = LIST(1, 1, 0, 1), .permuted_grad = LIST(10, 10, 0, 0)},
    {"wild positions are not here", .tokens = 2, .topk = 2, .hidden = 1, .rows = 4, .out_rows = 4,
     .grad = LIST(1, 10), .indices = LIST(-3, 9, 0, 1), .permuted = LIST(1, 2, 3, 4), .probs = LIST(1, 2, 3, 4),
     .permuted_grad = LIST(30, 40, 0, 0), .probs_grad = LIST(0, 0, 10, 20)},
    {"the wildest positions", .tokens = 2, .topk = 2, .hidden = 1, .rows = 2, .out_rows = 2, .grad = LIST(1, 10),
     .indices = LIST(INT32_MIN, INT32_MAX, 2, 3), .permuted = LIST(1, 2), .probs = LIST(1, 2, 3, 4), .range = {2, 4},
     .has_range = true, .permuted_grad = LIST(30, 40), .probs_grad = LIST(0, 0, 10, 20)},
};
enum { WORKED_EXAMPLES = sizeof worked_examples / sizeof *worked_examples };

static struct moe_test make_worked(const struct worked *worked, int dtype)
{
    struct test_random random = test_random_seed(1);
    struct moe_shape shape = moe_shape_of(dtype, dtype, worked->tokens, worked->topk, worked->hidden);
    shape.has_probs = worked->probs != NULL;
    shape.has_tokens = worked->permuted != NULL;
    shape.rows = worked->rows;
    shape.out_rows = worked->out_rows;
    shape.has_range = worked->has_range;
    memcpy(shape.range, worked->range, sizeof shape.range);
    struct moe_test test = moe_test_create(&shape, &random);
    moe_test_set(&test.grad, worked->grad);
    moe_test_set(&test.indices, worked->indices);
    if (worked->permuted) {
        moe_test_set(&test.permuted, worked->permuted);
    }
    if (worked->probs) {
        moe_test_set(&test.probs, worked->probs);
    }
    return test;
}

static void assert_values(const char *what, const struct test_tensor *got, const double *want)
{
    double *exact = calloc((size_t)test_tensor_elems(got) + 1, sizeof *exact);
    assert_non_null(exact);
    test_compare(what, got, want, exact, NULL);
    free(exact);
}

/* The answer of the library, and that of the definition. */
static void is_answered(void **state)
{
    static const int types[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};
    const struct worked *worked = *state;
    for (int i = 0; i < 3; ++i) {
        struct moe_test test = make_worked(worked, types[i]);
        moe_test_check(&test);
        assert_values("permutedTokensGradOut", &test.permuted_grad, worked->permuted_grad);
        if (worked->probs && types[i] != AG_BF16) { /* 530 is no bfloat16 number; its bound has judged it */
            assert_values("probsGradOut", &test.probs_grad, worked->probs_grad);
        }
        moe_test_destroy(&test);
    }
}

/* --- numbers ----------------------------------------------------------------------------------------------------- */

/* Case 84: scaling is exact, only sums round. */
static void case_84_scaling_is_exact(void **state)
{
    struct test_random random = test_random_seed(84);
    const struct moe_shape shape = moe_shape_of(AG_FLOAT, AG_FLOAT, 64, 4, 2048);
    (void)state;
    struct moe_test test = moe_test_create(&shape, &random);
    struct moe_answer answer = moe_answer_create(&test);
    TEST_EACH_ISA (isa) {
        test_configure(2, isa, AG_LIMITS_DOCUMENTED);
        moe_test_run(&test);
        moe_test_compare(&test, &answer);
        const int32_t *indices = test.indices.view.data;
        for (int64_t slot = 0; slot < 256; ++slot) {
            const float prob = (float)test_tensor_get(&test.probs, slot);
            for (int64_t h = 0; h < 2048; ++h) {
                const float want = (float)test_tensor_get(&test.grad, slot / 4 * 2048 + h) * prob;
                assert_true((float)test_tensor_get(&test.permuted_grad, indices[slot] * 2048 + h) == want);
            }
            /* 1e-5 of the size that a sum of 2048 products of this spread has */
            assert_true(fabs(test_tensor_get(&test.probs_grad, slot) - answer.values.probs_grad[slot]) <
                        1e-5 * sqrt(2048));
        }
    }
    moe_answer_destroy(&answer);
    moe_test_destroy(&test);
}

/* Case 90: sums that fit a float are exact, then rounded once: bfloat16 sums would drift. */
static void case_90_sums_are_float(void **state)
{
    static const int types[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};
    struct test_random random = test_random_seed(90);
    (void)state;
    for (int i = 0; i < 3; ++i) {
        const struct moe_shape shape = moe_shape_of(AG_BF16, types[i], 2, 4, 7168);
        struct moe_test test = moe_test_create(&shape, &random);
        for (int64_t e = 0; e < 2 * 7168; ++e) {
            test_tensor_set(&test.grad, e, e % 2 ? -1 : 1);
        }
        for (int64_t e = 0; e < 8 * 7168; ++e) {
            test_tensor_set(&test.permuted, e, 1 + 0x1p-7 * (double)((e * 37 + e / 7168) % 128));
        }
        struct moe_answer answer = moe_answer_create(&test);
        TEST_EACH_ISA (isa) {
            test_configure(1, isa, AG_LIMITS_DOCUMENTED);
            moe_test_run(&test);
            for (int64_t slot = 0; slot < 8; ++slot) {
                struct test_tensor want = test_tensor_create(types[i], 1, (int64_t[]){1});
                test_tensor_set(&want, 0, answer.values.probs_grad[slot]);
                assert_true(test_tensor_get(&test.probs_grad, slot) == test_tensor_get(&want, 0));
                test_tensor_destroy(&want);
            }
        }
        moe_answer_destroy(&answer);
        moe_test_destroy(&test);
    }
}

/* Overflow goes to infinity, 0 * infinity is NaN (a probability of 0 is no short cut), without probs the bits of a NaN
 * stay. */
static void special_values_take_their_course(void **state)
{
    static const double grad[] = {INFINITY, 60000, NAN, -0.0};
    static const double probs[] = {0, 2}, permuted[] = {0, 0, 0, 0, 1, 1, 1, 1}, indices[] = {0, 1};
    struct test_random random = test_random_seed(1);
    struct moe_shape shape = moe_shape_of(AG_FLOAT16, AG_FLOAT16, 1, 2, 4);
    (void)state;
    struct moe_test test = moe_test_create(&shape, &random);
    moe_test_set(&test.grad, grad);
    moe_test_set(&test.probs, probs);
    moe_test_set(&test.permuted, permuted);
    moe_test_set(&test.indices, indices);
    moe_test_run(&test);
    assert_true(isnan(test_tensor_get(&test.permuted_grad, 0)));
    assert_true(test_tensor_get(&test.permuted_grad, 1) == 0);
    assert_true(isinf(test_tensor_get(&test.permuted_grad, 4)) && isinf(test_tensor_get(&test.permuted_grad, 5)));
    assert_true(isnan(test_tensor_get(&test.permuted_grad, 6)));
    assert_true(signbit(test_tensor_get(&test.permuted_grad, 7)));
    assert_true(isnan(test_tensor_get(&test.probs_grad, 0)) && isnan(test_tensor_get(&test.probs_grad, 1)));
    moe_test_destroy(&test);

    shape.has_probs = false;
    test = moe_test_create(&shape, &random);
    ((uint16_t *)test.grad.view.data)[2] = 0xfc01; /* a signalling NaN */
    moe_test_run(&test);
    assert_memory_equal(test.permuted_grad.view.data, test.grad.view.data, 8);
    moe_test_destroy(&test);
}

/* Case 77: mixed types cost no copy of the tokens. */
static void case_77_mixed_types_need_no_copy(void **state)
{
    struct test_random random = test_random_seed(77);
    const struct moe_shape shape = moe_shape_of(AG_BF16, AG_FLOAT, 16, 8, 7168);
    uint64_t workspace_size;
    aclOpExecutor *executor;
    (void)state;
    struct moe_test test = moe_test_create(&shape, &random);
    test_configure(2, ag_config_get().isa, AG_LIMITS_DOCUMENTED);
    assert_int_equal(moe_test_phase1(&test, &workspace_size, &executor), 0);
    assert_int_equal(aclDestroyAclOpExecutor(executor), 0);
    assert_true(workspace_size < 2 * 7168 * 2 + 16 * 8 * 8 + 1024); /* a row per thread, two numbers per slot */
    moe_test_check(&test);
    moe_test_destroy(&test);
}

int main(void)
{
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(case_84_scaling_is_exact),
        cmocka_unit_test(case_90_sums_are_float),
        cmocka_unit_test(special_values_take_their_course),
        cmocka_unit_test(case_77_mixed_types_need_no_copy),
    };
    enum { OTHERS = sizeof others / sizeof *others };
    struct CMUnitTest tests[WORKED_EXAMPLES + OTHERS];
    for (int i = 0; i < WORKED_EXAMPLES; ++i) {
        tests[i] = (struct CMUnitTest){.name = worked_examples[i].name,
                                       .test_func = is_answered,
                                       .initial_state = (void *)(uintptr_t)&worked_examples[i]};
    }
    memcpy(tests + WORKED_EXAMPLES, others, sizeof others);
    return cmocka_run_group_tests_name("moe cases", tests, NULL, NULL);
}
