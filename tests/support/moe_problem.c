#include "support/moe_problem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"

/* --- making one ------------------------------------------------------------------------------------------ */

struct moe_shape moe_shape_of(int token_dtype, int probs_dtype, int64_t tokens, int64_t topk, int64_t hidden)
{
    return (struct moe_shape){.token_dtype = token_dtype,
                              .probs_dtype = probs_dtype,
                              .tokens = tokens,
                              .topk = topk,
                              .hidden = hidden,
                              .has_probs = true,
                              .has_tokens = true,
                              .rows = tokens * topk,
                              .out_rows = tokens * topk};
}

void moe_shape_set_window(struct moe_shape *shape, int64_t begin, int64_t end)
{
    shape->has_range = true;
    shape->range[0] = begin;
    shape->range[1] = end;
    shape->rows = shape->out_rows = end - begin;
}

struct moe_test moe_test_create(const struct moe_shape *shape, struct test_random *random)
{
    struct moe_test test = {.shape = *shape};
    const int64_t slots = shape->tokens * shape->topk;
    test.grad = test_tensor_create(shape->token_dtype, 2, (int64_t[]){shape->tokens, shape->hidden});
    test.indices = test_tensor_create(AG_INT32, 1, (int64_t[]){slots});
    test.permuted_grad = test_tensor_create(shape->token_dtype, 2, (int64_t[]){shape->out_rows, shape->hidden});
    test.probs_grad = test_tensor_create(shape->probs_dtype, 2, (int64_t[]){shape->tokens, shape->topk});
    test_tensor_fill_normal(&test.grad, random, 1);
    test_random_permutation(random, slots, test.indices.view.data);
    if (shape->has_tokens) {
        test.permuted = test_tensor_create(shape->token_dtype, 2, (int64_t[]){shape->rows, shape->hidden});
        test_tensor_fill_normal(&test.permuted, random, 1);
    }
    if (shape->has_probs) {
        test.probs = test_tensor_create(shape->probs_dtype, 2, (int64_t[]){shape->tokens, shape->topk});
        test_tensor_fill_normal(&test.probs, random, 0.5);
    }
    return test;
}

void moe_test_destroy(struct moe_test *test)
{
    test_tensor_destroy(&test->grad);
    test_tensor_destroy(&test->indices);
    test_tensor_destroy(&test->permuted);
    test_tensor_destroy(&test->probs);
    test_tensor_destroy(&test->permuted_grad);
    test_tensor_destroy(&test->probs_grad);
}

void moe_test_set(struct test_tensor *tensor, const double *values)
{
    for (int64_t i = 0; i < test_tensor_elems(tensor); ++i) {
        test_tensor_set(tensor, i, values[i]);
    }
}

/* --- running it ------------------------------------------------------------------------------------------ */

static aclIntArray *range_array(const struct moe_shape *shape)
{
    return shape->has_range ? aclCreateIntArray(shape->range, 2) : NULL;
}

aclnnStatus moe_test_phase1(const struct moe_test *test, uint64_t *workspace_size, aclOpExecutor **executor)
{
    aclIntArray *range = range_array(&test->shape);
    const aclnnStatus status = aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
        test->grad.handle, test->indices.handle, test->permuted.handle, test->probs.handle, false, NULL, range,
        test->shape.topk, test->permuted_grad.handle, test->probs_grad.handle, workspace_size, executor);
    aclDestroyIntArray(range);
    return status;
}

static void require_success(aclnnStatus status, const char *phase)
{
    if (status != 0) {
        const char *text = ag_error_take();
        fail_msg("%s: status %d, %s", phase, (int)status, text ? text : "no text");
    }
}

void moe_test_run(struct moe_test *test)
{
    uint64_t workspace_size = 0;
    aclOpExecutor *executor = NULL;
    test_tensor_fill_bytes(&test->permuted_grad, 0xff);
    test_tensor_fill_bytes(&test->probs_grad, 0xff);
    require_success(moe_test_phase1(test, &workspace_size, &executor), "phase 1");
    struct test_buffer workspace = test_buffer_create(workspace_size, 1);
    memset(workspace.data, 0xff, workspace_size);
    require_success(aclnnMoeTokenUnpermuteWithEpGrad(workspace.data, workspace_size, executor, NULL), "phase 2");
    test_buffer_destroy(&workspace);
}

