/* labels: smoke ci */
/* The mixture-of-experts operators with one another: there and back, windows that add up, gradients that are the adjoints
 * and the differences of their forwards. */
#include "support/moe_companions.h"
#include "support/moe_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_moe_token_unpermute_grad.h"

enum { TOKENS = 19, TOPK = 3, SLOTS = TOKENS * TOPK, HIDDEN = 37, EXPERTS = 8 };

/* Permute's result as unpermute's or its gradient's input: the same positions, and rows as the caller says. */
static struct unpermute_test back_from(const struct permute_test *there, bool is_grad, struct test_random *random)
{
    struct companion_shape shape = there->shape;
    struct unpermute_test back = unpermute_test_create(&shape, is_grad, random);
    test_tensor_copy_values(&back.sorted, &there->sorted);
    return back;
}

/* --- there and back -------------------------------------------------------------------------------------- */

/* Every copy of a token has weight 1 / topk, a power of two: their sum is the token, bit by bit. */
static void tokens_come_back_exactly(void **state)
{
    static const int types[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};
    static const int64_t topks[] = {1, 2, 4};
    (void)state;
    for (int i = 0; i < 9; ++i) {
        struct test_random random = test_random_seed((uint64_t)i);
        const struct companion_shape shape = companion_shape_of(types[i / 3], AG_FLOAT, TOKENS, topks[i % 3], HIDDEN);
        struct permute_test there = permute_test_create(&shape, EXPERTS, &random);
        permute_test_run(&there);
        struct unpermute_test back = back_from(&there, false, &random);
        test_tensor_copy_values(&back.permuted, &there.permuted);
        test_tensor_fill_value(&back.probs, 1.0 / (double)topks[i % 3]);
        unpermute_test_run(&back);
        test_assert_same_bits("out", &back.tokens, &there.tokens);
        permute_test_destroy(&there);
        unpermute_test_destroy(&back);
    }
}

/* Probs that went with the tokens come back through the gradient. */
static void probs_come_back_exactly(void **state)
{
    struct test_random random = test_random_seed(2);
    const struct companion_shape shape = companion_shape_of(AG_BF16, AG_FLOAT, TOKENS, TOPK, HIDDEN);
    (void)state;
    struct permute_test there = permute_test_create(&shape, EXPERTS, &random);
    permute_test_run(&there);
    struct unpermute_test back = back_from(&there, true, &random);
    test_tensor_copy_values(&back.probs, &there.permuted_probs);
    unpermute_test_run(&back);
    test_assert_same_bits("probsGradOut", &back.probs_out, &there.probs);
    permute_test_destroy(&there);
    unpermute_test_destroy(&back);
}

/* --- windows --------------------------------------------------------------------------------------------- */

/* Experts 0 to 3 and 4 to 7 on two ranks: rows follow one another, positions are the same, sums add up. */
static void windows_add_up(void **state)
{
    struct test_random random = test_random_seed(7);
    struct companion_shape shape = companion_shape_of(AG_FLOAT, AG_FLOAT, TOKENS, TOPK, HIDDEN);
    (void)state;
    struct permute_test whole = permute_test_create(&shape, EXPERTS, &random);
    permute_test_run(&whole);
    int64_t cut = 0;
    for (int64_t slot = 0; slot < SLOTS; ++slot) {
        cut += test_tensor_get(&whole.indices, slot) < EXPERTS / 2;
    }
    const int64_t ends[3] = {0, cut, SLOTS};
    double sum[TOKENS * HIDDEN] = {0};
    for (int rank = 0; rank < 2; ++rank) {
        random = test_random_seed(7); /* the same tokens and experts */
        companion_set_window(&shape, ends[rank], ends[rank + 1]);
        struct permute_test part = permute_test_create(&shape, EXPERTS, &random);
        permute_test_run(&part);
        test_assert_same_bits("sortedIndicesOut", &part.sorted, &whole.sorted);
        for (int64_t i = 0; i < test_tensor_elems(&part.permuted); ++i) {
            assert_true(test_tensor_get(&part.permuted, i) ==
                        test_tensor_get(&whole.permuted, ends[rank] * HIDDEN + i));
        }
        struct unpermute_test back = back_from(&part, true, &random);
        test_tensor_copy_values(&back.permuted, &part.permuted);
        unpermute_test_run(&back);
        for (int64_t i = 0; i < TOKENS * HIDDEN; ++i) {
            sum[i] += test_tensor_get(&back.tokens, i);
        }
        permute_test_destroy(&part);
        unpermute_test_destroy(&back);
    }
    for (int64_t i = 0; i < TOKENS * HIDDEN; ++i) { /* three copies of each token */
        assert_true(fabs(sum[i] - TOPK * test_tensor_get(&whole.tokens, i)) <= 0x1p-21 * fabs(sum[i]));
    }
    permute_test_destroy(&whole);
}

