/* Inputs of an attention problem: tensors full of random numbers, then statistics and attentionIn that fit them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "call_attention.h"
#include "cli.h"
#include "random_stream.h"

/* --- sizes ----------------------------------------------------------------------------------------------- */

struct sizes {
    int64_t t1, t2, n1, n2, d, dr, dv;
    int64_t sequences, longest_query, longest_key;
    int dtype;
};

static int64_t longest(const int64_t *ends, int64_t count)
{
    int64_t most = 0, begin = 0;
    for (int64_t i = 0; i < count; ++i) {
        most = ends[i] - begin > most ? ends[i] - begin : most;
        begin = ends[i] > begin ? ends[i] : begin;
    }
    return most;
}

static bool read_sizes(const struct problem *p, struct sizes *s)
{
    int64_t *q, *kv, q_count, kv_count;
    const bool has_keys = problem_has(p, "kv") || problem_has(p, "kvends");
    if (!problem_has(p, "q") && !problem_has(p, "qends")) {
        return cli_fail(CLI_USAGE, "q is missing, the lengths of the query sequences");
    }
    if (!problem_ends(p, "q", "qends", &q, &q_count)) {
        return false;
    }
    if (!problem_ends(p, has_keys ? "kv" : "q", has_keys ? "kvends" : "qends", &kv, &kv_count)) {
        free(q);
        return false;
    }
    *s = (struct sizes){.n1 = problem_integer(p, "n1"),
                        .d = problem_integer(p, "d"),
                        .dr = problem_integer(p, "dr"),
                        .dtype = dtype_of_word(problem_word(p, "dtype")),
                        .sequences = q_count};
    s->n2 = problem_integer_or(p, "n2", s->n1);
    s->dv = problem_integer_or(p, "dv", s->d);
    s->t1 = problem_integer_or(p, "t1", last_end(q, q_count));
    s->t2 = problem_integer_or(p, "t2", last_end(kv, kv_count));
    s->longest_query = longest(q, q_count);
    s->longest_key = longest(kv, kv_count);
    free(q);
    free(kv);
    return true;
}

/* --- tensors --------------------------------------------------------------------------------------------- */

struct input {
    const char *name;
    int dtype;
    int rank;
    int64_t dims[3];
    bool is_wanted;
};

static bool make_inputs(struct tensor_set *set, const struct input *inputs, int count)
{
    for (int i = 0; i < count; ++i) {
        if (inputs[i].is_wanted &&
            !tensor_set_create(set, inputs[i].name, inputs[i].dtype, inputs[i].rank, inputs[i].dims)) {
            return false;
        }
    }
    return true;
}

static bool make_tensors(struct tensor_set *set, const struct sizes *s)
{
    const struct input list[] = {{"query", s->dtype, 3, {s->t1, s->n1, s->d}, true},
                                 {"queryRope", s->dtype, 3, {s->t1, s->n1, s->dr}, s->dr > 0},
                                 {"keyIn", s->dtype, 3, {s->t2, s->n2, s->d}, true},
                                 {"keyInRope", s->dtype, 3, {s->t2, s->n2, s->dr}, s->dr > 0},
                                 {"value", s->dtype, 3, {s->t2, s->n2, s->dv}, true},
                                 {"dy", s->dtype, 3, {s->t1, s->n1, s->dv}, true},
                                 {"softmaxMax", AG_FLOAT, 3, {s->t1, s->n1, 8}, true},
                                 {"softmaxSum", AG_FLOAT, 3, {s->t1, s->n1, 8}, true},
                                 {"attentionIn", s->dtype, 3, {s->t1, s->n1, s->dv}, true}};
    return make_inputs(set, list, sizeof list / sizeof *list);
}

static bool make_forward_tensors(struct tensor_set *set, const struct sizes *s, bool has_sink)
{
    const struct input list[] = {{"query", s->dtype, 3, {s->t1, s->n1, s->d}, true},
                                 {"queryRope", s->dtype, 3, {s->t1, s->n1, s->dr}, s->dr > 0},
                                 {"key", s->dtype, 3, {s->t2, s->n2, s->d}, true},
                                 {"keyRope", s->dtype, 3, {s->t2, s->n2, s->dr}, s->dr > 0},
                                 {"value", s->dtype, 3, {s->t2, s->n2, s->dv}, true},
                                 {"sink", AG_FLOAT, 1, {s->n1}, has_sink}};
    return make_inputs(set, list, sizeof list / sizeof *list);
}

