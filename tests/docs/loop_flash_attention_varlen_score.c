/* The loop of docs/operators/flash-attention-varlen-score.md against the library, in every sparse mode, with and without a
 * sink. */
#include "loop.h"

#include <float.h>

#include "aclnnop/aclnn_flash_attention_score.h"

enum { T1 = 11, T2 = 11, N1 = 4, N2 = 2, D = 8, Dr = 4, Dv = 6, sequences = 3, MASK = 3072 * 2048, LONGEST = 6 };
enum { PRE = 2, NEXT = 1 };

static const int64_t Sq[sequences] = {4, 5, 2}, Skv[sequences] = {6, 5, 0}, first_query[sequences] = {0, 4, 9};
static const int64_t first_key[sequences] = {0, 6, 11}, prefix[sequences] = {3, 1, 0};
static const float scale = 0.3f;
static float query[T1][N1][D], queryRope[T1][N1][Dr], key[T2][N2][D], keyRope[T2][N2][Dr], value[T2][N2][Dv],
    sink[N1];
static uint8_t mask[MASK]; /* [Sq, Skv] of the longest in modes 0 and 1 */
static struct outputs {
    float softmaxMax[T1 * N1 * 8], softmaxSum[T1 * N1 * 8], attentionOut[T1][N1][Dv];
} looped, got;
static int mode, has_sink;

static int sees(int64_t b, int64_t n, int64_t i, int64_t j)
{
    const int64_t d = Skv[b] - Sq[b], row = i + d;
    const int in_band = row - PRE <= j && j <= row + NEXT;
    (void)n;
    switch (mode) {
    case 0:
        return !mask[i * 6 + j] && i - j <= PRE && j - i <= NEXT;
    case 1:
        return !mask[i * 6 + j];
    case 2:
        return j <= i;
    case 3:
        return j <= row;
    case 4:
        return in_band;
    case 6:
        return j <= row || j < prefix[b];
    case 7:
        return b == sequences - 1 ? in_band : j <= row;
    default:
        return b == 0 ? in_band : j <= i;
    }
}

static void fill_inputs(void)
{
    fill(query, COUNT(query));
    fill(queryRope, COUNT(queryRope));
    fill(key, COUNT(key));
    fill(keyRope, COUNT(keyRope));
    fill(value, COUNT(value));
    fill(sink, COUNT(sink));
    memset(mask, 0, sizeof mask);
    for (int i = 0; i < 5 * 6; i += 1 + (i % 3)) {
        mask[i] = (uint8_t)(i % 5);
    }
    memset(mask + 6, 1, 6); /* a row that sees nothing */
    if (mode == 6) {        /* knows no ropes */
        memset(queryRope, 0, sizeof queryRope);
    }
}

static void run_loop(void)
{
    float *softmaxMax = looped.softmaxMax, *softmaxSum = looped.softmaxSum,
          (*attentionOut)[N1][Dv] = looped.attentionOut;
    memset(&looped, 0, sizeof looped);
#include "loop.inc"
}

static aclTensor *rows(void *memory, int64_t tokens, int64_t heads, int64_t dim)
{
    return tensor_of(memory, ACL_FLOAT, 3, (const int64_t[]){tokens, heads, dim});
}

static void run_library(void)
{
    const int64_t compressed[2] = {mode == 6 ? 3072 : 2048, 2048}, longest[2] = {5, 6}, heads = N1;
    const int64_t query_ends[sequences] = {4, 9, 11}, key_ends[sequences] = {6, 11, 11};
    char layout[] = "TND", order[] = "";
    uint64_t bytes;
    aclOpExecutor *executor;
    memset(&got, 0xff, sizeof got);
    CHECK(aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize(
        rows(query, T1, N1, D), mode == 6 ? NULL : rows(queryRope, T1, N1, Dr), rows(key, T2, N2, D),
        mode == 6 ? NULL : rows(keyRope, T2, N2, Dr), rows(value, T2, N2, Dv), NULL, NULL, NULL,
        tensor_of(mask, ACL_UINT8, 2, mode < 2 ? longest : compressed),
        has_sink ? tensor_of(sink, ACL_FLOAT, 1, &heads) : NULL, aclCreateIntArray(prefix, sequences),
        aclCreateIntArray(query_ends, sequences), aclCreateIntArray(key_ends, sequences), NULL, NULL, (double)scale,
        1, PRE, NEXT, N1, layout, 0, mode, 1, order, rows(got.softmaxMax, T1, N1, 8), rows(got.softmaxSum, T1, N1, 8),
        NULL, rows(got.attentionOut, T1, N1, Dv), &bytes, &executor));
    void *workspace = malloc(bytes + 1);
    CHECK(aclnnFlashAttentionVarLenScoreV5(workspace, bytes, executor, NULL));
    free(workspace);
}

int main(void)
{
    CHECK(aclgrad_set_limits(ACLGRAD_LIMITS_EXTENDED)); /* float ropes */
    for (mode = 0; mode <= 8; ++mode) {
        for (has_sink = 0; has_sink <= 1 && mode != 5; ++has_sink) {
            fill_inputs();
            run_loop();
            run_library();
            expect_same("softmaxMax", looped.softmaxMax, got.softmaxMax, COUNT(got.softmaxMax));
            expect_same("softmaxSum", looped.softmaxSum, got.softmaxSum, COUNT(got.softmaxSum));
            expect_same("attentionOut", looped.attentionOut, got.attentionOut, COUNT(got.attentionOut));
        }
    }
    printf("8 modes agree\n");
    return 0;
}