/* --- adjoints -------------------------------------------------------------------------------------------- */

static double dot(const struct test_tensor *a, const struct test_tensor *b)
{
    double sum = 0;
    for (int64_t i = 0; i < test_tensor_elems(a); ++i) {
        sum += test_tensor_get(a, i) * test_tensor_get(b, i);
    }
    return sum;
}

static void window_of(int turn, struct companion_shape *shape)
{
    static const int64_t windows[4][2] = {{0, SLOTS}, {0, 20}, {13, 44}, {40, SLOTS}};
    companion_set_window(shape, windows[turn][0], windows[turn][1]);
}

/* <permute(x), y> = <x, gradient(y)> for tokens and for probs: permute is linear, so these are its derivatives. */
static void permute_and_its_gradient_are_adjoint(void **state)
{
    (void)state;
    for (int turn = 0; turn < 4; ++turn) {
        struct test_random random = test_random_seed((uint64_t)turn);
        struct companion_shape shape = companion_shape_of(AG_FLOAT, AG_FLOAT, TOKENS, TOPK, HIDDEN);
        window_of(turn, &shape);
        struct permute_test forward = permute_test_create(&shape, EXPERTS, &random);
        permute_test_run(&forward);
        struct unpermute_test backward = back_from(&forward, true, &random);
        unpermute_test_run(&backward);
        const double left = dot(&forward.permuted, &backward.permuted);
        assert_true(fabs(left - dot(&forward.tokens, &backward.tokens)) < 1e-4);
        assert_true(fabs(dot(&forward.permuted_probs, &backward.probs) - dot(&forward.probs, &backward.probs_out)) <
                    1e-5);
        permute_test_destroy(&forward);
        unpermute_test_destroy(&backward);
    }
}

/* Its gradient with respect to the rows, and, as unpermute is linear in probs too, to these. */
static void unpermute_and_its_gradient_are_adjoint(void **state)
{
    (void)state;
    for (int turn = 0; turn < 4; ++turn) {
        struct test_random random = test_random_seed((uint64_t)turn);
        struct companion_shape shape = companion_shape_of(AG_FLOAT, AG_FLOAT, TOKENS, TOPK, HIDDEN);
        struct moe_shape grad_shape = moe_shape_of(AG_FLOAT, AG_FLOAT, TOKENS, TOPK, HIDDEN);
        window_of(turn, &shape);
        moe_shape_set_window(&grad_shape, shape.range[0], shape.range[1]);
        struct unpermute_test forward = unpermute_test_create(&shape, false, &random);
        struct moe_test backward = moe_test_create(&grad_shape, &random);
        test_tensor_copy_values(&backward.indices, &forward.sorted);
        test_tensor_copy_values(&backward.permuted, &forward.permuted);
        test_tensor_copy_values(&backward.probs, &forward.probs);
        unpermute_test_run(&forward);
        moe_test_run(&backward);
        const double left = dot(&forward.tokens, &backward.grad);
        assert_true(fabs(left - dot(&forward.permuted, &backward.permuted_grad)) < 1e-4);
        assert_true(fabs(left - dot(&forward.probs, &backward.probs_grad)) < 1e-4);
        unpermute_test_destroy(&forward);
        moe_test_destroy(&backward);
    }
}

/* --- differences ----------------------------------------------------------------------------------------- */

