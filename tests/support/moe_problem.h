/* Problems of aclnnMoeTokenUnpermuteWithEpGrad for tests: tensors between guard pages, run through the public API. */
#ifndef AG_TESTS_MOE_PROBLEM_H
#define AG_TESTS_MOE_PROBLEM_H

#include "op/moe/moe.h"
#include "support/support.h"

struct moe_shape {
    int token_dtype, probs_dtype; /* probs_dtype is the type of probsGradOut where there are no probs */
    int64_t tokens, topk, hidden;
    bool has_probs, has_tokens;
    bool has_range;
    int64_t range[2];
    int64_t rows, out_rows; /* R, R' */
};

struct moe_test {
    struct moe_shape shape;
    struct test_tensor grad, indices, permuted, probs;
    struct test_tensor permuted_grad, probs_grad;
};

/* A problem with probs whose window is the whole order. */
struct moe_shape moe_shape_of(int token_dtype, int probs_dtype, int64_t tokens, int64_t topk, int64_t hidden);

/* The window [begin, end); R = R' = its rows. */
void moe_shape_set_window(struct moe_shape *shape, int64_t begin, int64_t end);

/* Normal random data, sortedIndices a random permutation. Absent inputs stay {0}. */
struct moe_test moe_test_create(const struct moe_shape *shape, struct test_random *random);
void moe_test_destroy(struct moe_test *test);

/* Fills an int32 or float tensor from a list as long as the tensor. */
void moe_test_set(struct test_tensor *tensor, const double *values);

/* Both phases; outputs and workspace are filled with 0xff before (NaN, -1), the workspace lies between guard pages at
 * an odd address. Fails unless both phases succeed. */
void moe_test_run(struct moe_test *test);

/* Phase 1 alone, with the status. Nothing is filled. */
aclnnStatus moe_test_phase1(const struct moe_test *test, uint64_t *workspace_size, aclOpExecutor **executor);

/* What moe_check makes of the arguments; fails unless it accepts them. */
struct moe_problem moe_test_problem(const struct moe_test *test);

/* The definition's answer for a problem, owned by the caller. */
struct moe_answer {
    struct moe_reference values;
    double *zero_bound; /* [R', H] the bound of permutedTokensGradOut: exact */
};
struct moe_answer moe_answer_create(const struct moe_test *test);
void moe_answer_destroy(struct moe_answer *answer);

/* Both outputs within their bounds. Returns the worst error of probsGradOut as a fraction of its bound. */
double moe_test_compare(const struct moe_test *test, const struct moe_answer *answer);

/* Run, compare with the definition, for every kernel table. */
void moe_test_check(struct moe_test *test);

#endif
