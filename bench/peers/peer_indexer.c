/* The indexer's gradients row by row: the live slots' keys are gathered, and three products do the work. S lies keys down,
 * heads across. Rows run in parallel; each lane adds to key gradients of its own, which are added up last.
 *
 *     s = k q^T    r = s > 0 ? w dy : 0    dw = sum of relu(s) dy    dq = r^T k    dk[gathered] += r q */
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/parallel.h"
#include "call_indexer.h"
#include "peer.h"

struct lane {
    struct blocks blocks;
    void *products;
    void *q, *k, *r;    /* elements of the work's type: [N, D], [K, D], [K, N] */
    float *s, *dk_rows; /* [K, N], [K, D] */
    float *dq, *dk;     /* [N, D], [keys, D] of all rows so far */
    float *w, *dw, *dy; /* [N], [N], [K] */
    int64_t *numbers;   /* [K] keys of the live slots */
};

struct state {
    struct checked_indexer checked;
    const struct backend *backend;
    bool is_bf16;
    const struct tensor *query, *key, *dy, *indices, *weights;
    struct tensor *dq, *dk, *dweights;
    int64_t index_stride; /* slots in a row of sparseIndices */
    int lane_count;
    struct lane *lanes;
    struct blocks blocks; /* the lanes */
};

/* The live slots' keys and dy, gathered; their number. */
static int64_t gather(const struct state *s, struct lane *lane, const struct indexer_sequence *seq, int64_t row)
{
    const struct indexer_problem *p = &s->checked.problem;
    const int64_t limit = indexer_slot_limit(p, seq, row - seq->row_begin), elem_bytes = s->is_bf16 ? 2 : 4;
    const int32_t *indices = (const int32_t *)s->indices->data + row * s->index_stride;
    int64_t live = 0;
    for (int64_t j = 0; j < limit; ++j) {
        if (indices[j] >= 0 && indices[j] < seq->live_keys) {
            const int64_t number = seq->key_begin + indices[j];
            pack((char *)lane->k + live * p->dim * elem_bytes, p->dim, s->is_bf16, s->key, number * p->dim, p->dim, 1,
                 p->dim);
            widen(lane->dy + live, s->dy->dtype, s->dy->data, row * p->topk + j, 1);
            lane->numbers[live++] = number;
        }
    }
    return live;
}

/* s -> r, dw */
static void mask_scores(const struct state *s, struct lane *lane, int64_t live)
{
    const int64_t heads = s->checked.problem.heads;
    memset(lane->dw, 0, (size_t)heads * sizeof *lane->dw);
    for (int64_t j = 0; j < live; ++j) {
        float *restrict row = lane->s + j * heads, *restrict dw = lane->dw;
        const float *w = lane->w, dy = lane->dy[j];
        for (int64_t h = 0; h < heads; ++h) {
            dw[h] += (row[h] > 0 ? row[h] : 0) * dy;
            row[h] = row[h] > 0 ? w[h] * dy : 0;
        }
        if (s->is_bf16) {
            narrow(AG_BF16, lane->r, j * heads, row, heads);
        }
    }
}

static void scatter(const struct state *s, const struct lane *lane, int64_t live)
{
    const int64_t dim = s->checked.problem.dim;
    for (int64_t j = 0; j < live; ++j) {
        float *restrict to = lane->dk + lane->numbers[j] * dim;
        const float *from = lane->dk_rows + j * dim;
        for (int64_t d = 0; d < dim; ++d) {
            to[d] += from[d];
        }
    }
}

static void do_row(const struct state *s, struct lane *lane, const struct indexer_sequence *seq, int64_t row)
{
    const int64_t n = s->checked.problem.heads, d = s->checked.problem.dim;
    const bool is_bf16 = s->is_bf16;
    const int64_t live = row < seq->row_begin + seq->live_rows ? gather(s, lane, seq, row) : 0;
    pack(lane->q, d, is_bf16, s->query, row * n * d, d, n, d);
    widen(lane->w, s->weights->dtype, s->weights->data, row * n, n);
    if (live > 0) {
        const void *r = is_bf16 ? lane->r : lane->s;
        s->backend->multiply(lane->products, &(struct product){live, n, d, d, d, n, false, true, false, is_bf16},
                             lane->k, lane->q, lane->s);
        mask_scores(s, lane, live);
        s->backend->multiply(lane->products, &(struct product){n, d, live, n, d, d, true, false, false, is_bf16}, r,
                             lane->k, lane->dq);
        s->backend->multiply(lane->products, &(struct product){live, d, n, n, d, d, false, false, false, is_bf16}, r,
                             lane->q, lane->dk_rows);
        scatter(s, lane, live);
    } else {
        memset(lane->dq, 0, (size_t)(n * d) * sizeof *lane->dq);
        memset(lane->dw, 0, (size_t)n * sizeof *lane->dw);
    }
    narrow(s->dq->dtype, s->dq->data, row * n * d, lane->dq, n * d);
    narrow(s->dweights->dtype, s->dweights->data, row * n, lane->dw, n);
}

