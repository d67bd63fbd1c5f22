#include "op/moe/moe_permute.h"

#include "aclnnop/aclnn_moe_token_permute_with_ep.h"
#include "base/check.h"
#include "runtime/executor.h"

#define OPERAND(name, member)                                                                                        \
    {                                                                                                                \
        name, offsetof(struct moe_permute_plan, problem.member)                                                      \
    }

/* Inputs, then outputs, as the API lists them. */
static const struct ag_operand operands[] = {
    OPERAND("tokens", tokens),
    OPERAND("indices", indices),
    OPERAND("probsOptional", probs),
    OPERAND("permuteTokensOut", permuted_tokens),
    OPERAND("sortedIndicesOut", sorted_indices),
    OPERAND("permuteProbsOut", permuted_probs),
};

static const struct ag_operator permute_operator = {
    .name = "aclnnMoeTokenPermuteWithEp",
    .plan_bytes = sizeof(struct moe_permute_plan),
    .operands = operands,
    .inputs = 3,
    .outputs = 3,
    .run = moe_permute_run,
    .describe = moe_permute_describe,
};

/* Phase 1 after the arguments have names. */
static ag_status prepare(const struct moe_permute_args *args, uint64_t *workspace_size, aclOpExecutor **executor)
{
    struct moe_permute_problem problem;
    struct moe_permute_plan plan;
    AG_TRY(ag_config_check(AG_INVALID));
    AG_TRY(moe_permute_check(args, &problem));
    AG_TRY(moe_permute_make_plan(&problem, &plan));
    return ag_executor_create(&permute_operator, &plan, 0, plan.workspace_bytes, workspace_size, executor);
}

aclnnStatus aclnnMoeTokenPermuteWithEpGetWorkspaceSize(const aclTensor *tokens, const aclTensor *indices,
                                                       const aclTensor *probsOptional,
                                                       const aclIntArray *rangeOptional, int64_t numOutTokens,
                                                       bool paddedMode, const aclTensor *permuteTokensOut,
                                                       const aclTensor *sortedIndicesOut,
                                                       const aclTensor *permuteProbsOut, uint64_t *workspaceSize,
                                                       aclOpExecutor **executor)
{
    const struct moe_permute_args args = {
        .tokens = tokens,
        .indices = indices,
        .probs = probsOptional,
        .range = rangeOptional,
        .num_out_tokens = numOutTokens,
        .padded_mode = paddedMode,
        .permuted_tokens = permuteTokensOut,
        .sorted_indices = sortedIndicesOut,
        .permuted_probs = permuteProbsOut,
        .workspace_size = workspaceSize,
        .executor = executor,
    };
    ag_error_enter(__func__);
    return ag_executor_tell_refusal(&permute_operator, prepare(&args, workspaceSize, executor));
}

aclnnStatus aclnnMoeTokenPermuteWithEp(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                       aclrtStream stream)
{
    ag_error_enter(__func__);
    return ag_executor_run(&permute_operator, workspace, workspaceSize, executor, stream);
}
