/* The definition of the operator, in double, and beside every value the bound that a right implementation in fp32 (with
 * P and dS rounded to the 16-bit type) keeps. Plain loops in the order of the formulas; no tiling, no shortcuts. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/elem.h"
#include "base/memory.h"
#include "op/attention/attention.h"

#define EPS 0x1p-24 /* unit roundoff of fp32 */

/* --- inputs as dense doubles ----------------------------------------------------------------------------- */

double attention_read(const struct ag_view *view, int64_t i, int64_t j, int64_t d)
{
    const int64_t at = i * view->strides[0] + j * view->strides[1] + d * view->strides[2];
    return ag_elem_load(ag_elem_of(view->dtype), ag_view_origin(view), at);
}

/* [rows, heads, dim] of doubles; a row is at(x, t, n). */
struct dense {
    double *data;
    int64_t heads, dim;
};

static double *at(const struct dense *x, int64_t t, int64_t n)
{
    return x->data + (t * x->heads + n) * x->dim;
}

static void copy_dense(struct dense *x, const struct ag_view *view)
{
    double *to = x->data;
    for (int64_t t = 0; t < view->dims[0]; ++t) {
        for (int64_t n = 0; n < view->dims[1]; ++n) {
            for (int64_t d = 0; d < view->dims[2]; ++d) {
                *to++ = attention_read(view, t, n, d);
            }
        }
    }
}

/* --- the terms of one row -------------------------------------------------------------------------------- */

struct ref {
    const struct attention_problem *p;
    enum ag_softmax_layout layout;
    struct attention_ref out;
    struct dense q, qr, k, kr, v, dy, o; /* o: attentionIn */
    double *block;                       /* the memory of all of the above */
    double u;                            /* unit roundoff of the 16-bit type; 0 for FLOAT */
    double tiny;                         /* smallest subnormal of the type */
    double flush;                        /* below this an operand or a product of P or dS may count as zero */
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

static double dot(const double *a, const double *b, int64_t count, double *magnitude)
{
    double sum = 0;
    for (int64_t d = 0; d < count; ++d) {
        sum += a[d] * b[d];
        *magnitude += fabs(a[d] * b[d]);
    }
    return sum;
}

static struct ref_row start_row(const struct ref *r, const struct attention_sequence *s, int64_t n, int64_t i)
{
    const struct attention_problem *p = r->p;
    struct ref_row row = {.s = s, .n = n, .h = n / p->group, .i = i, .t = s->query_begin + i};
    const int64_t at_row = attention_statistics_row(p, r->layout, s, n, i);
    const float *max = ag_view_origin(&p->softmax_max), *sum = ag_view_origin(&p->softmax_sum);
    row.max = max[attention_statistics_offset(&p->softmax_max, at_row)];
    row.sum = sum[attention_statistics_offset(&p->softmax_sum, at_row)];
    row.delta = dot(at(&r->dy, row.t, n), at(&r->o, row.t, n), p->value_dim, &row.delta_abs);
    return row;
}

static struct ref_pair make_pair(const struct ref *r, const struct ref_row *row, int64_t j)
{
    const struct attention_problem *p = r->p;
    const int64_t key = row->s->key_begin + j;
    const double scale = p->scale, u = r->u;
    double qk_abs = 0, dyv_abs = 0;
    const double qk = dot(at(&r->q, row->t, row->n), at(&r->k, key, row->h), p->dim, &qk_abs) +
                      dot(at(&r->qr, row->t, row->n), at(&r->kr, key, row->h), p->rope_dim, &qk_abs);
    const double S = scale * qk;
    const double P = exp(S - row->max) / row->sum;
    const double dP = dot(at(&r->dy, row->t, row->n), at(&r->v, key, row->h), p->value_dim, &dyv_abs);
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