static void fill_mask(const struct problem *p, struct tensor *mask, uint64_t seed)
{
    struct random_stream stream = random_stream_for(seed, mask->name);
    const int64_t columns = mask->dims[mask->rank - 1], rows = mask->dims[mask->rank - 2];
    uint8_t *bytes = mask->data;
    for (int64_t at = 0; at < mask->elems; ++at) {
        const int64_t i = at / columns % rows, j = at % columns;
        bytes[at] = problem_is(p, "bytes", "random")  ? random_below(&stream, 3) == 0
                    : problem_is(p, "bytes", "holes") ? i % 5 == 2 || j % 7 == 3
                                                      : problem_is(p, "bytes", "ones");
    }
}

/* The triangle of the compressed modes; its bytes are documented, and not read by the library. */
static void fill_compressed(struct tensor *mask)
{
    uint8_t *bytes = mask->data;
    for (int64_t i = 0; i < mask->dims[0]; ++i) {
        for (int64_t j = 0; j < mask->dims[1]; ++j) {
            bytes[i * mask->dims[1] + j] = i < 2048 ? j > i : j >= 1024;
        }
    }
}

static bool make_mask(struct call *call, const struct sizes *s, uint64_t seed)
{
    const struct problem *p = &call->problem;
    const int64_t mode = problem_integer(p, "mode");
    const char *shape = problem_word(p, "mask");
    if (strcmp(shape, "auto") == 0) {
        shape = mode >= 2 && mode <= 8 ? "compressed" : s->dr > 0 ? "ss" : "none";
    }
    const bool is_compressed = strcmp(shape, "compressed") == 0;
    const int64_t dims[4] = {strcmp(shape, "11ss") == 0 ? 1 : s->sequences, strcmp(shape, "bnss") == 0 ? s->n1 : 1,
                             s->longest_query, s->longest_key};
    const int64_t compressed[2] = {mode == 6 ? 3072 : 2048, 2048};
    if (strcmp(shape, "none") == 0) {
        return true;
    }
    const int rank = is_compressed || strcmp(shape, "ss") == 0 ? 2 : 4;
    struct tensor *mask = tensor_set_create(&call->inputs, "attenMask", AG_BOOL, rank,
                                            is_compressed ? compressed
                                            : rank == 2   ? dims + 2
                                                          : dims);
    if (mask && is_compressed) {
        fill_compressed(mask);
    } else if (mask) {
        fill_mask(p, mask, seed);
    }
    return mask != NULL;
}

/* `names`: the queries, the keys, then value and dy. */
static void fill_tensors(struct call *call, uint64_t seed, const char *const names[6])
{
    const struct problem *p = &call->problem;
    for (int i = 0; i < 6; ++i) {
        struct tensor *tensor = tensor_set_find(&call->inputs, names[i]);
        if (!tensor) {
            continue;
        }
        const bool is_query = i < 2, is_key = i == 2 || i == 3;
        fill_normal(tensor, seed, 1);
        if (problem_is(p, "kind", "outliers") && (is_query || is_key)) {
            add_outliers(tensor);
        } else if (problem_is(p, "kind", "negative") && (is_query || is_key)) {
            make_one_sided(tensor, is_query ? 8 : -8);
        } else if (problem_is(p, "kind", "equal") && is_key) {
            repeat_first_row(tensor);
        }
    }
}

/* --- poison ---------------------------------------------------------------------------------------------- */

/* NaN in every row of these tensors for which `mark` is still 0. */
static void poison_unmarked(struct call *call, const char *const *names, const char *mark, int64_t rows)
{
    for (; *names; ++names) {
        struct tensor *tensor = tensor_set_find(&call->inputs, *names);
        for (int64_t row = 0; tensor && row < rows; ++row) {
            if (!mark[row]) {
                poison_row(tensor, row);
            }
        }
    }
}

/* Lanes 1 to 7 of the statistics, and all lanes of rows that see nothing. */
static void poison_statistics(struct call *call, const char *is_used)
{
    struct tensor *max = tensor_set_find(&call->inputs, "softmaxMax");
    struct tensor *sum = tensor_set_find(&call->inputs, "softmaxSum");
    for (int64_t at = 0; at < max->elems; ++at) {
        if (at % 8 != 0 || !is_used[at / 8]) {
            tensor_set(max, at, NAN);
            tensor_set(sum, at, NAN);
        }
    }
}

