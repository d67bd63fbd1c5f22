/* Softmax attention over a pack: sequences of different lengths, one behind the other. What it writes is what
 * aclnnFlashAttentionUnpaddingScoreGradV3 (V4, V5) reads.
 *
 * T1 query rows of N1 heads, T2 key rows of N2 heads, G = N1 / N2; D elements of query and key, Dr of rope (0 without), Dv of
 * value. For row i and column j of one sequence, query head n, key head h = n / G:
 *
 *     S[i,j] = scaleValue * (query[i,n] . key[j,h] + queryRope[i,n] . keyRope[j,h])
 *
 * The call equals, but for the order of the sums,
 *
 *     for each sequence, query head n (h = n / G), row i {
 *         max = -infinity, or sink[n] where there is a sink;
 *         for (j = 0; j < Skv; ++j) if (i sees j) max = maximum(max, S[i][j]);
 *         sum = 0, or exp(sink[n] - max);    out[0 .. Dv) = 0;
 *         for (j = 0; j < Skv; ++j) if (i sees j) {
 *             p = exp(S[i][j] - max);
 *             sum += p;    out += p * value[j][h];
 *         }
 *         attentionOutOut[i][n] = out / sum;
 *         softmaxMaxOut = max;    softmaxSumOut = sum;
 *     }
 *
 * Where a row sees nothing (and there is no sink) the output is 0, max -FLT_MAX and sum FLT_MAX; rows of a sequence without
 * keys, and rows behind the last end, get 0 in all three.
 *
 * Arguments (in; any strides, 0 included, and offset):
 *     query, key, value        [T1, N1, D], [T2, N2, D], [T2, N2, Dv]; the element type: V3 BF16, V4 and V5 FLOAT, FLOAT16 or
 *                              BF16. N2 divides N1; N1 at most 256, D at most 768, Dv at most D and above 0
 *     queryRope, keyRope       [T1, N1, Dr], [T2, N2, Dr]; V3: needed; V5: both or neither. BF16, and then all is BF16, D and Dr
 *                              are multiples of 8, Dr at most D, and there must be a mask
 *     realShiftOptional, dropMaskOptional   must be null
 *     paddingMaskOptional      accepted and ignored
 *     attenMaskOptional        BOOL or UINT8, nonzero hides; null: all is seen, whatever the sparse mode. Modes 0, 1: [Sq, Skv],
 *                              [1, 1, Sq, Skv], [B, 1, Sq, Skv] or [B, N1, Sq, Skv], at least as large as the longest sequences.
 *                              Other modes: [2048, 2048] (mode 6: [3072, 2048]), whose bytes are not read
 *     sinkOptional             V5: FLOAT [N1], a score of value 0 that every row of the head sees; null: none
 *     prefixOptional           sparse mode 6: one number per sequence
 *     actualSeqQLenOptional, actualSeqKvLenOptional
 *                              needed; cumulative ends, one per sequence, at most T; a 0 behind a positive end starts a tail of
 *                              zeros: empty sequences. Rows behind the last end are never read
 *     qStartIdxOptional, kvStartIdxOptional, innerPrecise   accepted and ignored
 *     scaleValue               any, used as a float; 1/sqrt(D + Dr) is not derived
 *     keepProb                 1
 *     preTokens, nextTokens, sparseMode   as in aclnn_flash_attention_score_grad.h
 *     headNum                  N1
 *     inputLayout              "TND"; not kept
 *     pseType                  1, or 0
 *     softmaxOutLayout         V4, V5: the order of the statistics: "same_as_input" [T1, N1]; "" or null: as V3
 * (out; strides other than 0, no two elements at one place; wholly overwritten; may lie on inputs, not on each other):
 *     softmaxMaxOut, softmaxSumOut   FLOAT [T1, N1, 8] or [N1, T1, 8]: eight equal numbers per row. Whatever the shape, row
 *                              (sequence b, head n, row i) is number first_row(b) * N1 + n * Sq(b) + i, as the device writes
 *                              them; ACLGRAD_SOFTMAX_LAYOUT (tnd, ntd) asks for [T1, N1] or [N1, T1]
 *     attentionOutOut          [T1, N1, Dv], element type
 *     softmaxOutOut            accepted and ignored: never written
 *
 * An optional tensor of rank 0 or without elements, and a list of size 0, count as null. ACLGRAD_LIMITS=extended
 * (aclgrad_set_limits) lifts the limits of N1 and D, those of version 3 (any of the three types, rope or none), and with rope
 * those of the type, of multiples of 8 and of the mask.
 *
 * Phase 1 returns 0; 161001 a needed pointer is null; 161002 any other fault; 561101 out of memory. aclGetRecentErrMsg names
 * the argument, what it got and what it wanted. A failed phase 1 writes neither *workspaceSize nor *executor; lists, strings
 * and tensors may be destroyed behind it. Phase 2 returns 0; 161001 executor, needed workspace or a tensor's memory null;
 * 161002 executor used up or foreign, workspace too small, outputs that share memory; 107017 not a stream (and what acl_rt.h
 * says of streams); 361001 an output was moved onto an input since phase 1: nothing is written then. If the three outputs have no elements
 * the call is a success of workspace 0.
 *
 * Deterministic: the same bits for any number of threads, strides and addresses, and for a sequence in any pack. Accuracy:
 * sums in float, one rounding at the end; the kernels avx512bf16 and amx round exp(S - max) of BF16 problems to BF16 before
 * the product with value. Thread-safe. The workspace does not grow with the number of keys.
 *
 * A worked example and the error bounds: docs/operators/flash-attention-varlen-score.md. */
