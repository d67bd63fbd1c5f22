#include "op/moe/moe_unpermute.h"

#include "aclnnop/aclnn_moe_token_permute_with_ep_grad.h"
#include "base/check.h"
#include "runtime/executor.h"

/* Inputs, then outputs, as the API lists them. */
static const struct ag_operand operands[] = {
    MOE_UNPERMUTE_OPERAND("permutedTokensOutputGrad", permuted_tokens),
    MOE_UNPERMUTE_OPERAND("sortedIndices", sorted_indices),
    MOE_UNPERMUTE_OPERAND("permutedProbsOutputGradOptional", permuted_probs),
    MOE_UNPERMUTE_OPERAND("tokenGradOut", tokens),
    MOE_UNPERMUTE_OPERAND("probsGradOut", probs_out),
};

static const struct ag_operator permute_grad_operator = {
    .name = "aclnnMoeTokenPermuteWithEpGrad",
    .plan_bytes = sizeof(struct moe_unpermute_plan),
    .operands = operands,
    .inputs = 3,
    .outputs = 2,
    .run = moe_permute_grad_run,
    .describe = moe_unpermute_describe,
};

/* Phase 1 after the arguments have names. */
static ag_status prepare(const struct moe_permute_grad_args *args, uint64_t *workspace_size, aclOpExecutor **executor)
{
    struct moe_unpermute_problem problem;
    struct moe_unpermute_plan plan;
    AG_TRY(ag_config_check(AG_INVALID));
    AG_TRY(moe_permute_grad_check(args, &problem));
    AG_TRY(moe_unpermute_make_plan(&problem, &plan));
    return ag_executor_create(&permute_grad_operator, &plan, 0, plan.workspace_bytes, workspace_size, executor);
}

aclnnStatus aclnnMoeTokenPermuteWithEpGradGetWorkspaceSize(const aclTensor *permutedTokensOutputGrad,
                                                           const aclTensor *sortedIndices,
                                                           const aclTensor *permutedProbsOutputGradOptional,
                                                           int64_t numTopk, const aclIntArray *rangeOptional,
                                                           bool paddedMode, const aclTensor *tokenGradOut,
                                                           const aclTensor *probsGradOut, uint64_t *workspaceSize,
                                                           aclOpExecutor **executor)
{
    const struct moe_permute_grad_args args = {
        .permuted_tokens_grad = permutedTokensOutputGrad,
        .sorted_indices = sortedIndices,
        .permuted_probs_grad = permutedProbsOutputGradOptional,
        .num_topk = numTopk,
        .range = rangeOptional,
        .padded_mode = paddedMode,
        .tokens_grad = tokenGradOut,
        .probs_grad = probsGradOut,
        .workspace_size = workspaceSize,
        .executor = executor,
    };
    ag_error_enter(__func__);
    return ag_executor_tell_refusal(&permute_grad_operator, prepare(&args, workspaceSize, executor));
}

aclnnStatus aclnnMoeTokenPermuteWithEpGrad(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                           aclrtStream stream)
{
    ag_error_enter(__func__);
    return ag_executor_run(&permute_grad_operator, workspace, workspaceSize, executor, stream);
}
