#include "op/moe/moe.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/integer.h"
#include "kernel/kernel.h"

enum {
    /* Outputs above this do not fit a typical share of the last cache: streaming them saves reading what is overwritten,
     * a quarter of all traffic. Below it the next operator finds them in the cache. */
    STREAM_BYTES = 32 << 20,
    GATHERED_BATCH_SLOTS = 8, /* rows that are swept together; more would only be scratch */
};

static bool needs_gathering(const struct ag_view *rows)
{
    return rows->present && rows->strides[1] != 1;
}

static int64_t row_bytes(const struct moe_problem *p)
{
    return p->hidden * (int64_t)ag_elem_bytes(p->token_elem);
}

/* Rows in and out. */
static double work_of(const struct moe_problem *p)
{
    return AG_WORK_PER_BYTE * (double)row_bytes(p) * ((double)p->tokens + 2.0 * (double)p->out_rows);
}

void moe_carve(struct ag_arena *arena, const struct moe_plan *plan, struct moe_workspace *workspace)
{
    const struct moe_problem *p = &plan->problem;
    const size_t row = (size_t)row_bytes(p);
    const int64_t batches = plan->lanes * plan->batch_slots;
    workspace->owner = ag_take(arena, p->local_rows, sizeof *workspace->owner);
    workspace->local_slots = ag_take(arena, p->slots, sizeof *workspace->local_slots);
    workspace->spare_row = ag_take(arena, p->probs.present ? plan->lanes : 0, row);
    workspace->grad_rows = ag_take(arena, plan->gathers_grad ? batches : 0, row);
    workspace->token_rows = ag_take(arena, plan->gathers_tokens ? batches : 0, row);
}

ag_status moe_make_plan(const struct moe_problem *problem, struct moe_plan *plan)
{
    const struct ag_config config = ag_config_get();
    const struct ag_kernels *kernels = ag_kernels_for(config.isa);
    struct ag_arena arena = ag_arena_measure();
    struct moe_workspace workspace;
    *plan = (struct moe_plan){.problem = *problem, .isa = config.isa, .kernels = &kernels->moe, .lanes = 1};
    if (problem->is_empty) {
        return AG_OK;
    }
    plan->gathers_grad = needs_gathering(&problem->unpermuted_tokens_grad);
    plan->gathers_tokens = problem->probs.present && needs_gathering(&problem->permuted_tokens);
    plan->batch_slots = plan->gathers_grad || plan->gathers_tokens ? GATHERED_BATCH_SLOTS : MOE_MOST_BATCH_SLOTS;
    plan->lanes = (int)ag_smaller(ag_config_lanes(&config, work_of(problem)),
                                  (problem->slots + plan->batch_slots - 1) / plan->batch_slots);
    plan->streams = problem->out_rows > STREAM_BYTES / row_bytes(problem);
    plan->streams_products = plan->streams && kernels->moe.streams_products;
    moe_carve(&arena, plan, &workspace);
    plan->workspace_bytes = ag_arena_bytes(&arena);
    AG_REQUIRE(plan->workspace_bytes < UINT64_MAX, TILING,
               "unpermutedTokensGrad: got hidden size %" PRId64 ", want one whose rows fit a 64-bit workspace",
               problem->hidden);
    return AG_OK;
}

void moe_describe(const void *plan, char *text, size_t bytes)
{
    const struct moe_plan *q = plan;
    const struct moe_problem *p = &q->problem;
    if (p->is_empty) {
        snprintf(text, bytes, "empty=1");
        return;
    }
    snprintf(text, bytes,
             "t=%" PRId64 " k=%" PRId64 " h=%" PRId64 " range=[%" PRId64 ";%" PRId64 "] rows=%" PRId64
             " local_rows=%" PRId64 " dtype=%s probs=%s isa=%s lanes=%d lanes_because=%s batch_slots=%" PRId64
             " streams=%d streams_products=%d gathers_grad=%d gathers_tokens=%d workspace_bytes=%" PRIu64,
             p->tokens, p->topk, p->hidden, p->window_begin, p->window_end, p->out_rows, p->local_rows,
             ag_dtype_name(p->unpermuted_tokens_grad.dtype),
             p->probs.present ? ag_dtype_name(p->probs.dtype) : "none", ag_isa_name(q->isa), q->lanes,
             ag_config_lanes_reason(work_of(p)), q->batch_slots, q->streams, q->streams_products, q->gathers_grad,
             q->gathers_tokens, q->workspace_bytes);
}
