/* Gradient of putting expert outputs back into token order, where every expert is on this rank.
 *
 * Computes what aclnnMoeTokenUnpermuteWithEpGrad computes with the whole order as its window; formula, loop, accuracy and
 * status codes are those of aclnn_moe_token_unpermute_with_ep_grad.h with lo = 0, hi = N. The order of the arguments is
 * another one.
 *
 * Arguments (in; any strides and offset, format ND or another row-major one):
 *     permutedTokensOptional  [R, H] token type; needed with probs, may be null without. R < N: the slots whose position is R
 *                             or more were dropped by the forward
 *     unpermutedTokensGrad    [T, H] BF16, FLOAT16 or FLOAT: the token type
 *     sortedIndices           [N] INT32; any value, one outside [0, N) is skipped
 *     probsOptional           [T, K] BF16, FLOAT16 or FLOAT, independent of the token type; null: all weights are 1, and K is
 *                             N / T
 *     paddedMode              false
 *     restoreShapeOptional    accepted and ignored
 * (out; contiguous, overlapping no input and not each other):
 *     permutedTokensGradOut   [R', H] token type, R' >= min(N, R)
 *     probsGradOut            [T, K] type of probs; required, but without probs neither touched nor compared
 *
 * Differences from the device: docs/operators/moe-token-unpermute-grad.md. */
#ifndef ACLNN_MOE_TOKEN_UNPERMUTE_GRAD_H
#define ACLNN_MOE_TOKEN_UNPERMUTE_GRAD_H

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_util.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnMoeTokenUnpermuteGradGetWorkspaceSize(
    const aclTensor *permutedTokensOptional, const aclTensor *unpermutedTokensGrad, const aclTensor *sortedIndices,
    const aclTensor *probsOptional, bool paddedMode, const aclIntArray *restoreShapeOptional,
    aclTensor *permutedTokensGradOut, aclTensor *probsGradOut, uint64_t *workspaceSize, aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnMoeTokenUnpermuteGrad(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                 aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
