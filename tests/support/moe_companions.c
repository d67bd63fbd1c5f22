#include "support/moe_companions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_moe_token_permute_with_ep.h"
#include "aclnnop/aclnn_moe_token_permute_with_ep_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep.h"

/* --- in common ------------------------------------------------------------------------------------------- */

struct companion_shape companion_shape_of(int token_dtype, int probs_dtype, int64_t tokens, int64_t topk,
                                          int64_t hidden)
{
    return (struct companion_shape){.token_dtype = token_dtype,
                                    .probs_dtype = probs_dtype,
                                    .index_dtype = AG_INT32,
                                    .tokens = tokens,
                                    .topk = topk,
                                    .hidden = hidden,
                                    .has_probs = true,
                                    .rows = tokens * topk};
}

void companion_set_window(struct companion_shape *shape, int64_t begin, int64_t end)
{
    shape->has_range = true;
    shape->range[0] = begin;
    shape->range[1] = end;
    shape->rows = end - begin;
}

void companion_require_success(aclnnStatus status, const char *phase)
{
    if (status != 0) {
        const char *text = ag_error_take();
        fail_msg("%s: status %d, %s", phase, (int)status, text ? text : "no text");
    }
}

void companion_run_phase2(companion_phase2 *phase2, uint64_t workspace_size, aclOpExecutor *executor)
{
    struct test_buffer workspace = test_buffer_create(workspace_size, 1);
    memset(workspace.data, 0xff, workspace_size);
    companion_require_success(phase2(workspace.data, workspace_size, executor, NULL), "phase 2");
    test_buffer_destroy(&workspace);
}

static aclIntArray *range_array(const struct companion_shape *shape)
{
    return shape->has_range ? aclCreateIntArray(shape->range, 2) : NULL;
}

static const char *describe(const struct companion_shape *s, char *text, size_t bytes)
{
    snprintf(text, bytes,
             "t=%" PRId64 " k=%" PRId64 " h=%" PRId64 " token=%s probs=%s has_probs=%d rows=%" PRId64
             " range=%d[%" PRId64 ",%" PRId64 ") cut=%" PRId64 " isa=%s threads=%d",
             s->tokens, s->topk, s->hidden, ag_dtype_name(s->token_dtype), ag_dtype_name(s->probs_dtype),
             s->has_probs, s->rows, s->has_range, s->range[0], s->range[1], s->cut, ag_isa_name(ag_config_get().isa),
             ag_config_get().threads);
    return text;
}

static double *doubles(int64_t count)
{
    double *values = calloc(count ? (size_t)count : 1, sizeof *values);
    assert_non_null(values);
    return values;
}

static struct test_tensor random_tensor(int dtype, int rank, const int64_t *dims, struct test_random *random)
{
    struct test_tensor tensor = test_tensor_create(dtype, rank, dims);
    test_tensor_fill_normal(&tensor, random, 1);
    return tensor;
}

/* --- permute --------------------------------------------------------------------------------------------- */

struct permute_test permute_test_create(const struct companion_shape *shape, int64_t experts,
                                        struct test_random *random)
{
    struct permute_test test = {.shape = *shape};
    const int64_t slots[2] = {shape->tokens, shape->topk};
    test.tokens = random_tensor(shape->token_dtype, 2, (int64_t[]){shape->tokens, shape->hidden}, random);
    test.indices = test_tensor_create(shape->index_dtype, 2, slots);
    for (int64_t i = 0; i < slots[0] * slots[1]; ++i) {
        test_tensor_set(&test.indices, i, (double)test_random_below(random, experts));
    }
    test.permuted = test_tensor_create(shape->token_dtype, 2, (int64_t[]){shape->rows, shape->hidden});
    test.sorted = test_tensor_create(AG_INT32, 1, (int64_t[]){slots[0] * slots[1]});
    if (shape->has_probs) {
        test.probs = random_tensor(shape->probs_dtype, 2, slots, random);
        test.permuted_probs = test_tensor_create(shape->probs_dtype, 1, (int64_t[]){shape->rows});
    }
    return test;
}

void permute_test_destroy(struct permute_test *test)
{
    test_tensor_destroy(&test->tokens);
    test_tensor_destroy(&test->indices);
    test_tensor_destroy(&test->probs);
    test_tensor_destroy(&test->permuted);
    test_tensor_destroy(&test->sorted);
    test_tensor_destroy(&test->permuted_probs);
}

