/* Every rule of phase 1, in the order that is part of the contract: first the pointers of the inputs, then their
 * types, then the other pointers, then shapes. The first failure wins. */
#include "op/indexer/indexer.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "op/indexer/indexer_rules.h"
#include "runtime/tensor.h"

/* --- a, b: inputs and types --------------------------------------------------------------------------------- */

static ag_status take_inputs(const struct indexer_args *args, struct indexer_problem *p)
{
    AG_TRY(ag_tensor_view_required(args->query, "query", &p->query));
    AG_TRY(ag_tensor_view_required(args->key, "key", &p->key));
    AG_TRY(ag_tensor_view_required(args->dy, "dy", &p->dy));
    AG_TRY(ag_tensor_view_required(args->sparse_indices, "sparseIndices", &p->indices));
    return ag_tensor_view_required(args->weights, "weights", &p->weights);
}

static ag_status check_types(const struct indexer_limits *limits, struct indexer_problem *p)
{
    const int dtype = p->query.dtype;
    AG_TRY(indexer_require_types(limits, &p->query, &p->key));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->dy, "dy", dtype, "that of query"));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->weights, "weights", dtype, "that of query"));
    p->elem = ag_elem_of(dtype);
    return AG_OK;
}

/* --- c, d: the other pointers ------------------------------------------------------------------------------- */

static ag_status take_outputs(const struct indexer_args *args, struct indexer_problem *p)
{
    AG_REQUIRE(args->executor, NULLPTR, "executor: got null, want where to store the executor");
    AG_REQUIRE(args->workspace_size, NULLPTR, "workspaceSize: got null, want where to store the size");
    AG_REQUIRE(args->input_layout, NULLPTR, "inputLayout: got null, want \"BSND\" or \"TND\"");
    AG_TRY(ag_tensor_view_required(args->dq, "dqOut", &p->dq));
    AG_TRY(ag_tensor_view_required(args->dk, "dkOut", &p->dk));
    return ag_tensor_view_required(args->dweights, "dweightsOut", &p->dweights);
}

/* --- e, f: layout, query and key ---------------------------------------------------------------------------- */

static ag_status check_layout(const char *layout, struct indexer_problem *p)
{
    AG_REQUIRE(layout[0], INVALID, "inputLayout: is empty, want \"BSND\" or \"TND\"");
    p->is_packed = strcmp(layout, "TND") == 0;
    AG_REQUIRE(p->is_packed || strcmp(layout, "BSND") == 0, INVALID,
               "inputLayout: got \"%.32s\", want \"BSND\" or \"TND\"", layout);
    return AG_OK;
}

static ag_status check_query_and_key(const struct indexer_limits *limits, struct indexer_problem *p)
{
    const int rank = p->is_packed ? 3 : 4;
    char text[AG_SHAPE_TEXT];
    AG_REQUIRE(p->query.rank == rank, INVALID, "query: shape %s, want %s",
               ag_shape_text(text, p->query.rank, p->query.dims), p->is_packed ? "[T1, N, D]" : "[B, S1, N, D]");
    AG_REQUIRE(p->key.rank == rank, INVALID, "key: shape %s, want %s", ag_shape_text(text, p->key.rank, p->key.dims),
               p->is_packed ? "[T2, 1, D]" : "[B, S2, 1, D]");
    AG_TRY(indexer_require_dims(limits, &p->query, &p->key));
    AG_REQUIRE(p->is_packed || p->key.dims[0] == p->query.dims[0], INVALID,
               "key: batch %" PRId64 ", want %" PRId64 " (that of query)", p->key.dims[0], p->query.dims[0]);
    AG_TRY(indexer_require_head_count(limits, &p->query));
    p->heads = p->query.dims[rank - 2];
    p->dim = p->query.dims[rank - 1];
    p->rows = p->is_packed ? p->query.dims[0] : p->query.dims[0] * p->query.dims[1];
    p->keys = p->is_packed ? p->key.dims[0] : p->key.dims[0] * p->key.dims[1];
    return AG_OK;
}

/* --- g: the int32 tensors ----------------------------------------------------------------------------------- */

static ag_status take_integers(const struct indexer_args *args, struct indexer_problem *p)
{
    AG_TRY(ag_require_dtype(AG_INVALID, &p->indices, "sparseIndices", AG_INT32, ""));
    AG_TRY(indexer_take_integers(args->actual_seq_q_len, "actualSeqQLenOptional", &p->query_lengths));
    return indexer_take_integers(args->actual_seq_kv_len, "actualSeqKvLenOptional", &p->key_lengths);
}

