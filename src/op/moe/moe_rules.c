#include "op/moe/moe_rules.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/config.h"
#include "base/dtype.h"
#include "runtime/tensor.h"

/* K is cut by the documents, not by the mathematics; slots are counted in int32 either way. */
const struct moe_limits moe_limits_table[] = {
    [AG_LIMITS_DOCUMENTED] = {.topk = 512, .sorted_slots = (1 << 24) - 2},
    [AG_LIMITS_EXTENDED] = {.topk = INT32_MAX, .sorted_slots = INT32_MAX},
};

/* --- tensors --------------------------------------------------------------------------------------------- */

ag_status moe_require_float(const struct ag_view *view, const char *name)
{
    AG_REQUIRE(ag_dtype_is_float(view->dtype), INVALID, "%s: dtype %s (%d), want BF16, FLOAT16 or FLOAT", name,
               ag_dtype_name(view->dtype), view->dtype);
    return AG_OK;
}

/* The formats that the device reads as plain rows: of the row-major ones (ag_require_row_major) not all. */
static bool is_plain_format(int format)
{
    return format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NHWC ||
           format == ACL_FORMAT_NCL || format == ACL_FORMAT_NCDHW;
}

ag_status moe_check_memory(const struct moe_tensor *tensors, int count)
{
    for (int i = 0; i < count; ++i) {
        const struct ag_view *view = tensors[i].view;
        AG_REQUIRE(!view->present || is_plain_format(view->format), INVALID,
                   "%s: format %s (%d), want ND, NCHW, NHWC, NCL or NCDHW", tensors[i].name,
                   ag_format_name(view->format), view->format);
    }
    for (int i = 0; i < count; ++i) {
        AG_TRY(ag_require_inside_storage(tensors[i].view, tensors[i].name));
    }
    return AG_OK;
}

ag_status moe_check_output_strides(const struct moe_tensor *tensors, int count)
{
    for (int i = 0; i < count; ++i) {
        AG_REQUIRE(!tensors[i].is_output || !tensors[i].view->present || ag_view_is_contiguous(tensors[i].view),
                   INVALID, "%s: got a strided view, want a contiguous tensor", tensors[i].name);
    }
    return AG_OK;
}

ag_status moe_check_ranks(const struct moe_tensor *tensors, int count)
{
    for (int i = 0; i < count; ++i) {
        const struct ag_view *view = tensors[i].view;
        AG_REQUIRE(!view->present || tensors[i].is_unused || view->rank == tensors[i].rank, TILING,
                   "%s: rank %d, want %d", tensors[i].name, view->rank, tensors[i].rank);
    }
    return AG_OK;
}

ag_status moe_check_overlap(const struct moe_tensor *tensors, int count)
{
    for (int out = 0; out < count; ++out) {
        for (int other = 0; tensors[out].is_output && !tensors[out].is_unused && other < out; ++other) {
            AG_REQUIRE(tensors[other].is_unused || !ag_views_overlap(tensors[out].view, tensors[other].view), INVALID,
                       "%s: got memory that overlaps %s, want memory of its own", tensors[out].name,
                       tensors[other].name);
        }
    }
    return AG_OK;
}

ag_status moe_require_results(const uint64_t *workspace_size, aclOpExecutor *const *executor)
{
    AG_REQUIRE(workspace_size, NULLPTR, "workspaceSize: got null, want an address for the size");
    AG_REQUIRE(executor, NULLPTR, "executor: got null, want an address for the executor");
    return AG_OK;
}

ag_status moe_check_padded_mode(bool padded_mode)
{
    AG_REQUIRE(!padded_mode, INVALID, "paddedMode: got true, want false: padded mode is not supported");
    return AG_OK;
}

/* --- sizes ----------------------------------------------------------------------------------------------- */

ag_status moe_check_slots(const struct moe_sizes *s)
{
    int64_t slots;
    AG_REQUIRE(ag_product(&slots, 2, (int64_t[]){s->tokens, s->topk}) && slots == s->slots, TILING,
               "%s: got %" PRId64 " entries, want tokens * topk = %" PRId64 " * %" PRId64, s->slots_name, s->slots,
               s->tokens, s->topk);
    return AG_OK;
}

