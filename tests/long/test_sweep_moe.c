/* labels: long short */
/* Random problems of aclnnMoeTokenUnpermuteWithEpGrad against the definition, in every kernel table: all pairs of
 * types, any views of the inputs, windows, dropped rows, duplicate and wild indices. */
#include "support/moe_problem.h"
#include "support/sweep.h"

#include <stdlib.h>
#include <string.h>

static int random_dtype(struct test_random *random)
{
    return (int)test_random_of(random, 3, (const int64_t[]){AG_FLOAT, AG_FLOAT16, AG_BF16});
}

static int64_t random_hidden(struct test_random *random)
{
    static const int64_t odd[] = {1,  2,  3,  7,  8,   9,   15,  16,  17,  31,  32,
                                  33, 63, 64, 65, 127, 128, 129, 255, 257, 300, 520};
    return test_random_of(random, sizeof odd / sizeof *odd, odd);
}

/* A position of the window as the caller may write it: from the front, from the end, or beyond an edge. */
static int64_t written_position(struct test_random *random, int64_t position, int64_t slots)
{
    if (position == 0 && test_random_once_in(random, 4)) {
        return -slots - test_random_between(random, 0, 5);
    }
    if (position == slots && test_random_once_in(random, 4)) {
        return slots + test_random_between(random, 1, 1000);
    }
    return position < slots && test_random_once_in(random, 3) ? position - slots : position;
}

static void random_window(struct moe_shape *shape, struct test_random *random)
{
    const int64_t slots = shape->tokens * shape->topk;
    const int64_t a = test_random_once_in(random, 3) ? 0 : test_random_between(random, 0, slots);
    const int64_t b = test_random_once_in(random, 3) ? slots : test_random_between(random, 0, slots);
    const int64_t begin = a < b ? a : b, end = test_random_once_in(random, 8) ? begin : a < b ? b : a;
    moe_shape_set_window(shape, begin, end);
    shape->range[0] = written_position(random, begin, slots);
    shape->range[1] = written_position(random, end, slots);
}

/* More rows than the window needs, so that an index behind the last position would find one, or fewer: then the forward has dropped some. */
static void random_rows(struct moe_shape *shape, struct test_random *random)
{
    const int64_t window = shape->rows;
    if (shape->has_tokens) {
        shape->rows += test_random_once_in(random, 3) ? test_random_below(random, 20) : 0;
        shape->rows =
            window > 1 && test_random_once_in(random, 4) ? test_random_between(random, 1, window) : shape->rows;
    }
    shape->out_rows = shape->has_tokens && shape->rows < window ? shape->rows : window;
    shape->out_rows += test_random_once_in(random, 3) ? test_random_below(random, 150) : 0;
}

static struct moe_shape random_shape(struct test_random *random)
{
    static const int64_t topks[] = {1, 2, 3, 4, 6, 8, 9, 16};
    const int64_t tokens = test_random_between(random, 1, test_random_once_in(random, 4) ? 90 : 12);
    struct moe_shape shape = moe_shape_of(random_dtype(random), random_dtype(random), tokens,
                                          test_random_of(random, 8, topks), random_hidden(random));
    shape.has_probs = !test_random_once_in(random, 4);
    shape.has_tokens = shape.has_probs || test_random_once_in(random, 2);
    if (!test_random_once_in(random, 3)) {
        random_window(&shape, random);
    }
    random_rows(&shape, random);
    return shape;
}

static int32_t wild_index(struct test_random *random, int64_t slots)
{
    const int64_t values[] = {-1, slots, slots + 7, INT32_MIN, INT32_MAX, test_random_below(random, slots)};
    return (int32_t)test_random_of(random, 6, values);
}

