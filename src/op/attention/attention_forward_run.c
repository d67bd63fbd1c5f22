/* An item: rows against the keys they see, tile by tile, each row with its maximum, sum and sum of values so far. */
#include "op/attention/attention_forward_plan.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/integer.h"
#include "base/parallel.h"
#include "op/attention/attention_forward.h"

/* One call of phase 2. */
struct job {
    const struct attention_forward_plan *plan;
    const struct attention_plan *base;
    const struct attention_problem *problem;
    const struct ag_panel_kernels *panel;
    const struct ag_row_kernels *rows;
    struct ag_view outputs[FORWARD_OUT_COUNT]; /* where results go: the caller's tensors, or their stand-ins */
    struct attention_forward_workspace workspace;
};

/* One item in progress. */
struct item {
    const struct job *job;
    const struct attention_sequence *sequence;
    struct attention_forward_lane *lane;
    int64_t key_head, first_head, heads; /* heads: query heads [first_head, first_head + heads) */
    int64_t begin, rows;                 /* rows [begin, begin + rows) of the sequence, of each head */
};

static struct attention_columns common(struct attention_columns a, struct attention_columns b)
{
    const int64_t begin = ag_larger(a.begin, b.begin);
    return (struct attention_columns){begin, ag_larger(begin, ag_smaller(a.end, b.end))};
}

/* --- statistics ------------------------------------------------------------------------------------------ */

/* All lanes of a row of softmaxMax or softmaxSum. */
static void store_statistic(const struct ag_view *view, int64_t row, float value)
{
    float *to = (float *)ag_view_origin(view) + attention_statistics_offset(view, row);
    for (int64_t lane = 0; lane < view->dims[2]; ++lane) {
        to[lane * view->strides[2]] = value;
    }
}

static void store_statistics(const struct job *job, const struct attention_sequence *sequence, int64_t head,
                             int64_t row, float max, float sum)
{
    const int64_t number = attention_statistics_row(job->problem, job->problem->softmax_layout, sequence, head, row);
    store_statistic(&job->outputs[FORWARD_OUT_MAX], number, max);
    store_statistic(&job->outputs[FORWARD_OUT_SUM], number, sum);
}

/* --- packing --------------------------------------------------------------------------------------------- */

static struct ag_matrix item_rows(const struct item *item, const struct ag_view *view, int64_t head)
{
    return attention_head_rows(view, item->sequence->query_begin + item->begin, item->rows, item->first_head + head);
}

static void pack_queries(const struct item *item)
{
    const struct attention_plan *base = item->job->base;
    const struct attention_problem *problem = item->job->problem;
    for (int64_t head = 0; head < item->heads; ++head) {
        uint32_t *to = item->lane->query_rows + head * item->rows * base->query_stride;
        const struct ag_matrix query = item_rows(item, &problem->query, head);
        item->job->panel->pack_rows[problem->elem](to, base->query_stride, &query);
        if (problem->has_rope) {
            const struct ag_matrix rope = item_rows(item, &problem->query_rope, head);
            item->job->panel->pack_rows[problem->elem](to + base->dim_words, base->query_stride, &rope);
        }
    }
}

/* Rows [keys.begin, keys.end) of the item's key head. */
static struct ag_matrix key_rows(const struct item *item, const struct ag_view *view, struct attention_columns keys)
{
    return attention_head_rows(view, item->sequence->key_begin + keys.begin, keys.end - keys.begin, item->key_head);
}

/* Keys by lanes, panel by panel, dim and rope joined along the contraction; values as the operand of sums over keys. */
static void pack_keys(const struct item *item, struct attention_columns keys)
{
    const struct attention_plan *base = item->job->base;
    const struct attention_problem *problem = item->job->problem;
    const struct ag_panel_kernels *panel = item->job->panel;
    const struct attention_depth *depth = &item->lane->value_depth;
    const struct ag_matrix value = key_rows(item, &problem->value, keys);
    uint32_t *to = item->lane->key_lanes;
    for (int64_t at = keys.begin; at < keys.end; at += panel->lanes, to += panel->lanes * base->query_words) {
        const struct attention_columns some = {at, ag_smaller(at + panel->lanes, keys.end)};
        const struct ag_matrix key = key_rows(item, &problem->key, some);
        panel->pack_lanes[problem->elem](to, &key);
        if (problem->has_rope) {
            const struct ag_matrix rope = key_rows(item, &problem->key_rope, some);
            panel->pack_lanes[problem->elem](to + base->dim_words * panel->lanes, &rope);
        }
    }
    if (base->has_depth) {
        panel->pack_depth[problem->elem](depth->words, depth->panel_stride, &value);
    } else {
        panel->pack_rows[problem->elem](depth->words, depth->word_stride, &value);
    }
}

