#include "op/attention/attention_plan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/integer.h"
#include "op/attention/attention_run.h"

/* Splits are for machines with several cores and sequences with few key heads. These numbers are part of what
 * fixes the bits of a result, so they depend on nothing but the sequence. */
enum {
    SPLIT_PAIRS = 8,                 /* (key head, split) pairs that a long sequence is cut into */
    SPLIT_TILES = 8,                 /* tiles that a split has at least */
    SPLIT_BYTES = 320 * 1024 * 1024, /* at most, for all partial sums of one sequence: with a lane's scratch and sums
                                      * of 128K keys still within 512 MiB */
    WAVE_BYTES = 64 * 1024 * 1024    /* and of sequences that run at the same time, unless it is only one */
};

/* A block's operands should stay in the nearest caches. Vectors of 8 floats make narrow panels, and the CPUs that have no
 * wider ones have small caches (Zen 3: 32 and 512 KiB): there a block of 64 x 64 is 2 % faster. No bit depends on it:
 * sums go on where the block before left them. */
enum { NARROW_VECTOR = 8, NARROW_BLOCK = 64, WIDE_BLOCK_ROWS = 256, WIDE_BLOCK_KEYS = 128 };

/* --- tiles ---------------------------------------------------------------------------------------------- */

struct attention_columns attention_columns_of_rows(const struct attention_sequence *sequence, int64_t begin,
                                                   int64_t end)
{
    const struct attention_columns first = attention_visible_columns(sequence, begin);
    const struct attention_columns last = attention_visible_columns(sequence, end - 1);
    return (struct attention_columns){first.begin, ag_larger(first.begin, last.end)};
}

int64_t attention_key_tile_of(int64_t column)
{
    return (column + ATTENTION_TILE / 2) / ATTENTION_TILE;
}

struct attention_columns attention_key_tile(const struct attention_sequence *sequence, int64_t tile)
{
    const int64_t begin = tile * ATTENTION_TILE - ATTENTION_TILE / 2;
    return (struct attention_columns){ag_larger(begin, 0), ag_smaller(begin + ATTENTION_TILE, sequence->key_len)};
}

/* Half a strip, or half of the keys when they are fewer: of the pairs that a triangle computes in vain half are left. No step
 * lies in two panels unless it begins one. With tiles of AMX the whole strip: there sums depend on a product's shape. */
int64_t attention_edge(const struct attention_plan *plan, int64_t keys)
{
    const struct ag_panel_kernels *panel = &plan->kernels->panel[plan->panel];
    const int64_t most = ag_smaller(keys, ATTENTION_STRIP), half = ag_divide_up(most, 2);
    return plan->kernels->isa == AG_ISA_AMX ? ATTENTION_STRIP
                                            : ag_round_up(half, most > panel->lanes ? panel->lanes : panel->vector);
}

int64_t attention_row_tile_count(const struct attention_sequence *sequence, int64_t row_tile)
{
    const int64_t begin = row_tile * ATTENTION_TILE;
    const int64_t end = ag_smaller(begin + ATTENTION_TILE, sequence->query_len);
    const struct attention_columns columns = attention_columns_of_rows(sequence, begin, end);
    return columns.begin == columns.end
               ? 0
               : attention_key_tile_of(columns.end - 1) - attention_key_tile_of(columns.begin) + 1;
}

int64_t attention_sequence_tile_count(const struct attention_sequence *sequence)
{
    int64_t tiles = 0;
    for (int64_t t = 0; t < attention_row_tiles(sequence); ++t) {
        tiles += attention_row_tile_count(sequence, t);
    }
    return tiles;
}

/* --- splits --------------------------------------------------------------------------------------------- */

/* The first position before which at least `target` tiles lie. */
static int64_t position_after(const struct attention_sequence *sequence, int64_t group, int64_t head_tiles,
                              int64_t target)
{
    const int64_t row_tiles = attention_row_tiles(sequence);
    const int64_t heads = head_tiles > 0 ? ag_smaller(group, target / head_tiles) : group;
    int64_t position = heads * row_tiles;
    for (int64_t tiles = heads * head_tiles; tiles < target && position < group * row_tiles; ++position) {
        tiles += attention_row_tile_count(sequence, position % row_tiles);
    }
    return position;
}

struct attention_columns attention_split_positions(const struct attention_plan *plan,
                                                   const struct attention_work *work, int64_t split)
{
    const struct attention_sequence *sequence = &plan->problem.sequences[work->sequence];
    const int64_t group = plan->problem.group, total = work->tiles * group;
    const struct ag_range tiles = ag_share(total, split, work->splits);
    return (struct attention_columns){split == 0 ? 0 : position_after(sequence, group, work->tiles, tiles.begin),
                                      split == work->splits - 1
                                          ? group * attention_row_tiles(sequence)
                                          : position_after(sequence, group, work->tiles, tiles.end)};
}

