/* Tokens to the experts of two ranks and back, and the gradients of both ways, on numbers that can be checked by hand.
 *
 * T = 3 tokens, K = 2 experts each, H = 2, so slots 0 to 5; float. The experts are {2, 0}, {0, 1}, {2, 0}. Sorted by expert
 * the slots are 1 2 5 (expert 0), 3 (expert 1), 0 4 (expert 2). Rank 0 has experts 0 and 1: positions 0 to 3; rank 1
 * expert 2. Called with the name of a function, without the aclnnMoeToken before it. */
#include "example.h"

#include "aclnnop/aclnn_moe_token_permute_with_ep.h"
#include "aclnnop/aclnn_moe_token_permute_with_ep_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep.h"

enum { TOKENS = 3, TOPK = 2, HIDDEN = 2, SLOTS = TOKENS * TOPK };

static float tokens[TOKENS * HIDDEN] = {1, 2, 3, 4, 5, 6}, probs[SLOTS] = {.5f, 1, 2, 4, 8, 16};
static int32_t experts[SLOTS] = {2, 0, 0, 1, 2, 0}, positions[SLOTS] = {4, 0, 1, 3, 5, 2};
static float rows[SLOTS * HIDDEN] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, row_probs[SLOTS] = {1, 2, 3, 4, 5, 6};
static float rows_out[SLOTS * HIDDEN], row_probs_out[SLOTS], tokens_out[TOKENS * HIDDEN], probs_out[SLOTS];
static int32_t positions_out[SLOTS];

/* --- handles ------------------------------------------------------------------------------------------------- */

static aclTensor *made[8];
static size_t made_count;

static aclTensor *tensor(void *memory, aclDataType type, uint64_t rank, int64_t dim0, int64_t dim1)
{
    const int64_t dims[2] = {dim0, dim1};
    made[made_count] = aclCreateTensor(dims, rank, type, NULL, 0, ACL_FORMAT_ND, dims, rank, memory);
    return made[made_count++];
}

typedef aclnnStatus phase2(void *workspace, uint64_t bytes, aclOpExecutor *executor, aclrtStream stream);

static void finish(phase2 *run, uint64_t bytes, aclOpExecutor *executor, aclIntArray *range)
{
    void *workspace = workspace_create(bytes);
    CHECK(run(workspace, bytes, executor, NULL));
    CHECK(aclrtSynchronizeStream(NULL));
    workspace_destroy(workspace);
    aclDestroyIntArray(range);
    while (made_count > 0) {
        aclDestroyTensor(made[--made_count]);
    }
}

static void print_pairs(const char *name, const float *values, int64_t count)
{
    printf("    %-14s", name);
    for (int64_t r = 0; r < count; ++r) {
        printf("%s%g %g", r > 0 ? ",  " : "", (double)values[2 * r], (double)values[2 * r + 1]);
    }
    printf("\n");
}

/* --- the operators ------------------------------------------------------------------------------------------- */

static void permute(int64_t lo, int64_t hi, int64_t count, int64_t rows_wanted)
{
    aclIntArray *range = aclCreateIntArray((int64_t[]){lo, hi}, 2);
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    CHECK(aclnnMoeTokenPermuteWithEpGetWorkspaceSize(
        tensor(tokens, ACL_FLOAT, 2, TOKENS, HIDDEN), tensor(experts, ACL_INT32, 2, TOKENS, TOPK),
        tensor(probs, ACL_FLOAT, 2, TOKENS, TOPK), range, count, false,
        tensor(rows_out, ACL_FLOAT, 2, rows_wanted, HIDDEN), tensor(positions_out, ACL_INT32, 1, SLOTS, 0),
        tensor(row_probs_out, ACL_FLOAT, 1, rows_wanted, 0), &bytes, &executor));
    finish(aclnnMoeTokenPermuteWithEp, bytes, executor, range);
    printf("range {%d, %d}, numOutTokens %d\n", (int)lo, (int)hi, (int)count);
    print_pairs("permuteTokens", rows_out, rows_wanted);
    printf("    permuteProbs ");
    for (int64_t r = 0; r < rows_wanted; ++r) {
        printf(" %g", (double)row_probs_out[r]);
    }
    printf("\n    sortedIndices");
    for (int i = 0; i < SLOTS; ++i) {
        printf(" %d", (int)positions_out[i]);
    }
    printf("\n");
}

