/* The forward pass in double, for the statistics and attentionIn that a backward call needs. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "call_attention.h"
#include "cli.h"

/* --- one row --------------------------------------------------------------------------------------------- */

/* Row (i, n) of floats that lie side by side, or NULL. */
static const float *float_row(const struct ag_view *view, int64_t i, int64_t n)
{
    const float *origin = ag_view_origin(view);
    const bool is_dense = view->dtype == AG_FLOAT && view->strides[2] == 1;
    return is_dense ? origin + i * view->strides[0] + n * view->strides[1] : NULL;
}

/* Several sums, since one would wait for each of its additions. */
static double dot_floats(const float *a, const float *b, int64_t count)
{
    enum { SUMS = 8 };
    double sums[SUMS] = {0}, sum = 0;
    int64_t d = 0;
    for (; d + SUMS <= count; d += SUMS) {
        for (int k = 0; k < SUMS; ++k) {
            sums[k] += (double)a[d + k] * b[d + k];
        }
    }
    for (; d < count; ++d) {
        sum += (double)a[d] * b[d];
    }
    for (int k = 0; k < SUMS; ++k) {
        sum += sums[k];
    }
    return sum;
}

static double dot_rows(const struct ag_view *a, int64_t i, int64_t m, const struct ag_view *b, int64_t j, int64_t n)
{
    double sum = 0;
    if (!a->present) {
        return 0;
    }
    const float *x = float_row(a, i, m), *y = float_row(b, j, n);
    if (x && y) {
        return dot_floats(x, y, a->dims[2]);
    }
    for (int64_t d = 0; d < a->dims[2]; ++d) {
        sum += attention_read(a, i, m, d) * attention_read(b, j, n, d);
    }
    return sum;
}

/* A row's scores against the columns of its interval; those that mask bytes hide are -infinity. */
struct scores {
    struct attention_columns columns;
    double *values;  /* [end - begin] */
    int64_t visible; /* columns, of those looked at, that nothing hides, whatever their score is */
    int64_t stride;  /* every stride-th column only: for speed */
};

static void score_row(const struct attention_problem *p, const struct attention_sequence *s, int64_t n, int64_t i,
                      struct scores *scores)
{
    const struct attention_mask_row mask = attention_mask_row(p, s, n, i);
    const int64_t h = n / p->group;
    for (int64_t j = scores->columns.begin; j < scores->columns.end; j += scores->stride) {
        const bool is_hidden = mask.bytes && mask.bytes[j * mask.stride];
        scores->visible += !is_hidden;
        scores->values[j - scores->columns.begin] =
            is_hidden ? -INFINITY
                      : (double)p->scale *
                            (dot_rows(&p->query, s->query_begin + i, n, &p->key, s->key_begin + j, h) +
                             dot_rows(&p->query_rope, s->query_begin + i, n, &p->key_rope, s->key_begin + j, h));
    }
}

/* A NaN among the scores, or an infinity that nothing is larger than, makes the sum NaN, as it does P. */
static struct row_statistics sum_row(const struct scores *scores)
{
    struct row_statistics row = {-INFINITY, 0, scores->visible};
    const int64_t count = scores->columns.end - scores->columns.begin;
    for (int64_t j = 0; j < count; j += scores->stride) {
        row.max = scores->values[j] > row.max ? scores->values[j] : row.max;
    }
    for (int64_t j = 0; row.visible > 0 && j < count; j += scores->stride) {
        row.sum += exp(scores->values[j] - row.max); /* 0 where hidden */
    }
    return row;
}

struct row_statistics attention_row_statistics(const struct attention_problem *p, const struct attention_sequence *s,
                                               int64_t head, int64_t i)
{
    struct scores scores = {.columns = attention_visible_columns(s, i), .stride = 1};
    struct row_statistics row = {-INFINITY, 0, 0};
    scores.values = malloc((size_t)(scores.columns.end - scores.columns.begin + 1) * sizeof(double));
    if (scores.values) {
        score_row(p, s, head, i, &scores);
        row = sum_row(&scores);
    }
    free(scores.values);
    return row;
}

