/* One lane, no instruction set: the definition of every word of the vocabulary. */
#ifndef AG_SIMD_SCALAR_H
#define AG_SIMD_SCALAR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/half.h"

#define V_INLINE static inline __attribute__((always_inline, unused))

enum { V_LANES = 1, V_BLOCK = 8, V_ROWS = 4, V_UNROLL = 1, V_PREFERS_BF16 = 0 };

typedef float v_f32;
typedef uint32_t v_u32;
typedef bool v_mask;

/* One word a line reads as the table it is. */
/* clang-format off */

/* --- floats ------------------------------------------------------------------------------------------- */

V_INLINE v_f32 v_zero(void) { return 0.0f; }
V_INLINE v_f32 v_set1(float x) { return x; }
V_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return a + b; }
V_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return a - b; }
V_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return a * b; }
V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return a * b + c; } /* fmaf() would be a call per element */
V_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return a > b ? a : b; }      /* b when either is NaN */
V_INLINE v_f32 v_min(v_f32 a, v_f32 b) { return a < b ? a : b; }      /* b when either is NaN */
V_INLINE v_f32 v_round(v_f32 x) { return rintf(x); }                  /* to nearest, ties to even */
V_INLINE float v_sum(v_f32 x) { return x; }                           /* of all lanes, in a fixed order */

/* p * 2^n for a whole number n; overflow gives infinity, underflow subnormals and zero. */
V_INLINE v_f32 v_scale2(v_f32 p, v_f32 n)
{
    if (!(n >= -252.0f && n <= 252.0f)) {
        return n < 0.0f ? p * 0.0f : p * INFINITY; /* NaN too: p is NaN then */
    }
    const int half = (int)n / 2; /* two steps: 2^n alone may be out of range */
    return p * ag_float_of_bits((uint32_t)(half + 127) << 23) * ag_float_of_bits((uint32_t)((int)n - half + 127) << 23);
}

/* --- masks -------------------------------------------------------------------------------------------- */

V_INLINE v_mask v_first(int64_t n) { return n > 0; }
V_INLINE v_mask v_and(v_mask a, v_mask b) { return a && b; }
V_INLINE v_mask v_gt(v_f32 a, v_f32 b) { return a > b; } /* false for NaN */
V_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return m ? a : b; }
V_INLINE v_f32 v_keep(v_mask m, v_f32 a) { return m ? a : 0.0f; }
V_INLINE v_mask v_zero_bytes(const uint8_t *p) { return *p == 0; }
V_INLINE v_mask v_zero_bytes_n(const uint8_t *p, int64_t n) { return n > 0 && *p == 0; }

/* --- memory ------------------------------------------------------------------------------------------- */

V_INLINE v_f32 v_load_f32(const float *p) { return *p; }
V_INLINE v_f32 v_load_f16(const ag_f16 *p) { return ag_f16_to_f32(*p); }
V_INLINE v_f32 v_load_bf16(const ag_bf16 *p) { return ag_bf16_to_f32(*p); }
V_INLINE v_f32 v_load_n_f32(const float *p, int64_t n) { return n > 0 ? *p : 0.0f; }
V_INLINE v_f32 v_load_n_f16(const ag_f16 *p, int64_t n) { return n > 0 ? ag_f16_to_f32(*p) : 0.0f; }
V_INLINE v_f32 v_load_n_bf16(const ag_bf16 *p, int64_t n) { return n > 0 ? ag_bf16_to_f32(*p) : 0.0f; }

V_INLINE v_f32 v_round_bf16(v_f32 x) { return ag_bf16_to_f32(ag_f32_to_bf16(x)); } /* to a bf16 number */

V_INLINE void v_store_f32(float *p, v_f32 x) { *p = x; }
V_INLINE void v_store_f16(ag_f16 *p, v_f32 x) { *p = ag_f32_to_f16(x); }
V_INLINE void v_store_bf16(ag_bf16 *p, v_f32 x) { *p = ag_f32_to_bf16(x); }
V_INLINE void v_store_n_f32(float *p, v_f32 x, int64_t n) { if (n > 0) { *p = x; } }
V_INLINE void v_store_n_f16(ag_f16 *p, v_f32 x, int64_t n) { if (n > 0) { *p = ag_f32_to_f16(x); } }
V_INLINE void v_store_n_bf16(ag_bf16 *p, v_f32 x, int64_t n) { if (n > 0) { *p = ag_f32_to_bf16(x); } }

