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
