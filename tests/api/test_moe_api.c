/* labels: smoke ci */
/* aclnnMoeTokenUnpermuteWithEpGrad's contract with its caller: every constraint broken alone (status; a text that names
 * the argument, what it got and what it wanted; nothing written), what is accepted though it looks odd, and what the
 * phases may outlive. */
#define _DEFAULT_SOURCE /* setenv */
#include "support/moe_problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "base/memory.h"

/* --- a call whose arguments can be replaced one by one -------------------------------------------------------- */

struct call {
    struct test_tensor grad, indices, permuted, probs, permuted_grad, probs_grad;
    aclIntArray *range, *restore_shape;
    bool padded_mode;
    int64_t topk_num;
    uint64_t workspace_size, *workspace_size_at;
    aclOpExecutor *executor, **executor_at;
};

static aclOpExecutor *const untouched_executor = (aclOpExecutor *)(uintptr_t)0x1234;
enum { UNTOUCHED_SIZE = 777 };

/* Two tokens, two experts each, hidden size 2. */
static struct call make_call(void)
{
    static const double grad[] = {1, 2, 3, 4}, permuted[] = {10, 20, 30, 40, 50, 60, 70, 80};
    static const double probs[] = {.5, .25, 2, 4}, indices[] = {0, 2, 1, 3};
    struct call call = {.topk_num = 2, .workspace_size = UNTOUCHED_SIZE, .executor = untouched_executor};
    call.grad = test_tensor_create(AG_FLOAT, 2, (int64_t[]){2, 2});
    call.indices = test_tensor_create(AG_INT32, 1, (int64_t[]){4});
    call.permuted = test_tensor_create(AG_FLOAT, 2, (int64_t[]){4, 2});
    call.probs = test_tensor_create(AG_FLOAT, 2, (int64_t[]){2, 2});
    call.permuted_grad = test_tensor_create(AG_FLOAT, 2, (int64_t[]){4, 2});
    call.probs_grad = test_tensor_create(AG_FLOAT, 2, (int64_t[]){2, 2});
    moe_test_set(&call.grad, grad);
    moe_test_set(&call.indices, indices);
    moe_test_set(&call.permuted, permuted);
    moe_test_set(&call.probs, probs);
    test_tensor_fill_bytes(&call.permuted_grad, 0xff);
    test_tensor_fill_bytes(&call.probs_grad, 0xff);
    return call;
}

static void destroy_call(struct call *call)
{
    test_tensor_destroy(&call->grad);
    test_tensor_destroy(&call->indices);
    test_tensor_destroy(&call->permuted);
    test_tensor_destroy(&call->probs);
    test_tensor_destroy(&call->permuted_grad);
    test_tensor_destroy(&call->probs_grad);
    aclDestroyIntArray(call->range);
    aclDestroyIntArray(call->restore_shape);
}

static aclnnStatus phase1(struct call *call)
{
    return aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
        call->grad.handle, call->indices.handle, call->permuted.handle, call->probs.handle, call->padded_mode,
        call->restore_shape, call->range, call->topk_num, call->permuted_grad.handle, call->probs_grad.handle,
        call->workspace_size_at, call->executor_at);
}

static aclnnStatus phase2(struct call *call)
{
    struct test_buffer workspace = test_buffer_create(call->workspace_size, 1);
    const aclnnStatus status =
        aclnnMoeTokenUnpermuteWithEpGrad(workspace.data, call->workspace_size, call->executor, NULL);
    test_buffer_destroy(&workspace);
    return status;
}

/* The address of a local call is known only to the caller. */
static void aim(struct call *call)
{
    call->workspace_size_at = &call->workspace_size;
    call->executor_at = &call->executor;
}

static void run_call(struct call *call)
{
    aim(call);
    if (phase1(call) != 0 || phase2(call) != 0) {
        const char *text = ag_error_take();
        fail_msg("refused: %s", text ? text : "without a text");
    }
}

static bool has_bytes(const struct test_tensor *tensor, int byte)
{
    for (int64_t i = 0; tensor->handle && i < test_tensor_elems(tensor); ++i) {
        const unsigned char *elem = test_tensor_at(tensor, i);
        for (size_t b = 0; b < ag_dtype_bytes(tensor->view.dtype); ++b) {
            if (elem[b] != byte) {
                return false;
            }
        }
    }
    return true;
}

static void assert_values(const char *what, const struct test_tensor *tensor, const double *want)
{
    for (int64_t i = 0; i < test_tensor_elems(tensor); ++i) {
        if (test_tensor_get(tensor, i) != want[i]) {
            fail_msg("%s[%d]: got %g, want %g", what, (int)i, test_tensor_get(tensor, i), want[i]);
        }
    }
}

