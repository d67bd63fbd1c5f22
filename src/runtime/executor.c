#include "runtime/executor.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/memory.h"
#include "runtime/checked_mode.h"
#include "runtime/handle.h"
#include "runtime/stream.h"

enum { ALIGN = AG_ARENA_ALIGN };

/* One block:  struct executor | plan | tables */
struct executor {
    const struct ag_operator *op;
    void *plan;
    uint64_t workspace_bytes;
    _Atomic int references; /* the handle's, and one per queued task */
    bool is_repeatable;
};

static void release_executor(struct executor *executor)
{
    if (atomic_fetch_sub(&executor->references, 1) == 1) {
        ag_free(executor);
    }
}

struct ag_view *ag_operand_view(const struct ag_operator *op, void *plan, int index)
{
    return (struct ag_view *)((char *)plan + op->operands[index].offset);
}

/* --- phase 1 ------------------------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static struct executor *new_executor(const struct ag_operator *op, const void *plan, uint64_t table_bytes)
{
    const uint64_t plan_at = round_up(sizeof(struct executor));
    const uint64_t tables_at = plan_at + round_up(op->plan_bytes);
    struct executor *executor = table_bytes < SIZE_MAX / 2 ? ag_alloc((size_t)(tables_at + table_bytes)) : NULL;
    if (!executor) {
        return NULL;
    }
    executor->op = op;
    executor->plan = (char *)executor + plan_at;
    executor->is_repeatable = false;
    atomic_init(&executor->references, 1);
    memcpy(executor->plan, plan, op->plan_bytes);
    if (op->adopt) {
        op->adopt(executor->plan, (char *)executor + tables_at);
    }
    return executor;
}

static void tell_plan(const struct ag_operator *op, const void *plan)
{
    char text[1536] = "";
    if (ag_is_verbose(AG_VERBOSE_PLAN) && op->describe) {
        op->describe(plan, text, sizeof text);
        ag_verbose(AG_VERBOSE_PLAN, op->name, "%s", text);
    }
}

ag_status ag_executor_create(const struct ag_operator *op, const void *plan, uint64_t table_bytes,
                             uint64_t workspace_bytes, uint64_t *workspace_size, aclOpExecutor **executor)
{
    struct executor *created = new_executor(op, plan, table_bytes);
    aclOpExecutor *handle = created ? ag_handle_create(AG_HANDLE_EXECUTOR, created) : NULL;
    if (!handle) {
        ag_free(created);
        return ag_fail(AG_CREATE_EXECUTOR, "executor: out of memory (%" PRIu64 " bytes of tables)", table_bytes);
    }
    created->workspace_bytes = workspace_bytes;
    tell_plan(op, created->plan);
    *workspace_size = workspace_bytes;
    *executor = handle;
    return AG_OK;
}

ag_status ag_executor_tell_refusal(const struct ag_operator *op, ag_status status)
{
    if (status != AG_OK) {
        ag_verbose(AG_VERBOSE_CHECK, op->name, "status=%d %s", (int)status, ag_error_peek());
    }
    return status;
}

/* --- phase 2 ------------------------------------------------------------------------------------------- */

struct run {
    struct executor *executor;
    void *plan; /* the executor's own, or a copy: a repeatable executor may change while a task of it waits */
    void *workspace;
};

static ag_status run_task(void *context)
{
    const struct run *run = context;
    const struct executor *executor = run->executor;
    const int64_t start_ns = ag_clock_ns();
    ag_error_enter(executor->op->name);
    const ag_status status = executor->op->run(run->plan, run->workspace);
    if (run->workspace) {
        ag_arena_close(run->workspace, executor->workspace_bytes);
    }
    ag_verbose(AG_VERBOSE_RUN, executor->op->name, "status=%d ms=%.3f workspace_bytes=%" PRIu64, (int)status,
               (double)(ag_clock_ns() - start_ns) * 1e-6, executor->workspace_bytes);
    return status;
}

static void release_run(void *context)
{
    const struct run *run = context;
    if (run->plan != run->executor->plan) {
        ag_free(run->plan);
    }
    release_executor(run->executor);
}

static ag_status check_memory(const struct executor *executor)
{
    const struct ag_operator *op = executor->op;
    for (int i = 0; i < op->inputs + op->outputs; ++i) {
        const struct ag_view *view = ag_operand_view(op, executor->plan, i);
        AG_REQUIRE(!view->present || view->data || ag_view_is_empty(view), NULLPTR,
                   "%s: its memory is null, want an address", op->operands[i].name);
    }
    return AG_OK;
}

static ag_status check_run(const struct ag_operator *op, const struct executor *executor, const void *workspace,
                           uint64_t workspace_size)
{
    AG_REQUIRE(executor->op == op, INVALID,
               "executor: made by %sGetWorkspaceSize, want one made by %sGetWorkspaceSize", executor->op->name,
               op->name);
    AG_REQUIRE(workspace || executor->workspace_bytes == 0, NULLPTR, "workspace: null, want %" PRIu64 " bytes",
               executor->workspace_bytes);
    AG_REQUIRE(workspace_size >= executor->workspace_bytes, INVALID,
               "workspaceSize: got %" PRIu64 ", want at least %" PRIu64, workspace_size, executor->workspace_bytes);
    AG_TRY(check_memory(executor));
    if (ag_config_get().is_debug) {
        AG_TRY(ag_checked_allocations(op, executor->plan));
        AG_TRY(ag_checked_workspace(workspace, executor->workspace_bytes));
    }
    return AG_OK;
}