/* --- all rows -------------------------------------------------------------------------------------------- */

struct forward {
    const struct attention_problem *p; /* its inputs are floats that lie side by side */
    struct tensor *max, *sum, *out;
    enum ag_softmax_layout order;
    enum fidelity fidelity;
    double *scratch;      /* [lanes][max_key_len + value_dim] */
    int64_t *sequence_of; /* [T1] of each row; -1: of no sequence */
};

static void store_row(const struct forward *f, const struct attention_sequence *s, int64_t n, int64_t i,
                      const struct row_statistics *row)
{
    enum { LANES = 8 };
    const int64_t at = attention_statistics_row(f->p, f->order, s, n, i) * LANES;
    /* Where nothing is visible: what the forward operator stores. */
    const double max = row->visible ? row->max : s->key_len > 0 ? -(double)FLT_MAX : 0;
    const double sum = row->visible ? row->sum : s->key_len > 0 ? (double)FLT_MAX : 0;
    for (int lane = 0; lane < LANES; ++lane) {
        tensor_set(f->max, at + lane, max);
        tensor_set(f->sum, at + lane, sum);
    }
}

/* Turns the scores into P, and P into the row of attentionIn. */
static void store_out(const struct forward *f, const struct attention_sequence *s, int64_t n, int64_t i,
                      const struct scores *scores, const struct row_statistics *row)
{
    const struct attention_problem *p = f->p;
    const int64_t to = ((s->query_begin + i) * p->query_heads + n) * p->value_dim, h = n / p->group;
    double *sums = scores->values + p->max_key_len;
    memset(sums, 0, (size_t)p->value_dim * sizeof *sums);
    for (int64_t j = 0; j < scores->columns.end - scores->columns.begin; ++j) {
        if (scores->values[j] > -INFINITY) {
            const double probability = exp(scores->values[j] - row->max) / row->sum;
            const float *value = float_row(&p->value, s->key_begin + scores->columns.begin + j, h);
            for (int64_t e = 0; e < p->value_dim && probability != 0; ++e) {
                sums[e] += probability * value[e];
            }
        }
    }
    for (int64_t e = 0; e < p->value_dim; ++e) {
        tensor_set(f->out, to + e, sums[e]);
    }
}

static void forward_row(const struct forward *f, const struct attention_sequence *s, int64_t n, int64_t i,
                        double *scratch)
{
    enum { SAMPLE = 32 };
    struct scores scores = {.columns = attention_visible_columns(s, i), .values = scratch, .stride = 1};
    const int64_t columns = scores.columns.end - scores.columns.begin;
    scores.stride = f->fidelity == FIDELITY_SPEED && columns > SAMPLE ? columns / SAMPLE : 1;
    score_row(f->p, s, n, i, &scores);
    struct row_statistics row = sum_row(&scores);
    if (f->fidelity == FIDELITY_EXACT) {
        store_out(f, s, n, i, &scores, &row);
    }
    row.sum *= (double)scores.stride;
    store_row(f, s, n, i, &row);
}

/* One item is a row of the pack, with all its heads. */
static void forward_item(void *context, int64_t row, int lane)
{
    const struct forward *f = context;
    double *scratch = f->scratch + (int64_t)lane * (f->p->max_key_len + f->p->value_dim);
    for (int64_t n = 0; f->sequence_of[row] >= 0 && n < f->p->query_heads; ++n) {
        const struct attention_sequence *s = &f->p->sequences[f->sequence_of[row]];
        forward_row(f, s, n, row - s->query_begin, scratch);
    }
    progress_step(1);
}

