#include "aclnnop/aclnn_moe_token_permute_with_ep.h"
#include "aclnnop/aclnn_moe_token_permute_with_ep_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "device_tensors.h"

static struct dims by_token(const struct experts *e)
{
    return (struct dims){2, {e->tokens, e->width}};
}

static struct dims by_row(const struct experts *e, struct window window)
{
    return (struct dims){2, {window.end - window.begin, e->width}};
}

static struct dims by_expert(const struct experts *e)
{
    return (struct dims){2, {e->tokens, e->topk}};
}

static struct dims by_slot(const struct experts *e)
{
    return (struct dims){1, {e->tokens * e->topk}};
}

static aclIntArray *range_of(struct window window)
{
    return device_list((const int64_t[]){window.begin, window.end}, 2);
}

void experts_permute(struct experts *e, struct window window, real *tokens, real *rows)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    aclTensor *from = device_input(tokens, by_token(e));
    aclTensor *expert = device_raw(ACL_INT32, e->expert, by_expert(e));
    aclTensor *to = device_output(rows, by_row(e, window), ARRIVAL_PUT);
    aclTensor *position = device_output_raw(ACL_INT32, e->position, by_slot(e));
    const double began = device_clock();
    CHECK(aclnnMoeTokenPermuteWithEpGetWorkspaceSize(from, expert, NULL, range_of(window), 0, false, to, position,
                                                     NULL, &bytes, &executor));
    device_run(OPERATOR_PERMUTE, aclnnMoeTokenPermuteWithEp, bytes, executor, began);
}

void experts_permute_backward(struct experts *e, struct window window, real *rows_gradient, real *token_gradient)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    aclTensor *from = device_input(rows_gradient, by_row(e, window));
    aclTensor *position = device_raw(ACL_INT32, e->position, by_slot(e));
    aclTensor *to = device_output(token_gradient, by_token(e), ARRIVAL_ADD);
    const double began = device_clock();
    CHECK(aclnnMoeTokenPermuteWithEpGradGetWorkspaceSize(from, position, NULL, e->topk, range_of(window), false, to,
                                                         NULL, &bytes, &executor));
    device_run(OPERATOR_PERMUTE_GRAD, aclnnMoeTokenPermuteWithEpGrad, bytes, executor, began);
}

void experts_unpermute(struct experts *e, struct window window, real *rows, real *output)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    aclTensor *from = device_input(rows, by_row(e, window));
    aclTensor *position = device_raw(ACL_INT32, e->position, by_slot(e));
    aclTensor *probability = device_input_float(e->probability, by_expert(e));
    aclTensor *to = device_output(output, by_token(e), ARRIVAL_ADD);
    const double began = device_clock();
    CHECK(aclnnMoeTokenUnpermuteWithEpGetWorkspaceSize(from, position, probability, e->topk, range_of(window), false,
                                                       NULL, to, &bytes, &executor));
    device_run(OPERATOR_UNPERMUTE, aclnnMoeTokenUnpermuteWithEp, bytes, executor, began);
}

void experts_unpermute_backward(struct experts *e, struct window window, real *rows, real *output_gradient,
                                real *rows_gradient, real *probability_gradient)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    aclTensor *from = device_input(output_gradient, by_token(e));
    aclTensor *position = device_raw(ACL_INT32, e->position, by_slot(e));
    aclTensor *row = device_input(rows, by_row(e, window));
    aclTensor *probability = device_input_float(e->probability, by_expert(e));
    aclTensor *to = device_output(rows_gradient, by_row(e, window), ARRIVAL_PUT);
    aclTensor *to_probability = device_output_float(probability_gradient, by_expert(e), ARRIVAL_ADD);
    const double began = device_clock();
    CHECK(aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(from, position, row, probability, false, NULL,
                                                           range_of(window), e->topk, to, to_probability, &bytes,
                                                           &executor));
    device_run(OPERATOR_UNPERMUTE_GRAD, aclnnMoeTokenUnpermuteWithEpGrad, bytes, executor, began);
}