/* sum of grad * unpermute(permuted, probs), by the operator. */
static double loss(struct unpermute_test *forward, const struct moe_test *backward)
{
    unpermute_test_run(forward);
    return dot(&forward->tokens, &backward->grad);
}

static double difference(struct unpermute_test *forward, const struct moe_test *backward, struct test_tensor *of,
                         int64_t at)
{
    const double value = test_tensor_get(of, at), step = 0x1p-3; /* linear: only rounding grows with a small step */
    test_tensor_set(of, at, value + step);
    const double above = loss(forward, backward), far = test_tensor_get(of, at);
    test_tensor_set(of, at, value - step);
    const double below = loss(forward, backward), near = test_tensor_get(of, at);
    test_tensor_set(of, at, value);
    return (above - below) / (far - near);
}

static void gradients_of_unpermute_are_its_differences(void **state)
{
    struct test_random random = test_random_seed(4);
    struct companion_shape shape = companion_shape_of(AG_FLOAT, AG_FLOAT, 5, 3, 7);
    struct moe_shape grad_shape = moe_shape_of(AG_FLOAT, AG_FLOAT, 5, 3, 7);
    (void)state;
    companion_set_window(&shape, 4, 13);
    moe_shape_set_window(&grad_shape, 4, 13);
    struct unpermute_test forward = unpermute_test_create(&shape, false, &random);
    struct moe_test backward = moe_test_create(&grad_shape, &random);
    test_tensor_copy_values(&backward.indices, &forward.sorted);
    test_tensor_copy_values(&backward.permuted, &forward.permuted);
    test_tensor_copy_values(&backward.probs, &forward.probs);
    moe_test_run(&backward);
    for (int64_t i = 0; i < test_tensor_elems(&forward.permuted); ++i) {
        const double want = difference(&forward, &backward, &forward.permuted, i);
        assert_true(fabs(test_tensor_get(&backward.permuted_grad, i) - want) < 1e-4);
    }
    for (int64_t i = 0; i < 15; ++i) {
        const double want = difference(&forward, &backward, &forward.probs, i);
        assert_true(fabs(test_tensor_get(&backward.probs_grad, i) - want) < 1e-4);
    }
    unpermute_test_destroy(&forward);
    moe_test_destroy(&backward);
}

/* --- the entry without a window -------------------------------------------------------------------------- */

static void unpermute_grad_is_the_one_with_the_whole_window(void **state)
{
    struct test_random random = test_random_seed(9);
    const struct moe_shape shape = moe_shape_of(AG_BF16, AG_FLOAT, TOKENS, TOPK, HIDDEN);
    uint64_t workspace_size = 0;
    aclOpExecutor *executor = NULL;
    (void)state;
    struct moe_test with_window = moe_test_create(&shape, &random);
    random = test_random_seed(9);
    struct moe_test without = moe_test_create(&shape, &random);
    moe_test_run(&with_window);
    companion_require_success(aclnnMoeTokenUnpermuteGradGetWorkspaceSize(
                                  without.permuted.handle, without.grad.handle, without.indices.handle,
                                  without.probs.handle, false, NULL, without.permuted_grad.handle,
                                  without.probs_grad.handle, &workspace_size, &executor),
                              "phase 1");
    companion_run_phase2(aclnnMoeTokenUnpermuteGrad, workspace_size, executor);
    test_assert_same_bits("permutedTokensGradOut", &without.permuted_grad, &with_window.permuted_grad);
    test_assert_same_bits("probsGradOut", &without.probs_grad, &with_window.probs_grad);
    moe_test_destroy(&with_window);
    moe_test_destroy(&without);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_come_back_exactly),
        cmocka_unit_test(probs_come_back_exactly),
        cmocka_unit_test(windows_add_up),
        cmocka_unit_test(permute_and_its_gradient_are_adjoint),
        cmocka_unit_test(unpermute_and_its_gradient_are_adjoint),
        cmocka_unit_test(gradients_of_unpermute_are_its_differences),
        cmocka_unit_test(unpermute_grad_is_the_one_with_the_whole_window),
    };
    return cmocka_run_group_tests_name("moe round trip", tests, NULL, NULL);
}
