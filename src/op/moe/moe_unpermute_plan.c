#include "op/moe/moe_unpermute.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/integer.h"
#include "kernel/kernel.h"

enum {
    STREAM_BYTES = 32 << 20, /* as in moe_plan.c: outputs above this leave the caches before they are read again */
    GATHERED_COLUMNS = 512,  /* of a gathered row; a token's rows then stay in the second cache */
};

void moe_unpermute_carve(struct ag_arena *arena, const struct moe_unpermute_plan *plan,
                         struct moe_unpermute_workspace *workspace)
{
    const struct moe_unpermute_problem *p = &plan->problem;
    const int64_t rows = plan->lanes * p->topk;
    const size_t row_bytes = (size_t)plan->columns * ag_elem_bytes(p->token_elem);
    workspace->terms = ag_take(arena, rows * plan->batch_tokens, sizeof *workspace->terms);
    workspace->dense = ag_take(arena, plan->gathers ? rows : 0, sizeof *workspace->dense);
    workspace->gathered = ag_take(arena, plan->gathers ? rows : 0, row_bytes);
}

/* Rows in and out. */
static double work_of(const struct moe_unpermute_problem *p)
{
    const double rows = (double)p->tokens_count + (double)p->local_rows;
    return AG_WORK_PER_BYTE * rows * (double)p->hidden * (double)ag_elem_bytes(p->token_elem);
}

ag_status moe_unpermute_make_plan(const struct moe_unpermute_problem *problem, struct moe_unpermute_plan *plan)
{
    const struct ag_config config = ag_config_get();
    const struct ag_kernels *kernels = ag_kernels_for(config.isa);
    struct ag_arena arena = ag_arena_measure();
    struct moe_unpermute_workspace workspace;
    *plan = (struct moe_unpermute_plan){.problem = *problem, .isa = config.isa, .kernels = &kernels->moe, .lanes = 1};
    if (problem->is_empty) {
        return AG_OK;
    }
    const int64_t row_bytes = problem->hidden * (int64_t)ag_elem_bytes(problem->token_elem);
    plan->gathers = problem->local_rows > 0 && problem->permuted_tokens.strides[1] != 1;
    plan->columns = plan->gathers ? ag_smaller(problem->hidden, GATHERED_COLUMNS) : problem->hidden;
    plan->batch_tokens = (MOE_MOST_BATCH_TOKENS + problem->topk - 1) / problem->topk; /* about so many slots */
    plan->lanes = (int)ag_smaller(ag_config_lanes(&config, work_of(problem)),
                                  (problem->tokens_count + plan->batch_tokens - 1) / plan->batch_tokens);
    plan->streams = problem->tokens_count > STREAM_BYTES / row_bytes;
    moe_unpermute_carve(&arena, plan, &workspace);
    plan->workspace_bytes = ag_arena_bytes(&arena);
    AG_REQUIRE(plan->workspace_bytes < UINT64_MAX, TILING,
               "numTopk: got %" PRId64 ", want one whose rows fit a 64-bit workspace", problem->topk);
    return AG_OK;
}

void moe_unpermute_describe(const void *plan, char *text, size_t bytes)
{
    const struct moe_unpermute_plan *q = plan;
    const struct moe_unpermute_problem *p = &q->problem;
    const struct ag_view *probs =
        p->probs.present ? &p->probs : &p->permuted_probs; /* read, or moved by a gradient */
    if (p->is_empty) {
        snprintf(text, bytes, "empty=1");
        return;
    }
    snprintf(text, bytes,
             "t=%" PRId64 " k=%" PRId64 " h=%" PRId64 " range=[%" PRId64 ";%" PRId64 "] local_rows=%" PRId64
             " dtype=%s probs=%s isa=%s lanes=%d lanes_because=%s batch_tokens=%" PRId64
             " streams=%d gathers=%d columns=%" PRId64 " workspace_bytes=%" PRIu64,
             p->tokens_count, p->topk, p->hidden, p->window.begin, p->window.end, p->local_rows,
             ag_dtype_name(p->tokens.dtype), probs->present ? ag_dtype_name(probs->dtype) : "none",
             ag_isa_name(q->isa), q->lanes, ag_config_lanes_reason(work_of(p)), q->batch_tokens, q->streams,
             q->gathers, q->columns, q->workspace_bytes);
}
