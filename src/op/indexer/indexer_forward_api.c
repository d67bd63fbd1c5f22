/* aclnnLightningIndexer: the entry points. */
#include "aclnnop/aclnn_lightning_indexer.h"

#include "base/check.h"
#include "base/config.h"
#include "op/indexer/indexer_forward.h"

/* --- the operator as the runtime sees it -------------------------------------------------------------------- */

#define OPERAND(name, member)                                                                                        \
    {                                                                                                                \
        name, offsetof(struct indexer_forward_plan, problem.member)                                                  \
    }

static const struct ag_operand operands[] = {
    OPERAND("query", query),
    OPERAND("key", key),
    OPERAND("weights", weights),
    OPERAND("actualSeqLengthsQueryOptional", query_lengths),
    OPERAND("actualSeqLengthsKeyOptional", key_lengths),
    OPERAND("blockTableOptional", block_table),
    OPERAND("sparseIndicesOut", indices),
    OPERAND("sparseValuesOut", values),
};

const struct ag_operator indexer_forward_operator = {
    .name = "aclnnLightningIndexer",
    .plan_bytes = sizeof(struct indexer_forward_plan),
    .operands = operands,
    .inputs = 6,
    .outputs = 2,
    .run = indexer_forward_run,
    .describe = indexer_forward_describe,
};

/* --- phase 1 and 2 ------------------------------------------------------------------------------------------ */

/* Phase 1 after the arguments have names. */
static ag_status prepare(const struct indexer_forward_args *args, uint64_t *workspace_size, aclOpExecutor **executor)
{
    struct indexer_forward_problem problem;
    struct indexer_forward_plan plan;
    AG_TRY(ag_config_check(AG_INVALID));
    AG_TRY(indexer_forward_check(args, &problem));
    AG_TRY(indexer_forward_make_plan(&problem, &plan));
    return ag_executor_create(&indexer_forward_operator, &plan, 0, plan.workspace_bytes, workspace_size, executor);
}

aclnnStatus aclnnLightningIndexerGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *weights,
    const aclTensor *actualSeqLengthsQueryOptional, const aclTensor *actualSeqLengthsKeyOptional,
    const aclTensor *blockTableOptional, char *layoutQueryOptional, char *layoutKeyOptional, int64_t sparseCount,
    int64_t sparseMode, int64_t preTokens, int64_t nextTokens, bool returnValues, const aclTensor *sparseIndicesOut,
    const aclTensor *sparseValuesOut, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct indexer_forward_args args = {.query = query,
                                              .key = key,
                                              .weights = weights,
                                              .actual_seq_lengths_query = actualSeqLengthsQueryOptional,
                                              .actual_seq_lengths_key = actualSeqLengthsKeyOptional,
                                              .block_table = blockTableOptional,
                                              .layout_query = layoutQueryOptional,
                                              .layout_key = layoutKeyOptional,
                                              .sparse_count = sparseCount,
                                              .sparse_mode = sparseMode,
                                              .pre_tokens = preTokens,
                                              .next_tokens = nextTokens,
                                              .return_values = returnValues,
                                              .sparse_indices = sparseIndicesOut,
                                              .sparse_values = sparseValuesOut,
                                              .workspace_size = workspaceSize,
                                              .executor = executor};
    ag_error_enter(__func__);
    return ag_executor_tell_refusal(&indexer_forward_operator, prepare(&args, workspaceSize, executor));
}

aclnnStatus aclnnLightningIndexer(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                  const aclrtStream stream)
{
    ag_error_enter(__func__);
    return ag_executor_run(&indexer_forward_operator, workspace, workspaceSize, executor, stream);
}
