#include <cblas.h>
#include <stddef.h>

#include "peer.h"

static void *open_lane(void)
{
    static char nothing;
    return &nothing;
}

static void close_lane(void *lane)
{
    (void)lane;
}

static void multiply(void *lane, const struct product *p, const void *a, const void *b, float *c)
{
    (void)lane;
    cblas_sgemm(CblasRowMajor, p->is_a_turned ? CblasTrans : CblasNoTrans, p->is_b_turned ? CblasTrans : CblasNoTrans,
                (int)p->rows, (int)p->cols, (int)p->depth, 1, a, (int)p->a_stride, b, (int)p->b_stride,
                p->accumulates ? 1 : 0, c, (int)p->c_stride);
}

const struct backend openblas_backend = {"openblas", NULL, open_lane, close_lane, multiply};
