/* labels: smoke ci threads */
/* Permute, unpermute and the gradient of permute against their definitions: type pairs, windows, cuts, experts per token,
 * hidden sizes; in every kernel table, outputs full of NaN before, every tensor between guard pages. */
#include "base/half.h"
#include "support/moe_companions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int types[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};
enum { TYPE_PAIRS = 9, WINDOWS = 6, SLICES = 6 };

/* --- windows --------------------------------------------------------------------------------------------- */

static void set_window(struct companion_shape *shape, int window)
{
    const int64_t slots = shape->tokens * shape->topk;
    switch (window) {
    case 0: /* no range */
        break;
    case 1: /* in the middle */
        companion_set_window(shape, slots / 4, slots - slots / 4);
        break;
    case 2:
        companion_set_window(shape, 0, slots / 2 + 1);
        break;
    case 3:
        companion_set_window(shape, slots / 2, slots);
        break;
    case 4: /* a rank without tokens */
        companion_set_window(shape, slots / 2, slots / 2);
        break;
    default: /* more rows than the window has */
        companion_set_window(shape, slots / 3, slots - slots / 5);
        shape->rows += 5;
    }
}

/* numOutTokens: none, all, fewer, more than there are, but the last, but more than there are. */
static int64_t cut_of(int slice, int64_t slots)
{
    const int64_t cuts[SLICES] = {0, slots, slots / 2 + 1, slots + 3, -1, -slots - 2};
    return cuts[slice];
}

static struct companion_shape shape_of(int turn, int64_t tokens, int64_t topk, int64_t hidden)
{
    const int pair = turn % TYPE_PAIRS;
    struct companion_shape shape = companion_shape_of(types[pair / 3], types[pair % 3], tokens, topk, hidden);
    shape.has_probs = turn % 5 != 0;
    set_window(&shape, turn / TYPE_PAIRS % WINDOWS);
    return shape;
}

/* --- every element --------------------------------------------------------------------------------------- */

static void check_permute(int turn, int64_t tokens, int64_t topk, int64_t hidden)
{
    struct test_random random = test_random_seed((uint64_t)turn);
    struct companion_shape shape = shape_of(turn, tokens, topk, hidden);
    shape.index_dtype = turn % 2 ? AG_INT64 : AG_INT32;
    shape.cut = cut_of(turn % SLICES, tokens * topk);
    struct permute_test test = permute_test_create(&shape, 1 + turn % 9, &random);
    permute_test_check(&test);
    permute_test_destroy(&test);
}

static void check_unpermute(int turn, bool is_grad, int64_t tokens, int64_t topk, int64_t hidden)
{
    struct test_random random = test_random_seed((uint64_t)turn);
    struct companion_shape shape = shape_of(turn, tokens, topk, hidden);
    const int64_t slots = tokens * topk;
    if (turn % 7 == 6 && shape.rows > 1) { /* rows that the forward has dropped */
        shape.rows = shape.rows / 2;
    }
    struct unpermute_test test = unpermute_test_create(&shape, is_grad, &random);
    int32_t *positions = test.sorted.view.data;
    if (turn % 3 == 1) { /* positions that no permutation has: twice the same, and not here */
        positions[test_random_below(&random, slots)] = positions[test_random_below(&random, slots)];
        positions[test_random_below(&random, slots)] = -1;
        positions[test_random_below(&random, slots)] = INT32_MAX;
        positions[test_random_below(&random, slots)] = INT32_MIN;
    }
    if (shape.has_probs && !is_grad) {
        test_tensor_set(&test.probs, test_random_below(&random, slots), 0);
    }
    unpermute_test_check(&test);
    unpermute_test_destroy(&test);
}

static const int64_t topks[] = {1, 2, 3, 8, 64};
static const int64_t hiddens[] = {1, 7, 8, 63, 64, 100, 512, 7168};