#ifndef ACLNN_FLASH_ATTENTION_SCORE_H
#define ACLNN_FLASH_ATTENTION_SCORE_H

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_util.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize(
    const aclTensor *query, const aclTensor *queryRope, const aclTensor *key, const aclTensor *keyRope,
    const aclTensor *value, const aclTensor *realShiftOptional, const aclTensor *dropMaskOptional,
    const aclTensor *paddingMaskOptional, const aclTensor *attenMaskOptional, const aclIntArray *prefixOptional,
    const aclIntArray *actualSeqQLenOptional, const aclIntArray *actualSeqKvLenOptional,
    const aclIntArray *qStartIdxOptional, const aclIntArray *kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char *inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, const aclTensor *softmaxMaxOut, const aclTensor *softmaxSumOut,
    const aclTensor *softmaxOutOut, const aclTensor *attentionOutOut, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnFlashAttentionVarLenScoreV3(void *workspace, uint64_t workspaceSize,
                                                       aclOpExecutor *executor, const aclrtStream stream);

ACLNN_API aclnnStatus aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize(
    const aclTensor *query, const aclTensor *key, const aclTensor *value, const aclTensor *realShiftOptional,
    const aclTensor *dropMaskOptional, const aclTensor *paddingMaskOptional, const aclTensor *attenMaskOptional,
    const aclIntArray *prefixOptional, const aclIntArray *actualSeqQLenOptional,
    const aclIntArray *actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char *inputLayout, int64_t innerPrecise, int64_t sparseMode,
    char *softmaxOutLayout, const aclTensor *softmaxMaxOut, const aclTensor *softmaxSumOut,
    const aclTensor *softmaxOutOut, const aclTensor *attentionOutOut, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnFlashAttentionVarLenScoreV4(void *workspace, uint64_t workspaceSize,
                                                       aclOpExecutor *executor, const aclrtStream stream);

ACLNN_API aclnnStatus aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize(
    const aclTensor *query, const aclTensor *queryRope, const aclTensor *key, const aclTensor *keyRope,
    const aclTensor *value, const aclTensor *realShiftOptional, const aclTensor *dropMaskOptional,
    const aclTensor *paddingMaskOptional, const aclTensor *attenMaskOptional, const aclTensor *sinkOptional,
    const aclIntArray *prefixOptional, const aclIntArray *actualSeqQLenOptional,
    const aclIntArray *actualSeqKvLenOptional, const aclIntArray *qStartIdxOptional,
    const aclIntArray *kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char *inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char *softmaxOutLayout, const aclTensor *softmaxMaxOut, const aclTensor *softmaxSumOut,
    const aclTensor *softmaxOutOut, const aclTensor *attentionOutOut, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnFlashAttentionVarLenScoreV5(void *workspace, uint64_t workspaceSize,
                                                       aclOpExecutor *executor, const aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
