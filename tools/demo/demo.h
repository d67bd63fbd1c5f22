/* make demo: the three operators through the public interface on inputs as a training step has them, each result held
 * against the operator's definition in double. */
#ifndef DEMO_H
#define DEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

/* A contiguous tensor; `memory` comes from aclrtMalloc, which on this library is ordinary memory. */
struct demo_tensor {
    aclTensor *handle;
    void *memory;
    aclDataType type;
    int64_t elems;
};

/* One operator on one problem. The functions are called in this order, `define` on a thread of its own. */
struct demo_case {
    const char *operator_name;
    const char *problem; /* as the table shows it */

    void (*prepare)(void);                                      /* inputs, outputs; may take a second */
    aclnnStatus (*plan)(uint64_t *workspace, aclOpExecutor **); /* phase 1 */
    aclnnStatus (*run)(void *workspace, uint64_t bytes, aclOpExecutor *, aclrtStream); /* phase 2 */
    aclnnStatus (*define)(void);                                                       /* the definition in double */
    double (*worst)(const char **output); /* largest |error| / bound, and in which output */
    void (*release)(void);
};

extern const struct demo_case demo_attention, demo_indexer, demo_moe;

/* --- demo_tensor.c: stops the program when out of memory, as all of the demo may -------------------------- */

struct demo_tensor demo_tensor_create(aclDataType type, int rank, const int64_t *dims);
void demo_tensor_destroy(struct demo_tensor *tensor);

/* About normally distributed numbers of mean 0; the same ones on every machine. BF16 and FLOAT. */
void demo_tensor_fill(const struct demo_tensor *tensor, float deviation, uint64_t seed);

/* All elements as floats, in memory of the caller's (free). BF16 only. */
float *demo_floats(const struct demo_tensor *tensor);

void *demo_alloc(int64_t count, size_t elem_bytes);

/* A number in [0, 2^32) that depends on seed and index alone. */
uint32_t demo_random(uint64_t seed, uint64_t index);

/* Scalar product, in 16 partial sums. */
float demo_dot(const float *a, const float *b, int64_t count);

/* The definition of one output, and how far a right result may be off. */
struct demo_want {
    const char *name;
    const struct demo_tensor *got;
    double *value, *bound; /* got->elems each */
};

void demo_want_create(struct demo_want *want, const char *name, const struct demo_tensor *got);
void demo_want_destroy(struct demo_want *want);

/* Over the elements of `count` outputs: largest |got - value| / bound. Infinity where a result is not a number or where
 * the bound is 0 and the result is not exact. */
double demo_worst(const struct demo_want *wants, int count, const char **output);

#endif
