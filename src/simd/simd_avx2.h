/* AVX2, FMA, F16C: 8 lanes, 16 registers. The words are defined in simd_scalar.h. */
#ifndef AG_SIMD_AVX2_H
#define AG_SIMD_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

#define V_INLINE static inline __attribute__((always_inline, unused))

enum { V_LANES = 8, V_BLOCK = 2, V_ROWS = 6, V_UNROLL = V_BLOCK, V_PREFERS_BF16 = 0 };

typedef __m256 v_f32;
typedef __m256i v_u32;
typedef __m256i v_mask; /* all bits of a lane, or none */

/* One word a line reads as the table it is. */
/* clang-format off */

/* --- floats ------------------------------------------------------------------------------------------- */

V_INLINE v_f32 v_zero(void) { return _mm256_setzero_ps(); }
V_INLINE v_f32 v_set1(float x) { return _mm256_set1_ps(x); }
V_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return _mm256_add_ps(a, b); }
V_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return _mm256_sub_ps(a, b); }
V_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return _mm256_mul_ps(a, b); }
V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return _mm256_fmadd_ps(a, b, c); }
V_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return _mm256_max_ps(a, b); }
V_INLINE v_f32 v_min(v_f32 a, v_f32 b) { return _mm256_min_ps(a, b); }
V_INLINE v_f32 v_round(v_f32 x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

V_INLINE float v_sum(v_f32 x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

V_INLINE v_f32 v_scale2(v_f32 p, v_f32 n)
{
    const v_f32 bounded = v_min(v_set1(252.0f), v_max(v_set1(-252.0f), n));
    const __m256i whole = _mm256_cvtps_epi32(bounded);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}

/* --- masks -------------------------------------------------------------------------------------------- */

V_INLINE v_mask v_first(int64_t n)
{
    const int count = n < 0 ? 0 : n > V_LANES ? V_LANES : (int)n;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
V_INLINE v_mask v_and(v_mask a, v_mask b) { return _mm256_and_si256(a, b); }
V_INLINE v_mask v_gt(v_f32 a, v_f32 b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GT_OQ)); }
V_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m)); }
V_INLINE v_f32 v_keep(v_mask m, v_f32 a) { return _mm256_and_ps(_mm256_castsi256_ps(m), a); }

V_INLINE v_mask v_zero_bytes(const uint8_t *p)
{
    const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    return _mm256_cmpeq_epi32(bytes, _mm256_setzero_si256());
}

V_INLINE v_mask v_zero_bytes_n(const uint8_t *p, int64_t n)
{
    uint8_t bytes[V_LANES];
    memset(bytes, 1, sizeof bytes);
    if (n > 0) {
        memcpy(bytes, p, n < V_LANES ? (size_t)n : V_LANES);
    }
    return v_zero_bytes(bytes);
}

/* --- memory ------------------------------------------------------------------------------------------- */

/* The first n of 8 16-bit elements, zeros behind: there is no masked load for them. */
V_INLINE __m128i v_load_n_u16(const uint16_t *p, int64_t n)
{
    uint16_t elems[V_LANES] = {0};
    if (n > 0) {
        memcpy(elems, p, (n < V_LANES ? (size_t)n : V_LANES) * sizeof *p);
    }
    return _mm_loadu_si128((const __m128i *)(const void *)elems);
}

V_INLINE void v_store_n_u16(uint16_t *p, __m128i x, int64_t n)
{
    uint16_t elems[V_LANES];
    _mm_storeu_si128((__m128i *)(void *)elems, x);
    if (n > 0) {
        memcpy(p, elems, (n < V_LANES ? (size_t)n : V_LANES) * sizeof *p);
    }
}

/* Less than a vector of floats. Not the masked instructions: their stores are microcoded on AMD, and emulators fault on
 * lanes that are masked out. */
V_INLINE __m256 v_load_some_f32(const float *p, int64_t n)
{
    float elems[V_LANES] = {0};
    for (int64_t i = 0; i < n; ++i) {
        elems[i] = p[i];
    }
    return _mm256_loadu_ps(elems);
}

