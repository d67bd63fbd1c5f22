/* The loop of docs/operators/moe-token-permute-with-ep.md against the library: windows and cuts. */
#include "loop.h"

#include "aclnnop/aclnn_moe_token_permute_with_ep.h"

enum { T = 5, K = 3, H = 20, N = T * K };

static float tokens[T][H], probs[T][K];
static int32_t indices[N];
static struct outputs {
    float rows[N][H], probs[N], positions[N];
} looped, got;
static int64_t lo, hi, numOutTokens, R;

static void fill_inputs(void)
{
    fill(tokens, COUNT(tokens));
    fill(probs, COUNT(probs));
    for (int i = 0; i < N; ++i) {
        indices[i] = i * 7 % 4 - 1;
    }
}

static void run_loop(void)
{
    float(*permuteTokensOut)[H] = looped.rows, *permuteProbsOut = looped.probs, *sortedIndicesOut = looped.positions;
    memset(&looped, 0, sizeof looped);
#include "loop.inc"
}

static void run_library(void)
{
    const int64_t window[2] = {lo, hi}, by_token[2] = {T, H}, by_expert[2] = {T, K}, by_row[2] = {R, H};
    const int64_t by_slot[1] = {N};
    int32_t positions[N];
    uint64_t bytes;
    aclOpExecutor *executor;
    memset(&got, 0, sizeof got);
    memset(got.rows, 0xff, (size_t)R * sizeof got.rows[0]);
    memset(got.probs, 0xff, (size_t)R * sizeof got.probs[0]);
    CHECK(aclnnMoeTokenPermuteWithEpGetWorkspaceSize(
        tensor_of(tokens, ACL_FLOAT, 2, by_token), tensor_of(indices, ACL_INT32, 2, by_expert),
        tensor_of(probs, ACL_FLOAT, 2, by_expert), aclCreateIntArray(window, 2), numOutTokens, false,
        tensor_of(got.rows, ACL_FLOAT, 2, by_row), tensor_of(positions, ACL_INT32, 1, by_slot),
        tensor_of(got.probs, ACL_FLOAT, 1, by_row), &bytes, &executor));
    void *workspace = malloc(bytes + 1);
    CHECK(aclnnMoeTokenPermuteWithEp(workspace, bytes, executor, NULL));
    free(workspace);
    for (int i = 0; i < N; ++i) {
        got.positions[i] = (float)positions[i];
    }
}

int main(void)
{
    static const int64_t cases[][4] = {/* lo, hi, numOutTokens, rows */
                                       {0, N, 0, N},  {3, 9, 0, 6},   {3, 9, 0, 10}, {3, 9, 7, 4},
                                       {0, N, 99, N}, {0, N, -4, 11}, {2, N, -4, N}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        lo = cases[i][0], hi = cases[i][1], numOutTokens = cases[i][2], R = cases[i][3];
        fill_inputs();
        run_loop();
        run_library();
        expect_same("permuteTokens", looped.rows, got.rows, COUNT(got.rows));
        expect_same("permuteProbs", looped.probs, got.probs, COUNT(got.probs));
        expect_same("sortedIndices", looped.positions, got.positions, COUNT(got.positions));
    }
    printf("%zu windows agree\n", sizeof cases / sizeof *cases);
    return 0;
}
