/* Every rule of phase 1, in the order that is part of the contract: first the pointers that are needed, then layouts
 * and numbers, then types, then shapes. The first failure wins. And the rules of phase 2, which are about data. */
#include "op/indexer/indexer_forward.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/config.h"
#include "op/indexer/indexer_rules.h"
#include "runtime/tensor.h"

const struct indexer_forward_limits indexer_forward_limits[2] = {
    [AG_LIMITS_DOCUMENTED] =
        {.topk_max = 2048, .topk_step = 1024, .topk_limit = 8192, .block_step = 16, .block_max = 1024},
    [AG_LIMITS_EXTENDED] = {.topk_max = INT32_MAX,
                            .topk_step = 1,
                            .topk_limit = INT32_MAX,
                            .block_step = 1,
                            .block_max = INT32_MAX,
                            .has_paged_values = true},
};

/* --- pointers ----------------------------------------------------------------------------------------------- */

static ag_status take_pointers(const struct indexer_forward_args *args, struct indexer_forward_problem *p)
{
    AG_TRY(ag_tensor_view_required(args->query, "query", &p->query));
    AG_TRY(ag_tensor_view_required(args->key, "key", &p->key));
    AG_TRY(ag_tensor_view_required(args->weights, "weights", &p->weights));
    AG_TRY(ag_tensor_view_required(args->sparse_indices, "sparseIndicesOut", &p->indices));
    if (args->return_values) { /* else nobody looks at it */
        AG_TRY(ag_tensor_view_required(args->sparse_values, "sparseValuesOut", &p->values));
    }
    AG_REQUIRE(args->workspace_size, NULLPTR, "workspaceSize: got null, want where to store the size");
    AG_REQUIRE(args->executor, NULLPTR, "executor: got null, want where to store the executor");
    return AG_OK;
}

/* --- layouts and numbers ------------------------------------------------------------------------------------ */

/* What a null layout means, too. */
static bool is_batch(const char *layout)
{
    return !layout || strcmp(layout, "BSND") == 0;
}

static bool is_layout(const char *layout, const char *name)
{
    return layout && strcmp(layout, name) == 0;
}

static ag_status check_layouts(const struct indexer_forward_args *args, struct indexer_forward_problem *p)
{
    p->is_packed = is_layout(args->layout_query, "TND");
    p->has_packed_keys = is_layout(args->layout_key, "TND");
    p->is_paged = is_layout(args->layout_key, "PA_BSND");
    AG_REQUIRE(p->has_packed_keys || p->is_paged || is_batch(args->layout_key), INVALID,
               "layoutKeyOptional: got \"%.32s\", want \"BSND\", \"TND\" or \"PA_BSND\"", args->layout_key);
    AG_REQUIRE(p->is_packed || is_batch(args->layout_query), INVALID,
               "layoutQueryOptional: got \"%.32s\", want \"BSND\" or \"TND\"", args->layout_query);
    AG_REQUIRE(p->is_paged || p->is_packed == p->has_packed_keys, INVALID,
               "layoutKeyOptional: got \"%s\" with layoutQueryOptional \"%s\", want the same, or \"PA_BSND\"",
               p->has_packed_keys ? "TND" : "BSND", p->is_packed ? "TND" : "BSND");
    return AG_OK;
}

static ag_status check_numbers(const struct indexer_forward_args *args, const struct indexer_forward_limits *limits,
                               struct indexer_forward_problem *p)
{
    const int64_t count = args->sparse_count;
    const bool is_step = count % limits->topk_step == 0 && count <= limits->topk_limit;
    AG_REQUIRE(count >= 1 && (count <= limits->topk_max || is_step), INVALID,
               "sparseCount: got %" PRId64 ", want 1 to %" PRId64 ", or a multiple of %" PRId64 " up to %" PRId64
               " (ACLGRAD_LIMITS=extended lifts this)",
               count, limits->topk_max, limits->topk_step, limits->topk_limit);
    AG_REQUIRE(args->sparse_mode == 0 || args->sparse_mode == 3, INVALID, "sparseMode: got %" PRId64 ", want 0 or 3",
               args->sparse_mode);
    AG_REQUIRE(args->pre_tokens == INT64_MAX, INVALID, "preTokens: got %" PRId64 ", want %" PRId64, args->pre_tokens,
               INT64_MAX);
    AG_REQUIRE(args->next_tokens == INT64_MAX, INVALID, "nextTokens: got %" PRId64 ", want %" PRId64,
               args->next_tokens, INT64_MAX);
    AG_REQUIRE(!args->return_values || !p->is_paged || limits->has_paged_values, INVALID,
               "returnValues: got true with layoutKeyOptional \"PA_BSND\", want false"
               " (ACLGRAD_LIMITS=extended lifts this)");
    p->topk = count;
    p->sparse_mode = args->sparse_mode;
    return AG_OK;
}

