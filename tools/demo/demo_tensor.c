#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "demo.h"

void *demo_alloc(int64_t count, size_t elem_bytes)
{
    void *memory = calloc((size_t)count + 1, elem_bytes);
    if (!memory) {
        fprintf(stderr, "demo: out of memory\n");
        exit(4);
    }
    return memory;
}

struct demo_tensor demo_tensor_create(aclDataType type, int rank, const int64_t *dims)
{
    struct demo_tensor tensor = {.type = type, .elems = 1};
    for (int d = 0; d < rank; ++d) {
        tensor.elems *= dims[d];
    }
    const size_t bytes = (size_t)tensor.elems * aclDataTypeSize(type);
    if (aclrtMalloc(&tensor.memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS) {
        tensor.handle =
            aclCreateTensor(dims, (uint64_t)rank, type, NULL, 0, ACL_FORMAT_ND, dims, (uint64_t)rank, tensor.memory);
    }
    if (!tensor.handle) {
        fprintf(stderr, "demo: a tensor of %zu bytes: %s\n", bytes, aclGetRecentErrMsg());
        exit(4);
    }
    memset(tensor.memory, 0xff, bytes); /* NaN: what is not written will show */
    return tensor;
}

void demo_tensor_destroy(struct demo_tensor *tensor)
{
    aclDestroyTensor(tensor->handle);
    aclrtFree(tensor->memory);
}

uint32_t demo_random(uint64_t seed, uint64_t index)
{
    uint64_t x = (index + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u; /* splitmix64's mixer */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ (x >> 31)) >> 16);
}

/* The sum of the four bytes of a random number has variance 4 * 65535 / 12: close enough to normal. */
static float normal(uint64_t seed, uint64_t index)
{
    const uint32_t r = demo_random(seed, index);
    const int sum = (int)((r & 255) + (r >> 8 & 255) + (r >> 16 & 255) + (r >> 24));
    return (float)(sum - 510) / 147.8f;
}

void demo_tensor_fill(const struct demo_tensor *tensor, float deviation, uint64_t seed)
{
    for (int64_t i = 0; i < tensor->elems; ++i) {
        const float value = deviation * normal(seed, (uint64_t)i);
        if (tensor->type == ACL_BF16) {
            ((ag_bf16 *)tensor->memory)[i] = ag_f32_to_bf16(value);
        } else {
            ((float *)tensor->memory)[i] = value;
        }
    }
}

float *demo_floats(const struct demo_tensor *tensor)
{
    float *values = demo_alloc(tensor->elems, sizeof *values);
    for (int64_t i = 0; i < tensor->elems; ++i) {
        values[i] = ag_bf16_to_f32(((const ag_bf16 *)tensor->memory)[i]);
    }
    return values;
}

float demo_dot(const float *a, const float *b, int64_t count)
{
    float part[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        for (int lane = 0; lane < 16; ++lane) {
            part[lane] += a[i + lane] * b[i + lane];
        }
    }
    for (; i < count; ++i) {
        sum += a[i] * b[i];
    }
    for (int lane = 0; lane < 16; ++lane) {
        sum += part[lane];
    }
    return sum;
}

void demo_want_create(struct demo_want *want, const char *name, const struct demo_tensor *got)
{
    want->name = name;
    want->got = got;
    want->value = demo_alloc(got->elems, sizeof *want->value);
    want->bound = demo_alloc(got->elems, sizeof *want->bound);
}

void demo_want_destroy(struct demo_want *want)
{
    free(want->value);
    free(want->bound);
}

static double element(const struct demo_tensor *tensor, int64_t i)
{
    if (tensor->type == ACL_BF16) {
        return (double)ag_bf16_to_f32(((const ag_bf16 *)tensor->memory)[i]);
    }
    return (double)((const float *)tensor->memory)[i];
}

double demo_worst(const struct demo_want *wants, int count, const char **output)
{
    double worst = 0;
    *output = wants[0].name;
    for (const struct demo_want *want = wants; want < wants + count; ++want) {
        for (int64_t i = 0; i < want->got->elems; ++i) {
            const double error = fabs(element(want->got, i) - want->value[i]);
            const double ratio = error == 0                            ? 0
                                 : want->bound[i] > 0 && !isnan(error) ? error / want->bound[i]
                                                                       : INFINITY;
            if (ratio > worst) {
                worst = ratio;
                *output = want->name;
            }
        }
    }
    return worst;
}
