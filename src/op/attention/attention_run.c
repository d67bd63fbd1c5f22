#include "op/attention/attention_run.h"

#include <string.h>

#include "base/check.h"
#include "base/integer.h"
#include "base/log.h"
#include "base/parallel.h"

/* --- views ---------------------------------------------------------------------------------------------- */

struct ag_matrix attention_head_rows(const struct ag_view *view, int64_t begin, int64_t rows, int64_t head)
{
    const int64_t elem = begin * view->strides[0] + head * view->strides[1];
    return (struct ag_matrix){.data = (char *)ag_view_origin(view) + elem * (int64_t)ag_dtype_bytes(view->dtype),
                              .rows = rows,
                              .cols = view->dims[2],
                              .row_stride = view->strides[0],
                              .col_stride = view->strides[2]};
}

/* --- the sums of keys, once they are complete ----------------------------------------------------------- */

/* Rows [begin, begin + rows) of the sequence's keys; dkey and dvalue point to the first of them. */
static void store_keys(const struct attention_item *item, int64_t begin, int64_t rows, const float *dkey,
                       const float *dvalue)
{
    const struct attention_job *job = item->job;
    const struct attention_plan *plan = job->plan;
    const int64_t first = item->sequence->key_begin + begin;
    const struct ag_matrix dk = attention_head_rows(&job->outputs[OUT_DK], first, rows, item->key_head);
    const struct ag_matrix dv = attention_head_rows(&job->outputs[OUT_DV], first, rows, item->key_head);
    job->rows->store(&dk, dkey, plan->key_cols, job->problem->scale);
    job->rows->store(&dv, dvalue, plan->value_cols, 1.0f);
    if (attention_is_wanted(&job->outputs[OUT_DK_ROPE])) {
        const struct ag_matrix rope = attention_head_rows(&job->outputs[OUT_DK_ROPE], first, rows, item->key_head);
        job->rows->store(&rope, dkey + plan->dim_cols, plan->key_cols, job->problem->scale);
    }
}

/* --- items ---------------------------------------------------------------------------------------------- */

