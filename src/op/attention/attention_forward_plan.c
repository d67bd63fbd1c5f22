#include "op/attention/attention_forward_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/integer.h"

/* --- works ----------------------------------------------------------------------------------------------- */

static struct attention_forward_work make_work(const struct attention_problem *problem, int64_t index)
{
    const int64_t query_len = problem->sequences[index].query_len;
    struct attention_forward_work work = {.sequence = index, .rows = ag_smaller(query_len, ATTENTION_FORWARD_ROWS)};
    work.heads = ag_smaller(problem->group, ATTENTION_FORWARD_ROWS / work.rows);
    work.stretches = ag_divide_up(query_len, work.rows);
    work.parts = ag_divide_up(problem->group, work.heads);
    return work;
}

/* Counts the works, and writes them where there is a table. */
static void find_works(struct attention_forward_plan *plan)
{
    const struct attention_problem *problem = &plan->base.problem;
    plan->work_count = plan->base.item_count = plan->item_rows = 0;
    for (int64_t s = 0; s < problem->sequence_count; ++s) {
        if (!attention_has_work(problem, &problem->sequences[s])) {
            continue;
        }
        const struct attention_forward_work work = make_work(problem, s);
        if (plan->works) {
            plan->works[plan->work_count] = work;
        }
        ++plan->work_count;
        plan->base.item_count += work.stretches * work.parts * problem->key_heads;
        plan->item_rows = ag_larger(plan->item_rows, work.rows * work.heads);
    }
}

/* The sequence's keys stand for the cost of an item; equals in order of the pack. */
static int compare_works(const void *left, const void *right)
{
    const struct attention_forward_work *a = left, *b = right;
    if (a->rows * a->heads * a->stretches != b->rows * b->heads * b->stretches) {
        return a->rows * a->heads * a->stretches > b->rows * b->heads * b->stretches ? -1 : 1;
    }
    return a->sequence < b->sequence ? -1 : 1;
}

static void build_works(struct attention_forward_plan *plan)
{
    int64_t items = 0;
    find_works(plan);
    if (plan->work_count > 0) {
        qsort(plan->works, (size_t)plan->work_count, sizeof *plan->works, compare_works);
    }
    for (int64_t w = 0; w < plan->work_count; ++w) {
        plan->works[w].first_item = items;
        items += plan->works[w].stretches * plan->works[w].parts * plan->base.problem.key_heads;
    }
}

/* --- memory ---------------------------------------------------------------------------------------------- */

static void carve_tables(struct ag_arena *arena, struct attention_forward_plan *plan)
{
    struct attention_tables *tables = &plan->base.tables;
    tables->sequences = ag_take(arena, plan->base.problem.sequence_count, sizeof *tables->sequences);
    tables->query_gaps = ag_take(arena, plan->base.query_gap_count, sizeof *tables->query_gaps);
    plan->works = ag_take(arena, plan->work_count, sizeof *plan->works);
}

static void carve_lane(struct ag_arena *arena, const struct attention_forward_plan *plan,
                       struct attention_forward_lane *lane)
{
    const struct attention_plan *base = &plan->base;
    const int64_t block = ATTENTION_FORWARD_BLOCK_ROWS;
    lane->query_rows = attention_take(arena, plan->item_rows, base->query_stride, sizeof *lane->query_rows);
    lane->out = attention_take(arena, plan->item_rows, base->value_cols, sizeof *lane->out);
    lane->max = ag_take(arena, plan->item_rows, sizeof *lane->max);
    lane->sum = ag_take(arena, plan->item_rows, sizeof *lane->sum);
    lane->key_lanes = attention_take(arena, ATTENTION_FORWARD_KEYS, base->query_words, sizeof *lane->key_lanes);
    if (base->has_depth) {
        lane->value_depth = attention_carve_depth(arena, base, ATTENTION_FORWARD_KEYS, base->value_panels);
    } else {
        uint32_t *rows = attention_take(arena, ATTENTION_FORWARD_KEYS, base->value_stride, sizeof *rows);
        lane->value_depth = attention_rows_as_depth(base, rows, base->value_stride);
    }
    lane->score = ag_take(arena, block * ATTENTION_FORWARD_STRIDE, sizeof *lane->score);
    lane->p_rows = NULL;
    if (base->panel == AG_PANEL_BF16) {
        lane->p_rows = ag_take(arena, block * ATTENTION_FORWARD_STRIDE / 2, sizeof *lane->p_rows);
    }
    lane->lane_ranges = ag_take(arena, block, sizeof *lane->lane_ranges);
    lane->hidden = NULL;
    if (base->problem.has_mask_bytes) {
        lane->hidden = ag_take(arena, block * ATTENTION_FORWARD_KEYS, sizeof *lane->hidden);
    }
}

