/* AVX-512 F, BW, VL, DQ: 16 lanes, 32 registers. The words are defined in simd_scalar.h. */
#ifndef AG_SIMD_AVX512_H
#define AG_SIMD_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#include "base/half.h"

#define V_INLINE static inline __attribute__((always_inline, unused))

#ifdef __AVX512BF16__
enum { V_LANES = 16, V_BLOCK = 4, V_ROWS = 6, V_UNROLL = V_BLOCK, V_PREFERS_BF16 = 1 };
#else
enum { V_LANES = 16, V_BLOCK = 4, V_ROWS = 6, V_UNROLL = V_BLOCK, V_PREFERS_BF16 = 0 };
#endif

typedef __m512 v_f32;
typedef __m512i v_u32;
typedef __mmask16 v_mask;

/* One word a line reads as the table it is. */
/* clang-format off */

/* --- floats ------------------------------------------------------------------------------------------- */

V_INLINE v_f32 v_zero(void) { return _mm512_setzero_ps(); }
V_INLINE v_f32 v_set1(float x) { return _mm512_set1_ps(x); }
V_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return _mm512_add_ps(a, b); }
V_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return _mm512_sub_ps(a, b); }
V_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return _mm512_mul_ps(a, b); }
V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return _mm512_fmadd_ps(a, b, c); }
V_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return _mm512_max_ps(a, b); }
V_INLINE v_f32 v_min(v_f32 a, v_f32 b) { return _mm512_min_ps(a, b); }
V_INLINE v_f32 v_round(v_f32 x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
V_INLINE v_f32 v_scale2(v_f32 p, v_f32 n) { return _mm512_scalef_ps(p, n); }

V_INLINE float v_sum(v_f32 x)
{
    const __m256 s = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_shuffle_ps(t, t, 1)));
}

/* --- masks -------------------------------------------------------------------------------------------- */

V_INLINE v_mask v_first(int64_t n) { return n >= V_LANES ? 0xffff : n <= 0 ? 0 : (v_mask)((1u << n) - 1); }
V_INLINE v_mask v_and(v_mask a, v_mask b) { return a & b; }
V_INLINE v_mask v_gt(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
V_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return _mm512_mask_mov_ps(b, m, a); }
V_INLINE v_f32 v_keep(v_mask m, v_f32 a) { return _mm512_maskz_mov_ps(m, a); }
V_INLINE v_mask v_zero_bytes(const uint8_t *p)
{
    return _mm_testn_epi8_mask(_mm_loadu_si128((const __m128i *)(const void *)p), _mm_set1_epi8(-1));
}
V_INLINE v_mask v_zero_bytes_n(const uint8_t *p, int64_t n)
{
    const v_mask m = v_first(n);
    return _mm_mask_testn_epi8_mask(m, _mm_maskz_loadu_epi8(m, p), _mm_set1_epi8(-1));
}

/* --- memory ------------------------------------------------------------------------------------------- */

V_INLINE __m256i v_load_u16(const uint16_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
V_INLINE __m256i v_load_n_u16(const uint16_t *p, int64_t n) { return _mm256_maskz_loadu_epi16(v_first(n), p); }
V_INLINE void v_store_u16(uint16_t *p, __m256i x) { _mm256_storeu_si256((__m256i *)(void *)p, x); }
V_INLINE void v_store_n_u16(uint16_t *p, __m256i x, int64_t n) { _mm256_mask_storeu_epi16(p, v_first(n), x); }
V_INLINE v_f32 v_widen_bf16(__m256i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }
V_INLINE __m256i v_narrow_f16(v_f32 x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }

/* Nearest even; a NaN keeps its sign and upper payload and becomes quiet. In integers even where there is an
 * instruction: that one flushes subnormals. */
V_INLINE __m512i v_bf16_bits(v_f32 x) /* in the high half of each word; the low half is undefined */
{
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x00400000));
}

V_INLINE __m256i v_narrow_bf16(v_f32 x) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(v_bf16_bits(x), 16)); }

V_INLINE v_f32 v_round_bf16(v_f32 x)
{
    return _mm512_castsi512_ps(_mm512_and_si512(v_bf16_bits(x), _mm512_set1_epi32((int)0xffff0000u)));
}

V_INLINE v_f32 v_load_f32(const float *p) { return _mm512_loadu_ps(p); }
V_INLINE v_f32 v_load_f16(const ag_f16 *p) { return _mm512_cvtph_ps(v_load_u16(p)); }
V_INLINE v_f32 v_load_bf16(const ag_bf16 *p) { return v_widen_bf16(v_load_u16(p)); }
V_INLINE v_f32 v_load_n_f32(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(v_first(n), p); }
V_INLINE v_f32 v_load_n_f16(const ag_f16 *p, int64_t n) { return _mm512_cvtph_ps(v_load_n_u16(p, n)); }
V_INLINE v_f32 v_load_n_bf16(const ag_bf16 *p, int64_t n) { return v_widen_bf16(v_load_n_u16(p, n)); }

V_INLINE void v_store_f32(float *p, v_f32 x) { _mm512_storeu_ps(p, x); }
V_INLINE void v_store_f16(ag_f16 *p, v_f32 x) { v_store_u16(p, v_narrow_f16(x)); }
V_INLINE void v_store_bf16(ag_bf16 *p, v_f32 x) { v_store_u16(p, v_narrow_bf16(x)); }
V_INLINE void v_store_n_f32(float *p, v_f32 x, int64_t n) { _mm512_mask_storeu_ps(p, v_first(n), x); }
V_INLINE void v_store_n_f16(ag_f16 *p, v_f32 x, int64_t n) { v_store_n_u16(p, v_narrow_f16(x), n); }
V_INLINE void v_store_n_bf16(ag_bf16 *p, v_f32 x, int64_t n) { v_store_n_u16(p, v_narrow_bf16(x), n); }

