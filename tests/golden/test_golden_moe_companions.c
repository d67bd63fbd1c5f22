#include "golden.h"

#include <string.h>

/* Of the gradient of unpermute: rounded to float, then to the token type, and nothing else. */
static double round_exactly(const struct tensor *output, double value)
{
    return strcmp(output->name, "permutedTokensGrad") == 0
               ? round_to_dtype(output->dtype, round_to_dtype(AG_FLOAT, value))
               : value;
}

/* --- what must be shown ---------------------------------------------------------------------------------- */

static bool has_types(const struct call *call, int64_t token, int64_t probs)
{
    const struct problem *p = &call->problem;
    const char *const token_word = dtype_word((int)token), *const probs_word = dtype_word((int)probs);
    return problem_is(p, "dtype", token_word) && problem_is(p, "probs", token == probs ? "same" : probs_word);
}

static bool has_no_probs(const struct call *call, int64_t a, int64_t b)
{
    (void)a, (void)b;
    return problem_is(&call->problem, "probs", "none");
}

static bool has_range(const struct call *call, int64_t wanted, int64_t b)
{
    (void)b;
    return problem_has(&call->problem, "range") == (wanted != 0);
}

/* numOutTokens below, at and above 0 */
static bool has_cut(const struct call *call, int64_t sign, int64_t b)
{
    const int64_t cut = problem_integer(&call->problem, "cut");
    (void)b;
    return (cut > 0) - (cut < 0) == sign;
}

static bool has_index(const struct call *call, int64_t dtype, int64_t b)
{
    (void)b;
    return problem_is(&call->problem, "index", dtype_word((int)dtype));
}

static int list_types(struct golden_combination *list)
{
    static const int dtypes[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};
    int count = 0;
    for (int i = 0; i < 9; ++i) {
        list[count++] =
            (struct golden_combination){"a pair of token and probs type", has_types, dtypes[i / 3], dtypes[i % 3]};
    }
    list[count++] = (struct golden_combination){"no probs", has_no_probs, -1, -1};
    return count;
}

static int list_windows(struct golden_combination *list)
{
    int count = list_types(list);
    list[count++] = (struct golden_combination){"no range", has_range, 0, -1};
    list[count++] = (struct golden_combination){"a range", has_range, 1, -1};
    return count;
}

static int list_permutes(struct golden_combination *list)
{
    int count = list_windows(list);
    for (int sign = -1; sign <= 1; ++sign) {
        list[count++] = (struct golden_combination){"numOutTokens of this sign", has_cut, sign, -1};
    }
    list[count++] = (struct golden_combination){"experts of a type", has_index, AG_INT32, -1};
    list[count++] = (struct golden_combination){"experts of a type", has_index, AG_INT64, -1};
    return count;
}

int main(void)
{
    static const struct golden_program programs[] = {{"moe_permute", NULL, list_permutes},
                                                     {"moe_permute_grad", NULL, list_windows},
                                                     {"moe_unpermute", NULL, list_windows},
                                                     {"moe_unpermute_grad", round_exactly, list_types}};
    int failed = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; ++i) {
        failed += golden_main(&programs[i]);
    }
    return failed;
}
