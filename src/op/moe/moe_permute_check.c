#include "op/moe/moe_permute.h"

#include <inttypes.h>

#include "base/check.h"
#include "runtime/tensor.h"

/* --- the tensors, under the names the caller knows ------------------------------------------------------- */

enum { PERMUTE_TENSORS = 6 };

static void list_tensors(const struct moe_permute_problem *p, struct moe_tensor list[PERMUTE_TENSORS])
{
    const int indices_rank = p->indices.rank == 1 ? 1 : 2; /* one expert per token needs no second dim */
    list[0] = (struct moe_tensor){.name = "tokens", .view = &p->tokens, .rank = 2};
    list[1] = (struct moe_tensor){.name = "indices", .view = &p->indices, .rank = indices_rank};
    list[2] = (struct moe_tensor){.name = "probsOptional", .view = &p->probs, .rank = 2};
    list[3] =
        (struct moe_tensor){.name = "permuteTokensOut", .view = &p->permuted_tokens, .rank = 2, .is_output = true};
    list[4] =
        (struct moe_tensor){.name = "sortedIndicesOut", .view = &p->sorted_indices, .rank = 1, .is_output = true};
    list[5] =
        (struct moe_tensor){.name = "permuteProbsOut", .view = &p->permuted_probs, .rank = 1, .is_output = true};
    list[5].is_unused = !p->probs.present;
}

static ag_status read_tensors(const struct moe_permute_args *args, struct moe_permute_problem *p)
{
    AG_TRY(ag_tensor_view_required(args->tokens, "tokens", &p->tokens));
    AG_TRY(ag_tensor_view_required(args->indices, "indices", &p->indices));
    AG_TRY(ag_tensor_view_required(args->permuted_tokens, "permuteTokensOut", &p->permuted_tokens));
    AG_TRY(ag_tensor_view_required(args->sorted_indices, "sortedIndicesOut", &p->sorted_indices));
    AG_TRY(ag_tensor_view_optional(args->probs, "probsOptional", &p->probs));
    AG_TRY(ag_tensor_view(args->permuted_probs, "permuteProbsOut", &p->permuted_probs));
    AG_REQUIRE(!p->probs.present || p->permuted_probs.present, NULLPTR,
               "permuteProbsOut: null, want a tensor for the probs that probsOptional has");
    return moe_require_results(args->workspace_size, args->executor);
}

static ag_status check_dtypes(struct moe_permute_problem *p)
{
    const int dtype = p->tokens.dtype;
    AG_TRY(moe_require_float(&p->tokens, "tokens"));
    AG_REQUIRE(p->indices.dtype == AG_INT32 || p->indices.dtype == AG_INT64, INVALID,
               "indices: dtype %s (%d), want INT32 or INT64", ag_dtype_name(p->indices.dtype), p->indices.dtype);
    AG_TRY(ag_require_dtype(AG_INVALID, &p->permuted_tokens, "permuteTokensOut", dtype, "that of tokens"));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->sorted_indices, "sortedIndicesOut", AG_INT32, ""));
    if (p->probs.present) {
        AG_TRY(moe_require_float(&p->probs, "probsOptional"));
        AG_TRY(ag_require_dtype(AG_INVALID, &p->permuted_probs, "permuteProbsOut", p->probs.dtype,
                                "that of probsOptional"));
    }
    p->token_elem = ag_elem_of(dtype);
    return AG_OK;
}

/* --- shapes ---------------------------------------------------------------------------------------------- */

static ag_status check_sizes(struct moe_permute_problem *p)
{
    const int64_t most_slots = moe_limits_table[ag_config_get().limits].sorted_slots;
    const struct moe_sizes sizes = {
        .tokens = p->tokens.dims[0],
        .hidden = p->tokens.dims[1],
        .topk = p->indices.rank == 2 ? p->indices.dims[1] : 1,
        .slots = p->sorted_indices.dims[0],
        .tokens_name = "tokens",
        .topk_name = "indices: dim 1 (experts per token)",
        .slots_name = "sortedIndicesOut",
    };
    AG_TRY(moe_check_sizes(&sizes));
    AG_REQUIRE(sizes.slots <= most_slots, TILING,
               "sortedIndicesOut: got %" PRId64 " entries, want at most %" PRId64
               " (ACLGRAD_LIMITS=extended lifts this)",
               sizes.slots, most_slots);
    AG_TRY(
        ag_require_shape(AG_TILING, &p->indices, "indices", p->indices.rank, (int64_t[]){sizes.tokens, sizes.topk}));
    p->tokens_count = sizes.tokens;
    p->hidden = sizes.hidden;
    p->topk = sizes.topk;
    p->slots = sizes.slots;
    return moe_check_slots(&sizes);
}

