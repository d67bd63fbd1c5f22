/* The loop of docs/operators/moe-token-permute-with-ep-grad.md against the library: windows, few rows, wild positions. */
#include "loop.h"

#include "aclnnop/aclnn_moe_token_permute_with_ep_grad.h"

enum { T = 5, K = 3, H = 20, N = T * K };

static float permutedTokensOutputGrad[N][H], permutedProbsOutputGrad[N];
static int32_t sortedIndices[N];
static struct outputs {
    float tokens[T][H], probs[T][K];
} looped, got;
static int64_t lo, hi, rows_available;

static inline float round_to_type(float value)
{
    return value; /* float tokens, float probs */
}
#define round round_to_type

static void fill_inputs(void)
{
    fill(permutedTokensOutputGrad, COUNT(permutedTokensOutputGrad));
    fill(permutedProbsOutputGrad, COUNT(permutedProbsOutputGrad));
    for (int i = 0; i < N; ++i) {
        sortedIndices[i] = i * 7 % N;
    }
    sortedIndices[4] = -1;
    sortedIndices[9] = N;
}

static void run_loop(void)
{
    float(*tokenGradOut)[H] = looped.tokens, (*probsGradOut)[K] = looped.probs;
    memset(&looped, 0, sizeof looped);
#include "loop.inc"
}

static void run_library(void)
{
    const int64_t window[2] = {lo, hi}, by_token[2] = {T, H}, by_slot[1] = {N}, by_expert[2] = {T, K};
    const int64_t by_row[2] = {rows_available, H};
    uint64_t bytes;
    aclOpExecutor *executor;
    memset(&got, 0xff, sizeof got);
    CHECK(aclnnMoeTokenPermuteWithEpGradGetWorkspaceSize(
        tensor_of(permutedTokensOutputGrad, ACL_FLOAT, 2, by_row), tensor_of(sortedIndices, ACL_INT32, 1, by_slot),
        tensor_of(permutedProbsOutputGrad, ACL_FLOAT, 1, by_row), K, aclCreateIntArray(window, 2), false,
        tensor_of(got.tokens, ACL_FLOAT, 2, by_token), tensor_of(got.probs, ACL_FLOAT, 2, by_expert), &bytes,
        &executor));
    void *workspace = malloc(bytes + 1);
    CHECK(aclnnMoeTokenPermuteWithEpGrad(workspace, bytes, executor, NULL));
    free(workspace);
}

int main(void)
{
    static const int64_t cases[][3] = {/* lo, hi, rows */ {0, N, N}, {3, 9, 6}, {3, 9, 4}, {0, N, 11}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        lo = cases[i][0], hi = cases[i][1], rows_available = cases[i][2];
        fill_inputs();
        run_loop();
        run_library();
        expect_same("tokenGrad", looped.tokens, got.tokens, COUNT(got.tokens));
        expect_same("probsGrad", looped.probs, got.probs, COUNT(got.probs));
    }
    printf("%zu windows agree\n", sizeof cases / sizeof *cases);
    return 0;
}