static void every_type_window_and_size(void **state)
{
    int turn = 0;
    (void)state;
    for (size_t k = 0; k < sizeof topks / sizeof *topks; ++k) {
        for (size_t h = 0; h < sizeof hiddens / sizeof *hiddens; ++h) {
            const int64_t elems = topks[k] * hiddens[h];
            const int problems = elems <= 512 ? TYPE_PAIRS * WINDOWS : elems <= 1 << 16 ? 4 : 1;
            for (int i = 0; i < problems; ++i, ++turn) {
                const int64_t tokens = topks[k] > 8 ? 2 : 5;
                check_permute(turn, tokens, topks[k], hiddens[h]);
                check_unpermute(turn, false, tokens, topks[k], hiddens[h]);
                check_unpermute(turn, true, tokens, topks[k], hiddens[h]);
            }
        }
    }
}

/* More than the caches hold, so that outputs are streamed, at every place in a line. */
static void streamed_outputs_are_complete(void **state)
{
    enum { HIDDEN = 4099, TOKENS = (33 << 20) / (2 * HIDDEN) + 1 };
    struct test_random random = test_random_seed(1);
    const struct companion_shape shape = companion_shape_of(AG_BF16, AG_FLOAT, TOKENS, 1, HIDDEN);
    (void)state;
    struct permute_test permute = permute_test_create(&shape, 8, &random);
    struct unpermute_test unpermute = unpermute_test_create(&shape, false, &random);
    permute_test_run(&permute);
    for (int64_t token = 0; token < TOKENS; ++token) { /* every row lies where its position says */
        const int64_t row = ((int32_t *)permute.sorted.view.data)[token];
        assert_memory_equal((ag_bf16 *)permute.permuted.view.data + row * HIDDEN,
                            (ag_bf16 *)permute.tokens.view.data + token * HIDDEN, HIDDEN * sizeof(ag_bf16));
    }
    test_tensor_copy_values(&unpermute.sorted, &permute.sorted);
    test_tensor_copy_values(&unpermute.permuted, &permute.permuted);
    test_tensor_fill_value(&unpermute.probs, 1);
    unpermute_test_run(&unpermute);
    test_assert_same_bits("out", &unpermute.tokens, &permute.tokens);
    permute_test_destroy(&permute);
    unpermute_test_destroy(&unpermute);
}

/* --- numOutTokens ---------------------------------------------------------------------------------------- */