/* --- one constraint broken -------------------------------------------------------------------------------------- */

static void drop(struct test_tensor *tensor)
{
    test_tensor_destroy(tensor);
}

static void replace(struct test_tensor *tensor, int dtype, int rank, const int64_t *dims)
{
    test_tensor_destroy(tensor);
    *tensor = test_tensor_create(dtype, rank, dims);
    test_tensor_fill_bytes(tensor, 0xff);
}

/* The same memory and shape under another format, or a storage of another size. */
static void describe_anew(struct test_tensor *tensor, aclFormat format, int64_t storage_elems)
{
    const struct ag_view *v = &tensor->view;
    assert_int_equal(aclInitTensor(tensor->handle, v->dims, (uint64_t)v->rank, (aclDataType)v->dtype, v->strides,
                                   v->offset, format, &storage_elems, 1, v->data),
                     0);
}

static void replace_strided(struct test_tensor *tensor, int dtype)
{
    int64_t dims[AG_MAX_RANK];
    memcpy(dims, tensor->view.dims, sizeof dims);
    test_tensor_destroy(tensor);
    *tensor = test_tensor_create_strided(dtype, 2, dims, (int64_t[]){dims[1] + 1, 1}, 0);
    test_tensor_fill_bytes(tensor, 0xff);
}

static void set_range(struct call *c, int64_t a, int64_t b, int64_t d, uint64_t count)
{
    aclDestroyIntArray(c->range);
    c->range = aclCreateIntArray((int64_t[]){a, b, d}, count);
}

#define SHAPE(...)                                                                                                   \
    (int64_t[])                                                                                                      \
    {                                                                                                                \
        __VA_ARGS__                                                                                                  \
    }
#define BREAK(name, ...)                                                                                             \
    static void name(struct call *c)                                                                                 \
    {                                                                                                                \
        __VA_ARGS__;                                                                                                 \
    }

