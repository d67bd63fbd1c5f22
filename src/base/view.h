/* A tensor as the library sees it after the check: where its elements lie, and nothing else. */
#ifndef AG_BASE_VIEW_H
#define AG_BASE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

enum { AG_MAX_RANK = 8 };

/* Element (i0, i1, ...) lies at data + (offset + sum of i_d * strides[d]) * bytes of dtype.
 * Strides and offset count elements. An absent optional tensor has present == false and all else zero. */
struct ag_view {
    void *data;     /* start of the storage; may be NULL until phase 2 (memory is set later) */
    int64_t offset; /* elements from data to element (0, 0, ...) */
    int64_t dims[AG_MAX_RANK];
    int64_t strides[AG_MAX_RANK];
    int64_t storage_elems; /* size of the storage, or -1 when it is not known (storage rank 0) */
    int rank;
    int dtype;  /* an aclDataType number */
    int format; /* an aclFormat number */
    bool present;
};

/* Product of the dims (1 for rank 0). The tensor's constructor has checked that it fits. */
int64_t ag_view_elems(const struct ag_view *view);

/* A dim is 0. */
bool ag_view_is_empty(const struct ag_view *view);

/* Strides are those of a dense row-major tensor (dims of 1 may have any stride; empty counts as contiguous). */
bool ag_view_is_contiguous(const struct ag_view *view);

/* Address of element (0, 0, ...). */
void *ag_view_origin(const struct ag_view *view);

/* Where the last element lies, in elements from the start of the storage; of a view that is not empty. */
int64_t ag_view_last(const struct ag_view *view);

/* First and last byte (exclusive) that the view can touch; begin == end for an empty view. */
void ag_view_bytes(const struct ag_view *view, uintptr_t *begin, uintptr_t *end);

/* The byte ranges of a and b intersect. Absent, empty or memory-less views overlap nothing. */
bool ag_views_overlap(const struct ag_view *a, const struct ag_view *b);

/* The byte ranges intersect, and not only because the elements of one lie between those of the other: their first or last
 * bytes are the same, or one is contiguous and an end of the other lies in it. True only where bytes are shared. */
bool ag_views_share_bytes(const struct ag_view *a, const struct ag_view *b);

/* Steps along two of the dims (or along one whose stride is 0) lead to one element's memory: such an output cannot hold
 * its values. Steps along three dims that meet are not found. */
bool ag_view_meets_itself(const struct ag_view *view);

/* Every element lies inside the storage (true when the storage size is unknown). */
bool ag_view_is_inside_storage(const struct ag_view *view);

/* "[2, 3, 128]" into text; returns text. Eight dims of 20 characters and what stands between them: 177 bytes. */
enum { AG_SHAPE_TEXT = 192 };
const char *ag_shape_text(char text[AG_SHAPE_TEXT], int rank, const int64_t *dims);

#endif