aclnnStatus permute_test_phase1(const struct permute_test *test, uint64_t *workspace_size, aclOpExecutor **executor)
{
    aclIntArray *range = range_array(&test->shape);
    const aclnnStatus status = aclnnMoeTokenPermuteWithEpGetWorkspaceSize(
        test->tokens.handle, test->indices.handle, test->probs.handle, range, test->shape.cut, false,
        test->permuted.handle, test->sorted.handle, test->permuted_probs.handle, workspace_size, executor);
    aclDestroyIntArray(range);
    return status;
}

void permute_test_run(struct permute_test *test)
{
    uint64_t workspace_size = 0;
    aclOpExecutor *executor = NULL;
    test_tensor_fill_bytes(&test->permuted, 0xff);
    test_tensor_fill_bytes(&test->sorted, 0xff);
    if (test->permuted_probs.handle) {
        test_tensor_fill_bytes(&test->permuted_probs, 0xff);
    }
    companion_require_success(permute_test_phase1(test, &workspace_size, &executor), "permute, phase 1");
    companion_run_phase2(aclnnMoeTokenPermuteWithEp, workspace_size, executor);
}

static struct moe_permute_problem permute_problem(const struct permute_test *test)
{
    uint64_t workspace_size;
    aclOpExecutor *executor;
    struct moe_permute_problem problem;
    aclIntArray *range = range_array(&test->shape);
    const struct moe_permute_args args = {.tokens = test->tokens.handle,
                                          .indices = test->indices.handle,
                                          .probs = test->probs.handle,
                                          .range = range,
                                          .num_out_tokens = test->shape.cut,
                                          .permuted_tokens = test->permuted.handle,
                                          .sorted_indices = test->sorted.handle,
                                          .permuted_probs = test->permuted_probs.handle,
                                          .workspace_size = &workspace_size,
                                          .executor = &executor};
    companion_require_success(moe_permute_check(&args, &problem), "check");
    aclDestroyIntArray(range);
    return problem;
}

void permute_test_check(struct permute_test *test)
{
    const struct ag_config config = ag_config_get();
    const struct moe_permute_problem problem = permute_problem(test);
    const int64_t elems = test_tensor_elems(&test->permuted), slots = test->shape.tokens * test->shape.topk;
    const struct moe_permute_reference want = {doubles(elems), doubles(slots), doubles(test->shape.rows)};
    double *exact = doubles(elems > slots ? elems : slots);
    char text[320];
    moe_permute_ref(&problem, &want);
    TEST_EACH_ISA (isa) {
        test_configure(config.threads, isa, config.limits);
        permute_test_run(test);
        describe(&test->shape, text, sizeof text);
        test_compare("permuteTokensOut", &test->permuted, want.permuted_tokens, exact, text);
        test_compare("sortedIndicesOut", &test->sorted, want.sorted_indices, exact, text);
        if (test->shape.has_probs) {
            test_compare("permuteProbsOut", &test->permuted_probs, want.permuted_probs, exact, text);
        }
    }
    test_configure(config.threads, config.isa, config.limits);
    free(want.permuted_tokens);
    free(want.sorted_indices);
    free(want.permuted_probs);
    free(exact);
}

/* --- unpermute, gradient of permute ---------------------------------------------------------------------- */

struct unpermute_test unpermute_test_create(const struct companion_shape *shape, bool is_grad,
                                            struct test_random *random)
{
    struct unpermute_test test = {.shape = *shape, .is_grad = is_grad};
    const int64_t probs_dims[2] = {shape->tokens, shape->topk};
    test.permuted = random_tensor(shape->token_dtype, 2, (int64_t[]){shape->rows, shape->hidden}, random);
    test.sorted = test_tensor_create(AG_INT32, 1, (int64_t[]){shape->tokens * shape->topk});
    test_random_permutation(random, shape->tokens * shape->topk, test.sorted.view.data);
    test.tokens = test_tensor_create(shape->token_dtype, 2, (int64_t[]){shape->tokens, shape->hidden});
    if (shape->has_probs) {
        test.probs = random_tensor(shape->probs_dtype, is_grad ? 1 : 2, is_grad ? &shape->rows : probs_dims, random);
    }
    if (shape->has_probs && is_grad) {
        test.probs_out = test_tensor_create(shape->probs_dtype, 2, probs_dims);
    }
    return test;
}

