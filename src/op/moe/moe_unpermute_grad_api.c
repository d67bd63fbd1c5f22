/* aclnnMoeTokenUnpermuteGrad: the gradient of moe.h with the whole order as its window. */
#include "op/moe/moe.h"

#include "aclnnop/aclnn_moe_token_unpermute_grad.h"
#include "base/check.h"
#include "runtime/executor.h"
#include "runtime/tensor.h"

static const struct ag_operand operands[] = {
    MOE_OPERAND("permutedTokensOptional", permuted_tokens),
    MOE_OPERAND("unpermutedTokensGrad", unpermuted_tokens_grad),
    MOE_OPERAND("sortedIndices", sorted_indices),
    MOE_OPERAND("probsOptional", probs),
    MOE_OPERAND("permutedTokensGradOut", permuted_tokens_grad),
    MOE_OPERAND("probsGradOut", probs_grad),
};

static const struct ag_operator unpermute_grad_operator = {
    .name = "aclnnMoeTokenUnpermuteGrad",
    .plan_bytes = sizeof(struct moe_plan),
    .operands = operands,
    .inputs = 4,
    .outputs = 2,
    .run = moe_run,
    .describe = moe_describe,
};

/* There is no topkNum: without probs K is what makes N = T * K, where there is such a K; else 1, as documented. */
static ag_status count_experts(struct moe_args *args)
{
    struct ag_view grad, indices;
    AG_TRY(ag_tensor_view(args->unpermuted_tokens_grad, "unpermutedTokensGrad", &grad));
    AG_TRY(ag_tensor_view(args->sorted_indices, "sortedIndices", &indices));
    const int64_t tokens = grad.rank == 2 ? grad.dims[0] : 0, slots = indices.rank == 1 ? indices.dims[0] : 0;
    args->topk_num = tokens > 0 && slots > 0 && slots % tokens == 0 ? slots / tokens : 1;
    return AG_OK;
}

static ag_status prepare(struct moe_args *args, uint64_t *workspace_size, aclOpExecutor **executor)
{
    AG_TRY(count_experts(args));
    return moe_prepare(&unpermute_grad_operator, args, workspace_size, executor);
}

aclnnStatus aclnnMoeTokenUnpermuteGradGetWorkspaceSize(const aclTensor *permutedTokensOptional,
                                                       const aclTensor *unpermutedTokensGrad,
                                                       const aclTensor *sortedIndices, const aclTensor *probsOptional,
                                                       bool paddedMode, const aclIntArray *restoreShapeOptional,
                                                       aclTensor *permutedTokensGradOut, aclTensor *probsGradOut,
                                                       uint64_t *workspaceSize, aclOpExecutor **executor)
{
    struct moe_args args = {
        .entry = unpermute_grad_operator.name,
        .unpermuted_tokens_grad = unpermutedTokensGrad,
        .sorted_indices = sortedIndices,
        .permuted_tokens = permutedTokensOptional,
        .probs = probsOptional,
        .padded_mode = paddedMode,
        .restore_shape = restoreShapeOptional,
        .permuted_tokens_grad = permutedTokensGradOut,
        .probs_grad = probsGradOut,
        .workspace_size = workspaceSize,
        .executor = executor,
    };
    ag_error_enter(__func__);
    return ag_executor_tell_refusal(&unpermute_grad_operator, prepare(&args, workspaceSize, executor));
}

aclnnStatus aclnnMoeTokenUnpermuteGrad(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                       aclrtStream stream)
{
    ag_error_enter(__func__);
    return ag_executor_run(&unpermute_grad_operator, workspace, workspaceSize, executor, stream);
}
