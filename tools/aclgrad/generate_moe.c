/* Inputs of a mixture-of-experts problem: every token chooses k different experts; sortedIndices is the place of each
 * slot in the order sorted by expert, slots of one expert in their own order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "call_moe.h"
#include "call_moe_companions.h"
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
    const int64_t *range = moe_range(p, &count);
    *s = (struct sizes){.t = problem_integer(p, "t"), .k = problem_integer(p, "k"), .h = problem_integer(p, "h")};
    s->e = problem_integer_or(p, "e", 8 * s->k);
    if (__builtin_mul_overflow(s->t, s->k, &s->slots)) {
        return cli_fail(CLI_USAGE, "t * k does not fit 64 bits");
    }
    if (s->slots > INT32_MAX) {
        return cli_fail(CLI_USAGE, "t * k is %lld, positions are 32-bit numbers", (long long)s->slots);
    }
    if (s->e < s->k) {
        return cli_fail(CLI_USAGE, "e = %lld experts, want at least k = %lld", (long long)s->e, (long long)s->k);
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

/* starts[e]: the place of expert e's first slot in the order sorted by expert. */
static void count_slots(const struct sizes *s, const int32_t *expert_of, int64_t *starts)
{
    memset(starts, 0, (size_t)(s->e + 1) * sizeof *starts);
    for (int64_t i = 0; i < s->slots; ++i) {
        ++starts[expert_of[i] + 1];
    }
    for (int64_t e = 0; e < s->e; ++e) {
        starts[e + 1] += starts[e];
    }
}

/* Routes, and fills `indices`: the experts themselves, or each slot's place when sorted by expert, stable. */
static bool route_into(struct call *call, const struct sizes *s, uint64_t seed, struct tensor *indices,
                       bool are_experts)
{
    int32_t *expert_of = malloc((size_t)(s->slots + 1) * sizeof *expert_of);
    int32_t *experts = malloc((size_t)(s->e + 1) * sizeof *experts);
    int64_t *starts = malloc((size_t)(s->e + 1) * sizeof *starts);
    const bool is_good = indices && expert_of && experts && starts;
    if (is_good) {
        route(s, problem_is(&call->problem, "kind", "skewed"), seed, expert_of, experts);
        count_slots(s, expert_of, starts);
        for (int64_t i = 0; i < s->slots; ++i) {
            const int64_t place = starts[expert_of[i]]++;
            tensor_set(indices, i, (double)(are_experts ? expert_of[i] : place));
        }
        call->expert_ends = starts; /* each start has moved to its expert's end */
        call->expert_count = s->e;
        starts = NULL;
    }
    free(expert_of);
    free(experts);
    free(starts);
    return is_good || cli_fail(CLI_USAGE, "out of memory");
}

static bool make_indices(struct call *call, const struct sizes *s, uint64_t seed)
{
    struct tensor *indices = tensor_set_create(&call->inputs, "sortedIndices", AG_INT32, 1, &s->slots);
    return route_into(call, s, seed, indices, false);
}

/* --- the other tensors ----------------------------------------------------------------------------------- */

/* A [rows, H] tensor of the token type. */
static bool make_rows(struct call *call, const struct sizes *s, const char *name, int64_t rows, uint64_t seed)
{
    const int64_t dims[2] = {rows, s->h};
    struct tensor *tensor =
        tensor_set_create(&call->inputs, name, dtype_of_word(problem_word(&call->problem, "dtype")), 2, dims);
    if (tensor) {
        fill_normal(tensor, seed, 1);
    }
    return tensor != NULL;
}

static int probs_dtype(const struct problem *p)
{
    return dtype_of_word(problem_word(p, problem_is(p, "probs", "same") ? "dtype" : "probs"));
}

/* Between 0 and 1, or all alike. */
static bool make_probs(struct call *call, const struct sizes *s, uint64_t seed)
{
    const struct problem *p = &call->problem;
    const int64_t dims[2] = {s->t, s->k};
    if (problem_is(p, "probs", "none")) {
        return true;
    }
    struct tensor *probs = tensor_set_create(&call->inputs, "probs", probs_dtype(p), 2, dims);
    if (!probs) {
        return false;
    }
    fill_normal(probs, seed, 1);
    for (int64_t at = 0; at < probs->elems; ++at) {
        const double share = problem_is(p, "kind", "equal") ? 1.0 / (double)s->k : 0.5 + tensor_get(probs, at) / 8;
        tensor_set(probs, at, share);
    }
    return true;
}

static void add_wanted_outliers(struct call *call, const char *name)
{
    if (problem_is(&call->problem, "kind", "outliers")) {
        add_outliers(tensor_set_find(&call->inputs, name));
    }
}

static bool make_floats(struct call *call, const struct sizes *s, uint64_t seed)
{
    if (!make_rows(call, s, "unpermutedTokensGrad", s->t, seed)) {
        return false;
    }
    add_wanted_outliers(call, "unpermutedTokensGrad");
    if (problem_is(&call->problem, "permuted", "yes") && !make_rows(call, s, "permutedTokens", s->rows, seed)) {
        return false;
    }
    return make_probs(call, s, seed);
}

/* Rows that no local slot has, and probs of slots that are not local. */
static bool poison(struct call *call, const struct sizes *s, const char *rows)
{
    struct tensor *permuted = tensor_set_find(&call->inputs, rows);
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
           (!problem_is(&call->problem, "kind", "poison") || poison(call, &s, "permutedTokens"));
}

/* --- permute, its gradient, unpermute -------------------------------------------------------------------- */

/* The experts themselves, which permute sorts. */
static bool make_experts(struct call *call, const struct sizes *s, uint64_t seed)
{
    const int64_t dims[2] = {s->t, s->k};
    struct tensor *indices =
        tensor_set_create(&call->inputs, "indices", dtype_of_word(problem_word(&call->problem, "index")), 2, dims);
    return route_into(call, s, seed, indices, true);
}

/* Gradients of the probs that a permute moved along. */
static bool make_permuted_probs(struct call *call, const struct sizes *s, uint64_t seed)
{
    if (problem_is(&call->problem, "probs", "none")) {
        return true;
    }
    struct tensor *probs =
        tensor_set_create(&call->inputs, "permutedProbsOutputGrad", probs_dtype(&call->problem), 1, &s->rows);
    if (probs) {
        fill_normal(probs, seed, 1);
    }
    return probs != NULL;
}

bool generate_moe_companion(struct call *call, uint64_t seed, enum fidelity fidelity)
{
    const enum problem_operator op = call->problem.op;
    const char *const rows = operation_of(call)->inputs[0];
    struct sizes s;
    (void)fidelity;
    if (!read_sizes(&call->problem, &s)) {
        return false;
    }
    const bool is_good =
        op == PROBLEM_MOE_PERMUTE
            ? make_rows(call, &s, rows, s.t, seed) && make_experts(call, &s, seed) && make_probs(call, &s, seed)
            : make_rows(call, &s, rows, s.rows, seed) && make_indices(call, &s, seed) &&
                  (op == PROBLEM_MOE_UNPERMUTE ? make_probs : make_permuted_probs)(call, &s, seed);
    if (!is_good) {
        return false;
    }
    add_wanted_outliers(call, rows);
    return !problem_is(&call->problem, "kind", "poison") || poison(call, &s, rows);
}