/* --- a block: rows of one head against keys of the tile -------------------------------------------------- */

struct block {
    int64_t head;                  /* counted within the item */
    int64_t row, rows;             /* rows [row, row + rows) of the item */
    struct attention_columns keys; /* of the sequence */
    int64_t key_at;                /* the first of them, counted from the packed tile: a whole panel */
};

/* Row 0 of the block in arrays over the item's rows. */
static int64_t block_row(const struct item *item, const struct block *block)
{
    return block->head * item->rows + block->row;
}

static void multiply_scores(const struct item *item, const struct block *block)
{
    const struct attention_plan *base = item->job->base;
    const struct ag_multiply m = {.a = item->lane->key_lanes + block->key_at * base->query_words,
                                  .a_panel_stride = base->query_words * item->job->panel->lanes,
                                  .b = item->lane->query_rows + block_row(item, block) * base->query_stride,
                                  .b_row_stride = base->query_stride,
                                  .b_word_stride = 1,
                                  .c = item->lane->score,
                                  .c_row_stride = ATTENTION_FORWARD_STRIDE,
                                  .rows = block->rows,
                                  .cols = block->keys.end - block->keys.begin,
                                  .depth = base->query_words};
    item->job->panel->multiply(&m);
}

/* The lanes that each row sees; false when every row sees all, and they fill whole vectors. */
static bool set_lane_ranges(const struct item *item, const struct block *block)
{
    bool has_edge = (block->keys.end - block->keys.begin) % item->job->panel->vector != 0;
    for (int64_t r = 0; r < block->rows; ++r) {
        const struct attention_columns columns =
            attention_visible_columns(item->sequence, item->begin + block->row + r);
        const struct attention_columns seen = common(columns, block->keys);
        item->lane->lane_ranges[r] =
            (struct ag_lane_range){seen.begin - block->keys.begin, seen.end - block->keys.begin};
        has_edge = has_edge || columns.begin > block->keys.begin || columns.end < block->keys.end;
    }
    return has_edge;
}

/* Copies the block's mask bytes; false when none of them hides a column. */
static bool copy_hidden(const struct item *item, const struct block *block)
{
    const int64_t count = block->keys.end - block->keys.begin;
    uint8_t any = 0;
    for (int64_t r = 0; r < block->rows; ++r) {
        uint8_t *hidden = item->lane->hidden + r * ATTENTION_FORWARD_KEYS;
        const struct attention_mask_row mask = attention_mask_row(
            item->job->problem, item->sequence, item->first_head + block->head, item->begin + block->row + r);
        memset(hidden, 1, ATTENTION_FORWARD_KEYS);
        for (int64_t k = 0; k < count; ++k) {
            hidden[k] = mask.bytes[(block->keys.begin + k) * mask.stride];
            any |= hidden[k];
        }
    }
    return any != 0;
}

static void apply_softmax(const struct item *item, const struct block *block)
{
    const struct attention_plan *base = item->job->base;
    const struct attention_forward_lane *lane = item->lane;
    const int64_t row = block_row(item, block);
    struct ag_softmax_block softmax = {
        .score = lane->score,
        .score_stride = ATTENTION_FORWARD_STRIDE,
        .rows = block->rows,
        .lanes = ag_round_up(block->keys.end - block->keys.begin, item->job->panel->vector),
        .scale = item->job->problem->scale,
        .max = lane->max + row,
        .sum = lane->sum + row,
        .out = lane->out + row * base->value_cols,
        .out_stride = base->value_cols,
        .out_cols = base->value_cols,
        .p_rows = lane->p_rows,
        .p_stride = ATTENTION_FORWARD_STRIDE / 2,
    };
    const bool has_hidden = lane->hidden && copy_hidden(item, block);
    if (set_lane_ranges(item, block) || has_hidden) {
        softmax.lane_ranges = lane->lane_ranges;
    }
    if (has_hidden) {
        softmax.hidden = lane->hidden;
        softmax.hidden_stride = ATTENTION_FORWARD_KEYS;
    }
    base->kernels->attention.softmax[base->panel](&softmax);
}

/* out += P V */
static void multiply_values(const struct item *item, const struct block *block)
{
    const struct attention_plan *base = item->job->base;
    const struct ag_panel_kernels *panel = item->job->panel;
    const struct attention_depth *depth = &item->lane->value_depth;
    const int64_t count = block->keys.end - block->keys.begin;
    const struct ag_multiply m = {.a = depth->words + block->key_at / panel->pair * depth->word_stride,
                                  .a_panel_stride = depth->panel_stride,
                                  .a_word_stride = depth->word_stride,
                                  .b = base->panel == AG_PANEL_F32 ? (const uint32_t *)item->lane->score
                                                                   : item->lane->p_rows,
                                  .b_row_stride = ATTENTION_FORWARD_STRIDE / panel->pair,
                                  .b_word_stride = 1,
                                  .c = item->lane->out + block_row(item, block) * base->value_cols,
                                  .c_row_stride = base->value_cols,
                                  .rows = block->rows,
                                  .cols = base->value_cols,
                                  .depth = (count + panel->pair - 1) / panel->pair,
                                  .accumulate = true};
    panel->multiply(&m);
}

