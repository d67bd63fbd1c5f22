/* The forward pass in double, for the statistics and attentionIn that a backward call needs. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "call_attention.h"
#include "cli.h"

/* --- one row --------------------------------------------------------------------------------------------- */

static double dot_rows(const struct ag_view *a, int64_t i, int64_t m, const struct ag_view *b, int64_t j, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; a->present && d < a->dims[2]; ++d) {
        sum += attention_read(a, i, m, d) * attention_read(b, j, n, d);
    }
    return sum;
}

/* A row's scores against the columns of its interval; those that mask bytes hide are -infinity. */
struct scores {
    struct attention_columns columns;
    double *values; /* [end - begin] */
    int64_t stride; /* every stride-th column only: for speed */
};

static void score_row(const struct attention_problem *p, const struct attention_sequence *s, int64_t n, int64_t i,
                      struct scores *scores)
{
    const struct attention_mask_row mask = attention_mask_row(p, s, n, i);
    const int64_t h = n / p->group;
    for (int64_t j = scores->columns.begin; j < scores->columns.end; j += scores->stride) {
        const bool is_hidden = mask.bytes && mask.bytes[j * mask.stride];
        scores->values[j - scores->columns.begin] =
            is_hidden ? -INFINITY
                      : (double)p->scale *
                            (dot_rows(&p->query, s->query_begin + i, n, &p->key, s->key_begin + j, h) +
                             dot_rows(&p->query_rope, s->query_begin + i, n, &p->key_rope, s->key_begin + j, h));
    }
}

static struct row_statistics sum_row(struct scores *scores)
{
    struct row_statistics row = {-INFINITY, 0, 0};
    const int64_t count = scores->columns.end - scores->columns.begin;
    for (int64_t j = 0; j < count; j += scores->stride) {
        row.max = scores->values[j] > row.max ? scores->values[j] : row.max;
    }
    for (int64_t j = 0; j < count; j += scores->stride) {
        if (scores->values[j] > -INFINITY) {
            row.sum += exp(scores->values[j] - row.max);
            ++row.visible;
        }
    }
    return row;
}

struct row_statistics attention_row_statistics(const struct attention_problem *p, const struct attention_sequence *s,
                                               int64_t head, int64_t i)
{
    struct scores scores = {attention_visible_columns(s, i), NULL, 1};
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
    const struct attention_problem *p;
    struct tensor *max, *sum, *out;
    enum ag_softmax_layout order;
    enum fidelity fidelity;
    double *scratch;      /* [lanes][max_key_len] */
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
    const int64_t columns = scores->columns.end - scores->columns.begin;
    for (int64_t j = 0; j < columns; ++j) {
        scores->values[j] = scores->values[j] > -INFINITY ? exp(scores->values[j] - row->max) / row->sum : 0;
    }
    for (int64_t e = 0; e < p->value_dim; ++e) {
        double sum = 0;
        for (int64_t j = 0; j < columns; ++j) {
            if (scores->values[j] != 0) {
                sum += scores->values[j] * attention_read(&p->value, s->key_begin + scores->columns.begin + j, h, e);
            }
        }
        tensor_set(f->out, to + e, sum);
    }
}

static void forward_row(const struct forward *f, const struct attention_sequence *s, int64_t n, int64_t i,
                        double *scratch)
{
    enum { SAMPLE = 32 };
    struct scores scores = {attention_visible_columns(s, i), scratch, 1};
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
    double *scratch = f->scratch + (int64_t)lane * f->p->max_key_len;
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

bool forward_attention(struct call *call, const struct attention_problem *p, enum fidelity fidelity)
{
    static const enum ag_softmax_layout orders[] = {AG_SOFTMAX_CANN, AG_SOFTMAX_TND, AG_SOFTMAX_NTD};
    static const char *const words[] = {"cann", "tnd", "ntd"};
    const int lanes = ag_config_get().threads;
    struct forward f = {.p = p,
                        .fidelity = fidelity,
                        .max = tensor_set_find(&call->inputs, "softmaxMax"),
                        .sum = tensor_set_find(&call->inputs, "softmaxSum"),
                        .out = tensor_set_find(&call->inputs, "attentionIn")};
    int order = 0;
    while (order < 2 && !problem_is(&call->problem, "order", words[order])) {
        ++order;
    }
    f.order = orders[order];
    f.scratch = malloc((size_t)(lanes * p->max_key_len + 1) * sizeof(double));
    f.sequence_of = map_rows(p);
    const bool is_good = f.scratch && f.sequence_of;
    if (is_good) {
        progress_begin("forward pass", p->query_rows);
        ag_parallel_for(lanes, p->query_rows, forward_item, &f);
        progress_end();
    }
    free(f.scratch);
    free(f.sequence_of);
    return is_good || cli_fail(CLI_USAGE, "out of memory");
}
