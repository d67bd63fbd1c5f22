#include "golden.h"

#include <string.h>

/* permutedTokensGrad is rounded to float, then to the token type, and nothing else: it is exact. */
static double round_exactly(const struct tensor *output, double value)
{
    return strcmp(output->name, "permutedTokensGrad") == 0
               ? round_to_dtype(output->dtype, round_to_dtype(AG_FLOAT, value))
               : value;
}

static int dtype_of(const struct call *call, const char *input)
{
    const struct tensor *tensor = tensor_set_find(&call->inputs, input);
    return tensor ? tensor->dtype : AG_DTYPE_UNDEFINED;
}

static bool has_types(const struct call *call, int64_t token, int64_t probs)
{
    return dtype_of(call, "unpermutedTokensGrad") == token && dtype_of(call, "probs") == probs;
}

static bool has_no_probs(const struct call *call, int64_t token, int64_t any)
{
    (void)any;
    return has_types(call, token, AG_DTYPE_UNDEFINED);
}

/* begin and end of the range; INT64_MIN: no range */
static bool has_range(const struct call *call, int64_t begin, int64_t any)
{
    int64_t count;
    const int64_t *range = problem_list(&call->problem, "range", &count);
    (void)any;
    return problem_has(&call->problem, "range") ? range[0] == begin : begin == INT64_MIN;
}

static bool has_topk(const struct call *call, int64_t topk, int64_t any)
{
    (void)any;
    return problem_integer(&call->problem, "k") == topk;
}

static int list_combinations(struct golden_combination *list)
{
    static const int dtypes[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};
    static const int64_t topk[] = {1, 2, 3, 8, 64, 512, 600};
    int count = 0;
    for (int token = 0; token < 3; ++token) {
        for (int probs = 0; probs < 3; ++probs) {
            list[count++] = (struct golden_combination){"a pair of token and probs type", has_types, dtypes[token],
                                                        dtypes[probs]};
        }
        list[count++] = (struct golden_combination){"no probs", has_no_probs, dtypes[token], -1};
    }
    for (int i = 0; i < 7; ++i) {
        list[count++] = (struct golden_combination){"a number of experts per token", has_topk, topk[i], -1};
    }
    list[count++] = (struct golden_combination){"no range", has_range, INT64_MIN, -1};
    list[count++] = (struct golden_combination){"a range from 0", has_range, 0, -1};
    list[count++] = (struct golden_combination){"the range [-1, -1]", has_range, -1, -1};
    return count;
}

int main(void)
{
    return golden_main(&(struct golden_program){"moe", round_exactly, list_combinations});
}
