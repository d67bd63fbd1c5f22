/* Compiled once per instruction set: AG_ISA is its name (scalar, avx2, ...), AG_ISA_ID its enumerator and
 * AG_ISA_HEADER its vocabulary.
 * All loops are in the .inc files; here they are instantiated per element and panel type and put into the one symbol
 * that this file exports. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include AG_ISA_HEADER
#include "simd/simd_exp.h"

#include "kernel/kernel.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

#include "kernel/moe_rows.inc"
#include "kernel/multiply.inc"
#ifdef V_TILE
#    include "kernel/multiply_tiles.inc"
#endif
#include "kernel/indexer_score.inc"
#include "kernel/indexer_scatter.inc"
#ifdef V_TILE
#    include "kernel/indexer_tiles.inc"
#endif
#include "kernel/indexer_weigh.inc"
#include "kernel/attention_probabilities.inc"
#include "kernel/attention_softmax.inc"

enum { ROWS_AHEAD = 8 }; /* are fetched: 3 and 16 gain less */

/* --- per element type ---------------------------------------------------------------------------------- */

#define ELEM      float
#define ELEM_NAME f32
#include "kernel/rows.inc"
#include "kernel/pack.inc"
#include "kernel/moe_unpermute_grad.inc"
#include "kernel/moe_sum_rows.inc"
#include "kernel/attention_row_dots.inc"
#undef ELEM
#undef ELEM_NAME

#define ELEM      ag_f16
#define ELEM_NAME f16
#include "kernel/rows.inc"
#include "kernel/pack.inc"
#include "kernel/moe_unpermute_grad.inc"
#include "kernel/moe_sum_rows.inc"
#include "kernel/attention_row_dots.inc"
#undef ELEM
#undef ELEM_NAME

#define ELEM      ag_bf16
#define ELEM_NAME bf16
#define ELEM_IS_BF16
#include "kernel/rows.inc"
#include "kernel/pack.inc"
#include "kernel/moe_unpermute_grad.inc"
#include "kernel/moe_sum_rows.inc"
#include "kernel/attention_row_dots.inc"
#undef ELEM
#undef ELEM_NAME
#undef ELEM_IS_BF16

static void begin_task(void)
{
#ifdef V_TILE
    v_tiles_begin();
#endif
}

static void end_task(void)
{
#ifdef V_TILE
    v_tiles_end();
#endif
}

static void exp_rows(float *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i += V_LANES) {
        v_store_n_f32(to + i, v_exp(v_load_n_f32(from + i, count - i)), count - i);
    }
}

/* --- the table ----------------------------------------------------------------------------------------- */

#define ROW_KERNELS(elem)                                                                                            \
    {                                                                                                                \
        .store = store_rows_##elem, .load = load_rows_##elem, .zero = zero_rows_##elem, .fetch = fetch_rows_##elem   \
    }

#define PANEL_KERNELS(panel, pair_)                                                                                  \
    {                                                                                                                \
        .pair = pair_, .lanes = V_BLOCK * V_LANES, .vector = V_LANES, .rows = V_ROWS,                                \
        .pack_rows = {pack_rows_f32_##panel, pack_rows_f16_##panel, pack_rows_bf16_##panel},                         \
        .pack_lanes = {pack_lanes_f32_##panel, pack_lanes_f16_##panel, pack_lanes_bf16_##panel},                     \
        .pack_depth = {pack_depth_f32_##panel, pack_depth_f16_##panel, pack_depth_bf16_##panel},                     \
        .multiply = multiply_##panel                                                                                 \
    }

#define INDEXER_KERNELS(panel)                                                                                       \
    {                                                                                                                \
        .score = indexer_score_##panel, .gather = indexer_gather_##panel, .scatter = indexer_scatter_##panel         \
    }

extern const struct ag_kernels PASTE(ag_kernels_, AG_ISA);
const struct ag_kernels PASTE(ag_kernels_, AG_ISA) = {
    .isa = AG_ISA_ID,
    .panel_of = {[AG_ELEM_F32] = AG_PANEL_F32,
                 [AG_ELEM_F16] = AG_PANEL_F32,
                 [AG_ELEM_BF16] = V_PREFERS_BF16 ? AG_PANEL_BF16 : AG_PANEL_F32},
    .panel = {[AG_PANEL_F32] = PANEL_KERNELS(f32, 1), [AG_PANEL_BF16] = PANEL_KERNELS(bf16, 2)},
    .rows = {[AG_ELEM_F32] = ROW_KERNELS(f32), [AG_ELEM_F16] = ROW_KERNELS(f16), [AG_ELEM_BF16] = ROW_KERNELS(bf16)},
    .indexer = {[AG_PANEL_F32] = INDEXER_KERNELS(f32), [AG_PANEL_BF16] = INDEXER_KERNELS(bf16)},
    .indexer_weigh = indexer_weigh,
    .moe = {.streams_products = MOE_STREAMS_PRODUCTS,
            .scale_dot = {moe_scale_dot_f32, moe_scale_dot_f16, moe_scale_dot_bf16},
            .sum_rows = {moe_sum_rows_f32, moe_sum_rows_f16, moe_sum_rows_bf16},
            .copy_row = moe_copy_row,
            .zero_row = moe_zero_row,
            .fence = moe_fence},
    .attention = {.probabilities = {[AG_PANEL_F32] = probabilities_f32, [AG_PANEL_BF16] = probabilities_bf16},
                  .softmax = {[AG_PANEL_F32] = softmax_f32, [AG_PANEL_BF16] = softmax_bf16},
                  .row_dots = {row_dots_f32, row_dots_f16, row_dots_bf16}},
    .begin_task = begin_task,
    .end_task = end_task,
    .exp = exp_rows,
};
