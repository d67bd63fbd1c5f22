#include "op/moe/moe_unpermute.h"

#include "base/check.h"
#include "runtime/tensor.h"

/* --- the tensors, under the names the caller knows ------------------------------------------------------- */

enum { PERMUTE_GRAD_TENSORS = 5 };

static void list_tensors(const struct moe_unpermute_problem *p, struct moe_tensor list[PERMUTE_GRAD_TENSORS])
{
    list[0] = (struct moe_tensor){.name = "permutedTokensOutputGrad", .view = &p->permuted_tokens, .rank = 2};
    list[1] = (struct moe_tensor){.name = "sortedIndices", .view = &p->sorted_indices, .rank = 1};
    list[2] = (struct moe_tensor){.name = "permutedProbsOutputGradOptional", .view = &p->permuted_probs, .rank = 1};
    list[3] = (struct moe_tensor){.name = "tokenGradOut", .view = &p->tokens, .rank = 2, .is_output = true};
    list[4] = (struct moe_tensor){.name = "probsGradOut", .view = &p->probs_out, .rank = 2, .is_output = true};
    list[4].is_unused = !p->permuted_probs.present;
}

/* Gradients of probs with no entry are what a rank without tokens has, whose other gradients have no row either; any other
 * tensor without elements counts as not given. */
static ag_status read_permuted_probs(const struct moe_permute_grad_args *args, struct moe_unpermute_problem *p)
{
    struct ag_view *view = &p->permuted_probs;
    AG_TRY(ag_tensor_view(args->permuted_probs_grad, "permutedProbsOutputGradOptional", view));
    const bool is_empty_rank = view->rank == 1 && p->permuted_tokens.rank == 2 && p->permuted_tokens.dims[0] == 0;
    if (view->present && (view->rank == 0 || ag_view_is_empty(view)) && !(is_empty_rank && p->probs_out.present)) {
        *view = (struct ag_view){.present = false};
    }
    AG_REQUIRE(!view->present || p->probs_out.present, NULLPTR,
               "probsGradOut: null, want a tensor for the gradients that permutedProbsOutputGradOptional has");
    return AG_OK;
}

static ag_status read_tensors(const struct moe_permute_grad_args *args, struct moe_unpermute_problem *p)
{
    AG_TRY(ag_tensor_view_required(args->permuted_tokens_grad, "permutedTokensOutputGrad", &p->permuted_tokens));
    AG_TRY(ag_tensor_view_required(args->sorted_indices, "sortedIndices", &p->sorted_indices));
    AG_TRY(ag_tensor_view_required(args->tokens_grad, "tokenGradOut", &p->tokens));
    AG_TRY(ag_tensor_view(args->probs_grad, "probsGradOut", &p->probs_out));
    AG_TRY(read_permuted_probs(args, p));
    return moe_require_results(args->workspace_size, args->executor);
}

static ag_status check_dtypes(struct moe_unpermute_problem *p)
{
    const char *const of_tokens = "that of permutedTokensOutputGrad";
    const char *const of_probs = "that of permutedProbsOutputGradOptional";
    AG_TRY(moe_require_float(&p->permuted_tokens, "permutedTokensOutputGrad"));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->sorted_indices, "sortedIndices", AG_INT32, ""));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->tokens, "tokenGradOut", p->permuted_tokens.dtype, of_tokens));
    p->token_elem = ag_elem_of(p->permuted_tokens.dtype);
    if (p->permuted_probs.present) {
        AG_TRY(moe_require_float(&p->permuted_probs, "permutedProbsOutputGradOptional"));
        AG_TRY(ag_require_dtype(AG_INVALID, &p->probs_out, "probsGradOut", p->permuted_probs.dtype, of_probs));
    }
    return AG_OK;
}

/* --- all of it, in the order of the contract ------------------------------------------------------------- */

ag_status moe_permute_grad_check_apart(const struct moe_unpermute_problem *problem)
{
    struct moe_tensor list[PERMUTE_GRAD_TENSORS];
    list_tensors(problem, list);
    return moe_check_overlap(list, PERMUTE_GRAD_TENSORS);
}

static ag_status check_probs(const struct moe_unpermute_problem *p)
{
    if (!p->permuted_probs.present) {
        return AG_OK;
    }
    AG_TRY(ag_require_shape(AG_TILING, &p->permuted_probs, "permutedProbsOutputGradOptional", 1,
                            p->permuted_tokens.dims));
    return ag_require_shape(AG_TILING, &p->probs_out, "probsGradOut", 2, (int64_t[]){p->tokens_count, p->topk});
}

ag_status moe_permute_grad_check(const struct moe_permute_grad_args *args, struct moe_unpermute_problem *problem)
{
    static const struct moe_unpermute_names names = {.permuted_tokens = "permutedTokensOutputGrad",
                                                     .tokens = "tokenGradOut"};
    struct moe_tensor list[PERMUTE_GRAD_TENSORS];
    *problem = (struct moe_unpermute_problem){.is_empty = false};
    AG_TRY(read_tensors(args, problem));
    AG_TRY(check_dtypes(problem));
    list_tensors(problem, list);
    AG_TRY(moe_check_memory(list, PERMUTE_GRAD_TENSORS));
    AG_TRY(moe_check_padded_mode(args->padded_mode));
    AG_TRY(moe_check_output_strides(list, PERMUTE_GRAD_TENSORS));
    if (ag_view_is_empty(&problem->tokens) &&
        (!problem->permuted_probs.present || ag_view_is_empty(&problem->probs_out))) {
        problem->is_empty = true;
        return AG_OK;
    }
    AG_TRY(moe_check_ranks(list, PERMUTE_GRAD_TENSORS));
    AG_TRY(moe_unpermute_measure(&names, args->num_topk, args->range, problem));
    AG_TRY(check_probs(problem));
    return moe_permute_grad_check_apart(problem);
}
