#include "op/moe/moe.h"

#include <inttypes.h>

#include "base/check.h"
#include "runtime/tensor.h"

/* --- the tensors, under the names the caller knows ------------------------------------------------------- */

enum { MOE_TENSORS = 6 };

static void list_tensors(const struct moe_problem *p, struct moe_tensor list[MOE_TENSORS])
{
    const struct moe_tensor all[MOE_TENSORS] = {
        {.name = "unpermutedTokensGrad", .view = &p->unpermuted_tokens_grad, .rank = 2},
        {.name = "sortedIndices", .view = &p->sorted_indices, .rank = 1},
        {.name = "permutedTokensOptional", .view = &p->permuted_tokens, .rank = 2},
        {.name = "probsOptional", .view = &p->probs, .rank = 2},
        {.name = "permutedTokensGradOut", .view = &p->permuted_tokens_grad, .rank = 2, .is_output = true},
        {.name = "probsGradOut",
         .view = &p->probs_grad,
         .rank = 2,
         .is_output = true,
         .is_unused = !p->probs.present},
    };
    for (int i = 0; i < MOE_TENSORS; ++i) {
        list[i] = all[i];
    }
}

/* permuted_tokens with no row is what a rank without tokens has; any other tensor without elements counts as not
 * given. Without probs the rows are not read, so no row then means not given, too. */
static ag_status read_permuted_tokens(const struct moe_args *args, struct moe_problem *p)
{
    struct ag_view *view = &p->permuted_tokens;
    AG_TRY(ag_tensor_view(args->permuted_tokens, "permutedTokensOptional", view));
    const bool has_no_row = view->present && view->rank == 2 && view->dims[0] == 0 && view->dims[1] > 0;
    const bool has_no_elem = view->present && (view->rank == 0 || ag_view_is_empty(view));
    if (has_no_elem && !(has_no_row && p->probs.present)) {
        *view = (struct ag_view){.present = false};
    }
    return AG_OK;
}

static ag_status read_tensors(const struct moe_args *args, struct moe_problem *p)
{
    AG_TRY(ag_tensor_view_required(args->unpermuted_tokens_grad, "unpermutedTokensGrad", &p->unpermuted_tokens_grad));
    AG_TRY(ag_tensor_view_required(args->sorted_indices, "sortedIndices", &p->sorted_indices));
    AG_TRY(ag_tensor_view_required(args->permuted_tokens_grad, "permutedTokensGradOut", &p->permuted_tokens_grad));
    AG_TRY(ag_tensor_view_required(args->probs_grad, "probsGradOut", &p->probs_grad));
    AG_TRY(moe_require_results(args->workspace_size, args->executor));
    AG_TRY(ag_tensor_view_optional(args->probs, "probsOptional", &p->probs));
    return read_permuted_tokens(args, p);
}

/* --- types ------------------------------------------------------------------------------------------------ */

static ag_status check_dtypes(struct moe_problem *p)
{
    const int token_dtype = p->unpermuted_tokens_grad.dtype;
    const char *const of_grad = "that of unpermutedTokensGrad";
    AG_TRY(moe_require_float(&p->unpermuted_tokens_grad, "unpermutedTokensGrad"));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->sorted_indices, "sortedIndices", AG_INT32, ""));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->permuted_tokens_grad, "permutedTokensGradOut", token_dtype, of_grad));
    AG_TRY(moe_require_float(&p->probs_grad, "probsGradOut"));
    if (p->probs.present) {
        AG_TRY(moe_require_float(&p->probs, "probsOptional"));
        AG_TRY(ag_require_dtype(AG_INVALID, &p->probs_grad, "probsGradOut", p->probs.dtype, "that of probsOptional"));
        p->probs_elem = ag_elem_of(p->probs.dtype);
    }
    if (p->permuted_tokens.present) {
        AG_TRY(ag_require_dtype(AG_TILING, &p->permuted_tokens, "permutedTokensOptional", token_dtype, of_grad));
    }
    p->token_elem = ag_elem_of(token_dtype);
    return AG_OK;
}

/* --- shapes ---------------------------------------------------------------------------------------------- */