void unpermute_test_destroy(struct unpermute_test *test)
{
    test_tensor_destroy(&test->permuted);
    test_tensor_destroy(&test->sorted);
    test_tensor_destroy(&test->probs);
    test_tensor_destroy(&test->tokens);
    test_tensor_destroy(&test->probs_out);
}

aclnnStatus unpermute_test_phase1(const struct unpermute_test *test, uint64_t *workspace_size,
                                  aclOpExecutor **executor)
{
    aclIntArray *range = range_array(&test->shape);
    const aclnnStatus status =
        test->is_grad
            ? aclnnMoeTokenPermuteWithEpGradGetWorkspaceSize(
                  test->permuted.handle, test->sorted.handle, test->probs.handle, test->shape.topk, range, false,
                  test->tokens.handle, test->probs_out.handle, workspace_size, executor)
            : aclnnMoeTokenUnpermuteWithEpGetWorkspaceSize(test->permuted.handle, test->sorted.handle,
                                                           test->probs.handle, test->shape.topk, range, false, NULL,
                                                           test->tokens.handle, workspace_size, executor);
    aclDestroyIntArray(range);
    return status;
}

void unpermute_test_run(struct unpermute_test *test)
{
    uint64_t workspace_size = 0;
    aclOpExecutor *executor = NULL;
    test_tensor_fill_bytes(&test->tokens, 0xff);
    if (test->probs_out.handle) {
        test_tensor_fill_bytes(&test->probs_out, 0xff);
    }
    companion_require_success(unpermute_test_phase1(test, &workspace_size, &executor), "unpermute, phase 1");
    companion_run_phase2(test->is_grad ? aclnnMoeTokenPermuteWithEpGrad : aclnnMoeTokenUnpermuteWithEp,
                         workspace_size, executor);
}

static struct moe_unpermute_problem unpermute_problem(const struct unpermute_test *test)
{
    uint64_t workspace_size;
    aclOpExecutor *executor;
    struct moe_unpermute_problem problem;
    aclIntArray *range = range_array(&test->shape);
    const struct moe_unpermute_args args = {.permuted_tokens = test->permuted.handle,
                                            .sorted_indices = test->sorted.handle,
                                            .probs = test->probs.handle,
                                            .num_topk = test->shape.topk,
                                            .range = range,
                                            .tokens = test->tokens.handle,
                                            .workspace_size = &workspace_size,
                                            .executor = &executor};
    const struct moe_permute_grad_args grad_args = {.permuted_tokens_grad = test->permuted.handle,
                                                    .sorted_indices = test->sorted.handle,
                                                    .permuted_probs_grad = test->probs.handle,
                                                    .num_topk = test->shape.topk,
                                                    .range = range,
                                                    .tokens_grad = test->tokens.handle,
                                                    .probs_grad = test->probs_out.handle,
                                                    .workspace_size = &workspace_size,
                                                    .executor = &executor};
    companion_require_success(
        test->is_grad ? moe_permute_grad_check(&grad_args, &problem) : moe_unpermute_check(&args, &problem), "check");
    aclDestroyIntArray(range);
    return problem;
}

void unpermute_test_check(struct unpermute_test *test)
{
    const struct ag_config config = ag_config_get();
    const struct moe_unpermute_problem problem = unpermute_problem(test);
    const int64_t elems = test_tensor_elems(&test->tokens), slots = test->shape.tokens * test->shape.topk;
    const struct moe_unpermute_reference want = {doubles(elems), doubles(elems), doubles(slots)};
    double *exact = doubles(slots);
    char text[320];
    moe_unpermute_ref(&problem, &want);
    TEST_EACH_ISA (isa) {
        test_configure(config.threads, isa, config.limits);
        unpermute_test_run(test);
        describe(&test->shape, text, sizeof text);
        test_compare(test->is_grad ? "tokenGradOut" : "out", &test->tokens, want.tokens, want.tokens_bound, text);
        if (test->probs_out.handle) {
            test_compare("probsGradOut", &test->probs_out, want.probs_out, exact, text);
        }
    }
    test_configure(config.threads, config.isa, config.limits);
    free(want.tokens);
    free(want.tokens_bound);
    free(want.probs_out);
    free(exact);
}
