/* What the files of phase 2 share: the workspace, the job, the item.
 *
 * Workspace:
 *
 *     | lane table | lane 0 | lane 1 | ... | partial sums of a wave | dsink | dq | dq rope | dk | dk rope | dv |
 *
 * where the last five exist only when an output shares memory with an input: then they take the results until
 * all inputs have been read. */
#ifndef AG_OP_ATTENTION_RUN_H
#define AG_OP_ATTENTION_RUN_H

#include <stdint.h>

#include "base/arena.h"
#include "kernel/kernel.h"
#include "op/attention/attention_plan.h"

/* Packed rows as ag_multiply's `a`: the operand of sums over these rows. Where a word is one element the rows themselves
 * serve; else rows are paired, and packed apart. */
struct attention_depth {
    uint32_t *words;                   /* of the first row */
    int64_t word_stride, panel_stride; /* as a_word_stride, a_panel_stride */
    int64_t rope;                      /* words from the dim part to the rope part */
};

/* The scratch of one lane. `chunk` are the rows packed at a time. */
struct attention_lane {
    /* the sums of an item, unless it is one of several splits */
    float *dkey, *dvalue; /* [max_key_len][key_cols], [max_key_len][value_cols] */
    /* a chunk of query rows */
    uint32_t *query_rows, *dy_rows; /* [chunk][query_stride], [chunk][value_stride] */
    struct attention_depth query_depth, dy_depth;
    float *dquery;                     /* [chunk][key_cols] */
    float *max, *inverse_sum, *delta;  /* [chunk]; zeros for a row that sees nothing */
    struct attention_columns *columns; /* [chunk]; empty for a row that sees nothing */
    /* a tile of keys */
    uint32_t *key_lanes, *value_lanes; /* [panels of keys][words][panel lanes] */
    struct attention_depth key_depth;
    /* a block of scores */
    float *score, *dprob; /* [score_rows][score_stride] */
    int64_t score_rows, score_stride;
    uint32_t *p_depth, *ds_depth;      /* AG_PANEL_BF16: [block_rows / 2][block_stride] */
    uint32_t *ds_rows;                 /* AG_PANEL_BF16: [block_rows][block_stride / 2] */
    struct ag_lane_range *lane_ranges; /* [block_rows] */
    uint8_t *hidden;                   /* with mask bytes: [block_rows][ATTENTION_STRIP] */
};

enum { OUT_DQ, OUT_DQ_ROPE, OUT_DK, OUT_DK_ROPE, OUT_DV, OUT_COUNT };

static inline const struct ag_view *attention_output(const struct attention_problem *problem, int output)
{
    const struct ag_view *const views[OUT_COUNT] = {&problem->dq, &problem->dq_rope, &problem->dk, &problem->dk_rope,
                                                    &problem->dv};
    return views[output];
}

/* A rope output may be absent, and any may have no element. */
static inline bool attention_is_wanted(const struct ag_view *output)
{
    return output->present && !ag_view_is_empty(output);
}

struct attention_workspace {
    struct attention_lane *lanes; /* [plan->lanes] */
    float *partial;               /* [plan->partial_floats] */
    float *dsink;                 /* [N1]; with a sink */
    void *staged[OUT_COUNT];      /* dense, in the outputs' type; NULL when not staged */
};

/* One lane's part; attention_carve calls it for every lane. */
void attention_carve_lane(struct ag_arena *arena, const struct attention_plan *plan, struct attention_lane *lane);

void attention_carve(struct ag_arena *arena, const struct attention_plan *plan,
                     struct attention_workspace *workspace);

/* One call of phase 2. */
struct attention_job {
    const struct attention_plan *plan;
    const struct attention_problem *problem;
    const struct attention_wave *wave; /* the one in progress */
    const struct ag_panel_kernels *panel;
    const struct ag_row_kernels *rows;
    struct ag_view outputs[OUT_COUNT]; /* where results go: the caller's tensors, or their stand-ins */
    struct attention_workspace workspace;
    enum ag_softmax_layout layout; /* of the statistics; not AUTO */
};

/* One item in progress. */
struct attention_item {
    const struct attention_job *job;
    const struct attention_sequence *sequence;
    int64_t key_head;
    struct attention_lane *lane;
    float *dkey, *dvalue; /* [key_len][key_cols], [key_len][value_cols]: the lane's, or a split's partial sums */
};

/* Rows [begin, end) of one query head, at most plan->chunk_rows: adds to the item's dkey and dvalue and
 * writes the rows' dq. attention_run_chunk.c. */
void attention_run_chunk(const struct attention_item *item, int64_t query_head, int64_t begin, int64_t end);

/* The gradient of the sink, where there is one: into the workspace, and, once no input will be read again, from there
 * into dsink. attention_run_sink.c. */
void attention_run_sink(struct attention_job *job);
void attention_store_sink(const struct attention_job *job);

/* Rows [begin, begin + rows) of one head of a [T, N, D] view. */
struct ag_matrix attention_head_rows(const struct ag_view *view, int64_t begin, int64_t rows, int64_t head);

/* --- pieces that the forward uses too -------------------------------------------------------------------- */

/* `rows` x `cols` items: the arena sees to products that do not fit. */
void *attention_take(struct ag_arena *arena, int64_t rows, int64_t cols, size_t item_bytes);

/* Packed rows that serve as they are as the operand of sums over them. */
struct attention_depth attention_rows_as_depth(const struct attention_plan *plan, uint32_t *rows, int64_t row_stride);

/* Room for `rows` rows packed apart as that operand. */
struct attention_depth attention_carve_depth(struct ag_arena *arena, const struct attention_plan *plan, int64_t rows,
                                             int64_t panels);

/* Blocks of ATTENTION_STRIP rows over the gaps, and the rows of one. */
int64_t attention_gap_blocks(const struct attention_gap *gaps, int64_t count);
struct attention_columns attention_gap_rows(const struct attention_gap *gaps, int64_t count, int64_t block);

/* A view of the same shape, dense, in memory of its own. */
struct ag_view attention_stand_in(const struct ag_view *view, void *memory);

/* `from` has elements side by side. */
void attention_copy_matrix(const struct ag_matrix *to, const struct ag_matrix *from, size_t elem_bytes);

#endif