    add_scaled(o->dv + kh * p->value_dim, o->dv_bound + kh * p->value_dim, at(&r->dy, row->t, row->n), p->value_dim,
               pair.P, pair.e_P * (1 + r->u) + r->u * fabs(pair.P), query_terms, r->flush);
    add_scaled(o->dq + qn * p->dim, o->dq_bound + qn * p->dim, at(&r->k, key, row->h), p->dim, pair.dS, pair.e_dS,
               key_terms, r->flush);
    add_scaled(o->dk + kh * p->dim, o->dk_bound + kh * p->dim, at(&r->q, row->t, row->n), p->dim, pair.dS, pair.e_dS,
               query_terms, r->flush);
    if (p->has_rope) {
        add_scaled(o->dq_rope + qn * p->rope_dim, o->dq_rope_bound + qn * p->rope_dim, at(&r->kr, key, row->h),
                   p->rope_dim, pair.dS, pair.e_dS, key_terms, r->flush);
        add_scaled(o->dk_rope + kh * p->rope_dim, o->dk_rope_bound + kh * p->rope_dim, at(&r->qr, row->t, row->n),
                   p->rope_dim, pair.dS, pair.e_dS, query_terms, r->flush);
    }
}

static void add_row(const struct ref *r, const struct attention_sequence *s, int64_t n, int64_t i)
{
    const struct attention_columns columns = attention_visible_columns(s, i);
    const struct attention_mask_row mask = attention_mask_row(r->p, s, n, i);
    if (columns.begin == columns.end) {
        return; /* nothing visible: the statistics of the row mean nothing */
    }
    const struct ref_row row = start_row(r, s, n, i);
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

struct shape {
    struct dense *dense;
    const struct ag_view *view;
};

enum { INPUTS = 7 };

static ag_status open_inputs(struct ref *r)
{
    const struct attention_problem *p = r->p;
    const struct shape shapes[INPUTS] = {{&r->q, &p->query},       {&r->qr, &p->query_rope}, {&r->k, &p->key},
                                         {&r->kr, &p->key_rope},   {&r->v, &p->value},       {&r->dy, &p->dy},
                                         {&r->o, &p->attention_in}};
    int64_t elems = 1;
    for (int i = 0; i < INPUTS; ++i) {
        elems += shapes[i].view->present ? ag_view_elems(shapes[i].view) : 0;
    }
    double *next = r->block = ag_alloc((size_t)elems * sizeof *r->block);
    AG_REQUIRE(r->block, CREATE_EXECUTOR, "reference: out of memory for %lld elements", (long long)elems);
    for (int i = 0; i < INPUTS; ++i) {
        const struct ag_view *view = shapes[i].view;
        *shapes[i].dense = (struct dense){next, 1, 0};
        if (view->present) {
            *shapes[i].dense = (struct dense){next, view->dims[1], view->dims[2]};
            copy_dense(shapes[i].dense, view);
            next += ag_view_elems(view);
        }
    }
    return AG_OK;
}

struct result {
    double *value, *bound;
    int64_t count;
    double scale;
};

enum { RESULTS = 5 };

static void list_results(const struct ref *r, struct result results[RESULTS])
{
    const struct attention_problem *p = r->p;
    const struct attention_ref *o = &r->out;
    const int64_t query = p->query_rows * p->query_heads, key = p->key_rows * p->key_heads;
    const struct result list[RESULTS] = {{o->dq, o->dq_bound, query * p->dim, p->scale},
                                         {o->dq_rope, o->dq_rope_bound, query * p->rope_dim, p->scale},
                                         {o->dk, o->dk_bound, key * p->dim, p->scale},
                                         {o->dk_rope, o->dk_rope_bound, key * p->rope_dim, p->scale},
                                         {o->dv, o->dv_bound, key * p->value_dim, 1}};
    memcpy(results, list, sizeof list);
}

ag_status attention_ref(const struct attention_problem *problem, enum ag_softmax_layout layout,
                        const struct attention_ref *ref)
{
    static const double unit_roundoff[AG_ELEM_COUNT] = {
        [AG_ELEM_F32] = 0, [AG_ELEM_F16] = 0x1p-11, [AG_ELEM_BF16] = 0x1p-8};
    static const double subnormal[AG_ELEM_COUNT] = {
        [AG_ELEM_F32] = 0x1p-149, [AG_ELEM_F16] = 0x1p-24, [AG_ELEM_BF16] = 0x1p-133};
    struct ref r = {.p = problem,
                    .layout = layout,
                    .out = *ref,
                    .u = unit_roundoff[problem->elem],
                    .tiny = subnormal[problem->elem],
                    .flush = problem->elem == AG_ELEM_BF16 ? 0x1p-126 : 0}; /* the bf16 dot instruction does */
    struct result results[RESULTS];
    AG_TRY(open_inputs(&r));
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
