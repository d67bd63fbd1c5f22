/* Attention of a DeepSeek-like layer: head dim 128 and 64 of rope, value dim 128, four sequences in one pack, causal. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "base/config.h"
#include "base/half.h"
#include "base/parallel.h"
#include "demo.h"
#include "op/attention/attention.h"

enum { SEQUENCES = 4, TOKENS = 1500, HEADS = 16, DIM = 128, ROPE = 64, DIM_V = 128, STATISTICS = 8, MASK = 2048 };

static const int64_t ends[SEQUENCES] = {640, 1003, 1039, TOKENS};
static const double scale = 0.07216878364870323; /* 1 / sqrt(128 + 64) */
static char layout[] = "TND";

static struct demo_tensor query, query_rope, key, key_rope, value, dy, attention, softmax_max, softmax_sum, mask;
static struct demo_tensor dq, dq_rope, dk, dk_rope, dv;
static aclIntArray *lengths;

/* Inputs as floats, for the forward pass. */
struct forward {
    float *query, *query_rope, *key, *key_rope, *value;
};

static int64_t sequence_of(int64_t token)
{
    int64_t b = 0;
    while (ends[b] <= token) {
        ++b;
    }
    return b;
}

/* Item: a token and a head. Writes its row of the output and its statistics, in the order the operator expects: per
 * sequence, head-major. */
static void forward_row(void *context, int64_t item, int lane)
{
    (void)lane;
    const struct forward *f = context;
    const int64_t token = item / HEADS, head = item % HEADS, b = sequence_of(token), begin = b ? ends[b - 1] : 0;
    float score[TOKENS], out[DIM_V] = {0}, most = -INFINITY, sum = 0;
    for (int64_t j = begin; j <= token; ++j) {
        const int64_t at = j * HEADS + head;
        score[j - begin] = (float)scale * (demo_dot(f->query + item * DIM, f->key + at * DIM, DIM) +
                                           demo_dot(f->query_rope + item * ROPE, f->key_rope + at * ROPE, ROPE));
        most = fmaxf(most, score[j - begin]);
    }
    for (int64_t j = begin; j <= token; ++j) {
        const float p = expf(score[j - begin] - most), *v = f->value + (j * HEADS + head) * DIM_V;
        sum += p;
        for (int64_t e = 0; e < DIM_V; ++e) {
            out[e] += p * v[e];
        }
    }
    for (int64_t e = 0; e < DIM_V; ++e) {
        ((ag_bf16 *)attention.memory)[item * DIM_V + e] = ag_f32_to_bf16(out[e] / sum);
    }
    const int64_t row = begin * HEADS + head * (ends[b] - begin) + (token - begin);
    for (int64_t copy = 0; copy < STATISTICS; ++copy) {
        ((float *)softmax_max.memory)[row * STATISTICS + copy] = most;
        ((float *)softmax_sum.memory)[row * STATISTICS + copy] = sum;
    }
}

static void run_forward(void)
{
    struct forward f = {demo_floats(&query), demo_floats(&query_rope), demo_floats(&key), demo_floats(&key_rope),
                        demo_floats(&value)};
    ag_parallel_for(ag_config_get().threads, (int64_t)TOKENS * HEADS, forward_row, &f);
    float *const all[] = {f.query, f.query_rope, f.key, f.key_rope, f.value};
    for (int i = 0; i < 5; ++i) {
        free(all[i]);
    }
}

static struct demo_tensor rows(int64_t dim)
{
    const int64_t dims[3] = {TOKENS, HEADS, dim};
    return demo_tensor_create(ACL_BF16, 3, dims);
}

static void prepare(void)
{
    const int64_t statistics[3] = {TOKENS, HEADS, STATISTICS}, square[2] = {MASK, MASK};
    struct demo_tensor *const inputs[] = {&query, &key, &value, &dy, &query_rope, &key_rope};
    for (int i = 0; i < 6; ++i) {
        *inputs[i] = rows(i < 4 ? DIM : ROPE);
        demo_tensor_fill(inputs[i], 1.0f, 10 + (uint64_t)i);
    }
    attention = rows(DIM_V);
    softmax_max = demo_tensor_create(ACL_FLOAT, 3, statistics);
    softmax_sum = demo_tensor_create(ACL_FLOAT, 3, statistics);
    mask = demo_tensor_create(ACL_UINT8, 2, square);
    for (int64_t at = 0; at < (int64_t)MASK * MASK; ++at) {
        ((uint8_t *)mask.memory)[at] = at % MASK > at / MASK;
    }
    run_forward();
    dq = rows(DIM);
    dq_rope = rows(ROPE);
    dk = rows(DIM);
    dk_rope = rows(ROPE);
    dv = rows(DIM_V);
    lengths = aclCreateIntArray(ends, SEQUENCES);
}

