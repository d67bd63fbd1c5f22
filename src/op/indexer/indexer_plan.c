/* Problem -> plan: which kernels, how much at a time, how large the workspace. */
#include "op/indexer/indexer.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/integer.h"

/* A wave of short BSND sequences has about so many keys: enough to keep all threads busy. */
enum { WAVE_KEYS = 32768 };

/* Depth in words of the block of gathered keys: 32 KiB a panel of 64 lanes, which stays in the nearest caches. */
enum { BLOCK_WORDS = 128 };

/* The dp of a batch: in cache while it is written and read, and enough rows for every thread. */
static const int64_t BATCH_BYTES = 16 << 20, BATCH_BYTES_PER_THREAD = 2 << 20;

static void plan_packing(struct indexer_plan *plan)
{
    enum { LINE_WORDS = 16 };
    const struct indexer_problem *p = &plan->problem;
    const struct ag_panel_kernels *panel = &plan->kernels->panel[plan->panel];
    const int64_t head_depth = ag_round_up(p->heads, panel->pair) / panel->pair;
    const int64_t dim_depth = ag_round_up(p->dim, panel->pair) / panel->pair;
    const int64_t as_lanes = ag_round_up(p->heads, panel->lanes) * dim_depth;
    const int64_t as_depth = ag_round_up(p->dim, panel->lanes) * head_depth;
    plan->key_words = ag_round_up(dim_depth, LINE_WORDS);
    plan->dim_words = ag_round_up(p->dim, panel->lanes / 2);
    plan->head_words = ag_round_up(p->heads, panel->lanes / 2);
    plan->dp_words = plan->head_words / panel->pair;
    plan->query_words = as_lanes > as_depth ? as_lanes : as_depth;
}

