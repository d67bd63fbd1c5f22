/* Puts what the experts of this rank returned back into token order: each token is the weighted sum of its experts.
 *
 * T tokens, K experts per token, H hidden size, N = T * K slots; slot i = t * K + k. sortedIndices[i] is the position of
 * slot i in the order sorted by expert over all ranks (aclnnMoeTokenPermuteWithEp returns it); the window [lo, hi) of it
 * lies on this rank.
 *
 *     out[t, h] = sum over k of permutedTokens[sortedIndices[t * K + k] - lo, h] * probs[t, k]
 *
 * over the slots in the window whose prob is not 0. The call equals
 *
 *     for (t = 0; t < T; ++t)
 *         for (h = 0; h < H; ++h) {
 *             sum = 0;
 *             for (k = 0; k < K; ++k) {
 *                 row = sortedIndices[t * K + k] - lo;
 *                 if (0 <= row && row < min(hi - lo, R) && probs[t][k] != 0)
 *                     sum += permutedTokens[row][h] * probs[t][k];
 *             }
 *             out[t][h] = round(sum);
 *         }
 *
 * Windows that part the order give outs that add up to the whole. aclnnMoeTokenUnpermuteWithEpGrad is the gradient.
 *
 * Arguments (in; any strides and offset, format ND or another row-major one):
 *     permutedTokens        [R, H] BF16, FLOAT16 or FLOAT: the token type; R = 0 only if the window is empty
 *     sortedIndices         [N] INT32; any value, one outside the window means "not on this rank"
 *     probsOptional         [T, K] BF16, FLOAT16 or FLOAT, independent of the token type; null: all weights are 1
 *     numTopk               K, 1 to 512 (ACLGRAD_LIMITS=extended, aclgrad_set_limits: any)
 *     rangeOptional         {lo, hi}; a negative value counts from the end, then both are moved into [0, N]; lo == hi is an
 *                           empty window (a rank without tokens). Null or without values: the whole order
 *     paddedMode            false
 *     restoreShapeOptional  accepted and ignored
 * (out; contiguous, overlapping no input):
 *     out                   [T, H] token type; all of it is written, a token without a slot here is 0
 *
 * Phase 1 returns 0; 161001 a required pointer is null; 161002 a type, a format, an output that is strided or overlaps,
 * paddedMode; 561002 shapes, numTopk, range that do not fit together; 561101 out of memory. aclGetRecentErrMsg names the
 * argument, what it got and what it wanted. A failed phase 1 writes neither *workspaceSize nor *executor. Phase 2 returns
 * 0; 161001 executor, needed workspace or a tensor's memory null; 161002 executor used up or foreign, workspace too
 * small, outputs that overlap; 107017 not a stream (and what acl_rt.h says of streams); it needs none of the tensors and
 * arrays any more, only their memory.
 *
 * Deterministic: the sum runs over k in order, the same bits for any number of threads, strides and addresses. Accuracy:
 * within (K + 1) * 2^-24 * sum |permutedTokens * probs| and half an ulp of the token type; exact where a token has one
 * slot here and no probs. Thread-safe.
 *
 * Differences from the device: negative values of the range count from the end, as in the gradient (there they do not),
 * and what the device does not check is refused. All of them: docs/operators/moe-token-unpermute-with-ep.md. */
#ifndef ACLNN_MOE_TOKEN_UNPERMUTE_WITH_EP_H
#define ACLNN_MOE_TOKEN_UNPERMUTE_WITH_EP_H

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_util.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnMoeTokenUnpermuteWithEpGetWorkspaceSize(
    const aclTensor *permutedTokens, const aclTensor *sortedIndices, const aclTensor *probsOptional, int64_t numTopk,
    const aclIntArray *rangeOptional, bool paddedMode, const aclIntArray *restoreShapeOptional, const aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnMoeTokenUnpermuteWithEp(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                   aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
