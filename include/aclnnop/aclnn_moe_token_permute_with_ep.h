/* Puts tokens in the order of their experts, for the experts of this rank.
 *
 * T tokens, K experts per token, H hidden size, N = T * K slots; slot i = t * K + k. The slots are sorted by the number of
 * their expert, those of one expert stay in order; sortedIndicesOut[i] is the position of slot i. The window [lo, hi)
 * of the positions lies on this rank; numOutTokens may cut the order at L positions.
 *
 *     permuteTokensOut[sortedIndicesOut[i] - lo, h] = tokens[t, h]
 *     permuteProbsOut[sortedIndicesOut[i] - lo]     = probs[t, k]
 *
 * for the slots in the window and before the cut; rows that no slot reaches are 0. The call equals
 *
 *     L = numOutTokens > 0 ? min(numOutTokens, N) : max(N + numOutTokens, 0);
 *     for (row = 0; row < R; ++row) permuteTokensOut[row][all] = permuteProbsOut[row] = 0;
 *     for (i = 0; i < N; ++i) {
 *         position = 0;
 *         for (j = 0; j < N; ++j) position += indices[j] < indices[i] || (indices[j] == indices[i] && j < i);
 *         sortedIndicesOut[i] = position;
 *         if (lo <= position && position < min(hi, L)) {
 *             permuteTokensOut[position - lo][all] = tokens[i / K][all];
 *             permuteProbsOut[position - lo] = probs[i / K][i % K];
 *         }
 *     }
 *
 * in linear time. aclnnMoeTokenUnpermuteWithEp brings the rows back, aclnnMoeTokenPermuteWithEpGrad is the gradient.
 *
 * Arguments (in; any strides and offset, format ND or another row-major one):
 *     tokens            [T, H] BF16, FLOAT16 or FLOAT: the token type
 *     indices           [T, K], or [T] for K = 1; INT32 or INT64: the expert of each slot. Any number, negative ones come
 *                       first; K is 1 to 512 and N less than 16777215 (ACLGRAD_LIMITS=extended, aclgrad_set_limits: any)
 *     probsOptional     [T, K] BF16, FLOAT16 or FLOAT, independent of the token type; may be null
 *     rangeOptional     {lo, hi}, 0 <= lo <= hi <= N; lo == hi is an empty window (a rank without tokens). Null or without
 *                       values: the whole order
 *     numOutTokens      0: all; positive: the first numOutTokens positions; negative: all but the last -numOutTokens
 *     paddedMode        false
 * (out; contiguous, overlapping no input and not each other):
 *     permuteTokensOut  [R, H] token type, R >= the positions that are in the window and before the cut
 *     sortedIndicesOut  [N] INT32; of every slot, whatever window and cut
 *     permuteProbsOut   [R''] type of probs, R'' as R; neither touched nor compared without probs, may be null then
 *
 * Phase 1 returns 0; 161001 a required pointer is null; 161002 a type, a format, an output that is strided or overlaps,
 * paddedMode; 561002 shapes, K, range that do not fit together; 561101 out of memory. aclGetRecentErrMsg names the
 * argument, what it got and what it wanted. A failed phase 1 writes neither *workspaceSize nor *executor. Phase 2 returns
 * 0; 161001 executor, needed workspace or a tensor's memory null; 161002 executor used up or foreign, workspace too
 * small, outputs that overlap; 107017 not a stream (and what acl_rt.h says of streams); it needs none of the tensors and
 * arrays any more, only their memory.
 *
 * Exact: bytes are moved, nothing is rounded. The same bits for any number of threads. Thread-safe.
 *
 * Differences from the device: an explicit window {lo, lo} is empty (there {0, 0} is the whole order), rows that no slot
 * reaches become 0 (there: untouched), and what the device does not check is refused. All of them:
 * docs/operators/moe-token-permute-with-ep.md. */
#ifndef ACLNN_MOE_TOKEN_PERMUTE_WITH_EP_H
#define ACLNN_MOE_TOKEN_PERMUTE_WITH_EP_H

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_util.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnMoeTokenPermuteWithEpGetWorkspaceSize(
    const aclTensor *tokens, const aclTensor *indices, const aclTensor *probsOptional,
    const aclIntArray *rangeOptional, int64_t numOutTokens, bool paddedMode, const aclTensor *permuteTokensOut,
    const aclTensor *sortedIndicesOut, const aclTensor *permuteProbsOut, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnMoeTokenPermuteWithEp(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                 aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
