/* aclnnMoeTokenUnpermuteWithEpGrad from aclInit to aclFinalize: three tokens with two experts each, and a rank that
 * owns positions 2 to 4 of the expert-sorted order. Slots 0, 2 and 5 are local, in rows 0, 2 and 1. */
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "example.h"

enum { TOKENS = 3, TOPK = 2, HIDDEN = 2, SLOTS = TOKENS * TOPK, LOCAL_ROWS = 3 };

int main(void)
{
    const float tokens_grad[TOKENS * HIDDEN] = {1, 2, 3, 5, 7, 11};
    const int32_t sorted_indices[SLOTS] = {2, 0, 4, 1, 5, 3};
    const float permuted_tokens[LOCAL_ROWS * HIDDEN] = {1, 2, 3, 4, 5, 6};
    const float probs[TOKENS * TOPK] = {.5f, .25f, 1, 2, 4, 8};
    const int64_t window[2] = {2, 5};

    aclrtStream stream = NULL;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));

    const int64_t by_token[2] = {TOKENS, HIDDEN}, by_slot[1] = {SLOTS}, by_row[2] = {LOCAL_ROWS, HIDDEN};
    const int64_t by_expert[2] = {TOKENS, TOPK};
    struct tensor grad = tensor_create(ACL_FLOAT, 2, by_token, tokens_grad);
    struct tensor indices = tensor_create(ACL_INT32, 1, by_slot, sorted_indices);
    struct tensor permuted = tensor_create(ACL_FLOAT, 2, by_row, permuted_tokens);
    struct tensor weights = tensor_create(ACL_FLOAT, 2, by_expert, probs);
    struct tensor permuted_grad = tensor_create(ACL_FLOAT, 2, by_row, NULL);
    struct tensor probs_grad = tensor_create(ACL_FLOAT, 2, by_expert, NULL);
    aclIntArray *range = aclCreateIntArray(window, 2);

    uint64_t workspace_bytes = 0;
    aclOpExecutor *executor = NULL;
    CHECK(aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
        grad.handle, indices.handle, permuted.handle, weights.handle, false, NULL, range, TOPK, permuted_grad.handle,
        probs_grad.handle, &workspace_bytes, &executor));
    void *workspace = workspace_create(workspace_bytes);
    CHECK(aclnnMoeTokenUnpermuteWithEpGrad(workspace, workspace_bytes, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));

    float rows[LOCAL_ROWS * HIDDEN], experts[TOKENS * TOPK];
    tensor_read(&permuted_grad, rows);
    tensor_read(&probs_grad, experts);
    print_floats("permutedTokensGrad", rows, LOCAL_ROWS * HIDDEN);
    print_floats("probsGrad", experts, TOKENS * TOPK);

    CHECK(aclDestroyIntArray(range));
    tensor_destroy(&grad);
    tensor_destroy(&indices);
    tensor_destroy(&permuted);
    tensor_destroy(&weights);
    tensor_destroy(&permuted_grad);
    tensor_destroy(&probs_grad);
    workspace_destroy(workspace);
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
