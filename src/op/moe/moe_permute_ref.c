/* The definition, one formula per function; nothing here is shared with moe_permute_run.c and moe_permute_sort.c. */
#include "op/moe/moe_permute.h"

#include <stdlib.h>

#include "base/elem.h"

static double float_at(const struct ag_view *view, int64_t place)
{
    return ag_elem_load(ag_elem_of(view->dtype), ag_view_origin(view), place);
}

static int64_t expert_at(const struct ag_view *indices, int64_t token, int64_t k)
{
    const int64_t place = indices->strides[0] * token + (k > 0 ? indices->strides[1] * k : 0);
    const void *data = ag_view_origin(indices);
    return indices->dtype == AG_INT32 ? ((const int32_t *)data)[place] : ((const int64_t *)data)[place];
}

/* --- positions ------------------------------------------------------------------------------------------- */

struct slot_of_expert {
    int64_t expert, slot;
};

static int by_expert_then_slot(const void *left, const void *right)
{
    const struct slot_of_expert *a = left, *b = right;
    if (a->expert != b->expert) {
        return a->expert < b->expert ? -1 : 1;
    }
    return a->slot < b->slot ? -1 : a->slot > b->slot;
}

/* sorted_indices[i] = how many slots come before slot i: those of smaller experts, and of the same one earlier. */
static void define_positions(const struct moe_permute_problem *p, double *positions /* [N] */)
{
    struct slot_of_expert *order = malloc((size_t)p->slots * sizeof *order);
    for (int64_t i = 0; order && i < p->slots; ++i) {
        order[i] = (struct slot_of_expert){.expert = expert_at(&p->indices, i / p->topk, i % p->topk), .slot = i};
    }
    if (order) {
        qsort(order, (size_t)p->slots, sizeof *order, by_expert_then_slot);
    }
    for (int64_t position = 0; position < p->slots; ++position) {
        positions[order ? order[position].slot : position] = order ? (double)position : -1; /* no memory: no answer */
    }
    free(order);
}

/* --- rows ------------------------------------------------------------------------------------------------ */

static void define_row(const struct moe_permute_problem *p, int64_t slot, int64_t row,
                       const struct moe_permute_reference *reference)
{
    const int64_t token = slot / p->topk, k = slot % p->topk;
    for (int64_t h = 0; h < p->hidden; ++h) {
        reference->permuted_tokens[row * p->hidden + h] =
            float_at(&p->tokens, token * p->tokens.strides[0] + h * p->tokens.strides[1]);
    }
    if (p->probs.present) {
        reference->permuted_probs[row] = float_at(&p->probs, token * p->probs.strides[0] + k * p->probs.strides[1]);
    }
}

void moe_permute_ref(const struct moe_permute_problem *p, const struct moe_permute_reference *reference)
{
    define_positions(p, reference->sorted_indices);
    for (int64_t i = 0; i < p->permuted_tokens.dims[0] * p->hidden; ++i) {
        reference->permuted_tokens[i] = 0; /* a row that no slot reaches */
    }
    for (int64_t row = 0; p->probs.present && row < p->permuted_probs.dims[0]; ++row) {
        reference->permuted_probs[row] = 0;
    }
    for (int64_t slot = 0; slot < p->slots; ++slot) {
        const int64_t row = (int64_t)reference->sorted_indices[slot] - p->window.begin;
        if (row >= 0 && row < p->local_rows) {
            define_row(p, slot, row, reference);
        }
    }
}