/* --- i, j: sizes -------------------------------------------------------------------------------------------- */

static ag_status check_sizes(const struct indexer_limits *limits, struct indexer_problem *p)
{
    char got[AG_SHAPE_TEXT], want[AG_SHAPE_TEXT];
    AG_REQUIRE(p->keys > 0, INVALID, "key: shape %s, want at least 1 key",
               ag_shape_text(got, p->key.rank, p->key.dims));
    p->topk = p->dy.rank ? p->dy.dims[p->dy.rank - 1] : 0;
    AG_REQUIRE(p->topk >= 1 && p->topk <= limits->topk_max, INVALID,
               "dy: shape %s, want a last dim (the slots of a row) of 1 to %" PRId64
               " (ACLGRAD_LIMITS=extended lifts this)",
               ag_shape_text(got, p->dy.rank, p->dy.dims), limits->topk_max);
    AG_REQUIRE(!p->is_packed || !p->query_lengths.present || ag_view_elems(&p->query_lengths) > 0, INVALID,
               "actualSeqQLenOptional: got 0 entries, want at least 1");
    AG_TRY(ag_require_shape(AG_INVALID, &p->weights, "weights", p->query.rank - 1, p->query.dims));
    AG_REQUIRE(ag_view_elems(&p->dy) / p->topk >= p->rows, INVALID, "dy: shape %s, want %" PRId64 " rows of K",
               ag_shape_text(got, p->dy.rank, p->dy.dims), p->rows);
    AG_REQUIRE(ag_view_elems(&p->indices) / p->topk >= p->rows, INVALID,
               "sparseIndices: shape %s, want %" PRId64 " rows of %" PRId64 " (K, the last dim of dy %s)",
               ag_shape_text(got, p->indices.rank, p->indices.dims), p->rows, p->topk,
               ag_shape_text(want, p->dy.rank, p->dy.dims));
    return AG_OK;
}

/* --- k: lengths, and slots in two tensors ------------------------------------------------------------------- */

static ag_status check_lengths_given(struct indexer_problem *p)
{
    const struct ag_view *q = &p->query_lengths, *k = &p->key_lengths;
    if (!p->is_packed) {
        const int64_t batch = p->query.dims[0];
        indexer_drop_empty(&p->query_lengths); /* no counts are needed */
        indexer_drop_empty(&p->key_lengths);
        AG_REQUIRE(!q->present || ag_view_elems(q) == batch, INVALID,
                   "actualSeqQLenOptional: got %" PRId64 " counts, want %" PRId64 " (the batch)", ag_view_elems(q),
                   batch);
        AG_REQUIRE(!k->present || ag_view_elems(k) == batch, INVALID,
                   "actualSeqKvLenOptional: got %" PRId64 " counts, want %" PRId64 " (the batch)", ag_view_elems(k),
                   batch);
        p->sequences = batch;
        return AG_OK;
    }
    AG_REQUIRE(q->present, NULLPTR, "actualSeqQLenOptional: got null, want the prefix sums that TND needs");
    AG_REQUIRE(k->present, NULLPTR, "actualSeqKvLenOptional: got null, want the prefix sums that TND needs");
    p->sequences = ag_view_elems(q);
    AG_REQUIRE(ag_view_elems(k) == p->sequences, INVALID,
               "actualSeqKvLenOptional: got %" PRId64 " entries, want %" PRId64 " (those of actualSeqQLenOptional)",
               ag_view_elems(k), p->sequences);
    return AG_OK;
}

static bool has_dims(const struct ag_view *view, int rank, const int64_t *dims)
{
    return view->rank == rank && memcmp(view->dims, dims, (size_t)rank * sizeof *dims) == 0;
}

/* [B, S1, K], [B, S1, 1, K], or without B in TND. */
static bool is_slots(const struct indexer_problem *p, const struct ag_view *view)
{
    const int leading = p->query.rank - 2;
    const bool is_short = view->rank == leading + 1;
    const bool is_long = view->rank == leading + 2 && view->dims[leading] == 1;
    return (is_short || is_long) && memcmp(view->dims, p->query.dims, (size_t)leading * sizeof *view->dims) == 0;
}