static void spoil_indices(struct moe_test *test, struct test_random *random)
{
    const int64_t slots = test->shape.tokens * test->shape.topk;
    const bool is_wild = test_random_once_in(random, 3), has_duplicates = test_random_once_in(random, 3);
    for (int64_t i = 0; i < slots; ++i) {
        if (is_wild && test_random_once_in(random, 4)) {
            test_tensor_set(&test->indices, i, wild_index(random, slots));
        } else if (has_duplicates && test_random_once_in(random, 3)) {
            test_tensor_set(&test->indices, i, test_tensor_get(&test->indices, test_random_below(random, slots)));
        }
    }
}

static void replace_by_view(struct test_tensor *tensor, struct test_random *random)
{
    struct test_tensor view =
        test_tensor_create_random_view(random, tensor->view.dtype, tensor->view.rank, tensor->view.dims);
    test_tensor_copy_values(&view, tensor);
    test_tensor_destroy(tensor);
    *tensor = view;
}

static void check_gaps(const struct moe_test *test)
{
    test_tensor_check_gaps(&test->grad);
    test_tensor_check_gaps(&test->indices);
    if (test->shape.has_tokens) {
        test_tensor_check_gaps(&test->permuted);
    }
    if (test->shape.has_probs) {
        test_tensor_check_gaps(&test->probs);
    }
}

static void check_problem(struct test_random *random, uint64_t seed)
{
    (void)seed;
    const struct moe_shape shape = random_shape(random);
    struct moe_test test = moe_test_create(&shape, random);
    spoil_indices(&test, random);
    replace_by_view(&test.grad, random);
    replace_by_view(&test.indices, random);
    if (shape.has_tokens) {
        replace_by_view(&test.permuted, random);
    }
    if (shape.has_probs) {
        replace_by_view(&test.probs, random);
    }
    struct moe_answer answer = moe_answer_create(&test);
    TEST_EACH_ISA (isa) {
        ag_config_set_isa(isa);
        test_random_threads(random);
        moe_test_run(&test);
        moe_test_compare(&test, &answer);
    }
    check_gaps(&test);
    moe_answer_destroy(&answer);
    moe_test_destroy(&test);
}

/* Two slots of different work items have one row: the last of an item that takes long, and the first of the next. The
 * larger slot wins, not the one that comes last. */
static void check_contended_row(bool has_probs)
{
    enum { SLOTS = 2 * MOE_MOST_BATCH_SLOTS, HIDDEN = 16000 };
    struct test_random random = test_random_seed(1);
    struct moe_shape shape = moe_shape_of(AG_BF16, AG_FLOAT, SLOTS, 1, HIDDEN);
    shape.has_probs = shape.has_tokens = has_probs;
    struct moe_test test = moe_test_create(&shape, &random);
    for (int64_t i = 0; i < SLOTS; ++i) {
        const int64_t row = i == MOE_MOST_BATCH_SLOTS ? i - 1 : i;
        test_tensor_set(&test.indices, i, (double)row);
    }
    struct moe_answer answer = moe_answer_create(&test);
    ag_config_set_threads(1);
    moe_test_run(&test);
    moe_test_compare(&test, &answer);
    void *alone = malloc(test.permuted_grad.buffer.bytes);
    memcpy(alone, test.permuted_grad.buffer.data, test.permuted_grad.buffer.bytes);
    ag_config_set_threads(2);
    for (int round = 0; round < 20; ++round) { /* a race: as many chances to lose it */
        moe_test_run(&test);
        if (memcmp(test.permuted_grad.buffer.data, alone, test.permuted_grad.buffer.bytes) != 0) {
            fail_msg("round %d: two threads differ from one, probs %d", round, has_probs);
        }
    }
    free(alone);
    moe_answer_destroy(&answer);
    moe_test_destroy(&test);
}

static void a_contended_row_goes_to_the_larger_slot(void **state)
{
    (void)state;
    check_contended_row(true);
    check_contended_row(false);
}

static void random_problems(void **state)
{
    (void)state;
    test_sweep("test_sweep_moe", 2000, check_problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_contended_row_goes_to_the_larger_slot),
        cmocka_unit_test_teardown(random_problems, test_sweep_teardown),
    };
    return cmocka_run_group_tests_name("sweep of moe", tests, NULL, NULL);
}