static void do_item(void *context, int64_t row, int lane_number)
{
    const struct state *s = context;
    int64_t number = 0;
    struct indexer_sequence seq = indexer_sequence_at(&s->checked.problem, 0);
    while (row >= seq.row_begin + seq.rows) {
        seq = indexer_sequence_at(&s->checked.problem, ++number);
    }
    do_row(s, &s->lanes[lane_number], &seq, row);
}

static void add_lanes(void *context, int64_t key, int lane_number)
{
    const struct state *s = context;
    const int64_t dim = s->checked.problem.dim;
    float *restrict sum = s->lanes[0].dk + key * dim;
    (void)lane_number;
    for (int i = 1; i < s->lane_count; ++i) {
        for (int64_t d = 0; d < dim; ++d) {
            sum[d] += s->lanes[i].dk[key * dim + d];
        }
    }
    narrow(s->dk->dtype, s->dk->data, key * dim, sum, dim);
}

static void run(void *state)
{
    struct state *s = state;
    for (int i = 0; i < s->lane_count; ++i) {
        memset(s->lanes[i].dk, 0, (size_t)(s->checked.problem.keys * s->checked.problem.dim) * sizeof(float));
    }
    ag_parallel_for(s->lane_count, s->checked.problem.rows, do_item, s);
    ag_parallel_for(s->lane_count, s->checked.problem.keys, add_lanes, s);
}

static void open_lane(const struct state *s, struct lane *lane)
{
    const struct indexer_problem *p = &s->checked.problem;
    lane->products = s->backend->open_lane();
    lane->q = take(&lane->blocks, p->heads * p->dim);
    lane->k = take(&lane->blocks, p->topk * p->dim);
    lane->r = take(&lane->blocks, p->topk * p->heads);
    lane->s = take(&lane->blocks, p->topk * p->heads);
    lane->dk_rows = take(&lane->blocks, p->topk * p->dim);
    lane->dq = take(&lane->blocks, p->heads * p->dim);
    lane->dk = take(&lane->blocks, p->keys * p->dim);
    lane->w = take(&lane->blocks, p->heads);
    lane->dw = take(&lane->blocks, p->heads);
    lane->dy = take(&lane->blocks, p->topk);
    lane->numbers = take(&lane->blocks, 2 * p->topk);
}

static void close(void *state)
{
    struct state *s = state;
    for (int i = 0; i < s->lane_count; ++i) {
        s->backend->close_lane(s->lanes[i].products);
        release(&s->lanes[i].blocks);
    }
    release(&s->blocks);
    release_indexer(&s->checked);
    free(s);
}

bool open_indexer(struct peer_work *work, const struct call *call, struct tensor_set *outputs,
                  const struct backend *backend)
{
    struct state *s = calloc(1, sizeof *s);
    *work = (struct peer_work){s, run, close};
    if (!s || !backend || !check_indexer(call, outputs, &s->checked) || s->checked.problem.is_nothing) {
        free(s ? (release_indexer(&s->checked), s) : NULL);
        return false;
    }
    s->backend = backend;
    s->query = tensor_set_find(&call->inputs, "query");
    s->key = tensor_set_find(&call->inputs, "key");
    s->dy = tensor_set_find(&call->inputs, "dy");
    s->indices = tensor_set_find(&call->inputs, "sparseIndices");
    s->weights = tensor_set_find(&call->inputs, "weights");
    s->dq = tensor_set_find(outputs, "dq");
    s->dk = tensor_set_find(outputs, "dk");
    s->dweights = tensor_set_find(outputs, "dweights");
    s->index_stride = s->indices->dims[s->indices->rank - 1];
    s->is_bf16 = backend->has_bf16 && backend->has_bf16() && s->query->dtype == AG_BF16;
    s->lane_count = ag_config_get().threads;
    s->lanes = take(&s->blocks, s->lane_count * (int64_t)sizeof *s->lanes / 4);
    for (int i = 0; i < s->lane_count; ++i) {
        open_lane(s, &s->lanes[i]);
    }
    return true;
}
