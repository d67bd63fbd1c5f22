/* Experts of a DeepSeek-like layer: hidden size 7168, 8 of 64 experts per token, of which this rank owns experts 8 to 15. */
#include <stdlib.h>

#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "demo.h"
#include "op/moe/moe.h"

enum { TOKENS = 1024, TOPK = 8, HIDDEN = 7168, SLOTS = TOKENS * TOPK, EXPERTS = 64, FIRST = 8, BEYOND = 16 };

static struct demo_tensor grad, indices, permuted, probs, permuted_grad, probs_grad;
static int64_t window[2];
static aclIntArray *range;

/* TOPK different experts for a token: a random start and an odd, so never repeating, step through all of them. */
static int64_t expert_of(int64_t slot)
{
    const uint32_t r = demo_random(30, (uint64_t)(slot / TOPK));
    const uint32_t step = 2 * (r >> 8 & 31) + 1;
    return (r + step * (uint32_t)(slot % TOPK)) % EXPERTS;
}

/* Slots sorted by expert, in order of tokens within one; position[slot] is where a slot went. */
static void sort_by_expert(int32_t *position)
{
    int64_t next[EXPERTS + 1] = {0};
    for (int64_t slot = 0; slot < SLOTS; ++slot) {
        ++next[expert_of(slot) + 1];
    }
    for (int expert = 0; expert < EXPERTS; ++expert) {
        next[expert + 1] += next[expert];
    }
    window[0] = next[FIRST];
    window[1] = next[BEYOND];
    for (int64_t slot = 0; slot < SLOTS; ++slot) {
        position[slot] = (int32_t)next[expert_of(slot)]++;
    }
}

static void prepare(void)
{
    const int64_t by_token[2] = {TOKENS, HIDDEN}, by_slot[1] = {SLOTS}, by_expert[2] = {TOKENS, TOPK};
    indices = demo_tensor_create(ACL_INT32, 1, by_slot);
    sort_by_expert(indices.memory);
    const int64_t by_row[2] = {window[1] - window[0], HIDDEN};
    grad = demo_tensor_create(ACL_BF16, 2, by_token);
    permuted = demo_tensor_create(ACL_BF16, 2, by_row);
    probs = demo_tensor_create(ACL_BF16, 2, by_expert);
    permuted_grad = demo_tensor_create(ACL_BF16, 2, by_row);
    probs_grad = demo_tensor_create(ACL_BF16, 2, by_expert);
    demo_tensor_fill(&grad, 0.02f, 31);
    demo_tensor_fill(&permuted, 1.0f, 32);
    demo_tensor_fill(&probs, 0.125f, 33);
    range = aclCreateIntArray(window, 2);
}

static aclnnStatus plan(uint64_t *workspace, aclOpExecutor **executor)
{
    return aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
        grad.handle, indices.handle, permuted.handle, probs.handle, false, NULL, range, TOPK, permuted_grad.handle,
        probs_grad.handle, workspace, executor);
}

enum { OUTPUTS = 2 };
static struct demo_want wants[OUTPUTS];

static aclnnStatus define(void)
{
    uint64_t workspace = 0;
    aclOpExecutor *executor = NULL;
    const struct moe_args args = {.unpermuted_tokens_grad = grad.handle,
                                  .sorted_indices = indices.handle,
                                  .permuted_tokens = permuted.handle,
                                  .probs = probs.handle,
                                  .range = range,
                                  .topk_num = TOPK,
                                  .permuted_tokens_grad = permuted_grad.handle,
                                  .probs_grad = probs_grad.handle,
                                  .workspace_size = &workspace,
                                  .executor = &executor};
    demo_want_create(&wants[0], "permutedTokensGrad", &permuted_grad); /* bound 0: the product is rounded once */
    demo_want_create(&wants[1], "probsGrad", &probs_grad);
    const struct moe_reference reference = {wants[0].value, wants[1].value, wants[1].bound};
    struct moe_problem problem;
    const ag_status status = moe_check(&args, &problem);
    if (status == AG_OK) {
        moe_ref(&problem, &reference);
    }
    return (aclnnStatus)status;
}

static double worst(const char **output)
{
    return demo_worst(wants, OUTPUTS, output);
}

static void release(void)
{
    struct demo_tensor *const all[] = {&grad, &indices, &permuted, &probs, &permuted_grad, &probs_grad};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        demo_tensor_destroy(all[i]);
    }
    for (int i = 0; i < OUTPUTS; ++i) {
        demo_want_destroy(&wants[i]);
    }
    aclDestroyIntArray(range);
}

const struct demo_case demo_moe = {
    .operator_name = "MoeTokenUnpermuteWithEpGrad",
    .problem = "1024 tokens of 7168, top-8, experts 8-15 of 64",
    .prepare = prepare,
    .plan = plan,
    .run = aclnnMoeTokenUnpermuteWithEpGrad,
    .define = define,
    .worst = worst,
    .release = release,
};
