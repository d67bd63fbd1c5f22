/* aclnnLightningIndexerGrad: the entry points. */
#include "aclnnop/aclnn_lightning_indexer_grad.h"

#include "base/check.h"
#include "op/indexer/indexer.h"

/* --- the operator as the runtime sees it -------------------------------------------------------------------- */

#define OPERAND(name, member)                                                                                        \
    {                                                                                                                \
        name, offsetof(struct indexer_plan, problem.member)                                                          \
    }

static const struct ag_operand operands[] = {
    OPERAND("query", query),
    OPERAND("key", key),
    OPERAND("dy", dy),
    OPERAND("sparseIndices", indices),
    OPERAND("weights", weights),
    OPERAND("actualSeqQLenOptional", query_lengths),
    OPERAND("actualSeqKvLenOptional", key_lengths),
    OPERAND("dqOut", dq),
    OPERAND("dkOut", dk),
    OPERAND("dweightsOut", dweights),
};

const struct ag_operator indexer_operator = {
    .name = "aclnnLightningIndexerGrad",
    .plan_bytes = sizeof(struct indexer_plan),
    .operands = operands,
    .inputs = 7,
    .outputs = 3,
    .run = indexer_run,
    .describe = indexer_describe,
};

/* --- phase 1 and 2 ------------------------------------------------------------------------------------------ */

/* Phase 1 after the arguments have names. */
static ag_status prepare(const struct indexer_args *args, uint64_t *workspace_size, aclOpExecutor **executor)
{
    struct indexer_problem problem;
    struct indexer_plan plan;
    AG_TRY(ag_config_check(AG_INVALID));
    AG_TRY(indexer_check(args, &problem));
    AG_TRY(indexer_make_plan(&problem, &plan));
    return ag_executor_create(&indexer_operator, &plan, 0, plan.workspace_bytes, workspace_size, executor);
}

aclnnStatus aclnnLightningIndexerGradGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *dy, const aclTensor *sparseIndices,
    const aclTensor *weights, const aclTensor *actualSeqQLenOptional, const aclTensor *actualSeqKvLenOptional,
    int64_t headNum, char *inputLayout, int64_t sparseMode, int64_t preTokens, int64_t nextTokens, bool deterministic,
    const aclTensor *dqOut, const aclTensor *dkOut, const aclTensor *dweightsOut, uint64_t *workspaceSize,
    aclOpExecutor **executor)
{
    const struct indexer_args args = {.query = query,
                                      .key = key,
                                      .dy = dy,
                                      .sparse_indices = sparseIndices,
                                      .weights = weights,
                                      .actual_seq_q_len = actualSeqQLenOptional,
                                      .actual_seq_kv_len = actualSeqKvLenOptional,
                                      .input_layout = inputLayout,
                                      .sparse_mode = sparseMode,
                                      .dq = dqOut,
                                      .dk = dkOut,
                                      .dweights = dweightsOut,
                                      .workspace_size = workspaceSize,
                                      .executor = executor};
    (void)headNum, (void)preTokens, (void)nextTokens; /* any value: nothing depends on them */
    (void)deterministic;                              /* always */
    ag_error_enter(__func__);
    return ag_executor_tell_refusal(&indexer_operator, prepare(&args, workspaceSize, executor));
}

aclnnStatus aclnnLightningIndexerGrad(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                      aclrtStream stream)
{
    ag_error_enter(__func__);
    return ag_executor_run(&indexer_operator, workspace, workspaceSize, executor, stream);
}