/* Rows [row, row + plan->block_rows) of one head against what they see of the tile. */
static void run_block(const struct item *item, int64_t head, int64_t row, struct attention_columns tile)
{
    struct block block = {
        .head = head, .row = row, .rows = ag_smaller(item->job->plan->block_rows, item->rows - row)};
    const int64_t first = item->begin + row;
    block.keys = common(attention_columns_of_rows(item->sequence, first, first + block.rows), tile);
    if (block.keys.begin == block.keys.end) {
        return;
    }
    block.key_at = (block.keys.begin - tile.begin) / item->job->panel->lanes * item->job->panel->lanes;
    block.keys.begin = tile.begin + block.key_at;
    multiply_scores(item, &block);
    apply_softmax(item, &block);
    multiply_values(item, &block);
}

/* --- items ----------------------------------------------------------------------------------------------- */

/* Before the first key a sink is all that a row has seen: one score, of value 0. */
static void start_rows(const struct item *item)
{
    const struct attention_forward_lane *lane = item->lane;
    const struct ag_view *sink = &item->job->problem->sink;
    for (int64_t head = 0; head < item->heads; ++head) {
        const float max = sink->present
                              ? ((const float *)ag_view_origin(sink))[(item->first_head + head) * sink->strides[0]]
                              : -INFINITY;
        for (int64_t r = head * item->rows; r < (head + 1) * item->rows; ++r) {
            lane->max[r] = max;
            lane->sum[r] = max == -INFINITY ? 0.0f : 1.0f;
        }
    }
    memset(lane->out, 0, (size_t)(item->heads * item->rows * item->job->base->value_cols) * sizeof *lane->out);
}

/* A row that has seen nothing has the sum 0: every other has at least the 1 of its largest score, or NaN. */
static void store_row(const struct item *item, int64_t head, int64_t r, struct ag_matrix to)
{
    const struct job *job = item->job;
    const int64_t at = head * item->rows + r;
    const float sum = item->lane->sum[at];
    to.rows = 1;
    to.data = (char *)to.data + r * to.row_stride * (int64_t)ag_elem_bytes(job->problem->elem);
    if (sum == 0.0f) {
        job->rows->zero(&to);
        store_statistics(job, item->sequence, item->first_head + head, item->begin + r, -FLT_MAX, FLT_MAX);
        return;
    }
    job->rows->store(&to, item->lane->out + at * job->base->value_cols, job->base->value_cols, 1.0f / sum);
    store_statistics(job, item->sequence, item->first_head + head, item->begin + r, item->lane->max[at], sum);
}

