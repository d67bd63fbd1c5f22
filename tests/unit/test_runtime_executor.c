/* labels: smoke ci threads */
/* Executors with an operator of our own: y = 2 x, with a table, a workspace, and a failure on demand. */
#define _DEFAULT_SOURCE
#include "support/refused.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "base/memory.h"
#include "runtime/executor.h"
#include "runtime/handle.h"
#include "runtime/stream.h"
#include "runtime/tensor.h"
#include "support/gate.h"

/* --- the operator --------------------------------------------------------------------------------------- */

enum { FACTORS = 3 };

struct plan {
    struct ag_view x, unused, y; /* inputs, then the output */
    const int64_t *factors;      /* the caller's until adopt, then in the tables */
    bool fails;
};

static const struct ag_operand operands[] = {
    {"x", offsetof(struct plan, x)}, {"unused", offsetof(struct plan, unused)}, {"y", offsetof(struct plan, y)}};

static int runs;

static void adopt(void *plan_pointer, void *tables)
{
    struct plan *plan = plan_pointer;
    assert_int_equal((uintptr_t)tables % 64, 0);
    memcpy(tables, plan->factors, FACTORS * sizeof *plan->factors);
    plan->factors = tables;
}

static ag_status run(const void *plan_pointer, void *workspace)
{
    const struct plan *plan = plan_pointer;
    const float *x = ag_view_origin(&plan->x);
    float *y = ag_view_origin(&plan->y);
    ++runs;
    if (plan->fails) {
        return ag_fail(AG_INVALID, "x: a value is wrong");
    }
    memset(workspace, 0x11, 100);
    for (int64_t i = 0; i < plan->x.dims[0]; ++i) {
        y[i] = x[i] * (float)plan->factors[2];
    }
    return AG_OK;
}

static void describe(const void *plan, char *text, size_t bytes)
{
    (void)plan;
    memcpy(text, "kernel=double", bytes < 14 ? bytes : 14);
}

static const struct ag_operator doubling = {.name = "aclnnDouble",
                                            .plan_bytes = sizeof(struct plan),
                                            .operands = operands,
                                            .inputs = 2,
                                            .outputs = 1,
                                            .adopt = adopt,
                                            .run = run,
                                            .describe = describe};
static const struct ag_operator other = {.name = "aclnnOther", .run = run};

/* --- one call ------------------------------------------------------------------------------------------- */

static float input[4] = {1, 2, 3, 4}, output[4];
static char workspace[100];
static aclTensor *any_tensor;

static struct ag_view view_of(void *memory)
{
    return (struct ag_view){
        .data = memory, .rank = 1, .dims = {4}, .strides = {1}, .storage_elems = -1, .present = true};
}

static aclOpExecutor *phase1(bool fails)
{
    const int64_t factors[FACTORS] = {0, 0, 2}; /* gone before phase 2 */
    const struct plan plan = {.x = view_of(input), .y = view_of(output), .factors = factors, .fails = fails};
    uint64_t workspace_size = 0;
    aclOpExecutor *executor = NULL;
    DONE(ag_executor_create(&doubling, &plan, sizeof factors, sizeof workspace, &workspace_size, &executor));
    assert_int_equal(workspace_size, sizeof workspace);
    return executor;
}

static ag_status phase2(aclOpExecutor *executor)
{
    ag_error_enter("aclnnDouble");
    return ag_executor_run(&doubling, workspace, sizeof workspace, executor, NULL);
}

static void assert_output(const float *y, float factor)
{
    for (int i = 0; i < 4; ++i) {
        assert_true(y[i] == factor * input[i]);
    }
}

static int setup(void **state)
{
    (void)state;
    test_set_mode(false, false);
    memset(output, 0, sizeof output);
    runs = 0;
    any_tensor = aclCreateTensor((int64_t[]){4}, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, output);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    aclDestroyTensor(any_tensor);
    test_set_mode(false, false);
    aclFinalize();
    assert_int_equal(ag_handle_count(AG_HANDLE_EXECUTOR), 0);
    return 0;
}

/* --- once ----------------------------------------------------------------------------------------------- */

