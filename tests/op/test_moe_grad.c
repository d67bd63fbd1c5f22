/* labels: smoke ci threads */
/* aclnnMoeTokenUnpermuteWithEpGrad against its definition: nine type pairs, windows, experts per token, hidden sizes,
 * views; in every kernel table, outputs full of NaN before, every tensor between guard pages. */
#include "base/half.h"
#include "support/moe_problem.h"

#include <string.h>

static const int types[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};
enum { TYPE_PAIRS = 9, WINDOWS = 8 };

/* Turns the full problem into one with the nth window. */
static void set_window(struct moe_shape *shape, int window)
{
    const int64_t slots = shape->tokens * shape->topk;
    switch (window) {
    case 0: /* no range */
        break;
    case 1: /* in the middle */
        moe_shape_set_window(shape, slots / 4, slots - slots / 4);
        break;
    case 2:
        moe_shape_set_window(shape, 0, slots / 2 + 1);
        break;
    case 3:
        moe_shape_set_window(shape, slots / 2, slots);
        break;
    case 4: /* a rank without tokens */
        moe_shape_set_window(shape, slots / 2, slots / 2);
        break;
    case 5: /* an output with all N rows though the window has fewer */
        moe_shape_set_window(shape, slots / 3, slots - slots / 5);
        shape->out_rows = slots;
        break;
    case 6: /* tokens beyond R were dropped in the forward */
        shape->rows = slots - slots / 4;
        break;
    default: /* counted from the end, and more rows than needed */
        moe_shape_set_window(shape, slots / 3, slots);
        shape->range[0] -= slots;
        shape->rows += 3;
        shape->out_rows += 5;
    }
}

static void check(int pair, int window, bool has_probs, int64_t tokens, int64_t topk, int64_t hidden)
{
    struct test_random random = test_random_seed((uint64_t)(pair * 100 + window) + (uint64_t)(topk * 10000 + hidden));
    struct moe_shape shape = moe_shape_of(types[pair / 3], types[pair % 3], tokens, topk, hidden);
    set_window(&shape, window);
    shape.has_probs = has_probs;
    shape.has_tokens = has_probs || window % 2;
    struct moe_test test = moe_test_create(&shape, &random);
    moe_test_check(&test);
    moe_test_destroy(&test);
}

static const int64_t topks[] = {1, 2, 3, 8, 64, 512};
static const int64_t hiddens[] = {1, 7, 8, 63, 64, 100, 512, 4096, 7168};
enum { TOPKS = sizeof topks / sizeof *topks, HIDDENS = sizeof hiddens / sizeof *hiddens };

/* Small problems in every type pair and window; others in one each, in turn. (Larger ones: test_moe_sizes.c.) */
static void every_type_window_and_size(void **state)
{
    enum { SMALL_ELEMS = 1024, MOST_ELEMS = 1 << 16 };
    int turn = 0;
    (void)state;
    for (int k = 0; k < TOPKS; ++k) {
        for (int h = 0; h < HIDDENS; ++h) {
            const int64_t elems = topks[k] * hiddens[h];
            const int problems = elems <= SMALL_ELEMS ? TYPE_PAIRS * WINDOWS : elems <= MOST_ELEMS ? 1 : 0;
            for (int i = 0; i < problems; ++i, ++turn) {
                check(turn % TYPE_PAIRS, turn / TYPE_PAIRS % WINDOWS, true, topks[k] > 64 ? 1 : 3, topks[k],
                      hiddens[h]);
            }
        }
    }
}

static void realistic_rows_in_every_type(void **state)
{
    (void)state;
    for (int pair = 0; pair < TYPE_PAIRS; ++pair) {
        check(pair, 0, true, 5, 8, 7168);
        check(pair, 5, true, 11, 3, 1999);
    }
}

static void without_probs_rows_are_copied(void **state)
{
    (void)state;
    for (int pair = 0; pair < TYPE_PAIRS; ++pair) {
        for (int window = 0; window < WINDOWS; ++window) {
            check(pair, window == 6 ? 0 : window, false, 7, 3, 77);
        }
    }
}

/* --- views ----------------------------------------------------------------------------------------------- */

/* The input `member` of a problem as the view says, with the same values; the results must have the same bits. */
static void check_view(size_t member, const int64_t *strides, int64_t offset, int dtype)
{
    struct test_random random = test_random_seed(31);
    const struct moe_shape shape = moe_shape_of(dtype, AG_BF16, 13, 4, 37);
    struct moe_test test = moe_test_create(&shape, &random);
    struct test_tensor *input = (struct test_tensor *)((char *)&test + member);
    struct test_tensor dense = *input;
    struct test_tensor view =
        test_tensor_create_strided(dense.view.dtype, dense.view.rank, dense.view.dims, strides, offset);
    test_tensor_copy_values(&view, &dense);
    test_tensor_copy_values(&dense, &view); /* where elements of the view coincide the last has won */
    TEST_EACH_ISA (isa) {
        test_configure(3, isa, AG_LIMITS_DOCUMENTED);
        moe_test_run(&test);
        struct test_tensor permuted_grad = test.permuted_grad, probs_grad = test.probs_grad;
        test.permuted_grad = test_tensor_create(dtype, 2, permuted_grad.view.dims);
        test.probs_grad = test_tensor_create(AG_BF16, 2, probs_grad.view.dims);
        *input = view;
        moe_test_run(&test);
        test_assert_same_bits("permutedTokensGradOut", &test.permuted_grad, &permuted_grad);
        test_assert_same_bits("probsGradOut", &test.probs_grad, &probs_grad);
        test_tensor_check_gaps(&view);
        *input = dense;
        test_tensor_destroy(&permuted_grad);
        test_tensor_destroy(&probs_grad);
    }
    moe_test_destroy(&test);
    test_tensor_destroy(&view);
}

