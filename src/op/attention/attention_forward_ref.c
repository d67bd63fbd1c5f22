/* The definition of the forward pass, in double, and beside every value the bound that a right implementation in fp32
 * (with P rounded to the 16-bit type) keeps. Plain loops in the order of the formulas: the maximum first, then the sums
 * under it. */
#include "op/attention/attention_forward.h"

#include <float.h>
#include <math.h>

#include "base/check.h"
#include "base/memory.h"
#include "op/attention/attention_dense.h"

#define EPS 0x1p-24 /* unit roundoff of fp32 */

struct ref {
    const struct attention_problem *p;
    const struct attention_forward_ref *out;
    struct attention_dense q, qr, k, kr, v;
    struct attention_rounding rounding;
};

/* One row (n, i) of one sequence. */
struct ref_row {
    const struct attention_sequence *s;
    int64_t n, h, t; /* query head, its key head, row in the pack */
    struct attention_columns columns;
    struct attention_mask_row mask;
    double max, e_max; /* of all visible scores, the sink's among them; and what max may be off */
    int64_t visible;   /* the sink counts */
};

static bool is_visible(const struct ref_row *row, int64_t j)
{
    return !row->mask.bytes || !row->mask.bytes[j * row->mask.stride];
}

/* S[i, j], and what fp32 may make of it: products and sums over D + Dr, scale, and a maximum subtracted. */
static double score(const struct ref *r, const struct ref_row *row, int64_t j, double *e_score)
{
    const struct attention_problem *p = r->p;
    const int64_t key = row->s->key_begin + j;
    double magnitude = 0;
    const double qk = attention_dense_dot(attention_dense_row(&r->q, row->t, row->n),
                                          attention_dense_row(&r->k, key, row->h), p->dim, &magnitude) +
                      attention_dense_dot(attention_dense_row(&r->qr, row->t, row->n),
                                          attention_dense_row(&r->kr, key, row->h), p->rope_dim, &magnitude);
    const double S = p->scale * qk;
    *e_score =
        (double)(p->dim + p->rope_dim + 4) * EPS * fabs((double)p->scale) * magnitude + 4 * EPS * (fabs(S) + 1);
    return S;
}

static double sink_of(const struct ref *r, int64_t n)
{
    const struct ag_view *sink = &r->p->sink;
    return sink->present ? ((const float *)ag_view_origin(sink))[n * sink->strides[0]] : -INFINITY;
}

static struct ref_row start_row(const struct ref *r, const struct attention_sequence *s, int64_t n, int64_t i)
{
    struct ref_row row = {.s = s,
                          .n = n,
                          .h = n / r->p->group,
                          .t = s->query_begin + i,
                          .columns = attention_visible_columns(s, i),
                          .mask = attention_mask_row(r->p, s, n, i),
                          .max = sink_of(r, n),
                          .visible = sink_of(r, n) > -INFINITY};
    for (int64_t j = row.columns.begin; j < row.columns.end; ++j) {
        if (is_visible(&row, j)) {
            double e_score;
            row.max = fmax(row.max, score(r, &row, j, &e_score));
            row.e_max = fmax(row.e_max, e_score);
            ++row.visible;
        }
    }
    return row;
}

/* The row's sums: l = sum_j exp(S - max), out = sum_j exp(S - max) v / l. `sums` gains sum_j P v and its bound. */
static void add_row(const struct ref *r, const struct ref_row *row, int64_t statistics_row)
{
    const struct attention_problem *p = r->p;
    const struct attention_forward_ref *o = r->out;
    const double terms = (double)(row->columns.end - row->columns.begin + 2), u = r->rounding.unit;
    double *out = o->attention + (row->t * p->query_heads + row->n) * p->value_dim;
    double *bound = o->attention_bound + (row->t * p->query_heads + row->n) * p->value_dim;
    const double sink = exp(sink_of(r, row->n) - row->max);
    double l = sink, e_l = sink * (expm1(row->e_max) + 16 * EPS);
    for (int64_t j = row->columns.begin; j < row->columns.end; ++j) {
        double e_score;
        if (!is_visible(row, j)) {
            continue;
        }
        const double S = score(r, row, j, &e_score);
        const double P = exp(S - row->max);
        const double e_P = P * (expm1(e_score + row->e_max) + (16 + terms) * EPS) + 2e-38;
        const double *v = attention_dense_row(&r->v, row->s->key_begin + j, row->h);
        l += P;
        e_l += e_P;
        for (int64_t e = 0; e < p->value_dim; ++e) {
            out[e] += P * v[e];
            bound[e] += (e_P * (1 + u) + u * P + r->rounding.flush) * fabs(v[e]) + r->rounding.flush;
        }
    }
    for (int64_t e = 0; e < p->value_dim; ++e) {
        out[e] /= l;
        bound[e] =
            (bound[e] + e_l * fabs(out[e])) / l * (1 + 2 * e_l / l) + (4 * EPS + u) * fabs(out[e]) + r->rounding.tiny;
    }
    o->max[statistics_row] = row->max;
    o->max_bound[statistics_row] = row->e_max + EPS * fabs(row->max);
    o->sum[statistics_row] = l;
    o->sum_bound[statistics_row] = e_l + 2 * EPS * l;
}

/* Nothing visible: no sum, and statistics that say so. */
static void mark_row(const struct ref *r, int64_t statistics_row)
{
    r->out->max[statistics_row] = -FLT_MAX;
    r->out->sum[statistics_row] = FLT_MAX;
}

static void add_sequence(const struct ref *r, const struct attention_sequence *s)
{
    const struct attention_problem *p = r->p;
    for (int64_t n = 0; n < p->query_heads && s->key_len > 0; ++n) {
        for (int64_t i = 0; i < s->query_len; ++i) {
            const struct ref_row row = start_row(r, s, n, i);
            const int64_t statistics_row = attention_statistics_row(p, p->softmax_layout, s, n, i);
            if (row.visible > 0) {
                add_row(r, &row, statistics_row);
            } else {
                mark_row(r, statistics_row);
            }
        }
    }
}

static void clear(double *values, double *bounds, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        values[i] = bounds[i] = 0;
    }
}

ag_status attention_forward_ref(const struct attention_problem *problem, const struct attention_forward_ref *ref)
{
    struct ref r = {.p = problem, .out = ref, .rounding = attention_rounding_of(problem->elem)};
    const struct attention_dense_copy copies[] = {{&r.q, &problem->query},
                                                  {&r.qr, &problem->query_rope},
                                                  {&r.k, &problem->key},
                                                  {&r.kr, &problem->key_rope},
                                                  {&r.v, &problem->value}};
    const int64_t rows = problem->query_rows * problem->query_heads;
    double *block;
    AG_TRY(attention_dense_open(copies, (int)(sizeof copies / sizeof *copies), &block));
    clear(ref->attention, ref->attention_bound, rows * problem->value_dim);
    clear(ref->max, ref->max_bound, rows);
    clear(ref->sum, ref->sum_bound, rows);
    for (int64_t b = 0; b < problem->sequence_count; ++b) {
        add_sequence(&r, &problem->sequences[b]);
    }
    ag_free(block);
    return AG_OK;
}
