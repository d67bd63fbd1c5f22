/* Gradient of putting expert outputs back into token order, for the experts of this rank.
 *
 * T tokens, K experts per token, H hidden size, N = T * K slots; slot i = t * K + k. sortedIndices[i] is the position of
 * slot i in the order sorted by expert over all ranks; the window [lo, hi) of it lies on this rank.
 *
 *     permutedTokensGradOut[sortedIndices[i] - lo, h] = unpermutedTokensGrad[t, h] * probs[t, k]
 *     probsGradOut[t, k] = sum over h of permutedTokens[sortedIndices[i] - lo, h] * unpermutedTokensGrad[t, h]
 *
 * for the slots in the window; probsGradOut is 0 for the others, and a row that no slot reaches is 0. The call equals,
 * but for the order of the sum,
 *
 *     for (row = 0; row < R'; ++row) permutedTokensGradOut[row][all] = 0;
 *     for (i = 0; i < T * K; ++i) {
 *         t = i / K, k = i % K, row = sortedIndices[i] - lo;
 *         is_local = 0 <= row && row < min(hi - lo, R);
 *         sum = 0;
 *         for (h = 0; is_local && h < H; ++h) {
 *             permutedTokensGradOut[row][h] = round(unpermutedTokensGrad[t][h] * probs[t][k]);
 *             sum += permutedTokens[row][h] * unpermutedTokensGrad[t][h];
 *         }
 *         probsGradOut[t][k] = round(sum);
 *     }
 *
 * Arguments (in; any strides and offset, format ND or another row-major one):
 *     unpermutedTokensGrad    [T, H] BF16, FLOAT16 or FLOAT: the token type
 *     sortedIndices           [N] INT32; any value, one outside the window means "not on this rank"
 *     permutedTokensOptional  [R, H] token type; needed with probs, may be null without; R = 0 only if the window is empty
 *     probsOptional           [T, K] BF16, FLOAT16 or FLOAT, independent of the token type; null: all weights are 1
 *     paddedMode              false
 *     restoreShapeOptional    accepted and ignored
 *     rangeOptional           {lo, hi}; a negative value counts from the end, then both are moved into [0, N]; lo == hi is
 *                             an empty window (a rank without tokens). Null or without values: the whole order
 *     topkNum                 K where probs are null; accepted and ignored otherwise. K is 1 to 512
 *                             (ACLGRAD_LIMITS=extended, aclgrad_set_limits: any)
 * (out; contiguous, overlapping no input and not each other):
 *     permutedTokensGradOut   [R', H] token type, R' >= min(hi - lo, R)
 *     probsGradOut            [T, K] type of probs; required, but without probs neither touched nor compared
 *
 * Phase 1 returns 0; 161001 a required pointer is null, or probs without permutedTokens; 161002 a type, a format, an
 * output that is strided or overlaps, paddedMode; 561002 shapes, topkNum, range that do not fit together, permutedTokens
 * not of the token type; 561101 out of memory. aclGetRecentErrMsg names the argument, what it got and what it wanted. A
 * failed phase 1 writes neither *workspaceSize nor *executor. Phase 2 returns 0; 161001 executor, needed workspace or a
 * tensor's memory null; 161002 executor used up or foreign, workspace too small, outputs that overlap; 107017 not a
 * stream (and what acl_rt.h says of streams); it needs none
 * of the tensors and arrays any more, only their memory.
 *
 * Deterministic: the same bits for any number of threads, strides and addresses. Of several slots with one row the
 * largest i writes it. Accuracy: permutedTokensGradOut is one float product rounded once; probsGradOut is within
 * (H/16 + 6) * 2^-24 * sum |permutedTokens * unpermutedTokensGrad| and half an ulp of its type. Thread-safe.
 *
 * Differences from the device: a null range is the whole order (there: an empty window, against its document), rows that no
 * slot reaches become 0 (there: untouched), and what the device does not check is refused. All of them:
 * docs/operators/moe-token-unpermute-with-ep-grad.md. */
#ifndef ACLNN_MOE_TOKEN_UNPERMUTE_WITH_EP_GRAD_H
#define ACLNN_MOE_TOKEN_UNPERMUTE_WITH_EP_GRAD_H

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_util.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
    const aclTensor *unpermutedTokensGrad, const aclTensor *sortedIndices, const aclTensor *permutedTokensOptional,
    const aclTensor *probsOptional, bool paddedMode, const aclIntArray *restoreShapeOptional,
    const aclIntArray *rangeOptional, int64_t topkNum, const aclTensor *permutedTokensGradOut,
    const aclTensor *probsGradOut, uint64_t *workspaceSize, aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnMoeTokenUnpermuteWithEpGrad(void *workspace, uint64_t workspaceSize,
                                                       aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
