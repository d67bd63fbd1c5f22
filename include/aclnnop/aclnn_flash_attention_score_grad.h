/* Gradient of softmax attention over a pack: sequences of different lengths, one behind the other. Version 3 is described;
 * the others at the end. The forward: aclnn_flash_attention_score.h.
 *
 * T1 query rows of N1 heads, T2 key rows of N2 heads, G = N1 / N2; D elements of query and key, Dr of rope (0 without), Dv of
 * value. For row i and column j of one sequence, query head n, key head h = n / G:
 *
 *     S[i,j] = scaleValue * (query[i,n] . keyIn[j,h] + queryRope[i,n] . keyInRope[j,h])
 *     P[i,j] = exp(S[i,j] - softmaxMax[n,i]) / softmaxSum[n,i] where i sees j, else 0     (not normalised again)
 *
 * The call equals, but for the order of the sums, with all outputs 0 before,
 *
 *     for each sequence, query head n (h = n / G), row i {
 *         delta = dy[i][n] . attentionIn[i][n];
 *         for (j = 0; j < Skv; ++j) {
 *             if (!(i sees j)) continue;
 *             p = exp(S[i][j] - max) / sum;
 *             ds = scaleValue * p * (dy[i][n] . value[j][h] - delta);
 *             dvOut[j][h] += p * dy[i][n];
 *             dqOut[i][n] += ds * keyIn[j][h];      dqRopeOut[i][n] += ds * keyInRope[j][h];
 *             dkOut[j][h] += ds * query[i][n];      dkRopeOut[j][h] += ds * queryRope[i][n];
 *         }
 *     }
 *
 * Arguments (in; any strides, 0 included, and offset):
 *     query, keyIn, value      [T1, N1, D], [T2, N2, D], [T2, N2, Dv]; FLOAT, FLOAT16 or BF16: the element type. N2 divides
 *                              N1; N1 at most 256, D at most 768, Dv at most D
 *     queryRope, keyInRope     [T1, N1, Dr], [T2, N2, Dr], both or neither; BF16, and then all is BF16, D and Dr are multiples
 *                              of 8, Dr at most D, and there must be a mask
 *     dy, attentionInOptional  [T1, N1, Dv], element type; both needed
 *     pseShiftOptional, dropMaskOptional       must be null
 *     paddingMaskOptional, softmaxInOptional   accepted and ignored
 *     attenMaskOptional        BOOL or UINT8, nonzero hides; null: all is seen, whatever the sparse mode. Modes 0, 1: [Sq, Skv],
 *                              [1, 1, Sq, Skv], [B, 1, Sq, Skv] or [B, N1, Sq, Skv], at least as large as the longest sequences.
 *                              Other modes: [2048, 2048] (mode 6: [3072, 2048]), whose bytes are not read
 *     softmaxMaxOptional, softmaxSumOptional   FLOAT [T1, N1, 8] or [N1, T1, 8], both needed, the first of eight equal numbers is
 *                              read. Whatever the shape, row (sequence b, head n, row i) is number
 *                              first_row(b) * N1 + n * Sq(b) + i, as the forward writes them; unless the data prove the order
 *                              [T1, N1] or [N1, T1], or ACLGRAD_SOFTMAX_LAYOUT (cann, tnd, ntd, auto) says so
 *     prefixOptional           sparse mode 6: one number per sequence
 *     actualSeqQLenOptional, actualSeqKvLenOptional
 *                              needed; cumulative ends, one per sequence, at most T; a 0 behind a positive end starts a tail of
 *                              zeros: empty sequences. Rows behind the last end are never read and get gradient 0
 *     qStartIdxOptional, kvStartIdxOptional, innerPrecise   accepted and ignored
 *     scaleValue               any, used as a float; 1/sqrt(D + Dr) is not derived
 *     keepProb                 1
 *     preTokens, nextTokens    the window of sparse modes 0, 4, 7, 8; any int64 in the others and without a mask. Their sum is
 *                              above 0, and for every sequence (modes 7, 8: that of the band) with queries and keys
 *                              mode 0: preTokens >= -Skv, nextTokens >= -Sq; modes 4, 7, 8: preTokens >= -Sq, nextTokens >= -Skv
 *     headNum                  N1
 *     inputLayout              "TND"; not kept
 *     sparseMode               i sees j when (d = Skv - Sq)
 *                                  0  mask byte 0, i - j <= preTokens, j - i <= nextTokens
 *                                  1  mask byte 0
 *                                  2  j <= i
 *                                  3  j <= i + d
 *                                  4  i + d - preTokens <= j <= i + d + nextTokens
 *                                  6  j <= i + d or j < prefix of the sequence
 *                                  7  the last sequence with queries as 4, the others as 3
 *                                  8  the first sequence with queries as 4, the others as 2
 *     pseType                  1, or 0
 * (out; strides other than 0, no two elements at one place; wholly overwritten; may lie on inputs, not on each other):
 *     dqOut, dkOut, dvOut      shapes of query, keyIn, value; element type
 *     dqRopeOut, dkRopeOut     shapes and type of the ropes; null: skipped
 *     dpseOut                  null or without elements
 *
 * A row that sees nothing gets gradient 0 and its statistics are not used. An optional tensor of rank 0 or without elements,
 * and a list of size 0, count as null. ACLGRAD_LIMITS=extended (aclgrad_set_limits) lifts the limits of N1 and D, and with
 * rope those of the type, of multiples of 8 and of the mask.
 *
 * Phase 1 returns 0; 161001 a needed pointer is null; 161002 any other fault; 561101 out of memory. aclGetRecentErrMsg names
 * the argument, what it got and what it wanted. A failed phase 1 writes neither *workspaceSize nor *executor; lists, string
 * and tensors may be destroyed behind it. Phase 2 returns 0; 161001 executor, needed workspace or a tensor's memory null;
 * 161002 executor used up or foreign, workspace too small, outputs that share memory; 107017 not a stream (and what acl_rt.h
 * says of streams); 361001 an output was moved onto an input since phase 1: nothing is written then. If dqOut, dkOut and dvOut all have no elements
 * the call is a success of workspace 0.
 *
 * Deterministic: the same bits for any number of threads, strides and addresses, and for a sequence in any pack. Accuracy:
 * sums in float, one rounding at the end; the kernels avx512bf16 and amx round P and dS of BF16 problems to BF16 before
 * the second products. Thread-safe.
 *
 * The versions have the arguments of version 3, but
 *     (1)      no queryRope, keyInRope, qStartIdxOptional, kvStartIdxOptional, pseType, dqRopeOut, dkRopeOut
 *     V2       no ropes and their gradients
 *     V4       as (1), and softmaxInLayout: the order of the statistics: "same_as_input" [T1, N1]; "" or null as version 3
 *     V5       softmaxInLayout, and
 *                  sinkInOptional   FLOAT [N1], a score of value 0 that every row of the head sees; null: none. softmaxMax and
 *                                   softmaxSum count it, as the forward wrote them
 *                  dsinkOut         FLOAT [N1], needed with a sink, else null or without elements:
 *                                   dsinkOut[n] = - sum over rows that see a key of exp(sink[n] - max) / sum * delta
 *
 * Differences from the device, a worked example per sparse mode, and the error bounds:
 * docs/operators/flash-attention-unpadding-score-grad.md. */
