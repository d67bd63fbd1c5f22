#include "op/moe/moe.h"

#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "base/check.h"
#include "runtime/executor.h"

/* Inputs, then outputs, as the API lists them. */
static const struct ag_operand operands[] = {
    MOE_OPERAND("unpermutedTokensGrad", unpermuted_tokens_grad), MOE_OPERAND("sortedIndices", sorted_indices),
    MOE_OPERAND("permutedTokensOptional", permuted_tokens),      MOE_OPERAND("probsOptional", probs),
    MOE_OPERAND("permutedTokensGradOut", permuted_tokens_grad),  MOE_OPERAND("probsGradOut", probs_grad),
};

static const struct ag_operator moe_operator = {
    .name = "aclnnMoeTokenUnpermuteWithEpGrad",
    .plan_bytes = sizeof(struct moe_plan),
    .operands = operands,
    .inputs = 4,
    .outputs = 2,
    .run = moe_run,
    .describe = moe_describe,
};

ag_status moe_prepare(const struct ag_operator *op, const struct moe_args *args, uint64_t *workspace_size,
                      aclOpExecutor **executor)
{
    struct moe_problem problem;
    struct moe_plan plan;
    AG_TRY(ag_config_check(AG_INVALID));
    AG_TRY(moe_check(args, &problem));
    AG_TRY(moe_make_plan(&problem, &plan));
    return ag_executor_create(op, &plan, 0, plan.workspace_bytes, workspace_size, executor);
}

aclnnStatus aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
    const aclTensor *unpermutedTokensGrad, const aclTensor *sortedIndices, const aclTensor *permutedTokensOptional,
    const aclTensor *probsOptional, bool paddedMode, const aclIntArray *restoreShapeOptional,
    const aclIntArray *rangeOptional, int64_t topkNum, const aclTensor *permutedTokensGradOut,
    const aclTensor *probsGradOut, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct moe_args args = {
        .entry = moe_operator.name,
        .unpermuted_tokens_grad = unpermutedTokensGrad,
        .sorted_indices = sortedIndices,
        .permuted_tokens = permutedTokensOptional,
        .probs = probsOptional,
        .padded_mode = paddedMode,
        .restore_shape = restoreShapeOptional,
        .range = rangeOptional,
        .topk_num = topkNum,
        .permuted_tokens_grad = permutedTokensGradOut,
        .probs_grad = probsGradOut,
        .workspace_size = workspaceSize,
        .executor = executor,
    };
    ag_error_enter(__func__);
    return ag_executor_tell_refusal(&moe_operator, moe_prepare(&moe_operator, &args, workspaceSize, executor));
}

aclnnStatus aclnnMoeTokenUnpermuteWithEpGrad(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                             aclrtStream stream)
{
    ag_error_enter(__func__);
    return ag_executor_run(&moe_operator, workspace, workspaceSize, executor, stream);
}
