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

static bool has_no_mask(const struct call *call, int64_t any, int64_t dtype)
{
    (void)any;
    return !input(call, "attenMask") && input(call, "query")->dtype == dtype;
}

/* Bytes count; the first dim of a mask of rank 4 is `first`, 0 stands for rank 2. */
static bool has_mask_shape(const struct call *call, int64_t mode, int64_t first)
{
    const struct tensor *mask = input(call, "attenMask");
    return mask && problem_integer(&call->problem, "mode") == mode && mask->rank == (first ? 4 : 2) &&
           (!first || mask->dims[0] * mask->dims[1] == first);
}

static bool has_heads(const struct call *call, int64_t query_heads, int64_t key_heads)
{
    return input(call, "query")->dims[1] == query_heads && input(call, "keyIn")->dims[1] == key_heads;
}

static bool has_narrow_value(const struct call *call, int64_t any, int64_t none)
{
    (void)any, (void)none;
    return input(call, "value")->dims[2] < input(call, "keyIn")->dims[2];
}

static int list_combinations(struct golden_combination *list)
{
    static const int dtypes[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};
    static const int modes[] = {0, 1, 2, 3, 4, 6, 7, 8};
    static const int heads[][2] = {{1, 1}, {3, 3}, {4, 2}, {2, 1}, {6, 1}};
    static char texts[16][32];
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
    for (int i = 0; i < 3; ++i) {
        list[count++] = (struct golden_combination){"no mask", has_no_mask, 0, dtypes[i]};
    }
    for (int mode = 0; mode < 2; ++mode) {
        for (int first = 0; first < 5; first += first == 2 ? 2 : 1) { /* rank 2, [1,1], [2,1], [2,2] */
            list[count++] = (struct golden_combination){"a shape of mask bytes", has_mask_shape, mode, first};
        }
    }
    for (int i = 0; i < 5; ++i) {
        list[count++] = (struct golden_combination){"numbers of heads", has_heads, heads[i][0], heads[i][1]};
    }
    list[count++] = (struct golden_combination){"Dv < D", has_narrow_value, 0, -1};
    return count;
}

int main(void)
{
    return golden_main(&(struct golden_program){"attention", NULL, list_combinations});
}
