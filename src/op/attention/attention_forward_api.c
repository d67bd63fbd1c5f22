#include "aclnnop/aclnn_flash_attention_score.h"

#include <stddef.h>

#include "base/check.h"
#include "base/log.h"
#include "op/attention/attention_forward.h"
#include "op/attention/attention_forward_plan.h"
#include "runtime/executor.h"

/* --- operands: every tensor argument in the order of the parameter list; programs number them when they move memory */

#define OPERAND(name, member)                                                                                        \
    {                                                                                                                \
        name, offsetof(struct attention_forward_plan, base.problem.member)                                           \
    }

static const struct ag_operand v3_operands[] = {
    OPERAND("query", query),
    OPERAND("queryRope", query_rope),
    OPERAND("key", key),
    OPERAND("keyRope", key_rope),
    OPERAND("value", value),
    OPERAND("realShiftOptional", rejected),
    OPERAND("dropMaskOptional", rejected),
    OPERAND("paddingMaskOptional", padding_mask),
    OPERAND("attenMaskOptional", mask),
    /* outputs */
    OPERAND("softmaxMaxOut", softmax_max),
    OPERAND("softmaxSumOut", softmax_sum),
    OPERAND("softmaxOutOut", softmax_in),
    OPERAND("attentionOutOut", attention_in),
};

static const struct ag_operand v4_operands[] = {
    OPERAND("query", query),
    OPERAND("key", key),
    OPERAND("value", value),
    OPERAND("realShiftOptional", rejected),
    OPERAND("dropMaskOptional", rejected),
    OPERAND("paddingMaskOptional", padding_mask),
    OPERAND("attenMaskOptional", mask),
    /* outputs */
    OPERAND("softmaxMaxOut", softmax_max),
    OPERAND("softmaxSumOut", softmax_sum),
    OPERAND("softmaxOutOut", softmax_in),
    OPERAND("attentionOutOut", attention_in),
};

static const struct ag_operand v5_operands[] = {
    OPERAND("query", query),
    OPERAND("queryRope", query_rope),
    OPERAND("key", key),
    OPERAND("keyRope", key_rope),
    OPERAND("value", value),
    OPERAND("realShiftOptional", rejected),
    OPERAND("dropMaskOptional", rejected),
    OPERAND("paddingMaskOptional", padding_mask),
    OPERAND("attenMaskOptional", mask),
    OPERAND("sinkOptional", sink),
    /* outputs */
    OPERAND("softmaxMaxOut", softmax_max),
    OPERAND("softmaxSumOut", softmax_sum),
    OPERAND("softmaxOutOut", softmax_in),
    OPERAND("attentionOutOut", attention_in),
};

/* --- the operators --------------------------------------------------------------------------------------- */

enum { OUTPUTS = 4 };

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

#define OPERATOR(name_, table)                                                                                       \
    {                                                                                                                \
        .name = name_, .plan_bytes = sizeof(struct attention_forward_plan), .operands = table,                       \
        .inputs = COUNT(table) - OUTPUTS, .outputs = OUTPUTS, .adopt = attention_forward_adopt_plan,                 \
        .run = attention_forward_run_plan, .describe = attention_forward_describe_plan                               \
    }

static const struct ag_operator operator_v3 = OPERATOR("aclnnFlashAttentionVarLenScoreV3", v3_operands);
static const struct ag_operator operator_v4 = OPERATOR("aclnnFlashAttentionVarLenScoreV4", v4_operands);
static const struct ag_operator operator_v5 = OPERATOR("aclnnFlashAttentionVarLenScoreV5", v5_operands);

/* --- phase 1 --------------------------------------------------------------------------------------------- */

static ag_status prepare(const struct ag_operator *op, const struct attention_args *args,
                         enum attention_forward_version version, uint64_t *workspace_size, aclOpExecutor **executor)
{
    struct attention_problem problem;
    struct attention_forward_plan plan;
    AG_TRY(ag_config_check(AG_INVALID));
    AG_TRY(attention_forward_check(args, version, &problem));
    ag_status status = attention_forward_make_plan(&problem, &plan);
    if (status == AG_OK) {
        status =
            ag_executor_create(op, &plan, plan.base.table_bytes, plan.base.workspace_bytes, workspace_size, executor);
    }
    attention_release(&problem);
    return status;
}

/* Phase 1 after the arguments have names. `function` is its own name, for messages. */
static aclnnStatus begin(const struct ag_operator *op, const char *function, enum attention_forward_version version,
                         struct attention_args args, uint64_t *workspace_size, aclOpExecutor **executor)
{
    ag_error_enter(function);
    args.entry = op->name;
    args.workspace_size = workspace_size;
    args.executor = executor;
    return ag_executor_tell_refusal(op, prepare(op, &args, version, workspace_size, executor));
}