/* Hands one reference of the executor to the task, whatever happens. */
static ag_status submit(struct executor *executor, void *workspace, aclrtStream stream)
{
    const struct ag_config config = ag_config_get();
    struct run run = {executor, executor->plan, executor->workspace_bytes ? workspace : NULL};
    ag_status status = ag_stream_check(stream);
    if (status == AG_OK && config.is_async && executor->is_repeatable) {
        void *copy = ag_alloc(executor->op->plan_bytes);
        status = copy ? AG_OK : ag_fail(AG_RUNTIME, "out of memory for a queued plan");
        run.plan = copy ? memcpy(copy, executor->plan, executor->op->plan_bytes) : run.plan;
    }
    if (status != AG_OK) {
        release_run(&run);
        return status;
    }
    if (config.is_async && config.is_debug) {
        ag_checked_spoil_outputs(executor->op, run.plan);
    }
    return ag_stream_submit(stream, (struct ag_task){run_task, release_run, &run, sizeof run});
}

ag_status ag_executor_run(const struct ag_operator *op, void *workspace, uint64_t workspace_size,
                          aclOpExecutor *handle, aclrtStream stream)
{
    AG_REQUIRE(handle, NULLPTR, "executor: null, want one from phase 1");
    struct executor *executor = ag_handle_get(AG_HANDLE_EXECUTOR, handle);
    if (executor && !executor->is_repeatable) {
        executor = ag_handle_remove(AG_HANDLE_EXECUTOR, handle); /* consumed, whatever happens */
    } else if (executor) {
        atomic_fetch_add(&executor->references, 1);
    }
    AG_REQUIRE(executor, INVALID, "executor: got %s, want a live executor", ag_handle_describe(handle));
    const ag_status status = check_run(op, executor, workspace, workspace_size);
    if (status != AG_OK) {
        release_executor(executor);
        return status;
    }
    return submit(executor, workspace, stream);
}

/* --- what a program does with an executor --------------------------------------------------------------- */

static ag_status find(aclOpExecutor *handle, struct executor **executor)
{
    AG_REQUIRE(handle, INNER_NULLPTR, "executor: null, want one from phase 1");
    *executor = ag_handle_get(AG_HANDLE_EXECUTOR, handle);
    AG_REQUIRE(*executor, INVALID, "executor: got %s, want a live executor", ag_handle_describe(handle));
    return AG_OK;
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor)
{
    struct executor *found;
    ag_error_enter(__func__);
    AG_TRY(find(executor, &found));
    found->is_repeatable = true;
    return AG_OK;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor)
{
    struct executor *found;
    ag_error_enter(__func__);
    AG_TRY(find(executor, &found));
    found = ag_handle_remove(AG_HANDLE_EXECUTOR, executor);
    AG_REQUIRE(found, INVALID, "executor: another thread has destroyed it");
    release_executor(found);
    return AG_OK;
}

enum operand_set { INPUTS, OUTPUTS, ALL };

static ag_status set_address(aclOpExecutor *handle, enum operand_set set, size_t index, const aclTensor *tensor,
                             void *addr)
{
    struct executor *executor;
    AG_TRY(find(handle, &executor));
    const struct ag_operator *op = executor->op;
    const int count = set == INPUTS ? op->inputs : set == OUTPUTS ? op->outputs : op->inputs + op->outputs;
    AG_REQUIRE(tensor, INNER_NULLPTR, "tensor: null");
    AG_REQUIRE(addr, INNER_NULLPTR, "addr: null");
    AG_REQUIRE(index < (size_t)count, INVALID, "index: got %zu, %s has %d such tensors", index, op->name, count);
    const int operand = (int)index + (set == OUTPUTS ? op->inputs : 0);
    struct ag_view *view = ag_operand_view(op, executor->plan, operand);
    AG_REQUIRE(view->present, INVALID, "index: %zu is %s, which was null in phase 1", index,
               op->operands[operand].name);
    view->data = addr;
    return AG_OK;
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)
{
    ag_error_enter(__func__);
    return set_address(executor, INPUTS, index, tensor, addr);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)
{
    ag_error_enter(__func__);
    return set_address(executor, OUTPUTS, index, tensor, addr);
}

aclnnStatus aclSetTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)
{
    ag_error_enter(__func__);
    return set_address(executor, ALL, index, tensor, addr);
}

/* No operator here has a parameter that is a list. */
static ag_status set_dynamic_address(aclOpExecutor *handle, size_t ir_index, const aclTensorList *tensors,
                                     const void *addr)
{
    struct executor *executor;
    AG_TRY(find(handle, &executor));
    AG_REQUIRE(tensors, INNER_NULLPTR, "tensors: null");
    AG_REQUIRE(addr, INNER_NULLPTR, "addr: null");
    return ag_fail(AG_INVALID, "irIndex: got %zu, %s has no tensor lists", ir_index, executor->op->name);
}

aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,
                                         aclTensorList *tensors, void *addr)
{
    (void)relativeIndex;
    ag_error_enter(__func__);
    return set_dynamic_address(executor, irIndex, tensors, addr);
}

aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,
                                          aclTensorList *tensors, void *addr)
{
    (void)relativeIndex;
    ag_error_enter(__func__);
    return set_dynamic_address(executor, irIndex, tensors, addr);
}

aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,
                                    aclTensorList *tensors, void *addr)
{
    (void)relativeIndex;
    ag_error_enter(__func__);
    return set_dynamic_address(executor, irIndex, tensors, addr);
}
