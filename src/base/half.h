/* 16-bit floating point: the scalar definitions. Rounding is to nearest, ties to even; overflow gives infinity;
 * subnormals are kept; a NaN stays a NaN (quiet, payload truncated). Every SIMD word is tested against these
 * over all 65,536 values. */
#ifndef AG_BASE_HALF_H
#define AG_BASE_HALF_H

#include <stdint.h>
#include <string.h>

typedef uint16_t ag_bf16;
typedef uint16_t ag_f16;

static inline uint32_t ag_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float ag_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float ag_bf16_to_f32(ag_bf16 value)
{
    return ag_float_of_bits((uint32_t)value << 16);
}

static inline ag_bf16 ag_f32_to_bf16(float value)
{
    const uint32_t bits = ag_bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (ag_bf16)((bits >> 16) | 0x0040u); /* quiet NaN: rounding up could turn it into infinity */
    }
    return (ag_bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float ag_f16_to_f32(ag_f16 value)
{
    const uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
    const uint32_t magnitude = value & 0x7fffu;
    if (magnitude >= 0x7c00u) { /* infinity, NaN (made quiet, as the hardware does) */
        const uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0;
        return ag_float_of_bits(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13) | quiet);
    }
    /* A half's exponent and fraction, read as a float's, are 2^112 too small; the product is exact. */
    return ag_float_of_bits(sign | ag_bits_of_float(ag_float_of_bits(magnitude << 13) * 0x1p112f));
}

static inline ag_f16 ag_f32_to_f16(float value)
{
    const uint32_t bits = ag_bits_of_float(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (ag_f16)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    }
    if (magnitude >= 0x47800000u) { /* 65536 and above, infinity included */
        return (ag_f16)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { /* below 2^-14: adding 1/2 lets the float unit round at 2^-24 */
        const float shifted = ag_float_of_bits(magnitude) + 0.5f;
        return (ag_f16)(sign | (ag_bits_of_float(shifted) - ag_bits_of_float(0.5f)));
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (ag_f16)(sign | ((rounded - 0x38000000u) >> 13));
}

#endif
