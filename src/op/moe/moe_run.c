/* Phase 2. First, in slot order, every row finds its owner; then work items in any order, each writing rows and
 * gradients of probs that no other item writes:
 *
 *     items [0, slot_items)                        batches of local slots: scale, dot, or copy where there are no probs
 *     items [slot_items, slot_items + row_items)   runs of output rows: those that nobody owns become 0
 */
#include "op/moe/moe.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/elem.h"
#include "base/log.h"
#include "base/parallel.h"
#include "op/moe/moe_rows.h"

enum { NOBODY = -1, ROWS_PER_ITEM = 64 };

struct moe_task {
    const struct moe_plan *plan;
    const struct moe_problem *problem;
    struct moe_workspace scratch;
    int64_t row_bytes;
    int64_t local_count; /* entries of local_slots */
    int64_t owned_rows;
    int64_t slot_items;
};

/* --- who owns which row ---------------------------------------------------------------------------------- */

/* The row of slot i, or NOBODY when it is not on this rank. Any position is legal. */
static int64_t local_row(const struct moe_problem *p, int64_t slot)
{
    const int64_t row = moe_position(&p->sorted_indices, slot) - p->window_begin;
    return row >= 0 && row < p->local_rows ? row : NOBODY;
}

static void assign_rows(struct moe_task *task)
{
    const struct moe_problem *p = task->problem;
    int32_t *owner = task->scratch.owner;
    for (int64_t row = 0; row < p->local_rows; ++row) {
        owner[row] = NOBODY;
    }
    for (int64_t slot = 0; slot < p->slots; ++slot) {
        const int64_t row = local_row(p, slot);
        if (row != NOBODY) {
            task->owned_rows += owner[row] == NOBODY;
            owner[row] = (int32_t)slot; /* of several slots the largest wins */
            task->scratch.local_slots[task->local_count++] = (int32_t)slot;
        }
    }
}

/* ACLGRAD_DEBUG=1: a position that no slot can have, or that two have, is worth a word; a negative one means "not here".
 * The slots have their rows. */
static void report_positions(const struct moe_task *task)
{
    const struct moe_problem *p = task->problem;
    for (int64_t slot = 0; slot < p->slots; ++slot) {
        const int32_t position = moe_position(&p->sorted_indices, slot);
        const int64_t row = local_row(p, slot);
        if (position >= p->slots) {
            ag_report(p->entry,
                      "sortedIndices: first bad position is %" PRId32 " at slot %" PRId64 ", want less than %" PRId64
                      "; skipped",
                      position, slot, p->slots);
            return;
        }
        if (row != NOBODY && task->scratch.owner[row] != slot) {
            ag_report(p->entry,
                      "sortedIndices: slots %" PRId64 " and %" PRId32 " both have position %" PRId32
                      "; the latter's row counts",
                      slot, task->scratch.owner[row], position);
            return;
        }
    }
}

/* --- rows of the inputs ---------------------------------------------------------------------------------- */

/* Row `row` of a [rows, H] input, gathered into `scratch` unless that is NULL. */
static const void *input_row(const struct moe_task *task, const struct ag_view *view, int64_t row, char *scratch)
{
    const size_t elem_bytes = ag_elem_bytes(task->problem->token_elem);
    const char *at = (const char *)ag_view_origin(view) + row * view->strides[0] * (int64_t)elem_bytes;
    if (!scratch) {
        return at;
    }
    moe_gather_row(scratch, at, task->problem->hidden, view->strides[1], elem_bytes);
    return scratch;
}

/* The scratch row for the nth slot of this lane's batch, or NULL where rows are not gathered. */
static char *scratch_row(const struct moe_task *task, char *rows, int lane, int64_t n)
{
    return rows ? rows + (lane * task->plan->batch_slots + n) * task->row_bytes : NULL;
}

static char *output_row(const struct moe_task *task, int64_t row)
{
    return (char *)ag_view_origin(&task->problem->permuted_tokens_grad) + row * task->row_bytes;
}

/* --- work items ------------------------------------------------------------------------------------------ */

/* The gradient row of the nth slot of a batch. The slots of a token are neighbours: they share what was gathered. */
static const void *grad_row(const struct moe_task *task, const int32_t *slots, int64_t n, int lane,
                            const void *previous)
{
    const int64_t topk = task->problem->topk, token = slots[n] / topk;
    if (n > 0 && slots[n - 1] / topk == token) {
        return previous;
    }
    return input_row(task, &task->problem->unpermuted_tokens_grad, token,
                     scratch_row(task, task->scratch.grad_rows, lane, n));
}