V_INLINE void v_store_some_f32(float *p, __m256 x, int64_t n)
{
    float elems[V_LANES];
    _mm256_storeu_ps(elems, x);
    for (int64_t i = 0; i < n; ++i) {
        p[i] = elems[i];
    }
}

V_INLINE __m128i v_load_u16(const uint16_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
V_INLINE void v_store_u16(uint16_t *p, __m128i x) { _mm_storeu_si128((__m128i *)(void *)p, x); }
V_INLINE v_f32 v_widen_bf16(__m128i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)); }
V_INLINE __m128i v_narrow_f16(v_f32 x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }

/* Nearest even; a NaN keeps its sign and upper payload and becomes quiet. */
V_INLINE __m256i v_bf16_bits(v_f32 x) /* in the high half of each word; the low half is undefined */
{
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const v_mask is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

V_INLINE __m128i v_narrow_bf16(v_f32 x)
{
    const __m256i high = _mm256_srli_epi32(v_bf16_bits(x), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}

V_INLINE v_f32 v_round_bf16(v_f32 x)
{
    return _mm256_castsi256_ps(_mm256_and_si256(v_bf16_bits(x), _mm256_set1_epi32((int)0xffff0000u)));
}

V_INLINE v_f32 v_load_f32(const float *p) { return _mm256_loadu_ps(p); }
V_INLINE v_f32 v_load_f16(const ag_f16 *p) { return _mm256_cvtph_ps(v_load_u16(p)); }
V_INLINE v_f32 v_load_bf16(const ag_bf16 *p) { return v_widen_bf16(v_load_u16(p)); }
V_INLINE v_f32 v_load_n_f32(const float *p, int64_t n) { return n >= V_LANES ? v_load_f32(p) : v_load_some_f32(p, n); }
V_INLINE v_f32 v_load_n_f16(const ag_f16 *p, int64_t n) { return _mm256_cvtph_ps(v_load_n_u16(p, n)); }
V_INLINE v_f32 v_load_n_bf16(const ag_bf16 *p, int64_t n) { return v_widen_bf16(v_load_n_u16(p, n)); }

V_INLINE void v_store_f32(float *p, v_f32 x) { _mm256_storeu_ps(p, x); }
V_INLINE void v_store_f16(ag_f16 *p, v_f32 x) { v_store_u16(p, v_narrow_f16(x)); }
V_INLINE void v_store_bf16(ag_bf16 *p, v_f32 x) { v_store_u16(p, v_narrow_bf16(x)); }
V_INLINE void v_store_n_f32(float *p, v_f32 x, int64_t n) { n >= V_LANES ? v_store_f32(p, x) : v_store_some_f32(p, x, n); }
V_INLINE void v_store_n_f16(ag_f16 *p, v_f32 x, int64_t n) { v_store_n_u16(p, v_narrow_f16(x), n); }
V_INLINE void v_store_n_bf16(ag_bf16 *p, v_f32 x, int64_t n) { v_store_n_u16(p, v_narrow_bf16(x), n); }

V_INLINE void v_stream_f32(float *p, v_f32 x) { _mm256_stream_ps(p, x); }
V_INLINE void v_stream_f16(ag_f16 *p, v_f32 x) { _mm_stream_si128((__m128i *)(void *)p, v_narrow_f16(x)); }
V_INLINE void v_stream_bf16(ag_bf16 *p, v_f32 x) { _mm_stream_si128((__m128i *)(void *)p, v_narrow_bf16(x)); }
V_INLINE void v_fence(void) { _mm_sfence(); }
V_INLINE void v_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

/* bf16: the even elements in a, the odd ones in b, which costs no shuffle. */
typedef struct { v_f32 a, b; } v_f32x2;
V_INLINE v_f32x2 v_load2_f32(const float *p) { return (v_f32x2){v_load_f32(p), v_load_f32(p + V_LANES)}; }
V_INLINE v_f32x2 v_load2_f16(const ag_f16 *p) { return (v_f32x2){v_load_f16(p), v_load_f16(p + V_LANES)}; }
V_INLINE v_f32x2 v_load2_bf16(const ag_bf16 *p)
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return (v_f32x2){_mm256_castsi256_ps(_mm256_slli_epi32(x, 16)),
                     _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000u)))};
}
V_INLINE __m256i v_narrow2_f16(v_f32x2 x)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(v_narrow_f16(x.a)), v_narrow_f16(x.b), 1);
}
V_INLINE __m256i v_narrow2_bf16(v_f32x2 x)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(v_bf16_bits(x.a), 16), v_bf16_bits(x.b), 0xaa);
}
V_INLINE void v_store2_f32(float *p, v_f32x2 x) { v_store_f32(p, x.a), v_store_f32(p + V_LANES, x.b); }
V_INLINE void v_store2_f16(ag_f16 *p, v_f32x2 x) { _mm256_storeu_si256((__m256i *)(void *)p, v_narrow2_f16(x)); }
V_INLINE void v_store2_bf16(ag_bf16 *p, v_f32x2 x) { _mm256_storeu_si256((__m256i *)(void *)p, v_narrow2_bf16(x)); }
V_INLINE void v_stream2_f32(float *p, v_f32x2 x) { v_stream_f32(p, x.a), v_stream_f32(p + V_LANES, x.b); }
V_INLINE void v_stream2_f16(ag_f16 *p, v_f32x2 x) { _mm256_stream_si256((__m256i *)(void *)p, v_narrow2_f16(x)); }
V_INLINE void v_stream2_bf16(ag_bf16 *p, v_f32x2 x) { _mm256_stream_si256((__m256i *)(void *)p, v_narrow2_bf16(x)); }

