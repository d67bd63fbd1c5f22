#include "base/view.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

int64_t ag_view_elems(const struct ag_view *view)
{
    int64_t elems = 1;
    for (int d = 0; d < view->rank; ++d) {
        elems *= view->dims[d];
    }
    return elems;
}

bool ag_view_is_empty(const struct ag_view *view)
{
    for (int d = 0; d < view->rank; ++d) {
        if (view->dims[d] == 0) {
            return true;
        }
    }
    return false;
}

bool ag_view_is_contiguous(const struct ag_view *view)
{
    int64_t dense = 1;
    if (ag_view_is_empty(view)) {
        return true;
    }
    for (int d = view->rank - 1; d >= 0; --d) {
        if (view->dims[d] != 1 && view->strides[d] != dense) {
            return false;
        }
        dense *= view->dims[d];
    }
    return true;
}

void *ag_view_origin(const struct ag_view *view)
{
    char *data = view->data; /* null where there is no element: nothing may be added to it */
    return data ? data + view->offset * (int64_t)ag_dtype_bytes(view->dtype) : NULL;
}

/* Strides are never negative (checked at creation). */
int64_t ag_view_last(const struct ag_view *view)
{
    int64_t last = view->offset;
    for (int d = 0; d < view->rank; ++d) {
        last += (view->dims[d] - 1) * view->strides[d];
    }
    return last;
}

void ag_view_bytes(const struct ag_view *view, uintptr_t *begin, uintptr_t *end)
{
    const uintptr_t bytes = ag_dtype_bytes(view->dtype);
    *begin = (uintptr_t)view->data + (uintptr_t)view->offset * bytes;
    *end = ag_view_is_empty(view) ? *begin : (uintptr_t)view->data + (uintptr_t)(ag_view_last(view) + 1) * bytes;
}

bool ag_views_overlap(const struct ag_view *a, const struct ag_view *b)
{
    uintptr_t a_begin, a_end, b_begin, b_end;
    if (!a->present || !b->present || !a->data || !b->data) {
        return false;
    }
    ag_view_bytes(a, &a_begin, &a_end);
    ag_view_bytes(b, &b_begin, &b_end);
    return a_begin < a_end && b_begin < b_end && a_begin < b_end && b_begin < a_end;
}

static bool covers_an_end(const struct ag_view *whole, const struct ag_view *other)
{
    uintptr_t begin, end, other_begin, other_end;
    ag_view_bytes(whole, &begin, &end);
    ag_view_bytes(other, &other_begin, &other_end);
    return ag_view_is_contiguous(whole) &&
           ((begin <= other_begin && other_begin < end) || (begin < other_end && other_end <= end));
}

bool ag_views_share_bytes(const struct ag_view *a, const struct ag_view *b)
{
    uintptr_t a_begin, a_end, b_begin, b_end;
    if (!ag_views_overlap(a, b)) {
        return false;
    }
    ag_view_bytes(a, &a_begin, &a_end);
    ag_view_bytes(b, &b_begin, &b_end);
    return a_begin == b_begin || a_end == b_end || covers_an_end(a, b) || covers_an_end(b, a);
}

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b > 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* x steps of stride a reach as far as y of stride b first where x = b / divisor and y = a / divisor. */
static bool dims_meet(const struct ag_view *view, int d, int e)
{
    const int64_t a = view->strides[d], b = view->strides[e];
    const int64_t divisor = greatest_divisor(a, b);
    return divisor > 0 && b / divisor < view->dims[d] && a / divisor < view->dims[e];
}

bool ag_view_meets_itself(const struct ag_view *view)
{
    for (int d = 0; d < view->rank && !ag_view_is_empty(view); ++d) {
        if (view->dims[d] > 1 && view->strides[d] == 0) {
            return true;
        }
        for (int e = 0; e < d; ++e) {
            if (view->dims[d] > 1 && view->dims[e] > 1 && dims_meet(view, d, e)) {
                return true;
            }
        }
    }
    return false;
}

bool ag_view_is_inside_storage(const struct ag_view *view)
{
    if (view->storage_elems < 0 || ag_view_is_empty(view)) {
        return true;
    }
    return view->offset >= 0 && ag_view_last(view) < view->storage_elems;
}

const char *ag_shape_text(char text[AG_SHAPE_TEXT], int rank, const int64_t *dims)
{
    int used = snprintf(text, AG_SHAPE_TEXT, "[");
    assert(rank <= AG_MAX_RANK); /* so all of it fits */
    for (int d = 0; d < rank; ++d) {
        used += snprintf(text + used, (size_t)(AG_SHAPE_TEXT - used), d ? ", %" PRId64 : "%" PRId64, dims[d]);
    }
    snprintf(text + used, (size_t)(AG_SHAPE_TEXT - used), "]");
    return text;
}