/* --- types -------------------------------------------------------------------------------------------------- */

static ag_status check_types(const struct indexer_limits *limits, struct indexer_forward_problem *p)
{
    AG_TRY(indexer_require_types(limits, &p->query, &p->key));
    const int dtype = p->query.dtype;
    AG_REQUIRE(p->weights.dtype == dtype || p->weights.dtype == AG_FLOAT, INVALID,
               "weights: dtype %s, want %s (that of query) or FLOAT", ag_dtype_name(p->weights.dtype),
               ag_dtype_name(dtype));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->indices, "sparseIndicesOut", AG_INT32, ""));
    if (p->values.present) {
        AG_TRY(ag_require_dtype(AG_INVALID, &p->values, "sparseValuesOut", dtype, "that of query"));
    }
    p->elem = ag_elem_of(dtype);
    p->weights_elem = ag_elem_of(p->weights.dtype);
    return AG_OK;
}

/* --- the optional tensors ----------------------------------------------------------------------------------- */

static ag_status take_table(const struct indexer_forward_args *args, struct indexer_forward_problem *p)
{
    AG_TRY(indexer_take_integers(args->block_table, "blockTableOptional", &p->block_table));
    AG_REQUIRE(!p->is_paged || p->block_table.present, NULLPTR,
               "blockTableOptional: got null, want the blocks of each sequence that PA_BSND needs");
    AG_REQUIRE(p->is_paged || !p->block_table.present, INVALID,
               "blockTableOptional: got a tensor, want null unless layoutKeyOptional is \"PA_BSND\"");
    return AG_OK;
}

static ag_status take_lengths(const struct indexer_forward_args *args, struct indexer_forward_problem *p)
{
    static const char query_name[] = "actualSeqLengthsQueryOptional", key_name[] = "actualSeqLengthsKeyOptional";
    AG_TRY(indexer_take_integers(args->actual_seq_lengths_query, query_name, &p->query_lengths));
    AG_TRY(indexer_take_integers(args->actual_seq_lengths_key, key_name, &p->key_lengths));
    if (!p->is_packed) { /* an empty tensor of counts says the same as none */
        indexer_drop_empty(&p->query_lengths);
    }
    if (!p->has_packed_keys) {
        indexer_drop_empty(&p->key_lengths);
    }
    AG_REQUIRE(!p->is_packed || p->query_lengths.present, NULLPTR,
               "%s: got null, want the prefix sums that TND needs", query_name);
    AG_REQUIRE(!p->has_packed_keys || p->key_lengths.present, NULLPTR,
               "%s: got null, want the prefix sums that TND needs", key_name);
    AG_REQUIRE(!p->is_paged || p->key_lengths.present, NULLPTR, "%s: got null, want the counts that PA_BSND needs",
               key_name);
    return AG_OK;
}

/* --- shapes ------------------------------------------------------------------------------------------------- */

static ag_status check_ranks(const struct indexer_forward_problem *p)
{
    const int query_rank = p->is_packed ? 3 : 4, key_rank = p->has_packed_keys ? 3 : 4;
    const char *key_shape = p->is_paged    ? "[blocks, block size, 1, D]"
                            : p->is_packed ? "[T2, 1, D]"
                                           : "[B, S2, 1, D]";
    char text[AG_SHAPE_TEXT];
    AG_REQUIRE(p->query.rank == query_rank, INVALID, "query: shape %s, want %s",
               ag_shape_text(text, p->query.rank, p->query.dims), p->is_packed ? "[T1, N, D]" : "[B, S1, N, D]");
    AG_REQUIRE(p->key.rank == key_rank, INVALID, "key: shape %s, want %s",
               ag_shape_text(text, p->key.rank, p->key.dims), key_shape);
    AG_REQUIRE(!p->is_paged || p->block_table.rank == 2, INVALID, "blockTableOptional: shape %s, want [B, blocks]",
               ag_shape_text(text, p->block_table.rank, p->block_table.dims));
    return AG_OK;
}

