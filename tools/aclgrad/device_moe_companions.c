/* Permute, its gradient and unpermute as the device rounds them: products and sums in float, each rounded, in the order of k;
 * one cast at the end. */
#include "base/elem.h"
#include "call_moe_companions.h"
#include "facts.h"

static float run_element(const struct moe_unpermute_problem *p, int64_t token, int64_t h)
{
    const int32_t *indices = ag_view_origin(&p->sorted_indices);
    float sum = 0;
    for (int64_t k = 0; k < p->topk; ++k) {
        const int64_t row = indices[(token * p->topk + k) * p->sorted_indices.strides[0]] - p->window.begin;
        const bool is_local = row >= 0 && row < p->local_rows;
        const float prob = is_local && p->probs.present
                               ? ag_elem_load(ag_elem_of(p->probs.dtype), ag_view_origin(&p->probs),
                                              token * p->probs.strides[0] + k * p->probs.strides[1])
                               : 1.0f;
        if (is_local && prob != 0) {
            const float product =
                prob * ag_elem_load(p->token_elem, ag_view_origin(&p->permuted_tokens),
                                    row * p->permuted_tokens.strides[0] + h * p->permuted_tokens.strides[1]);
            sum += product;
        }
    }
    return ag_elem_round(p->token_elem, sum);
}

/* What is only moved the definition has exactly; the sums are done again. */
bool imitate_moe_companion(const struct call *call, struct tensor_set *values)
{
    const struct operation *op = operation_of(call);
    struct tensor_set outputs = {0}, bounds = {0};
    struct checked_companion checked = {0};
    const struct moe_unpermute_problem *p = &checked.unpermute;
    const bool is_good = op->define(call, values, &bounds) && op->make_outputs(call, &outputs) &&
                         check_companion(call, &outputs, &checked);
    double *sums = is_good ? tensor_set_data(values, op->outputs[0]) : NULL;
    const int64_t elems =
        is_good && call->problem.op != PROBLEM_MOE_PERMUTE && !p->is_empty ? p->tokens_count * p->hidden : 0;
    for (int64_t i = 0; i < elems; ++i) {
        sums[i] = run_element(p, i / p->hidden, i % p->hidden);
    }
    release_companion(&checked);
    tensor_set_destroy(&outputs);
    tensor_set_destroy(&bounds);
    return is_good;
}
