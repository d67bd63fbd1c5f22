/* Inputs of a mixture-of-experts problem: every token chooses k different experts; sortedIndices is the place of each
 * slot in the order sorted by expert, slots of one expert in their own order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "call_moe.h"
#include "cli.h"
#include "random_stream.h"

struct sizes {
    int64_t t, k, h, e, slots;
    int64_t begin, end; /* the window */
    int64_t rows;
};

static int64_t clamp(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static bool read_sizes(const struct problem *p, struct sizes *s)
{
    int64_t count;
    const int64_t *range = problem_list(p, "range", &count);
    *s = (struct sizes){.t = problem_integer(p, "t"), .k = problem_integer(p, "k"), .h = problem_integer(p, "h")};
    s->e = problem_integer_or(p, "e", 8 * s->k);
    if (__builtin_mul_overflow(s->t, s->k, &s->slots)) {
        return cli_fail(CLI_USAGE, "moe: t * k does not fit 64 bits");
    }
    if (s->slots > INT32_MAX) {
        return cli_fail(CLI_USAGE, "moe: t * k is %lld, positions are 32-bit numbers", (long long)s->slots);
    }
    if (s->e < s->k) {
        return cli_fail(CLI_USAGE, "moe: e = %lld experts, want at least k = %lld", (long long)s->e, (long long)s->k);
    }
    s->begin = count == 2 ? clamp(range[0] < 0 ? range[0] + s->slots : range[0], s->slots) : 0;
    s->end = count == 2 ? clamp(range[1] < 0 ? range[1] + s->slots : range[1], s->slots) : s->slots;
    s->end = s->end < s->begin ? s->begin : s->end;
    s->rows = problem_integer_or(p, "rows", s->end - s->begin);
    return true;
}

/* --- routing --------------------------------------------------------------------------------------------- */

/* An expert of the first `count` of `experts`, at random; skewed: the first ones much more often. */
static int64_t draw(struct random_stream *stream, int64_t count, bool is_skewed)
{
    const int64_t first = random_below(stream, count);
    return is_skewed ? first * random_below(stream, count) / count * random_below(stream, count) / count : first;
}

/* expert_of[slot]: k different ones for each token. */
static void route(const struct sizes *s, bool is_skewed, uint64_t seed, int32_t *expert_of, int32_t *experts)
{
    struct random_stream stream = random_stream_for(seed, "sortedIndices");
    for (int64_t t = 0; t < s->t; ++t) {
        for (int64_t e = 0; e < s->e; ++e) {
            experts[e] = (int32_t)e;
        }
        for (int64_t k = 0; k < s->k; ++k) {
            const int64_t chosen = draw(&stream, s->e - k, is_skewed);
            expert_of[t * s->k + k] = experts[chosen];
            memmove(&experts[chosen], &experts[chosen + 1], (size_t)(s->e - k - chosen - 1) * sizeof *experts);
        }
    }
}

/* counts[e]: slots of each expert; indices[slot]: its place when sorted by expert, stable. */
static void sort_slots(const struct sizes *s, const int32_t *expert_of, int32_t *indices, int64_t *starts)
{
    memset(starts, 0, (size_t)(s->e + 1) * sizeof *starts);
    for (int64_t i = 0; i < s->slots; ++i) {
        ++starts[expert_of[i] + 1];
    }
    for (int64_t e = 0; e < s->e; ++e) {
        starts[e + 1] += starts[e];
    }
    for (int64_t i = 0; i < s->slots; ++i) {
        indices[i] = (int32_t)starts[expert_of[i]]++;
    }
}

static bool make_indices(struct call *call, const struct sizes *s, uint64_t seed)
{
    struct tensor *indices = tensor_set_create(&call->inputs, "sortedIndices", AG_INT32, 1, &s->slots);
    int32_t *expert_of = malloc((size_t)(s->slots + 1) * sizeof *expert_of);
    int32_t *experts = malloc((size_t)(s->e + 1) * sizeof *experts);
    int64_t *starts = malloc((size_t)(s->e + 1) * sizeof *starts);
    const bool is_good = indices && expert_of && experts && starts;
    if (is_good) {
        route(s, problem_is(&call->problem, "kind", "skewed"), seed, expert_of, experts);
        sort_slots(s, expert_of, indices->data, starts);
        call->expert_ends = starts; /* each start has moved to its expert's end */
        call->expert_count = s->e;
        starts = NULL;
    }
    free(expert_of);
    free(experts);
    free(starts);
    return is_good || cli_fail(CLI_USAGE, "out of memory");
}

/* --- the other tensors ----------------------------------------------------------------------------------- */

static bool make_floats(struct call *call, const struct sizes *s, uint64_t seed)
{
    const struct problem *p = &call->problem;
    const int dtype = dtype_of_word(problem_word(p, "dtype"));
    const int probs_dtype = problem_is(p, "probs", "same") ? dtype : dtype_of_word(problem_word(p, "probs"));
    const int64_t grad_dims[2] = {s->t, s->h}, rows_dims[2] = {s->rows, s->h}, probs_dims[2] = {s->t, s->k};
    struct tensor *grad = tensor_set_create(&call->inputs, "unpermutedTokensGrad", dtype, 2, grad_dims);
    if (!grad) {
        return false;
    }
    fill_normal(grad, seed, 1);
    if (problem_is(p, "kind", "outliers")) {
        add_outliers(grad);
    }
    if (problem_is(p, "permuted", "yes")) {
        struct tensor *permuted = tensor_set_create(&call->inputs, "permutedTokens", dtype, 2, rows_dims);
        if (!permuted) {
            return false;
        }
        fill_normal(permuted, seed, 1);
    }
    if (!problem_is(p, "probs", "none")) {
        struct tensor *probs = tensor_set_create(&call->inputs, "probs", probs_dtype, 2, probs_dims);
        if (!probs) {
            return false;
        }
        fill_normal(probs, seed, 1);
        for (int64_t at = 0; at < probs->elems; ++at) { /* between 0 and 1, or all alike */
            const double share =
                problem_is(p, "kind", "equal") ? 1.0 / (double)s->k : 0.5 + tensor_get(probs, at) / 8;
            tensor_set(probs, at, share);
        }
    }
    return true;
}

/* Rows of permutedTokens that no local slot has, and probs of slots that are not local. */
static bool poison(struct call *call, const struct sizes *s)
{
    struct tensor *permuted = tensor_set_find(&call->inputs, "permutedTokens");
    struct tensor *probs = tensor_set_find(&call->inputs, "probs");
    const int32_t *indices = tensor_set_find(&call->inputs, "sortedIndices")->data;
    char *is_used = calloc((size_t)s->rows + 1, 1);
    for (int64_t i = 0; is_used && i < s->slots; ++i) {
        const int64_t row = indices[i] - s->begin;
        const bool is_local = row >= 0 && indices[i] < s->end && row < s->rows;
        if (is_local) {
            is_used[row] = 1;
        } else if (probs) {
            tensor_set(probs, i, NAN);
        }
    }
    for (int64_t row = 0; is_used && permuted && row < s->rows; ++row) {
        if (!is_used[row]) {
            poison_row(permuted, row);
        }
    }
    const bool is_good = is_used != NULL;
    free(is_used);
    return is_good || cli_fail(CLI_USAGE, "out of memory");
}

bool generate_moe(struct call *call, uint64_t seed, enum fidelity fidelity)
{
    struct sizes s;
    (void)fidelity; /* nothing here takes long */
    return read_sizes(&call->problem, &s) && make_indices(call, &s, seed) && make_floats(call, &s, seed) &&
           (!problem_is(&call->problem, "kind", "poison") || poison(call, &s));
}
