/* The loop of docs/operators/lightning-indexer.md against the library, in both sparse modes. */
#include "loop.h"

#include <stdbool.h>

#include "aclnnop/aclnn_lightning_indexer.h"

enum { T1 = 9, T2 = 31, N = 3, D = 128, K = 8, MOST_KEYS = 20, sequences = 2 };

static const int64_t rows[sequences] = {7, 2}, keys[sequences] = {5, 20}, first_row[sequences] = {0, 7};
static const int64_t first_key[sequences] = {0, 5};
static float query[T1][N][D], key[T2][D], weights[T1][N];
static struct outputs {
    float values[T1][K];
    int32_t indices[T1][K];
} looped, got;
static int64_t sparseMode;

static void run_loop(void)
{
    float(*sparseValuesOut)[K] = looped.values;
    int32_t(*sparseIndicesOut)[K] = looped.indices;
#include "loop.inc"
}

static void run_library(void)
{
    int32_t query_ends[sequences] = {7, 9}, key_ends[sequences] = {5, 25};
    const int64_t by_head[3] = {T1, N, D}, by_key[3] = {T2, 1, D}, by_slot[3] = {T1, 1, K}, lengths[1] = {sequences};
    char layout[] = "TND";
    uint64_t bytes;
    aclOpExecutor *executor;
    CHECK(aclnnLightningIndexerGetWorkspaceSize(
        tensor_of(query, ACL_FLOAT, 3, by_head), tensor_of(key, ACL_FLOAT, 3, by_key),
        tensor_of(weights, ACL_FLOAT, 2, by_head), tensor_of(query_ends, ACL_INT32, 1, lengths),
        tensor_of(key_ends, ACL_INT32, 1, lengths), NULL, layout, layout, K, sparseMode, INT64_MAX, INT64_MAX, true,
        tensor_of(got.indices, ACL_INT32, 3, by_slot), tensor_of(got.values, ACL_FLOAT, 3, by_slot), &bytes,
        &executor));
    void *workspace = malloc(bytes + 1);
    CHECK(aclnnLightningIndexer(workspace, bytes, executor, NULL));
    free(workspace);
}

/* Random scores are far enough apart for one order. -inf equals itself, but not within a bound. */
static void compare(void)
{
    int empty = 0;
    for (int i = 0; i < T1 * K; ++i) {
        const float loop = looped.values[0][i], library = got.values[0][i];
        if (looped.indices[0][i] != got.indices[0][i] || isinf(loop) != isinf(library)) {
            printf("slot %d: the loop gives %d (%g), the library %d (%g)\n", i, (int)looped.indices[0][i],
                   (double)loop, (int)got.indices[0][i], (double)library);
            exit(1);
        }
        if (isinf(loop)) {
            looped.values[0][i] = got.values[0][i] = 0;
            ++empty;
        }
    }
    if (empty == 0) {
        printf("no slot is empty\n");
        exit(1);
    }
    expect_same("values", looped.values, got.values, T1 * K);
}

int main(void)
{
    CHECK(aclgrad_set_limits(ACLGRAD_LIMITS_EXTENDED)); /* float */
    for (sparseMode = 0; sparseMode <= 3; sparseMode += 3) {
        fill(query, COUNT(query));
        fill(key, COUNT(key));
        fill(weights, COUNT(weights));
        run_loop();
        run_library();
        compare();
    }
    printf("2 modes agree\n");
    return 0;
}
