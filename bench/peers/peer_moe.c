/* The unpermute's gradients as a plain loop: what one writes first, vectorised by the compiler; tokens run in parallel. */
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/parallel.h"
#include "call_moe.h"
#include "peer.h"

struct state {
    struct checked_moe checked;
    const struct tensor *grad, *indices, *tokens, *probs;
    struct tensor *tokens_grad, *probs_grad;
    int lane_count;
    struct blocks blocks;
    float *rows; /* [lanes][3][H]: gradient, expert's row, product */
};

static void do_slot(const struct state *s, int64_t slot, float *grad)
{
    const struct moe_problem *p = &s->checked.problem;
    const int64_t row = ((const int32_t *)s->indices->data)[slot] - p->window_begin;
    float prob = 1, dot = 0, *restrict tokens = grad + p->hidden, *restrict product = tokens + p->hidden;
    if (row >= 0 && row < p->local_rows) {
        if (s->probs) {
            widen(&prob, s->probs->dtype, s->probs->data, slot, 1);
            widen(tokens, s->tokens->dtype, s->tokens->data, row * p->hidden, p->hidden);
            float sums[64] = {0};
            for (int64_t h = 0; h + 64 <= p->hidden; h += 64) {
                for (int i = 0; i < 64; ++i) {
                    sums[i] += tokens[h + i] * grad[h + i];
                }
            }
            for (int64_t h = p->hidden / 64 * 64; h < p->hidden; ++h) {
                dot += tokens[h] * grad[h];
            }
            for (int i = 0; i < 64; ++i) {
                dot += sums[i];
            }
        }
        for (int64_t h = 0; h < p->hidden; ++h) {
            product[h] = grad[h] * prob;
        }
        narrow(s->tokens_grad->dtype, s->tokens_grad->data, row * p->hidden, product, p->hidden);
    }
    if (s->probs) {
        narrow(s->probs_grad->dtype, s->probs_grad->data, slot, &dot, 1);
    }
}

static void do_token(void *context, int64_t token, int lane)
{
    const struct state *s = context;
    const struct moe_problem *p = &s->checked.problem;
    float *grad = s->rows + lane * 3 * p->hidden;
    widen(grad, s->grad->dtype, s->grad->data, token * p->hidden, p->hidden);
    for (int64_t k = 0; k < p->topk; ++k) {
        do_slot(s, token * p->topk + k, grad);
    }
}

static void run(void *state)
{
    struct state *s = state;
    ag_parallel_for(s->lane_count, s->checked.problem.tokens, do_token, s);
}

static void close(void *state)
{
    struct state *s = state;
    release(&s->blocks);
    release_moe(&s->checked);
    free(s);
}

/* Rows that no slot owns would have to be zeroed: only problems without such are done. */
bool open_moe(struct peer_work *work, const struct call *call, struct tensor_set *outputs,
              const struct backend *backend)
{
    struct state *s = calloc(1, sizeof *s);
    *work = (struct peer_work){s, run, close};
    if (!s || backend || !check_moe(call, outputs, &s->checked) || s->checked.problem.is_empty ||
        s->checked.problem.out_rows != s->checked.problem.local_rows) {
        free(s ? (release_moe(&s->checked), s) : NULL);
        return false;
    }
    s->grad = tensor_set_find(&call->inputs, "unpermutedTokensGrad");
    s->indices = tensor_set_find(&call->inputs, "sortedIndices");
    s->tokens = tensor_set_find(&call->inputs, "permutedTokens");
    s->probs = tensor_set_find(&call->inputs, "probs");
    s->tokens_grad = tensor_set_find(outputs, "permutedTokensGrad");
    s->probs_grad = tensor_set_find(outputs, "probsGrad");
    s->lane_count = ag_config_get().threads;
    s->rows = take(&s->blocks, s->lane_count * 3 * s->checked.problem.hidden);
    return true;
}