V_INLINE void v_stream_f32(float *p, v_f32 x) { _mm512_stream_ps(p, x); }
V_INLINE void v_stream_f16(ag_f16 *p, v_f32 x) { _mm256_stream_si256((__m256i *)(void *)p, v_narrow_f16(x)); }
V_INLINE void v_stream_bf16(ag_bf16 *p, v_f32 x) { _mm256_stream_si256((__m256i *)(void *)p, v_narrow_bf16(x)); }
V_INLINE void v_fence(void) { _mm_sfence(); }
V_INLINE void v_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

/* bf16: the even elements in a, the odd ones in b, which costs no shuffle. */
typedef struct { v_f32 a, b; } v_f32x2;
V_INLINE v_f32x2 v_load2_f32(const float *p) { return (v_f32x2){v_load_f32(p), v_load_f32(p + V_LANES)}; }
V_INLINE v_f32x2 v_load2_f16(const ag_f16 *p) { return (v_f32x2){v_load_f16(p), v_load_f16(p + V_LANES)}; }
V_INLINE v_f32x2 v_load2_bf16(const ag_bf16 *p)
{
    const __m512i x = _mm512_loadu_si512(p);
    return (v_f32x2){_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                     _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)))};
}
V_INLINE __m512i v_narrow2_f16(v_f32x2 x)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(v_narrow_f16(x.a)), v_narrow_f16(x.b), 1);
}
V_INLINE __m512i v_narrow2_bf16(v_f32x2 x)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(v_bf16_bits(x.a), 16), v_bf16_bits(x.b));
}
V_INLINE void v_store2_f32(float *p, v_f32x2 x) { v_store_f32(p, x.a), v_store_f32(p + V_LANES, x.b); }
V_INLINE void v_store2_f16(ag_f16 *p, v_f32x2 x) { _mm512_storeu_si512(p, v_narrow2_f16(x)); }
V_INLINE void v_store2_bf16(ag_bf16 *p, v_f32x2 x) { _mm512_storeu_si512(p, v_narrow2_bf16(x)); }
V_INLINE void v_stream2_f32(float *p, v_f32x2 x) { v_stream_f32(p, x.a), v_stream_f32(p + V_LANES, x.b); }
V_INLINE void v_stream2_f16(ag_f16 *p, v_f32x2 x) { _mm512_stream_si512((__m512i *)(void *)p, v_narrow2_f16(x)); }
V_INLINE void v_stream2_bf16(ag_bf16 *p, v_f32x2 x) { _mm512_stream_si512((__m512i *)(void *)p, v_narrow2_bf16(x)); }

/* --- words -------------------------------------------------------------------------------------------- */

V_INLINE v_u32 v_load_u32(const uint32_t *p) { return _mm512_loadu_si512(p); }
V_INLINE void v_store_u32(uint32_t *p, v_u32 x) { _mm512_storeu_si512(p, x); }
V_INLINE v_u32 v_set1_u32(uint32_t x) { return _mm512_set1_epi32((int)x); }
V_INLINE v_u32 v_words_of_f32(v_f32 x) { return _mm512_castps_si512(x); }

V_INLINE v_u32 v_pair_exact(v_f32 lo, v_f32 hi)
{
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(lo), 16), _mm512_castps_si512(hi));
}

V_INLINE v_f32 v_mac_f32(v_f32 acc, v_u32 a, v_u32 b)
{
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), acc);
}

#ifdef __AVX512BF16__
V_INLINE v_u32 v_pair_bf16(v_f32 lo, v_f32 hi)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
                                           23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
}

V_INLINE void v_store_operand(ag_bf16 *p, v_f32 x) { v_store_u16(p, (__m256i)_mm512_cvtneps_pbh(x)); }

V_INLINE v_f32 v_mac_bf16(v_f32 acc, v_u32 a, v_u32 b) /* subnormal operands count as zero */
{
    return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
}
#else
V_INLINE void v_store_operand(ag_bf16 *p, v_f32 x) { v_store_bf16(p, x); }
V_INLINE v_u32 v_pair_bf16(v_f32 lo, v_f32 hi)
{
    const __m512i low = _mm512_cvtepu16_epi32(v_narrow_bf16(lo));
    return _mm512_or_si512(low, _mm512_slli_epi32(_mm512_cvtepu16_epi32(v_narrow_bf16(hi)), 16));
}

V_INLINE v_f32 v_mac_bf16(v_f32 acc, v_u32 a, v_u32 b)
{
    const __m512i high = _mm512_set1_epi32((int)0xffff0000u);
    acc = v_mac_f32(acc, _mm512_and_si512(a, high), _mm512_and_si512(b, high));
    return v_mac_f32(acc, _mm512_slli_epi32(a, 16), _mm512_slli_epi32(b, 16));
}
#endif

V_INLINE void v_transpose_u32(uint32_t *to, int64_t to_stride, const uint32_t *from, int64_t from_stride)
{
    __m512i r[16], t[16];
    for (int i = 0; i < 16; ++i) {
        r[i] = _mm512_loadu_si512(from + i * from_stride);
    }
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; ++i) { /* 128-bit quarters 0, 2 and 1, 3 of both operands */
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        _mm512_storeu_si512(to + i * to_stride, _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88));
        _mm512_storeu_si512(to + (i + 8) * to_stride, _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd));
        _mm512_storeu_si512(to + (i + 4) * to_stride, _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88));
        _mm512_storeu_si512(to + (i + 12) * to_stride, _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd));
    }
}

/* clang-format on */

#endif
