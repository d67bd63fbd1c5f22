#include "golden.h"

static bool has_layout(const struct call *call, const char *layout, int64_t mode, int64_t dtype)
{
    return problem_is(&call->problem, "layout", layout) && problem_integer(&call->problem, "mode") == mode &&
           tensor_set_find(&call->inputs, "query")->dtype == dtype;
}

static bool is_padded_layout(const struct call *call, int64_t mode, int64_t dtype)
{
    return has_layout(call, "bsnd", mode, dtype);
}

static bool is_packed_layout(const struct call *call, int64_t mode, int64_t dtype)
{
    return has_layout(call, "tnd", mode, dtype);
}

static bool has_counts(const struct call *call, int64_t any, int64_t none)
{
    (void)any, (void)none;
    return problem_is(&call->problem, "layout", "bsnd") && tensor_set_find(&call->inputs, "actualSeqQLen");
}

static bool has_heads(const struct call *call, int64_t heads, int64_t any)
{
    (void)any;
    return problem_integer(&call->problem, "n") == heads;
}

static int list_combinations(struct golden_combination *list)
{
    static const int dtypes[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};
    int count = 0;
    for (int i = 0; i < 3; ++i) {
        list[count++] = (struct golden_combination){"BSND, mode 0", is_padded_layout, 0, dtypes[i]};
        list[count++] = (struct golden_combination){"BSND, mode 3", is_padded_layout, 3, dtypes[i]};
        list[count++] = (struct golden_combination){"TND, mode 0", is_packed_layout, 0, dtypes[i]};
        list[count++] = (struct golden_combination){"TND, mode 3", is_packed_layout, 3, dtypes[i]};
    }
    list[count++] = (struct golden_combination){"BSND with counts", has_counts, 0, -1};
    list[count++] = (struct golden_combination){"1 head", has_heads, 1, -1};
    list[count++] = (struct golden_combination){"64 heads", has_heads, 64, -1};
    return count;
}

int main(void)
{
    return golden_main(&(struct golden_program){"indexer", NULL, list_combinations});
}
