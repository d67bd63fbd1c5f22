/* Tensors as dense doubles, for the definitions. */
#ifndef AG_OP_ATTENTION_DENSE_H
#define AG_OP_ATTENTION_DENSE_H

#include "op/attention/attention.h"

/* [rows, heads, dim] */
struct attention_dense {
    double *data;
    int64_t heads, dim;
};

static inline double *attention_dense_row(const struct attention_dense *x, int64_t t, int64_t n)
{
    return x->data + (t * x->heads + n) * x->dim;
}

struct attention_dense_copy {
    struct attention_dense *to;
    const struct ag_view *from; /* absent: dim 0 */
};

/* One block of memory, *block, for all copies; the caller frees it with ag_free. AG_CREATE_EXECUTOR when out of it. */
ag_status attention_dense_open(const struct attention_dense_copy *copies, int count, double **block);

/* sum of a[d] * b[d]; *magnitude gains the sum of absolute values. */
double attention_dense_dot(const double *a, const double *b, int64_t count, double *magnitude);

/* What a result's type does to it: unit roundoff (0 for FLOAT, whose sums are its own rounding), the smallest subnormal,
 * and the size below which an operand or a product may count as zero. */
struct attention_rounding {
    double unit, tiny, flush;
};
struct attention_rounding attention_rounding_of(enum ag_elem elem);

#endif
