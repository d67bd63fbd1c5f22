/* Attention as the device rounds it: products of 16-bit inputs, sums in float or better, P rounded to the 16-bit type
 * before dV, dS before dQ and dK, one cast at the end; all of these casts to nearest, ties away from zero. Sums here are
 * in double: what differs from a device is the order of its sums, a few units of float. */
#include <math.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "call_attention.h"
#include "facts.h"

struct device {
    const struct attention_problem *p;
    enum ag_softmax_layout order;
    int dtype;
    double *dq, *dq_rope, *dk, *dk_rope, *dv; /* of the outputs' dims */
};

static double dot_rows(const struct ag_view *a, int64_t i, int64_t m, const struct ag_view *b, int64_t j, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; a->present && d < a->dims[2]; ++d) {
        sum += attention_read(a, i, m, d) * attention_read(b, j, n, d);
    }
    return sum;
}

/* to[row, head, :] += factor * x[i, n, :] */
static void add_row(double *to, const struct ag_view *to_view, int64_t row, int64_t head, double factor,
                    const struct ag_view *x, int64_t i, int64_t n)
{
    for (int64_t d = 0; x->present && d < x->dims[2]; ++d) {
        to[(row * to_view->dims[1] + head) * to_view->dims[2] + d] += factor * attention_read(x, i, n, d);
    }
}

static void add_pair(const struct device *g, int64_t t, int64_t n, int64_t key, double P, double dS)
{
    const struct attention_problem *p = g->p;
    const int64_t h = n / p->group;
    add_row(g->dv, &p->value, key, h, P, &p->dy, t, n);
    add_row(g->dq, &p->query, t, n, dS, &p->key, key, h);
    add_row(g->dk, &p->key, key, h, dS, &p->query, t, n);
    add_row(g->dq_rope, &p->query_rope, t, n, dS, &p->key_rope, key, h);
    add_row(g->dk_rope, &p->key_rope, key, h, dS, &p->query_rope, t, n);
}

static void add_query_row(const struct device *g, const struct attention_sequence *s, int64_t n, int64_t i)
{
    const struct attention_problem *p = g->p;
    const struct attention_columns columns = attention_visible_columns(s, i);
    const struct attention_mask_row mask = attention_mask_row(p, s, n, i);
    const int64_t t = s->query_begin + i, at = attention_statistics_row(p, g->order, s, n, i), h = n / p->group;
    const float *all_max = ag_view_origin(&p->softmax_max), *all_sum = ag_view_origin(&p->softmax_sum);
    if (columns.begin == columns.end) {
        return;
    }
    const double max = all_max[attention_statistics_offset(&p->softmax_max, at)];
    const double sum = all_sum[attention_statistics_offset(&p->softmax_sum, at)];
    const double delta = dot_rows(&p->dy, t, n, &p->attention_in, t, n);
    for (int64_t j = columns.begin; j < columns.end; ++j) {
        if (mask.bytes && mask.bytes[j * mask.stride]) {
            continue;
        }
        const int64_t key = s->key_begin + j;
        const double S = (double)p->scale * (dot_rows(&p->query, t, n, &p->key, key, h) +
                                             dot_rows(&p->query_rope, t, n, &p->key_rope, key, h));
        const double P = (float)(exp(S - max) / sum);
        const double dS = (float)(P * (dot_rows(&p->dy, t, n, &p->value, key, h) - delta));
        add_pair(g, t, n, key, round_to_dtype_away(g->dtype, P), round_to_dtype_away(g->dtype, dS));
    }
}

/* One item is a sequence and a key head: it owns all sums it adds to. */
static void run_item(void *context, int64_t item, int lane)
{
    const struct device *g = context;
    const struct attention_sequence *s = &g->p->sequences[item / g->p->key_heads];
    (void)lane;
    for (int64_t n = item % g->p->key_heads * g->p->group; n < (item % g->p->key_heads + 1) * g->p->group; ++n) {
        for (int64_t i = 0; i < s->query_len; ++i) {
            add_query_row(g, s, n, i);
        }
    }
}

static void finish(double *values, const struct tensor *tensor, int dtype, double scale)
{
    for (int64_t at = 0; tensor && at < tensor->elems; ++at) {
        values[at] = round_to_dtype_away(dtype, (float)(values[at] * scale));
    }
}

