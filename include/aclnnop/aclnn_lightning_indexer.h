/* The lightning indexer: for each query row, the K keys of its sequence with the highest scores.
 *
 * N query heads of D elements against one key head. With r a row and t a key of the row's sequence,
 *
 *     score[r, t] = sum over h of weights[r, h] * max(0, query[r, h] . key[t])
 *
 * The call equals, but for the order of the sums,
 *
 *     for each row s of each sequence (r: its number in the tensor) {
 *         limit = sparseMode == 0 ? keys : max(0, keys - rows + s + 1);
 *         taken = {};
 *         for (j = 0; j < K; ++j) {
 *             t = the one of [0, limit) without taken whose score[r][t] is highest; of equal ones the lowest;
 *             sparseIndicesOut[r][j] = there is one ? t : -1;
 *             sparseValuesOut[r][j] = there is one ? score[r][t] : -inf;
 *             add t to taken;
 *         }
 *     }
 *
 * No scale is applied: it goes into query or weights. Indices count within the sequence, and are what
 * aclnnLightningIndexerGrad takes as sparseIndices.
 *
 * Arguments (in; any strides and offset):
 *     query          BSND [B, S1, N, D], TND [T1, N, D]; FLOAT16 or BF16: the element type. N 1 to 64, D 128
 *     key            BSND [B, S2, 1, D], TND [T2, 1, D], PA_BSND [blocks, block size, 1, D], element type; a block size
 *                    is a multiple of 16 up to 1024
 *     weights        BSND [B, S1, N], TND [T1, N], element type or FLOAT
 *     actualSeqLengthsQueryOptional, actualSeqLengthsKeyOptional
 *                    INT32 [B], read in phase 2. Where the layout is TND: needed, prefix sums without leading 0; what lies
 *                    behind the last is padding. Else counts, cut to [0, S]; needed for PA_BSND, null otherwise: full
 *     blockTableOptional
 *                    INT32 [B, blocks of a sequence], read in phase 2, needed for PA_BSND and null otherwise: key t of
 *                    sequence b lies in block [b, t / block size] at place t % block size. Entries behind the last
 *                    key are not looked at
 *     layoutQueryOptional, layoutKeyOptional
 *                    "BSND" or "TND", null: "BSND"; that of key may be "PA_BSND", else both are equal. Not kept
 *     sparseCount    K: 1 to 2048, or 3072, 4096, ... 8192. It may exceed the number of keys
 *     sparseMode     0: a row sees every key of its sequence; 3: causal, the last row sees every key
 *     preTokens, nextTokens   INT64_MAX
 *     returnValues   whether sparseValuesOut is written; false with PA_BSND
 * (out; strides other than 0, no two elements at one place, sharing memory with no other tensor; wholly overwritten):
 *     sparseIndicesOut   INT32 BSND [B, S1, 1, K], TND [T1, 1, K]; -1 behind the last key and in padding
 *     sparseValuesOut    the same shape, element type; -inf there. Not looked at, and may be null, unless returnValues
 *
 * ACLGRAD_LIMITS=extended (aclgrad_set_limits) lifts the limits of N, D, K and the block size, admits FLOAT, and values
 * with PA_BSND.
 *
 * Phase 1 returns 0; 161001 a needed pointer is null; 161002 any other fault; 561101 out of memory. aclGetRecentErrMsg
 * names the argument, what it got and what it wanted. A failed phase 1 writes neither *workspaceSize nor *executor.
 * Phase 2 returns 0; 161001 executor, needed workspace or a tensor's memory null; 161002 executor used up or foreign,
 * workspace too small, outputs that overlap, prefix sums that fall or leave the tensor, a table entry that a key is
 * read through and that names no block; 107017 not a stream (and what acl_rt.h says of streams): nothing is written then.
 * An empty query is a success of workspace 0; no keys are a success, of -1 and -inf.
 *
 * Deterministic: the same bits for any number of threads, strides and addresses, paged or not, and for a sequence in any
 * pack. Accuracy: scores are summed and ranked in float, never rounded before, and rounded once into sparseValuesOut.
 * -0 ranks as 0, NaN below all. Selection is linear in the number of keys. Thread-safe.
 *
 * Differences from the device: equal scores are in the order of their keys (there: any), NaN has a place, padding rows
 * of TND are written, counts beyond S are cut, and what the device does not check is refused. All of them, and the error
 * bound: docs/operators/lightning-indexer.md. */
#ifndef ACLNN_LIGHTNING_INDEXER_H
#define ACLNN_LIGHTNING_INDEXER_H

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_util.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnLightningIndexerGetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *weights,
    const aclTensor *actualSeqLengthsQueryOptional, const aclTensor *actualSeqLengthsKeyOptional,
    const aclTensor *blockTableOptional, char *layoutQueryOptional, char *layoutKeyOptional, int64_t sparseCount,
    int64_t sparseMode, int64_t preTokens, int64_t nextTokens, bool returnValues, const aclTensor *sparseIndicesOut,
    const aclTensor *sparseValuesOut, uint64_t *workspaceSize, aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnLightningIndexer(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                            const aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
