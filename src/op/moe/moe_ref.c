/* The definition in double, one formula per function; nothing here is shared with moe_run.c. */
#include "op/moe/moe.h"

#include <math.h>

#include "base/elem.h"

/* --- the inputs, by their names in the formula ----------------------------------------------------------- */

static double at2(const struct ag_view *view, int64_t i, int64_t j)
{
    return ag_elem_load(ag_elem_of(view->dtype), ag_view_origin(view), i * view->strides[0] + j * view->strides[1]);
}

static double grad_at(const struct moe_problem *p, int64_t token, int64_t h)
{
    return at2(&p->unpermuted_tokens_grad, token, h);
}

static double permuted_at(const struct moe_problem *p, int64_t row, int64_t h)
{
    return at2(&p->permuted_tokens, row, h);
}

/* The row of slot i on this rank, or -1: start <= idx[i] < end and idx[i] - start < rows available. */
static int64_t row_of_slot(const struct moe_problem *p, int64_t slot)
{
    const int32_t *indices = ag_view_origin(&p->sorted_indices);
    const int64_t position = indices[slot * p->sorted_indices.strides[0]];
    const int64_t available = p->permuted_tokens.present && p->permuted_tokens.dims[0] < p->out_rows
                                  ? p->permuted_tokens.dims[0]
                                  : p->out_rows;
    const bool is_local =
        p->window_begin <= position && position < p->window_end && position - p->window_begin < available;
    return is_local ? position - p->window_begin : -1;
}

/* --- the gradient of the permuted tokens ----------------------------------------------------------------- */

/* The product of two floats is exact in double, so this rounds twice as the contract says: to float, then to the
 * token type. */
static double scaled(const struct moe_problem *p, int64_t token, int64_t k, int64_t h)
{
    const double grad = grad_at(p, token, h);
    if (!p->probs.present) {
        return grad;
    }
    return ag_elem_round(p->token_elem, (float)(grad * at2(&p->probs, token, k)));
}

static void define_permuted_tokens_grad(const struct moe_problem *p, double *out /* [R', H] */)
{
    for (int64_t i = 0; i < p->out_rows * p->hidden; ++i) {
        out[i] = 0; /* a row that no slot reaches */
    }
    for (int64_t slot = 0; slot < p->slots; ++slot) { /* of several slots with one row the last wins */
        const int64_t row = row_of_slot(p, slot);
        for (int64_t h = 0; row >= 0 && h < p->hidden; ++h) {
            out[row * p->hidden + h] = scaled(p, slot / p->topk, slot % p->topk, h);
        }
    }
}

/* --- the gradient of the probabilities ------------------------------------------------------------------- */

/* With 16 sums in float side by side, each of ceil(H/16) terms, and a tree over them, at most H/16 + 6 roundings lie
 * on the way of a product. Products and sums below the normal range may lose up to 2^-150 each instead. The last
 * term is the rounding to the type of probs. */
static double dot_bound(const struct moe_problem *p, double dot, double sum_of_magnitudes)
{
    const double roundings = (double)p->hidden / 16 + 6;
    return roundings * 0x1p-24 * sum_of_magnitudes + (double)p->hidden * 0x1p-150 +
           ag_elem_half_ulp(p->probs_elem, dot);
}

static void define_probs_grad(const struct moe_problem *p, double *out, double *bound /* both [T, K] */)
{
    for (int64_t slot = 0; slot < p->slots; ++slot) {
        const int64_t row = row_of_slot(p, slot);
        double dot = 0, sum_of_magnitudes = 0;
        for (int64_t h = 0; row >= 0 && h < p->hidden; ++h) {
            const double product = permuted_at(p, row, h) * grad_at(p, slot / p->topk, h);
            dot += product;
            sum_of_magnitudes += fabs(product);
        }
        out[slot] = dot;
        bound[slot] = row < 0 ? 0 : dot_bound(p, dot, sum_of_magnitudes); /* not local: exactly 0 */
    }
}

void moe_ref(const struct moe_problem *problem, const struct moe_reference *reference)
{
    define_permuted_tokens_grad(problem, reference->permuted_tokens_grad);
    if (problem->probs.present) {
        define_probs_grad(problem, reference->probs_grad, reference->probs_grad_bound);
    }
}
