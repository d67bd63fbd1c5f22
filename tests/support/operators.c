#include "support/operators.h"

#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"

const char *test_operator_name(enum test_operator op)
{
    static const char *const names[TEST_OPERATORS] = {"moe", "indexer", "attention"};
    return names[op];
}

void test_operators_create(struct test_operators *all, uint64_t seed)
{
    struct test_random random = test_random_seed(seed);
    const struct moe_shape shape = moe_shape_of(AG_BF16, AG_FLOAT, 40, 4, 96);
    const struct indexer_case indexer = {.dtype = AG_BF16,
                                         .is_packed = true,
                                         .q_len = {9, 12},
                                         .kv_len = {40, 70},
                                         .heads = 8,
                                         .topk = 24,
                                         .mode = 3,
                                         .seed = seed};
    const struct attention_case attention = {.dtype = AG_FLOAT16,
                                             .n1 = 4,
                                             .n2 = 2,
                                             .d = 24,
                                             .q_ends = {30, 75},
                                             .kv_ends = {40, 100},
                                             .mode = 3,
                                             .mask_shape = TEST_MASK_COMPRESSED,
                                             .seed = seed};
    all->moe = moe_test_create(&shape, &random);
    indexer_call_create(&all->indexer, &indexer);
    attention_call_create(&all->attention, &attention);
}

void test_operators_destroy(struct test_operators *all)
{
    moe_test_destroy(&all->moe);
    indexer_call_destroy(&all->indexer);
    attention_call_destroy(&all->attention);
}

aclnnStatus test_operators_phase1(struct test_operators *all, enum test_operator op, uint64_t *workspace_size,
                                  aclOpExecutor **executor)
{
    if (op == TEST_MOE) {
        return moe_test_phase1(&all->moe, workspace_size, executor);
    }
    all->indexer.args.workspace_size = all->attention.args.workspace_size = workspace_size;
    all->indexer.args.executor = all->attention.args.executor = executor;
    return op == TEST_INDEXER ? indexer_call_phase1(&all->indexer) : attention_call_phase1(&all->attention);
}

aclnnStatus test_operators_phase2(enum test_operator op, void *workspace, uint64_t workspace_size,
                                  aclOpExecutor *executor, aclrtStream stream)
{
    switch (op) {
    case TEST_MOE:
        return aclnnMoeTokenUnpermuteWithEpGrad(workspace, workspace_size, executor, stream);
    case TEST_INDEXER:
        return aclnnLightningIndexerGrad(workspace, workspace_size, executor, stream);
    default:
        return aclnnFlashAttentionUnpaddingScoreGradV3(workspace, workspace_size, executor, stream);
    }
}

aclnnStatus test_operators_run(struct test_operators *all, enum test_operator op, aclrtStream stream)
{
    uint64_t workspace_size = 0;
    aclOpExecutor *executor = NULL;
    aclnnStatus status = test_operators_phase1(all, op, &workspace_size, &executor);
    if (status != 0) {
        return status;
    }
    void *workspace = malloc(workspace_size + 1);
    status = test_operators_phase2(op, workspace, workspace_size, executor, stream);
    if (status == 0) {
        status = aclrtSynchronizeStream(stream);
    }
    free(workspace);
    return status;
}

/* --- outputs --------------------------------------------------------------------------------------------------- */

/* Dense all of them, so the buffers hold the elements and nothing else. */
static void list_outputs(const struct test_operators *all, enum test_operator op,
                         const struct test_tensor *outputs[TEST_MOST_OUTPUTS])
{
    const struct test_tensor *const lists[TEST_OPERATORS][TEST_MOST_OUTPUTS] = {
        [TEST_MOE] = {&all->moe.permuted_grad, &all->moe.probs_grad, &all->moe.probs_grad},
        [TEST_INDEXER] = {&all->indexer.dq, &all->indexer.dk, &all->indexer.dweights},
        [TEST_ATTENTION] = {&all->attention.dq, &all->attention.dk, &all->attention.dv},
    };
    memcpy(outputs, lists[op], sizeof lists[op]);
}

void test_operators_fill_outputs(struct test_operators *all, enum test_operator op, int byte)
{
    const struct test_tensor *outputs[TEST_MOST_OUTPUTS];
    list_outputs(all, op, outputs);
    for (int i = 0; i < TEST_MOST_OUTPUTS; ++i) {
        memset(outputs[i]->buffer.data, byte, outputs[i]->buffer.bytes);
    }
}

bool test_operators_outputs_are(const struct test_operators *all, enum test_operator op, int byte)
{
    const struct test_tensor *outputs[TEST_MOST_OUTPUTS];
    list_outputs(all, op, outputs);
    for (int i = 0; i < TEST_MOST_OUTPUTS; ++i) {
        for (size_t at = 0; at < outputs[i]->buffer.bytes; ++at) {
            if (((unsigned char *)outputs[i]->buffer.data)[at] != byte) {
                return false;
            }
        }
    }
    return true;
}

bool test_operators_same_outputs(const struct test_operators *a, const struct test_operators *b,
                                 enum test_operator op)
{
    const struct test_tensor *of_a[TEST_MOST_OUTPUTS], *of_b[TEST_MOST_OUTPUTS];
    list_outputs(a, op, of_a);
    list_outputs(b, op, of_b);
    for (int i = 0; i < TEST_MOST_OUTPUTS; ++i) {
        if (memcmp(of_a[i]->buffer.data, of_b[i]->buffer.data, of_a[i]->buffer.bytes) != 0) {
            return false;
        }
    }
    return true;
}
