#include "op/moe/moe_unpermute.h"

#include "aclnnop/aclnn_moe_token_unpermute_with_ep.h"
#include "base/check.h"
#include "runtime/executor.h"

/* Inputs, then outputs, as the API lists them. */
static const struct ag_operand operands[] = {
    MOE_UNPERMUTE_OPERAND("permutedTokens", permuted_tokens),
    MOE_UNPERMUTE_OPERAND("sortedIndices", sorted_indices),
    MOE_UNPERMUTE_OPERAND("probsOptional", probs),
    MOE_UNPERMUTE_OPERAND("out", tokens),
};

static const struct ag_operator unpermute_operator = {
    .name = "aclnnMoeTokenUnpermuteWithEp",
    .plan_bytes = sizeof(struct moe_unpermute_plan),
    .operands = operands,
    .inputs = 3,
    .outputs = 1,
    .run = moe_unpermute_run,
    .describe = moe_unpermute_describe,
};

/* Phase 1 after the arguments have names. */
static ag_status prepare(const struct moe_unpermute_args *args, uint64_t *workspace_size, aclOpExecutor **executor)
{
    struct moe_unpermute_problem problem;
    struct moe_unpermute_plan plan;
    AG_TRY(ag_config_check(AG_INVALID));
    AG_TRY(moe_unpermute_check(args, &problem));
    AG_TRY(moe_unpermute_make_plan(&problem, &plan));
    return ag_executor_create(&unpermute_operator, &plan, 0, plan.workspace_bytes, workspace_size, executor);
}

aclnnStatus aclnnMoeTokenUnpermuteWithEpGetWorkspaceSize(
    const aclTensor *permutedTokens, const aclTensor *sortedIndices, const aclTensor *probsOptional, int64_t numTopk,
    const aclIntArray *rangeOptional, bool paddedMode, const aclIntArray *restoreShapeOptional, const aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct moe_unpermute_args args = {
        .permuted_tokens = permutedTokens,
        .sorted_indices = sortedIndices,
        .probs = probsOptional,
        .num_topk = numTopk,
        .range = rangeOptional,
        .padded_mode = paddedMode,
        .restore_shape = restoreShapeOptional,
        .tokens = out,
        .workspace_size = workspaceSize,
        .executor = executor,
    };
    ag_error_enter(__func__);
    return ag_executor_tell_refusal(&unpermute_operator, prepare(&args, workspaceSize, executor));
}

aclnnStatus aclnnMoeTokenUnpermuteWithEp(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                         aclrtStream stream)
{
    ag_error_enter(__func__);
    return ag_executor_run(&unpermute_operator, workspace, workspaceSize, executor, stream);
}
