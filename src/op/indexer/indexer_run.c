/* Executes a plan. One wave of sequences after the other:
 *
 *     pack the keys, zero their fp32 sums                          parallel over chunks of keys
 *     for each batch of rows:
 *         live slots, scores, dp, dq, dweights                     parallel over rows
 *         dk += dp^T q                                             parallel over owners of keys
 *     round the sums into dkOut                                    parallel over chunks of keys
 *
 * Every sum is taken in an order that only its own sequence decides. */
#include "op/indexer/indexer.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/elem.h"
#include "base/log.h"
#include "base/parallel.h"

enum { CHUNK_KEYS = 256 };

struct run {
    const struct indexer_plan *plan;
    const struct ag_panel_kernels *panel;
    const struct ag_indexer_kernels *kernels;
    const struct ag_row_kernels *elems;
    struct indexer_workspace ws;
    int64_t wave_first, wave_end; /* sequences of the wave */
    int64_t wave_key;             /* its first key in the whole tensor */
    int64_t batch_rows;           /* rows of the batch at hand */
    bool has_packed_keys;         /* else the key tensor's rows are words already, and read where they are */
};

/* --- keys in, their gradients out ---------------------------------------------------------------------------- */

/* Chunks do not cross what one row stride reaches over: a sequence in BSND, everything in TND. */
struct chunk {
    int64_t first, count; /* in the whole tensor */
    int64_t live;         /* the leading ones that are no padding */
};

static int64_t span_keys(const struct indexer_problem *p)
{
    return p->is_packed ? p->keys : p->keys / p->sequences;
}

static int64_t span_chunks(const struct indexer_problem *p)
{
    return (span_keys(p) + CHUNK_KEYS - 1) / CHUNK_KEYS;
}

static int64_t wave_chunks(const struct run *run)
{
    const struct indexer_problem *p = &run->plan->problem;
    return span_chunks(p) * (p->is_packed ? 1 : run->wave_end - run->wave_first);
}

static struct chunk chunk_at(const struct run *run, int64_t item)
{
    const struct indexer_problem *p = &run->plan->problem;
    const int64_t number = run->wave_first + item / span_chunks(p);
    const int64_t begin = item % span_chunks(p) * CHUNK_KEYS, left = span_keys(p) - begin;
    const struct indexer_sequence sequence = indexer_sequence_at(p, p->is_packed ? p->sequences : number);
    const int64_t span = p->is_packed ? 0 : sequence.key_begin;
    const int64_t live_end = p->is_packed ? sequence.key_begin : sequence.live_keys; /* TND: where the tail begins */
    struct chunk chunk = {.first = span + begin, .count = left < CHUNK_KEYS ? left : CHUNK_KEYS};
    chunk.live = live_end - begin < 0 ? 0 : live_end - begin < chunk.count ? live_end - begin : chunk.count;
    return chunk;
}

static void pack_keys(void *context, int64_t item, int lane)
{
    const struct run *run = context;
    const struct indexer_plan *plan = run->plan;
    const struct chunk chunk = chunk_at(run, item);
    const int64_t at = chunk.first - run->wave_key;
    (void)lane;
    memset(run->ws.dk + at * plan->dim_words, 0, (size_t)(chunk.count * plan->dim_words) * sizeof(float));
    if (chunk.live > 0 && run->has_packed_keys) {
        const struct ag_matrix keys = indexer_some_keys(&plan->problem.key, chunk.first, chunk.live);
        run->panel->pack_rows[plan->problem.elem](run->ws.keys + at * plan->key_words, plan->key_words, &keys);
    }
}

static void store_keys(void *context, int64_t item, int lane)
{
    const struct run *run = context;
    const struct indexer_plan *plan = run->plan;
    const struct chunk chunk = chunk_at(run, item);
    const struct ag_matrix dk = indexer_some_keys(&plan->problem.dk, chunk.first, chunk.count);
    (void)lane;
    run->elems->store(&dk, run->ws.dk + (chunk.first - run->wave_key) * plan->dim_words, plan->dim_words, 1.0f);
}

/* Rows of bf16 side by side are what packing would make of them: words along D. */
static bool keys_are_words(const struct indexer_plan *plan)
{
    const struct indexer_problem *p = &plan->problem;
    const struct ag_view *key = &p->key;
    bool is_whole =
        !ag_view_is_empty(key) && p->dim % 2 == 0 && (uintptr_t)ag_view_origin(key) % sizeof(uint32_t) == 0;
    for (int axis = 0; axis < key->rank - 1; ++axis) {
        is_whole = is_whole && key->strides[axis] % 2 == 0;
    }
    return plan->panel == AG_PANEL_BF16 && is_whole && key->strides[key->rank - 1] == 1;
}

/* --- one row: slots ------------------------------------------------------------------------------------------ */

