#include "aclnnop/aclnn_flash_attention_score_grad.h"

#include <stddef.h>

#include "base/check.h"
#include "base/log.h"
#include "op/attention/attention.h"
#include "op/attention/attention_plan.h"
#include "runtime/executor.h"

/* --- operands: every tensor argument in the order of the parameter list; programs number them when they move memory */

#define OPERAND(name, member)                                                                                        \
    {                                                                                                                \
        name, offsetof(struct attention_plan, problem.member)                                                        \
    }

/* Of versions 1, 2 and 4. */
static const struct ag_operand plain_operands[] = {
    OPERAND("query", query),
    OPERAND("keyIn", key),
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
    OPERAND("dkOut", dk),
    OPERAND("dvOut", dv),
    OPERAND("dpseOut", dpse),
};

/* Of version 3. */
static const struct ag_operand rope_operands[] = {
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

/* Of version 5. */
static const struct ag_operand sink_operands[] = {
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
    OPERAND("sinkInOptional", sink),
    /* outputs */
    OPERAND("dqOut", dq),
    OPERAND("dqRopeOut", dq_rope),
    OPERAND("dkOut", dk),
    OPERAND("dkRopeOut", dk_rope),
    OPERAND("dvOut", dv),
    OPERAND("dpseOut", dpse),
    OPERAND("dsinkOut", dsink),
};

/* --- the operators --------------------------------------------------------------------------------------- */

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

#define OPERATOR(name_, table, inputs_)                                                                              \
    {                                                                                                                \
        .name = name_, .plan_bytes = sizeof(struct attention_plan), .operands = table, .inputs = inputs_,            \
        .outputs = COUNT(table) - (inputs_), .adopt = attention_adopt_plan, .run = attention_run_plan,               \
        .describe = attention_describe_plan                                                                          \
    }

static const struct ag_operator operator_v1 = OPERATOR("aclnnFlashAttentionUnpaddingScoreGrad", plain_operands, 12);
static const struct ag_operator operator_v2 = OPERATOR("aclnnFlashAttentionUnpaddingScoreGradV2", plain_operands, 12);
static const struct ag_operator operator_v3 = OPERATOR("aclnnFlashAttentionUnpaddingScoreGradV3", rope_operands, 14);
static const struct ag_operator operator_v4 = OPERATOR("aclnnFlashAttentionUnpaddingScoreGradV4", plain_operands, 12);
static const struct ag_operator operator_v5 = OPERATOR("aclnnFlashAttentionUnpaddingScoreGradV5", sink_operands, 15);

/* --- phase 1 --------------------------------------------------------------------------------------------- */

static ag_status prepare(const struct ag_operator *op, const struct attention_args *args, uint64_t *workspace_size,
                         aclOpExecutor **executor)
{
    struct attention_problem problem;
    struct attention_plan plan;
    AG_TRY(ag_config_check(AG_INVALID));
    AG_TRY(attention_check(args, &problem));
    ag_status status = attention_make_plan(&problem, &plan);
    if (status == AG_OK) {
        status = ag_executor_create(op, &plan, plan.table_bytes, plan.workspace_bytes, workspace_size, executor);
    }
    attention_release(&problem);
    return status;
}

/* Phase 1 after the arguments have names. `function` is its own name, for messages. */
static aclnnStatus begin(const struct ag_operator *op, const char *function, struct attention_args args,
                         uint64_t *workspace_size, aclOpExecutor **executor)
{
    ag_error_enter(function);
    args.entry = op->name;
    args.workspace_size = workspace_size;
    args.executor = executor;
    return ag_executor_tell_refusal(op, prepare(op, &args, workspace_size, executor));
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize(
    const aclTensor *query, const aclTensor *keyIn, const aclTensor *value, const aclTensor *dy,
    const aclTensor *pseShiftOptional, const aclTensor *dropMaskOptional, const aclTensor *paddingMaskOptional,
    const aclTensor *attenMaskOptional, const aclTensor *softmaxMaxOptional, const aclTensor *softmaxSumOptional,
    const aclTensor *softmaxInOptional, const aclTensor *attentionInOptional, const aclIntArray *prefixOptional,
    const aclIntArray *actualSeqQLenOptional, const aclIntArray *actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char *inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor *dqOut, const aclTensor *dkOut, const aclTensor *dvOut,
    const aclTensor *dpseOut, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct attention_args args = {
        .query = query,
        .key = keyIn,
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
        .scale = scaleValue,
        .keep_prob = keepProb,
        .pre_tokens = preTokens,
        .next_tokens = nextTokens,
        .head_num = headNum,
        .input_layout = inputLayout,
        .inner_precise = innerPrecise,
        .sparse_mode = sparseMode,
        .dq = dqOut,
        .dk = dkOut,
        .dv = dvOut,
        .dpse = dpseOut,
        .pse_type = 1,
    };
    return begin(&operator_v1, "aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize", args, workspaceSize,
                 executor);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize(
    const aclTensor *query, const aclTensor *keyIn, const aclTensor *value, const aclTensor *dy,
    const aclTensor *pseShiftOptional, const aclTensor *dropMaskOptional, const aclTensor *paddingMaskOptional,
    const aclTensor *attenMaskOptional, const aclTensor *softmaxMaxOptional, const aclTensor *softmaxSumOptional,
    const aclTensor *softmaxInOptional, const aclTensor *attentionInOptional, const aclIntArray *prefixOptional,
    const aclIntArray *actualSeqQLenOptional, const aclIntArray *actualSeqKvLenOptional,
    const aclIntArray *qStartIdxOptional, const aclIntArray *kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char *inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, const aclTensor *dqOut, const aclTensor *dkOut, const aclTensor *dvOut,
    const aclTensor *dpseOut, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct attention_args args = {
        .query = query,
        .key = keyIn,
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
        .dk = dkOut,
        .dv = dvOut,
        .dpse = dpseOut,
    };
    return begin(&operator_v2, "aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize", args, workspaceSize,
                 executor);
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
    };
    return begin(&operator_v3, "aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize", args, workspaceSize,
                 executor);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize(
    const aclTensor *query, const aclTensor *keyIn, const aclTensor *value, const aclTensor *dy,
    const aclTensor *pseShiftOptional, const aclTensor *dropMaskOptional, const aclTensor *paddingMaskOptional,
    const aclTensor *attenMaskOptional, const aclTensor *softmaxMaxOptional, const aclTensor *softmaxSumOptional,
    const aclTensor *softmaxInOptional, const aclTensor *attentionInOptional, const aclIntArray *prefixOptional,
    const aclIntArray *actualSeqQLenOptional, const aclIntArray *actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char *inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor *dqOut, const aclTensor *dkOut, const aclTensor *dvOut,
    const aclTensor *dpseOut, char *softmaxInLayout, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const struct attention_args args = {
        .query = query,
        .key = keyIn,
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
        .scale = scaleValue,
        .keep_prob = keepProb,
        .pre_tokens = preTokens,
        .next_tokens = nextTokens,
        .head_num = headNum,
        .input_layout = inputLayout,
        .inner_precise = innerPrecise,
        .sparse_mode = sparseMode,
        .dq = dqOut,
        .dk = dkOut,
        .dv = dvOut,
        .dpse = dpseOut,
        .softmax_layout = softmaxInLayout,
        .pse_type = 1,
    };
    return begin(&operator_v4, "aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize", args, workspaceSize,
                 executor);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
    const aclTensor *query, const aclTensor *queryRope, const aclTensor *keyIn, const aclTensor *keyInRope,
    const aclTensor *value, const aclTensor *dy, const aclTensor *pseShiftOptional, const aclTensor *dropMaskOptional,
    const aclTensor *paddingMaskOptional, const aclTensor *attenMaskOptional, const aclTensor *softmaxMaxOptional,
    const aclTensor *softmaxSumOptional, const aclTensor *softmaxInOptional, const aclTensor *attentionInOptional,
    const aclTensor *sinkInOptional, const aclIntArray *prefixOptional, const aclIntArray *actualSeqQLenOptional,
    const aclIntArray *actualSeqKvLenOptional, const aclIntArray *qStartIdxOptional,
    const aclIntArray *kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char *inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char *softmaxInLayout, const aclTensor *dqOut, const aclTensor *dqRopeOut, const aclTensor *dkOut,
    const aclTensor *dkRopeOut, const aclTensor *dvOut, const aclTensor *dpseOut, const aclTensor *dsinkOut,
    uint64_t *workspaceSize, aclOpExecutor **executor)
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
        .sink = sinkInOptional,
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
        .softmax_layout = softmaxInLayout,
        .dq = dqOut,
        .dq_rope = dqRopeOut,
        .dk = dkOut,
        .dk_rope = dkRopeOut,
        .dv = dvOut,
        .dpse = dpseOut,
        .dsink = dsinkOut,
    };
    return begin(&operator_v5, "aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize", args, workspaceSize,
                 executor);
}

/* --- phase 2 --------------------------------------------------------------------------------------------- */

aclnnStatus aclnnFlashAttentionUnpaddingScoreGrad(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                  const aclrtStream stream)
{
    ag_error_enter(operator_v1.name);
    return ag_executor_run(&operator_v1, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV2(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                    const aclrtStream stream)
{
    ag_error_enter(operator_v2.name);
    return ag_executor_run(&operator_v2, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                    const aclrtStream stream)
{
    ag_error_enter(operator_v3.name);
    return ag_executor_run(&operator_v3, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV4(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                    const aclrtStream stream)
{
    ag_error_enter(operator_v4.name);
    return ag_executor_run(&operator_v4, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                    const aclrtStream stream)
{
    ag_error_enter(operator_v5.name);
    return ag_executor_run(&operator_v5, workspace, workspaceSize, executor, stream);
}