static int64_t *map_rows(const struct attention_problem *p)
{
    int64_t *sequence_of = malloc((size_t)(p->query_rows + 1) * sizeof *sequence_of);
    for (int64_t row = 0; sequence_of && row < p->query_rows; ++row) {
        sequence_of[row] = -1;
    }
    for (int64_t b = 0; sequence_of && b < p->sequence_count; ++b) {
        for (int64_t i = 0; i < p->sequences[b].query_len; ++i) {
            sequence_of[p->sequences[b].query_begin + i] = b;
        }
    }
    return sequence_of;
}

/* --- inputs as floats ------------------------------------------------------------------------------------ */

enum { FLOAT_INPUTS = 5 };

static void list_inputs(struct attention_problem *p, struct ag_view *views[FLOAT_INPUTS])
{
    struct ag_view *const all[FLOAT_INPUTS] = {&p->query, &p->query_rope, &p->key, &p->key_rope, &p->value};
    memcpy(views, all, sizeof all);
}

/* The same values, as floats that lie side by side in memory of their own. */
static bool make_floats(struct ag_view *view)
{
    const struct ag_view from = *view;
    float *to = malloc(((size_t)ag_view_elems(view) + 1) * sizeof *to);
    *view = (struct ag_view){.data = to, .rank = 3, .dtype = AG_FLOAT, .present = true};
    memcpy(view->dims, from.dims, sizeof view->dims);
    view->strides[2] = 1;
    view->strides[1] = from.dims[2];
    view->strides[0] = from.dims[1] * from.dims[2];
    for (int64_t i = 0; to && i < ag_view_elems(&from); ++i) {
        to[i] = (float)attention_read(&from, i / view->strides[0], i / from.dims[2] % from.dims[1], i % from.dims[2]);
    }
    return to != NULL;
}

static bool make_dense(const struct attention_problem *from, struct attention_problem *to)
{
    struct ag_view *views[FLOAT_INPUTS];
    bool is_good = true;
    *to = *from;
    list_inputs(to, views);
    for (int i = 0; i < FLOAT_INPUTS; ++i) {
        is_good = (!views[i]->present || make_floats(views[i])) && is_good;
    }
    return is_good;
}

static void release_dense(struct attention_problem *dense)
{
    struct ag_view *views[FLOAT_INPUTS];
    list_inputs(dense, views);
    for (int i = 0; i < FLOAT_INPUTS; ++i) {
        free(views[i]->present ? views[i]->data : NULL);
    }
}

/* --- the whole ------------------------------------------------------------------------------------------- */

bool forward_attention(struct call *call, const struct attention_problem *p, enum fidelity fidelity)
{
    static const enum ag_softmax_layout orders[] = {AG_SOFTMAX_CANN, AG_SOFTMAX_TND, AG_SOFTMAX_NTD};
    static const char *const words[] = {"cann", "tnd", "ntd"};
    const int lanes = ag_config_get().threads;
    struct attention_problem dense;
    const bool is_dense = make_dense(p, &dense);
    struct forward f = {.p = &dense,
                        .fidelity = fidelity,
                        .max = tensor_set_find(&call->inputs, "softmaxMax"),
                        .sum = tensor_set_find(&call->inputs, "softmaxSum"),
                        .out = tensor_set_find(&call->inputs, "attentionIn")};
    int order = 0;
    while (order < 2 && !problem_is(&call->problem, "order", words[order])) {
        ++order;
    }
    f.order = orders[order];
    f.scratch = malloc((size_t)(lanes * (p->max_key_len + p->value_dim) + 1) * sizeof(double));
    f.sequence_of = map_rows(p);
    const bool is_good = is_dense && f.scratch && f.sequence_of;
    if (is_good) {
        progress_begin("forward pass", p->query_rows);
        ag_parallel_for(lanes, p->query_rows, forward_item, &f);
        progress_end();
    }
    free(f.scratch);
    free(f.sequence_of);
    release_dense(&dense);
    return is_good || cli_fail(CLI_USAGE, "out of memory");
}