static void copy_batch(const struct moe_task *task, const int32_t *slots, int64_t count, int lane)
{
    const void *grad = NULL;
    for (int64_t n = 0; n < count; ++n) {
        const int64_t row = local_row(task->problem, slots[n]);
        grad = grad_row(task, slots, n, lane, grad);
        if (task->scratch.owner[row] == slots[n]) {
            task->plan->kernels->copy_row(output_row(task, row), grad, task->row_bytes, task->plan->streams);
        }
    }
}

static float prob_of_slot(const struct moe_problem *p, int64_t slot)
{
    const int64_t at = slot / p->topk * p->probs.strides[0] + slot % p->topk * p->probs.strides[1];
    return ag_elem_load(p->probs_elem, ag_view_origin(&p->probs), at);
}

static void scale_batch(const struct moe_task *task, const int32_t *slots, int64_t count, int lane)
{
    const struct moe_problem *p = task->problem;
    struct ag_moe_slot batch[MOE_MOST_BATCH_SLOTS];
    const void *grad = NULL;
    for (int64_t n = 0; n < count; ++n) {
        const int64_t row = local_row(p, slots[n]);
        const bool is_owner = task->scratch.owner[row] == slots[n];
        grad = grad_row(task, slots, n, lane, grad);
        batch[n].grad = grad;
        batch[n].tokens =
            input_row(task, &p->permuted_tokens, row, scratch_row(task, task->scratch.token_rows, lane, n));
        batch[n].grad_out = is_owner ? output_row(task, row) : task->scratch.spare_row + lane * task->row_bytes;
        batch[n].prob = prob_of_slot(p, slots[n]);
    }
    task->plan->kernels->scale_dot[p->token_elem](batch, count, p->hidden, task->plan->streams_products);
    for (int64_t n = 0; n < count; ++n) {
        ag_elem_store(p->probs_elem, ag_view_origin(&p->probs_grad), slots[n], batch[n].dot);
    }
}

static void clear_unowned_rows(const struct moe_task *task, struct ag_range rows)
{
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        if (row >= task->problem->local_rows || task->scratch.owner[row] == NOBODY) {
            task->plan->kernels->zero_row(output_row(task, row), task->row_bytes, task->plan->streams);
        }
    }
}

static struct ag_range run_of(int64_t total, int64_t run, int64_t length)
{
    const int64_t begin = run * length, end = begin + length;
    return (struct ag_range){.begin = begin, .end = end < total ? end : total};
}

static void run_item(void *context, int64_t item, int lane)
{
    const struct moe_task *task = context;
    if (item >= task->slot_items) {
        clear_unowned_rows(task, run_of(task->problem->out_rows, item - task->slot_items, ROWS_PER_ITEM));
    } else {
        const struct ag_range batch = run_of(task->local_count, item, task->plan->batch_slots);
        const int32_t *slots = task->scratch.local_slots + batch.begin;
        (task->problem->probs.present ? scale_batch : copy_batch)(task, slots, batch.end - batch.begin, lane);
    }
    task->plan->kernels->fence();
}

/* --- all of it ------------------------------------------------------------------------------------------- */

static int64_t count_runs(int64_t total, int64_t length)
{
    return total / length + (total % length != 0);
}

void moe_scatter(const struct moe_plan *plan, const struct moe_workspace *workspace)
{
    const struct moe_problem *p = &plan->problem;
    struct moe_task task = {.plan = plan, .problem = p, .scratch = *workspace};
    task.row_bytes = p->hidden * (int64_t)ag_elem_bytes(p->token_elem);
    assign_rows(&task);
    if (p->is_debug) {
        report_positions(&task);
    }
    if (p->probs.present) { /* a slot that is not here has the gradient +0 */
        memset(ag_view_origin(&p->probs_grad), 0, (size_t)p->slots * ag_elem_bytes(p->probs_elem));
    }
    task.slot_items = count_runs(task.local_count, plan->batch_slots);
    const int64_t row_items = task.owned_rows < p->out_rows ? count_runs(p->out_rows, ROWS_PER_ITEM) : 0;
    ag_parallel_for(plan->lanes, task.slot_items + row_items, run_item, &task);
}

ag_status moe_run(const void *plan, void *workspace)
{
    const struct moe_problem *p = &((const struct moe_plan *)plan)->problem;
    struct ag_arena arena = ag_arena_over(workspace);
    struct moe_workspace scratch;
    if (p->is_empty) {
        return AG_OK;
    }
    AG_TRY(moe_check_apart(p));
    moe_carve(&arena, plan, &scratch);
    moe_scatter(plan, &scratch);
    return AG_OK;
}
