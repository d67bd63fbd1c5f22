#include "golden.h"

#include <stdio.h>

static const struct tensor *input(const struct call *call, const char *name)
{
    return tensor_set_find(&call->inputs, name);
}

/* Where modes count: with a mask. */
static bool has_mode(const struct call *call, int64_t mode, int64_t dtype)
{
    return input(call, "attenMask") && problem_integer(&call->problem, "mode") == mode &&
           input(call, "query")->dtype == dtype;
}

static bool has_mode_and_rope(const struct call *call, int64_t mode, int64_t dtype)
{
    return has_mode(call, mode, dtype) && input(call, "queryRope");
}

static bool has_sink(const struct call *call, int64_t any, int64_t dtype)
{
    (void)any;
    return input(call, "sink") && input(call, "query")->dtype == dtype;
}

static int list_combinations(struct golden_combination *list)
{
    static const int dtypes[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};
    static const int modes[] = {0, 1, 2, 3, 4, 6, 7, 8};
    static char texts[8][32];
    int count = 0;
    for (int m = 0; m < 8; ++m) {
        snprintf(texts[m], sizeof texts[m], "sparse mode %d", modes[m]);
        for (int i = 0; i < 3; ++i) {
            list[count++] = (struct golden_combination){texts[m], has_mode, modes[m], dtypes[i]};
        }
        if (modes[m] != 6) {
            list[count++] = (struct golden_combination){"a rope in each mode", has_mode_and_rope, modes[m], AG_BF16};
        }
    }
    list[count++] = (struct golden_combination){"a sink", has_sink, 0, AG_BF16};
    list[count++] = (struct golden_combination){"a sink", has_sink, 0, AG_FLOAT};
    return count;
}

int main(void)
{
    return golden_main(&(struct golden_program){"attention_forward", NULL, list_combinations});
}
