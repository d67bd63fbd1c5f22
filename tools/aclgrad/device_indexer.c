/* The indexer as the device rounds it: scores in float, Y = w dy rounded to the 16-bit type (to nearest even; fp16
 * saturates), dQ cast to nearest even, dW and dK to nearest with ties away from zero. Sums here are in double. */
#include <math.h>

#include "base/elem.h"
#include "call_indexer.h"
#include "facts.h"

struct device {
    const struct indexer_problem *p;
    int dtype;
    double *dq, *dk, *dweights;
};

static double load(const struct device *g, const struct ag_view *view, int64_t flat)
{
    return ag_elem_load(g->p->elem, indexer_element(view, flat), 0);
}

static double round_product(const struct device *g, double value)
{
    const double rounded = round_to_dtype(g->dtype, (float)value);
    return g->dtype == AG_FLOAT16 && isinf(rounded) && isfinite(value) ? copysign(65504, value) : rounded;
}

/* Row, key and slot gradient of one live slot. */
static void add_slot(const struct device *g, int64_t row, int64_t key, double dy)
{
    const struct indexer_problem *p = g->p;
    for (int64_t h = 0; h < p->heads; ++h) {
        const int64_t query = (row * p->heads + h) * p->dim;
        double score = 0;
        for (int64_t d = 0; d < p->dim; ++d) {
            score += load(g, &p->query, query + d) * load(g, &p->key, key * p->dim + d);
        }
        if (!(score > 0)) {
            g->dweights[row * p->heads + h] += isnan(score) ? score : 0;
            continue;
        }
        g->dweights[row * p->heads + h] += (double)(float)score * dy;
        const double flow = round_product(g, load(g, &p->weights, row * p->heads + h) * dy);
        for (int64_t d = 0; d < p->dim; ++d) {
            g->dq[query + d] += flow * load(g, &p->key, key * p->dim + d);
            g->dk[key * p->dim + d] += flow * load(g, &p->query, query + d);
        }
    }
}

static void add_sequence(const struct device *g, const struct indexer_sequence *s)
{
    const struct indexer_problem *p = g->p;
    for (int64_t i = 0; i < s->live_rows; ++i) {
        const int64_t row = s->row_begin + i, limit = indexer_slot_limit(p, s, i);
        for (int64_t j = 0; j < limit; ++j) {
            const int32_t index = *(const int32_t *)indexer_element(&p->indices, row * p->topk + j);
            if (index >= 0 && index < s->live_keys) {
                add_slot(g, row, s->key_begin + index, load(g, &p->dy, row * p->topk + j));
            }
        }
    }
}

static void run_device(const struct indexer_problem *p, struct tensor_set *values)
{
    struct tensor *dq = tensor_set_find(values, "dq"), *dk = tensor_set_find(values, "dk");
    struct tensor *dweights = tensor_set_find(values, "dweights");
    const struct device g = {p, p->query.dtype, dq->data, dk->data, dweights->data};
    for (int64_t number = 0; number < indexer_sequence_count(p); ++number) {
        const struct indexer_sequence s = indexer_sequence_at(p, number);
        add_sequence(&g, &s);
    }
    for (int64_t at = 0; at < dq->elems; ++at) {
        g.dq[at] = round_to_dtype(g.dtype, (float)g.dq[at]);
    }
    for (int64_t at = 0; at < dk->elems; ++at) {
        g.dk[at] = round_to_dtype_away(g.dtype, (float)g.dk[at]);
    }
    for (int64_t at = 0; at < dweights->elems; ++at) {
        g.dweights[at] = round_to_dtype_away(g.dtype, (float)g.dweights[at]);
    }
}

bool imitate_indexer(const struct call *call, struct tensor_set *values)
{
    struct tensor_set outputs = {0};
    struct checked_indexer checked = {0};
    const bool is_good = operation_of(call)->make_outputs(call, &outputs) &&
                         check_indexer(call, &outputs, &checked) && add_doubles(&outputs, values);
    if (is_good && !checked.problem.is_nothing) {
        run_device(&checked.problem, values);
    }
    release_indexer(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}