/* Floats of one split's sums over all key heads: double, so that nothing overflows before it is compared. */
static double partial_floats(const struct attention_plan *plan, const struct attention_sequence *sequence)
{
    return (double)plan->problem.key_heads * (double)sequence->key_len * (double)(plan->key_cols + plan->value_cols);
}

static int64_t choose_splits(const struct attention_plan *plan, const struct attention_sequence *sequence,
                             int64_t tiles)
{
    const double fitting = SPLIT_BYTES / (sizeof(float) * partial_floats(plan, sequence));
    int64_t splits = ag_divide_up(SPLIT_PAIRS, plan->problem.key_heads);
    splits = ag_smaller(splits, tiles * plan->problem.group / SPLIT_TILES);
    return fitting < 2.0 ? 1 : ag_larger(1, ag_smaller(splits, (int64_t)fitting));
}

/* --- works and waves ------------------------------------------------------------------------------------ */

bool attention_has_work(const struct attention_problem *problem, const struct attention_sequence *sequence)
{
    return sequence->query_len > 0 && sequence->key_len > 0 && problem->dim > 0 && problem->value_dim > 0;
}

/* Walks over the works of a problem, in order of the pack. */
struct work_cursor {
    int64_t sequence;
    int64_t wave, wave_floats;
};

static bool next_work(const struct attention_plan *plan, struct work_cursor *cursor, struct attention_work *work)
{
    const struct attention_problem *problem = &plan->problem;
    while (cursor->sequence < problem->sequence_count &&
           !attention_has_work(problem, &problem->sequences[cursor->sequence])) {
        ++cursor->sequence;
    }
    if (cursor->sequence == problem->sequence_count) {
        return false;
    }
    const struct attention_sequence *sequence = &problem->sequences[cursor->sequence];
    *work = (struct attention_work){.sequence = cursor->sequence};
    work->tiles = attention_sequence_tile_count(sequence);
    work->splits = choose_splits(plan, sequence, work->tiles);
    if (work->splits > 1) {
        const int64_t floats = work->splits * (int64_t)partial_floats(plan, sequence);
        if (cursor->wave_floats > 0 && cursor->wave_floats + floats > WAVE_BYTES / (int64_t)sizeof(float)) {
            ++cursor->wave;
            cursor->wave_floats = 0;
        }
        work->wave = cursor->wave;
        work->first_partial = cursor->wave_floats;
        cursor->wave_floats += floats;
    }
    ++cursor->sequence;
    return true;
}

static void count_works(struct attention_plan *plan)
{
    struct work_cursor cursor = {0};
    struct attention_work work;
    while (next_work(plan, &cursor, &work)) {
        const struct attention_sequence *sequence = &plan->problem.sequences[work.sequence];
        ++plan->work_count;
        plan->split_count += work.splits > 1;
        plan->item_count += work.splits * plan->problem.key_heads;
        plan->tile_count += work.tiles * plan->problem.query_heads;
        plan->max_key_len = ag_larger(plan->max_key_len, work.splits > 1 ? 0 : sequence->key_len);
        plan->chunk_rows = ag_larger(plan->chunk_rows, ag_smaller(sequence->query_len, ATTENTION_CHUNK));
        plan->partial_floats = ag_larger(plan->partial_floats, cursor.wave_floats);
    }
    plan->wave_count = plan->work_count > 0 ? cursor.wave + 1 : 0;
}

/* Tiles of one item. */
static int64_t item_cost(const struct attention_work *work)
{
    return work->tiles / work->splits; /* times the group, which is the same for all */
}

/* By wave, then the costliest first; equals in order of the pack. */
static int compare_works(const void *left, const void *right)
{
    const struct attention_work *a = left, *b = right;
    if (a->wave != b->wave) {
        return a->wave < b->wave ? -1 : 1;
    }
    if (item_cost(a) != item_cost(b)) {
        return item_cost(a) > item_cost(b) ? -1 : 1;
    }
    return a->sequence < b->sequence ? -1 : 1;
}

static void number_items(struct attention_plan *plan)
{
    const int64_t heads = plan->problem.key_heads;
    struct attention_wave *wave = NULL;
    for (int64_t w = 0; w < plan->work_count; ++w) {
        struct attention_work *work = &plan->tables.works[w];
        if (w == 0 || work->wave != work[-1].wave) {
            wave = &plan->tables.waves[work->wave];
            *wave = (struct attention_wave){.work_begin = w};
        }
        work->first_item = wave->items;
        work->first_block = wave->blocks;
        wave->items += heads * work->splits;
        if (work->splits > 1) {
            const struct attention_sequence *sequence = &plan->problem.sequences[work->sequence];
            wave->blocks += heads * ag_divide_up(sequence->key_len, ATTENTION_STRIP);
        }
        wave->work_end = w + 1;
    }
}

