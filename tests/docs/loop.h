/* What the loop_*.c programs share. Each fills random inputs, runs the loop of an operator's page (LOOP, extracted by page.py
 * into loop.inc) and the library on them, and compares. All is float, so both round only in their sums. */
#ifndef LOOP_H
#define LOOP_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclgrad/aclgrad.h"
#include "aclnn/acl_meta.h"

#define CHECK(call)  loop_check((call), #call)
#define COUNT(array) (sizeof(array) / sizeof(float))

static void loop_check(int status, const char *call)
{
    if (status != 0) {
        const char *text = aclGetRecentErrMsg();
        printf("%s: %d %s\n", call, status, text ? text : "");
        exit(1);
    }
}

static aclTensor *tensor_of(void *memory, aclDataType type, int rank, const int64_t *dims)
{
    return aclCreateTensor(dims, (uint64_t)rank, type, NULL, 0, ACL_FORMAT_ND, dims, (uint64_t)rank, memory);
}

/* -1 to 1. */
static float random_float(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)state * 0x1p-31f;
}

static void fill(void *values, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        ((float *)values)[i] = random_float();
    }
}

static inline float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* Elements are of order 1, and some ten terms are summed. */
static void expect_same(const char *what, const void *of_loop, const void *of_library, size_t count)
{
    const float *a = of_loop, *b = of_library;
    double most = 0;
    for (size_t i = 0; i < count; ++i) {
        most = fmax(most, fabs((double)a[i]));
        if (!(fabs((double)a[i] - (double)b[i]) <= 1e-5 * (1 + fabs((double)a[i])))) {
            printf("%s[%zu]: the loop gives %g, the library %g\n", what, i, (double)a[i], (double)b[i]);
            exit(1);
        }
    }
    if (most == 0) {
        printf("%s: all is 0\n", what);
        exit(1);
    }
}

#endif