/* The work that an item, or a block of a reduction, belongs to. */
static const struct attention_work *find_work(const struct attention_job *job, int64_t index, bool is_block)
{
    int64_t low = job->wave->work_begin, high = job->wave->work_end;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        const struct attention_work *work = &job->plan->tables.works[middle];
        if ((is_block ? work->first_block : work->first_item) <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &job->plan->tables.works[low];
}

/* Where split `split` of a key head sums: [key_len][key_cols], and behind it [key_len][value_cols]. */
static float *partial_sums(const struct attention_job *job, const struct attention_work *work, int64_t key_head,
                           int64_t split)
{
    const struct attention_plan *plan = job->plan;
    const int64_t key_len = plan->problem.sequences[work->sequence].key_len;
    const int64_t part = key_head * work->splits + split;
    return job->workspace.partial + work->first_partial + part * key_len * (plan->key_cols + plan->value_cols);
}

/* The keys that a split's positions may see, in whole strips: only there it has sums. */
static struct attention_columns split_keys(const struct attention_plan *plan, const struct attention_work *work,
                                           int64_t split)
{
    const struct attention_sequence *sequence = &plan->problem.sequences[work->sequence];
    const struct attention_columns positions = attention_split_positions(plan, work, split);
    const int64_t row_tiles = attention_row_tiles(sequence), row_tile = positions.begin % row_tiles;
    struct attention_columns rows = {0, sequence->query_len}; /* of more than one head */
    if (positions.begin >= positions.end) {
        return (struct attention_columns){0, 0};
    }
    if (positions.end - positions.begin <= row_tiles - row_tile) {
        rows.begin = row_tile * ATTENTION_TILE;
        rows.end = ag_smaller(rows.begin + (positions.end - positions.begin) * ATTENTION_TILE, sequence->query_len);
    }
    struct attention_columns keys = attention_columns_of_rows(sequence, rows.begin, rows.end);
    keys.begin -= keys.begin % ATTENTION_STRIP;
    keys.end = ag_smaller(ag_round_up(keys.end, ATTENTION_STRIP), sequence->key_len);
    return keys;
}

/* The positions of a split, head by head and chunk by chunk. */
static void walk(const struct attention_item *item, struct attention_columns positions)
{
    const int64_t row_tiles = attention_row_tiles(item->sequence);
    const int64_t first_head = item->key_head * item->job->problem->group;
    for (int64_t position = positions.begin; position < positions.end;) {
        const int64_t head = position / row_tiles, begin = position % row_tiles * ATTENTION_TILE;
        const int64_t past_head = (head + 1) * row_tiles;
        const int64_t stop = positions.end < past_head ? positions.end : past_head;
        int64_t tiles = stop - position;
        if (tiles > ATTENTION_CHUNK / ATTENTION_TILE) {
            tiles = ATTENTION_CHUNK / ATTENTION_TILE;
        }
        const int64_t end = begin + tiles * ATTENTION_TILE, query_len = item->sequence->query_len;
        attention_run_chunk(item, first_head + head, begin, end < query_len ? end : query_len);
        position += tiles;
    }
}

static void clear_sums(const struct attention_plan *plan, float *dkey, float *dvalue, struct attention_columns keys)
{
    const int64_t count = keys.end - keys.begin;
    memset(dkey + keys.begin * plan->key_cols, 0, (size_t)(count * plan->key_cols) * sizeof *dkey);
    memset(dvalue + keys.begin * plan->value_cols, 0, (size_t)(count * plan->value_cols) * sizeof *dvalue);
}

static void run_item(void *context, int64_t index, int lane)
{
    const struct attention_job *job = context;
    const struct attention_plan *plan = job->plan;
    const struct attention_work *work = find_work(job, index, false);
    const int64_t split = (index - work->first_item) % work->splits;
    struct attention_item item = {.job = job,
                                  .sequence = &plan->problem.sequences[work->sequence],
                                  .key_head = (index - work->first_item) / work->splits,
                                  .lane = &job->workspace.lanes[lane]};
    const int64_t key_len = item.sequence->key_len;
    struct attention_columns keys = {0, key_len};
    item.dkey = item.lane->dkey;
    item.dvalue = item.lane->dvalue;
    if (work->splits > 1) {
        item.dkey = partial_sums(job, work, item.key_head, split);
        item.dvalue = item.dkey + key_len * plan->key_cols;
        keys = split_keys(plan, work, split);
    }
    plan->kernels->begin_task();
    clear_sums(plan, item.dkey, item.dvalue, keys);
    walk(&item, attention_split_positions(plan, work, split));
    plan->kernels->end_task();
    if (work->splits == 1) {
        store_keys(&item, 0, key_len, item.dkey, item.dvalue);
    }
}

/* --- reduction of splits -------------------------------------------------------------------------------- */

static void add_floats(float *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        to[i] += from[i];
    }
}

static bool holds(struct attention_columns keys, int64_t key)
{
    return keys.begin <= key && key < keys.end;
}

/* ATTENTION_STRIP keys of one key head: the first split's sums take those of the others that see one, in order. */
static void reduce_block(void *context, int64_t index, int lane)
{
    const struct attention_job *job = context;
    const struct attention_plan *plan = job->plan;
    const struct attention_work *work = find_work(job, index, true);
    const struct attention_sequence *sequence = &plan->problem.sequences[work->sequence];
    const int64_t blocks = (sequence->key_len + ATTENTION_STRIP - 1) / ATTENTION_STRIP;
    const struct attention_item item = {
        .job = job, .sequence = sequence, .key_head = (index - work->first_block) / blocks};
    const int64_t begin = (index - work->first_block) % blocks * ATTENTION_STRIP;
    const int64_t left = sequence->key_len - begin, rows = left < ATTENTION_STRIP ? left : ATTENTION_STRIP;
    const int64_t dkey = begin * plan->key_cols;
    const int64_t dvalue = sequence->key_len * plan->key_cols + begin * plan->value_cols;
    float *sums = partial_sums(job, work, item.key_head, 0);
    if (!holds(split_keys(plan, work, 0), begin)) {
        clear_sums(plan, sums, sums + sequence->key_len * plan->key_cols,
                   (struct attention_columns){begin, begin + rows});
    }
    for (int64_t split = 1; split < work->splits; ++split) {
        if (holds(split_keys(plan, work, split), begin)) {
            const float *others = partial_sums(job, work, item.key_head, split);
            add_floats(sums + dkey, others + dkey, rows * plan->key_cols);
            add_floats(sums + dvalue, others + dvalue, rows * plan->value_cols);
        }
    }
    store_keys(&item, begin, rows, sums + dkey, sums + dvalue);
    (void)lane;
}