/* A row of the batch, and its share of the workspace. */
struct work {
    struct indexer_row *row;
    const uint32_t *keys; /* of its sequence, key_stride words from one to the next */
    int64_t key_stride;
    float *dk; /* of its sequence */
    uint32_t *dp, *query;
    int32_t *numbers, *entries, *starts;
};

static struct work work_at(const struct run *run, int64_t item)
{
    const struct indexer_plan *plan = run->plan;
    const struct indexer_workspace *ws = &run->ws;
    const int64_t topk = plan->problem.topk, key_begin = ws->rows[item].key_begin;
    const struct ag_view *key = &plan->problem.key;
    const uint32_t *keys = run->has_packed_keys
                               ? ws->keys + key_begin * plan->key_words
                               : indexer_element(key, (run->wave_key + key_begin) * plan->problem.dim);
    return (struct work){.row = ws->rows + item,
                         .keys = keys,
                         .key_stride = run->has_packed_keys ? plan->key_words : key->strides[key->rank - 3] / 2,
                         .dk = ws->dk + key_begin * plan->dim_words,
                         .dp = ws->dp + item * topk * plan->dp_words,
                         .query = ws->queries + item * plan->query_words,
                         .numbers = ws->numbers + item * topk,
                         .entries = ws->entries + item * topk,
                         .starts = ws->starts + item * (INDEXER_PARTS + 1)};
}

/* Keys and dy of the row's live slots, in order, without gaps. */
static void find_live_slots(const struct run *run, const struct work *work, const struct indexer_lane *lane)
{
    const struct indexer_problem *p = &run->plan->problem;
    struct indexer_row *row = work->row;
    const void *dy = indexer_element(&p->dy, row->row * p->topk); /* a row lies within dy's last dim */
    const int64_t dy_stride = p->dy.strides[p->dy.rank - 1];
    int64_t count = 0;
    indexer_gather(lane->indices, &p->indices, row->row * p->topk, row->limit);
    for (int64_t j = 0; j < row->limit; ++j) {
        const int32_t key = lane->indices[j];
        if (key >= 0 && key < row->keys) {
            work->numbers[count] = key;
            lane->dy[count] = ag_elem_load(p->elem, dy, j * dy_stride);
            ++count;
        }
    }
    row->count = count;
}

/* Stable counting sort of the live slots by the owner of their key: equal keys stay in order. */
static void sort_by_owner(const struct work *work)
{
    const struct indexer_row *row = work->row;
    const uint32_t share = (uint32_t)((row->keys + INDEXER_PARTS - 1) / INDEXER_PARTS);
    int32_t next[INDEXER_PARTS];
    memset(work->starts, 0, (INDEXER_PARTS + 1) * sizeof *work->starts);
    for (int64_t j = 0; j < row->count; ++j) {
        ++work->starts[(uint32_t)work->numbers[j] / share + 1];
    }
    for (int part = 0; part < INDEXER_PARTS; ++part) {
        next[part] = work->starts[part];
        work->starts[part + 1] += work->starts[part];
    }
    for (int64_t j = 0; j < row->count; ++j) {
        work->entries[next[(uint32_t)work->numbers[j] / share]++] = (int32_t)j;
    }
}

/* --- one row: dp, dq, dweights ------------------------------------------------------------------------------- */

static void load_row(const struct run *run, const struct work *work, const struct indexer_lane *lane)
{
    const struct indexer_plan *plan = run->plan;
    const struct indexer_problem *p = &plan->problem;
    const struct ag_matrix query = indexer_heads_of_row(&p->query, work->row->row);
    const struct ag_matrix weights = indexer_last_of_row(&p->weights, work->row->row);
    const int64_t head_depth = (p->heads + run->panel->pair - 1) / run->panel->pair;
    run->panel->pack_lanes[p->elem](lane->query, &query);
    run->panel->pack_depth[p->elem](work->query, head_depth * run->panel->lanes, &query);
    memset(lane->weights, 0, (size_t)plan->head_words * sizeof *lane->weights);
    memset(lane->dweights, 0, (size_t)plan->head_words * sizeof *lane->dweights);
    run->elems->load(lane->weights, plan->head_words, &weights);
}

/* dp of the slots [begin, begin + slots), and what they add to dweights. */
static void score_block(const struct run *run, const struct work *work, const struct indexer_lane *lane,
                        int64_t begin, int64_t slots)
{
    const struct indexer_plan *plan = run->plan;
    const struct indexer_problem *p = &plan->problem;
    const struct ag_indexer_score score = {.query = lane->query,
                                           .keys = work->keys,
                                           .numbers = work->numbers + begin,
                                           .dy = lane->dy + begin,
                                           .weights = lane->weights,
                                           .dweights = lane->dweights,
                                           .dp = work->dp + begin * plan->dp_words,
                                           .dp_pairs = lane->dp_pairs,
                                           .key_stride = work->key_stride,
                                           .dp_stride = plan->dp_words,
                                           .head_stride = plan->head_words,
                                           .heads = p->heads,
                                           .depth = (p->dim + run->panel->pair - 1) / run->panel->pair,
                                           .slots = slots,
                                           .is_rounded = p->elem == AG_ELEM_BF16};
    run->kernels->score(&score);
}