/* How many sequences there are: what all tensors of lengths, and the table, must agree on. */
static ag_status check_sequences(struct indexer_forward_problem *p)
{
    p->sequences = p->is_packed ? ag_view_elems(&p->query_lengths) : p->query.dims[0];
    AG_REQUIRE(p->sequences > 0, INVALID, "actualSeqLengthsQueryOptional: got 0 entries, want at least 1");
    AG_REQUIRE(!p->query_lengths.present || ag_view_elems(&p->query_lengths) == p->sequences, INVALID,
               "actualSeqLengthsQueryOptional: got %" PRId64 " counts, want %" PRId64 " (the batch)",
               ag_view_elems(&p->query_lengths), p->sequences);
    AG_REQUIRE(!p->key_lengths.present || ag_view_elems(&p->key_lengths) == p->sequences, INVALID,
               "actualSeqLengthsKeyOptional: got %" PRId64 " entries, want %" PRId64 " (%s)",
               ag_view_elems(&p->key_lengths), p->sequences,
               p->is_packed ? "those of actualSeqLengthsQueryOptional" : "the batch");
    AG_REQUIRE(p->is_paged || p->is_packed || p->key.dims[0] == p->sequences, INVALID,
               "key: batch %" PRId64 ", want %" PRId64 " (that of query)", p->key.dims[0], p->sequences);
    AG_REQUIRE(!p->is_paged || p->block_table.dims[0] == p->sequences, INVALID,
               "blockTableOptional: %" PRId64 " rows, want %" PRId64 " (the sequences)", p->block_table.dims[0],
               p->sequences);
    return AG_OK;
}

static ag_status check_blocks(const struct indexer_forward_limits *limits, struct indexer_forward_problem *p)
{
    const int64_t size = p->key.dims[1];
    AG_REQUIRE(size >= limits->block_step && size <= limits->block_max && size % limits->block_step == 0, INVALID,
               "key: block size %" PRId64 ", want a multiple of %" PRId64 " up to %" PRId64
               " (ACLGRAD_LIMITS=extended lifts this)",
               size, limits->block_step, limits->block_max);
    p->block_size = size;
    return AG_OK;
}

/* Keys of a sequence are numbered in int32. */
static ag_status count_keys(struct indexer_forward_problem *p)
{
    const int64_t *dims = p->is_paged ? p->block_table.dims : p->key.dims;
    const int64_t most = INT32_MAX / (p->is_paged ? p->block_size : 1), got = p->has_packed_keys ? dims[0] : dims[1];
    const int64_t each = p->is_paged ? got * p->block_size : got;
    AG_REQUIRE(got <= most, INVALID, "%s: dim of %" PRId64 ", want at most %" PRId64 " (keys are numbered in int32)",
               p->is_paged ? "blockTableOptional" : "key", got, most);
    AG_REQUIRE(p->has_packed_keys || each == 0 || p->sequences <= INT64_MAX / 4 / each, INVALID,
               "key: %" PRId64 " sequences of %" PRId64 " keys need more than 64-bit sizes", p->sequences, each);
    p->keys = p->has_packed_keys ? each : p->sequences * each;
    return AG_OK;
}

static ag_status check_slots(const struct indexer_forward_problem *p, const struct ag_view *view,
                             const char *argument)
{
    int64_t want[AG_MAX_RANK];
    memcpy(want, p->query.dims, sizeof want);
    want[p->query.rank - 2] = 1;
    want[p->query.rank - 1] = p->topk;
    return ag_require_shape(AG_INVALID, view, argument, p->query.rank, want);
}

static ag_status check_shapes(enum ag_limits config, struct indexer_forward_problem *p)
{
    const int rank = p->is_packed ? 3 : 4;
    AG_TRY(check_ranks(p));
    AG_TRY(indexer_require_head_count(&indexer_limits[config], &p->query));
    AG_TRY(indexer_require_dims(&indexer_limits[config], &p->query, &p->key));
    p->is_nothing = ag_view_is_empty(&p->query);
    if (!p->is_nothing) { /* an empty query succeeds whatever the keys are */
        AG_TRY(check_sequences(p));
        AG_TRY(p->is_paged ? check_blocks(&indexer_forward_limits[config], p) : AG_OK);
        AG_TRY(count_keys(p));
    }
    AG_TRY(ag_require_shape(AG_INVALID, &p->weights, "weights", rank - 1, p->query.dims));
    AG_TRY(check_slots(p, &p->indices, "sparseIndicesOut"));
    p->heads = p->query.dims[rank - 2];
    p->dim = p->query.dims[rank - 1];
    p->rows = p->is_packed ? p->query.dims[0] : p->query.dims[0] * p->query.dims[1];
    return p->values.present ? check_slots(p, &p->values, "sparseValuesOut") : AG_OK;
}

/* --- memory ------------------------------------------------------------------------------------------------- */

enum { OPERANDS = 8, FIRST_OUTPUT = 6 };

static void list_operands(const struct indexer_forward_problem *p, struct indexer_operand list[OPERANDS])
{
    const struct indexer_operand all[OPERANDS] = {
        {"query", &p->query},
        {"key", &p->key},
        {"weights", &p->weights},
        {"actualSeqLengthsQueryOptional", &p->query_lengths},
        {"actualSeqLengthsKeyOptional", &p->key_lengths},
        {"blockTableOptional", &p->block_table},
        {"sparseIndicesOut", &p->indices},
        {"sparseValuesOut", &p->values},
    };
    memcpy(list, all, sizeof all);
}