void attention_forward_carve(struct ag_arena *arena, const struct attention_forward_plan *plan,
                             struct attention_forward_workspace *workspace)
{
    const struct attention_problem *problem = &plan->base.problem;
    const int lanes = plan->base.item_count > 0 ? plan->base.lanes : 0;
    workspace->lanes = ag_take(arena, lanes, sizeof *workspace->lanes);
    for (int i = 0; i < lanes; ++i) {
        struct attention_forward_lane unused;
        carve_lane(arena, plan, workspace->lanes ? &workspace->lanes[i] : &unused);
    }
    for (int i = 0; i < FORWARD_OUT_COUNT; ++i) {
        const struct ag_view *output = attention_forward_output(problem, i);
        workspace->staged[i] =
            problem->has_overlap ? ag_take(arena, ag_view_elems(output), ag_dtype_bytes(output->dtype)) : NULL;
    }
}

static ag_status measure(struct attention_forward_plan *plan)
{
    struct ag_arena tables = ag_arena_measure(), lane = ag_arena_measure(), workspace = ag_arena_measure();
    struct attention_forward_workspace unused;
    struct attention_forward_lane unused_lane;
    carve_tables(&tables, plan);
    carve_lane(&lane, plan, &unused_lane);
    attention_forward_carve(&workspace, plan, &unused);
    plan->base.table_bytes = ag_arena_bytes(&tables);
    plan->base.lane_bytes = ag_arena_bytes(&lane);
    plan->base.workspace_bytes = ag_arena_bytes(&workspace);
    AG_REQUIRE(plan->base.workspace_bytes < INT64_MAX, INVALID, "query: the workspace does not fit 64 bits");
    return AG_OK;
}

/* --- the plan -------------------------------------------------------------------------------------------- */

ag_status attention_forward_make_plan(const struct attention_problem *problem, struct attention_forward_plan *plan)
{
    *plan =
        (struct attention_forward_plan){.base = {.problem = *problem, .kernels = ag_kernels_current(), .lanes = 1}};
    if (problem->is_nothing) {
        return AG_OK;
    }
    plan->base.panel = plan->base.kernels->panel_of[problem->elem];
    plan->block_rows = plan->base.panel == AG_PANEL_F32 ? ATTENTION_FORWARD_FLOAT_ROWS : ATTENTION_FORWARD_BLOCK_ROWS;
    attention_set_sizes(&plan->base);
    find_works(plan);
    plan->base.query_gap_count = attention_find_gaps(&plan->base, false, NULL);
    const struct ag_config config = ag_config_get();
    plan->base.lanes =
        (int)ag_larger(1, ag_smaller(ag_config_lanes(&config, attention_work_of(problem)), plan->base.item_count));
    return measure(plan);
}

void attention_forward_adopt_plan(void *adopted, void *memory)
{
    struct attention_forward_plan *plan = adopted;
    struct attention_problem *problem = &plan->base.problem;
    if (problem->is_nothing) {
        return;
    }
    struct ag_arena arena = ag_arena_over(memory);
    carve_tables(&arena, plan);
    if (problem->sequence_count > 0) {
        memcpy(plan->base.tables.sequences, problem->sequences,
               (size_t)problem->sequence_count * sizeof *problem->sequences);
    }
    problem->sequences = plan->base.tables.sequences;
    build_works(plan);
    attention_find_gaps(&plan->base, false, plan->base.tables.query_gaps);
}

void attention_forward_describe_plan(const void *described, char *text, size_t bytes)
{
    const struct attention_forward_plan *plan = described;
    const struct attention_plan *base = &plan->base;
    if (base->problem.is_nothing) {
        snprintf(text, bytes, "nothing-to-do");
        return;
    }
    snprintf(text, bytes,
             "elem=%s panel=%s kernels=%s rows=%d keys=%d sequences=%" PRId64 " items=%" PRId64
             " lanes=%d lanes_because=%s workspace=%" PRIu64 " lane_bytes=%" PRIu64 " statistics=%s slow_because=%s",
             ag_dtype_name(base->problem.query.dtype), base->panel == AG_PANEL_BF16 ? "bf16-pair" : "fp32",
             ag_isa_name(base->kernels->isa), ATTENTION_FORWARD_ROWS, ATTENTION_FORWARD_KEYS, plan->work_count,
             base->item_count, base->lanes, ag_config_lanes_reason(attention_work_of(&base->problem)),
             base->workspace_bytes, base->lane_bytes, attention_layout_name(base->problem.softmax_layout),
             attention_why_not_faster(base));
}