/* Six slots, H = 1, slot i holds i + 1 and stands at position i: rows of the window [begin, end) that the cut leaves. */
static void a_cut_leaves_the_first_positions(void **state)
{
    static const struct {
        int64_t cut, begin, end;
        double rows[6];
    } cases[] = {
        {0, 0, 6, {1, 2, 3, 4, 5, 6}},
        {4, 0, 6, {1, 2, 3, 4, 0, 0}},
        {9, 0, 6, {1, 2, 3, 4, 5, 6}},
        {-1, 0, 6, {1, 2, 3, 4, 5, 0}},
        {-6, 0, 6, {0}},
        {-9, 0, 6, {0}},
        {4, 2, 6, {3, 4, 0, 0}},
        {2, 2, 6, {0}},
        {1, 2, 6, {0}},
        {-3, 1, 4, {2, 3, 0}},
        {INT64_MIN, 0, 6, {0}},
        {INT64_MAX, 3, 5, {4, 5}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        struct test_random random = test_random_seed(1);
        struct companion_shape shape = companion_shape_of(AG_FLOAT, AG_FLOAT, 6, 1, 1);
        companion_set_window(&shape, cases[i].begin, cases[i].end);
        shape.cut = cases[i].cut;
        struct permute_test test = permute_test_create(&shape, 1, &random);
        for (int64_t slot = 0; slot < 6; ++slot) {
            test_tensor_set(&test.tokens, slot, (double)slot + 1);
            test_tensor_set(&test.probs, slot, (double)slot + 1);
        }
        permute_test_run(&test);
        for (int64_t row = 0; row < shape.rows; ++row) {
            assert_true(test_tensor_get(&test.permuted, row) == cases[i].rows[row]);
            assert_true(test_tensor_get(&test.permuted_probs, row) == cases[i].rows[row]);
        }
        permute_test_destroy(&test);
    }
}

/* --- experts of any number ------------------------------------------------------------------------------- */

/* The sort takes a further round for every twelve bits in which the experts differ. */
static void experts_are_any_numbers(void **state)
{
    static const double experts[][3] = {
        {0, 4095, 4094},       {0, 4096, 1},
        {-1, 4095, -1},        {-3, -7, -7},
        {0, 1 << 24, 1 << 12}, {INT32_MIN, 0, INT32_MAX},
        {-0x1p63, 0x1p62, 0},  {0x1p40, 0x1p52, -0x1p51},
    };
    (void)state;
    for (size_t i = 0; i < sizeof experts / sizeof *experts; ++i) {
        struct test_random random = test_random_seed(i);
        struct companion_shape shape = companion_shape_of(AG_BF16, AG_FLOAT, 50, 3, 5);
        shape.index_dtype = i < 6 ? AG_INT32 : AG_INT64;
        struct permute_test test = permute_test_create(&shape, 8, &random);
        for (int64_t slot = 0; slot < 150; ++slot) {
            test_tensor_set(&test.indices, slot, experts[i][test_random_below(&random, 3)]);
        }
        permute_test_check(&test);
        permute_test_destroy(&test);
    }
}

/* All digits of all experts differ: each round has to keep the order of those before. */
static void experts_differ_in_every_digit(void **state)
{
    struct test_random random = test_random_seed(14);
    struct companion_shape shape = companion_shape_of(AG_FLOAT, AG_FLOAT, 100, 3, 2);
    (void)state;
    shape.index_dtype = AG_INT64;
    struct permute_test test = permute_test_create(&shape, 8, &random);
    for (int64_t slot = 0; slot < 300; ++slot) {
        ((int64_t *)test.indices.view.data)[slot] = (int64_t)test_random_bits(&random);
    }
    permute_test_check(&test);
    permute_test_destroy(&test);
}

static void one_expert_per_token_needs_no_second_dim(void **state)
{
    struct test_random random = test_random_seed(3);
    struct companion_shape shape = companion_shape_of(AG_FLOAT, AG_FLOAT, 9, 1, 4);
    (void)state;
    struct permute_test test = permute_test_create(&shape, 3, &random);
    struct test_tensor flat = test_tensor_create(AG_INT32, 1, (int64_t[]){9});
    for (int64_t i = 0; i < 9; ++i) {
        test_tensor_set(&flat, i, test_tensor_get(&test.indices, i));
    }
    test_tensor_destroy(&test.indices);
    test.indices = flat;
    permute_test_check(&test);
    permute_test_destroy(&test);
}

/* --- views ----------------------------------------------------------------------------------------------- */

/* The same values with gaps between rows and between elements. */
static void spread(struct test_tensor *tensor, int64_t step)
{
    int64_t strides[2] = {step, step};
    if (tensor->view.rank == 2) {
        strides[0] = tensor->view.dims[1] * step + 3;
    }
    struct test_tensor wide =
        test_tensor_create_strided(tensor->view.dtype, tensor->view.rank, tensor->view.dims, strides, 5);
    test_tensor_copy_values(&wide, tensor);
    test_tensor_destroy(tensor);
    *tensor = wide;
}

static void strided_permutes_equal_dense_ones(int64_t step)
{
    struct test_random random = test_random_seed(8);
    struct companion_shape shape = companion_shape_of(AG_BF16, AG_FLOAT16, 13, 3, 1100);
    struct permute_test dense = permute_test_create(&shape, 4, &random);
    random = test_random_seed(8);
    struct permute_test wide = permute_test_create(&shape, 4, &random);
    spread(&wide.tokens, step);
    spread(&wide.indices, step);
    spread(&wide.probs, step);
    permute_test_run(&dense);
    permute_test_run(&wide);
    test_assert_same_bits("permuteTokensOut", &wide.permuted, &dense.permuted);
    test_assert_same_bits("sortedIndicesOut", &wide.sorted, &dense.sorted);
    test_assert_same_bits("permuteProbsOut", &wide.permuted_probs, &dense.permuted_probs);
    permute_test_destroy(&dense);
    permute_test_destroy(&wide);
}

static void strided_unpermutes_equal_dense_ones(int64_t step, bool is_grad)
{
    struct test_random random = test_random_seed(8);
    struct companion_shape shape = companion_shape_of(AG_FLOAT16, AG_BF16, 13, 3, 1100);
    struct unpermute_test dense = unpermute_test_create(&shape, is_grad, &random);
    random = test_random_seed(8);
    struct unpermute_test wide = unpermute_test_create(&shape, is_grad, &random);
    spread(&wide.permuted, step);
    spread(&wide.sorted, step);
    spread(&wide.probs, step);
    unpermute_test_run(&dense);
    unpermute_test_run(&wide);
    test_assert_same_bits("tokens", &wide.tokens, &dense.tokens);
    if (is_grad) {
        test_assert_same_bits("probsGradOut", &wide.probs_out, &dense.probs_out);
    }
    unpermute_test_destroy(&dense);
    unpermute_test_destroy(&wide);
}

static void strided_inputs_equal_dense_ones(void **state)
{
    (void)state;
    for (int64_t step = 1; step <= 3; step += 2) {
        strided_permutes_equal_dense_ones(step);
        strided_unpermutes_equal_dense_ones(step, false);
        strided_unpermutes_equal_dense_ones(step, true);
    }
}

/* --- threads --------------------------------------------------------------------------------------------- */

/* Threads that shared something would go wrong in a round in a few, so there are many. */
static void thread_count_does_not_matter(void **state)
{
    enum { ROUNDS = 24 };
    struct test_random random = test_random_seed(5);
    struct companion_shape shape = companion_shape_of(AG_BF16, AG_FLOAT, 600, 3, 1030);
    (void)state;
    companion_set_window(&shape, 17, 1700);
    struct permute_test permute = permute_test_create(&shape, 8, &random);
    struct unpermute_test unpermute = unpermute_test_create(&shape, false, &random);
    TEST_EACH_ISA (isa) {
        static const int counts[] = {2, 3, 7};
        size_t bytes[2];
        test_configure(1, isa, AG_LIMITS_DOCUMENTED);
        permute_test_run(&permute);
        unpermute_test_run(&unpermute);
        void *const want[2] = {test_tensor_to_bytes(&permute.permuted, &bytes[0]),
                               test_tensor_to_bytes(&unpermute.tokens, &bytes[1])};
        for (int round = 0; round < ROUNDS; ++round) {
            test_configure(counts[round % 3], isa, AG_LIMITS_DOCUMENTED);
            permute_test_run(&permute);
            unpermute_test_run(&unpermute);
            assert_memory_equal(permute.permuted.view.data, want[0], bytes[0]);
            assert_memory_equal(unpermute.tokens.view.data, want[1], bytes[1]);
        }
        free(want[0]);
        free(want[1]);
    }
    permute_test_destroy(&permute);
    unpermute_test_destroy(&unpermute);
}

/* Not even infinity times 0 is computed. */
static void a_weight_of_0_leaves_its_row_out(void **state)
{
    struct test_random random = test_random_seed(6);
    const struct companion_shape shape = companion_shape_of(AG_BF16, AG_FLOAT, 7, 3, 70);
    (void)state;
    struct unpermute_test test = unpermute_test_create(&shape, false, &random);
    const int32_t row = ((int32_t *)test.sorted.view.data)[8];
    test_tensor_set(&test.probs, 8, 0);
    for (int64_t h = 0; h < 70; ++h) {
        test_tensor_set(&test.permuted, row * 70 + h, INFINITY);
    }
    unpermute_test_check(&test);
    unpermute_test_destroy(&test);
}

/* One thread but where threads are the matter. */
static int use_one_thread(void **state)
{
    (void)state;
    test_configure(1, ag_config_get().isa, AG_LIMITS_DOCUMENTED);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_window_and_size),
        cmocka_unit_test(streamed_outputs_are_complete),
        cmocka_unit_test(a_cut_leaves_the_first_positions),
        cmocka_unit_test(experts_are_any_numbers),
        cmocka_unit_test(experts_differ_in_every_digit),
        cmocka_unit_test(one_expert_per_token_needs_no_second_dim),
        cmocka_unit_test(strided_inputs_equal_dense_ones),
        cmocka_unit_test(thread_count_does_not_matter),
        cmocka_unit_test(a_weight_of_0_leaves_its_row_out),
    };
    return cmocka_run_group_tests_name("moe companions", tests, use_one_thread, NULL);
}