/* dq += dp k over the same slots; the first block overwrites. */
static void add_to_query(const struct run *run, const struct work *work, const struct indexer_lane *lane,
                         int64_t begin, int64_t slots)
{
    const struct indexer_plan *plan = run->plan;
    const struct indexer_problem *p = &plan->problem;
    const int64_t pair = run->panel->pair, panel_words = (plan->block_slots + pair - 1) / pair * run->panel->lanes;
    const struct ag_indexer_gather gather = {.to = lane->gathered,
                                             .keys = work->keys,
                                             .numbers = work->numbers + begin,
                                             .panel_stride = panel_words,
                                             .key_stride = work->key_stride,
                                             .slots = slots,
                                             .dim = p->dim};
    const struct ag_multiply multiply = {.a = lane->gathered,
                                         .a_panel_stride = panel_words,
                                         .b = lane->dp_pairs ? lane->dp_pairs : work->dp + begin * plan->dp_words,
                                         .b_row_stride = 1,
                                         .b_word_stride = plan->head_words,
                                         .c = lane->dq,
                                         .c_row_stride = plan->dim_words,
                                         .rows = p->heads,
                                         .cols = p->dim,
                                         .depth = (slots + pair - 1) / pair,
                                         .accumulate = begin > 0};
    run->kernels->gather(&gather);
    run->panel->multiply(&multiply);
}

static void do_row(void *context, int64_t item, int lane_number)
{
    const struct run *run = context;
    const struct indexer_plan *plan = run->plan;
    const struct indexer_problem *p = &plan->problem;
    const struct indexer_lane *lane = run->ws.lanes + lane_number;
    const struct work work = work_at(run, item);
    const struct ag_matrix dq = indexer_heads_of_row(&p->dq, work.row->row);
    const struct ag_matrix dweights = indexer_last_of_row(&p->dweights, work.row->row);
    work.row->count = 0;
    if (work.row->limit > 0) {
        find_live_slots(run, &work, lane);
    }
    if (work.row->count == 0) {
        run->elems->zero(&dq);
        run->elems->zero(&dweights);
        return;
    }
    load_row(run, &work, lane);
    sort_by_owner(&work);
    plan->kernels->begin_task();
    for (int64_t begin = 0; begin < work.row->count; begin += plan->block_slots) {
        const int64_t left = work.row->count - begin;
        const int64_t slots = left < plan->block_slots ? left : plan->block_slots;
        score_block(run, &work, lane, begin, slots);
        add_to_query(run, &work, lane, begin, slots);
    }
    plan->kernels->end_task();
    run->elems->store(&dq, lane->dq, plan->dim_words, 1.0f);
    run->elems->store(&dweights, lane->dweights, plan->head_words, 1.0f);
}

/* --- one owner of keys: dk ----------------------------------------------------------------------------------- */

/* The leading entries that one call may take: no key comes twice in a group. */
static int64_t count_distinct(const struct work *work, int64_t begin, int64_t end, int group)
{
    for (int64_t i = begin; i < end; ++i) {
        for (int64_t other = i - (i - begin) % group; other < i; ++other) {
            if (work->numbers[work->entries[other]] == work->numbers[work->entries[i]]) {
                return i - begin;
            }
        }
    }
    return end - begin;
}

static void add_to_keys(const struct run *run, const struct work *work, int64_t begin, int64_t end)
{
    const struct indexer_plan *plan = run->plan;
    const struct indexer_problem *p = &plan->problem;
    while (begin < end) {
        const struct ag_indexer_scatter scatter = {.query = work->query,
                                                   .dp = work->dp,
                                                   .entries = work->entries + begin,
                                                   .numbers = work->numbers,
                                                   .dk = work->dk,
                                                   .dp_stride = plan->dp_words,
                                                   .dk_stride = plan->dim_words,
                                                   .depth = (p->heads + run->panel->pair - 1) / run->panel->pair,
                                                   .dim = p->dim,
                                                   .count = count_distinct(work, begin, end, run->panel->rows)};
        run->kernels->scatter(&scatter);
        begin += scatter.count;
    }
}

/* The part-th share of every sequence's keys, over all rows of the batch in order. */
static void do_part(void *context, int64_t part, int lane_number)
{
    const struct run *run = context;
    (void)lane_number;
    run->plan->kernels->begin_task();
    for (int64_t item = 0; item < run->batch_rows; ++item) {
        const struct work work = work_at(run, item);
        if (work.row->count > 0) {
            add_to_keys(run, &work, work.starts[part], work.starts[part + 1]);
        }
    }
    run->plan->kernels->end_task();
}