/* What must not be read of inputs: rows of no sequence, rows that see nothing, keys that nobody sees. */
static bool poison_rows(struct call *call, const struct attention_problem *p, const char *const *query_side,
                        const char *const *key_side)
{
    char *rows = calloc((size_t)p->query_rows + 1, 1), *keys = calloc((size_t)p->key_rows + 1, 1);
    const bool is_good = rows && keys;
    for (int64_t b = 0; is_good && b < p->sequence_count; ++b) {
        const struct attention_sequence *s = &p->sequences[b];
        for (int64_t i = 0; i < s->query_len; ++i) {
            const struct attention_columns columns = attention_visible_columns(s, i);
            rows[s->query_begin + i] = columns.begin < columns.end;
            memset(keys + s->key_begin + columns.begin, 1, (size_t)(columns.end - columns.begin));
        }
    }
    if (is_good) {
        poison_unmarked(call, query_side, rows, p->query_rows);
        poison_unmarked(call, key_side, keys, p->key_rows);
    }
    free(rows);
    free(keys);
    return is_good || cli_fail(CLI_USAGE, "out of memory");
}

/* Those, and the statistics of rows that see nothing. */
static bool poison(struct call *call, const struct attention_problem *p)
{
    static const char *const query_side[] = {"query", "queryRope", "dy", "attentionIn", NULL};
    static const char *const key_side[] = {"keyIn", "keyInRope", "value", NULL};
    char *statistics = calloc((size_t)(p->query_rows * p->query_heads) + 1, 1);
    const enum ag_softmax_layout order = problem_is(&call->problem, "order", "cann")  ? AG_SOFTMAX_CANN
                                         : problem_is(&call->problem, "order", "tnd") ? AG_SOFTMAX_TND
                                                                                      : AG_SOFTMAX_NTD;
    for (int64_t b = 0; statistics && b < p->sequence_count; ++b) {
        const struct attention_sequence *s = &p->sequences[b];
        for (int64_t at = 0; at < s->query_len * p->query_heads; ++at) {
            const int64_t n = at / s->query_len, i = at % s->query_len;
            const struct attention_columns columns = attention_visible_columns(s, i);
            statistics[attention_statistics_row(p, order, s, n, i)] = columns.begin < columns.end;
        }
    }
    if (statistics) {
        poison_statistics(call, statistics);
    }
    free(statistics);
    return statistics ? poison_rows(call, p, query_side, key_side) : cli_fail(CLI_USAGE, "out of memory");
}

/* --- the whole ------------------------------------------------------------------------------------------- */

/* Without a call that the library accepts there is no forward pass: max 0, sum 1. */
static void fill_plain_statistics(struct call *call)
{
    struct tensor *sum = tensor_set_find(&call->inputs, "softmaxSum");
    for (int64_t at = 0; at < sum->elems; ++at) {
        tensor_set(sum, at, 1);
    }
    cli_say("aclgrad: %s; the statistics are not those of a forward pass", cli_failure());
    cli_forgive();
}

static bool fit_statistics(struct call *call, enum fidelity fidelity)
{
    struct tensor_set outputs = {0};
    struct checked_attention checked = {0};
    bool is_good = operation_of(call)->make_outputs(call, &outputs);
    if (is_good && !check_attention(call, &outputs, &checked)) {
        fill_plain_statistics(call);
    } else if (is_good && !checked.problem.is_nothing) {
        is_good = forward_attention(call, &checked.problem, fidelity) &&
                  (!problem_is(&call->problem, "kind", "poison") || poison(call, &checked.problem));
    }
    release_attention(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

bool generate_attention(struct call *call, uint64_t seed, enum fidelity fidelity)
{
    static const char *const names[6] = {"query", "queryRope", "keyIn", "keyInRope", "value", "dy"};
    struct sizes sizes = {0};
    if (!read_sizes(&call->problem, &sizes) || !make_tensors(&call->inputs, &sizes) ||
        !make_mask(call, &sizes, seed)) {
        return false;
    }
    fill_tensors(call, seed, names);
    return fit_statistics(call, fidelity);
}

static bool poison_forward(struct call *call)
{
    static const char *const query_side[] = {"query", "queryRope", NULL};
    static const char *const key_side[] = {"key", "keyRope", "value", NULL};
    struct tensor_set outputs = {0};
    struct checked_attention checked = {0};
    bool is_good = operation_of(call)->make_outputs(call, &outputs);
    if (is_good && check_attention_forward(call, &outputs, &checked)) {
        is_good = poison_rows(call, &checked.problem, query_side, key_side);
    }
    cli_forgive();
    release_attention(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

bool generate_attention_forward(struct call *call, uint64_t seed, enum fidelity fidelity)
{
    static const char *const names[6] = {"query", "queryRope", "key", "keyRope", "value", "sink"};
    struct sizes sizes = {0};
    (void)fidelity;
    if (!read_sizes(&call->problem, &sizes) ||
        !make_forward_tensors(&call->inputs, &sizes, problem_is(&call->problem, "sink", "yes")) ||
        !make_mask(call, &sizes, seed)) {
        return false;
    }
    fill_tensors(call, seed, names);
    return !problem_is(&call->problem, "kind", "poison") || poison_forward(call);
}
