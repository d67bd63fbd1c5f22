/* The loop of docs/operators/lightning-indexer-grad.md against the library, in both sparse modes. */
#include "loop.h"

#include "aclnnop/aclnn_lightning_indexer_grad.h"

enum { T1 = 9, T2 = 11, N = 3, D = 128, K = 5, sequences = 2 };

static const int64_t rows[sequences] = {7, 2}, keys[sequences] = {6, 5}, first_row[sequences] = {0, 7};
static const int64_t first_key[sequences] = {0, 6};
static float query[T1][N][D], key[T2][D], weights[T1][N], dy[T1][K];
static int32_t sparseIndices[T1][K];
static struct outputs {
    float dq[T1][N][D], dk[T2][D], dweights[T1][N];
} looped, got;
static int64_t sparseMode;

static void fill_inputs(void)
{
    fill(query, COUNT(query));
    fill(key, COUNT(key));
    fill(weights, COUNT(weights));
    fill(dy, COUNT(dy));
    for (int r = 0; r < T1; ++r) {
        for (int j = 0; j < K; ++j) {
            sparseIndices[r][j] = (r * 5 + j * 3) % 8 - 1; /* -1 to 6: also what is no key */
        }
    }
}

static void run_loop(void)
{
    float(*dqOut)[N][D] = looped.dq, (*dkOut)[D] = looped.dk, (*dweightsOut)[N] = looped.dweights;
    memset(&looped, 0, sizeof looped);
#include "loop.inc"
}

static void run_library(void)
{
    int32_t query_ends[sequences] = {7, 9}, key_ends[sequences] = {6, 11};
    const int64_t by_head[3] = {T1, N, D}, by_key[3] = {T2, 1, D}, by_slot[2] = {T1, K}, lengths[1] = {sequences};
    char layout[] = "TND";
    uint64_t bytes;
    aclOpExecutor *executor;
    CHECK(aclnnLightningIndexerGradGetWorkspaceSize(
        tensor_of(query, ACL_FLOAT, 3, by_head), tensor_of(key, ACL_FLOAT, 3, by_key),
        tensor_of(dy, ACL_FLOAT, 2, by_slot), tensor_of(sparseIndices, ACL_INT32, 2, by_slot),
        tensor_of(weights, ACL_FLOAT, 2, by_head), tensor_of(query_ends, ACL_INT32, 1, lengths),
        tensor_of(key_ends, ACL_INT32, 1, lengths), N, layout, sparseMode, 0, 0, true,
        tensor_of(got.dq, ACL_FLOAT, 3, by_head), tensor_of(got.dk, ACL_FLOAT, 3, by_key),
        tensor_of(got.dweights, ACL_FLOAT, 2, by_head), &bytes, &executor));
    void *workspace = malloc(bytes + 1);
    CHECK(aclnnLightningIndexerGrad(workspace, bytes, executor, NULL));
    free(workspace);
}

int main(void)
{
    CHECK(aclgrad_set_limits(ACLGRAD_LIMITS_EXTENDED)); /* float */
    for (sparseMode = 0; sparseMode <= 3; sparseMode += 3) {
        fill_inputs();
        run_loop();
        run_library();
        expect_same("dq", looped.dq, got.dq, COUNT(got.dq));
        expect_same("dk", looped.dk, got.dk, COUNT(got.dk));
        expect_same("dweights", looped.dweights, got.dweights, COUNT(got.dweights));
    }
    printf("2 modes agree\n");
    return 0;
}