static void build_works(struct attention_plan *plan)
{
    struct work_cursor cursor = {0};
    for (int64_t w = 0; w < plan->work_count; ++w) {
        next_work(plan, &cursor, &plan->tables.works[w]);
    }
    if (plan->work_count > 0) {
        qsort(plan->tables.works, (size_t)plan->work_count, sizeof *plan->tables.works, compare_works);
    }
    number_items(plan);
}

double attention_work_of(const struct attention_problem *problem)
{
    const double per_pair = 6.0 * (double)(problem->dim + problem->rope_dim) + 4.0 * (double)problem->value_dim;
    double pairs = 0;
    for (int64_t s = 0; s < problem->sequence_count; ++s) {
        pairs += (double)problem->sequences[s].query_len * (double)problem->sequences[s].key_len;
    }
    return pairs * per_pair * (double)problem->query_heads;
}

/* --- gaps ----------------------------------------------------------------------------------------------- */

int64_t attention_find_gaps(const struct attention_plan *plan, bool is_key, struct attention_gap *gaps)
{
    const struct attention_problem *problem = &plan->problem;
    const int64_t total = is_key ? problem->key_rows : problem->query_rows;
    int64_t count = 0, covered = 0, blocks = 0;
    for (int64_t s = 0; s <= problem->sequence_count; ++s) {
        const bool is_end = s == problem->sequence_count;
        const struct attention_sequence *sequence = is_end ? NULL : &problem->sequences[s];
        if (!is_end && !attention_has_work(problem, sequence)) {
            continue;
        }
        const int64_t begin = is_end ? total : is_key ? sequence->key_begin : sequence->query_begin;
        if (begin > covered) {
            if (gaps) {
                gaps[count] = (struct attention_gap){covered, begin - covered, blocks};
            }
            blocks += ag_divide_up(begin - covered, ATTENTION_STRIP);
            ++count;
        }
        covered = is_end ? total : begin + (is_key ? sequence->key_len : sequence->query_len);
    }
    return count;
}

/* --- sizes ---------------------------------------------------------------------------------------------- */

/* Words from one packed row to the next, so that a vector may be read at any word of it, and an odd number of cache lines:
 * a column of rows then spreads over all sets of a cache. */
static int64_t row_stride(int64_t words, int64_t vector)
{
    enum { LINE_WORDS = 16 };
    return (ag_divide_up(words + vector, LINE_WORDS) | 1) * LINE_WORDS;
}

void attention_set_sizes(struct attention_plan *plan)
{
    const struct attention_problem *problem = &plan->problem;
    const struct ag_panel_kernels *panel = &plan->kernels->panel[plan->panel];
    plan->dim_words = ag_divide_up(problem->dim, panel->pair);
    plan->rope_words = ag_divide_up(problem->rope_dim, panel->pair);
    plan->query_words = plan->dim_words + plan->rope_words;
    plan->value_words = ag_divide_up(problem->value_dim, panel->pair);
    plan->query_stride = row_stride(plan->query_words, panel->vector);
    plan->value_stride = row_stride(plan->value_words, panel->vector);
    plan->has_depth = panel->pair > 1;
    plan->dim_cols = ag_round_up(problem->dim, panel->vector);
    plan->rope_cols = ag_round_up(problem->rope_dim, panel->vector);
    plan->key_cols = plan->dim_cols + plan->rope_cols;
    plan->value_cols = ag_round_up(problem->value_dim, panel->vector);
    plan->has_padding = !plan->has_depth && (plan->key_cols != problem->dim + problem->rope_dim ||
                                             plan->value_cols != problem->value_dim);
    plan->dim_panels = ag_divide_up(problem->dim, panel->lanes);
    plan->rope_panels = ag_divide_up(problem->rope_dim, panel->lanes);
    plan->value_panels = ag_divide_up(problem->value_dim, panel->lanes);
    const bool is_narrow = panel->vector <= NARROW_VECTOR;
    plan->block_rows = is_narrow ? NARROW_BLOCK : WIDE_BLOCK_ROWS;
    plan->block_keys = is_narrow ? NARROW_BLOCK : WIDE_BLOCK_KEYS;
    plan->block_stride = plan->block_keys + 16; /* a column of rows does not fall into the same sets of a cache */
    assert(ATTENTION_STRIP % panel->lanes == 0);
}

