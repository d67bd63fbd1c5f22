#include "op/moe/moe_permute.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"

struct moe_problem moe_permute_scatter(const struct moe_permute_problem *p)
{
    return (struct moe_problem){
        .unpermuted_tokens_grad = p->tokens,
        .sorted_indices = p->sorted_indices,
        .permuted_tokens_grad = p->permuted_tokens,
        .token_elem = p->token_elem,
        .tokens = p->tokens_count,
        .topk = p->topk,
        .hidden = p->hidden,
        .slots = p->slots,
        .window_begin = p->window.begin,
        .window_end = p->window.end,
        .local_rows = p->local_rows,
        .out_rows = p->permuted_tokens.dims[0],
        .is_empty = p->is_empty,
    };
}

void moe_permute_carve(struct ag_arena *arena, const struct moe_permute_plan *plan,
                       struct moe_permute_workspace *workspace)
{
    const int64_t slots = plan->problem.slots;
    struct moe_sort_scratch *sort = &workspace->sort;
    sort->keys = ag_take(arena, slots, sizeof *sort->keys);
    sort->order = ag_take(arena, slots, sizeof *sort->order);
    sort->next = ag_take(arena, slots, sizeof *sort->next);
    sort->starts = ag_take(arena, MOE_SORT_DIGITS, sizeof *sort->starts);
    moe_carve(arena, &plan->scatter, &workspace->scatter);
}

ag_status moe_permute_make_plan(const struct moe_permute_problem *problem, struct moe_permute_plan *plan)
{
    const struct moe_problem scatter = moe_permute_scatter(problem);
    struct ag_arena arena = ag_arena_measure();
    struct moe_permute_workspace workspace;
    *plan = (struct moe_permute_plan){.problem = *problem};
    AG_TRY(moe_make_plan(&scatter, &plan->scatter));
    if (problem->is_empty) {
        return AG_OK;
    }
    moe_permute_carve(&arena, plan, &workspace);
    plan->workspace_bytes = ag_arena_bytes(&arena);
    AG_REQUIRE(plan->workspace_bytes < UINT64_MAX, TILING,
               "tokens: got hidden size %" PRId64 ", want one whose rows fit a 64-bit workspace", problem->hidden);
    return AG_OK;
}

void moe_permute_describe(const void *plan, char *text, size_t bytes)
{
    const struct moe_permute_plan *q = plan;
    const struct moe_permute_problem *p = &q->problem;
    const struct moe_plan *s = &q->scatter;
    if (p->is_empty) {
        snprintf(text, bytes, "empty=1");
        return;
    }
    snprintf(text, bytes,
             "t=%" PRId64 " k=%" PRId64 " h=%" PRId64 " range=[%" PRId64 ";%" PRId64 "] rows=%" PRId64
             " local_rows=%" PRId64 " dtype=%s indices=%s probs=%s isa=%s lanes=%d batch_slots=%" PRId64
             " streams=%d gathers=%d workspace_bytes=%" PRIu64,
             p->tokens_count, p->topk, p->hidden, p->window.begin, p->window.end, p->permuted_tokens.dims[0],
             p->local_rows, ag_dtype_name(p->tokens.dtype), ag_dtype_name(p->indices.dtype),
             p->probs.present ? ag_dtype_name(p->probs.dtype) : "none", ag_isa_name(s->isa), s->lanes, s->batch_slots,
             s->streams, s->gathers_grad, q->workspace_bytes);
}
