#include "op/attention/attention_dense.h"

#include <math.h>

#include "base/check.h"
#include "base/elem.h"
#include "base/memory.h"

double attention_read(const struct ag_view *view, int64_t i, int64_t j, int64_t d)
{
    const int64_t at = i * view->strides[0] + j * view->strides[1] + d * view->strides[2];
    return ag_elem_load(ag_elem_of(view->dtype), ag_view_origin(view), at);
}

static void copy_dense(double *to, const struct ag_view *view)
{
    for (int64_t t = 0; t < view->dims[0]; ++t) {
        for (int64_t n = 0; n < view->dims[1]; ++n) {
            for (int64_t d = 0; d < view->dims[2]; ++d) {
                *to++ = attention_read(view, t, n, d);
            }
        }
    }
}

ag_status attention_dense_open(const struct attention_dense_copy *copies, int count, double **block)
{
    int64_t elems = 1;
    for (int i = 0; i < count; ++i) {
        elems += copies[i].from->present ? ag_view_elems(copies[i].from) : 0;
    }
    double *next = *block = ag_alloc((size_t)elems * sizeof **block);
    AG_REQUIRE(*block, CREATE_EXECUTOR, "reference: out of memory for %lld elements", (long long)elems);
    for (int i = 0; i < count; ++i) {
        const struct ag_view *view = copies[i].from;
        *copies[i].to = (struct attention_dense){next, 1, 0};
        if (view->present) {
            *copies[i].to = (struct attention_dense){next, view->dims[1], view->dims[2]};
            copy_dense(next, view);
            next += ag_view_elems(view);
        }
    }
    return AG_OK;
}

double attention_dense_dot(const double *a, const double *b, int64_t count, double *magnitude)
{
    double sum = 0;
    for (int64_t d = 0; d < count; ++d) {
        sum += a[d] * b[d];
        *magnitude += fabs(a[d] * b[d]);
    }
    return sum;
}

struct attention_rounding attention_rounding_of(enum ag_elem elem)
{
    static const struct attention_rounding roundings[AG_ELEM_COUNT] = {
        [AG_ELEM_F32] = {0, 0x1p-149, 0},
        [AG_ELEM_F16] = {0x1p-11, 0x1p-24, 0},
        [AG_ELEM_BF16] = {0x1p-8, 0x1p-133, 0x1p-126}}; /* the bf16 dot instruction flushes */
    return roundings[elem];
}
