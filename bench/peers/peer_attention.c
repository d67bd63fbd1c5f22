/* Attention's gradients as a composition of products, tile by tile of KEY_BLOCK keys x QUERY_BLOCK queries, only where something
 * is seen. With k, q the rope joined, all tiles lie keys down, queries across, so that every product is one that the
 * libraries do well:
 *
 *     s = k q^T    dp = v dy^T    p = e^(scale s - max) / sum    ds = p (dp - delta) scale
 *     dv += p dy   dk += ds q     dq += ds^T k
 *
 * Sequences and key heads run in parallel. */
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/parallel.h"
#include "call_attention.h"
#include "peer.h"

enum { QUERY_BLOCK = 256, KEY_BLOCK = 512 }; /* the best of 128 to 512 and 256 to 4096 */

struct lane {
    struct blocks blocks;
    void *products;
    void *q, *dy, *k, *v, *p, *ds; /* elements of the work's type */
    float *s, *dp, *dq, *dk, *dv;
    float *max, *inverse, *delta; /* [longest query] */
    int32_t *begin, *end;         /* [longest query] visible keys */
    float *row;                   /* [dim] */
};

struct state {
    struct checked_attention checked;
    const struct backend *backend;
    bool is_bf16;
    enum ag_softmax_layout layout;
    int64_t dim, value_dim; /* with the rope */
    const struct tensor *query, *query_rope, *key, *key_rope, *value, *dy, *attention, *max, *sum;
    struct tensor *dq, *dq_rope, *dk, *dk_rope, *dv;
    int lane_count;
    struct lane *lanes;
    struct blocks blocks; /* the lanes */
};

/* --- rows in and out ------------------------------------------------------------------------------------- */

static void *at_elem(const struct state *s, void *array, int64_t at)
{
    return (char *)array + at * (s->is_bf16 ? 2 : 4);
}

/* Joins the two parts of a head's rows. */
static void pack_joined(const struct state *s, void *to, const struct tensor *a, const struct tensor *b,
                        int64_t heads, int64_t head, int64_t row, int64_t rows)
{
    const int64_t d = a->dims[2], dr = b ? b->dims[2] : 0;
    pack(to, d + dr, s->is_bf16, a, (row * heads + head) * d, heads * d, rows, d);
    if (b) {
        pack(at_elem(s, to, d), d + dr, s->is_bf16, b, (row * heads + head) * dr, heads * dr, rows, dr);
    }
}

static void store_joined(struct tensor *a, struct tensor *b, int64_t row_head, const float *from)
{
    const int64_t d = a->dims[2];
    narrow(a->dtype, a->data, row_head * d, from, d);
    if (b) {
        narrow(b->dtype, b->data, row_head * b->dims[2], from + d, b->dims[2]);
    }
}

/* Per query row: statistics, delta, visible keys. */
static void read_rows(const struct state *s, struct lane *lane, const struct attention_sequence *seq, int64_t head)
{
    const struct attention_problem *p = &s->checked.problem;
    for (int64_t i = 0; i < seq->query_len; ++i) {
        const int64_t statistics = attention_statistics_row(p, s->layout, seq, head, i) * 8;
        const int64_t at = ((seq->query_begin + i) * p->query_heads + head) * s->value_dim;
        const struct attention_columns seen = attention_visible_columns(seq, i);
        lane->max[i] = ((const float *)s->max->data)[statistics];
        lane->inverse[i] = 1 / ((const float *)s->sum->data)[statistics];
        lane->begin[i] = (int32_t)seen.begin;
        lane->end[i] = (int32_t)seen.end;
        widen(lane->row, s->dy->dtype, s->dy->data, at, s->value_dim);
        widen(lane->row + s->value_dim, s->attention->dtype, s->attention->data, at, s->value_dim);
        float delta = 0;
        for (int64_t d = 0; d < s->value_dim; ++d) {
            delta += lane->row[d] * lane->row[s->value_dim + d];
        }
        lane->delta[i] = delta;
    }
}

/* --- a tile ---------------------------------------------------------------------------------------------- */

