/* The plan of aclnnFlashAttentionUnpaddingScoreGradV3: how phase 2 will do the work, decided in phase 1.
 *
 * Work. An item is (sequence, key head): it owns the dK and dV of its keys, walks over the query heads of its
 * group and their rows, and owns the dQ rows it meets. Where a sequence has few key heads the (query head,
 * row) walk is cut into splits, each an item of its own with its own sums of dK and dV, which are then added
 * in the order of the splits. Blocking, splits and orders depend on the sequence and the heads alone: results
 * are the same bits for any number of threads and for any neighbours in the pack.
 *
 * Tiles. Rows and keys of a sequence are cut into tiles, ATTENTION_TILE of each; a tile without a visible
 * pair is skipped. The first key tile is half a tile wide, so that the tiles of a window narrower than that
 * are not cut at the ends of the sequence: work under a window is exactly proportional to the length. */
#ifndef AG_OP_ATTENTION_PLAN_H
#define AG_OP_ATTENTION_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/parallel.h"
#include "kernel/kernel.h"
#include "op/attention/attention.h"

enum {
    ATTENTION_TILE = 256,      /* rows, and keys, of a tile: keys are packed, and work is skipped, by it */
    ATTENTION_SCORE_ROWS = 64, /* rows whose scores exist before they become bf16 P and dS */
    ATTENTION_STRIP = 64,      /* keys of a block that share one row range; a multiple of every table's panel */
    ATTENTION_CHUNK = 2048     /* rows packed at a time: bounds the scratch of a long sequence */
};

/* One sequence with something to do. */
struct attention_work {
    int64_t sequence;      /* index into problem.sequences */
    int64_t wave;          /* split sequences take turns when their sums do not all fit at once */
    int64_t splits;        /* items per key head */
    int64_t tiles;         /* of one query head */
    int64_t first_item;    /* of this work, counted within the wave; key_heads * splits of them */
    int64_t first_block;   /* of its reduction, likewise; 0 of them when splits == 1 */
    int64_t first_partial; /* floats into the partial sums, [key_heads][splits][key_len][key_cols + value_cols] */
};

/* Rows of a pack that no work covers: their gradients are zero. */
struct attention_gap {
    int64_t begin, rows;
    int64_t first_block; /* of ATTENTION_STRIP rows, counted over the gaps */
};

/* Consecutive works whose partial sums fit together. */
struct attention_wave {
    int64_t work_begin, work_end;
    int64_t items, blocks;
};

/* Built in phase 1 behind the plan, by the same carve that measures them. */
struct attention_tables {
    struct attention_sequence *sequences;
    struct attention_work *works; /* by wave, then the costliest items first */
    struct attention_wave *waves;
    struct attention_gap *query_gaps, *key_gaps;
};

struct attention_plan {
    struct attention_problem problem; /* its sequences point into tables once adopted */
    const struct ag_kernels *kernels;
    enum ag_panel panel;
    int lanes; /* of the thread pool */

    /* Sizes. Columns are those of float rows, each part rounded up to whole vectors; words those of packed
     * rows. */
    int64_t dim_words, rope_words, query_words, value_words; /* query_words: dim and rope joined */
    int64_t query_stride, value_stride;                      /* words from one packed row to the next */
    int64_t dim_cols, rope_cols, key_cols, value_cols;       /* key_cols: dim and rope joined */
    int64_t dim_panels, rope_panels, value_panels;
    int64_t block_rows, block_keys; /* rows and keys whose P and dS exist at a time */
    int64_t block_stride;           /* floats from one row of a block's scores to the next */
    int64_t chunk_rows;             /* at most ATTENTION_CHUNK */
    int64_t max_key_len;            /* over the works that are not split */
    bool has_depth;   /* operands of the sums over rows are packed apart; else the packed rows serve, and ... */
    bool has_padding; /* ... some rows of words do not end with a whole vector */

    int64_t work_count, wave_count, split_count; /* split_count: works with more than one split */
    int64_t query_gap_count, key_gap_count;
    int64_t partial_floats; /* of the largest wave */
    int64_t item_count;     /* over all waves */
    int64_t tile_count;     /* over all sequences and query heads */
    struct attention_tables tables;
    uint64_t table_bytes, workspace_bytes;
    uint64_t lane_bytes; /* the part of the workspace that each lane has for itself */
};

/* Fails only when sizes do not fit 64 bits. The plan holds pointers to problem->sequences until it is
 * adopted. */
ag_status attention_make_plan(const struct attention_problem *problem, struct attention_plan *plan);

/* struct ag_operator's adopt: `tables` has plan->table_bytes bytes, 64-byte aligned. */
void attention_adopt_plan(void *plan, void *tables);

/* struct ag_operator's describe. */
void attention_describe_plan(const void *plan, char *text, size_t bytes);

/* struct ag_operator's run (attention_run.c). */
ag_status attention_run_plan(const void *plan, void *workspace);

/* --- pieces that the forward's plan uses too ------------------------------------------------------------- */

/* A sequence that adds to a result. */
bool attention_has_work(const struct attention_problem *problem, const struct attention_sequence *sequence);

/* From problem, kernels and panel: the sizes of packed rows. */
void attention_set_sizes(struct attention_plan *plan);

/* Writes the gaps of query or key rows when there is a table for them; returns their number. */
int64_t attention_find_gaps(const struct attention_plan *plan, bool is_key, struct attention_gap *gaps);

/* For descriptions of plans: "bf16", and what a faster path would need, or "none". */
const char *attention_why_not_faster(const struct attention_plan *plan);

/* Operations of the backward pass if every row saw every key of its sequence: for ag_config_lanes, so not exact. */
double attention_work_of(const struct attention_problem *problem);

/* --- tiles ---------------------------------------------------------------------------------------------- */

/* The columns that rows [begin, end) of the sequence see between them. */
struct attention_columns attention_columns_of_rows(const struct attention_sequence *sequence, int64_t begin,
                                                   int64_t end);

/* The keys of a key tile. */
struct attention_columns attention_key_tile(const struct attention_sequence *sequence, int64_t tile);

/* Rows, or keys, of a step along the mask's edge in a block of `keys`: what the edge crosses is computed step by step. */
int64_t attention_edge(const struct attention_plan *plan, int64_t keys);

/* The key tile that holds a column. */
int64_t attention_key_tile_of(int64_t column);

/* Number of tiles of a row tile, and of all row tiles of a sequence, for one query head. */
int64_t attention_row_tile_count(const struct attention_sequence *sequence, int64_t row_tile);
int64_t attention_sequence_tile_count(const struct attention_sequence *sequence);

/* --- splits --------------------------------------------------------------------------------------------- */

/* The walk of a work is over positions [0, group * row tiles): query head by query head, row tile by row
 * tile. A split takes consecutive positions with nearly its share of the tiles. */
struct attention_columns attention_split_positions(const struct attention_plan *plan,
                                                   const struct attention_work *work, int64_t split);

static inline int64_t attention_row_tiles(const struct attention_sequence *sequence)
{
    return (sequence->query_len + ATTENTION_TILE - 1) / ATTENTION_TILE;
}

#endif
