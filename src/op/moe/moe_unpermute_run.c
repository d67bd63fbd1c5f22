/* Phase 2: work items are batches of tokens in any order; a token's sum and its probs have one owner. */
#include "op/moe/moe_unpermute.h"

#include <string.h>

#include "base/check.h"
#include "base/elem.h"
#include "base/parallel.h"
#include "op/moe/moe_rows.h"

struct unpermute_task {
    const struct moe_unpermute_plan *plan;
    const struct moe_unpermute_problem *problem;
    struct moe_unpermute_workspace scratch;
    int64_t elem_bytes;
};

enum { NOT_HERE = -1 };

/* The row of a slot, or NOT_HERE. Any position is legal. */
static int64_t local_row(const struct moe_unpermute_problem *p, int64_t slot)
{
    const int64_t row = moe_position(&p->sorted_indices, slot) - p->window.begin;
    return row >= 0 && row < p->local_rows ? row : NOT_HERE;
}

/* --- sums of tokens ------------------------------------------------------------------------------------- */

static float weight_of_slot(const struct moe_unpermute_problem *p, int64_t token, int64_t k)
{
    const int64_t at = token * p->probs.strides[0] + k * p->probs.strides[1];
    return p->probs.present ? ag_elem_load(ag_elem_of(p->probs.dtype), ag_view_origin(&p->probs), at) : 1.0f;
}

/* The rows that count, in the order of k: a weight of 0 leaves its row out, whatever stands there. */
static int64_t list_terms(const struct unpermute_task *task, int64_t token, struct ag_moe_term *terms)
{
    const struct moe_unpermute_problem *p = task->problem;
    const char *rows = ag_view_origin(&p->permuted_tokens);
    int64_t count = 0;
    for (int64_t k = 0; k < p->topk; ++k) {
        const int64_t row = local_row(p, token * p->topk + k);
        const float weight = row == NOT_HERE ? 0 : weight_of_slot(p, token, k);
        if (weight != 0) { /* NaN counts */
            terms[count++] = (struct ag_moe_term){
                .row = rows + row * p->permuted_tokens.strides[0] * task->elem_bytes, .weight = weight};
        }
    }
    return count;
}

/* Columns [begin, begin + width) of rows with a stride, copied side by side; dense[c] is the copy of terms[c]. */
static void gather_terms(const struct unpermute_task *task, const struct ag_moe_term *terms, int64_t count,
                         struct ag_range columns, int lane)
{
    const int64_t bytes = task->elem_bytes, stride = task->problem->permuted_tokens.strides[1];
    const int64_t first = lane * task->problem->topk;
    for (int64_t c = 0; c < count; ++c) {
        char *row = task->scratch.gathered + (first + c) * task->plan->columns * bytes;
        moe_gather_row(row, (const char *)terms[c].row + columns.begin * stride * bytes, columns.end - columns.begin,
                       stride, (size_t)bytes);
        task->scratch.dense[first + c] = (struct ag_moe_term){.row = row, .weight = terms[c].weight};
    }
}

static char *output_row(const struct unpermute_task *task, int64_t token)
{
    return (char *)ag_view_origin(&task->problem->tokens) + token * task->problem->hidden * task->elem_bytes;
}

/* Columns are independent: that some are summed at a time does not show in the result. */
static void sum_gathered(const struct unpermute_task *task, const struct ag_moe_sum *sum, int lane)
{
    const struct moe_unpermute_plan *plan = task->plan;
    const int64_t hidden = task->problem->hidden;
    for (int64_t begin = 0; begin < hidden; begin += plan->columns) {
        const int64_t end = begin + plan->columns < hidden ? begin + plan->columns : hidden;
        const struct ag_moe_sum columns = {.terms = task->scratch.dense + lane * task->problem->topk,
                                           .count = sum->count,
                                           .out = (char *)sum->out + begin * task->elem_bytes};
        gather_terms(task, sum->terms, sum->count, (struct ag_range){begin, end}, lane);
        plan->kernels->sum_rows[task->problem->token_elem](&columns, 1, end - begin, plan->streams);
    }
}

static void sum_tokens(const struct unpermute_task *task, struct ag_range tokens, int lane)
{
    const struct moe_unpermute_problem *p = task->problem;
    struct ag_moe_sum sums[MOE_MOST_BATCH_TOKENS];
    struct ag_moe_term *terms = task->scratch.terms + lane * task->plan->batch_tokens * p->topk;
    for (int64_t token = tokens.begin; token < tokens.end; ++token) {
        struct ag_moe_sum *sum = &sums[token - tokens.begin];
        *sum = (struct ag_moe_sum){.terms = terms, .out = output_row(task, token)};
        sum->count = list_terms(task, token, terms);
        terms += sum->count;
        if (task->plan->gathers) {
            sum_gathered(task, sum, lane);
        }
    }
    if (!task->plan->gathers) {
        task->plan->kernels->sum_rows[p->token_elem](sums, tokens.end - tokens.begin, p->hidden, task->plan->streams);
    }
}

/* --- probs of tokens ----------------------------------------------------------------------------------- */

static void gather_probs(const struct moe_unpermute_problem *p, int64_t token)
{
    const size_t bytes = ag_dtype_bytes(p->probs_out.dtype);
    const char *from = ag_view_origin(&p->permuted_probs);
    char *to = (char *)ag_view_origin(&p->probs_out) + token * p->topk * (int64_t)bytes;
    for (int64_t k = 0; k < p->topk; ++k) {
        const int64_t row = local_row(p, token * p->topk + k);
        if (row == NOT_HERE) {
            memset(to + k * (int64_t)bytes, 0, bytes);
        } else {
            memcpy(to + k * (int64_t)bytes, from + row * p->permuted_probs.strides[0] * (int64_t)bytes, bytes);
        }
    }
}

/* --- all of it ------------------------------------------------------------------------------------------- */

static void run_item(void *context, int64_t item, int lane)
{
    const struct unpermute_task *task = context;
    const int64_t begin = item * task->plan->batch_tokens, end = begin + task->plan->batch_tokens;
    const struct ag_range tokens = {begin, end < task->problem->tokens_count ? end : task->problem->tokens_count};
    sum_tokens(task, tokens, lane);
    for (int64_t token = begin; task->problem->permuted_probs.present && token < tokens.end; ++token) {
        gather_probs(task->problem, token);
    }
    task->plan->kernels->fence();
}

static void run(const struct moe_unpermute_plan *plan, void *workspace)
{
    const struct moe_unpermute_problem *p = &plan->problem;
    struct unpermute_task task = {.plan = plan, .problem = p, .elem_bytes = (int64_t)ag_elem_bytes(p->token_elem)};
    struct ag_arena arena = ag_arena_over(workspace);
    moe_unpermute_carve(&arena, plan, &task.scratch);
    ag_parallel_for(plan->lanes, (p->tokens_count + plan->batch_tokens - 1) / plan->batch_tokens, run_item, &task);
}

ag_status moe_unpermute_run(const void *plan, void *workspace)
{
    const struct moe_unpermute_plan *p = plan;
    if (!p->problem.is_empty) {
        AG_TRY(moe_unpermute_check_apart(&p->problem));
        run(p, workspace);
    }
    return AG_OK;
}

ag_status moe_permute_grad_run(const void *plan, void *workspace)
{
    const struct moe_unpermute_plan *p = plan;
    if (!p->problem.is_empty) {
        AG_TRY(moe_permute_grad_check_apart(&p->problem));
        run(p, workspace);
    }
    return AG_OK;
}