BREAK(no_grad, drop(&c->grad))
BREAK(no_indices, drop(&c->indices))
BREAK(no_permuted_grad, drop(&c->permuted_grad))
BREAK(no_probs_grad, drop(&c->probs_grad))
BREAK(no_workspace_size, c->workspace_size_at = NULL)
BREAK(no_executor, c->executor_at = NULL)
BREAK(stale_grad, aclDestroyTensor(c->grad.handle))
BREAK(grad_int32, replace(&c->grad, AG_INT32, 2, SHAPE(2, 2)))
BREAK(grad_double, replace(&c->grad, AG_DOUBLE, 2, SHAPE(2, 2)))
BREAK(indices_int64, replace(&c->indices, AG_INT64, 1, SHAPE(4)))
BREAK(indices_float, replace(&c->indices, AG_FLOAT, 1, SHAPE(4)))
BREAK(out_other_type, replace(&c->permuted_grad, AG_BF16, 2, SHAPE(4, 2)))
BREAK(probs_int8, replace(&c->probs, AG_INT8, 2, SHAPE(2, 2)))
BREAK(probs_grad_other_type, replace(&c->probs_grad, AG_FLOAT16, 2, SHAPE(2, 2)))
BREAK(probs_grad_bool, replace(&c->probs_grad, AG_BOOL, 2, SHAPE(2, 2)))
BREAK(probs_grad_bool_alone, drop(&c->probs); replace(&c->probs_grad, AG_BOOL, 2, SHAPE(2, 2)))
BREAK(permuted_other_type, replace(&c->permuted, AG_FLOAT16, 2, SHAPE(4, 2)))
BREAK(grad_fractal, describe_anew(&c->grad, ACL_FORMAT_FRACTAL_NZ, 4))
BREAK(indices_5hd, describe_anew(&c->indices, ACL_FORMAT_NC1HWC0, 4))
BREAK(out_undefined_format, describe_anew(&c->permuted_grad, ACL_FORMAT_UNDEFINED, 8))
BREAK(probs_small_storage, describe_anew(&c->probs, ACL_FORMAT_ND, 3))
BREAK(out_small_storage, describe_anew(&c->permuted_grad, ACL_FORMAT_ND, 7))
BREAK(no_permuted, drop(&c->permuted))
BREAK(permuted_without_rank, replace(&c->permuted, AG_FLOAT, 1, SHAPE(0)))
BREAK(padded, c->padded_mode = true)
BREAK(out_strided, replace_strided(&c->permuted_grad, AG_FLOAT))
BREAK(probs_grad_strided, replace_strided(&c->probs_grad, AG_FLOAT))
BREAK(grad_rank_3, replace(&c->grad, AG_FLOAT, 3, SHAPE(1, 2, 2)))
BREAK(grad_rank_1, replace(&c->grad, AG_FLOAT, 1, SHAPE(4)))
BREAK(indices_rank_2, replace(&c->indices, AG_INT32, 2, SHAPE(4, 1)))
BREAK(permuted_rank_3, replace(&c->permuted, AG_FLOAT, 3, SHAPE(4, 2, 1)))
BREAK(probs_rank_1, replace(&c->probs, AG_FLOAT, 1, SHAPE(4)))
BREAK(out_rank_1, replace(&c->permuted_grad, AG_FLOAT, 1, SHAPE(8)))
BREAK(out_rank_0, replace(&c->permuted_grad, AG_FLOAT, 0, SHAPE(1)))
BREAK(probs_grad_rank_1, replace(&c->probs_grad, AG_FLOAT, 1, SHAPE(4)))
BREAK(no_tokens, replace(&c->grad, AG_FLOAT, 2, SHAPE(0, 2)))
BREAK(no_hidden, replace(&c->grad, AG_FLOAT, 2, SHAPE(2, 0)))
BREAK(no_slots, replace(&c->indices, AG_INT32, 1, SHAPE(0)))
BREAK(topk_zero, drop(&c->probs); c->topk_num = 0)
BREAK(topk_negative, drop(&c->probs); c->topk_num = -2)
BREAK(topk_513, drop(&c->probs); c->topk_num = 513)
BREAK(topk_smallest, drop(&c->probs); c->topk_num = INT64_MIN)
BREAK(probs_513, replace(&c->probs, AG_FLOAT, 2, SHAPE(2, 513)))
BREAK(indices_too_short, replace(&c->indices, AG_INT32, 1, SHAPE(3)))
BREAK(indices_too_long, replace(&c->indices, AG_INT32, 1, SHAPE(5)))
BREAK(topk_not_of_slots, drop(&c->probs); c->topk_num = 3)
BREAK(probs_other_tokens, replace(&c->probs, AG_FLOAT, 2, SHAPE(3, 2)))
BREAK(probs_of_one_token, replace(&c->probs, AG_FLOAT, 2, SHAPE(1, 4)))
BREAK(probs_of_as_many_slots, replace(&c->probs, AG_FLOAT, 2, SHAPE(4, 1)))
BREAK(probs_grad_other_tokens, replace(&c->probs_grad, AG_FLOAT, 2, SHAPE(3, 2)))
BREAK(probs_grad_other_topk, replace(&c->probs_grad, AG_FLOAT, 2, SHAPE(2, 1)))
BREAK(permuted_other_hidden, replace(&c->permuted, AG_FLOAT, 2, SHAPE(4, 3)))
BREAK(out_other_hidden, replace(&c->permuted_grad, AG_FLOAT, 2, SHAPE(4, 1)))
BREAK(range_one, set_range(c, 0, 0, 0, 1))
BREAK(range_three, set_range(c, 0, 4, 4, 3))
BREAK(range_falls, set_range(c, 3, 1, 0, 2))
BREAK(range_falls_from_end, set_range(c, -1, -3, 0, 2))
BREAK(range_stale, set_range(c, 0, 4, 0, 2); aclDestroyIntArray(c->range))
BREAK(out_too_short, replace(&c->permuted_grad, AG_FLOAT, 2, SHAPE(3, 2)))
BREAK(out_too_short_for_window, set_range(c, 1, 4, 0, 2); replace(&c->permuted_grad, AG_FLOAT, 2, SHAPE(2, 2)))
BREAK(permuted_no_rows, replace(&c->permuted, AG_FLOAT, 2, SHAPE(0, 2)))
BREAK(out_is_grad, aclSetRawTensorAddr(c->permuted_grad.handle, c->grad.view.data))
BREAK(out_is_permuted, aclSetRawTensorAddr(c->permuted_grad.handle, c->permuted.view.data))
BREAK(probs_grad_is_probs, aclSetRawTensorAddr(c->probs_grad.handle, c->probs.view.data))
BREAK(probs_grad_in_out, aclSetRawTensorAddr(c->probs_grad.handle, (float *)c->permuted_grad.view.data + 4))

struct broken {
    const char *name;
    void (*apply)(struct call *);
    aclnnStatus status;
    const char *texts[3]; /* argument, got, wanted */
};

#define ROW(apply, status, ...)                                                                                      \
    {                                                                                                                \
#        apply, apply, status,                                                                                       \
        {                                                                                                            \
            __VA_ARGS__                                                                                              \
        }                                                                                                            \
    }

