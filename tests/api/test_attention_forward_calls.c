/* labels: smoke ci */
/* The forward's two phases as a program meets them: what may be freed between them, misuse, failed allocations, repeatable
 * executors, calls of nothing, and one version's executor with another's phase 2. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "base/memory.h"
#include "support/attention_problem.h"

static const struct attention_case rope_case = {.dtype = AG_BF16,
                                                .n1 = 4,
                                                .n2 = 2,
                                                .d = 16,
                                                .dr = 8,
                                                .dv = 8,
                                                .q_ends = {30, 70},
                                                .kv_ends = {50, 90},
                                                .mode = 3,
                                                .mask_shape = TEST_MASK_COMPRESSED};
static const struct attention_case sink_case = {
    .dtype = AG_FLOAT, .n1 = 4, .d = 8, .q_ends = {30, 70}, .has_sink = true};

static void *workspace_of(const struct attention_call *call)
{
    void *workspace = malloc((size_t)call->workspace_size + 1);
    assert_non_null(workspace);
    return workspace;
}

static aclnnStatus phase2(const struct attention_call *call, void *workspace)
{
    return aclnnFlashAttentionVarLenScoreV3(workspace, call->workspace_size, call->executor, NULL);
}

/* --- between the phases ---------------------------------------------------------------------------------- */

/* The strings, the lists and all tensors are gone before phase 2; only memory stays. */
static void arguments_may_die_between_the_phases(void **state)
{
    struct attention_call kept, gone;
    char layout[] = "TND", order[] = "same_as_input";
    (void)state;
    attention_call_create(&kept, &sink_case);
    attention_call_create(&gone, &sink_case);
    kept.args.softmax_layout = order;
    attention_forward_run(&kept);
    gone.args.input_layout = layout;
    gone.args.softmax_layout = order;
    assert_int_equal(attention_forward_phase1(&gone), 0);
    memset(layout, 'X', sizeof layout);
    memset(order, 'X', sizeof order);
    struct test_tensor *const tensors[] = {&gone.q, &gone.k, &gone.v, &gone.sink, &gone.max, &gone.sum, &gone.out};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i) {
        aclDestroyTensor(tensors[i]->handle);
    }
    aclDestroyIntArray(gone.q_list);
    aclDestroyIntArray(gone.kv_list);
    gone.q_list = gone.kv_list = NULL;
    void *workspace = workspace_of(&gone);
    assert_int_equal(aclnnFlashAttentionVarLenScoreV5(workspace, gone.workspace_size, gone.executor, NULL), 0);
    free(workspace);
    attention_forward_assert_same(&kept, &gone);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i) {
        tensors[i]->handle = NULL;
        test_buffer_destroy(&tensors[i]->buffer);
    }
    attention_call_destroy(&kept);
    attention_call_destroy(&gone);
}

/* The same executor over another call's memory gives the other call's bits. */
static void a_repeatable_executor_moves(void **state)
{
    struct attention_case other_case = rope_case;
    struct attention_call call, other, want;
    (void)state;
    other_case.seed = 99;
    attention_call_create(&call, &rope_case);
    attention_call_create(&other, &other_case);
    attention_call_create(&want, &other_case);
    attention_forward_run(&want);
    assert_int_equal(attention_forward_phase1(&call), 0);
    assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
    void *workspace = workspace_of(&call);
    assert_int_equal(phase2(&call, workspace), 0);
    const struct {
        size_t index;
        const struct test_tensor *tensor;
    } inputs[] = {{0, &other.q}, {1, &other.qr}, {2, &other.k}, {3, &other.kr}, {4, &other.v}},
      outputs[] = {{0, &other.max}, {1, &other.sum}, {3, &other.out}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; ++i) {
        assert_int_equal(aclSetInputTensorAddr(call.executor, inputs[i].index, inputs[i].tensor->handle,
                                               inputs[i].tensor->buffer.data),
                         0);
    }
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; ++i) {
        assert_int_equal(aclSetOutputTensorAddr(call.executor, outputs[i].index, outputs[i].tensor->handle,
                                                outputs[i].tensor->buffer.data),
                         0);
    }
    assert_int_equal(phase2(&call, workspace), 0);
    attention_forward_assert_same(&want, &other);
    /* An output moved onto an input after the workspace was measured without room for that: refused, not wrong. */
    assert_int_equal(aclSetOutputTensorAddr(call.executor, 3, other.out.handle, other.v.buffer.data), 0);
    assert_int_equal(phase2(&call, workspace), 361001);
    test_assert_message("shares memory", NULL);
    assert_int_equal(aclSetOutputTensorAddr(call.executor, 3, other.out.handle, other.max.buffer.data), 0);
    assert_int_equal(phase2(&call, workspace), 161002);
    test_assert_message("attentionOutOut: shares memory with softmaxMaxOut", NULL);
    free(workspace);
    assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
    attention_call_destroy(&call);
    attention_call_destroy(&other);
    attention_call_destroy(&want);
}

