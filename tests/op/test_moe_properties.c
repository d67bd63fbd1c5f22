/* labels: smoke ci */
/* aclnnMoeTokenUnpermuteWithEpGrad against itself and against differences of a forward pass: what must hold whatever
 * the numbers are. */
#include "support/moe_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct moe_test random_problem(uint64_t seed, int token_dtype, int probs_dtype)
{
    struct test_random random = test_random_seed(seed);
    const struct moe_shape shape = moe_shape_of(token_dtype, probs_dtype, 19, 4, 53);
    return moe_test_create(&shape, &random);
}

/* --- linear in the gradient ------------------------------------------------------------------------------------ */

static void outputs_are_linear_in_the_gradient(void **state)
{
    static const int types[] = {AG_FLOAT, AG_BF16};
    static const double factors[] = {2, -0.25, 0};
    (void)state;
    for (int i = 0; i < 2; ++i) {
        struct moe_test test = random_problem(11, types[i], AG_FLOAT);
        double *grad = test_tensor_to_doubles(&test.grad);
        moe_test_run(&test);
        double *permuted_grad = test_tensor_to_doubles(&test.permuted_grad);
        double *probs_grad = test_tensor_to_doubles(&test.probs_grad);
        for (int f = 0; f < 3; ++f) {
            for (int64_t e = 0; e < test_tensor_elems(&test.grad); ++e) {
                test_tensor_set(&test.grad, e, factors[f] * grad[e]);
            }
            moe_test_run(&test);
            for (int64_t e = 0; e < test_tensor_elems(&test.permuted_grad); ++e) {
                assert_true(test_tensor_get(&test.permuted_grad, e) == factors[f] * permuted_grad[e]);
            }
            for (int64_t e = 0; e < test_tensor_elems(&test.probs_grad); ++e) {
                assert_true(test_tensor_get(&test.probs_grad, e) == factors[f] * probs_grad[e]);
            }
        }
        free(grad);
        free(permuted_grad);
        free(probs_grad);
        moe_test_destroy(&test);
    }
}

/* --- ranks add up -------------------------------------------------------------------------------------------------- */

/* One rank's share of `whole`: the same tokens and probs, the rows of its window. */
static struct moe_test rank_of(const struct moe_test *whole, int64_t begin, int64_t end, int64_t out_rows)
{
    struct test_random random = test_random_seed(1);
    struct moe_shape shape = whole->shape;
    moe_shape_set_window(&shape, begin, end);
    shape.out_rows = out_rows;
    struct moe_test rank = moe_test_create(&shape, &random);
    test_tensor_copy_values(&rank.grad, &whole->grad);
    test_tensor_copy_values(&rank.indices, &whole->indices);
    test_tensor_copy_values(&rank.probs, &whole->probs);
    for (int64_t e = 0; e < test_tensor_elems(&rank.permuted); ++e) {
        test_tensor_set(&rank.permuted, e, test_tensor_get(&whole->permuted, begin * shape.hidden + e));
    }
    return rank;
}

/* Case 75: windows that part the order give rows that part the rows, and gradients of probs that add up, bit by bit. */
static void ranks_add_up(void **state)
{
    static const int64_t cuts[] = {0, 0, 5, 6, 30, 70, 76, 76};
    (void)state;
    struct moe_test whole = random_problem(75, AG_BF16, AG_FLOAT);
    moe_test_run(&whole);
    double sum[76] = {0};
    for (int r = 0; r + 1 < (int)(sizeof cuts / sizeof *cuts); ++r) {
        const int64_t rows = cuts[r + 1] - cuts[r];
        struct moe_test rank = rank_of(&whole, cuts[r], cuts[r + 1], r % 2 ? 76 : rows);
        moe_test_run(&rank);
        for (int64_t e = 0; e < test_tensor_elems(&rank.permuted_grad); ++e) {
            const double want = e < rows * 53 ? test_tensor_get(&whole.permuted_grad, cuts[r] * 53 + e) : 0;
            assert_true(test_tensor_get(&rank.permuted_grad, e) == want);
        }
        for (int64_t slot = 0; slot < 76; ++slot) {
            sum[slot] += test_tensor_get(&rank.probs_grad, slot);
        }
        moe_test_destroy(&rank);
    }
    for (int64_t slot = 0; slot < 76; ++slot) {
        assert_true(sum[slot] == test_tensor_get(&whole.probs_grad, slot));
    }
    moe_test_destroy(&whole);
}

/* --- tokens in another order ----------------------------------------------------------------------------------------- */

