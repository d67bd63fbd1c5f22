/* Rows and positions, as the run files of this folder read them. */
#ifndef AG_OP_MOE_ROWS_H
#define AG_OP_MOE_ROWS_H

#include <stdint.h>
#include <string.h>

#include "base/view.h"

/* sortedIndices[slot]: any number. */
static inline int32_t moe_position(const struct ag_view *sorted_indices, int64_t slot)
{
    const int32_t *indices = ag_view_origin(sorted_indices);
    return indices[slot * sorted_indices->strides[0]];
}

/* to[i] = from[i * stride], elements of elem_bytes each. */
static inline void moe_gather_row(char *to, const char *from, int64_t count, int64_t stride, size_t elem_bytes)
{
    for (int64_t i = 0; i < count; ++i) {
        memcpy(to + i * (int64_t)elem_bytes, from + i * stride * (int64_t)elem_bytes, elem_bytes);
    }
}

#endif
