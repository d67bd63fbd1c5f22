/* Gradient of the lightning indexer's scores for the keys that each query row has selected.
 *
 * N query heads of D elements against one key head; K slots per row. Slot j of row r holds t = sparseIndices[r, j], a
 * key's number within the row's sequence, and dy[r, j], the gradient of
 *
 *     score[r, t] = sum over h of weights[r, h] * max(0, query[r, h] . key[t])
 *
 * The call equals, but for the order of the sums, with all outputs 0 before,
 *
 *     for each row s of each sequence (r: its number in the tensor) {
 *         limit = sparseMode == 0 ? K : min(K, keys - rows + s + 1);
 *         for (j = 0; j < limit; ++j) {
 *             t = sparseIndices[r][j];
 *             if (t < 0 || t >= keys) continue;
 *             for (h = 0; h < N; ++h) {
 *                 p = query[r][h] . key[t];
 *                 if (!(p > 0)) continue;
 *                 dweightsOut[r][h] += p * dy[r][j];
 *                 dqOut[r][h] += weights[r][h] * dy[r][j] * key[t];
 *                 dkOut[t] += weights[r][h] * dy[r][j] * query[r][h];
 *             }
 *         }
 *     }
 *
 * Arguments (in; any strides and offset):
 *     query          BSND [B, S1, N, D], TND [T1, N, D]; FLOAT16 or BF16: the element type. N 1 to 64, D 128
 *     key            BSND [B, S2, 1, D], TND [T2, 1, D], element type
 *     dy             BSND [B, S1, K] or [B, S1, 1, K], TND [T1, K] or [T1, 1, K], element type. K 1 to 2048. With
 *                    exactly query's shape, K is its last dim and row r of both begins at flat element r * K
 *     sparseIndices  as dy, INT32; a value outside [0, keys) makes the slot one that is skipped: its dy is not used
 *     weights        BSND [B, S1, N], TND [T1, N], element type
 *     actualSeqQLenOptional, actualSeqKvLenOptional
 *                    INT32, read in phase 2. TND: both needed, prefix sums without leading 0; what lies behind
 *                    the last is padding. BSND: counts per batch, cut to [0, S]; null: full
 *     headNum, preTokens, nextTokens   accepted and ignored
 *     inputLayout    "BSND" or "TND"; not kept
 *     sparseMode     0 or 3
 *     deterministic  no effect: always
 * (out; strides other than 0, no two elements at one place, sharing memory with no other tensor; wholly overwritten):
 *     dqOut, dkOut, dweightsOut   shapes of query, key, weights; element type; 0 in padding
 *
 * ACLGRAD_LIMITS=extended (aclgrad_set_limits) lifts the limits of N, D and K, and admits FLOAT.
 *
 * Phase 1 returns 0; 161001 a required pointer is null; 161002 any other fault; 561101 out of memory. aclGetRecentErrMsg
 * names the argument, what it got and what it wanted. A failed phase 1 writes neither *workspaceSize nor *executor.
 * Phase 2 returns 0; 161001 executor, needed workspace or a tensor's memory null; 161002 executor used up or foreign,
 * workspace too small, outputs that overlap, prefix sums that fall or leave the tensor; 107017 not a stream (and what
 * acl_rt.h says of streams): nothing is written then. An empty query is a success of workspace 0, and phase 2 zeroes dkOut.
 *
 * Deterministic: the same bits for any number of threads, strides and addresses, and for a sequence in any pack.
 * Accuracy: sums in float, one rounding at the end; for BF16 weights * dy is rounded to BF16 as well. Thread-safe.
 *
 * Differences from the device: indices outside the sequence are skipped (there: out of bounds), counts in BSND are
 * honoured, and what the device does not check is refused. All of them, and the error bounds:
 * docs/operators/lightning-indexer-grad.md. */
#ifndef ACLNN_LIGHTNING_INDEXER_GRAD_H
#define ACLNN_LIGHTNING_INDEXER_GRAD_H

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_util.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnLightningIndexerGradGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *dy, const aclTensor *sparseIndices,
    const aclTensor *weights, const aclTensor *actualSeqQLenOptional, const aclTensor *actualSeqKvLenOptional,
    int64_t headNum, char *inputLayout, int64_t sparseMode, int64_t preTokens, int64_t nextTokens, bool deterministic,
    const aclTensor *dqOut, const aclTensor *dkOut, const aclTensor *dweightsOut, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnLightningIndexerGrad(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                                aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