/* One buffer for two outputs is refused, whatever the strides. */
static void outputs_over_each_other(void **state)
{
    static const enum test_views views[] = {TEST_VIEWS_DENSE, TEST_VIEWS_PADDED, TEST_VIEWS_TRANSPOSED,
                                            TEST_VIEWS_SPREAD};
    (void)state;
    for (size_t i = 0; i < sizeof views / sizeof *views; ++i) {
        struct attention_case c = rope_case;
        struct attention_call call;
        c.views = views[i];
        attention_call_create(&call, &c);
        const aclTensor *const sum = call.args.softmax_sum;
        call.args.softmax_sum = call.args.softmax_max;
        assert_int_equal(attention_forward_phase1(&call), 161002);
        test_assert_message("softmaxSumOut: shares memory with softmaxMaxOut", NULL);
        call.args.softmax_sum = sum;
        attention_call_destroy(&call);
    }
}

/* --- misuse ---------------------------------------------------------------------------------------------- */

static void misuse_of_phase_2(void **state)
{
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &rope_case);
    test_tensor_fill_bytes(&call.out, 0xff);
    assert_int_equal(aclnnFlashAttentionVarLenScoreV3(NULL, 0, NULL, NULL), 161001);
    test_assert_message("executor", NULL);
    assert_int_equal(attention_forward_phase1(&call), 0);
    assert_int_equal(phase2(&call, NULL), 161001);
    test_assert_message("workspace", NULL);
    assert_int_equal(attention_forward_phase1(&call), 0);
    void *workspace = workspace_of(&call);
    assert_int_equal(aclnnFlashAttentionVarLenScoreV4(workspace, call.workspace_size, call.executor, NULL), 161002);
    test_assert_message("aclnnFlashAttentionVarLenScoreV3", NULL); /* whose it is */
    assert_true(isnan(test_tensor_get(&call.out, 0)));
    free(workspace);
    attention_call_destroy(&call);
}

/* Every allocation of phase 1 fails in its turn. */
static void out_of_memory(void **state)
{
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &rope_case);
    bool has_failed = true;
    for (int64_t nth = 1; has_failed; ++nth) {
        const int64_t live = ag_alloc_live();
        ag_alloc_fail_at(nth);
        const aclnnStatus status = attention_forward_phase1(&call);
        has_failed = ag_alloc_has_failed();
        ag_alloc_fail_at(0);
        if (has_failed) {
            assert_int_equal(status, 561101);
            assert_non_null(ag_error_take());
            assert_int_equal(ag_alloc_live(), live);
        } else {
            assert_int_equal(status, 0);
            assert_true(nth > 2);
            assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
        }
    }
    attention_call_destroy(&call);
}

/* --- nothing to do --------------------------------------------------------------------------------------- */

static aclTensor *empty_tensor(int dtype, int64_t last)
{
    static char memory[8];
    const int64_t dims[3] = {0, 4, last};
    return aclCreateTensor(dims, 3, (aclDataType)dtype, NULL, 0, ACL_FORMAT_ND, dims, 3, memory);
}

/* Outputs without elements: a success of workspace 0, whatever else is wrong. */
static void nothing_to_do(void **state)
{
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &rope_case);
    aclTensor *const max = empty_tensor(AG_FLOAT, 8), *const sum = empty_tensor(AG_FLOAT, 8);
    aclTensor *const out = empty_tensor(AG_BF16, 8);
    call.args.softmax_max = max;
    call.args.softmax_sum = sum;
    call.args.attention_in = out;
    call.args.head_num = 0;
    assert_int_equal(attention_forward_phase1(&call), 0);
    assert_int_equal(call.workspace_size, 0);
    assert_int_equal(phase2(&call, NULL), 0);
    aclDestroyTensor(max);
    aclDestroyTensor(sum);
    aclDestroyTensor(out);
    attention_call_destroy(&call);
}

/* No key at all: zeros everywhere. */
static void no_keys(void **state)
{
    struct attention_call call;
    const struct attention_case c = {.dtype = AG_FLOAT, .n1 = 4, .n2 = 1, .d = 8, .q_ends = {30, 70}, .version = 4};
    (void)state;
    attention_call_create(&call, &c);
    const int64_t dims[3] = {0, 1, 8}, ends[2] = {0, 0};
    char memory[8];
    aclTensor *const keys = aclCreateTensor(dims, 3, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 3, memory);
    aclIntArray *const list = aclCreateIntArray(ends, 2);
    call.args.key = call.args.value = keys;
    call.args.actual_seq_kv = list;
    attention_forward_run(&call);
    for (int64_t at = 0; at < 70 * 4 * 8; ++at) {
        assert_true(test_tensor_get(&call.out, at) == 0 && test_tensor_get(&call.max, at) == 0 &&
                    test_tensor_get(&call.sum, at) == 0);
    }
    aclDestroyTensor(keys);
    aclDestroyIntArray(list);
    attention_call_destroy(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_may_die_between_the_phases),
        cmocka_unit_test(a_repeatable_executor_moves),
        cmocka_unit_test(outputs_over_each_other),
        cmocka_unit_test(misuse_of_phase_2),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(nothing_to_do),
        cmocka_unit_test(no_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