V_INLINE void v_stream_f32(float *p, v_f32 x) { *p = x; }
V_INLINE void v_stream_f16(ag_f16 *p, v_f32 x) { *p = ag_f32_to_f16(x); }
V_INLINE void v_stream_bf16(ag_bf16 *p, v_f32 x) { *p = ag_f32_to_bf16(x); }
V_INLINE void v_fence(void) {}
V_INLINE void v_prefetch(const void *p) { __builtin_prefetch(p, 0, 3); }

/* Two vectors of neighbours: 2 * V_LANES elements. Which lane holds which element is the instruction set's choice,
 * the same for these three words and no others. */
typedef struct { v_f32 a, b; } v_f32x2;
V_INLINE v_f32x2 v_load2_f32(const float *p) { return (v_f32x2){p[0], p[1]}; }
V_INLINE v_f32x2 v_load2_f16(const ag_f16 *p) { return (v_f32x2){v_load_f16(p), v_load_f16(p + 1)}; }
V_INLINE v_f32x2 v_load2_bf16(const ag_bf16 *p) { return (v_f32x2){v_load_bf16(p), v_load_bf16(p + 1)}; }
V_INLINE void v_store2_f32(float *p, v_f32x2 x) { p[0] = x.a, p[1] = x.b; }
V_INLINE void v_store2_f16(ag_f16 *p, v_f32x2 x) { v_store_f16(p, x.a), v_store_f16(p + 1, x.b); }
V_INLINE void v_store2_bf16(ag_bf16 *p, v_f32x2 x) { v_store_bf16(p, x.a), v_store_bf16(p + 1, x.b); }
V_INLINE void v_stream2_f32(float *p, v_f32x2 x) { v_store2_f32(p, x); }
V_INLINE void v_stream2_f16(ag_f16 *p, v_f32x2 x) { v_store2_f16(p, x); }
V_INLINE void v_stream2_bf16(ag_bf16 *p, v_f32x2 x) { v_store2_bf16(p, x); }

/* --- words -------------------------------------------------------------------------------------------- */

V_INLINE v_u32 v_load_u32(const uint32_t *p) { return *p; }
V_INLINE void v_store_u32(uint32_t *p, v_u32 x) { *p = x; }
V_INLINE v_u32 v_set1_u32(uint32_t x) { return x; }
V_INLINE v_u32 v_words_of_f32(v_f32 x) { return ag_bits_of_float(x); }
V_INLINE v_u32 v_pair_bf16(v_f32 lo, v_f32 hi) { return ag_f32_to_bf16(lo) | (uint32_t)ag_f32_to_bf16(hi) << 16; }

/* The same where both are bf16 numbers. */
V_INLINE v_u32 v_pair_exact(v_f32 lo, v_f32 hi) { return ag_bits_of_float(lo) >> 16 | ag_bits_of_float(hi); }

/* As v_store_bf16, for an operand of v_mac_bf16: where that takes subnormals for zero, this may store them so. */
V_INLINE void v_store_operand(ag_bf16 *p, v_f32 x) { v_store_bf16(p, x); }

V_INLINE v_f32 v_mac_f32(v_f32 acc, v_u32 a, v_u32 b)
{
    return ag_float_of_bits(a) * ag_float_of_bits(b) + acc;
}

V_INLINE v_f32 v_mac_bf16(v_f32 acc, v_u32 a, v_u32 b)
{
    acc += ag_float_of_bits(a & 0xffff0000u) * ag_float_of_bits(b & 0xffff0000u);
    return acc + ag_float_of_bits(a << 16) * ag_float_of_bits(b << 16);
}

/* to[c * to_stride + r] = from[r * from_stride + c] for r, c in [0, V_LANES). */
V_INLINE void v_transpose_u32(uint32_t *to, int64_t to_stride, const uint32_t *from, int64_t from_stride)
{
    (void)to_stride, (void)from_stride;
    *to = *from;
}

/* clang-format on */

#endif
