/* Problem -> plan: which kernels, how much at a time, how large the workspace. */
#include "op/indexer/indexer_forward.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/config.h"
#include "base/integer.h"

/* A wave of short sequences has about so many keys: enough to keep all threads busy. */
enum { WAVE_KEYS = 32768 };

/* Heads of a group, over all its rows: enough for a key that comes from memory to be worth the way. */
enum { GROUP_HEADS = 192, GROUP_ROWS = 64 };

/* Keys whose products with one head are taken at a time, at least a panel. */
enum { STEP_KEYS = 32 };

/* The scores of a batch: in cache while they are written and read, and rows for every thread. */
static const int64_t BATCH_BYTES = 16 << 20, BATCH_BYTES_PER_THREAD = 2 << 20;
enum { BATCH_GROUPS = 4096 };

static int64_t clamp(int64_t value, int64_t lowest, int64_t highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

/* The most keys that one sequence can have. */
static int64_t most_keys(const struct indexer_forward_problem *p)
{
    return p->has_packed_keys ? p->keys : p->keys / p->sequences;
}

static void plan_waves(struct indexer_forward_plan *plan)
{
    const struct indexer_forward_problem *p = &plan->problem;
    const int64_t lanes = plan->kernels->panel[plan->panel].lanes, keys = most_keys(p);
    plan->wave_sequences = p->has_packed_keys || keys == 0 ? p->sequences : clamp(WAVE_KEYS / keys, 1, p->sequences);
    const int64_t wave_keys = p->has_packed_keys ? p->keys : plan->wave_sequences * keys;
    plan->wave_panels = wave_keys / lanes + plan->wave_sequences; /* each sequence begins a panel */
}

static void plan_batches(struct indexer_forward_plan *plan)
{
    const struct indexer_forward_problem *p = &plan->problem;
    const int64_t lanes = plan->kernels->panel[plan->panel].lanes, keys = most_keys(p);
    const int64_t budget = BATCH_BYTES + plan->threads * BATCH_BYTES_PER_THREAD;
    const int64_t row_scores = ag_round_up(keys, lanes), most_rows = p->is_packed ? p->rows : p->rows / p->sequences;
    plan->group_rows = clamp(GROUP_HEADS / p->heads, 1, most_rows < GROUP_ROWS ? most_rows : GROUP_ROWS);
    plan->step_keys = ag_round_up(STEP_KEYS, lanes);
    plan->batch_groups = clamp(p->rows, 1, BATCH_GROUPS);
    plan->batch_scores = plan->group_rows * row_scores;
    if (plan->batch_scores < budget / (int64_t)sizeof(float)) {
        const int64_t groups = (budget / (int64_t)sizeof(float)) / (plan->batch_scores ? plan->batch_scores : 1);
        plan->batch_scores *= groups < plan->batch_groups ? groups : plan->batch_groups;
    }
    plan->selected = p->topk < keys ? p->topk : keys;
}

/* --- the workspace ------------------------------------------------------------------------------------------ */

static void carve_selection(struct ag_arena *arena, const struct indexer_forward_plan *plan,
                            struct indexer_selection *s)
{
    const int64_t count = plan->selected + 1;
    s->histogram = ag_take(arena, INDEXER_BINS, sizeof *s->histogram);
    s->ranks = ag_take(arena, count, sizeof *s->ranks);
    s->other_ranks = ag_take(arena, count, sizeof *s->other_ranks);
    s->numbers = ag_take(arena, count, sizeof *s->numbers);
    s->other_numbers = ag_take(arena, count, sizeof *s->other_numbers);
}

static void carve_lane(struct ag_arena *arena, const struct indexer_forward_plan *plan,
                       struct indexer_forward_lane *lane)
{
    const struct indexer_forward_problem *p = &plan->problem;
    const int64_t heads = plan->group_rows * p->heads, key_bytes = p->dim * (int64_t)ag_elem_bytes(p->elem);
    lane->query = ag_take(arena, heads * plan->head_words, sizeof *lane->query);
    lane->weights = ag_take(arena, heads, sizeof *lane->weights);
    lane->products = ag_take(arena, heads * plan->step_keys, sizeof *lane->products);
    lane->keys = p->is_paged ? ag_take(arena, INDEXER_PACK_KEYS * key_bytes, 1) : NULL;
    lane->values = ag_take(arena, plan->selected + 1, sizeof *lane->values);
    carve_selection(arena, plan, &lane->selection);
}

void indexer_forward_carve(struct ag_arena *arena, const struct indexer_forward_plan *plan,
                           struct indexer_forward_workspace *ws)
{
    const int64_t panel_words = plan->depth * plan->kernels->panel[plan->panel].lanes;
    ws->panels = ag_take(arena, plan->wave_panels * panel_words, sizeof *ws->panels);
    ws->scores = ag_take(arena, plan->batch_scores, sizeof *ws->scores);
    ws->groups = ag_take(arena, plan->batch_groups, sizeof *ws->groups);
    ws->lanes = ag_take(arena, plan->threads, sizeof *ws->lanes);
    for (int i = 0; i < plan->threads; ++i) {
        struct indexer_forward_lane lane;
        carve_lane(arena, plan, &lane);
        if (ws->lanes) {
            ws->lanes[i] = lane;
        }
    }
}

/* Every size that carving multiplies fits 62 bits; the largest of them are these. */
static bool has_sane_sizes(const struct indexer_forward_problem *p)
{
    enum { PADDING = 128 }; /* what rounding up to panels may add, as a factor on dims of 1 */
    int64_t product;
    return ag_product(&product, 3, (int64_t[]){p->heads + GROUP_HEADS, p->dim + PADDING, 16}) &&
           ag_product(&product, 3, (int64_t[]){p->keys + WAVE_KEYS, p->dim + PADDING, 64}) &&
           ag_product(&product, 3, (int64_t[]){p->sequences + 1, p->dim + PADDING, 64 * PADDING}) &&
           ag_product(&product, 3, (int64_t[]){p->keys + WAVE_KEYS, GROUP_ROWS, 64});
}

/* One product of all rows with all keys: of several sequences too many, which does no harm. */
static double work_of(const struct indexer_forward_problem *p)
{
    return 2.0 * (double)p->rows * (double)p->keys * (double)p->heads * (double)p->dim;
}

ag_status indexer_forward_make_plan(const struct indexer_forward_problem *p, struct indexer_forward_plan *plan)
{
    enum { LINE_WORDS = 16 };
    const struct ag_config config = ag_config_get();
    *plan = (struct indexer_forward_plan){
        .problem = *p, .kernels = ag_kernels_current(), .threads = ag_config_lanes(&config, work_of(p))};
    if (p->is_nothing) {
        return AG_OK;
    }
    AG_REQUIRE(has_sane_sizes(p), INVALID,
               "query: %" PRId64 " heads of %" PRId64 ", %" PRId64 " sequences and %" PRId64
               " keys need more than 64-bit sizes",
               p->heads, p->dim, p->sequences, p->keys);
    plan->panel = plan->kernels->panel_of[p->elem];
    const int64_t pair = plan->kernels->panel[plan->panel].pair;
    plan->depth = (p->dim + pair - 1) / pair;
    plan->head_words = ag_round_up(plan->depth, LINE_WORDS);
    plan_waves(plan);
    plan_batches(plan);
    struct ag_arena arena = ag_arena_measure();
    struct indexer_forward_workspace workspace;
    indexer_forward_carve(&arena, plan, &workspace);
    plan->workspace_bytes = ag_arena_bytes(&arena);
    AG_REQUIRE(plan->workspace_bytes != UINT64_MAX, INVALID, "workspace: more than 64 bits of bytes");
    return AG_OK;
}

void indexer_forward_describe(const void *plan_pointer, char *text, size_t bytes)
{
    const struct indexer_forward_plan *plan = plan_pointer;
    const struct indexer_forward_problem *p = &plan->problem;
    if (p->is_nothing) {
        snprintf(text, bytes, "query=empty");
        return;
    }
    snprintf(text, bytes,
             "layout=%s keys_layout=%s elem=%s weights=%s sequences=%" PRId64 " rows=%" PRId64 " keys=%" PRId64
             " heads=%" PRId64 " dim=%" PRId64 " topk=%" PRId64 " mode=%" PRId64
             " isa=%s panel=%s threads=%d threads_because=%s wave_sequences=%" PRId64 " group_rows=%" PRId64
             " step_keys=%" PRId64 " batch_scores=%" PRId64 " workspace_bytes=%" PRIu64,
             p->is_packed ? "TND" : "BSND",
             p->is_paged          ? "PA_BSND"
             : p->has_packed_keys ? "TND"
                                  : "BSND",
             ag_dtype_name(p->query.dtype), ag_dtype_name(p->weights.dtype), p->sequences, p->rows, p->keys, p->heads,
             p->dim, p->topk, p->sparse_mode, ag_isa_name(plan->kernels->isa),
             plan->panel == AG_PANEL_BF16 ? "bf16" : "f32", plan->threads, ag_config_lanes_reason(work_of(p)),
             plan->wave_sequences, plan->group_rows, plan->step_keys, plan->batch_scores, plan->workspace_bytes);
}
