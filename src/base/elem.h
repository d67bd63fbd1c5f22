/* One element of an array of any of the three gradient types: for references, tests and the few values that are
 * read once per row. Inner loops have vector words for this (simd/). */
#ifndef AG_BASE_ELEM_H
#define AG_BASE_ELEM_H

#include <math.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/half.h"

/* Exact: every 16-bit value is a float. */
static inline float ag_elem_load(enum ag_elem elem, const void *array, int64_t index)
{
    switch (elem) {
    case AG_ELEM_F16:
        return ag_f16_to_f32(((const ag_f16 *)array)[index]);
    case AG_ELEM_BF16:
        return ag_bf16_to_f32(((const ag_bf16 *)array)[index]);
    default:
        return ((const float *)array)[index];
    }
}

/* Rounds to nearest, ties to even. */
static inline void ag_elem_store(enum ag_elem elem, void *array, int64_t index, float value)
{
    switch (elem) {
    case AG_ELEM_F16:
        ((ag_f16 *)array)[index] = ag_f32_to_f16(value);
        break;
    case AG_ELEM_BF16:
        ((ag_bf16 *)array)[index] = ag_f32_to_bf16(value);
        break;
    default:
        ((float *)array)[index] = value;
    }
}

/* What a store and a load make of the value. */
static inline float ag_elem_round(enum ag_elem elem, float value)
{
    switch (elem) {
    case AG_ELEM_F16:
        return ag_f16_to_f32(ag_f32_to_f16(value));
    case AG_ELEM_BF16:
        return ag_bf16_to_f32(ag_f32_to_bf16(value));
    default:
        return value;
    }
}

/* Half the distance of neighbouring numbers of the type at `value`: the most that rounding a result to it may cost.
 * Below the smallest normal number the distance no longer shrinks. */
static inline double ag_elem_half_ulp(enum ag_elem elem, double value)
{
    static const int fraction_bits[AG_ELEM_COUNT] = {[AG_ELEM_F32] = 23, [AG_ELEM_F16] = 10, [AG_ELEM_BF16] = 7};
    const int smallest_exponent = elem == AG_ELEM_F16 ? -14 : -126;
    int exponent;
    frexp(value, &exponent); /* |value| in [2^(exponent - 1), 2^exponent) */
    exponent = value != 0 && exponent - 1 > smallest_exponent ? exponent - 1 : smallest_exponent;
    return ldexp(0.5, exponent - fraction_bits[elem]);
}

#endif
