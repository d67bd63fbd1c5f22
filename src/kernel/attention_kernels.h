/* Kernels of attention: what happens to a block of scores between the products that make it and the products that use
 * it, in the backward pass and in the forward pass. */
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

/* The forward pass: a block of scores, of one step of a softmax over all of a row's keys. Visible as above; `lanes` is a
 * multiple of the table's vector. For every row
 *
 *     m = the largest of max[r] and score(r, l) * scale over the visible lanes (NaN is passed over)
 *     P(r, l) = visible ? exp(score(r, l) * scale - m) : 0
 *     out(r, *) *= exp(max[r] - m);  sum[r] = sum[r] * exp(max[r] - m) + the sum of P(r, *);  max[r] = m
 *
 * where the factor is 1 when m is max[r]. A row starts with max -infinity, sum 0 and out 0. */
struct ag_softmax_block {
    float *score; /* [rows][score_stride]: q . k */
    int64_t score_stride, rows, lanes;
    float scale;
    float *max, *sum; /* [rows] */
    float *out;       /* [rows][out_stride]; out_cols of each, rounded up to a vector, are scaled */
    int64_t out_stride, out_cols;
    const struct ag_lane_range *lane_ranges; /* [rows]; needed with hidden */
    const uint8_t *hidden;                   /* [rows][hidden_stride] */
    int64_t hidden_stride;
    /* AG_PANEL_F32: P takes the place of score. AG_PANEL_BF16: rounded, as words of the contraction over lanes. */
    uint32_t *p_rows; /* [rows][p_stride] */
    int64_t p_stride;
};

struct ag_attention_kernels {
    void (*probabilities[AG_PANEL_COUNT])(const struct ag_score_block *block);

    void (*softmax[AG_PANEL_COUNT])(const struct ag_softmax_block *block);

    /* to[r] = sum over c of a(r, c) * b(r, c), in fp32; a and b have the same rows and cols. */
    void (*row_dots[AG_ELEM_COUNT])(float *to, const struct ag_matrix *a, const struct ag_matrix *b);
};

#endif