/* --- rows that no work covers --------------------------------------------------------------------------- */

int64_t attention_gap_blocks(const struct attention_gap *gaps, int64_t count)
{
    return count == 0 ? 0
                      : gaps[count - 1].first_block + (gaps[count - 1].rows + ATTENTION_STRIP - 1) / ATTENTION_STRIP;
}

struct attention_columns attention_gap_rows(const struct attention_gap *gaps, int64_t count, int64_t block)
{
    int64_t low = 0, high = count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (gaps[middle].first_block <= block) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const int64_t begin = gaps[low].begin + (block - gaps[low].first_block) * ATTENTION_STRIP;
    const int64_t end = gaps[low].begin + gaps[low].rows;
    return (struct attention_columns){begin, begin + ATTENTION_STRIP < end ? begin + ATTENTION_STRIP : end};
}

static void zero_rows(const struct attention_job *job, int output, struct attention_columns rows)
{
    const struct ag_view *view = &job->outputs[output];
    if (!attention_is_wanted(view)) {
        return;
    }
    for (int64_t head = 0; head < view->dims[1]; ++head) {
        const struct ag_matrix to = attention_head_rows(view, rows.begin, rows.end - rows.begin, head);
        job->rows->zero(&to);
    }
}

static void zero_query_gap(void *context, int64_t block, int lane)
{
    const struct attention_job *job = context;
    const struct attention_plan *plan = job->plan;
    const struct attention_columns rows = attention_gap_rows(plan->tables.query_gaps, plan->query_gap_count, block);
    zero_rows(job, OUT_DQ, rows);
    zero_rows(job, OUT_DQ_ROPE, rows);
    (void)lane;
}

static void zero_key_gap(void *context, int64_t block, int lane)
{
    const struct attention_job *job = context;
    const struct attention_plan *plan = job->plan;
    const struct attention_columns rows = attention_gap_rows(plan->tables.key_gaps, plan->key_gap_count, block);
    zero_rows(job, OUT_DK, rows);
    zero_rows(job, OUT_DK_ROPE, rows);
    zero_rows(job, OUT_DV, rows);
    (void)lane;
}

/* --- staged outputs ------------------------------------------------------------------------------------- */

struct ag_view attention_stand_in(const struct ag_view *view, void *memory)
{
    struct ag_view dense = *view;
    dense.data = memory;
    dense.offset = 0;
    dense.strides[2] = 1;
    dense.strides[1] = dense.dims[2];
    dense.strides[0] = dense.dims[1] * dense.dims[2];
    return dense;
}

void attention_copy_matrix(const struct ag_matrix *to, const struct ag_matrix *from, size_t elem_bytes)
{
    for (int64_t r = 0; r < to->rows; ++r) {
        char *target = (char *)to->data + r * to->row_stride * (int64_t)elem_bytes;
        const char *source = (const char *)from->data + r * from->row_stride * (int64_t)elem_bytes;
        if (to->col_stride == 1) {
            memcpy(target, source, (size_t)to->cols * elem_bytes);
            continue;
        }
        for (int64_t c = 0; c < to->cols; ++c) {
            memcpy(target + c * to->col_stride * (int64_t)elem_bytes, source + c * (int64_t)elem_bytes, elem_bytes);
        }
    }
}

/* ATTENTION_STRIP rows of one output. */
static void copy_staged(void *context, int64_t index, int lane)
{
    const struct attention_job *job = context;
    const struct ag_view *from = &job->outputs[index % OUT_COUNT];
    const struct ag_view *to = attention_output(job->problem, (int)(index % OUT_COUNT));
    const int64_t begin = index / OUT_COUNT * ATTENTION_STRIP;
    if (attention_is_wanted(to) && begin < to->dims[0]) {
        const int64_t left = to->dims[0] - begin, rows = left < ATTENTION_STRIP ? left : ATTENTION_STRIP;
        for (int64_t head = 0; head < to->dims[1]; ++head) {
            const struct ag_matrix target = attention_head_rows(to, begin, rows, head);
            const struct ag_matrix source = attention_head_rows(from, begin, rows, head);
            attention_copy_matrix(&target, &source, ag_elem_bytes(job->problem->elem));
        }
    }
    (void)lane;
}