static struct attention_tables carve_tables(struct ag_arena *arena, const struct attention_plan *plan)
{
    struct attention_tables tables;
    tables.sequences = ag_take(arena, plan->problem.sequence_count, sizeof *tables.sequences);
    tables.works = ag_take(arena, plan->work_count, sizeof *tables.works);
    tables.waves = ag_take(arena, plan->wave_count, sizeof *tables.waves);
    tables.query_gaps = ag_take(arena, plan->query_gap_count, sizeof *tables.query_gaps);
    tables.key_gaps = ag_take(arena, plan->key_gap_count, sizeof *tables.key_gaps);
    return tables;
}

static ag_status measure(struct attention_plan *plan)
{
    struct ag_arena tables = ag_arena_measure(), lane = ag_arena_measure(), workspace = ag_arena_measure();
    struct attention_workspace unused;
    struct attention_lane unused_lane;
    carve_tables(&tables, plan);
    attention_carve_lane(&lane, plan, &unused_lane);
    attention_carve(&workspace, plan, &unused);
    plan->table_bytes = ag_arena_bytes(&tables);
    plan->lane_bytes = ag_arena_bytes(&lane);
    plan->workspace_bytes = ag_arena_bytes(&workspace);
    AG_REQUIRE(plan->workspace_bytes < INT64_MAX, INVALID, "query, keyIn: the workspace does not fit 64 bits");
    return AG_OK;
}

ag_status attention_make_plan(const struct attention_problem *problem, struct attention_plan *plan)
{
    *plan = (struct attention_plan){.problem = *problem, .kernels = ag_kernels_current(), .lanes = 1};
    if (problem->is_nothing) {
        return AG_OK;
    }
    plan->panel = plan->kernels->panel_of[problem->elem];
    attention_set_sizes(plan);
    count_works(plan);
    plan->query_gap_count = attention_find_gaps(plan, false, NULL);
    plan->key_gap_count = attention_find_gaps(plan, true, NULL);
    const struct ag_config config = ag_config_get();
    plan->lanes =
        (int)ag_larger(1, ag_smaller(ag_config_lanes(&config, attention_work_of(problem)), plan->item_count));
    return measure(plan);
}

void attention_adopt_plan(void *adopted, void *memory)
{
    struct attention_plan *plan = adopted;
    if (plan->problem.is_nothing) {
        return;
    }
    struct ag_arena arena = ag_arena_over(memory);
    plan->tables = carve_tables(&arena, plan);
    if (plan->problem.sequence_count > 0) {
        memcpy(plan->tables.sequences, plan->problem.sequences,
               (size_t)plan->problem.sequence_count * sizeof *plan->tables.sequences);
    }
    plan->problem.sequences = plan->tables.sequences;
    build_works(plan);
    attention_find_gaps(plan, false, plan->tables.query_gaps);
    attention_find_gaps(plan, true, plan->tables.key_gaps);
}

/* --- what `explain` shows --------------------------------------------------------------------------------
 */

const char *attention_why_not_faster(const struct attention_plan *plan)
{
    if (plan->problem.has_overlap) {
        return "outputs-overlap-inputs:staged";
    }
    if (plan->problem.elem == AG_ELEM_BF16 && plan->panel != AG_PANEL_BF16) {
        return "no-fast-bf16-dot-in-table:widened";
    }
    return plan->problem.elem == AG_ELEM_F16 ? "no-f16-products:widened" : "none";
}

void attention_describe_plan(const void *described, char *text, size_t bytes)
{
    const struct attention_plan *plan = described;
    const struct attention_problem *problem = &plan->problem;
    if (problem->is_nothing) {
        snprintf(text, bytes, "nothing-to-do");
        return;
    }
    snprintf(text, bytes,
             "elem=%s panel=%s kernels=%s tile=%dx%d block=%" PRId64 "x%" PRId64 " tiles=%" PRId64
             " sequences=%" PRId64 " items=%" PRId64 " split_sequences=%" PRId64 " waves=%" PRId64
             " lanes=%d lanes_because=%s workspace=%" PRIu64 " lane_bytes=%" PRIu64 " split_bytes=%" PRId64
             " statistics=%s slow_because=%s",
             ag_dtype_name(problem->query.dtype), plan->panel == AG_PANEL_BF16 ? "bf16-pair" : "fp32",
             ag_isa_name(plan->kernels->isa), ATTENTION_TILE, ATTENTION_TILE, plan->block_rows, plan->block_keys,
             plan->tile_count, plan->work_count, plan->item_count, plan->split_count, plan->wave_count, plan->lanes,
             ag_config_lanes_reason(attention_work_of(problem)), plan->workspace_bytes, plan->lane_bytes,
             plan->partial_floats * (int64_t)sizeof(float), attention_layout_name(problem->softmax_layout),
             attention_why_not_faster(plan));
}