static const struct broken broken_calls[] = {
    ROW(no_grad, 161001, "unpermutedTokensGrad", "null", "want a tensor"),
    ROW(no_indices, 161001, "sortedIndices", "null", "want a tensor"),
    ROW(no_permuted_grad, 161001, "permutedTokensGradOut", "null", "want a tensor"),
    ROW(no_probs_grad, 161001, "probsGradOut", "null", "want a tensor"),
    ROW(no_workspace_size, 161001, "workspaceSize", "null", "want"),
    ROW(no_executor, 161001, "executor", "null", "want"),
    ROW(stale_grad, 161002, "unpermutedTokensGrad", "destroyed", "want a live tensor"),
    ROW(grad_int32, 161002, "unpermutedTokensGrad", "INT32", "want BF16, FLOAT16 or FLOAT"),
    ROW(grad_double, 161002, "unpermutedTokensGrad", "DOUBLE", "want BF16"),
    ROW(indices_int64, 161002, "sortedIndices", "INT64", "want INT32"),
    ROW(indices_float, 161002, "sortedIndices", "FLOAT", "want INT32"),
    ROW(out_other_type, 161002, "permutedTokensGradOut", "BF16", "want FLOAT (that of unpermutedTokensGrad)"),
    ROW(probs_int8, 161002, "probsOptional", "INT8", "want BF16"),
    ROW(probs_grad_other_type, 161002, "probsGradOut", "FLOAT16", "want FLOAT (that of probsOptional)"),
    ROW(probs_grad_bool, 161002, "probsGradOut", "BOOL", "want BF16"),
    ROW(probs_grad_bool_alone, 161002, "probsGradOut", "BOOL", "want BF16"),
    ROW(permuted_other_type, 561002, "permutedTokensOptional", "FLOAT16", "want FLOAT"),
    ROW(grad_fractal, 161002, "unpermutedTokensGrad", "format ACL_FORMAT_FRACTAL_NZ (29)", "want ND"),
    ROW(indices_5hd, 161002, "sortedIndices", "format ACL_FORMAT_NC1HWC0 (3)", "want ND"),
    ROW(out_undefined_format, 161002, "permutedTokensGradOut", "format ACL_FORMAT_UNDEFINED (-1)", "want ND"),
    ROW(probs_small_storage, 161002, "probsOptional", "0 to 3", "has 3"),
    ROW(out_small_storage, 161002, "permutedTokensGradOut", "0 to 7", "has 7"),
    ROW(no_permuted, 161001, "permutedTokensOptional", "no tensor", "want one"),
    ROW(permuted_without_rank, 161001, "permutedTokensOptional", "no tensor", "want one"),
    ROW(padded, 161002, "paddedMode", "got true", "want false"),
    ROW(out_strided, 161002, "permutedTokensGradOut", "strided", "want a contiguous"),
    ROW(probs_grad_strided, 161002, "probsGradOut", "strided", "want a contiguous"),
    ROW(grad_rank_3, 561002, "unpermutedTokensGrad", "rank 3", "want 2"),
    ROW(grad_rank_1, 561002, "unpermutedTokensGrad", "rank 1", "want 2"),
    ROW(indices_rank_2, 561002, "sortedIndices", "rank 2", "want 1"),
    ROW(permuted_rank_3, 561002, "permutedTokensOptional", "rank 3", "want 2"),
    ROW(probs_rank_1, 561002, "probsOptional", "rank 1", "want 2"),
    ROW(out_rank_1, 561002, "permutedTokensGradOut", "rank 1", "want 2"),
    ROW(out_rank_0, 561002, "permutedTokensGradOut", "rank 0", "want 2"),
    ROW(probs_grad_rank_1, 561002, "probsGradOut", "rank 1", "want 2"),
    ROW(no_tokens, 561002, "unpermutedTokensGrad", "0 tokens", "at least 1"),
    ROW(no_hidden, 561002, "unpermutedTokensGrad", "hidden size 0", "at least 1"),
    ROW(no_slots, 561002, "sortedIndices", "0 entries", "2 * 2"),
    ROW(topk_zero, 561002, "topkNum", "got 0", "1 to 512"),
    ROW(topk_negative, 561002, "topkNum", "got -2", "1 to 512"),
    ROW(topk_513, 561002, "topkNum", "got 513", "1 to 512"),
    ROW(topk_smallest, 561002, "topkNum", "got -9223372036854775808", "1 to 512"),
    ROW(probs_513, 561002, "probsOptional", "got 513", "1 to 512"),
    ROW(indices_too_short, 561002, "sortedIndices", "got 3", "2 * 2"),
    ROW(indices_too_long, 561002, "sortedIndices", "got 5", "2 * 2"),
    ROW(topk_not_of_slots, 561002, "sortedIndices", "got 4", "2 * 3"),
    ROW(probs_other_tokens, 561002, "probsOptional", "[3, 2]", "want [2, 2]"),
    ROW(probs_of_one_token, 561002, "probsOptional", "[1, 4]", "want [2, 4]"),
    ROW(probs_of_as_many_slots, 561002, "probsOptional", "[4, 1]", "want [2, 1]"),
    ROW(probs_grad_other_tokens, 561002, "probsGradOut", "[3, 2]", "want [2, 2]"),
    ROW(probs_grad_other_topk, 561002, "probsGradOut", "[2, 1]", "want [2, 2]"),
    ROW(permuted_other_hidden, 561002, "permutedTokensOptional", "hidden size 3", "want 2"),
    ROW(out_other_hidden, 561002, "permutedTokensGradOut", "hidden size 1", "want 2"),
    ROW(range_one, 561002, "rangeOptional", "got 1 values", "want 2"),
    ROW(range_three, 561002, "rangeOptional", "got 3 values", "want 2"),
    ROW(range_falls, 561002, "rangeOptional", "got [3, 1)", "end not before the start"),
    ROW(range_falls_from_end, 561002, "rangeOptional", "[3, 1) of 4", "end not before the start"),
    ROW(range_stale, 161002, "rangeOptional", "destroyed", "want a live"),
    ROW(out_too_short, 561002, "permutedTokensGradOut", "got 3 rows", "at least 4"),
    ROW(out_too_short_for_window, 561002, "permutedTokensGradOut", "got 2 rows", "at least 3"),
    ROW(permuted_no_rows, 561002, "permutedTokensOptional", "got 0 rows", "at most 4"),
    ROW(out_is_grad, 161002, "permutedTokensGradOut", "overlaps unpermutedTokensGrad", "want memory of its own"),
    ROW(out_is_permuted, 161002, "permutedTokensGradOut", "overlaps permutedTokensOptional", "its own"),
    ROW(probs_grad_is_probs, 161002, "probsGradOut", "overlaps probsOptional", "its own"),
    ROW(probs_grad_in_out, 161002, "probsGradOut", "overlaps permutedTokensGradOut", "its own"),
};
enum { BROKEN_CALLS = sizeof broken_calls / sizeof *broken_calls };

