/* Phase 2: the positions, by one thread; then the rows, by all. */
#include "op/moe/moe_permute.h"

#include <string.h>

#include "base/check.h"
#include "op/moe/moe_rows.h"

/* Every row before local_rows has a slot; those behind them become 0. */
static void scatter_probs(const struct moe_permute_problem *p)
{
    const int64_t bytes = (int64_t)ag_dtype_bytes(p->probs.dtype);
    const char *from = ag_view_origin(&p->probs);
    char *to = ag_view_origin(&p->permuted_probs);
    for (int64_t slot = 0; slot < p->slots; ++slot) {
        const int64_t row = moe_position(&p->sorted_indices, slot) - p->window.begin;
        const int64_t at = slot / p->topk * p->probs.strides[0] + slot % p->topk * p->probs.strides[1];
        if (row >= 0 && row < p->local_rows) {
            memcpy(to + row * bytes, from + at * bytes, (size_t)bytes);
        }
    }
    const int64_t rest = p->permuted_probs.dims[0] - p->local_rows;
    if (rest > 0) {
        memset(to + p->local_rows * bytes, 0, (size_t)(rest * bytes));
    }
}

ag_status moe_permute_run(const void *plan, void *workspace)
{
    const struct moe_permute_plan *q = plan;
    const struct moe_permute_problem *p = &q->problem;
    struct ag_arena arena = ag_arena_over(workspace);
    struct moe_permute_workspace scratch;
    struct moe_plan scatter = q->scatter;
    if (p->is_empty) {
        return AG_OK;
    }
    AG_TRY(moe_permute_check_apart(p));
    moe_permute_carve(&arena, q, &scratch);
    moe_permute_sort(p, &scratch.sort);
    if (p->probs.present) {
        scatter_probs(p);
    }
    scatter.problem = moe_permute_scatter(p); /* the tensors may have moved since phase 1 */
    moe_scatter(&scatter, &scratch.scatter);
    return AG_OK;
}
