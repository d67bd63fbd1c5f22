/* The definition of the operator, in double, and beside every value the bound that a right implementation in fp32 (with
 * P and dS rounded to the 16-bit type) keeps. Plain loops in the order of the formulas; no tiling, no shortcuts. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "op/attention/attention_dense.h"

#define EPS 0x1p-24 /* unit roundoff of fp32 */

/* --- the terms of one row -------------------------------------------------------------------------------- */

struct ref {
    const struct attention_problem *p;
    enum ag_softmax_layout layout;
    struct attention_ref out;
    struct attention_dense q, qr, k, kr, v, dy, o; /* o: attentionIn */
    double *block;                                 /* the memory of all of the above */
    double u;                                      /* unit roundoff of the 16-bit type; 0 for FLOAT */
    double tiny;                                   /* smallest subnormal of the type */
    double flush; /* below this an operand or a product of P or dS may count as zero */
};

/* One row (n, i) of one sequence. */
struct ref_row {
    const struct attention_sequence *s;
    int64_t n, h, i, t; /* query head, its key head, row in the sequence, row in the pack */
    double max, sum;
    double delta, delta_abs; /* sum_e dy * o, and of its absolute terms */
};

/* One visible pair (row, j). */
struct ref_pair {
    double P, dS;
    double e_P, e_dS; /* their bounds */
};

static struct ref_row start_row(const struct ref *r, const struct attention_sequence *s, int64_t n, int64_t i)
{
    const struct attention_problem *p = r->p;
    struct ref_row row = {.s = s, .n = n, .h = n / p->group, .i = i, .t = s->query_begin + i};
    const int64_t at_row = attention_statistics_row(p, r->layout, s, n, i);
    const float *max = ag_view_origin(&p->softmax_max), *sum = ag_view_origin(&p->softmax_sum);
    row.max = max[attention_statistics_offset(&p->softmax_max, at_row)];
    row.sum = sum[attention_statistics_offset(&p->softmax_sum, at_row)];
    row.delta = attention_dense_dot(attention_dense_row(&r->dy, row.t, n), attention_dense_row(&r->o, row.t, n),
                                    p->value_dim, &row.delta_abs);
    return row;
}

static struct ref_pair make_pair(const struct ref *r, const struct ref_row *row, int64_t j)
{
    const struct attention_problem *p = r->p;
    const int64_t key = row->s->key_begin + j;
    const double scale = p->scale, u = r->u;
    double qk_abs = 0, dyv_abs = 0;
    const double qk = attention_dense_dot(attention_dense_row(&r->q, row->t, row->n),
                                          attention_dense_row(&r->k, key, row->h), p->dim, &qk_abs) +
                      attention_dense_dot(attention_dense_row(&r->qr, row->t, row->n),
                                          attention_dense_row(&r->kr, key, row->h), p->rope_dim, &qk_abs);
    const double S = scale * qk;
    const double P = exp(S - row->max) / row->sum;
    const double dP = attention_dense_dot(attention_dense_row(&r->dy, row->t, row->n),
                                          attention_dense_row(&r->v, key, row->h), p->value_dim, &dyv_abs);
    const double X = dP - row->delta;

    const double dims = (double)(p->dim + p->rope_dim), value_dim = (double)p->value_dim;
    const double e_S = (dims + 4) * EPS * fabs(scale) * qk_abs + 4 * EPS * (fabs(S) + fabs(row->max) + 1);
    const double e_P = P * (expm1(e_S) + 16 * EPS + 4 * EPS * fabs(log(row->sum))) + 2e-38 / fabs(row->sum);
    const double e_X = (value_dim + 2) * EPS * (dyv_abs + row->delta_abs) + EPS * (fabs(dP) + fabs(row->delta));
    const double e_dS = (e_P * fabs(X) + (P + e_P) * e_X + 2 * EPS * P * fabs(X)) * (1 + u) + u * P * fabs(X);
    return (struct ref_pair){.P = P, .dS = P * X, .e_P = e_P + r->flush, .e_dS = e_dS + r->flush};
}

/* --- what a pair adds ------------------------------------------------------------------------------------ */

/* value += factor * x and bound += (e_factor + terms * EPS * |factor|) * |x| + flush */
static void add_scaled(double *value, double *bound, const double *x, int64_t count, double factor, double e_factor,
                       double terms, double flush)
{
    const double error = e_factor + terms * EPS * fabs(factor);
    for (int64_t d = 0; d < count; ++d) {
        value[d] += factor * x[d];
        bound[d] += error * fabs(x[d]) + flush;
    }
}

static void add_pair(const struct ref *r, const struct ref_row *row, int64_t j)
{
    const struct attention_problem *p = r->p;
    const struct attention_ref *o = &r->out;
    const struct ref_pair pair = make_pair(r, row, j);
    const int64_t key = row->s->key_begin + j;
    const int64_t qn = row->t * p->query_heads + row->n, kh = key * p->key_heads + row->h;
    const double key_terms = (double)(row->s->key_len + 2);
    const double query_terms = (double)(p->group * row->s->query_len + 2);

    add_scaled(o->dv + kh * p->value_dim, o->dv_bound + kh * p->value_dim,
               attention_dense_row(&r->dy, row->t, row->n), p->value_dim, pair.P,
               pair.e_P * (1 + r->u) + r->u * fabs(pair.P), query_terms, r->flush);
    add_scaled(o->dq + qn * p->dim, o->dq_bound + qn * p->dim, attention_dense_row(&r->k, key, row->h), p->dim,
               pair.dS, pair.e_dS, key_terms, r->flush);
    add_scaled(o->dk + kh * p->dim, o->dk_bound + kh * p->dim, attention_dense_row(&r->q, row->t, row->n), p->dim,
               pair.dS, pair.e_dS, query_terms, r->flush);
    if (p->has_rope) {
        add_scaled(o->dq_rope + qn * p->rope_dim, o->dq_rope_bound + qn * p->rope_dim,
                   attention_dense_row(&r->kr, key, row->h), p->rope_dim, pair.dS, pair.e_dS, key_terms, r->flush);
        add_scaled(o->dk_rope + kh * p->rope_dim, o->dk_rope_bound + kh * p->rope_dim,
                   attention_dense_row(&r->qr, row->t, row->n), p->rope_dim, pair.dS, pair.e_dS, query_terms,
                   r->flush);
    }
}

