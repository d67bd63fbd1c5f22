#include "golden.h"

/* The layout's first letter: B, T, or P for pages with any query. */
static bool has_layout(const struct call *call, int64_t layout, int64_t mode)
{
    const bool is_paged = problem_integer(&call->problem, "page") > 0;
    const char *word = layout == 'T' ? "tnd" : "bsnd";
    return problem_integer(&call->problem, "mode") == mode &&
           (layout == 'P' ? is_paged : !is_paged && problem_is(&call->problem, "layout", word));
}

static bool has_dtype(const struct call *call, int64_t dtype, int64_t weights)
{
    return tensor_set_find(&call->inputs, "query")->dtype == dtype &&
           tensor_set_find(&call->inputs, "weights")->dtype == weights;
}

static bool has_values(const struct call *call, int64_t wanted, int64_t any)
{
    (void)any;
    return (tensor_set_find(&call->recorded, "sparseValues") != NULL) == (wanted != 0);
}

static bool has_heads(const struct call *call, int64_t heads, int64_t any)
{
    (void)any;
    return problem_integer(&call->problem, "n") == heads;
}

static int list_combinations(struct golden_combination *list)
{
    static const char layouts[] = "BTP";
    int count = 0;
    for (int i = 0; i < 3; ++i) {
        list[count++] = (struct golden_combination){"a layout in mode", has_layout, layouts[i], 0};
        list[count++] = (struct golden_combination){"a layout in mode", has_layout, layouts[i], 3};
    }
    list[count++] = (struct golden_combination){"types of query and weights", has_dtype, AG_BF16, AG_BF16};
    list[count++] = (struct golden_combination){"types of query and weights", has_dtype, AG_BF16, AG_FLOAT};
    list[count++] = (struct golden_combination){"types of query and weights", has_dtype, AG_FLOAT16, AG_FLOAT16};
    list[count++] = (struct golden_combination){"types of query and weights", has_dtype, AG_FLOAT, AG_FLOAT};
    list[count++] = (struct golden_combination){"values", has_values, 0, -1};
    list[count++] = (struct golden_combination){"values", has_values, 1, -1};
    list[count++] = (struct golden_combination){"heads", has_heads, 1, -1};
    list[count++] = (struct golden_combination){"heads", has_heads, 64, -1};
    return count;
}

int main(void)
{
    return golden_main(&(struct golden_program){"indexer_forward", NULL, list_combinations});
}