/* Cases 95 and 97: the code, and a text with function, argument, got and wanted; nothing written, nothing made. */
static void is_refused(void **state)
{
    const struct broken *row = *state;
    const int64_t live = ag_alloc_live();
    struct call call = make_call();
    aim(&call);
    row->apply(&call);
    ag_error_clear();
    const aclnnStatus status = phase1(&call);
    if (status != row->status) {
        fail_msg("status %d, want %d: %s", (int)status, (int)row->status, ag_error_take());
    }
    test_assert_message("aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize: ", row->texts[0], row->texts[1],
                        row->texts[2], NULL);
    assert_null(aclGetRecentErrMsg()); /* read once, then gone */
    assert_int_equal(call.workspace_size, UNTOUCHED_SIZE);
    assert_ptr_equal(call.executor, untouched_executor);
    assert_true(has_bytes(&call.permuted_grad, 0xff) && has_bytes(&call.probs_grad, 0xff));
    destroy_call(&call);
    assert_int_equal(ag_alloc_live(), live);
}

/* Several constraints broken: the one that comes first in the contract is told. */
static void the_first_broken_rule_is_told(void **state)
{
    static const int order[] = {0,  4,  7,  17, 22,
                                24, 25, 27, 38}; /* rows of broken_calls, ascending in the contract */
    (void)state;
    for (size_t i = 0; i + 1 < sizeof order / sizeof *order; ++i) {
        const struct broken *first = &broken_calls[order[i]], *second = &broken_calls[order[i + 1]];
        struct call call = make_call();
        aim(&call);
        second->apply(&call);
        first->apply(&call);
        assert_int_equal(phase1(&call), first->status);
        test_assert_message(first->texts[0], first->texts[1], NULL);
        destroy_call(&call);
    }
}

/* --- accepted ------------------------------------------------------------------------------------------------------- */

static const double whole_permuted_grad[] = {.5, 1, 6, 8, .25, .5, 12, 16};
static const double whole_probs_grad[] = {50, 170, 250, 530};

static void assert_whole_answer(const struct call *call)
{
    assert_values("permutedTokensGradOut", &call->permuted_grad, whole_permuted_grad);
    assert_values("probsGradOut", &call->probs_grad, whole_probs_grad);
}

/* Case 79: restoreShape null, empty or anything; a range of no values is no range. */
static void ignored_arguments_are_ignored(void **state)
{
    (void)state;
    for (uint64_t values = 0; values < 4; ++values) {
        for (int64_t topk = -1; topk < 3; ++topk) { /* with probs topkNum does not count */
            struct call call = make_call();
            call.restore_shape = values < 3 ? aclCreateIntArray((int64_t[]){-7, 9, 0}, values) : NULL;
            call.topk_num = topk;
            if (values == 1) {
                set_range(&call, 0, 0, 0, 0);
            }
            run_call(&call);
            assert_whole_answer(&call);
            destroy_call(&call);
        }
    }
}