static void run_device(const struct attention_problem *p, struct tensor_set *values)
{
    static const char *const scaled[] = {"dq", "dqRope", "dk", "dkRope"};
    static const int dtypes[AG_ELEM_COUNT] = {
        [AG_ELEM_F32] = AG_FLOAT, [AG_ELEM_F16] = AG_FLOAT16, [AG_ELEM_BF16] = AG_BF16};
    struct device g = {p,
                       layout_of(p),
                       dtypes[p->elem],
                       tensor_set_data(values, "dq"),
                       tensor_set_data(values, "dqRope"),
                       tensor_set_data(values, "dk"),
                       tensor_set_data(values, "dkRope"),
                       tensor_set_data(values, "dv")};
    ag_parallel_for(ag_config_get().threads, p->sequence_count * p->key_heads, run_item, &g);
    for (int i = 0; i < 4; ++i) {
        finish(tensor_set_data(values, scaled[i]), tensor_set_find(values, scaled[i]), g.dtype, p->scale);
    }
    finish(g.dv, tensor_set_find(values, "dv"), g.dtype, 1);
}

bool imitate_attention(const struct call *call, struct tensor_set *values)
{
    struct tensor_set outputs = {0};
    struct checked_attention checked = {0};
    bool is_good = operation_of(call)->make_outputs(call, &outputs) && check_attention(call, &outputs, &checked);
    is_good = is_good && add_doubles(&outputs, values);
    if (is_good && !checked.problem.is_nothing) {
        run_device(&checked.problem, values);
    }
    release_attention(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

/* --- the forward: exp(S - max) rounded to the 16-bit type before the product with value -------------------- */

static double device_score(const struct attention_problem *p, const struct attention_sequence *s, int64_t n,
                           int64_t i, int64_t j)
{
    const int64_t t = s->query_begin + i, key = s->key_begin + j, h = n / p->group;
    return (float)((double)p->scale * (dot_rows(&p->query, t, n, &p->key, key, h) +
                                       dot_rows(&p->query_rope, t, n, &p->key_rope, key, h)));
}

/* Turns a row's exact maximum and sum, which the definition has left in `values`, into its output. */
static void device_row(const struct attention_problem *p, struct tensor_set *values, int dtype,
                       const struct attention_sequence *s, int64_t n, int64_t i)
{
    const struct attention_mask_row mask = attention_mask_row(p, s, n, i);
    const struct attention_columns columns = attention_visible_columns(s, i);
    const int64_t row = attention_statistics_row(p, p->softmax_layout, s, n, i) * 8, t = s->query_begin + i;
    const double max = (float)((double *)tensor_set_data(values, "softmaxMax"))[row];
    const double sum = (float)((double *)tensor_set_data(values, "softmaxSum"))[row];
    double *out = (double *)tensor_set_data(values, "attentionOut") + (t * p->query_heads + n) * p->value_dim;
    for (int64_t e = 0; e < p->value_dim; ++e) {
        out[e] = 0;
    }
    for (int64_t j = columns.begin; j < columns.end; ++j) {
        if (!mask.bytes || !mask.bytes[j * mask.stride]) {
            const double P = round_to_dtype_away(dtype, (float)exp(device_score(p, s, n, i, j) - max));
            for (int64_t e = 0; e < p->value_dim; ++e) {
                out[e] += P * attention_read(&p->value, s->key_begin + j, n / p->group, e);
            }
        }
    }
    for (int64_t e = 0; e < p->value_dim; ++e) {
        out[e] = round_to_dtype_away(dtype, (float)(out[e] / sum));
    }
}

static void round_statistics(struct tensor_set *values, const char *name)
{
    const struct tensor *tensor = tensor_set_find(values, name);
    double *data = tensor->data;
    for (int64_t at = 0; at < tensor->elems; ++at) {
        data[at] = (float)data[at];
    }
}

bool imitate_attention_forward(const struct call *call, struct tensor_set *values)
{
    struct tensor_set outputs = {0}, bounds = {0};
    struct checked_attention checked = {0};
    const struct attention_problem *p = &checked.problem;
    bool is_good = operation_of(call)->make_outputs(call, &outputs) &&
                   check_attention_forward(call, &outputs, &checked) &&
                   operation_of(call)->define(call, values, &bounds);
    for (int64_t b = 0; is_good && !p->is_nothing && b < p->sequence_count; ++b) {
        const struct attention_sequence *s = &p->sequences[b];
        for (int64_t at = 0; s->key_len > 0 && at < s->query_len * p->query_heads; ++at) {
            device_row(p, values, tensor_set_find(&outputs, "attentionOut")->dtype, s, at / s->query_len,
                       at % s->query_len);
        }
    }
    if (is_good) {
        round_statistics(values, "softmaxMax");
        round_statistics(values, "softmaxSum");
    }
    release_attention(&checked);
    tensor_set_destroy(&outputs);
    tensor_set_destroy(&bounds);
    return is_good;
}
