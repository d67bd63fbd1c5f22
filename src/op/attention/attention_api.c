#include "aclnnop/aclnn_flash_attention_score_grad.h"

#include <stddef.h>

#include "base/check.h"
#include "base/log.h"
#include "op/attention/attention.h"
#include "op/attention/attention_plan.h"
#include "runtime/executor.h"

#define OPERAND(name, member)                                                                                        \
    {                                                                                                                \
        name, offsetof(struct attention_plan, problem.member)                                                        \
    }

/* Every tensor argument in the order of the parameter list: programs number them when they move memory. */
static const struct ag_operand operands[] = {
    OPERAND("query", query),
    OPERAND("queryRope", query_rope),
    OPERAND("keyIn", key),
    OPERAND("keyInRope", key_rope),
    OPERAND("value", value),
    OPERAND("dy", dy),
    OPERAND("pseShiftOptional", rejected),
    OPERAND("dropMaskOptional", rejected),
    OPERAND("paddingMaskOptional", padding_mask),
    OPERAND("attenMaskOptional", mask),
    OPERAND("softmaxMaxOptional", softmax_max),
    OPERAND("softmaxSumOptional", softmax_sum),
    OPERAND("softmaxInOptional", softmax_in),
    OPERAND("attentionInOptional", attention_in),
    /* outputs */
    OPERAND("dqOut", dq),
    OPERAND("dqRopeOut", dq_rope),
    OPERAND("dkOut", dk),
    OPERAND("dkRopeOut", dk_rope),
    OPERAND("dvOut", dv),
    OPERAND("dpseOut", dpse),
};

enum { INPUTS = 14, OUTPUTS = sizeof operands / sizeof *operands - INPUTS };

static const struct ag_operator attention_operator = {
    .name = "aclnnFlashAttentionUnpaddingScoreGradV3",
    .plan_bytes = sizeof(struct attention_plan),
    .operands = operands,
    .inputs = INPUTS,
    .outputs = OUTPUTS,
    .adopt = attention_adopt_plan,
    .run = attention_run_plan,
    .describe = attention_describe_plan,
};

/* Phase 1 after the arguments have names. */
static ag_status prepare(const struct attention_args *args, uint64_t *workspace_size, aclOpExecutor **executor)
{
    struct attention_problem problem;
    struct attention_plan plan;
    AG_TRY(ag_config_check(AG_INVALID));
    AG_TRY(attention_check(args, &problem));
    ag_status status = attention_make_plan(&problem, &plan);
    if (status == AG_OK) {
        status = ag_executor_create(&attention_operator, &plan, plan.table_bytes, plan.workspace_bytes,
                                    workspace_size, executor);
    }
    attention_release(&problem);
    return status;
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
    const aclTensor *query, const aclTensor *queryRope, const aclTensor *keyIn, const aclTensor *keyInRope,
    const aclTensor *value, const aclTensor *dy, const aclTensor *pseShiftOptional, const aclTensor *dropMaskOptional,
    const aclTensor *paddingMaskOptional, const aclTensor *attenMaskOptional, const aclTensor *softmaxMaxOptional,
    const aclTensor *softmaxSumOptional, const aclTensor *softmaxInOptional, const aclTensor *attentionInOptional,
    const aclIntArray *prefixOptional, const aclIntArray *actualSeqQLenOptional,
    const aclIntArray *actualSeqKvLenOptional, const aclIntArray *qStartIdxOptional,
    const aclIntArray *kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char *inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    const aclTensor *dqOut, const aclTensor *dqRopeOut, const aclTensor *dkOut, const aclTensor *dkRopeOut,
    const aclTensor *dvOut, const aclTensor *dpseOut, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct attention_args args = {
        .query = query,
        .query_rope = queryRope,
        .key = keyIn,
        .key_rope = keyInRope,
        .value = value,
        .dy = dy,
        .pse_shift = pseShiftOptional,
        .drop_mask = dropMaskOptional,
        .padding_mask = paddingMaskOptional,
        .atten_mask = attenMaskOptional,
        .softmax_max = softmaxMaxOptional,
        .softmax_sum = softmaxSumOptional,
        .softmax_in = softmaxInOptional,
        .attention_in = attentionInOptional,
        .prefix = prefixOptional,
        .actual_seq_q = actualSeqQLenOptional,
        .actual_seq_kv = actualSeqKvLenOptional,
        .q_start = qStartIdxOptional,
        .kv_start = kvStartIdxOptional,
        .scale = scaleValue,
        .keep_prob = keepProb,
        .pre_tokens = preTokens,
        .next_tokens = nextTokens,
        .head_num = headNum,
        .input_layout = inputLayout,
        .inner_precise = innerPrecise,
        .sparse_mode = sparseMode,
        .pse_type = pseType,
        .dq = dqOut,
        .dq_rope = dqRopeOut,
        .dk = dkOut,
        .dk_rope = dkRopeOut,
        .dv = dvOut,
        .dpse = dpseOut,
        .workspace_size = workspaceSize,
        .executor = executor,
    };
    ag_error_enter("aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize");
    return ag_executor_tell_refusal(&attention_operator, prepare(&args, workspaceSize, executor));
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                    const aclrtStream stream)
{
    ag_error_enter(attention_operator.name);
    return ag_executor_run(&attention_operator, workspace, workspaceSize, executor, stream);
}