/* dy with exactly query's shape is the published example's: its last dim is K and both tensors are read flat. */
static ag_status check_slots(const struct indexer_problem *p)
{
    const char *want = p->is_packed ? "[T1, K] or [T1, 1, K]" : "[B, S1, K] or [B, S1, 1, K]";
    char got[AG_SHAPE_TEXT], query[AG_SHAPE_TEXT];
    AG_REQUIRE(is_slots(p, &p->indices), INVALID, "sparseIndices: shape %s, want %s for query %s",
               ag_shape_text(got, p->indices.rank, p->indices.dims), want,
               ag_shape_text(query, p->query.rank, p->query.dims));
    if (has_dims(&p->dy, p->query.rank, p->query.dims)) {
        return AG_OK;
    }
    AG_REQUIRE(is_slots(p, &p->dy), INVALID, "dy: shape %s, want %s for query %s",
               ag_shape_text(got, p->dy.rank, p->dy.dims), want, ag_shape_text(query, p->query.rank, p->query.dims));
    const int64_t width = p->indices.dims[p->indices.rank - 1];
    AG_REQUIRE(width == p->topk, INVALID, "sparseIndices: %" PRId64 " slots a row, want %" PRId64 " (those of dy)",
               width, p->topk);
    return AG_OK;
}

/* --- m, n: outputs and memory ------------------------------------------------------------------------------- */

static ag_status check_output(const struct ag_view *output, const char *argument, const struct ag_view *like,
                              const char *reason)
{
    AG_TRY(ag_require_dtype(AG_INVALID, output, argument, like->dtype, reason));
    AG_TRY(ag_require_shape(AG_INVALID, output, argument, like->rank, like->dims));
    return indexer_require_distinct(output, argument);
}

static ag_status check_outputs(const struct indexer_problem *p)
{
    AG_TRY(check_output(&p->dq, "dqOut", &p->query, "that of query"));
    AG_TRY(check_output(&p->dk, "dkOut", &p->key, "that of key"));
    return check_output(&p->dweights, "dweightsOut", &p->weights, "that of weights");
}

enum { OPERANDS = 10, FIRST_OUTPUT = 7 };

static void list_operands(const struct indexer_problem *p, struct indexer_operand list[OPERANDS])
{
    const struct indexer_operand all[OPERANDS] = {
        {"query", &p->query},
        {"key", &p->key},
        {"dy", &p->dy},
        {"sparseIndices", &p->indices},
        {"weights", &p->weights},
        {"actualSeqQLenOptional", &p->query_lengths},
        {"actualSeqKvLenOptional", &p->key_lengths},
        {"dqOut", &p->dq},
        {"dkOut", &p->dk},
        {"dweightsOut", &p->dweights},
    };
    memcpy(list, all, sizeof all);
}

static ag_status check_memory(const struct indexer_problem *p)
{
    struct indexer_operand list[OPERANDS];
    list_operands(p, list);
    return indexer_require_memory(list, OPERANDS);
}

ag_status indexer_check_overlaps(const struct indexer_problem *p)
{
    struct indexer_operand list[OPERANDS];
    list_operands(p, list);
    return indexer_require_apart(list, OPERANDS, FIRST_OUTPUT);
}

/* --- all of them -------------------------------------------------------------------------------------------- */

static ag_status check_slots_and_mode(const struct indexer_args *args, const struct indexer_limits *limits,
                                      struct indexer_problem *p)
{
    AG_TRY(check_sizes(limits, p));
    AG_TRY(check_lengths_given(p));
    AG_TRY(check_slots(p));
    p->sparse_mode = args->sparse_mode;
    AG_REQUIRE(p->sparse_mode == 0 || p->sparse_mode == 3, INVALID, "sparseMode: got %" PRId64 ", want 0 or 3",
               p->sparse_mode);
    return AG_OK;
}

ag_status indexer_check(const struct indexer_args *args, struct indexer_problem *p)
{
    const struct ag_config config = ag_config_get();
    const struct indexer_limits *limits = &indexer_limits[config.limits];
    *p = (struct indexer_problem){.is_debug = config.is_debug};
    AG_TRY(take_inputs(args, p));
    AG_TRY(check_types(limits, p));
    AG_TRY(take_outputs(args, p));
    AG_TRY(check_layout(args->input_layout, p));
    AG_TRY(check_query_and_key(limits, p));
    AG_TRY(take_integers(args, p));
    p->is_nothing = ag_view_is_empty(&p->query);
    if (!p->is_nothing) { /* an empty query succeeds whatever the slots are; dkOut is still written */
        AG_TRY(check_slots_and_mode(args, limits, p));
    }
    AG_TRY(check_outputs(p));
    AG_TRY(check_memory(p));
    return indexer_check_overlaps(p);
}