/* --- phase 2 -------------------------------------------------------------------------------------------- */

static void set_up(struct attention_job *job, const struct attention_plan *plan, void *memory)
{
    struct ag_arena arena = ag_arena_over(memory);
    *job = (struct attention_job){.plan = plan,
                                  .problem = &plan->problem,
                                  .panel = &plan->kernels->panel[plan->panel],
                                  .rows = &plan->kernels->rows[plan->problem.elem]};
    if (memory) {
        attention_carve(&arena, plan, &job->workspace);
    }
    for (int i = 0; i < OUT_COUNT; ++i) {
        const struct ag_view *output = attention_output(job->problem, i);
        job->outputs[i] = job->workspace.staged[i] ? attention_stand_in(output, job->workspace.staged[i]) : *output;
    }
}

/* Products read whole vectors, so also the words between a row's end and the next vector: there they may find anything that
 * is a number, since no result comes of it, but subnormal numbers and NaN would cost time or worry a checker. */
static void clear_padding(struct attention_job *job)
{
    const struct attention_plan *plan = job->plan;
    for (int i = 0; i < plan->lanes && plan->has_padding; ++i) {
        const struct attention_lane *lane = &job->workspace.lanes[i];
        const size_t query_bytes = (size_t)plan->query_stride * sizeof(uint32_t);
        memset(lane->query_rows, 0, (size_t)plan->chunk_rows * query_bytes);
        memset(lane->dy_rows, 0, (size_t)(plan->chunk_rows * plan->value_stride) * sizeof(uint32_t));
        memset(lane->key_depth.words, 0, ATTENTION_TILE * query_bytes);
    }
}

static void run_waves(struct attention_job *job)
{
    const struct attention_plan *plan = job->plan;
    for (int64_t w = 0; w < plan->wave_count; ++w) {
        job->wave = &plan->tables.waves[w];
        ag_parallel_for(plan->lanes, job->wave->items, run_item, job);
        ag_parallel_for(plan->lanes, job->wave->blocks, reduce_block, job);
    }
}

static void zero_gaps(struct attention_job *job)
{
    const struct attention_plan *plan = job->plan;
    ag_parallel_for(plan->lanes, attention_gap_blocks(plan->tables.query_gaps, plan->query_gap_count), zero_query_gap,
                    job);
    ag_parallel_for(plan->lanes, attention_gap_blocks(plan->tables.key_gaps, plan->key_gap_count), zero_key_gap, job);
}

ag_status attention_run_plan(const void *planned, void *memory)
{
    const struct attention_plan *plan = planned;
    const struct attention_problem *problem = &plan->problem;
    struct attention_job job;
    if (problem->is_nothing) {
        return AG_OK;
    }
    AG_REQUIRE(problem->has_overlap || !attention_outputs_overlap_inputs(problem), RUNTIME,
               "an output shares memory with an input now, but not when the workspace was measured");
    AG_TRY(attention_check_outputs(problem));
    set_up(&job, plan, memory);
    job.layout = AG_SOFTMAX_CANN;
    if (plan->item_count > 0) {
        job.layout = attention_choose_layout(problem);
        ag_verbose(AG_VERBOSE_PLAN, problem->entry, "statistics=%s", attention_layout_name(job.layout));
        clear_padding(&job);
        run_waves(&job);
    }
    attention_run_sink(&job);
    zero_gaps(&job);
    if (problem->has_overlap) {
        const int64_t rows = problem->query_rows > problem->key_rows ? problem->query_rows : problem->key_rows;
        const int64_t blocks = (rows + ATTENTION_STRIP - 1) / ATTENTION_STRIP;
        ag_parallel_for(plan->lanes, blocks * OUT_COUNT, copy_staged, &job);
    }
    attention_store_sink(&job);
    ag_arena_close(memory, memory ? plan->workspace_bytes : 0);
    return AG_OK;
}