static aclnnStatus plan(uint64_t *workspace, aclOpExecutor **executor)
{
    return aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
        query.handle, query_rope.handle, key.handle, key_rope.handle, value.handle, dy.handle, NULL, NULL, NULL,
        mask.handle, softmax_max.handle, softmax_sum.handle, NULL, attention.handle, NULL, lengths, lengths, NULL,
        NULL, scale, 1.0, INT32_MAX, INT32_MAX, HEADS, layout, 0, 3, 1, dq.handle, dq_rope.handle, dk.handle,
        dk_rope.handle, dv.handle, NULL, workspace, executor);
}

enum { OUTPUTS = 5 };
static struct demo_want wants[OUTPUTS];

static aclnnStatus define(void)
{
    uint64_t workspace = 0;
    aclOpExecutor *executor = NULL;
    const struct attention_args args = {.query = query.handle,
                                        .query_rope = query_rope.handle,
                                        .key = key.handle,
                                        .key_rope = key_rope.handle,
                                        .value = value.handle,
                                        .dy = dy.handle,
                                        .atten_mask = mask.handle,
                                        .softmax_max = softmax_max.handle,
                                        .softmax_sum = softmax_sum.handle,
                                        .attention_in = attention.handle,
                                        .actual_seq_q = lengths,
                                        .actual_seq_kv = lengths,
                                        .scale = scale,
                                        .keep_prob = 1.0,
                                        .pre_tokens = INT32_MAX,
                                        .next_tokens = INT32_MAX,
                                        .head_num = HEADS,
                                        .input_layout = layout,
                                        .sparse_mode = 3,
                                        .pse_type = 1,
                                        .dq = dq.handle,
                                        .dq_rope = dq_rope.handle,
                                        .dk = dk.handle,
                                        .dk_rope = dk_rope.handle,
                                        .dv = dv.handle,
                                        .workspace_size = &workspace,
                                        .executor = &executor};
    demo_want_create(&wants[0], "dq", &dq);
    demo_want_create(&wants[1], "dqRope", &dq_rope);
    demo_want_create(&wants[2], "dk", &dk);
    demo_want_create(&wants[3], "dkRope", &dk_rope);
    demo_want_create(&wants[4], "dv", &dv);
    const struct attention_ref ref = {wants[0].value, wants[0].bound, wants[1].value, wants[1].bound,
                                      wants[2].value, wants[2].bound, wants[3].value, wants[3].bound,
                                      wants[4].value, wants[4].bound, NULL,           NULL};
    struct attention_problem problem;
    ag_status status = attention_check(&args, &problem);
    if (status == AG_OK) {
        status = attention_ref(&problem, AG_SOFTMAX_CANN, &ref);
        attention_release(&problem);
    }
    return (aclnnStatus)status;
}

static double worst(const char **output)
{
    return demo_worst(wants, OUTPUTS, output);
}

static void release(void)
{
    struct demo_tensor *const all[] = {&query, &query_rope, &key,         &key_rope,    &value,
                                       &dy,    &attention,  &softmax_max, &softmax_sum, &mask,
                                       &dq,    &dq_rope,    &dk,          &dk_rope,     &dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        demo_tensor_destroy(all[i]);
    }
    for (int i = 0; i < OUTPUTS; ++i) {
        demo_want_destroy(&wants[i]);
    }
    aclDestroyIntArray(lengths);
}

const struct demo_case demo_attention = {
    .operator_name = "FlashAttentionUnpaddingScoreGradV3",
    .problem = "640+363+36+461 tokens, 16 heads, 128+64 rope, causal",
    .prepare = prepare,
    .plan = plan,
    .run = aclnnFlashAttentionUnpaddingScoreGradV3,
    .define = define,
    .worst = worst,
    .release = release,
};