static ag_status check_shapes(const struct moe_permute_problem *p)
{
    if (p->probs.present) {
        AG_TRY(ag_require_shape(AG_TILING, &p->probs, "probsOptional", 2, (int64_t[]){p->tokens_count, p->topk}));
    }
    return moe_check_hidden(&p->permuted_tokens, "permuteTokensOut", p->hidden, "tokens");
}

/* --- window and cut -------------------------------------------------------------------------------------- */

/* Where numOutTokens ends the order: as the end of a slice, but for 0, which means all. May lie behind the last position. */
static int64_t cut_of(int64_t num_out_tokens, int64_t slots)
{
    if (num_out_tokens > 0) {
        return num_out_tokens;
    }
    return slots + num_out_tokens > 0 ? slots + num_out_tokens : 0;
}

static ag_status require_rows(const struct ag_view *out, const char *name, const struct moe_permute_problem *p)
{
    AG_REQUIRE(out->dims[0] >= p->local_rows, TILING,
               "%s: got %" PRId64 " rows, want at least %" PRId64 " for the window [%" PRId64 ", %" PRId64
               "), cut by numOutTokens",
               name, out->dims[0], p->local_rows, p->window.begin, p->window.end);
    return AG_OK;
}

static ag_status check_rows(const struct moe_permute_args *args, struct moe_permute_problem *p)
{
    AG_TRY(moe_read_window_exactly(args->range, p->slots, &p->window));
    const int64_t cut = cut_of(args->num_out_tokens, p->slots);
    const int64_t end = cut < p->window.end ? cut : p->window.end;
    p->local_rows = end > p->window.begin ? end - p->window.begin : 0;
    AG_TRY(require_rows(&p->permuted_tokens, "permuteTokensOut", p));
    AG_TRY(p->probs.present ? require_rows(&p->permuted_probs, "permuteProbsOut", p) : AG_OK);
    return moe_check_bytes(p->permuted_tokens.dims[0], p->hidden, "permuteTokensOut");
}

/* --- all of it, in the order of the contract ------------------------------------------------------------- */

ag_status moe_permute_check_apart(const struct moe_permute_problem *problem)
{
    struct moe_tensor list[PERMUTE_TENSORS];
    list_tensors(problem, list);
    return moe_check_overlap(list, PERMUTE_TENSORS);
}

static bool has_empty_outputs(const struct moe_permute_problem *p)
{
    return ag_view_is_empty(&p->permuted_tokens) && ag_view_is_empty(&p->sorted_indices) &&
           (!p->probs.present || ag_view_is_empty(&p->permuted_probs));
}

ag_status moe_permute_check(const struct moe_permute_args *args, struct moe_permute_problem *problem)
{
    struct moe_tensor list[PERMUTE_TENSORS];
    *problem = (struct moe_permute_problem){.is_empty = false};
    AG_TRY(read_tensors(args, problem));
    AG_TRY(check_dtypes(problem));
    list_tensors(problem, list);
    AG_TRY(moe_check_memory(list, PERMUTE_TENSORS));
    AG_TRY(moe_check_padded_mode(args->padded_mode));
    AG_TRY(moe_check_output_strides(list, PERMUTE_TENSORS));
    if (has_empty_outputs(problem)) {
        problem->is_empty = true;
        return AG_OK;
    }
    AG_TRY(moe_check_ranks(list, PERMUTE_TENSORS));
    AG_TRY(check_sizes(problem));
    AG_TRY(check_shapes(problem));
    AG_TRY(check_rows(args, problem));
    return moe_permute_check_apart(problem);
}