static struct item make_item(const struct job *job, int64_t index, int lane)
{
    const struct attention_forward_plan *plan = job->plan;
    int64_t low = 0, high = plan->work_count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (plan->works[middle].first_item <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const struct attention_forward_work *work = &plan->works[low];
    const int64_t place = index - work->first_item, per_stretch = work->parts * job->problem->key_heads;
    struct item item = {.job = job,
                        .sequence = &job->problem->sequences[work->sequence],
                        .lane = &job->workspace.lanes[lane],
                        .key_head = place % per_stretch / work->parts,
                        .begin = (work->stretches - 1 - place / per_stretch) * work->rows};
    const int64_t first = place % work->parts * work->heads; /* of the group */
    item.heads = ag_smaller(work->heads, job->problem->group - first);
    item.first_head = item.key_head * job->problem->group + first;
    item.rows = ag_smaller(work->rows, item.sequence->query_len - item.begin);
    return item;
}

static void run_item(void *context, int64_t index, int lane)
{
    const struct job *job = context;
    const struct item item = make_item(job, index, lane);
    const struct attention_columns seen =
        attention_columns_of_rows(item.sequence, item.begin, item.begin + item.rows);
    job->base->kernels->begin_task();
    pack_queries(&item);
    start_rows(&item);
    for (int64_t key = seen.begin; key < seen.end; key += ATTENTION_FORWARD_KEYS) {
        const struct attention_columns tile = {key, ag_smaller(key + ATTENTION_FORWARD_KEYS, seen.end)};
        pack_keys(&item, tile);
        for (int64_t head = 0; head < item.heads; ++head) {
            for (int64_t row = 0; row < item.rows; row += job->plan->block_rows) {
                run_block(&item, head, row, tile);
            }
        }
    }
    job->base->kernels->end_task();
    for (int64_t head = 0; head < item.heads; ++head) {
        const struct ag_matrix to = item_rows(&item, &job->outputs[FORWARD_OUT_ATTENTION], head);
        for (int64_t r = 0; r < item.rows; ++r) {
            store_row(&item, head, r, to);
        }
    }
}

/* --- rows that no work covers, staged outputs ------------------------------------------------------------ */

/* Rows of no sequence, or of one without keys: zeros. Their statistics fill the same places in every order. */
static void zero_gap(void *context, int64_t block, int lane)
{
    const struct job *job = context;
    const struct attention_columns rows =
        attention_gap_rows(job->base->tables.query_gaps, job->base->query_gap_count, block);
    const struct attention_sequence stretch = {.query_begin = rows.begin, .query_len = rows.end - rows.begin};
    for (int64_t head = 0; head < job->problem->query_heads; ++head) {
        const struct ag_matrix to =
            attention_head_rows(&job->outputs[FORWARD_OUT_ATTENTION], rows.begin, stretch.query_len, head);
        job->rows->zero(&to);
        for (int64_t row = 0; row < stretch.query_len; ++row) {
            store_statistics(job, &stretch, head, row, 0.0f, 0.0f);
        }
    }
    (void)lane;
}

/* ATTENTION_STRIP rows, or heads, of one output: its first dim. */
static void copy_staged(void *context, int64_t index, int lane)
{
    const struct job *job = context;
    const struct ag_view *from = &job->outputs[index % FORWARD_OUT_COUNT];
    const struct ag_view *to = attention_forward_output(job->problem, (int)(index % FORWARD_OUT_COUNT));
    const int64_t begin = index / FORWARD_OUT_COUNT * ATTENTION_STRIP;
    const int64_t rows = ag_smaller(ATTENTION_STRIP, to->dims[0] - begin);
    for (int64_t head = 0; head < to->dims[1] && rows > 0; ++head) {
        const struct ag_matrix target = attention_head_rows(to, begin, rows, head);
        const struct ag_matrix source = attention_head_rows(from, begin, rows, head);
        attention_copy_matrix(&target, &source, ag_dtype_bytes(to->dtype));
    }
    (void)lane;
}

/* --- phase 2 --------------------------------------------------------------------------------------------- */

static void set_up(struct job *job, const struct attention_forward_plan *plan, void *memory)
{
    struct ag_arena arena = ag_arena_over(memory);
    *job = (struct job){.plan = plan,
                        .base = &plan->base,
                        .problem = &plan->base.problem,
                        .panel = &plan->base.kernels->panel[plan->base.panel],
                        .rows = &plan->base.kernels->rows[plan->base.problem.elem]};
    if (memory) {
        attention_forward_carve(&arena, plan, &job->workspace);
    }
    for (int i = 0; i < FORWARD_OUT_COUNT; ++i) {
        const struct ag_view *output = attention_forward_output(job->problem, i);
        job->outputs[i] = job->workspace.staged[i] ? attention_stand_in(output, job->workspace.staged[i]) : *output;
    }
}

/* As in the gradient: products read whole vectors of value rows. */
static void clear_padding(const struct job *job)
{
    const struct attention_forward_lane *lanes = job->workspace.lanes;
    for (int i = 0; lanes && job->base->has_padding && i < job->base->lanes; ++i) {
        memset(lanes[i].value_depth.words, 0,
               ATTENTION_FORWARD_KEYS * (size_t)job->base->value_stride * sizeof(uint32_t));
    }
}

ag_status attention_forward_run_plan(const void *planned, void *memory)
{
    const struct attention_forward_plan *plan = planned;
    const struct attention_plan *base = &plan->base;
    const struct attention_problem *problem = &base->problem;
    struct job job;
    if (problem->is_nothing) {
        return AG_OK;
    }
    AG_REQUIRE(problem->has_overlap || !attention_forward_outputs_overlap_inputs(problem), RUNTIME,
               "an output shares memory with an input now, but not when the workspace was measured");
    AG_TRY(attention_forward_check_outputs(problem));
    set_up(&job, plan, memory);
    if (base->item_count > 0) {
        clear_padding(&job);
        ag_parallel_for(base->lanes, base->item_count, run_item, &job);
    }
    ag_parallel_for(base->lanes, attention_gap_blocks(base->tables.query_gaps, base->query_gap_count), zero_gap,
                    &job);
    if (problem->has_overlap) {
        const int64_t rows = ag_larger(problem->query_rows, problem->query_heads); /* statistics may be [N1, T1, 8] */
        ag_parallel_for(base->lanes, ag_round_up(rows, ATTENTION_STRIP) / ATTENTION_STRIP * FORWARD_OUT_COUNT,
                        copy_staged, &job);
    }
    ag_arena_close(memory, memory ? base->workspace_bytes : 0);
    return AG_OK;
}
