/* AVX-512 with BF16, and AMX: tiles of 16 rows of 16 words, multiplied by one instruction. To the vocabulary of
 * simd_avx512.h it adds V_TILE and the words with it. */
#ifndef AG_SIMD_AMX_H
#define AG_SIMD_AMX_H

#if !defined(__AMX_TILE__) && !defined(__AMXTILE__) /* gcc, clang 14 */
#    error "compile with -mamx-tile -mamx-bf16"
#endif
#include <stdbool.h>
#include <string.h>

#include "simd/simd_avx512bf16.h"

#define V_TILE 16 /* rows, and words of a row; equals V_LANES */

/* The intrinsics of gcc 12 do not tell the compiler which memory they read and write: all of it must be settled before
 * the first and is unknown after the last. */
#define V_TILE_BARRIER() __asm__ volatile("" ::: "memory")

/* Tile registers are set up before the first v_tile_mac of a task, on its thread, and given back after the last: the
 * operating system then has nothing to save. */
V_INLINE void v_tiles_begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; ++i) {
        config.row_bytes[i] = V_TILE * sizeof(uint32_t);
        config.rows[i] = V_TILE;
    }
    V_TILE_BARRIER();
    _tile_loadconfig(&config);
}

V_INLINE void v_tiles_end(void)
{
    _tile_release();
}

/* Operands of C (+)= rows . lanes; strides in words and floats. */
struct v_tile_block {
    const uint32_t *rows; /* word (r, w) at rows[r * row_stride + w] */
    int64_t row_stride;
    const uint32_t *lanes; /* word (w, l) at lanes[w * lane_stride + l] */
    int64_t lane_stride;
    float *c;
    int64_t c_stride;
    int64_t words; /* a multiple of V_TILE */
    bool accumulate;
};

/* The names of tile registers are part of the instruction: C in 0 to 3, rows in 4 and 5, lanes in 6 and 7. */
#define V_TILE_C(tile, r, l)                                                                                         \
    if (b->accumulate) {                                                                                             \
        _tile_loadd(tile, b->c + (r)*V_TILE * b->c_stride + (l)*V_TILE, (size_t)b->c_stride * sizeof(float));        \
    } else {                                                                                                         \
        _tile_zero(tile);                                                                                            \
    }
#define V_TILE_STORE(tile, r, l)                                                                                     \
    _tile_stored(tile, b->c + (r)*V_TILE * b->c_stride + (l)*V_TILE, (size_t)b->c_stride * sizeof(float))

/* One or two tiles of rows against one or two of lanes; subnormal operands and sums count as zero. */
V_INLINE void v_tile_mac(const struct v_tile_block *b, const bool has_two_rows, const bool has_two_lanes)
{
    const size_t row_bytes = (size_t)b->row_stride * sizeof(uint32_t);
    const size_t lane_bytes = (size_t)b->lane_stride * sizeof(uint32_t);
    V_TILE_BARRIER();
    V_TILE_C(0, 0, 0)
    if (has_two_lanes) {
        V_TILE_C(1, 0, 1)
    }
    if (has_two_rows) {
        V_TILE_C(2, 1, 0)
    }
    if (has_two_rows && has_two_lanes) {
        V_TILE_C(3, 1, 1)
    }
    for (int64_t w = 0; w < b->words; w += V_TILE) {
        const uint32_t *rows = b->rows + w, *lanes = b->lanes + w * b->lane_stride;
        _tile_loadd(4, rows, row_bytes);
        _tile_loadd(6, lanes, lane_bytes);
        _tile_dpbf16ps(0, 4, 6);
        if (has_two_lanes) {
            _tile_loadd(7, lanes + V_TILE, lane_bytes);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (has_two_rows) {
            _tile_loadd(5, rows + V_TILE * b->row_stride, row_bytes);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (has_two_rows && has_two_lanes) {
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    V_TILE_STORE(0, 0, 0);
    if (has_two_lanes) {
        V_TILE_STORE(1, 0, 1);
    }
    if (has_two_rows) {
        V_TILE_STORE(2, 1, 0);
    }
    if (has_two_rows && has_two_lanes) {
        V_TILE_STORE(3, 1, 1);
    }
    V_TILE_BARRIER();
}

#undef V_TILE_C
#undef V_TILE_STORE

#endif