ag_status moe_check_sizes(const struct moe_sizes *s)
{
    const int64_t most_topk = moe_limits_table[ag_config_get().limits].topk;
    AG_REQUIRE(s->tokens > 0, TILING, "%s: got 0 tokens (dim 0), want at least 1", s->tokens_name);
    AG_REQUIRE(s->hidden > 0, TILING, "%s: got hidden size 0 (dim 1), want at least 1", s->tokens_name);
    AG_REQUIRE(s->topk >= 1 && s->topk <= most_topk, TILING,
               "%s: got %" PRId64 ", want 1 to %" PRId64 " (ACLGRAD_LIMITS=extended lifts this)", s->topk_name,
               s->topk, most_topk);
    AG_REQUIRE(s->slots > 0, TILING, "%s: got 0 entries, want tokens * topk = %" PRId64 " * %" PRId64, s->slots_name,
               s->tokens, s->topk);
    AG_REQUIRE(s->slots <= INT32_MAX, TILING, "%s: got %" PRId64 " entries, want at most %d: positions are int32",
               s->slots_name, s->slots, INT32_MAX);
    return AG_OK;
}

ag_status moe_check_hidden(const struct ag_view *view, const char *name, int64_t hidden, const char *of)
{
    AG_REQUIRE(!view->present || view->dims[1] == hidden, TILING,
               "%s: got hidden size %" PRId64 " (dim 1), want %" PRId64 " (that of %s)", name, view->dims[1], hidden,
               of);
    return AG_OK;
}

ag_status moe_check_bytes(int64_t rows, int64_t hidden, const char *name)
{
    int64_t bytes;
    AG_REQUIRE(ag_product(&bytes, 3, (int64_t[]){rows, hidden, sizeof(float)}), TILING,
               "%s: got %" PRId64 " * %" PRId64 " elements, want a size that fits 64 bits", name, rows, hidden);
    return AG_OK;
}

/* --- the window ------------------------------------------------------------------------------------------ */

static int64_t normalise_position(int64_t position, int64_t slots)
{
    position = position < 0 ? position + slots : position;
    return position < 0 ? 0 : position > slots ? slots : position;
}

/* *values stays NULL where there is no range. */
static ag_status read_range(const aclIntArray *range, const int64_t **values)
{
    int64_t count = 0;
    AG_TRY(ag_int_array_values(range, "rangeOptional", values, &count));
    AG_REQUIRE(count == 0 || count == 2, TILING, "rangeOptional: got %" PRId64 " values, want 2 (start, end) or none",
               count);
    *values = count ? *values : NULL;
    return AG_OK;
}

/* No range: the whole order. (The device's generated wrapper of the gradient makes an empty window of it, against its own
 * document.) */
ag_status moe_read_window(const aclIntArray *range, int64_t slots, struct moe_window *window)
{
    const int64_t *values = NULL;
    AG_TRY(read_range(range, &values));
    window->begin = values ? normalise_position(values[0], slots) : 0;
    window->end = values ? normalise_position(values[1], slots) : slots;
    AG_REQUIRE(!values || window->begin <= window->end, TILING,
               "rangeOptional: got [%" PRId64 ", %" PRId64 "), which is [%" PRId64 ", %" PRId64 ") of %" PRId64
               " positions, want an end not before the start",
               values[0], values[1], window->begin, window->end, slots);
    return AG_OK;
}

ag_status moe_read_window_exactly(const aclIntArray *range, int64_t slots, struct moe_window *window)
{
    const int64_t *values = NULL;
    AG_TRY(read_range(range, &values));
    AG_REQUIRE(!values || (0 <= values[0] && values[0] <= values[1] && values[1] <= slots), TILING,
               "rangeOptional: got [%" PRId64 ", %" PRId64 "), want 0 <= start <= end <= %" PRId64 " positions",
               values[0], values[1], slots);
    return moe_read_window(range, slots, window);
}

ag_status moe_count_rows(const struct moe_window *window, int64_t given, const char *name, int64_t *local_rows)
{
    const int64_t rows = window->end - window->begin;
    AG_REQUIRE(given > 0 || rows == 0, TILING,
               "%s: got 0 rows, want at least 1, at most %" PRId64 " for the window [%" PRId64 ", %" PRId64 ")", name,
               rows, window->begin, window->end);
    *local_rows = given < rows ? given : rows;
    return AG_OK;
}