aclnnStatus aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize(
    const aclTensor *query, const aclTensor *queryRope, const aclTensor *key, const aclTensor *keyRope,
    const aclTensor *value, const aclTensor *realShiftOptional, const aclTensor *dropMaskOptional,
    const aclTensor *paddingMaskOptional, const aclTensor *attenMaskOptional, const aclIntArray *prefixOptional,
    const aclIntArray *actualSeqQLenOptional, const aclIntArray *actualSeqKvLenOptional,
    const aclIntArray *qStartIdxOptional, const aclIntArray *kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char *inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, const aclTensor *softmaxMaxOut, const aclTensor *softmaxSumOut,
    const aclTensor *softmaxOutOut, const aclTensor *attentionOutOut, uint64_t *workspaceSize,
    aclOpExecutor **executor)
{
    const struct attention_args args = {
        .query = query,
        .query_rope = queryRope,
        .key = key,
        .key_rope = keyRope,
        .value = value,
        .pse_shift = realShiftOptional,
        .drop_mask = dropMaskOptional,
        .padding_mask = paddingMaskOptional,
        .atten_mask = attenMaskOptional,
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
        .softmax_max = softmaxMaxOut,
        .softmax_sum = softmaxSumOut,
        .softmax_in = softmaxOutOut,
        .attention_in = attentionOutOut,
    };
    return begin(&operator_v3, "aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize", ATTENTION_FORWARD_V3, args,
                 workspaceSize, executor);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *value, const aclTensor *realShiftOptional,
    const aclTensor *dropMaskOptional, const aclTensor *paddingMaskOptional, const aclTensor *attenMaskOptional,
    const aclIntArray *prefixOptional, const aclIntArray *actualSeqQLenOptional,
    const aclIntArray *actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char *inputLayout, int64_t innerPrecise, int64_t sparseMode,
    char *softmaxOutLayout, const aclTensor *softmaxMaxOut, const aclTensor *softmaxSumOut,
    const aclTensor *softmaxOutOut, const aclTensor *attentionOutOut, uint64_t *workspaceSize,
    aclOpExecutor **executor)
{
    const struct attention_args args = {
        .query = query,
        .key = key,
        .value = value,
        .pse_shift = realShiftOptional,
        .drop_mask = dropMaskOptional,
        .padding_mask = paddingMaskOptional,
        .atten_mask = attenMaskOptional,
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
        .softmax_layout = softmaxOutLayout,
        .softmax_max = softmaxMaxOut,
        .softmax_sum = softmaxSumOut,
        .softmax_in = softmaxOutOut,
        .attention_in = attentionOutOut,
        .pse_type = 1,
    };
    return begin(&operator_v4, "aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize", ATTENTION_FORWARD_V4, args,
                 workspaceSize, executor);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize(
    const aclTensor *query, const aclTensor *queryRope, const aclTensor *key, const aclTensor *keyRope,
    const aclTensor *value, const aclTensor *realShiftOptional, const aclTensor *dropMaskOptional,
    const aclTensor *paddingMaskOptional, const aclTensor *attenMaskOptional, const aclTensor *sinkOptional,
    const aclIntArray *prefixOptional, const aclIntArray *actualSeqQLenOptional,
    const aclIntArray *actualSeqKvLenOptional, const aclIntArray *qStartIdxOptional,
    const aclIntArray *kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char *inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char *softmaxOutLayout, const aclTensor *softmaxMaxOut, const aclTensor *softmaxSumOut,
    const aclTensor *softmaxOutOut, const aclTensor *attentionOutOut, uint64_t *workspaceSize,
    aclOpExecutor **executor)
{
    const struct attention_args args = {
        .query = query,
        .query_rope = queryRope,
        .key = key,
        .key_rope = keyRope,
        .value = value,
        .pse_shift = realShiftOptional,
        .drop_mask = dropMaskOptional,
        .padding_mask = paddingMaskOptional,
        .atten_mask = attenMaskOptional,
        .sink = sinkOptional,
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
        .softmax_layout = softmaxOutLayout,
        .softmax_max = softmaxMaxOut,
        .softmax_sum = softmaxSumOut,
        .softmax_in = softmaxOutOut,
        .attention_in = attentionOutOut,
    };
    return begin(&operator_v5, "aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize", ATTENTION_FORWARD_V5, args,
                 workspaceSize, executor);
}

/* --- phase 2 --------------------------------------------------------------------------------------------- */

aclnnStatus aclnnFlashAttentionVarLenScoreV3(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                             const aclrtStream stream)
{
    ag_error_enter(operator_v3.name);
    return ag_executor_run(&operator_v3, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV4(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                             const aclrtStream stream)
{
    ag_error_enter(operator_v4.name);
    return ag_executor_run(&operator_v4, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV5(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                             const aclrtStream stream)
{
    ag_error_enter(operator_v5.name);
    return ag_executor_run(&operator_v5, workspace, workspaceSize, executor, stream);
}
