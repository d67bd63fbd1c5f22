/* Executes a plan. One wave of sequences after the other:
 *
 *     pack the keys into panels                                    parallel over chunks of keys
 *     for each batch of rows:
 *         scores of groups of rows with chunks of keys             parallel over both
 *         the best of each row                                     parallel over rows
 *
 * A score is summed over D, then over heads in ascending order, whatever stands beside it. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/elem.h"
#include "base/parallel.h"
#include "op/indexer/indexer_forward.h"

/* Keys of one item of scoring. */
enum { ITEM_KEYS = 1024 };

struct run {
    const struct indexer_forward_plan *plan;
    const struct ag_panel_kernels *panel;
    struct indexer_tokens tokens;
    struct indexer_forward_workspace ws;
    int64_t wave_first, wave_end; /* sequences of the wave */
    int64_t wave_key;             /* its first key */
    int64_t groups, items;        /* of the batch at hand */
};

/* The last of the ascending `count` firsts that is not above item. */
static int64_t find_last(int64_t (*first_of)(const struct run *run, int64_t i), const struct run *run, int64_t count,
                         int64_t item)
{
    int64_t low = 0, high = count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (first_of(run, middle) <= item) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* --- keys --------------------------------------------------------------------------------------------------- */

/* Units of a wave, each of `size` keys, before those of its i-th sequence: no sequence shares a unit with another. */
static int64_t units_before(const struct run *run, const struct indexer_sequence *sequence, int64_t i, int64_t size)
{
    return (sequence->key_begin - run->wave_key) / size + i;
}

static int64_t first_chunk(const struct run *run, int64_t i)
{
    const struct indexer_sequence sequence = indexer_tokens_sequence(&run->tokens, run->wave_first + i);
    return units_before(run, &sequence, i, INDEXER_PACK_KEYS);
}

static uint32_t *panel_at(const struct run *run, int64_t panel)
{
    return run->ws.panels + panel * run->plan->depth * run->panel->lanes;
}

static void pack_keys(void *context, int64_t item, int lane)
{
    const struct run *run = context;
    const struct indexer_forward_problem *p = &run->plan->problem;
    const int64_t i = find_last(first_chunk, run, run->wave_end - run->wave_first, item);
    const struct indexer_sequence sequence = indexer_tokens_sequence(&run->tokens, run->wave_first + i);
    const int64_t begin = (item - first_chunk(run, i)) * INDEXER_PACK_KEYS, left = sequence.live_keys - begin;
    const int64_t count = left < INDEXER_PACK_KEYS ? left : INDEXER_PACK_KEYS;
    if (count <= 0) {
        return;
    }
    struct ag_matrix keys = {.data = run->ws.lanes[lane].keys, .rows = count, .cols = p->dim, .row_stride = p->dim};
    keys.col_stride = 1;
    if (p->is_paged) {
        indexer_forward_gather_keys(p, keys.data, run->wave_first + i, &sequence, begin, count);
    } else {
        keys = indexer_some_keys(&p->key, sequence.key_begin + begin, count);
    }
    const int64_t panel = units_before(run, &sequence, i, run->panel->lanes) + begin / run->panel->lanes;
    run->panel->pack_lanes[p->elem](panel_at(run, panel), &keys);
}

static void pack_wave(struct run *run)
{
    const int64_t sequences = run->wave_end - run->wave_first;
    const struct indexer_sequence last = indexer_tokens_sequence(&run->tokens, run->wave_end - 1);
    const int64_t keys = last.key_begin + last.keys - run->wave_key;
    ag_parallel_for(run->plan->threads, keys / INDEXER_PACK_KEYS + sequences, pack_keys, run);
}

/* --- scores ------------------------------------------------------------------------------------------------- */

static int64_t limit_of(const struct indexer_forward_group *group, int64_t i)
{
    const int64_t limit = group->visible + i * group->step;
    return limit < 0 ? 0 : limit < group->keys ? limit : group->keys;
}

/* What the group's last row sees, which is the most. */
static int64_t group_limit(const struct indexer_forward_group *group)
{
    return limit_of(group, group->rows - 1);
}

static int64_t first_item(const struct run *run, int64_t group)
{
    return run->ws.groups[group].first_item;
}

static void load_group(const struct run *run, const struct indexer_forward_group *group,
                       const struct indexer_forward_lane *lane)
{
    const struct indexer_forward_problem *p = &run->plan->problem;
    const int64_t head_words = run->plan->head_words;
    for (int64_t i = 0; i < group->rows; ++i) {
        const struct ag_matrix query = indexer_heads_of_row(&p->query, group->row + i);
        const struct ag_matrix weights = indexer_last_of_row(&p->weights, group->row + i);
        run->panel->pack_rows[p->elem](lane->query + i * p->heads * head_words, head_words, &query);
        run->plan->kernels->rows[p->weights_elem].load(lane->weights + i * p->heads, p->heads, &weights);
    }
}

/* Keys [begin, begin + count), begin on a panel, against all heads of the group. */
static void score_step(const struct run *run, const struct indexer_forward_group *group,
                       const struct indexer_forward_lane *lane, int64_t begin, int64_t count)
{
    const struct indexer_forward_plan *plan = run->plan;
    const int64_t heads = plan->problem.heads, panel_words = plan->depth * run->panel->lanes;
    const struct ag_multiply multiply = {.a = panel_at(run, group->panel + begin / run->panel->lanes),
                                         .a_panel_stride = panel_words,
                                         .b = lane->query,
                                         .b_row_stride = plan->head_words,
                                         .b_word_stride = 1,
                                         .c = lane->products,
                                         .c_row_stride = plan->step_keys,
                                         .rows = group->rows * heads,
                                         .cols = count,
                                         .depth = plan->depth};
    run->panel->multiply(&multiply);
    for (int64_t i = 0; i < group->rows; ++i) {
        const struct ag_indexer_weigh weigh = {.products = lane->products + i * heads * plan->step_keys,
                                               .weights = lane->weights + i * heads,
                                               .scores = run->ws.scores + group->score_begin +
                                                         i * group->score_stride + begin,
                                               .product_stride = plan->step_keys,
                                               .heads = heads,
                                               .keys = count};
        plan->kernels->indexer_weigh(&weigh);
    }
}

static void score_keys(void *context, int64_t item, int lane_number)
{
    const struct run *run = context;
    const struct indexer_forward_plan *plan = run->plan;
    const struct indexer_forward_lane *lane = run->ws.lanes + lane_number;
    const struct indexer_forward_group *group = run->ws.groups + find_last(first_item, run, run->groups, item);
    const int64_t first = (item - group->first_item) * ITEM_KEYS, limit = group_limit(group);
    const int64_t end = limit - first < ITEM_KEYS ? limit : first + ITEM_KEYS;
    if (first >= end) {
        return;
    }
    plan->kernels->begin_task();
    load_group(run, group, lane);
    for (int64_t begin = first; begin < end; begin += plan->step_keys) {
        score_step(run, group, lane, begin, end - begin < plan->step_keys ? end - begin : plan->step_keys);
    }
    plan->kernels->end_task();
}

/* --- the best ----------------------------------------------------------------------------------------------- */

static void store_indices(const struct indexer_forward_problem *p, int64_t row, const int32_t *numbers, int64_t count)
{
    char *to = indexer_element(&p->indices, row * p->topk); /* a row lies within the last dim */
    const int64_t step = p->topk > 1 ? p->indices.strides[p->indices.rank - 1] * (int64_t)sizeof *numbers : 0;
    static const int32_t none = -1;
    for (int64_t j = 0; j < p->topk; ++j) {
        memcpy(to + j * step, j < count ? numbers + j : &none, sizeof none);
    }
}

static void store_values(const struct run *run, int64_t row, const struct indexer_forward_lane *lane, int64_t count)
{
    const struct indexer_forward_problem *p = &run->plan->problem;
    struct ag_matrix to = indexer_last_of_row(&p->values, row);
    for (int64_t j = 0; j < count; ++j) {
        lane->values[j] = indexer_score_of(lane->selection.ranks[j]);
    }
    to.cols = count;
    run->plan->kernels->rows[p->elem].store(&to, lane->values, 0, 1.0f);
    for (int64_t j = count; j < p->topk; ++j) {
        ag_elem_store(p->elem, to.data, j * to.col_stride, -INFINITY);
    }
}

/* Row item % group_rows of a group. */
static void select_keys(void *context, int64_t item, int lane_number)
{
    const struct run *run = context;
    const struct indexer_forward_plan *plan = run->plan;
    const struct indexer_forward_lane *lane = run->ws.lanes + lane_number;
    const struct indexer_forward_group *group = run->ws.groups + item / plan->group_rows;
    const int64_t i = item % plan->group_rows;
    if (i >= group->rows) {
        return;
    }
    const int64_t limit = limit_of(group, i), count = limit < plan->problem.topk ? limit : plan->problem.topk;
    if (count > 0) {
        indexer_select(&lane->selection, run->ws.scores + group->score_begin + i * group->score_stride, limit, count);
    }
    store_indices(&plan->problem, group->row + i, lane->selection.numbers, count);
    if (plan->problem.values.present) {
        store_values(run, group->row + i, lane, count);
    }
}

/* --- batches and waves -------------------------------------------------------------------------------------- */

/* The next row of a wave. */
struct cursor {
    int64_t number; /* its sequence */
    int64_t s;      /* row in it */
    int64_t scores; /* of the batch at hand, spoken for */
};

/* The group of rows from the cursor's on. */
static struct indexer_forward_group group_at(const struct run *run, const struct cursor *cursor,
                                             const struct indexer_sequence *sequence)
{
    const struct indexer_forward_problem *p = &run->plan->problem;
    const bool is_live = cursor->s < sequence->live_rows;
    const int64_t left = (is_live ? sequence->live_rows : sequence->rows) - cursor->s;
    struct indexer_forward_group group = {.row = sequence->row_begin + cursor->s,
                                          .rows = left < run->plan->group_rows ? left : run->plan->group_rows,
                                          .keys = is_live ? sequence->live_keys : 0,
                                          .score_begin = cursor->scores,
                                          .first_item = run->items};
    const int64_t lanes = run->panel->lanes;
    group.step = p->sparse_mode == 3;
    group.visible = group.step ? sequence->live_keys - sequence->live_rows + cursor->s + 1 : sequence->live_keys;
    group.panel = units_before(run, sequence, cursor->number - run->wave_first, lanes);
    group.score_stride = (group_limit(&group) + lanes - 1) / lanes * lanes;
    return group;
}

/* Groups are cut where the sequence says; a batch takes as many as there is room for. */
static void fill_batch(struct run *run, struct cursor *cursor)
{
    run->groups = run->items = cursor->scores = 0;
    for (; cursor->number < run->wave_end; ++cursor->number, cursor->s = 0) {
        const struct indexer_sequence sequence = indexer_tokens_sequence(&run->tokens, cursor->number);
        while (cursor->s < sequence.rows) {
            const struct indexer_forward_group group = group_at(run, cursor, &sequence);
            const int64_t scores = group.rows * group.score_stride;
            if (run->groups == run->plan->batch_groups || cursor->scores + scores > run->plan->batch_scores) {
                return;
            }
            run->ws.groups[run->groups++] = group;
            run->items += (group_limit(&group) + ITEM_KEYS - 1) / ITEM_KEYS;
            cursor->scores += scores;
            cursor->s += group.rows;
        }
    }
}

static void run_wave(struct run *run)
{
    const int threads = run->plan->threads;
    struct cursor cursor = {.number = run->wave_first};
    pack_wave(run);
    for (fill_batch(run, &cursor); run->groups > 0; fill_batch(run, &cursor)) {
        ag_parallel_for(threads, run->items, score_keys, run);
        ag_parallel_for(threads, run->groups * run->plan->group_rows, select_keys, run);
    }
}

/* The tail of packed rows belongs to the last wave. */
static void run_waves(const struct indexer_forward_plan *plan, void *workspace)
{
    const struct indexer_forward_problem *p = &plan->problem;
    struct run run = {.plan = plan, .panel = &plan->kernels->panel[plan->panel], .tokens = indexer_forward_tokens(p)};
    struct ag_arena arena = ag_arena_over(workspace);
    indexer_forward_carve(&arena, plan, &run.ws);
    for (int64_t first = 0; first < p->sequences; first += plan->wave_sequences) {
        const int64_t end = first + plan->wave_sequences;
        run.wave_first = first;
        run.wave_end = end < p->sequences ? end : indexer_tokens_count(&run.tokens);
        run.wave_key = indexer_tokens_sequence(&run.tokens, first).key_begin;
        run_wave(&run);
    }
}

ag_status indexer_forward_run(const void *plan_pointer, void *workspace)
{
    const struct indexer_forward_plan *plan = plan_pointer;
    AG_TRY(indexer_forward_check_data(&plan->problem)); /* addresses may have moved since phase 1 */
    if (!plan->problem.is_nothing) {
        run_waves(plan, workspace);
    }
    return AG_OK;
}