/* --- words -------------------------------------------------------------------------------------------- */

V_INLINE v_u32 v_load_u32(const uint32_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
V_INLINE void v_store_u32(uint32_t *p, v_u32 x) { _mm256_storeu_si256((__m256i *)(void *)p, x); }
V_INLINE v_u32 v_set1_u32(uint32_t x) { return _mm256_set1_epi32((int)x); }
V_INLINE v_u32 v_words_of_f32(v_f32 x) { return _mm256_castps_si256(x); }

V_INLINE v_u32 v_pair_bf16(v_f32 lo, v_f32 hi)
{
    const __m256i low = _mm256_cvtepu16_epi32(v_narrow_bf16(lo));
    return _mm256_or_si256(low, _mm256_slli_epi32(_mm256_cvtepu16_epi32(v_narrow_bf16(hi)), 16));
}

V_INLINE v_u32 v_pair_exact(v_f32 lo, v_f32 hi)
{
    return _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(lo), 16), _mm256_castps_si256(hi));
}
V_INLINE void v_store_operand(ag_bf16 *p, v_f32 x) { v_store_bf16(p, x); }

V_INLINE v_f32 v_mac_f32(v_f32 acc, v_u32 a, v_u32 b)
{
    return _mm256_fmadd_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), acc);
}

V_INLINE v_f32 v_mac_bf16(v_f32 acc, v_u32 a, v_u32 b)
{
    const __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    acc = v_mac_f32(acc, _mm256_and_si256(a, high), _mm256_and_si256(b, high));
    return v_mac_f32(acc, _mm256_slli_epi32(a, 16), _mm256_slli_epi32(b, 16));
}

V_INLINE void v_transpose_u32(uint32_t *to, int64_t to_stride, const uint32_t *from, int64_t from_stride)
{
    __m256 r[8], pair[8], quad[8];
    for (int i = 0; i < 8; ++i) {
        r[i] = _mm256_loadu_ps((const float *)(const void *)(from + i * from_stride));
    }
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
        quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
        float *low = (float *)(void *)(to + i * to_stride);
        _mm256_storeu_ps(low, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20));
        _mm256_storeu_ps(low + 4 * to_stride, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31));
    }
}

/* clang-format on */

#endif