static ag_status check_memory(const struct indexer_forward_problem *p)
{
    struct indexer_operand list[OPERANDS];
    list_operands(p, list);
    AG_TRY(indexer_require_distinct(&p->indices, "sparseIndicesOut"));
    if (p->values.present) {
        AG_TRY(indexer_require_distinct(&p->values, "sparseValuesOut"));
    }
    AG_TRY(indexer_require_memory(list, OPERANDS));
    return indexer_require_apart(list, OPERANDS, FIRST_OUTPUT);
}

ag_status indexer_forward_check(const struct indexer_forward_args *args, struct indexer_forward_problem *p)
{
    const enum ag_limits config = ag_config_get().limits;
    *p = (struct indexer_forward_problem){.is_packed = false};
    AG_TRY(take_pointers(args, p));
    AG_TRY(check_layouts(args, p));
    AG_TRY(check_numbers(args, &indexer_forward_limits[config], p));
    AG_TRY(check_types(&indexer_limits[config], p));
    AG_TRY(take_table(args, p));
    AG_TRY(take_lengths(args, p));
    AG_TRY(check_shapes(config, p));
    return check_memory(p);
}

/* --- phase 2: data ------------------------------------------------------------------------------------------ */

/* The entries that a sequence's keys are read through. */
static ag_status check_blocks_of(const struct indexer_forward_problem *p, int64_t number,
                                 const struct indexer_sequence *sequence)
{
    const int64_t width = p->block_table.dims[1], blocks = p->key.dims[0];
    const int64_t used = (sequence->live_keys + p->block_size - 1) / p->block_size;
    for (int64_t i = 0; i < used; ++i) {
        int32_t block;
        memcpy(&block, indexer_element(&p->block_table, number * width + i), sizeof block);
        AG_REQUIRE(block >= 0 && block < blocks, INVALID,
                   "blockTableOptional: entry [%" PRId64 ", %" PRId64 "] is %" PRId32 ", want 0 to %" PRId64
                   " (the blocks of key)",
                   number, i, block, blocks - 1);
    }
    return AG_OK;
}

ag_status indexer_forward_check_data(const struct indexer_forward_problem *p)
{
    const struct indexer_tokens tokens = indexer_forward_tokens(p);
    struct indexer_operand list[OPERANDS];
    list_operands(p, list);
    AG_TRY(indexer_require_apart(list, OPERANDS, FIRST_OUTPUT));
    if (p->is_nothing) {
        return AG_OK;
    }
    AG_TRY(indexer_tokens_check(&tokens));
    for (int64_t b = 0; p->is_paged && b < p->sequences; ++b) {
        const struct indexer_sequence sequence = indexer_tokens_sequence(&tokens, b);
        AG_TRY(check_blocks_of(p, b, &sequence));
    }
    return AG_OK;
}

/* --- sequences ---------------------------------------------------------------------------------------------- */

struct indexer_tokens indexer_forward_tokens(const struct indexer_forward_problem *p)
{
    return (struct indexer_tokens){.query_lengths = &p->query_lengths,
                                   .key_lengths = &p->key_lengths,
                                   .query_lengths_name = "actualSeqLengthsQueryOptional",
                                   .key_lengths_name = "actualSeqLengthsKeyOptional",
                                   .is_packed = p->is_packed,
                                   .has_packed_keys = p->has_packed_keys,
                                   .sequences = p->sequences,
                                   .rows = p->rows,
                                   .keys = p->keys};
}

int64_t indexer_forward_limit(const struct indexer_forward_problem *p, const struct indexer_sequence *sequence,
                              int64_t s)
{
    if (p->sparse_mode == 3) {
        return indexer_visible_keys(sequence, s);
    }
    return s < sequence->live_rows ? sequence->live_keys : 0;
}

/* In paged memory, block by block. */
void indexer_forward_gather_keys(const struct indexer_forward_problem *p, void *dense, int64_t number,
                                 const struct indexer_sequence *sequence, int64_t first, int64_t count)
{
    char *to = dense;
    while (count > 0) {
        int64_t at = sequence->key_begin + first, keys = count;
        if (p->is_paged) {
            const int64_t in_block = first % p->block_size, left = p->block_size - in_block;
            int32_t block;
            memcpy(&block, indexer_element(&p->block_table, number * p->block_table.dims[1] + first / p->block_size),
                   sizeof block);
            at = block * p->block_size + in_block;
            keys = keys < left ? keys : left;
        }
        indexer_gather(to, &p->key, at * p->dim, keys * p->dim);
        to += keys * p->dim * (int64_t)ag_elem_bytes(p->elem);
        first += keys;
        count -= keys;
    }
}