static void two_phases(void **state)
{
    (void)state;
    const int64_t blocks = ag_alloc_live();
    DONE(phase2(phase1(false)));
    assert_output(output, 2);
    assert_int_equal(ag_alloc_live(), blocks);
}

static void second_phase2_is_an_error(void **state)
{
    (void)state;
    aclOpExecutor *executor = phase1(false);
    DONE(phase2(executor));
    REFUSED(161002, phase2(executor), "aclnnDouble: executor: got an executor that is used up or destroyed");
    assert_int_equal(runs, 1);
}

static void wrong_executors(void **state)
{
    (void)state;
    REFUSED(161001, phase2(NULL), "executor: null");
    REFUSED(161002, phase2((aclOpExecutor *)any_tensor), "executor: got a live tensor, want a live executor");
    REFUSED(161002, phase2((aclOpExecutor *)output), "executor: got a pointer that is no handle");
    REFUSED(161002, ag_executor_run(&other, workspace, 100, phase1(false), NULL),
            "executor: made by aclnnDoubleGetWorkspaceSize");
    assert_int_equal(runs, 0);
}

/* Whatever is wrong in phase 2, the executor is consumed and nothing runs. */
static void workspace_and_stream_are_checked_and_the_executor_consumed(void **state)
{
    (void)state;
    aclOpExecutor *executor = phase1(false);
    REFUSED(161001, ag_executor_run(&doubling, NULL, 100, executor, NULL), "workspace: null, want 100 bytes");
    REFUSED(161002, phase2(executor), "used up");
    REFUSED(161002, ag_executor_run(&doubling, workspace, 99, phase1(false), NULL),
            "workspaceSize: got 99, want at least 100");
    REFUSED(107017, ag_executor_run(&doubling, workspace, 100, phase1(false), (aclrtStream)&executor),
            "stream: got a pointer that is no handle");
    assert_int_equal(runs, 0);
    assert_int_equal(ag_handle_count(AG_HANDLE_EXECUTOR), 0);
}

static void missing_memory_is_told_by_name(void **state)
{
    (void)state;
    const int64_t factors[FACTORS] = {0};
    struct plan plan = {.x = view_of(input), .y = view_of(NULL), .factors = factors};
    uint64_t size;
    aclOpExecutor *executor;
    DONE(ag_executor_create(&doubling, &plan, sizeof factors, 0, &size, &executor));
    REFUSED(161001, ag_executor_run(&doubling, NULL, 0, executor, NULL), "y: its memory is null");
}

static void a_failed_run_keeps_its_message(void **state)
{
    (void)state;
    REFUSED(161002, phase2(phase1(true)), "aclnnDouble: x: a value is wrong");
    assert_int_equal(runs, 1);
}

/* Must run first: the table takes memory with its first handle. */
static void no_memory_for_the_handle(void **state)
{
    (void)state;
    const int64_t factors[FACTORS] = {0}, blocks = ag_alloc_live();
    const struct plan plan = {.x = view_of(input), .y = view_of(output), .factors = factors};
    uint64_t size;
    aclOpExecutor *executor;
    ag_alloc_fail_at(2);
    REFUSED(561101, ag_executor_create(&doubling, &plan, 24, 1, &size, &executor), "executor: out of memory");
    assert_true(ag_alloc_has_failed());
    assert_int_equal(ag_alloc_live(), blocks);
}

static void out_of_memory_in_phase1_leaves_nothing(void **state)
{
    (void)state;
    const int64_t factors[FACTORS] = {0}, blocks = ag_alloc_live();
    const struct plan plan = {.x = view_of(input), .y = view_of(output), .factors = factors};
    uint64_t size = 7;
    aclOpExecutor *executor = (aclOpExecutor *)workspace;
    ag_error_enter("aclnnDoubleGetWorkspaceSize");
    ag_alloc_fail_at(1);
    REFUSED(561101, ag_executor_create(&doubling, &plan, 24, 1, &size, &executor), "executor: out of memory");
    REFUSED(561101, ag_executor_create(&doubling, &plan, UINT64_MAX - 8, 1, &size, &executor), "out of memory");
    assert_int_equal(size, 7);
    assert_ptr_equal(executor, workspace);
    assert_int_equal(ag_alloc_live(), blocks);
}