/* --- judging it ------------------------------------------------------------------------------------------ */

struct moe_problem moe_test_problem(const struct moe_test *test)
{
    uint64_t workspace_size;
    aclOpExecutor *executor;
    aclIntArray *range = range_array(&test->shape);
    const struct moe_args args = {.unpermuted_tokens_grad = test->grad.handle,
                                  .sorted_indices = test->indices.handle,
                                  .permuted_tokens = test->permuted.handle,
                                  .probs = test->probs.handle,
                                  .range = range,
                                  .topk_num = test->shape.topk,
                                  .permuted_tokens_grad = test->permuted_grad.handle,
                                  .probs_grad = test->probs_grad.handle,
                                  .workspace_size = &workspace_size,
                                  .executor = &executor};
    struct moe_problem problem;
    require_success(moe_check(&args, &problem), "check");
    aclDestroyIntArray(range);
    return problem;
}

static double *doubles(int64_t count)
{
    double *values = calloc(count ? (size_t)count : 1, sizeof *values);
    assert_non_null(values);
    return values;
}

struct moe_answer moe_answer_create(const struct moe_test *test)
{
    const struct moe_problem problem = moe_test_problem(test);
    const int64_t elems = test_tensor_elems(&test->permuted_grad), slots = test->shape.tokens * test->shape.topk;
    const struct moe_answer answer = {.values = {.permuted_tokens_grad = doubles(elems),
                                                 .probs_grad = doubles(slots),
                                                 .probs_grad_bound = doubles(slots)},
                                      .zero_bound = doubles(elems)};
    moe_ref(&problem, &answer.values);
    return answer;
}

void moe_answer_destroy(struct moe_answer *answer)
{
    free(answer->values.permuted_tokens_grad);
    free(answer->values.probs_grad);
    free(answer->values.probs_grad_bound);
    free(answer->zero_bound);
}

static const char *describe(const struct moe_shape *s, char *text, size_t bytes)
{
    snprintf(text, bytes,
             "t=%" PRId64 " k=%" PRId64 " h=%" PRId64 " token=%s probs=%s has_probs=%d rows=%" PRId64 ",%" PRId64
             " range=%d[%" PRId64 ",%" PRId64 ") isa=%s threads=%d",
             s->tokens, s->topk, s->hidden, ag_dtype_name(s->token_dtype), ag_dtype_name(s->probs_dtype),
             s->has_probs, s->rows, s->out_rows, s->has_range, s->range[0], s->range[1],
             ag_isa_name(ag_config_get().isa), ag_config_get().threads);
    return text;
}

double moe_test_compare(const struct moe_test *test, const struct moe_answer *answer)
{
    char text[320];
    describe(&test->shape, text, sizeof text);
    test_compare("permutedTokensGradOut", &test->permuted_grad, answer->values.permuted_tokens_grad,
                 answer->zero_bound, text);
    if (test->shape.has_probs) {
        return test_compare("probsGradOut", &test->probs_grad, answer->values.probs_grad,
                            answer->values.probs_grad_bound, text);
    }
    for (size_t i = 0; i < test->probs_grad.buffer.bytes; ++i) { /* without probs nothing is written there */
        assert_int_equal(((unsigned char *)test->probs_grad.buffer.data)[i], 0xff);
    }
    return 0;
}

void moe_test_check(struct moe_test *test)
{
    const struct ag_config config = ag_config_get();
    struct moe_answer answer = moe_answer_create(test);
    TEST_EACH_ISA (isa) {
        test_configure(config.threads, isa, config.limits);
        moe_test_run(test);
        moe_test_compare(test, &answer);
    }
    test_configure(config.threads, config.isa, config.limits);
    moe_answer_destroy(&answer);
}
