/* The loop of docs/operators/moe-token-unpermute-grad.md against the library: few rows, wild positions. */
#include "loop.h"

#include "aclnnop/aclnn_moe_token_unpermute_grad.h"

enum { T = 5, K = 3, H = 20, N = T * K };

static float unpermutedTokensGrad[T][H], permutedTokens[N][H], probs[T][K];
static int32_t sortedIndices[N];
static struct outputs {
    float rows[N][H], probs[T][K];
} looped, got;
static int64_t rows_available, out_rows;

static inline float round_to_type(float value)
{
    return value; /* float tokens, float probs */
}
#define round round_to_type

static void fill_inputs(void)
{
    fill(unpermutedTokensGrad, COUNT(unpermutedTokensGrad));
    fill(permutedTokens, COUNT(permutedTokens));
    fill(probs, COUNT(probs));
    for (int i = 0; i < N; ++i) {
        sortedIndices[i] = i * 7 % N;
    }
    sortedIndices[4] = -1;
    sortedIndices[9] = N;
}

static void run_loop(void)
{
    float(*permutedTokensGradOut)[H] = looped.rows, (*probsGradOut)[K] = looped.probs;
    memset(&looped, 0, sizeof looped);
#include "loop.inc"
}

static void run_library(void)
{
    const int64_t by_token[2] = {T, H}, by_slot[1] = {N}, by_expert[2] = {T, K};
    const int64_t by_row[2] = {rows_available, H}, by_out_row[2] = {out_rows, H};
    uint64_t bytes;
    aclOpExecutor *executor;
    memset(&got, 0, sizeof got);
    memset(got.rows, 0xff, (size_t)out_rows * sizeof got.rows[0]);
    CHECK(aclnnMoeTokenUnpermuteGradGetWorkspaceSize(
        tensor_of(permutedTokens, ACL_FLOAT, 2, by_row), tensor_of(unpermutedTokensGrad, ACL_FLOAT, 2, by_token),
        tensor_of(sortedIndices, ACL_INT32, 1, by_slot), tensor_of(probs, ACL_FLOAT, 2, by_expert), false, NULL,
        tensor_of(got.rows, ACL_FLOAT, 2, by_out_row), tensor_of(got.probs, ACL_FLOAT, 2, by_expert), &bytes,
        &executor));
    void *workspace = malloc(bytes + 1);
    CHECK(aclnnMoeTokenUnpermuteGrad(workspace, bytes, executor, NULL));
    free(workspace);
}

int main(void)
{
    static const int64_t cases[][2] = {/* rows of permutedTokens, of the output */ {N, N}, {11, 12}, {11, N}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        rows_available = cases[i][0], out_rows = cases[i][1];
        fill_inputs();
        run_loop();
        run_library();
        expect_same("permutedTokensGrad", looped.rows, got.rows, COUNT(got.rows));
        expect_same("probsGrad", looped.probs, got.probs, COUNT(got.probs));
    }
    printf("%zu cases agree\n", sizeof cases / sizeof *cases);
    return 0;
}
