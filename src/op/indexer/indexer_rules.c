/* What the gradient's check and the forward's have in common. */
#include "op/indexer/indexer_rules.h"

#include <inttypes.h>

#include "base/check.h"
#include "runtime/tensor.h"

/* The limit of int32 indices and of sizes nobody reaches: what "no limit" means. */
#define UNLIMITED INT32_MAX

const struct indexer_limits indexer_limits[2] = {
    [AG_LIMITS_DOCUMENTED] = {.dim_min = 128, .dim_max = 128, .heads_max = 64, .topk_max = 2048},
    [AG_LIMITS_EXTENDED] =
        {.dim_min = 1, .dim_max = UNLIMITED, .heads_max = UNLIMITED, .topk_max = UNLIMITED, .has_float32 = true},
};

/* --- types and sizes ---------------------------------------------------------------------------------------- */

ag_status indexer_require_types(const struct indexer_limits *limits, const struct ag_view *query,
                                const struct ag_view *key)
{
    const int dtype = query->dtype;
    AG_REQUIRE(dtype == AG_FLOAT16 || dtype == AG_BF16 || (dtype == AG_FLOAT && limits->has_float32), INVALID,
               "query: dtype %s, want FLOAT16 or BF16%s", ag_dtype_name(dtype),
               limits->has_float32 ? " or FLOAT" : "");
    return ag_require_dtype(AG_INVALID, key, "key", dtype, "that of query");
}

ag_status indexer_require_dims(const struct indexer_limits *limits, const struct ag_view *query_view,
                               const struct ag_view *key_view)
{
    const int64_t *query = query_view->dims + query_view->rank, *key = key_view->dims + key_view->rank;
    AG_REQUIRE(key[-2] == 1, INVALID, "key: %" PRId64 " heads, want 1", key[-2]);
    AG_REQUIRE(query[-1] >= limits->dim_min && query[-1] <= limits->dim_max, INVALID,
               "query: head dim %" PRId64 ", want %" PRId64 "%s", query[-1], limits->dim_min,
               limits->dim_min < limits->dim_max ? " or more" : " (ACLGRAD_LIMITS=extended lifts this)");
    AG_REQUIRE(key[-1] == query[-1], INVALID, "key: head dim %" PRId64 ", want %" PRId64 " (that of query)", key[-1],
               query[-1]);
    return AG_OK;
}

ag_status indexer_require_head_count(const struct indexer_limits *limits, const struct ag_view *query)
{
    const int64_t heads = query->dims[query->rank - 2];
    AG_REQUIRE(heads >= 1 && heads <= limits->heads_max, INVALID,
               "query: %" PRId64 " heads, want 1 to %" PRId64 " (ACLGRAD_LIMITS=extended lifts this)", heads,
               limits->heads_max);
    return AG_OK;
}

ag_status indexer_take_integers(const aclTensor *tensor, const char *argument, struct ag_view *view)
{
    AG_TRY(ag_tensor_view(tensor, argument, view));
    return view->present ? ag_require_dtype(AG_INVALID, view, argument, AG_INT32, "") : AG_OK;
}

void indexer_drop_empty(struct ag_view *view)
{
    if (ag_view_is_empty(view)) {
        *view = (struct ag_view){.present = false};
    }
}

/* --- memory ------------------------------------------------------------------------------------------------- */

ag_status indexer_require_distinct(const struct ag_view *output, const char *argument)
{
    for (int d = 0; d < output->rank; ++d) {
        AG_REQUIRE(output->dims[d] <= 1 || output->strides[d] != 0 || ag_view_is_empty(output), INVALID,
                   "%s: stride 0 over dim %d of %" PRId64 ", want an element of memory for each result", argument, d,
                   output->dims[d]);
    }
    AG_REQUIRE(!ag_view_meets_itself(output), INVALID,
               "%s: strides that lead two elements to one place, want an element of memory for each result",
               argument);
    return AG_OK;
}

ag_status indexer_require_memory(const struct indexer_operand *operands, int count)
{
    for (int i = 0; i < count; ++i) {
        if (operands[i].view->present) {
            AG_TRY(ag_require_row_major(operands[i].view, operands[i].name));
            AG_TRY(ag_require_inside_storage(operands[i].view, operands[i].name));
        }
    }
    return AG_OK;
}

ag_status indexer_require_apart(const struct indexer_operand *operands, int count, int first_output)
{
    for (int out = first_output; out < count; ++out) {
        for (int other = 0; other < out; ++other) {
            AG_REQUIRE(!ag_views_overlap(operands[out].view, operands[other].view), INVALID,
                       "%s: shares memory with %s, want an output with memory of its own", operands[out].name,
                       operands[other].name);
        }
    }
    return AG_OK;
}
