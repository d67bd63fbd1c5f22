/* The loop of docs/operators/flash-attention-unpadding-score-grad.md against the library, in every sparse mode. */
#include "loop.h"

#include <float.h>

#include "aclnnop/aclnn_flash_attention_score_grad.h"

enum { T1 = 9, T2 = 11, N1 = 4, N2 = 2, D = 8, Dr = 4, Dv = 6, sequences = 2, MASK = 3072 * 2048 };
enum { PRE = 2, NEXT = 1 };

static const int64_t Sq[sequences] = {4, 5}, Skv[sequences] = {6, 5}, first_query[sequences] = {0, 4};
static const int64_t first_key[sequences] = {0, 6}, prefix[sequences] = {3, 1};
static const float scale = 0.3f;
static float query[T1][N1][D], queryRope[T1][N1][Dr], key[T2][N2][D], keyRope[T2][N2][Dr], value[T2][N2][Dv];
static float dy[T1][N1][Dv], attentionIn[T1][N1][Dv], softmaxMax[T1 * N1 * 8], softmaxSum[T1 * N1 * 8];
static uint8_t mask[MASK]; /* [Sq, Skv] of the longest in modes 0 and 1 */
static struct outputs {
    float dq[T1][N1][D], dqRope[T1][N1][Dr], dk[T2][N2][D], dkRope[T2][N2][Dr], dv[T2][N2][Dv];
} looped, got;
static int mode;

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

/* Statistics and attentionIn of the forward pass are not needed: the call takes what it is given. */
static void fill_inputs(void)
{
    fill(query, COUNT(query));
    fill(queryRope, COUNT(queryRope));
    fill(key, COUNT(key));
    fill(keyRope, COUNT(keyRope));
    fill(value, COUNT(value));
    fill(dy, COUNT(dy));
    fill(attentionIn, COUNT(attentionIn));
    for (int i = 0; i < T1 * N1; ++i) {
        const float max = random_float(), sum = 3 + random_float();
        for (int lane = 0; lane < 8; ++lane) {
            softmaxMax[i * 8 + lane] = max;
            softmaxSum[i * 8 + lane] = sum;
        }
    }
    memset(mask, 0, sizeof mask);
    for (int i = 0; i < 5 * 6; i += 1 + (i % 3)) {
        mask[i] = (uint8_t)(i % 5);
    }
}

static void run_loop(void)
{
    float(*dq)[N1][D] = looped.dq, (*dqRope)[N1][Dr] = looped.dqRope, (*dk)[N2][D] = looped.dk;
    float(*dkRope)[N2][Dr] = looped.dkRope, (*dv)[N2][Dv] = looped.dv;
    memset(&looped, 0, sizeof looped);
#include "loop.inc"
}

static aclTensor *rows(void *memory, int64_t tokens, int64_t heads, int64_t dim)
{
    return tensor_of(memory, ACL_FLOAT, 3, (const int64_t[]){tokens, heads, dim});
}

static void run_library(void)
{
    const int64_t compressed[2] = {mode == 6 ? 3072 : 2048, 2048}, longest[2] = {5, 6};
    const int64_t query_ends[sequences] = {4, 9}, key_ends[sequences] = {6, 11};
    char layout[] = "TND";
    uint64_t bytes;
    aclOpExecutor *executor;
    CHECK(aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
        rows(query, T1, N1, D), mode == 6 ? NULL : rows(queryRope, T1, N1, Dr), rows(key, T2, N2, D),
        mode == 6 ? NULL : rows(keyRope, T2, N2, Dr), rows(value, T2, N2, Dv), rows(dy, T1, N1, Dv), NULL, NULL, NULL,
        tensor_of(mask, ACL_UINT8, 2, mode < 2 ? longest : compressed), rows(softmaxMax, T1, N1, 8),
        rows(softmaxSum, T1, N1, 8), NULL, rows(attentionIn, T1, N1, Dv), aclCreateIntArray(prefix, sequences),
        aclCreateIntArray(query_ends, sequences), aclCreateIntArray(key_ends, sequences), NULL, NULL, (double)scale,
        1, PRE, NEXT, N1, layout, 0, mode, 1, rows(got.dq, T1, N1, D),
        mode == 6 ? NULL : rows(got.dqRope, T1, N1, Dr), rows(got.dk, T2, N2, D),
        mode == 6 ? NULL : rows(got.dkRope, T2, N2, Dr), rows(got.dv, T2, N2, Dv), NULL, &bytes, &executor));
    void *workspace = malloc(bytes + 1);
    CHECK(aclnnFlashAttentionUnpaddingScoreGradV3(workspace, bytes, executor, NULL));
    free(workspace);
}

int main(void)
{
    CHECK(aclgrad_set_limits(ACLGRAD_LIMITS_EXTENDED)); /* float ropes */
    for (mode = 0; mode <= 8; ++mode) {
        if (mode == 5) {
            continue;
        }
        fill_inputs();
        if (mode == 6) { /* knows no ropes */
            memset(queryRope, 0, sizeof queryRope);
        }
        run_loop();
        run_library();
        expect_same("dq", looped.dq, got.dq, COUNT(got.dq));
        expect_same("dk", looped.dk, got.dk, COUNT(got.dk));
        expect_same("dv", looped.dv, got.dv, COUNT(got.dv));
        if (mode != 6) {
            expect_same("dqRope", looped.dqRope, got.dqRope, COUNT(got.dqRope));
            expect_same("dkRope", looped.dkRope, got.dkRope, COUNT(got.dkRope));
        }
    }
    printf("8 modes agree\n");
    return 0;
}