/* Tokens in another order with their slots: the same rows, the gradients of probs in that order. */
static void permuted_tokens_permute_results(void **state)
{
    struct test_random random = test_random_seed(4);
    int32_t order[19];
    (void)state;
    struct moe_test test = random_problem(5, AG_FLOAT16, AG_FLOAT16),
                    moved = random_problem(5, AG_FLOAT16, AG_FLOAT16);
    test_random_permutation(&random, 19, order);
    for (int64_t t = 0; t < 19; ++t) {
        for (int64_t h = 0; h < 53; ++h) {
            test_tensor_set(&moved.grad, t * 53 + h, test_tensor_get(&test.grad, order[t] * 53 + h));
        }
        for (int64_t k = 0; k < 4; ++k) {
            test_tensor_set(&moved.probs, t * 4 + k, test_tensor_get(&test.probs, order[t] * 4 + k));
            test_tensor_set(&moved.indices, t * 4 + k, test_tensor_get(&test.indices, order[t] * 4 + k));
        }
    }
    moe_test_run(&test);
    moe_test_run(&moved);
    test_assert_same_bits("permutedTokensGradOut", &moved.permuted_grad, &test.permuted_grad);
    for (int64_t slot = 0; slot < 76; ++slot) {
        const int64_t from = order[slot / 4] * 4 + slot % 4;
        assert_true(test_tensor_get(&moved.probs_grad, slot) == test_tensor_get(&test.probs_grad, from));
    }
    moe_test_destroy(&test);
    moe_test_destroy(&moved);
}

/* --- inputs are only read -------------------------------------------------------------------------------------------- */

static void inputs_are_unchanged(void **state)
{
    (void)state;
    struct moe_test test = random_problem(6, AG_BF16, AG_BF16), same = random_problem(6, AG_BF16, AG_BF16);
    moe_test_run(&test);
    test_assert_same_bits("unpermutedTokensGrad", &test.grad, &same.grad);
    test_assert_same_bits("sortedIndices", &test.indices, &same.indices);
    test_assert_same_bits("permutedTokensOptional", &test.permuted, &same.permuted);
    test_assert_same_bits("probsOptional", &test.probs, &same.probs);
    moe_test_destroy(&test);
    moe_test_destroy(&same);
}

/* --- differences of a forward ------------------------------------------------------------------------------------------ */

/* The forward, written from its own description: out[t] = sum over k of probs[t][k] * permuted[position - start]. */
struct forward {
    int64_t tokens, topk, hidden, begin, end;
    double *grad, *indices, *permuted, *probs;
};

/* sum over t, h of grad[t][h] * out[t][h]: its derivatives are what the operator computes. */
static double loss(const struct forward *f)
{
    double sum = 0;
    for (int64_t t = 0; t < f->tokens; ++t) {
        for (int64_t h = 0; h < f->hidden; ++h) {
            double out = 0;
            for (int64_t k = 0; k < f->topk; ++k) {
                const double position = f->indices[t * f->topk + k];
                if (position >= (double)f->begin && position < (double)f->end) {
                    const int64_t row = (int64_t)position - f->begin;
                    out += f->probs[t * f->topk + k] * f->permuted[row * f->hidden + h];
                }
            }
            sum += f->grad[t * f->hidden + h] * out;
        }
    }
    return sum;
}

static double difference(const struct forward *f, double *variable)
{
    const double step = 0x1p-10, value = *variable;
    *variable = value + step;
    const double above = loss(f);
    *variable = value - step;
    const double below = loss(f);
    *variable = value;
    return (above - below) / (2 * step);
}

static void check_differences(int64_t begin, int64_t end)
{
    struct test_random random = test_random_seed(12);
    struct moe_shape shape = moe_shape_of(AG_FLOAT, AG_FLOAT, 5, 3, 17);
    moe_shape_set_window(&shape, begin, end);
    struct moe_test test = moe_test_create(&shape, &random);
    moe_test_run(&test);
    const struct forward f = {.tokens = 5,
                              .topk = 3,
                              .hidden = 17,
                              .begin = begin,
                              .end = end,
                              .grad = test_tensor_to_doubles(&test.grad),
                              .indices = test_tensor_to_doubles(&test.indices),
                              .permuted = test_tensor_to_doubles(&test.permuted),
                              .probs = test_tensor_to_doubles(&test.probs)};
    for (int64_t e = 0; e < test_tensor_elems(&test.permuted_grad); ++e) {
        assert_true(fabs(difference(&f, &f.permuted[e]) - test_tensor_get(&test.permuted_grad, e)) < 1e-6);
    }
    for (int64_t slot = 0; slot < 15; ++slot) {
        assert_true(fabs(difference(&f, &f.probs[slot]) - test_tensor_get(&test.probs_grad, slot)) < 1e-5);
    }
    free(f.grad);
    free(f.indices);
    free(f.permuted);
    free(f.probs);
    moe_test_destroy(&test);
}

static void gradients_are_differences_of_the_forward(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        test_configure(2, isa, AG_LIMITS_DOCUMENTED);
        check_differences(0, 15);
        check_differences(4, 11);
        check_differences(9, 15);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_linear_in_the_gradient),       cmocka_unit_test(ranks_add_up),
        cmocka_unit_test(permuted_tokens_permute_results),          cmocka_unit_test(inputs_are_unchanged),
        cmocka_unit_test(gradients_are_differences_of_the_forward),
    };
    return cmocka_run_group_tests_name("moe properties", tests, NULL, NULL);
}