/* --- repeatable ----------------------------------------------------------------------------------------- */

static void repeatable_runs_until_destroyed(void **state)
{
    (void)state;
    aclOpExecutor *executor = phase1(false);
    DONE(aclSetAclOpExecutorRepeatable(executor));
    for (int i = 0; i < 3; ++i) {
        memset(output, 0, sizeof output);
        DONE(phase2(executor));
        assert_output(output, 2);
    }
    REFUSED(161001, ag_executor_run(&doubling, NULL, 0, executor, NULL), "workspace: null");
    DONE(phase2(executor)); /* a mistake does not consume a repeatable one */
    DONE(aclDestroyAclOpExecutor(executor));
    REFUSED(161002, phase2(executor), "used up or destroyed");
    REFUSED(161002, aclDestroyAclOpExecutor(executor), "aclDestroyAclOpExecutor", "used up or destroyed");
}

static void addresses_move_between_runs(void **state)
{
    (void)state;
    float moved_input[4] = {5, 6, 7, 8}, moved_output[4] = {0};
    aclOpExecutor *executor = phase1(false);
    DONE(aclSetAclOpExecutorRepeatable(executor));
    DONE(aclSetOutputTensorAddr(executor, 0, any_tensor, moved_output));
    DONE(phase2(executor));
    assert_output(moved_output, 2);
    assert_output(output, 0);
    DONE(aclSetInputTensorAddr(executor, 0, any_tensor, moved_input));
    DONE(aclSetTensorAddr(executor, 2, any_tensor, output));
    DONE(phase2(executor));
    assert_true(output[0] == 10 && output[3] == 16);
    DONE(AclSetTensorAddr(executor, 0, any_tensor, input));
    DONE(AclSetOutputTensorAddr(executor, 0, any_tensor, moved_output));
    DONE(AclSetInputTensorAddr(executor, 0, any_tensor, input));
    DONE(phase2(executor));
    assert_output(moved_output, 2);
    DONE(aclDestroyAclOpExecutor(executor));
}

static void bad_addresses_are_refused(void **state)
{
    (void)state;
    aclOpExecutor *executor = phase1(false);
    aclTensorList *list = (aclTensorList *)output; /* never looked at */
    REFUSED(561103, aclSetInputTensorAddr(NULL, 0, any_tensor, input), "aclSetInputTensorAddr", "executor: null");
    REFUSED(561103, aclSetInputTensorAddr(executor, 0, NULL, input), "tensor: null");
    REFUSED(561103, aclSetInputTensorAddr(executor, 0, any_tensor, NULL), "addr: null");
    REFUSED(161002, aclSetInputTensorAddr(executor, 2, any_tensor, input),
            "index: got 2, aclnnDouble has 2 such tensors");
    REFUSED(161002, aclSetInputTensorAddr(executor, 1, any_tensor, input),
            "index: 1 is unused, which was null in phase 1");
    REFUSED(161002, aclSetOutputTensorAddr(executor, 1, any_tensor, input), "aclnnDouble has 1 such tensors");
    REFUSED(161002, aclSetTensorAddr(executor, 3, any_tensor, input), "aclnnDouble has 3 such tensors");
    REFUSED(161002, aclSetTensorAddr(executor, SIZE_MAX, any_tensor, input), "such tensors");
    REFUSED(561103, aclSetDynamicInputTensorAddr(NULL, 0, 0, list, input), "executor: null");
    REFUSED(561103, aclSetDynamicOutputTensorAddr(executor, 0, 0, NULL, input), "tensors: null");
    REFUSED(561103, aclSetDynamicTensorAddr(executor, 0, 0, list, NULL), "addr: null");
    REFUSED(161002, aclSetDynamicInputTensorAddr(executor, 0, 0, list, input), "aclnnDouble has no tensor lists");
    REFUSED(161002, AclSetDynamicInputTensorAddr(executor, 0, 0, list, input), "no tensor lists");
    REFUSED(161002, AclSetDynamicOutputTensorAddr(executor, 1, 0, list, input), "irIndex: got 1");
    REFUSED(161002, AclSetDynamicTensorAddr(executor, 0, 0, list, input), "no tensor lists");
    REFUSED(561103, aclSetAclOpExecutorRepeatable(NULL), "aclSetAclOpExecutorRepeatable", "executor: null");
    REFUSED(561103, aclDestroyAclOpExecutor(NULL), "executor: null");
    DONE(aclDestroyAclOpExecutor(executor)); /* abandoned: never run */
    REFUSED(161002, aclSetInputTensorAddr(executor, 0, any_tensor, input), "used up or destroyed");
    REFUSED(161002, aclSetAclOpExecutorRepeatable(executor), "used up or destroyed");
}

