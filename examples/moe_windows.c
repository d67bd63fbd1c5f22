/* aclnnMoeTokenUnpermuteWithEpGrad on numbers that can be checked by hand: with and without a window, with and without probs.
 *
 * T = 2 tokens, K = 2 experts each, H = 2, so slots 0 to 3; float. Slots stand in the sorted order at positions 2 0 1 3. */
#include "example.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"

enum { TOKENS = 2, TOPK = 2, HIDDEN = 2, SLOTS = TOKENS * TOPK };

struct call {
    const char *title;
    int32_t positions[SLOTS];
    int has_range, has_probs;
    int64_t range[2];
    int64_t rows, out_rows; /* of permutedTokens, of permutedTokensGradOut */
};

static const struct call calls[] = {
    {"range null: the whole order", {2, 0, 1, 3}, 0, 1, {0, 0}, 4, 4},
    {"range {1, 3}: positions 1 and 2 are rows 0 and 1 of this rank", {2, 0, 1, 3}, 1, 1, {1, 3}, 2, 2},
    {"the same with an output of 4 rows: those behind the window are 0", {2, 0, 1, 3}, 1, 1, {1, 3}, 2, 4},
    {"range {0, -1}: a negative bound counts from the end, so {0, 3}", {2, 0, 1, 3}, 1, 1, {0, -1}, 3, 3},
    {"range {2, 2}: an empty window, a rank without tokens", {2, 0, 1, 3}, 1, 1, {2, 2}, 0, 0},
    {"range {0, 4}, 3 rows of permutedTokens: the forward dropped the fourth", {2, 0, 1, 3}, 1, 1, {0, 4}, 3, 4},
    {"a negative position: not on this rank", {2, -1, 1, 3}, 0, 1, {0, 0}, 4, 4},
    {"no probs: every weight is 1, probsGrad is not touched", {2, 0, 1, 3}, 0, 0, {0, 0}, 4, 4},
};

static float tokens_grad[TOKENS * HIDDEN] = {1, 2, 3, 5}, probs[SLOTS] = {.5f, 2, 1, 4};
static float permuted[SLOTS * HIDDEN] = {1, 0, 0, 1, 1, 1, 2, 3}, rows_grad[SLOTS * HIDDEN], probs_grad[SLOTS];
static int32_t positions[SLOTS];

static aclTensor *made[8];
static size_t made_count;

static aclTensor *tensor(void *memory, aclDataType type, uint64_t rank, int64_t rows, int64_t columns)
{
    const int64_t dims[2] = {rows, columns};
    made[made_count] = aclCreateTensor(dims, rank, type, NULL, 0, ACL_FORMAT_ND, dims, rank, memory);
    return made[made_count++];
}

static void run(const struct call *c)
{
    aclIntArray *range = c->has_range ? aclCreateIntArray(c->range, 2) : NULL;
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    memcpy(positions, c->positions, sizeof positions);
    for (int i = 0; i < SLOTS; ++i) { /* what was there before does not matter */
        rows_grad[2 * i] = rows_grad[2 * i + 1] = probs_grad[i] = -1;
    }
    CHECK(aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
        tensor(tokens_grad, ACL_FLOAT, 2, TOKENS, HIDDEN), tensor(positions, ACL_INT32, 1, SLOTS, 0),
        tensor(permuted, ACL_FLOAT, 2, c->rows, HIDDEN),
        c->has_probs ? tensor(probs, ACL_FLOAT, 2, TOKENS, TOPK) : NULL, false, NULL, range, TOPK,
        tensor(rows_grad, ACL_FLOAT, 2, c->out_rows, HIDDEN), tensor(probs_grad, ACL_FLOAT, 2, TOKENS, TOPK), &bytes,
        &executor));
    void *workspace = workspace_create(bytes);
    CHECK(aclnnMoeTokenUnpermuteWithEpGrad(workspace, bytes, executor, NULL));
    CHECK(aclrtSynchronizeStream(NULL));
    workspace_destroy(workspace);
    aclDestroyIntArray(range);
    while (made_count > 0) {
        aclDestroyTensor(made[--made_count]);
    }
}

static void print(const char *name, const float *values, int64_t rows)
{
    printf("    %-19s%s", name, rows > 0 ? "" : "no rows");
    for (int64_t r = 0; r < rows; ++r) {
        printf("%s%g %g", r > 0 ? ",  " : "", (double)values[2 * r], (double)values[2 * r + 1]);
    }
    printf("\n");
}

int main(void)
{
    print("tokensGrad", tokens_grad, TOKENS);
    print("permutedTokens", permuted, SLOTS);
    print("probs", probs, TOKENS);
    for (size_t k = 0; k < sizeof calls / sizeof *calls; ++k) {
        run(&calls[k]);
        printf("\n%s\n", calls[k].title);
        print("permutedTokensGrad", rows_grad, calls[k].out_rows);
        print("probsGrad", probs_grad, TOKENS);
    }
    return 0;
}
