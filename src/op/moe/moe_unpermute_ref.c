/* The definition in double, one formula per function; nothing here is shared with moe_unpermute_run.c. */
#include "op/moe/moe_unpermute.h"

#include <math.h>

#include "base/elem.h"

static double at(const struct ag_view *view, int64_t place)
{
    return ag_elem_load(ag_elem_of(view->dtype), ag_view_origin(view), place);
}

/* The row of slot (t, k) on this rank, or -1: start <= idx < end and idx - start < rows available. */
static int64_t row_of_slot(const struct moe_unpermute_problem *p, int64_t token, int64_t k)
{
    const int32_t *indices = ag_view_origin(&p->sorted_indices);
    const int64_t position = indices[(token * p->topk + k) * p->sorted_indices.strides[0]];
    const bool is_local = p->window.begin <= position && position < p->window.end &&
                          position - p->window.begin < p->permuted_tokens.dims[0];
    return is_local ? position - p->window.begin : -1;
}

static double prob_at(const struct moe_unpermute_problem *p, int64_t token, int64_t k)
{
    return p->probs.present ? at(&p->probs, token * p->probs.strides[0] + k * p->probs.strides[1]) : 1;
}

/* Each of at most K products is rounded once and takes part in at most K sums: K + 1 roundings lie on its way. Below the
 * normal range a product may lose 2^-150 instead; sums lose nothing there. One slot without weights loses nothing at all.
 * The last term is the rounding to the token type. */
static double sum_bound(const struct moe_unpermute_problem *p, double sum, double sum_of_magnitudes, int64_t terms)
{
    if (terms <= 1 && !p->probs.present) {
        return 0;
    }
    return (double)(terms + 1) * 0x1p-24 * sum_of_magnitudes + (double)terms * 0x1p-150 +
           ag_elem_half_ulp(p->token_elem, sum);
}

/* tokens[t, h] = sum over local k with a prob of permuted_tokens[row, h] * probs[t, k] */
static void define_token(const struct moe_unpermute_problem *p, int64_t token, int64_t h, double *value,
                         double *bound)
{
    double sum = 0, sum_of_magnitudes = 0;
    int64_t terms = 0;
    for (int64_t k = 0; k < p->topk; ++k) {
        const int64_t row = row_of_slot(p, token, k);
        const double prob = prob_at(p, token, k);
        if (row >= 0 && prob != 0) {
            const double product =
                at(&p->permuted_tokens, row * p->permuted_tokens.strides[0] + h * p->permuted_tokens.strides[1]) *
                prob;
            sum += product;
            sum_of_magnitudes += fabs(product);
            ++terms;
        }
    }
    *value = sum;
    *bound = sum_bound(p, sum, sum_of_magnitudes, terms);
}

void moe_unpermute_ref(const struct moe_unpermute_problem *p, const struct moe_unpermute_reference *reference)
{
    for (int64_t i = 0; i < p->tokens_count * p->hidden; ++i) {
        define_token(p, i / p->hidden, i % p->hidden, &reference->tokens[i], &reference->tokens_bound[i]);
    }
    for (int64_t i = 0; p->permuted_probs.present && i < p->slots; ++i) {
        const int64_t row = row_of_slot(p, i / p->topk, i % p->topk);
        reference->probs_out[i] = row < 0 ? 0 : at(&p->permuted_probs, row * p->permuted_probs.strides[0]);
    }
}
