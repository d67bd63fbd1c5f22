#include "op/attention/attention_run.h"

#include "base/dtype.h"

void *attention_take(struct ag_arena *arena, int64_t rows, int64_t cols, size_t item_bytes)
{
    return cols > 0 ? ag_take(arena, rows, (size_t)cols * item_bytes) : NULL;
}

static int64_t words_of(const struct ag_panel_kernels *panel, int64_t elems)
{
    return (elems + panel->pair - 1) / panel->pair;
}

struct attention_depth attention_rows_as_depth(const struct attention_plan *plan, uint32_t *rows, int64_t row_stride)
{
    return (struct attention_depth){.words = rows,
                                    .word_stride = row_stride,
                                    .panel_stride = plan->kernels->panel[plan->panel].lanes,
                                    .rope = plan->dim_words};
}

struct attention_depth attention_carve_depth(struct ag_arena *arena, const struct attention_plan *plan, int64_t rows,
                                             int64_t panels)
{
    const struct ag_panel_kernels *panel = &plan->kernels->panel[plan->panel];
    struct attention_depth depth = {.word_stride = panel->lanes};
    depth.panel_stride = words_of(panel, rows) * panel->lanes;
    depth.rope = plan->dim_panels * depth.panel_stride;
    depth.words = attention_take(arena, panels, depth.panel_stride, sizeof *depth.words);
    return depth;
}

static void carve_chunk(struct ag_arena *arena, const struct attention_plan *plan, struct attention_lane *lane)
{
    const int64_t chunk = plan->chunk_rows;
    lane->query_rows = attention_take(arena, chunk, plan->query_stride, sizeof *lane->query_rows);
    lane->dy_rows = attention_take(arena, chunk, plan->value_stride, sizeof *lane->dy_rows);
    if (plan->has_depth) {
        lane->query_depth = attention_carve_depth(arena, plan, chunk, plan->dim_panels + plan->rope_panels);
        lane->dy_depth = attention_carve_depth(arena, plan, chunk, plan->value_panels);
    } else {
        lane->query_depth = attention_rows_as_depth(plan, lane->query_rows, plan->query_stride);
        lane->dy_depth = attention_rows_as_depth(plan, lane->dy_rows, plan->value_stride);
    }
    lane->dquery = attention_take(arena, chunk, plan->key_cols, sizeof *lane->dquery);
    lane->max = ag_take(arena, chunk, sizeof *lane->max);
    lane->inverse_sum = ag_take(arena, chunk, sizeof *lane->inverse_sum);
    lane->delta = ag_take(arena, chunk, sizeof *lane->delta);
    lane->columns = ag_take(arena, chunk, sizeof *lane->columns);
}

static void carve_keys(struct ag_arena *arena, const struct attention_plan *plan, struct attention_lane *lane)
{
    lane->key_lanes = attention_take(arena, ATTENTION_TILE, plan->query_words, sizeof *lane->key_lanes);
    lane->value_lanes = attention_take(arena, ATTENTION_TILE, plan->value_words, sizeof *lane->value_lanes);
    if (plan->has_depth) {
        lane->key_depth = attention_carve_depth(arena, plan, ATTENTION_TILE, plan->dim_panels + plan->rope_panels);
    } else {
        uint32_t *rows = attention_take(arena, ATTENTION_TILE, plan->query_stride, sizeof *rows);
        lane->key_depth = attention_rows_as_depth(plan, rows, plan->query_stride);
    }
}

static void carve_scores(struct ag_arena *arena, const struct attention_plan *plan, struct attention_lane *lane)
{
    const int64_t floats = plan->block_rows * plan->block_stride;
    const bool is_f32 = plan->panel == AG_PANEL_F32;
    lane->score_rows = is_f32 ? plan->block_rows : ATTENTION_SCORE_ROWS;
    lane->score_stride = is_f32 ? plan->block_stride : ATTENTION_STRIP + 16;
    lane->score = attention_take(arena, lane->score_rows, lane->score_stride, sizeof *lane->score);
    lane->dprob = attention_take(arena, lane->score_rows, lane->score_stride, sizeof *lane->dprob);
    lane->p_depth = lane->ds_depth = lane->ds_rows = NULL;
    if (!is_f32) {
        lane->p_depth = ag_take(arena, floats / 2, sizeof *lane->p_depth);
        lane->ds_depth = ag_take(arena, floats / 2, sizeof *lane->ds_depth);
        lane->ds_rows = ag_take(arena, floats / 2, sizeof *lane->ds_rows);
    }
    lane->lane_ranges = ag_take(arena, plan->block_rows, sizeof *lane->lane_ranges);
    lane->hidden = NULL;
    if (plan->problem.has_mask_bytes) {
        lane->hidden = ag_take(arena, plan->block_rows * ATTENTION_STRIP, sizeof *lane->hidden);
    }
}

void attention_carve_lane(struct ag_arena *arena, const struct attention_plan *plan, struct attention_lane *lane)
{
    lane->dkey = attention_take(arena, plan->max_key_len, plan->key_cols, sizeof *lane->dkey);
    lane->dvalue = attention_take(arena, plan->max_key_len, plan->value_cols, sizeof *lane->dvalue);
    carve_chunk(arena, plan, lane);
    carve_keys(arena, plan, lane);
    carve_scores(arena, plan, lane);
}

static void carve_staged(struct ag_arena *arena, const struct attention_problem *problem, void *staged[OUT_COUNT])
{
    for (int i = 0; i < OUT_COUNT; ++i) {
        const struct ag_view *output = attention_output(problem, i);
        const bool is_staged = problem->has_overlap && attention_is_wanted(output);
        staged[i] = is_staged ? ag_take(arena, ag_view_elems(output), ag_elem_bytes(problem->elem)) : NULL;
    }
}

void attention_carve(struct ag_arena *arena, const struct attention_plan *plan, struct attention_workspace *workspace)
{
    const int lanes = plan->item_count > 0 ? plan->lanes : 0;
    workspace->lanes = ag_take(arena, lanes, sizeof *workspace->lanes);
    for (int i = 0; i < lanes; ++i) {
        struct attention_lane unused;
        attention_carve_lane(arena, plan, workspace->lanes ? &workspace->lanes[i] : &unused);
    }
    workspace->partial = ag_take(arena, plan->partial_floats, sizeof *workspace->partial);
    workspace->dsink = ag_take(arena, plan->problem.dsink.present ? plan->problem.query_heads : 0, sizeof(float));
    carve_staged(arena, &plan->problem, workspace->staged);
}
