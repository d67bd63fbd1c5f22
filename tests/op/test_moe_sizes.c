/* labels: ci slow */
/* aclnnMoeTokenUnpermuteWithEpGrad against its definition: many experts per token and long rows. */
#include "support/moe_problem.h"

static const int types[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};

struct size {
    const char *name;
    int64_t topk, hidden;
};

static const struct size sizes[] = {
    {"64 experts, 4096", 64, 4096},   {"64 experts, 7168", 64, 7168},   {"512 experts, 512", 512, 512},
    {"512 experts, 4096", 512, 4096}, {"512 experts, 7168", 512, 7168},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* One token, all of its slots or those in the middle of the order; the type pairs in turn. */
static void is_answered(void **state)
{
    const struct size *size = *state;
    const int turn = (int)(size - sizes);
    for (int i = 0; i < 2; ++i) {
        struct test_random random = test_random_seed((uint64_t)turn);
        struct moe_shape shape =
            moe_shape_of(types[(turn + i) % 3], types[(turn / 3 + 2 * i) % 3], 1, size->topk, size->hidden);
        if (i) {
            moe_shape_set_window(&shape, size->topk / 3, size->topk / 2);
        }
        struct moe_test test = moe_test_create(&shape, &random);
        moe_test_check(&test);
        moe_test_destroy(&test);
    }
}

int main(void)
{
    struct CMUnitTest tests[SIZES];
    for (int i = 0; i < SIZES; ++i) {
        tests[i] = (struct CMUnitTest){
            .name = sizes[i].name, .test_func = is_answered, .initial_state = (void *)(uintptr_t)&sizes[i]};
    }
    return cmocka_run_group_tests_name("moe sizes", tests, NULL, NULL);
}
