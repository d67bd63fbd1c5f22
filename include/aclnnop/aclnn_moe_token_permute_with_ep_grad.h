/* Gradient of putting tokens in the order of their experts, for the experts of this rank.
 *
 * T tokens, K experts per token, H hidden size, N = T * K slots; slot i = t * K + k. sortedIndices[i] is the position of
 * slot i in the order sorted by expert over all ranks (aclnnMoeTokenPermuteWithEp returned it); the window [lo, hi) of it
 * lies on this rank.
 *
 *     tokenGradOut[t, h] = sum over k of permutedTokensOutputGrad[sortedIndices[t * K + k] - lo, h]
 *     probsGradOut[t, k] = permutedProbsOutputGrad[sortedIndices[t * K + k] - lo]
 *
 * over the slots in the window; probsGradOut is 0 for the others. The call equals
 *
 *     for (t = 0; t < T; ++t) {
 *         for (h = 0; h < H; ++h) sum[h] = 0;
 *         for (k = 0; k < K; ++k) {
 *             row = sortedIndices[t * K + k] - lo;
 *             is_local = 0 <= row && row < min(hi - lo, R);
 *             for (h = 0; is_local && h < H; ++h) sum[h] += permutedTokensOutputGrad[row][h];
 *             probsGradOut[t][k] = is_local ? permutedProbsOutputGrad[row] : 0;
 *         }
 *         for (h = 0; h < H; ++h) tokenGradOut[t][h] = round(sum[h]);
 *     }
 *
 * Where the forward was cut by numOutTokens, pass the rows that it returned: the slots behind them have no gradient.
 *
 * Arguments (in; any strides and offset, format ND or another row-major one):
 *     permutedTokensOutputGrad         [R, H] BF16, FLOAT16 or FLOAT: the token type; R = 0 only if the window is empty
 *     sortedIndices                    [N] INT32; any value, one outside the window means "not on this rank"
 *     permutedProbsOutputGradOptional  [R] BF16, FLOAT16 or FLOAT, independent of the token type; may be null
 *     numTopk                          K, 1 to 512 (ACLGRAD_LIMITS=extended, aclgrad_set_limits: any)
 *     rangeOptional                    {lo, hi}; a negative value counts from the end, then both are moved into [0, N];
 *                                      lo == hi is an empty window. Null or without values: the whole order
 *     paddedMode                       false
 * (out; contiguous, overlapping no input and not each other):
 *     tokenGradOut                     [T, H] token type; all of it is written, a token without a slot here is 0
 *     probsGradOut                     [T, K] type of permutedProbsOutputGrad; neither touched nor compared without it, may
 *                                      be null then
 *
 * Phase 1 returns 0; 161001 a required pointer is null; 161002 a type, a format, an output that is strided or overlaps,
 * paddedMode; 561002 shapes, numTopk, range that do not fit together; 561101 out of memory. aclGetRecentErrMsg names the
 * argument, what it got and what it wanted. A failed phase 1 writes neither *workspaceSize nor *executor. Phase 2 returns
 * 0; 161001 executor, needed workspace or a tensor's memory null; 161002 executor used up or foreign, workspace too
 * small, outputs that overlap; 107017 not a stream (and what acl_rt.h says of streams); it needs none of the tensors and
 * arrays any more, only their memory.
 *
 * Deterministic: the sum runs over k in order, the same bits for any number of threads, strides and addresses. Accuracy:
 * tokenGradOut is within (K + 1) * 2^-24 * sum |permutedTokensOutputGrad| and half an ulp of the token type, exact where a
 * token has one slot here; probsGradOut is exact. Thread-safe.
 *
 * Differences from the device: docs/operators/moe-token-permute-with-ep-grad.md. */
#ifndef ACLNN_MOE_TOKEN_PERMUTE_WITH_EP_GRAD_H
#define ACLNN_MOE_TOKEN_PERMUTE_WITH_EP_GRAD_H

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_util.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnMoeTokenPermuteWithEpGradGetWorkspaceSize(
    const aclTensor *permutedTokensOutputGrad, const aclTensor *sortedIndices,
    const aclTensor *permutedProbsOutputGradOptional, int64_t numTopk, const aclIntArray *rangeOptional,
    bool paddedMode, const aclTensor *tokenGradOut, const aclTensor *probsGradOut, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnMoeTokenPermuteWithEpGrad(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                     aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