static int64_t clamp(int64_t value, int64_t lowest, int64_t highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

/* Three products per row over all slots, and the keys, read once and their gradients written. */
static double work_of(const struct indexer_problem *p)
{
    const double products = 6.0 * (double)p->rows * (double)p->topk * (double)p->heads * (double)p->dim;
    return products + AG_WORK_PER_BYTE * 2.0 * (double)p->keys * (double)p->dim * (double)ag_elem_bytes(p->elem);
}

static void plan_tiles(struct indexer_plan *plan)
{
    const struct indexer_problem *p = &plan->problem;
    const int64_t sequence_keys = p->is_packed ? p->keys : p->keys / p->sequences;
    const int64_t row_words = p->topk * (plan->dp_words + 2) + plan->query_words + INDEXER_PARTS;
    const int64_t budget = BATCH_BYTES + plan->threads * BATCH_BYTES_PER_THREAD;
    plan->wave_sequences = p->is_packed ? p->sequences : clamp(WAVE_KEYS / sequence_keys, 1, p->sequences);
    plan->wave_keys = p->is_packed ? p->keys : plan->wave_sequences * sequence_keys;
    plan->batch_rows = clamp(budget / 4 / row_words, 1, p->rows);
    plan->block_slots = clamp(p->topk, 1, BLOCK_WORDS * plan->kernels->panel[plan->panel].pair);
}

/* --- the workspace ------------------------------------------------------------------------------------------ */

static void carve_lane(struct ag_arena *arena, const struct indexer_plan *plan, struct indexer_lane *lane)
{
    const struct indexer_problem *p = &plan->problem;
    const struct ag_panel_kernels *panel = &plan->kernels->panel[plan->panel];
    const int64_t block_words = ag_round_up(plan->block_slots, panel->pair) / panel->pair;
    lane->indices = ag_take(arena, p->topk, sizeof *lane->indices);
    lane->dy = ag_take(arena, p->topk, sizeof *lane->dy);
    lane->query = ag_take(arena, plan->query_words, sizeof *lane->query);
    lane->weights = ag_take(arena, plan->head_words, sizeof *lane->weights);
    lane->dweights = ag_take(arena, plan->head_words, sizeof *lane->dweights);
    lane->dq = ag_take(arena, p->heads * plan->dim_words, sizeof *lane->dq);
    lane->gathered = ag_take(arena, ag_round_up(p->dim, panel->lanes) * block_words, sizeof *lane->gathered);
    lane->dp_pairs = panel->pair == 2 ? ag_take(arena, block_words * plan->head_words, sizeof *lane->dp_pairs) : NULL;
}

void indexer_carve(struct ag_arena *arena, const struct indexer_plan *plan, struct indexer_workspace *ws)
{
    const int64_t slots = plan->batch_rows * plan->problem.topk;
    ws->keys = ag_take(arena, plan->wave_keys * plan->key_words, sizeof *ws->keys);
    ws->dk = ag_take(arena, plan->wave_keys * plan->dim_words, sizeof *ws->dk);
    ws->rows = ag_take(arena, plan->batch_rows, sizeof *ws->rows);
    ws->dp = ag_take(arena, slots * plan->dp_words, sizeof *ws->dp);
    ws->queries = ag_take(arena, plan->batch_rows * plan->query_words, sizeof *ws->queries);
    ws->numbers = ag_take(arena, slots, sizeof *ws->numbers);
    ws->entries = ag_take(arena, slots, sizeof *ws->entries);
    ws->starts = ag_take(arena, plan->batch_rows * (INDEXER_PARTS + 1), sizeof *ws->starts);
    ws->lanes = ag_take(arena, plan->threads, sizeof *ws->lanes);
    for (int i = 0; i < plan->threads; ++i) {
        struct indexer_lane lane;
        carve_lane(arena, plan, &lane);
        if (ws->lanes) {
            ws->lanes[i] = lane;
        }
    }
}

/* Every size that carving multiplies fits 62 bits; the largest of them are these. */
static bool has_sane_sizes(const struct indexer_problem *p)
{
    enum { PADDING = 128 }; /* what rounding up to panels may add, as a factor on dims of 1 */
    int64_t product;
    return ag_product(&product, 3, (int64_t[]){p->heads + PADDING, p->dim + PADDING, 16}) &&
           ag_product(&product, 3, (int64_t[]){p->topk + PADDING, p->heads + PADDING, 64}) &&
           ag_product(&product, 3, (int64_t[]){p->keys + WAVE_KEYS, p->dim + PADDING, 64}) &&
           ag_product(&product, 3, (int64_t[]){p->dim + PADDING, BLOCK_WORDS, 64});
}

ag_status indexer_make_plan(const struct indexer_problem *p, struct indexer_plan *plan)
{
    const struct ag_config config = ag_config_get();
    *plan = (struct indexer_plan){
        .problem = *p, .kernels = ag_kernels_current(), .threads = ag_config_lanes(&config, work_of(p))};
    if (p->is_nothing) {
        return AG_OK;
    }
    AG_REQUIRE(has_sane_sizes(p), INVALID,
               "query: %" PRId64 " heads of %" PRId64 ", %" PRId64 " slots and %" PRId64
               " keys need more than 64-bit sizes",
               p->heads, p->dim, p->topk, p->keys);
    plan->panel = plan->kernels->panel_of[p->elem];
    plan_packing(plan);
    plan_tiles(plan);
    struct ag_arena arena = ag_arena_measure();
    struct indexer_workspace workspace;
    indexer_carve(&arena, plan, &workspace);
    plan->workspace_bytes = ag_arena_bytes(&arena);
    AG_REQUIRE(plan->workspace_bytes != UINT64_MAX, INVALID, "workspace: more than 64 bits of bytes");
    return AG_OK;
}

void indexer_describe(const void *plan_pointer, char *text, size_t bytes)
{
    const struct indexer_plan *plan = plan_pointer;
    const struct indexer_problem *p = &plan->problem;
    if (p->is_nothing) {
        snprintf(text, bytes, "query=empty keys=%" PRId64, p->keys);
        return;
    }
    snprintf(text, bytes,
             "layout=%s elem=%s sequences=%" PRId64 " rows=%" PRId64 " keys=%" PRId64 " heads=%" PRId64
             " dim=%" PRId64 " topk=%" PRId64 " mode=%" PRId64
             " isa=%s panel=%s threads=%d threads_because=%s wave_keys=%" PRId64 " batch_rows=%" PRId64
             " block_slots=%" PRId64 " parts=%d workspace_bytes=%" PRIu64,
             p->is_packed ? "TND" : "BSND", ag_dtype_name(p->query.dtype), p->sequences, p->rows, p->keys, p->heads,
             p->dim, p->topk, p->sparse_mode, ag_isa_name(plan->kernels->isa),
             plan->panel == AG_PANEL_BF16 ? "bf16" : "f32", plan->threads, ag_config_lanes_reason(work_of(p)),
             plan->wave_keys, plan->batch_rows, plan->block_slots, INDEXER_PARTS, plan->workspace_bytes);
}
