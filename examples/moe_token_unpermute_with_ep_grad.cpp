// The C++11 form of the C example of this name: three tokens with two experts each, a rank that owns positions 2 to 4.
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "example.hpp"

static void unpermute_grad()
{
    const int64_t tokens = 3, topk = 2, hidden = 2, local_rows = 3;
    const example::Session session;

    const example::Tensor<float> grad(ACL_FLOAT, {tokens, hidden}, {1, 2, 3, 5, 7, 11});
    const example::Tensor<int32_t> indices(ACL_INT32, {tokens * topk}, {2, 0, 4, 1, 5, 3});
    const example::Tensor<float> permuted(ACL_FLOAT, {local_rows, hidden}, {1, 2, 3, 4, 5, 6});
    const example::Tensor<float> probs(ACL_FLOAT, {tokens, topk}, {.5f, .25f, 1, 2, 4, 8});
    const example::Tensor<float> permuted_grad(ACL_FLOAT, {local_rows, hidden});
    const example::Tensor<float> probs_grad(ACL_FLOAT, {tokens, topk});
    const example::IntArray range({2, 5});

    uint64_t workspace_bytes = 0;
    aclOpExecutor *executor = nullptr;
    CHECK(aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(grad.get(), indices.get(), permuted.get(), probs.get(),
                                                           false, nullptr, range.get(), topk, permuted_grad.get(),
                                                           probs_grad.get(), &workspace_bytes, &executor));
    const example::Memory workspace(workspace_bytes);
    CHECK(aclnnMoeTokenUnpermuteWithEpGrad(workspace.address(), workspace.bytes(), executor, session.stream()));
    CHECK(aclrtSynchronizeStream(session.stream()));

    example::print("permutedTokensGrad", permuted_grad.read());
    example::print("probsGrad", probs_grad.read());
}

int main()
{
    return example::run(unpermute_grad);
}