static void ten_thousand_calls_leave_nothing(void **state)
{
    (void)state;
    DONE(phase2(phase1(false)));
    const int64_t blocks = ag_alloc_live();
    for (int i = 0; i < 10000; ++i) {
        DONE(phase2(phase1(false)));
    }
    assert_int_equal(ag_alloc_live(), blocks);
}

/* --- asynchronous ---------------------------------------------------------------------------------------- */

static void a_queued_task_keeps_what_it_needs(void **state)
{
    (void)state;
    struct gate gate = gate_closed();
    float moved[4] = {0};
    aclrtStream stream;
    test_set_mode(true, false);
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateStream(&stream));
    gate_block(&gate, stream);
    aclOpExecutor *executor = phase1(false);
    DONE(aclSetAclOpExecutorRepeatable(executor));
    DONE(ag_executor_run(&doubling, workspace, sizeof workspace, executor, stream));
    DONE(aclSetOutputTensorAddr(executor, 0, any_tensor, moved)); /* for the next run, not for the queued one */
    DONE(aclDestroyAclOpExecutor(executor));
    assert_output(output, 0);
    gate_open(&gate);
    DONE(aclrtSynchronizeStream(stream));
    assert_output(output, 2);
    assert_output(moved, 0);
    DONE(aclrtDestroyStream(stream));
    DONE(aclrtResetDevice(0));
}

static void a_task_that_fails_later_is_told_at_synchronise(void **state)
{
    (void)state;
    aclrtStream stream;
    test_set_mode(true, false);
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateStream(&stream));
    DONE(ag_executor_run(&doubling, workspace, sizeof workspace, phase1(true), stream));
    DONE(ag_executor_run(&doubling, workspace, sizeof workspace, phase1(false), stream));
    REFUSED(361001, aclrtSynchronizeStream(stream), "EZ1001: aclnnDouble: x: a value is wrong");
    assert_output(output, 2); /* the one behind ran all the same */
    DONE(aclrtSynchronizeStream(stream));
    DONE(aclrtDestroyStream(stream));
    DONE(aclrtResetDevice(0));
}

static ag_status fail_with(void *text)
{
    return ag_fail(AG_INVALID, "%s", (const char *)text);
}

static ag_status fail_silently(void *unused)
{
    (void)unused;
    return AG_INVALID;
}

static void submit(aclrtStream stream, ag_status (*task)(void *), void *context)
{
    DONE(ag_stream_submit(stream, (struct ag_task){task, NULL, context, 0}));
}

/* Of several failures the first of a stream is told, and by the device's synchronise one of all, which clears them. */
static void the_first_failure_of_a_stream_is_told(void **state)
{
    (void)state;
    static char first[] = "first", second[] = "second";
    aclrtStream a, b;
    test_set_mode(true, false);
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateStream(&a));
    DONE(aclrtCreateStream(&b));
    submit(a, fail_with, first);
    submit(a, fail_with, second);
    REFUSED(361001, aclrtSynchronizeStream(a), "first");
    DONE(aclrtSynchronizeStream(a));
    submit(a, fail_with, first);
    submit(b, fail_with, second);
    assert_int_equal(aclrtSynchronizeDevice(), 361001);
    assert_non_null(aclGetRecentErrMsg());
    DONE(aclrtSynchronizeStream(a));
    DONE(aclrtSynchronizeStream(b));
    DONE(aclrtSynchronizeDevice());
    DONE(aclrtDestroyStream(a));
    DONE(aclrtDestroyStream(b));
    DONE(aclrtCreateStream(&a));
    submit(a, fail_silently, NULL);
    assert_int_equal(aclrtDestroyStream(a), 361001);
    assert_string_equal(aclGetRecentErrMsg(), "");
    DONE(aclrtResetDevice(0));
}