/* Case 79 and the contract: without probs, probsGradOut only has to be there. */
static void probs_grad_is_not_touched_without_probs(void **state)
{
    static const int64_t shapes[][2] = {{2, 2}, {0, 0}, {7, 1}};
    static const double want[] = {1, 2, 3, 4, 1, 2, 3, 4};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        struct call call = make_call();
        drop(&call.probs);
        replace(&call.probs_grad, AG_BF16, 2, shapes[i]);
        run_call(&call);
        assert_values("permutedTokensGradOut", &call.permuted_grad, want);
        assert_true(has_bytes(&call.probs_grad, 0xff));
        destroy_call(&call);
    }
    struct call call = make_call(); /* even the same memory as the other output is fine then */
    drop(&call.probs);
    aclSetRawTensorAddr(call.probs_grad.handle, call.permuted_grad.view.data);
    run_call(&call);
    assert_values("permutedTokensGradOut", &call.permuted_grad, want);
    destroy_call(&call);
}

/* Case 100: an optional tensor without elements is no tensor. */
static void optional_tensors_without_elements_are_absent(void **state)
{
    static const double want[] = {1, 2, 3, 4, 1, 2, 3, 4};
    (void)state;
    struct call call = make_call();
    replace(&call.probs, AG_FLOAT, 2, SHAPE(2, 0));
    replace(&call.permuted, AG_FLOAT, 2, SHAPE(0, 2));
    run_call(&call);
    assert_values("permutedTokensGradOut", &call.permuted_grad, want);
    destroy_call(&call);
}

static void row_major_formats_are_plain(void **state)
{
    static const aclFormat formats[] = {ACL_FORMAT_ND, ACL_FORMAT_NCHW, ACL_FORMAT_NHWC, ACL_FORMAT_NCL,
                                        ACL_FORMAT_NCDHW};
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i) {
        struct call call = make_call();
        describe_anew(&call.grad, formats[i], 4);
        describe_anew(&call.indices, formats[i], 4);
        describe_anew(&call.permuted_grad, formats[i], 8);
        run_call(&call);
        assert_whole_answer(&call);
        destroy_call(&call);
    }
}

/* Both outputs without elements: success at once, whatever the rest is. */
static void empty_outputs_are_a_success(void **state)
{
    (void)state;
    struct call call = make_call();
    replace(&call.permuted_grad, AG_FLOAT, 2, SHAPE(0, 9));
    replace(&call.probs_grad, AG_FLOAT, 2, SHAPE(0, 2));
    replace(&call.grad, AG_FLOAT, 2, SHAPE(0, 2));
    aim(&call);
    assert_int_equal(phase1(&call), 0);
    assert_int_equal(call.workspace_size, 0);
    assert_int_equal(aclnnMoeTokenUnpermuteWithEpGrad(NULL, 0, call.executor, NULL), 0);
    destroy_call(&call);
}

/* More slots than positions have numbers: described with stride 0, so that no memory is behind them. */
static void more_slots_than_int32_counts_are_refused(void **state)
{
    const int64_t slots = (int64_t)1 << 31, no_stride[2] = {0, 0};
    (void)state;
    struct call call = make_call();
    drop(&call.probs);
    drop(&call.permuted);
    call.topk_num = 1;
    aclTensor *const handles[] = {call.grad.handle, call.indices.handle};
    call.grad.handle = aclCreateTensor((int64_t[]){slots, 2}, 2, ACL_FLOAT, no_stride, 0, ACL_FORMAT_ND, NULL, 0,
                                       call.grad.view.data);
    call.indices.handle =
        aclCreateTensor(&slots, 1, ACL_INT32, no_stride, 0, ACL_FORMAT_ND, NULL, 0, call.indices.view.data);
    aim(&call);
    assert_int_equal(phase1(&call), 561002);
    test_assert_message("sortedIndices", "got 2147483648", "at most 2147483647", NULL);
    aclDestroyTensor(handles[0]);
    aclDestroyTensor(handles[1]);
    destroy_call(&call);
}