static void strided_inputs_equal_dense_ones(void **state)
{
    static const int64_t rows_apart[] = {50, 1}, elements_apart[] = {120, 3}, transposed[] = {1, 60};
    static const int64_t same_row[] = {0, 1}, same_elem[] = {1, 0}, one_elem[] = {0, 0};
    static const int64_t *const views[] = {rows_apart, elements_apart, transposed, same_row, same_elem, one_elem};
    (void)state;
    for (int type = 0; type < 3; ++type) {
        for (size_t i = 0; i < sizeof views / sizeof *views; ++i) {
            check_view(offsetof(struct moe_test, grad), views[i], (int64_t)i, types[type]);
            check_view(offsetof(struct moe_test, permuted), views[i], (int64_t)i * 3, types[type]);
        }
    }
    for (size_t i = 0; i < sizeof views / sizeof *views; ++i) {
        check_view(offsetof(struct moe_test, probs), views[i], (int64_t)i, AG_FLOAT);
    }
    check_view(offsetof(struct moe_test, indices), (int64_t[]){5}, 2, AG_FLOAT16);
}

/* --- threads and tables ---------------------------------------------------------------------------------- */

static void thread_count_does_not_matter(void **state)
{
    static const int counts[] = {1, 2, 3, 7};
    struct test_random random = test_random_seed(5);
    struct moe_shape shape = moe_shape_of(AG_BF16, AG_FLOAT, 150, 3, 130);
    (void)state;
    moe_shape_set_window(&shape, 17, 400);
    shape.out_rows += 90;
    struct moe_test test = moe_test_create(&shape, &random);
    int32_t *indices = test.indices.view.data;
    for (int i = 0; i < 60; ++i) { /* duplicates, where threads could race */
        indices[test_random_below(&random, 450)] = indices[test_random_below(&random, 450)];
    }
    TEST_EACH_ISA (isa) {
        struct test_tensor permuted_grad = {0}, probs_grad = {0};
        for (int i = 0; i < 4; ++i) {
            test_configure(counts[i], isa, AG_LIMITS_DOCUMENTED);
            moe_test_run(&test);
            if (i == 0) {
                permuted_grad = test.permuted_grad;
                probs_grad = test.probs_grad;
                test.permuted_grad = test_tensor_create(AG_BF16, 2, permuted_grad.view.dims);
                test.probs_grad = test_tensor_create(AG_FLOAT, 2, probs_grad.view.dims);
            } else {
                test_assert_same_bits("permutedTokensGradOut", &test.permuted_grad, &permuted_grad);
                test_assert_same_bits("probsGradOut", &test.probs_grad, &probs_grad);
            }
        }
        test_tensor_destroy(&permuted_grad);
        test_tensor_destroy(&probs_grad);
    }
    struct moe_answer answer = moe_answer_create(&test);
    moe_test_compare(&test, &answer);
    moe_answer_destroy(&answer);
    moe_test_destroy(&test);
}

/* Every slot claims one row: it is the last slot's, whichever thread comes last. Without owners a round in a few goes wrong
 * on two CPUs, so there are many. */
static void a_row_that_all_slots_claim_is_the_last_ones(void **state)
{
    enum { TOKENS = 256, HIDDEN = 8192, ROUNDS = 40, ROW = 5 };
    (void)state;
    struct test_random random = test_random_seed(6);
    struct moe_shape shape = moe_shape_of(AG_BF16, AG_FLOAT, TOKENS, 1, HIDDEN);
    shape.has_probs = false;
    struct moe_test test = moe_test_create(&shape, &random);
    for (int slot = 0; slot < TOKENS; ++slot) {
        ((int32_t *)test.indices.view.data)[slot] = ROW;
    }
    const ag_bf16 *last = (const ag_bf16 *)test.grad.view.data + (TOKENS - 1) * HIDDEN;
    const ag_bf16 *row = (const ag_bf16 *)test.permuted_grad.view.data + ROW * HIDDEN;
    for (int round = 0; round < ROUNDS; ++round) {
        test_configure(2 + round % 6, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
        moe_test_run(&test);
        assert_memory_equal(row, last, HIDDEN * sizeof *row);
    }
    moe_test_destroy(&test);
}

/* One thread but where threads are the matter: waking others for each of thousands of tiny problems takes longer than
 * the problems. */
static int use_one_thread(void **state)
{
    const struct ag_config config = ag_config_get();
    (void)state;
    test_configure(1, config.isa, AG_LIMITS_DOCUMENTED);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_window_and_size),
        cmocka_unit_test(realistic_rows_in_every_type),
        cmocka_unit_test(without_probs_rows_are_copied),
        cmocka_unit_test(strided_inputs_equal_dense_ones),
        cmocka_unit_test(thread_count_does_not_matter),
        cmocka_unit_test(a_row_that_all_slots_claim_is_the_last_ones),
    };
    return cmocka_run_group_tests_name("moe gradient", tests, use_one_thread, NULL);
}