/* T, H, N and K. With probs their second dim is K and topkNum is ignored. */
static ag_status check_sizes(struct moe_problem *p, int64_t topk_num)
{
    p->tokens = p->unpermuted_tokens_grad.dims[0];
    p->hidden = p->unpermuted_tokens_grad.dims[1];
    p->slots = p->sorted_indices.dims[0];
    p->topk = p->probs.present ? p->probs.dims[1] : topk_num;
    const struct moe_sizes sizes = {
        .tokens = p->tokens,
        .hidden = p->hidden,
        .topk = p->topk,
        .slots = p->slots,
        .tokens_name = "unpermutedTokensGrad",
        .topk_name = p->probs.present ? "probsOptional: dim 1 (experts per token)" : "topkNum",
        .slots_name = "sortedIndices",
    };
    AG_TRY(moe_check_sizes(&sizes));
    if (p->probs.present) { /* before the slots, which are counted with its K */
        AG_TRY(ag_require_shape(AG_TILING, &p->probs, "probsOptional", 2, (int64_t[]){p->tokens, p->topk}));
    }
    return moe_check_slots(&sizes);
}

static ag_status check_shapes(const struct moe_problem *p)
{
    const char *const of_grad = "unpermutedTokensGrad";
    if (p->probs.present) {
        AG_TRY(ag_require_shape(AG_TILING, &p->probs_grad, "probsGradOut", 2, (int64_t[]){p->tokens, p->topk}));
    }
    AG_TRY(moe_check_hidden(&p->permuted_tokens, "permutedTokensOptional", p->hidden, of_grad));
    return moe_check_hidden(&p->permuted_tokens_grad, "permutedTokensGradOut", p->hidden, of_grad);
}

/* --- the window ------------------------------------------------------------------------------------------ */

static ag_status check_rows(const aclIntArray *range, struct moe_problem *p)
{
    struct moe_window window;
    AG_TRY(moe_read_window(range, p->slots, &window));
    const int64_t given = p->permuted_tokens.present ? p->permuted_tokens.dims[0] : window.end - window.begin;
    AG_TRY(moe_count_rows(&window, given, "permutedTokensOptional", &p->local_rows));
    p->window_begin = window.begin;
    p->window_end = window.end;
    p->out_rows = p->permuted_tokens_grad.dims[0];
    AG_REQUIRE(p->out_rows >= p->local_rows, TILING,
               "permutedTokensGradOut: got %" PRId64 " rows, want at least %" PRId64 " for the window [%" PRId64
               ", %" PRId64 ")",
               p->out_rows, p->local_rows, p->window_begin, p->window_end);
    return moe_check_bytes(p->out_rows, p->hidden, "permutedTokensGradOut");
}

/* --- all of it, in the order of the contract ------------------------------------------------------------- */

ag_status moe_check_apart(const struct moe_problem *problem)
{
    struct moe_tensor list[MOE_TENSORS];
    list_tensors(problem, list);
    return moe_check_overlap(list, MOE_TENSORS);
}

ag_status moe_check(const struct moe_args *args, struct moe_problem *problem)
{
    struct moe_tensor list[MOE_TENSORS];
    *problem = (struct moe_problem){.entry = args->entry, .is_debug = ag_config_get().is_debug};
    AG_TRY(read_tensors(args, problem));
    AG_TRY(check_dtypes(problem));
    list_tensors(problem, list);
    AG_TRY(moe_check_memory(list, MOE_TENSORS));
    AG_REQUIRE(!problem->probs.present || problem->permuted_tokens.present, NULLPTR,
               "permutedTokensOptional: got %s, want one of [rows, hidden], hidden > 0: the gradient of "
               "probsOptional needs it",
               args->permuted_tokens ? "a tensor without elements, which counts as no tensor" : "no tensor");
    AG_TRY(moe_check_padded_mode(args->padded_mode));
    AG_TRY(moe_check_output_strides(list, MOE_TENSORS));
    if (ag_view_is_empty(&problem->permuted_tokens_grad) && ag_view_is_empty(&problem->probs_grad)) {
        problem->is_empty = true;
        return AG_OK;
    }
    AG_TRY(moe_check_ranks(list, MOE_TENSORS));
    AG_TRY(check_sizes(problem, args->topk_num));
    AG_TRY(check_shapes(problem));
    AG_TRY(check_rows(args->range, problem));
    return moe_check_apart(problem);
}