static void extended_limits_lift_topk(void **state)
{
    struct test_random random = test_random_seed(3);
    const struct moe_shape shape = moe_shape_of(AG_FLOAT16, AG_FLOAT, 2, 700, 9);
    const struct ag_config config = ag_config_get();
    uint64_t workspace_size;
    aclOpExecutor *executor;
    (void)state;
    struct moe_test test = moe_test_create(&shape, &random);
    assert_int_equal(moe_test_phase1(&test, &workspace_size, &executor), 561002);
    test_assert_message("probsOptional", "got 700", "want 1 to 512", NULL);
    test_configure(config.threads, config.isa, AG_LIMITS_EXTENDED);
    moe_test_check(&test);
    test_configure(config.threads, config.isa, AG_LIMITS_DOCUMENTED);
    moe_test_destroy(&test);
}

/* --- the environment -------------------------------------------------------------------------------------------- */

static void bad_variables_are_refused(void **state)
{
    (void)state;
    struct call call = make_call();
    aim(&call);
    setenv("ACLGRAD_LIMITS", "none", 1);
    ag_config_reload();
    assert_int_equal(phase1(&call), 161002);
    test_assert_message("ACLGRAD_LIMITS", "\"none\"", "want documented or extended", NULL);
    assert_ptr_equal(call.executor, untouched_executor);
    unsetenv("ACLGRAD_LIMITS");
    ag_config_reload();
    destroy_call(&call);
}

/* What a run with these positions says on stderr under ACLGRAD_DEBUG=1; the text stays until the next call. */
static const char *debug_text(const double *indices)
{
    static char text[512];
    struct call call = make_call();
    moe_test_set(&call.indices, indices);
    setenv("ACLGRAD_DEBUG", "1", 1);
    ag_config_reload();
    aim(&call);
    const struct test_stderr kept = test_stderr_begin();
    aclrtSetDevice(0); /* a context is asked for in this mode */
    const aclnnStatus first = phase1(&call), second = first ? first : phase2(&call);
    aclrtResetDevice(0);
    test_stderr_end(kept, text, sizeof text);
    unsetenv("ACLGRAD_DEBUG");
    ag_config_reload();
    assert_int_equal(second, 0);
    destroy_call(&call);
    return text;
}

static void debug_mode_tells_odd_positions(void **state)
{
    (void)state;
    assert_string_equal(debug_text((const double[]){0, 2, 1, 3}), "");
    assert_string_equal(debug_text((const double[]){0, -2, 1, -1}), ""); /* not here */
    const char *text = debug_text((const double[]){0, 2, 4, 3});
    assert_non_null(strstr(text, "first bad position is 4 at slot 2, want less than 4"));
    text = debug_text((const double[]){0, 1, 3, 1});
    assert_non_null(strstr(text, "slots 1 and 3 both have position 1"));
}

/* --- the phases --------------------------------------------------------------------------------------------------------- */

/* Case 106: range, restoreShape and the descriptors may be gone before phase 2. */
static void phase_2_needs_no_descriptor(void **state)
{
    static const double permuted_grad[] = {.5, 1, 6, 8, .25, .5, 12, 16};
    (void)state;
    struct call call = make_call();
    const int64_t range[] = {0, 3};
    call.range = aclCreateIntArray(range, 2);
    aim(&call);
    assert_int_equal(phase1(&call), 0);
    aclDestroyIntArray(call.range);
    aclDestroyTensor(call.grad.handle);
    aclDestroyTensor(call.probs.handle);
    aclDestroyTensor(call.permuted_grad.handle);
    call.range = NULL;
    assert_int_equal(phase2(&call), 0);
    for (int i = 0; i < 6; ++i) {
        assert_true(test_tensor_get(&call.permuted_grad, i) == permuted_grad[i]);
    }
    assert_true(test_tensor_get(&call.permuted_grad, 6) == 0 && test_tensor_get(&call.probs_grad, 3) == 0);
    destroy_call(&call);
}

static void phase_2_checks_its_arguments(void **state)
{
    (void)state;
    char workspace[4096];
    struct call call = make_call();
    aim(&call);
    assert_int_equal(aclnnMoeTokenUnpermuteWithEpGrad(workspace, sizeof workspace, NULL, NULL), 161001);
    test_assert_message("aclnnMoeTokenUnpermuteWithEpGrad: executor", NULL);
    assert_int_equal(phase1(&call), 0);
    assert_in_range(call.workspace_size, 1, sizeof workspace);
    assert_int_equal(aclnnMoeTokenUnpermuteWithEpGrad(NULL, call.workspace_size, call.executor, NULL), 161001);
    test_assert_message("workspace", "null", NULL);
    assert_int_equal(phase1(&call), 0); /* the failed phase 2 has used the first one up */
    assert_int_equal(aclnnMoeTokenUnpermuteWithEpGrad(workspace, call.workspace_size - 1, call.executor, NULL),
                     161002);
    test_assert_message("workspaceSize", "want at least", NULL);
    assert_true(has_bytes(&call.permuted_grad, 0xff) && has_bytes(&call.probs_grad, 0xff));
    destroy_call(&call);
}

