/* The plan of the forward pass: how phase 2 will do the work, decided in phase 1.
 *
 * Work. An item owns up to ATTENTION_FORWARD_ROWS query rows of one sequence and key head: a stretch of rows of one query
 * head or, where the sequence is short, all its rows of several heads of the group, so that packed keys serve many rows.
 * It walks once over the keys that its rows see, ATTENTION_FORWARD_KEYS at a time, and keeps for each row the maximum,
 * the sum and the sum of values so far. Items depend on the sequence and the heads alone: results are the same bits for
 * any number of threads and for any neighbours in the pack.
 *
 * Workspace: | lane table | lane 0 | lane 1 | ... | attention | max | sum |, where the last three exist only when an
 * output shares memory with an input. No part of it grows with the keys. */
#ifndef AG_OP_ATTENTION_FORWARD_PLAN_H
#define AG_OP_ATTENTION_FORWARD_PLAN_H

#include "op/attention/attention_plan.h"
#include "op/attention/attention_run.h"

enum {
    ATTENTION_FORWARD_ROWS = 512, /* rows of an item, over its heads: packing keys then costs 1 to 2 percent */
    ATTENTION_FORWARD_KEYS = 256, /* keys packed at a time, a multiple of every table's panel */
    ATTENTION_FORWARD_BLOCK_ROWS =
        48, /* rows whose scores exist at a time, at most: whole tiles where there are such */
    ATTENTION_FORWARD_FLOAT_ROWS = 24, /* and as float panels: less is computed beyond the edges of intervals */
    ATTENTION_FORWARD_STRIDE = ATTENTION_FORWARD_KEYS + 16 /* floats between rows of scores: not a power of two */
};

/* One sequence with something to do. Items count row stretches, last rows first (under a causal mask they cost most),
 * then key heads, then parts of the group. */
struct attention_forward_work {
    int64_t sequence;    /* index into problem.sequences */
    int64_t rows, heads; /* of an item, at most */
    int64_t stretches, parts;
    int64_t first_item; /* stretches * key_heads * parts of them */
};

struct attention_forward_plan {
    struct attention_plan base; /* problem, kernels, sizes, gaps of query rows; its own works stay empty */
    int64_t item_rows;          /* of the largest item, over its heads */
    int64_t block_rows;
    int64_t work_count;
    struct attention_forward_work *works; /* the costliest items first */
};

/* One lane's scratch. `rows` are plan->item_rows: heads one after the other, each of the item's rows. */
struct attention_forward_lane {
    uint32_t *query_rows; /* [rows][query_stride] */
    float *out;           /* [rows][value_cols] */
    float *max, *sum;     /* [rows] */
    /* a tile of keys */
    uint32_t *key_lanes; /* [panels of keys][query_words][panel lanes] */
    struct attention_depth value_depth;
    /* a block of scores */
    float *score;     /* [ATTENTION_FORWARD_BLOCK_ROWS][ATTENTION_FORWARD_STRIDE] */
    uint32_t *p_rows; /* AG_PANEL_BF16: [ATTENTION_FORWARD_BLOCK_ROWS][ATTENTION_FORWARD_STRIDE / 2] */
    struct ag_lane_range *lane_ranges; /* [ATTENTION_FORWARD_BLOCK_ROWS] */
    uint8_t *hidden;                   /* with mask bytes: [ATTENTION_FORWARD_BLOCK_ROWS][ATTENTION_FORWARD_KEYS] */
};

enum { FORWARD_OUT_ATTENTION, FORWARD_OUT_MAX, FORWARD_OUT_SUM, FORWARD_OUT_COUNT };

struct attention_forward_workspace {
    struct attention_forward_lane *lanes; /* [plan->base.lanes] */
    void *staged[FORWARD_OUT_COUNT];      /* dense; NULL when not staged */
};

static inline const struct ag_view *attention_forward_output(const struct attention_problem *problem, int output)
{
    const struct ag_view *const views[FORWARD_OUT_COUNT] = {&problem->attention_in, &problem->softmax_max,
                                                            &problem->softmax_sum};
    return views[output];
}

/* As attention_make_plan, attention_adopt_plan, attention_describe_plan, attention_run_plan, attention_carve. */
ag_status attention_forward_make_plan(const struct attention_problem *problem, struct attention_forward_plan *plan);
void attention_forward_adopt_plan(void *plan, void *tables);
void attention_forward_describe_plan(const void *plan, char *text, size_t bytes);
ag_status attention_forward_run_plan(const void *plan, void *workspace);
void attention_forward_carve(struct ag_arena *arena, const struct attention_forward_plan *plan,
                             struct attention_forward_workspace *workspace);

#endif