#ifndef ACLNN_FLASH_ATTENTION_SCORE_GRAD_H
#define ACLNN_FLASH_ATTENTION_SCORE_GRAD_H

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_util.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize(
    const aclTensor *query, const aclTensor *keyIn, const aclTensor *value, const aclTensor *dy,
    const aclTensor *pseShiftOptional, const aclTensor *dropMaskOptional, const aclTensor *paddingMaskOptional,
    const aclTensor *attenMaskOptional, const aclTensor *softmaxMaxOptional, const aclTensor *softmaxSumOptional,
    const aclTensor *softmaxInOptional, const aclTensor *attentionInOptional, const aclIntArray *prefixOptional,
    const aclIntArray *actualSeqQLenOptional, const aclIntArray *actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char *inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor *dqOut, const aclTensor *dkOut, const aclTensor *dvOut,
    const aclTensor *dpseOut, uint64_t *workspaceSize, aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnFlashAttentionUnpaddingScoreGrad(void *workspace, uint64_t workspaceSize,
                                                            aclOpExecutor *executor, const aclrtStream stream);

ACLNN_API aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize(
    const aclTensor *query, const aclTensor *keyIn, const aclTensor *value, const aclTensor *dy,
    const aclTensor *pseShiftOptional, const aclTensor *dropMaskOptional, const aclTensor *paddingMaskOptional,
    const aclTensor *attenMaskOptional, const aclTensor *softmaxMaxOptional, const aclTensor *softmaxSumOptional,
    const aclTensor *softmaxInOptional, const aclTensor *attentionInOptional, const aclIntArray *prefixOptional,
    const aclIntArray *actualSeqQLenOptional, const aclIntArray *actualSeqKvLenOptional,
    const aclIntArray *qStartIdxOptional, const aclIntArray *kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char *inputLayout, int64_t innerPrecise,
    int64_t sparseMode, int64_t pseType, const aclTensor *dqOut, const aclTensor *dkOut, const aclTensor *dvOut,
    const aclTensor *dpseOut, uint64_t *workspaceSize, aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV2(void *workspace, uint64_t workspaceSize,
                                                              aclOpExecutor *executor, const aclrtStream stream);

ACLNN_API aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
    const aclTensor *query, const aclTensor *queryRope, const aclTensor *keyIn, const aclTensor *keyInRope,
    const aclTensor *value, const aclTensor *dy, const aclTensor *pseShiftOptional, const aclTensor *dropMaskOptional,
    const aclTensor *paddingMaskOptional, const aclTensor *attenMaskOptional, const aclTensor *softmaxMaxOptional,
    const aclTensor *softmaxSumOptional, const aclTensor *softmaxInOptional, const aclTensor *attentionInOptional,
    const aclIntArray *prefixOptional, const aclIntArray *actualSeqQLenOptional,
    const aclIntArray *actualSeqKvLenOptional, const aclIntArray *qStartIdxOptional,
    const aclIntArray *kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char *inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    const aclTensor *dqOut, const aclTensor *dqRopeOut, const aclTensor *dkOut, const aclTensor *dkRopeOut,
    const aclTensor *dvOut, const aclTensor *dpseOut, uint64_t *workspaceSize, aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3(void *workspace, uint64_t workspaceSize,
                                                              aclOpExecutor *executor, const aclrtStream stream);

ACLNN_API aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize(
    const aclTensor *query, const aclTensor *keyIn, const aclTensor *value, const aclTensor *dy,
    const aclTensor *pseShiftOptional, const aclTensor *dropMaskOptional, const aclTensor *paddingMaskOptional,
    const aclTensor *attenMaskOptional, const aclTensor *softmaxMaxOptional, const aclTensor *softmaxSumOptional,
    const aclTensor *softmaxInOptional, const aclTensor *attentionInOptional, const aclIntArray *prefixOptional,
    const aclIntArray *actualSeqQLenOptional, const aclIntArray *actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char *inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor *dqOut, const aclTensor *dkOut, const aclTensor *dvOut,
    const aclTensor *dpseOut, char *softmaxInLayout, uint64_t *workspaceSize, aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV4(void *workspace, uint64_t workspaceSize,
                                                              aclOpExecutor *executor, const aclrtStream stream);

ACLNN_API aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
    const aclTensor *query, const aclTensor *queryRope, const aclTensor *keyIn, const aclTensor *keyInRope,
    const aclTensor *value, const aclTensor *dy, const aclTensor *pseShiftOptional, const aclTensor *dropMaskOptional,
    const aclTensor *paddingMaskOptional, const aclTensor *attenMaskOptional, const aclTensor *softmaxMaxOptional,
    const aclTensor *softmaxSumOptional, const aclTensor *softmaxInOptional, const aclTensor *attentionInOptional,
    const aclTensor *sinkInOptional, const aclIntArray *prefixOptional, const aclIntArray *actualSeqQLenOptional,
    const aclIntArray *actualSeqKvLenOptional, const aclIntArray *qStartIdxOptional,
    const aclIntArray *kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char *inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char *softmaxInLayout, const aclTensor *dqOut, const aclTensor *dqRopeOut, const aclTensor *dkOut,
    const aclTensor *dkRopeOut, const aclTensor *dvOut, const aclTensor *dpseOut, const aclTensor *dsinkOut,
    uint64_t *workspaceSize, aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5(void *workspace, uint64_t workspaceSize,
                                                              aclOpExecutor *executor, const aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
