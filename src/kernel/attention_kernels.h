/* Kernels of attention's backward pass: what happens to a block of scores between the products that make it
 * and the products that use it. */
#ifndef AG_KERNEL_ATTENTION_KERNELS_H
#define AG_KERNEL_ATTENTION_KERNELS_H

#include <stdint.h>

#include "base/dtype.h"
#include "kernel/panel_kernels.h"

/* Lanes [begin, end) of a row; any values: only lanes that exist count. */
struct ag_lane_range {
    int64_t begin, end;
};

/* A block of scores: rows are queries, lanes are keys. `lanes` is a multiple of the table's vector.
 *
 *     visible(r, l) = lane_ranges[r] holds l (NULL: all do) and hidden(r, l) == 0 (NULL: all are)
 *     P(r, l)  = visible ? exp(score(r, l) * scale - max[r]) * inverse_sum[r] : 0
 *     dS(r, l) = visible ? P(r, l) * (dprob(r, l) - delta[r]) : 0
 *
 * Where a lane is not visible the result is +0 whatever the operands are, NaN and infinity included. */
struct ag_score_block {
    float *score, *dprob; /* [rows][score_stride] each: q . k and dy . v */
    int64_t score_stride, stride, rows, lanes;
    float scale;
    const float *max, *inverse_sum, *delta;  /* [rows] */
    const struct ag_lane_range *lane_ranges; /* [rows] */
    const uint8_t *hidden;                   /* [rows][hidden_stride] */
    int64_t hidden_stride;
    /* AG_PANEL_F32: P takes the place of score and dS that of dprob; the members below are not used.
     * AG_PANEL_BF16: rounded to bf16, as words of the contraction over rows (an odd last row is paired with
     * zeros) and, for dS, over lanes too; score and dprob are left with undefined content. */
    uint32_t *p_depth, *ds_depth; /* [ceil(rows / 2)][stride] */
    uint32_t *ds_rows;            /* [rows][stride / 2] */
};

struct ag_attention_kernels {
    void (*probabilities[AG_PANEL_COUNT])(const struct ag_score_block *block);

    /* to[r] = sum over c of a(r, c) * b(r, c), in fp32; a and b have the same rows and cols. */
    void (*row_dots[AG_ELEM_COUNT])(float *to, const struct ag_matrix *a, const struct ag_matrix *b);
};

#endif
