/* Arithmetic on sizes that C leaves to everybody. No overflow: sizes were checked at the edge. */
#ifndef AG_BASE_INTEGER_H
#define AG_BASE_INTEGER_H

#include <stdint.h>

static inline int64_t ag_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ag_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a / b, rounded up; a >= 0. */
static inline int64_t ag_divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The least multiple of step that is not below value >= 0. */
static inline int64_t ag_round_up(int64_t value, int64_t step)
{
    return ag_divide_up(value, step) * step;
}

#endif
