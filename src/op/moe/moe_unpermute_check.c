#include "op/moe/moe_unpermute.h"

#include "base/check.h"
#include "runtime/tensor.h"

/* --- what both entries share ----------------------------------------------------------------------------- */

ag_status moe_unpermute_measure(const struct moe_unpermute_names *names, int64_t num_topk, const aclIntArray *range,
                                struct moe_unpermute_problem *p)
{
    const struct moe_sizes sizes = {
        .tokens = p->tokens.dims[0],
        .hidden = p->tokens.dims[1],
        .topk = num_topk,
        .slots = p->sorted_indices.dims[0],
        .tokens_name = names->tokens,
        .topk_name = "numTopk",
        .slots_name = "sortedIndices",
    };
    AG_TRY(moe_check_sizes(&sizes));
    AG_TRY(moe_check_slots(&sizes));
    p->tokens_count = sizes.tokens;
    p->hidden = sizes.hidden;
    p->topk = sizes.topk;
    p->slots = sizes.slots;
    AG_TRY(moe_check_hidden(&p->permuted_tokens, names->permuted_tokens, p->hidden, names->tokens));
    AG_TRY(moe_check_bytes(p->tokens_count, p->hidden, names->tokens));
    AG_TRY(moe_read_window(range, p->slots, &p->window));
    return moe_count_rows(&p->window, p->permuted_tokens.dims[0], names->permuted_tokens, &p->local_rows);
}

/* --- the tensors, under the names the caller knows ------------------------------------------------------- */

enum { UNPERMUTE_TENSORS = 4 };

static void list_tensors(const struct moe_unpermute_problem *p, struct moe_tensor list[UNPERMUTE_TENSORS])
{
    list[0] = (struct moe_tensor){.name = "permutedTokens", .view = &p->permuted_tokens, .rank = 2};
    list[1] = (struct moe_tensor){.name = "sortedIndices", .view = &p->sorted_indices, .rank = 1};
    list[2] = (struct moe_tensor){.name = "probsOptional", .view = &p->probs, .rank = 2};
    list[3] = (struct moe_tensor){.name = "out", .view = &p->tokens, .rank = 2, .is_output = true};
}

static ag_status read_tensors(const struct moe_unpermute_args *args, struct moe_unpermute_problem *p)
{
    AG_TRY(ag_tensor_view_required(args->permuted_tokens, "permutedTokens", &p->permuted_tokens));
    AG_TRY(ag_tensor_view_required(args->sorted_indices, "sortedIndices", &p->sorted_indices));
    AG_TRY(ag_tensor_view_required(args->tokens, "out", &p->tokens));
    AG_TRY(moe_require_results(args->workspace_size, args->executor));
    return ag_tensor_view_optional(args->probs, "probsOptional", &p->probs);
}

static ag_status check_dtypes(struct moe_unpermute_problem *p)
{
    AG_TRY(moe_require_float(&p->permuted_tokens, "permutedTokens"));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->sorted_indices, "sortedIndices", AG_INT32, ""));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->tokens, "out", p->permuted_tokens.dtype, "that of permutedTokens"));
    p->token_elem = ag_elem_of(p->permuted_tokens.dtype);
    return p->probs.present ? moe_require_float(&p->probs, "probsOptional") : AG_OK;
}

/* --- all of it, in the order of the contract ------------------------------------------------------------- */

ag_status moe_unpermute_check_apart(const struct moe_unpermute_problem *problem)
{
    struct moe_tensor list[UNPERMUTE_TENSORS];
    list_tensors(problem, list);
    return moe_check_overlap(list, UNPERMUTE_TENSORS);
}

ag_status moe_unpermute_check(const struct moe_unpermute_args *args, struct moe_unpermute_problem *problem)
{
    static const struct moe_unpermute_names names = {.permuted_tokens = "permutedTokens", .tokens = "out"};
    struct moe_tensor list[UNPERMUTE_TENSORS];
    *problem = (struct moe_unpermute_problem){.is_empty = false};
    AG_TRY(read_tensors(args, problem));
    AG_TRY(check_dtypes(problem));
    list_tensors(problem, list);
    AG_TRY(moe_check_memory(list, UNPERMUTE_TENSORS));
    AG_TRY(moe_check_padded_mode(args->padded_mode));
    AG_TRY(moe_check_output_strides(list, UNPERMUTE_TENSORS));
    if (ag_view_is_empty(&problem->tokens)) {
        problem->is_empty = true;
        return AG_OK;
    }
    AG_TRY(moe_check_ranks(list, UNPERMUTE_TENSORS));
    AG_TRY(moe_unpermute_measure(&names, args->num_topk, args->range, problem));
    if (problem->probs.present) {
        AG_TRY(ag_require_shape(AG_TILING, &problem->probs, "probsOptional", 2,
                                (int64_t[]){problem->tokens_count, problem->topk}));
    }
    return moe_unpermute_check_apart(problem);
}