static inline float exponential(float x, const bool is_rough)
{
    float t = x * 1.44269504f;
    t = t < -126 ? -126 : t;
    const float n = __builtin_rintf(t), f = t - n;
    const float rough = 5.51716649e-2f * f + 2.42611122e-1f;
    const float fine = ((1.32764715e-3f * f + 9.67554133e-3f) * f + 5.55071327e-2f) * f + 2.40221197e-1f;
    const float power = ((is_rough ? rough : fine) * f + 6.9314702e-1f) * f + 1;
    const int32_t bits = ((int32_t)n + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return t == -126 ? 0 : power * scale;
}

static inline void softmax_row(const struct lane *lane, int64_t i0, int64_t queries, int32_t key, float scale,
                               float *s, float *dp, const bool is_rough)
{
    const float *max = lane->max + i0, *inverse = lane->inverse + i0, *delta = lane->delta + i0;
    const int32_t *begin = lane->begin + i0, *end = lane->end + i0;
    for (int64_t i = 0; i < queries; ++i) {
        const float p = exponential(s[i] * scale - max[i], is_rough) * inverse[i];
        s[i] = (begin[i] <= key) & (key < end[i]) ? p : 0;
        dp[i] = s[i] * (dp[i] - delta[i]) * scale;
    }
}

/* s, dp -> p, ds, for keys [j0, j0 + keys). */
static void softmax_tile(const struct state *st, struct lane *lane, int64_t i0, int64_t queries, int64_t j0,
                         int64_t keys)
{
    for (int64_t j = 0; j < keys; ++j) {
        float *s = lane->s + j * queries, *dp = lane->dp + j * queries;
        if (st->is_bf16) {
            softmax_row(lane, i0, queries, (int32_t)(j0 + j), st->checked.problem.scale, s, dp, true);
            narrow(AG_BF16, lane->p, j * queries, s, queries);
            narrow(AG_BF16, lane->ds, j * queries, dp, queries);
        } else {
            softmax_row(lane, i0, queries, (int32_t)(j0 + j), st->checked.problem.scale, s, dp, false);
        }
    }
}

static void multiply(const struct state *s, struct lane *lane, struct product product, const void *a, const void *b,
                     float *c)
{
    product.is_bf16 = s->is_bf16;
    s->backend->multiply(lane->products, &product, a, b, c);
}

/* Queries [i0, i0 + n) against keys [j0, j0 + m). */
static void do_tile(const struct state *s, struct lane *lane, int64_t i0, int64_t n, int64_t j0, int64_t m)
{
    const int64_t d = s->dim, dv = s->value_dim;
    const void *q = at_elem(s, lane->q, i0 * d), *dy = at_elem(s, lane->dy, i0 * dv);
    const void *k = at_elem(s, lane->k, j0 * d), *v = at_elem(s, lane->v, j0 * dv);
    const void *p = s->is_bf16 ? lane->p : lane->s, *ds = s->is_bf16 ? lane->ds : lane->dp;
    multiply(s, lane, (struct product){m, n, d, d, d, n, false, true, false, false}, k, q, lane->s);
    multiply(s, lane, (struct product){m, n, dv, dv, dv, n, false, true, false, false}, v, dy, lane->dp);
    softmax_tile(s, lane, i0, n, j0, m);
    multiply(s, lane, (struct product){m, dv, n, n, dv, dv, false, false, true, false}, p, dy, lane->dv + j0 * dv);
    multiply(s, lane, (struct product){m, d, n, n, d, d, false, false, true, false}, ds, q, lane->dk + j0 * d);
    multiply(s, lane, (struct product){n, d, m, n, d, d, true, false, true, false}, ds, k, lane->dq);
}

/* --- a head ---------------------------------------------------------------------------------------------- */

static void do_query_head(const struct state *s, struct lane *lane, const struct attention_sequence *seq,
                          int64_t head)
{
    const struct attention_problem *p = &s->checked.problem;
    pack_joined(s, lane->q, s->query, s->query_rope, p->query_heads, head, seq->query_begin, seq->query_len);
    pack_joined(s, lane->dy, s->dy, NULL, p->query_heads, head, seq->query_begin, seq->query_len);
    read_rows(s, lane, seq, head);
    for (int64_t i = 0; i < seq->query_len; i += QUERY_BLOCK) {
        const int64_t n = seq->query_len - i < QUERY_BLOCK ? seq->query_len - i : QUERY_BLOCK;
        const int64_t end = lane->end[i + n - 1];
        memset(lane->dq, 0, (size_t)(s->dim * n) * sizeof *lane->dq);
        for (int64_t j = lane->begin[i] / KEY_BLOCK * KEY_BLOCK; j < end; j += KEY_BLOCK) {
            do_tile(s, lane, i, n, j, end - j < KEY_BLOCK ? end - j : KEY_BLOCK);
        }
        for (int64_t row = 0; row < n; ++row) {
            const int64_t row_head = (seq->query_begin + i + row) * p->query_heads + head;
            store_joined(s->dq, s->dq_rope, row_head, lane->dq + row * s->dim);
        }
    }
}

static void do_item(void *context, int64_t item, int lane_number)
{
    const struct state *s = context;
    const struct attention_problem *p = &s->checked.problem;
    const struct attention_sequence *seq = &p->sequences[item / p->key_heads];
    const int64_t key_head = item % p->key_heads;
    struct lane *lane = &s->lanes[lane_number];
    pack_joined(s, lane->k, s->key, s->key_rope, p->key_heads, key_head, seq->key_begin, seq->key_len);
    pack_joined(s, lane->v, s->value, NULL, p->key_heads, key_head, seq->key_begin, seq->key_len);
    memset(lane->dk, 0, (size_t)(seq->key_len * s->dim) * sizeof *lane->dk);
    memset(lane->dv, 0, (size_t)(seq->key_len * s->value_dim) * sizeof *lane->dv);
    for (int64_t head = key_head * p->group; head < (key_head + 1) * p->group; ++head) {
        do_query_head(s, lane, seq, head);
    }
    for (int64_t j = 0; j < seq->key_len; ++j) {
        const int64_t row_head = (seq->key_begin + j) * p->key_heads + key_head;
        store_joined(s->dk, s->dk_rope, row_head, lane->dk + j * s->dim);
        narrow(s->dv->dtype, s->dv->data, row_head * s->value_dim, lane->dv + j * s->value_dim, s->value_dim);
    }
}

static void run(void *state)
{
    struct state *s = state;
    const struct attention_problem *p = &s->checked.problem;
    ag_parallel_for(s->lane_count, p->sequence_count * p->key_heads, do_item, s);
}

/* --- making and ending ----------------------------------------------------------------------------------- */

static void open_lane(const struct state *s, struct lane *lane)
{
    const int64_t queries = s->checked.problem.max_query_len, keys = s->checked.problem.max_key_len;
    lane->products = s->backend->open_lane();
    lane->q = take(&lane->blocks, queries * s->dim);
    lane->dy = take(&lane->blocks, queries * s->value_dim);
    lane->k = take(&lane->blocks, keys * s->dim);
    lane->v = take(&lane->blocks, keys * s->value_dim);
    lane->p = take(&lane->blocks, QUERY_BLOCK * KEY_BLOCK);
    lane->ds = take(&lane->blocks, QUERY_BLOCK * KEY_BLOCK);
    lane->s = take(&lane->blocks, QUERY_BLOCK * KEY_BLOCK);
    lane->dp = take(&lane->blocks, QUERY_BLOCK * KEY_BLOCK);
    lane->dq = take(&lane->blocks, QUERY_BLOCK * s->dim);
    lane->dk = take(&lane->blocks, keys * s->dim);
    lane->dv = take(&lane->blocks, keys * s->value_dim);
    lane->max = take(&lane->blocks, queries);
    lane->inverse = take(&lane->blocks, queries);
    lane->delta = take(&lane->blocks, queries);
    lane->begin = take(&lane->blocks, queries);
    lane->end = take(&lane->blocks, queries);
    lane->row = take(&lane->blocks, s->dim + 2 * s->value_dim);
}

static void close(void *state)
{
    struct state *s = state;
    for (int i = 0; i < s->lane_count; ++i) {
        s->backend->close_lane(s->lanes[i].products);
        release(&s->lanes[i].blocks);
    }
    release(&s->blocks);
    release_attention(&s->checked);
    free(s);
}

static void bind(struct state *s, const struct call *call, struct tensor_set *outputs)
{
    s->query = tensor_set_find(&call->inputs, "query");
    s->query_rope = tensor_set_find(&call->inputs, "queryRope");
    s->key = tensor_set_find(&call->inputs, "keyIn");
    s->key_rope = tensor_set_find(&call->inputs, "keyInRope");
    s->value = tensor_set_find(&call->inputs, "value");
    s->dy = tensor_set_find(&call->inputs, "dy");
    s->attention = tensor_set_find(&call->inputs, "attentionIn");
    s->max = tensor_set_find(&call->inputs, "softmaxMax");
    s->sum = tensor_set_find(&call->inputs, "softmaxSum");
    s->dq = tensor_set_find(outputs, "dq");
    s->dq_rope = tensor_set_find(outputs, "dqRope");
    s->dk = tensor_set_find(outputs, "dk");
    s->dk_rope = tensor_set_find(outputs, "dkRope");
    s->dv = tensor_set_find(outputs, "dv");
}

bool open_attention(struct peer_work *work, const struct call *call, struct tensor_set *outputs,
                    const struct backend *backend)
{
    struct state *s = calloc(1, sizeof *s);
    *work = (struct peer_work){s, run, close};
    if (!s || !backend || !check_attention(call, outputs, &s->checked) || s->checked.problem.has_mask_bytes) {
        free(s ? (release_attention(&s->checked), s) : NULL);
        return false;
    }
    bind(s, call, outputs);
    s->backend = backend;
    s->is_bf16 = backend->has_bf16 && backend->has_bf16() && s->query->dtype == AG_BF16;
    s->layout = layout_of(&s->checked.problem);
    s->dim = s->checked.problem.dim + s->checked.problem.rope_dim;
    s->value_dim = s->checked.problem.value_dim;
    s->lane_count = ag_config_get().threads;
    s->lanes = take(&s->blocks, s->lane_count * (int64_t)sizeof *s->lanes / 4);
    for (int i = 0; i < s->lane_count; ++i) {
        open_lane(s, &s->lanes[i]);
    }
    return true;
}
