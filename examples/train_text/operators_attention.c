#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "device_tensors.h"

enum { CAUSAL_RIGHT = 3, STATISTIC_COPIES = 8 };
static const int64_t all_tokens = 2147483647; /* preTokens, nextTokens: not used by this sparse mode */

static struct dims by_head(const struct attention *a, int64_t heads, int64_t dim)
{
    return (struct dims){3, {a->documents.tokens, heads, dim}};
}

void attention_forward(struct attention *a)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    aclTensor *query = device_input(a->query, by_head(a, a->query_heads, a->dim));
    aclTensor *query_rope = device_input(a->query_rope, by_head(a, a->query_heads, a->rope_dim));
    aclTensor *key = device_input(a->key, by_head(a, a->key_heads, a->dim));
    aclTensor *key_rope = device_input(a->key_rope, by_head(a, a->key_heads, a->rope_dim));
    aclTensor *value = device_input(a->value, by_head(a, a->key_heads, a->dim));
    aclIntArray *ends = device_list(a->documents.ends, a->documents.count);
    const struct dims statistics = by_head(a, a->query_heads, STATISTIC_COPIES);
    aclTensor *maximum = device_output_raw(ACL_FLOAT, a->maximum, statistics);
    aclTensor *sum = device_output_raw(ACL_FLOAT, a->sum, statistics);
    aclTensor *output = device_output(a->output, by_head(a, a->query_heads, a->dim), ARRIVAL_PUT);
    const double began = device_clock();
    CHECK(aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize(
        query, query_rope, key, key_rope, value, NULL, NULL, NULL, device_mask(), NULL, ends, ends, NULL, NULL,
        a->scale, 1, all_tokens, all_tokens, a->query_heads, "TND", 0, CAUSAL_RIGHT, 1, maximum, sum, NULL, output,
        &bytes, &executor));
    device_run(OPERATOR_ATTENTION, aclnnFlashAttentionVarLenScoreV3, bytes, executor, began);
}

void attention_backward(struct attention *a, const struct attention_gradients *gradients)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    const struct dims queries = by_head(a, a->query_heads, a->dim), keys = by_head(a, a->key_heads, a->dim);
    const struct dims query_ropes = by_head(a, a->query_heads, a->rope_dim);
    const struct dims key_ropes = by_head(a, a->key_heads, a->rope_dim);
    const struct dims statistics = by_head(a, a->query_heads, STATISTIC_COPIES);
    aclTensor *query = device_input(a->query, queries), *query_rope = device_input(a->query_rope, query_ropes);
    aclTensor *key = device_input(a->key, keys), *key_rope = device_input(a->key_rope, key_ropes);
    aclTensor *value = device_input(a->value, keys);
    aclTensor *output_gradient = device_input(gradients->output, queries);
    aclTensor *output = device_input(a->output, queries);
    aclTensor *maximum = device_raw(ACL_FLOAT, a->maximum, statistics);
    aclTensor *sum = device_raw(ACL_FLOAT, a->sum, statistics);
    aclIntArray *ends = device_list(a->documents.ends, a->documents.count);
    aclTensor *dquery = device_output(gradients->query, queries, ARRIVAL_PUT);
    aclTensor *dquery_rope = device_output(gradients->query_rope, query_ropes, ARRIVAL_PUT);
    aclTensor *dkey = device_output(gradients->key, keys, ARRIVAL_PUT);
    aclTensor *dkey_rope = device_output(gradients->key_rope, key_ropes, ARRIVAL_PUT);
    aclTensor *dvalue = device_output(gradients->value, keys, ARRIVAL_PUT);
    const double began = device_clock();
    CHECK(aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
        query, query_rope, key, key_rope, value, output_gradient, NULL, NULL, NULL, device_mask(), maximum, sum, NULL,
        output, NULL, ends, ends, NULL, NULL, a->scale, 1, all_tokens, all_tokens, a->query_heads, "TND", 0,
        CAUSAL_RIGHT, 1, dquery, dquery_rope, dkey, dkey_rope, dvalue, NULL, &bytes, &executor));
    device_run(OPERATOR_ATTENTION_GRAD, aclnnFlashAttentionUnpaddingScoreGradV3, bytes, executor, began);
}