/* A repeatable executor follows its tensors to other addresses; an overlap that arises so is refused before anything
 * is written. */
static void repeatable_executors_follow_addresses(void **state)
{
    (void)state;
    struct call call = make_call(), other = make_call();
    char workspace[4096];
    aim(&call);
    assert_int_equal(phase1(&call), 0);
    assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
    assert_int_equal(aclnnMoeTokenUnpermuteWithEpGrad(workspace, sizeof workspace, call.executor, NULL), 0);
    assert_whole_answer(&call);
    aclSetOutputTensorAddr(call.executor, 0, call.permuted_grad.handle, other.permuted_grad.view.data);
    aclSetOutputTensorAddr(call.executor, 1, call.probs_grad.handle, other.probs_grad.view.data);
    assert_int_equal(aclnnMoeTokenUnpermuteWithEpGrad(workspace, sizeof workspace, call.executor, NULL), 0);
    assert_whole_answer(&other);
    test_tensor_fill_bytes(&other.permuted_grad, 0xff);
    aclSetInputTensorAddr(call.executor, 2, call.permuted.handle, other.permuted_grad.view.data);
    assert_int_equal(aclnnMoeTokenUnpermuteWithEpGrad(workspace, sizeof workspace, call.executor, NULL), 161002);
    test_assert_message("permutedTokensGradOut", "overlaps permutedTokensOptional", NULL);
    assert_true(has_bytes(&other.permuted_grad, 0xff));
    assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
    destroy_call(&call);
    destroy_call(&other);
}

/* Cases 101 and 102: nothing is left behind, and the workspace of a shape is always the same. */
static void calls_leave_nothing_behind(void **state)
{
    (void)state;
    char workspace[4096];
    uint64_t first_size = 0;
    struct call call = make_call();
    aim(&call);
    const int64_t live = ag_alloc_live();
    for (int i = 0; i < 10000; ++i) {
        assert_int_equal(phase1(&call), 0);
        first_size = i ? first_size : call.workspace_size;
        assert_int_equal(call.workspace_size, first_size);
        assert_int_equal(aclnnMoeTokenUnpermuteWithEpGrad(workspace, sizeof workspace, call.executor, NULL), 0);
    }
    assert_int_equal(ag_alloc_live(), live);
    destroy_call(&call);
}

/* An allocation that fails is an error; nothing is leaked or written. */
static void failing_allocations_are_reported(void **state)
{
    (void)state;
    struct call call = make_call();
    aim(&call);
    const int64_t live = ag_alloc_live();
    ag_alloc_fail_at(1);
    assert_int_equal(phase1(&call), 561101);
    assert_true(ag_alloc_has_failed());
    ag_alloc_fail_at(0);
    assert_int_equal(ag_alloc_live(), live);
    assert_ptr_equal(call.executor, untouched_executor);
    assert_int_equal(call.workspace_size, UNTOUCHED_SIZE);
    destroy_call(&call);
}

/* The first call makes tables that stay. */
static int warm_up(void **state)
{
    (void)state;
    struct call call = make_call();
    run_call(&call);
    destroy_call(&call);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(the_first_broken_rule_is_told),
        cmocka_unit_test(ignored_arguments_are_ignored),
        cmocka_unit_test(probs_grad_is_not_touched_without_probs),
        cmocka_unit_test(optional_tensors_without_elements_are_absent),
        cmocka_unit_test(row_major_formats_are_plain),
        cmocka_unit_test(empty_outputs_are_a_success),
        cmocka_unit_test(more_slots_than_int32_counts_are_refused),
        cmocka_unit_test(extended_limits_lift_topk),
        cmocka_unit_test(bad_variables_are_refused),
        cmocka_unit_test(debug_mode_tells_odd_positions),
        cmocka_unit_test(phase_2_needs_no_descriptor),
        cmocka_unit_test(phase_2_checks_its_arguments),
        cmocka_unit_test(repeatable_executors_follow_addresses),
        cmocka_unit_test(calls_leave_nothing_behind),
        cmocka_unit_test(failing_allocations_are_reported),
    };
    enum { OTHERS = sizeof others / sizeof *others };
    struct CMUnitTest tests[BROKEN_CALLS + OTHERS];
    for (int i = 0; i < BROKEN_CALLS; ++i) {
        tests[i] = (struct CMUnitTest){.name = broken_calls[i].name,
                                       .test_func = is_refused,
                                       .initial_state = (void *)(uintptr_t)&broken_calls[i]};
    }
    memcpy(tests + BROKEN_CALLS, others, sizeof others);
    return cmocka_run_group_tests_name("moe api", tests, warm_up, NULL);
}
