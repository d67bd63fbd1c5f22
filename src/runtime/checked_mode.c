#include "runtime/checked_mode.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "runtime/device_memory.h"

ag_status ag_checked_allocations(const struct ag_operator *op, void *plan)
{
    for (int i = 0; i < op->inputs + op->outputs; ++i) {
        const struct ag_view *view = ag_operand_view(op, plan, i);
        struct ag_memory_block block;
        uintptr_t begin, end;
        if (!view->present || ag_view_is_empty(view) || !ag_memory_find(view->data, &block)) {
            continue;
        }
        ag_view_bytes(view, &begin, &end);
        AG_REQUIRE(end <= block.end, INVALID,
                   "%s: ends %" PRIuPTR " bytes behind the allocation of %" PRIuPTR " bytes that it starts in",
                   op->operands[i].name, end - block.end, block.end - block.begin);
    }
    return AG_OK;
}

ag_status ag_checked_workspace(const void *workspace, uint64_t bytes)
{
    struct ag_memory_block block;
    if (bytes > 0 && ag_memory_find(workspace, &block)) {
        const uintptr_t end = (uintptr_t)workspace + bytes;
        AG_REQUIRE(end <= block.end, INVALID,
                   "workspace: ends %" PRIuPTR " bytes behind the allocation of %" PRIuPTR " bytes that it starts in",
                   end - block.end, block.end - block.begin);
    }
    return AG_OK;
}

/* Advances the index of a row (all axes but the last); false after the last row. */
static bool next_row(const struct ag_view *view, int64_t index[AG_MAX_RANK], int64_t *offset)
{
    for (int d = view->rank - 2; d >= 0; --d) {
        *offset += view->strides[d];
        if (++index[d] < view->dims[d]) {
            return true;
        }
        *offset -= view->dims[d] * view->strides[d];
        index[d] = 0;
    }
    return false;
}

static void spoil(const struct ag_view *view)
{
    const size_t elem_bytes = ag_dtype_bytes(view->dtype);
    const int64_t count = view->rank > 0 ? view->dims[view->rank - 1] : 1;
    const int64_t stride = view->rank > 0 ? view->strides[view->rank - 1] : 1;
    int64_t index[AG_MAX_RANK] = {0}, offset = 0;
    do {
        for (int64_t i = 0; i < count; ++i) {
            memset((char *)ag_view_origin(view) + (offset + i * stride) * (int64_t)elem_bytes, 0xff, elem_bytes);
        }
    } while (next_row(view, index, &offset));
}

void ag_checked_spoil_outputs(const struct ag_operator *op, void *plan)
{
    for (int out = op->inputs; out < op->inputs + op->outputs; ++out) {
        const struct ag_view *view = ag_operand_view(op, plan, out);
        bool is_apart = view->present && !ag_view_is_empty(view);
        for (int in = 0; is_apart && in < op->inputs; ++in) {
            is_apart = !ag_views_overlap(view, ag_operand_view(op, plan, in));
        }
        if (is_apart) {
            spoil(view);
        }
    }
}
