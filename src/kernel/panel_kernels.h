/* Panels: the packed form in which matrices are multiplied, and the kernels that make and use them.
 *
 * A *word* is 32 bits of one operand along the contraction: one float (AG_PANEL_F32) or two bf16, the one with
 * the lower contraction index in the low half (AG_PANEL_BF16). A *panel* is [depth words][lanes]: `lanes` columns
 * of the result side by side, one vector load each. A matrix with more columns is several panels, one after the
 * other. Everything behind the matrix's edge in a panel is zero, so kernels may compute whole panels;
 * pack_lanes leaves the second half alone where no row reaches it, and kernels then compute half.
 *
 *     C[row][lane] += sum over word w of  dot(B[row][w], A[w][lane])
 *
 * Where tiles are used (kernel.h, begin_task) the order of that sum depends on the product's shape, so cutting a product
 * in two may change its last bits; the same product always has the same bits.
 *
 * B is read word by word and broadcast, so it may lie in any order: rows, columns, or rows gathered by pointer. */
#ifndef AG_KERNEL_PANEL_KERNELS_H
#define AG_KERNEL_PANEL_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

enum ag_panel { AG_PANEL_F32, AG_PANEL_BF16, AG_PANEL_COUNT };

/* A matrix of elements, any strides (in elements): element (r, c) at data[r * row_stride + c * col_stride]. */
struct ag_matrix {
    void *data; /* input kernels only read it */
    int64_t rows, cols;
    int64_t row_stride, col_stride;
};

/* Operands of C[rows][panels * lanes] += B . A, or = without `accumulate`. Strides in words (b), floats (c). */
struct ag_multiply {
    const uint32_t *a;      /* [panels][depth][lanes] */
    int64_t a_panel_stride; /* words from one panel to the next; >= depth * lanes */
    int64_t a_word_stride; /* words from one contraction step to the next; 0: lanes. With rows of words (pair == 1) as
                             * they are, this is their stride and a_panel_stride is lanes */
    const uint32_t *b;     /* word (r, w) at b[r * b_row_stride + w * b_word_stride] */
    int64_t b_row_stride, b_word_stride;
    float *c; /* element (r, l) at c[r * c_row_stride + l]; written up to cols rounded up to a vector */
    int64_t c_row_stride;
    int64_t rows, cols, depth; /* cols: lanes wanted, over all panels; depth in words */
    bool accumulate;
};

/* One table per panel type. Indexed by enum ag_elem where the source or the target is a tensor. Counts of 0 are
 * legal everywhere: nothing is touched (only a product over depth 0 is 0, and written). */
struct ag_panel_kernels {
    int pair;   /* contraction elements per word: 1 or 2 */
    int lanes;  /* columns per panel: V_BLOCK * V_LANES */
    int vector; /* lanes of one vector: c rows are written in steps of it */
    int rows;   /* rows per microtile: multiples of it run fastest */

    /* to[r * to_stride + w], w < ceil(cols / pair): the row's elements in words; a half-filled last word gets 0. */
    void (*pack_rows[AG_ELEM_COUNT])(uint32_t *to, int64_t to_stride, const struct ag_matrix *from);

    /* Rows become lanes: to[p][w][l], p < ceil(rows / lanes), w < ceil(cols / pair), l < lanes. */
    void (*pack_lanes[AG_ELEM_COUNT])(uint32_t *to, const struct ag_matrix *from);

    /* Rows become the contraction: to[p * to_panel_stride + w * lanes + l], p < ceil(cols / lanes),
     * w < ceil(rows / pair). */
    void (*pack_depth[AG_ELEM_COUNT])(uint32_t *to, int64_t to_panel_stride, const struct ag_matrix *from);

    void (*multiply)(const struct ag_multiply *m);
};

/* Float rows to tensors and back; they do not depend on the panel type. */
struct ag_row_kernels {
    /* to(r, c) = round(scale * from[r * from_stride + c]) for to->rows x to->cols, to nearest even; the product is
     * a float, so where scale is no power of two it has been rounded once before. */
    void (*store)(const struct ag_matrix *to, const float *from, int64_t from_stride, float scale);

    /* to[r * to_stride + c] = from(r, c) */
    void (*load)(float *to, int64_t to_stride, const struct ag_matrix *from);

    /* to(r, c) = +0 */
    void (*zero)(const struct ag_matrix *to);

    /* Asks for the matrix to be brought into the caches; nothing is read or written. */
    void (*fetch)(const struct ag_matrix *m);
};

#endif