static void queueing_may_run_out_of_memory(void **state)
{
    (void)state;
    aclrtStream stream;
    test_set_mode(true, false);
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateStream(&stream));
    const int64_t blocks = ag_alloc_live();
    aclOpExecutor *executor = phase1(false);
    DONE(aclSetAclOpExecutorRepeatable(executor));
    ag_alloc_fail_at(1);
    REFUSED(361001, ag_executor_run(&doubling, workspace, 100, executor, stream), "out of memory");
    ag_alloc_fail_at(2);
    REFUSED(207001, ag_executor_run(&doubling, workspace, 100, executor, stream), "out of memory");
    assert_int_equal(runs, 0);
    DONE(aclDestroyAclOpExecutor(executor));
    assert_int_equal(ag_alloc_live(), blocks);
    DONE(aclrtDestroyStream(stream));
    DONE(aclrtResetDevice(0));
}

/* --- checked mode ---------------------------------------------------------------------------------------- */

static void checked_mode_wants_a_context(void **state)
{
    (void)state;
    test_set_mode(false, true);
    REFUSED(107002, phase2(phase1(false)), "the thread has no context (aclrtSetDevice comes first)");
    DONE(aclrtSetDevice(0));
    DONE(phase2(phase1(false)));
    DONE(aclrtResetDevice(0));
}

static void checked_mode_finds_operands_that_leave_their_allocation(void **state)
{
    (void)state;
    void *memory;
    aclOpExecutor *executor = phase1(false);
    DONE(aclSetAclOpExecutorRepeatable(executor));
    DONE(aclrtSetDevice(0));
    DONE(aclrtMalloc(&memory, 15, ACL_MEM_MALLOC_HUGE_FIRST)); /* 16 bytes are needed */
    DONE(aclSetOutputTensorAddr(executor, 0, any_tensor, memory));
    DONE(phase2(executor)); /* fits into the slack */
    test_set_mode(false, true);
    REFUSED(161002, phase2(executor), "y: ends 1 bytes behind the allocation of 15 bytes");
    DONE(aclSetOutputTensorAddr(executor, 0, any_tensor, output)); /* memory that is not ours: nobody knows */
    DONE(phase2(executor));
    REFUSED(161002, ag_executor_run(&doubling, memory, 100, executor, NULL), "workspace: ends 85 bytes behind");
    DONE(aclDestroyAclOpExecutor(executor));
    DONE(aclrtFree(memory));
    DONE(aclrtResetDevice(0));
}

static void checked_mode_shows_results_only_after_synchronise(void **state)
{
    (void)state;
    aclrtStream stream;
    test_set_mode(true, true);
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateStream(&stream));
    DONE(ag_executor_run(&doubling, workspace, sizeof workspace, phase1(false), stream));
    DONE(aclrtSynchronizeStream(stream));
    assert_output(output, 2);
    memset(output, 0, sizeof output);
    DONE(ag_executor_run(&doubling, workspace, sizeof workspace, phase1(false), stream));
    for (volatile int i = 0; i < 2000000; ++i) { /* a worker that ran at once would be done by now */
    }
    for (int i = 0; i < 4; ++i) {
        assert_true(isnan(output[i]));
    }
    DONE(aclrtSynchronizeStream(stream));
    assert_output(output, 2);
    DONE(aclrtDestroyStream(stream));
    DONE(aclrtResetDevice(0));
}