/* The sink is a score of value 0: dsink = sum over rows of P_sink * (0 - delta). */
static void add_sink(const struct ref *r, const struct ref_row *row)
{
    const struct ag_view *sink = &r->p->sink;
    if (!sink->present) {
        return;
    }
    const double S = ((const float *)ag_view_origin(sink))[row->n * sink->strides[0]];
    const double P = exp(S - row->max) / row->sum;
    const double e_P = P * (expm1(4 * EPS * (fabs(S) + fabs(row->max) + 1)) + 16 * EPS) + 2e-38 / fabs(row->sum);
    const double e_delta = (double)(r->p->value_dim + 2) * EPS * row->delta_abs;
    r->out.dsink[row->n] -= P * row->delta;
    r->out.dsink_bound[row->n] += e_P * (fabs(row->delta) + e_delta) + P * e_delta;
}

static void add_row(const struct ref *r, const struct attention_sequence *s, int64_t n, int64_t i)
{
    const struct attention_columns columns = attention_columns_of_row(r->p, s, n, i);
    const struct attention_mask_row mask = attention_mask_row(r->p, s, n, i);
    if (columns.begin == columns.end) {
        return; /* nothing visible: the statistics of the row mean nothing */
    }
    const struct ref_row row = start_row(r, s, n, i);
    add_sink(r, &row);
    for (int64_t j = columns.begin; j < columns.end; ++j) {
        if (!mask.bytes || !mask.bytes[j * mask.stride]) {
            add_pair(r, &row, j);
        }
    }
}

/* --- the whole ------------------------------------------------------------------------------------------- */

/* dQ and dK get the scale once, at the end; then the error of that product and of the cast. An element that nothing
 * was added to is exactly 0. */
static void finish(const struct ref *r, double *value, double *bound, int64_t count, double scale)
{
    for (int64_t i = 0; i < count; ++i) {
        value[i] *= scale;
        bound[i] *= fabs(scale);
        if (value[i] != 0 || bound[i] != 0) {
            bound[i] += (4 * EPS + r->u) * fabs(value[i]) + r->tiny;
        }
    }
}

struct result {
    double *value, *bound;
    int64_t count;
    double scale;
};

enum { RESULTS = 6 };

static void list_results(const struct ref *r, struct result results[RESULTS])
{
    const struct attention_problem *p = r->p;
    const struct attention_ref *o = &r->out;
    const int64_t query = p->query_rows * p->query_heads, key = p->key_rows * p->key_heads;
    const struct result list[RESULTS] = {{o->dq, o->dq_bound, query * p->dim, p->scale},
                                         {o->dq_rope, o->dq_rope_bound, query * p->rope_dim, p->scale},
                                         {o->dk, o->dk_bound, key * p->dim, p->scale},
                                         {o->dk_rope, o->dk_rope_bound, key * p->rope_dim, p->scale},
                                         {o->dv, o->dv_bound, key * p->value_dim, 1},
                                         {o->dsink, o->dsink_bound, p->sink.present ? p->query_heads : 0, 1}};
    memcpy(results, list, sizeof list);
}

ag_status attention_ref(const struct attention_problem *problem, enum ag_softmax_layout layout,
                        const struct attention_ref *ref)
{
    const struct attention_rounding rounding = attention_rounding_of(problem->elem);
    struct ref r = {.p = problem,
                    .layout = layout,
                    .out = *ref,
                    .u = rounding.unit,
                    .tiny = rounding.tiny,
                    .flush = rounding.flush};
    const struct attention_dense_copy copies[] = {{&r.q, &problem->query},       {&r.qr, &problem->query_rope},
                                                  {&r.k, &problem->key},         {&r.kr, &problem->key_rope},
                                                  {&r.v, &problem->value},       {&r.dy, &problem->dy},
                                                  {&r.o, &problem->attention_in}};
    struct result results[RESULTS];
    AG_TRY(attention_dense_open(copies, (int)(sizeof copies / sizeof *copies), &r.block));
    list_results(&r, results);
    for (int k = 0; k < RESULTS; ++k) {
        for (int64_t i = 0; i < results[k].count; ++i) {
            results[k].value[i] = results[k].bound[i] = 0;
        }
    }
    for (const struct attention_sequence *s = problem->sequences; s < problem->sequences + problem->sequence_count;
         ++s) {
        for (int64_t n = 0; n < problem->query_heads; ++n) {
            for (int64_t i = 0; i < s->query_len; ++i) {
                add_row(&r, s, n, i);
            }
        }
    }
    for (int k = 0; k < RESULTS; ++k) {
        finish(&r, results[k].value, results[k].bound, results[k].count, results[k].scale);
    }
    ag_free(r.block);
    return AG_OK;
}