static void permute_grad(int64_t lo, int64_t hi)
{
    aclIntArray *range = aclCreateIntArray((int64_t[]){lo, hi}, 2);
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    CHECK(aclnnMoeTokenPermuteWithEpGradGetWorkspaceSize(
        tensor(rows, ACL_FLOAT, 2, hi - lo, HIDDEN), tensor(positions, ACL_INT32, 1, SLOTS, 0),
        tensor(row_probs, ACL_FLOAT, 1, hi - lo, 0), TOPK, range, false,
        tensor(tokens_out, ACL_FLOAT, 2, TOKENS, HIDDEN), tensor(probs_out, ACL_FLOAT, 2, TOKENS, TOPK), &bytes,
        &executor));
    finish(aclnnMoeTokenPermuteWithEpGrad, bytes, executor, range);
    printf("range {%d, %d}\n", (int)lo, (int)hi);
    print_pairs("tokenGrad", tokens_out, TOKENS);
    print_pairs("probsGrad", probs_out, TOKENS);
}

static void unpermute(int64_t lo, int64_t hi, int has_probs)
{
    aclIntArray *range = aclCreateIntArray((int64_t[]){lo, hi}, 2);
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    CHECK(aclnnMoeTokenUnpermuteWithEpGetWorkspaceSize(
        tensor(rows, ACL_FLOAT, 2, hi - lo, HIDDEN), tensor(positions, ACL_INT32, 1, SLOTS, 0),
        has_probs ? tensor(probs, ACL_FLOAT, 2, TOKENS, TOPK) : NULL, TOPK, range, false, NULL,
        tensor(tokens_out, ACL_FLOAT, 2, TOKENS, HIDDEN), &bytes, &executor));
    finish(aclnnMoeTokenUnpermuteWithEp, bytes, executor, range);
    printf("range {%d, %d}, %s\n", (int)lo, (int)hi, has_probs ? "probs" : "no probs");
    print_pairs("out", tokens_out, TOKENS);
}

static void unpermute_grad(int has_probs)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    CHECK(aclnnMoeTokenUnpermuteGradGetWorkspaceSize(
        tensor(rows, ACL_FLOAT, 2, SLOTS, HIDDEN), tensor(tokens, ACL_FLOAT, 2, TOKENS, HIDDEN),
        tensor(positions, ACL_INT32, 1, SLOTS, 0), has_probs ? tensor(probs, ACL_FLOAT, 2, TOKENS, TOPK) : NULL,
        false, NULL, tensor(rows_out, ACL_FLOAT, 2, SLOTS, HIDDEN), tensor(probs_out, ACL_FLOAT, 2, TOKENS, TOPK),
        &bytes, &executor));
    finish(aclnnMoeTokenUnpermuteGrad, bytes, executor, NULL);
    printf("%s\n", has_probs ? "probs" : "no probs: every weight is 1");
    print_pairs("rowsGrad", rows_out, SLOTS);
    if (has_probs) {
        print_pairs("probsGrad", probs_out, TOKENS);
    }
}

int main(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : "";
    if (strcmp(name, "PermuteWithEp") == 0) {
        permute(0, 6, 0, 6);
        permute(0, 4, 0, 4);
        permute(4, 6, 0, 2);
        permute(0, 6, 3, 4);
        permute(0, 6, -5, 1);
    } else if (strcmp(name, "PermuteWithEpGrad") == 0) {
        permute_grad(0, 6);
        permute_grad(0, 4);
        permute_grad(4, 6);
    } else if (strcmp(name, "UnpermuteWithEp") == 0) {
        unpermute(0, 6, 1);
        unpermute(0, 4, 1);
        unpermute(4, 6, 1);
        unpermute(0, 6, 0);
    } else if (strcmp(name, "UnpermuteGrad") == 0) {
        unpermute_grad(1);
        unpermute_grad(0);
    } else {
        printf("usage: round_trip PermuteWithEp|PermuteWithEpGrad|UnpermuteWithEp|UnpermuteGrad\n");
    }
    return 0;
}