/* Every element of a strided output, and nothing between. */
static void checked_mode_spoils_through_strides(void **state)
{
    (void)state;
    float strided[2][3][4];
    const int64_t factors[FACTORS] = {0};
    struct gate gate = gate_closed();
    struct plan plan = {.x = view_of(input), .y = view_of(strided), .factors = factors, .fails = true};
    uint64_t size;
    aclrtStream stream;
    aclOpExecutor *executor;
    plan.y.rank = 3; /* [2, 3, 2]: every second float of each [4] */
    memcpy(plan.y.dims, (int64_t[]){2, 3, 2}, 3 * sizeof(int64_t));
    memcpy(plan.y.strides, (int64_t[]){12, 4, 2}, 3 * sizeof(int64_t));
    memset(strided, 0, sizeof strided);
    test_set_mode(true, true);
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateStream(&stream));
    gate_block(&gate, stream);
    DONE(ag_executor_create(&doubling, &plan, sizeof factors, 0, &size, &executor));
    DONE(ag_executor_run(&doubling, NULL, 0, executor, stream));
    for (int i = 0; i < 24; ++i) {
        const float value = ((const float *)strided)[i];
        assert_true(i % 2 == 0 ? isnan(value) : value == 0);
    }
    gate_open(&gate);
    assert_int_equal(aclrtSynchronizeStream(stream), 361001);
    DONE(aclrtDestroyStream(stream));
    DONE(aclrtResetDevice(0));
}

static void verbose_lines(void **state)
{
    (void)state;
    static char all[] = "ACLGRAD_VERBOSE=plan,run", none[] = "ACLGRAD_VERBOSE=";
    char text[1024];
    putenv(all);
    ag_config_reload();
    const struct test_stderr kept = test_stderr_begin();
    const ag_status status = phase2(phase1(false));
    test_stderr_end(kept, text, sizeof text);
    putenv(none);
    ag_config_reload();
    DONE(status);
    assert_non_null(strstr(text, "aclgrad,plan,aclnnDouble,kernel=double\n"));
    assert_non_null(strstr(text, "aclgrad,run,aclnnDouble,status=0 ms="));
    assert_non_null(strstr(text, " workspace_bytes=100\n"));
}

static void checked_mode_spares_outputs_that_are_inputs(void **state)
{
    (void)state;
    float in_place[4] = {1, 2, 3, 4};
    aclrtStream stream;
    aclOpExecutor *executor = phase1(false);
    test_set_mode(true, true);
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateStream(&stream));
    DONE(aclSetTensorAddr(executor, 0, any_tensor, in_place));
    DONE(aclSetTensorAddr(executor, 2, any_tensor, in_place));
    DONE(ag_executor_run(&doubling, workspace, sizeof workspace, executor, stream));
    assert_true(in_place[0] == 1);
    DONE(aclrtSynchronizeStream(stream));
    assert_output(in_place, 2);
    DONE(aclrtDestroyStream(stream));
    DONE(aclrtResetDevice(0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_memory_for_the_handle),
        TEST(two_phases),
        TEST(second_phase2_is_an_error),
        TEST(wrong_executors),
        TEST(workspace_and_stream_are_checked_and_the_executor_consumed),
        TEST(missing_memory_is_told_by_name),
        TEST(a_failed_run_keeps_its_message),
        TEST(out_of_memory_in_phase1_leaves_nothing),
        TEST(repeatable_runs_until_destroyed),
        TEST(addresses_move_between_runs),
        TEST(bad_addresses_are_refused),
        TEST(ten_thousand_calls_leave_nothing),
        TEST(a_queued_task_keeps_what_it_needs),
        TEST(a_task_that_fails_later_is_told_at_synchronise),
        TEST(the_first_failure_of_a_stream_is_told),
        TEST(queueing_may_run_out_of_memory),
        TEST(checked_mode_wants_a_context),
        TEST(checked_mode_finds_operands_that_leave_their_allocation),
        TEST(checked_mode_shows_results_only_after_synchronise),
        TEST(checked_mode_spoils_through_strides),
        TEST(checked_mode_spares_outputs_that_are_inputs),
        TEST(verbose_lines),
    };
    return cmocka_run_group_tests_name("executor", tests, NULL, NULL);
}
