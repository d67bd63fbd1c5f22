/* The mixture-of-experts gradient as the device rounds it: products in float, to nearest even, each rounded before it
 * is summed; one cast at the end. What differs from a device is the order of the sums. */
#include "base/elem.h"
#include "call_moe.h"
#include "facts.h"

static double at2(const struct ag_view *view, int64_t i, int64_t j)
{
    return ag_elem_load(ag_elem_of(view->dtype), ag_view_origin(view), i * view->strides[0] + j * view->strides[1]);
}

static void run_slot(const struct moe_problem *p, int64_t slot, int64_t row, double *tokens_grad, double *probs_grad)
{
    const int64_t t = slot / p->topk, k = slot % p->topk;
    double sum = 0;
    for (int64_t h = 0; h < p->hidden; ++h) {
        const double grad = at2(&p->unpermuted_tokens_grad, t, h);
        tokens_grad[row * p->hidden + h] =
            p->probs.present ? ag_elem_round(p->token_elem, (float)(grad * at2(&p->probs, t, k))) : grad;
        sum += p->probs.present ? (float)(at2(&p->permuted_tokens, row, h) * grad) : 0;
    }
    if (p->probs.present) {
        probs_grad[slot] = ag_elem_round(p->probs_elem, (float)sum);
    }
}

bool imitate_moe(const struct call *call, struct tensor_set *values)
{
    struct tensor_set outputs = {0};
    struct checked_moe checked = {0};
    const struct moe_problem *p = &checked.problem;
    const bool is_good = operation_of(call)->make_outputs(call, &outputs) && check_moe(call, &outputs, &checked) &&
                         add_doubles(&outputs, values);
    for (int64_t i = 0; is_good && !p->is_empty && i < p->slots; ++i) {
        const int32_t *indices = ag_view_origin(&p->sorted_indices);
        const int64_t position = indices[i * p->sorted_indices.strides[0]], row = position - p->window_begin;
        if (position >= p->window_begin && position < p->window_end && row < p->local_rows) {
            run_slot(p, i, row, tensor_set_data(values, "permutedTokensGrad"), tensor_set_data(values, "probsGrad"));
        }
    }
    release_moe(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}
