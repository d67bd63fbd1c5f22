/* Problems of the mixture-of-experts companions for tests: permute, unpermute and the gradient of permute, tensors between
 * guard pages, run through the public API. */
#ifndef AG_TESTS_MOE_COMPANIONS_H
#define AG_TESTS_MOE_COMPANIONS_H

#include "op/moe/moe_permute.h"
#include "op/moe/moe_unpermute.h"
#include "support/support.h"

/* What the three have in common. */
struct companion_shape {
    int token_dtype, probs_dtype, index_dtype; /* the last: of permute's experts */
    int64_t tokens, topk, hidden;
    bool has_probs;
    bool has_range;
    int64_t range[2];
    int64_t cut;  /* numOutTokens */
    int64_t rows; /* R */
};

/* With probs; the window is the whole order. */
struct companion_shape companion_shape_of(int token_dtype, int probs_dtype, int64_t tokens, int64_t topk,
                                          int64_t hidden);
void companion_set_window(struct companion_shape *shape, int64_t begin, int64_t end); /* R = its rows */

/* Fails with the library's message unless status is 0. */
void companion_require_success(aclnnStatus status, const char *phase);

/* Runs phase 2 with a workspace between guard pages at an odd address, filled with 0xff. */
typedef aclnnStatus companion_phase2(void *, uint64_t, aclOpExecutor *, aclrtStream);
void companion_run_phase2(companion_phase2 *phase2, uint64_t workspace_size, aclOpExecutor *executor);

/* Both phases of each fill the outputs with 0xff first and fail unless they succeed; check runs every table and compares
 * each element with the definition. */

struct permute_test {
    struct companion_shape shape;
    struct test_tensor tokens, indices, probs;
    struct test_tensor permuted, sorted, permuted_probs;
};
struct permute_test permute_test_create(const struct companion_shape *shape, int64_t experts,
                                        struct test_random *random);
void permute_test_destroy(struct permute_test *test);
aclnnStatus permute_test_phase1(const struct permute_test *test, uint64_t *workspace_size, aclOpExecutor **executor);
void permute_test_run(struct permute_test *test);
void permute_test_check(struct permute_test *test);

/* Unpermute: probs are the weights [T, K]. The gradient of permute: probs are the gradients [R] of the permuted
 * ones, probs_out theirs. */
struct unpermute_test {
    struct companion_shape shape;
    bool is_grad;
    struct test_tensor permuted, sorted, probs;
    struct test_tensor tokens, probs_out;
};
struct unpermute_test unpermute_test_create(const struct companion_shape *shape, bool is_grad,
                                            struct test_random *random);
void unpermute_test_destroy(struct unpermute_test *test);
aclnnStatus unpermute_test_phase1(const struct unpermute_test *test, uint64_t *workspace_size,
                                  aclOpExecutor **executor);
void unpermute_test_run(struct unpermute_test *test);
void unpermute_test_check(struct unpermute_test *test);

#endif