/* --- batches and waves --------------------------------------------------------------------------------------- */

/* The next row of a wave. */
struct cursor {
    int64_t number; /* its sequence */
    int64_t s;      /* row in it */
};

static void fill_batch(struct run *run, struct cursor *cursor)
{
    const struct indexer_problem *p = &run->plan->problem;
    int64_t count = 0;
    for (; cursor->number < run->wave_end; ++cursor->number, cursor->s = 0) {
        const struct indexer_sequence sequence = indexer_sequence_at(p, cursor->number);
        for (; cursor->s < sequence.rows; ++cursor->s) {
            if (count == run->plan->batch_rows) {
                run->batch_rows = count;
                return;
            }
            run->ws.rows[count++] = (struct indexer_row){.row = sequence.row_begin + cursor->s,
                                                         .key_begin = sequence.key_begin - run->wave_key,
                                                         .keys = sequence.live_keys,
                                                         .limit = indexer_slot_limit(p, &sequence, cursor->s)};
        }
    }
    run->batch_rows = count;
}

static void run_wave(struct run *run)
{
    const int threads = run->plan->threads;
    struct cursor cursor = {.number = run->wave_first};
    ag_parallel_for(threads, wave_chunks(run), pack_keys, run);
    for (fill_batch(run, &cursor); run->batch_rows > 0; fill_batch(run, &cursor)) {
        ag_parallel_for(threads, run->batch_rows, do_row, run);
        ag_parallel_for(threads, INDEXER_PARTS, do_part, run);
    }
    ag_parallel_for(threads, wave_chunks(run), store_keys, run);
}

static void run_waves(const struct indexer_plan *plan, void *workspace)
{
    const struct indexer_problem *p = &plan->problem;
    const int64_t step = p->is_packed ? indexer_sequence_count(p) : plan->wave_sequences; /* the tail is one more */
    struct run run = {.plan = plan,
                      .panel = &plan->kernels->panel[plan->panel],
                      .kernels = &plan->kernels->indexer[plan->panel],
                      .elems = &plan->kernels->rows[p->elem]};
    struct ag_arena arena = ag_arena_over(workspace);
    indexer_carve(&arena, plan, &run.ws);
    run.has_packed_keys = !keys_are_words(plan);
    for (int64_t first = 0; first < indexer_sequence_count(p); first += step) {
        const int64_t end = first + step;
        run.wave_first = first;
        run.wave_end = end < indexer_sequence_count(p) ? end : indexer_sequence_count(p);
        run.wave_key = indexer_sequence_at(p, first).key_begin;
        run_wave(&run);
    }
}

/* --- the whole ----------------------------------------------------------------------------------------------- */

/* ACLGRAD_DEBUG=1: an index that points nowhere and is not the -1 of an empty slot is worth a word. */
static void report_indices(const struct indexer_problem *p)
{
    for (int64_t b = 0; b < indexer_sequence_count(p); ++b) {
        const struct indexer_sequence sequence = indexer_sequence_at(p, b);
        for (int64_t s = 0; s < sequence.live_rows; ++s) {
            const int64_t row = sequence.row_begin + s, limit = indexer_slot_limit(p, &sequence, s);
            for (int64_t j = 0; j < limit; ++j) {
                int32_t key;
                memcpy(&key, indexer_element(&p->indices, row * p->topk + j), sizeof key);
                if (key < -1 || key >= sequence.live_keys) {
                    ag_report("aclnnLightningIndexerGrad",
                              "sparseIndices: first bad index is %" PRId32 " at row %" PRId64 " slot %" PRId64
                              " of sequence %" PRId64 ", want -1 to %" PRId64 "; skipped",
                              key, s, j, b, sequence.live_keys - 1);
                    return;
                }
            }
        }
    }
}

/* An empty query: no row, so no key's gradient is anything but 0. */
static void zero_view(const struct indexer_problem *p, const struct ag_view *view)
{
    static const float zero;
    for (int64_t i = 0; i < ag_view_elems(view); ++i) {
        memcpy(indexer_element(view, i), &zero, ag_elem_bytes(p->elem));
    }
}

ag_status indexer_run(const void *plan_pointer, void *workspace)
{
    const struct indexer_plan *plan = plan_pointer;
    const struct indexer_problem *p = &plan->problem;
    AG_TRY(indexer_check_overlaps(p)); /* addresses may have moved since phase 1 */
    AG_TRY(indexer_check_lengths(p));
    if (p->is_nothing) {
        zero_view(p, &p->dk);
        zero_view(p, &p->dweights);
        return AG_OK;
    }
    if (p->is_debug) {
        report_indices(p);
    }
    run_waves(plan, workspace);
    return AG_OK;
}
