#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "call_moe.h"
#include "cli.h"

void call_destroy(struct call *call)
{
    problem_destroy(&call->problem);
    tensor_set_destroy(&call->inputs);
    tensor_set_destroy(&call->recorded);
    free(call->expert_ends);
    free(call->query_ends);
    free(call->key_ends);
    memset(call, 0, sizeof *call);
}

/* --- names of places ------------------------------------------------------------------------------------- */

/* Ends of the experts' rows on this rank: those of the whole order, cut to the window. */
static void set_expert_groups(struct call *call, struct axes *axes)
{
    int64_t count;
    const int64_t *range = moe_range(&call->problem, &count);
    const int64_t begin = count == 2 && range[0] > 0 ? range[0] : 0;
    free(call->query_ends);
    call->query_ends = malloc((size_t)(call->expert_count + 1) * sizeof *call->query_ends);
    for (int64_t e = 0; call->query_ends && e < call->expert_count; ++e) {
        call->query_ends[e] = call->expert_ends[e] > begin ? call->expert_ends[e] - begin : 0;
    }
    if (call->query_ends) {
        axes->group = "expert";
        axes->group_ends = call->query_ends;
        axes->group_count = call->expert_count;
    }
}

static void set_sequence_groups(struct call *call, bool is_key, struct axes *axes)
{
    const struct problem *p = &call->problem;
    const bool has_keys = problem_has(p, "kv") || problem_has(p, "kvends");
    if (!call->query_ends) {
        problem_ends(p, "q", "qends", &call->query_ends, &call->query_end_count);
        problem_ends(p, has_keys ? "kv" : "q", has_keys ? "kvends" : "qends", &call->key_ends, &call->key_end_count);
        cli_forgive();
    }
    const int64_t *ends = is_key ? call->key_ends : call->query_ends;
    if (ends) {
        axes->group = "batch";
        axes->group_ends = ends;
        axes->group_count = is_key ? call->key_end_count : call->query_end_count;
    }
}

/* Its rows are those of the keys. */
static bool is_of_keys(const char *name)
{
    static const char *const names[] = {"dk", "dkRope", "dv", "key", "keyIn", "keyInRope", "value"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

struct axes call_axes(struct call *call, const struct tensor *tensor)
{
    struct axes axes = axes_of_tensor(tensor);
    if (axes.row_axis < 0) {
        return axes;
    }
    if (problem_is_moe(&call->problem)) {
        if (call->expert_ends && strcmp(axes.names[axes.row_axis], "row") == 0) { /* of the sorted order */
            set_expert_groups(call, &axes);
        }
    } else if (call->problem.op == PROBLEM_ATTENTION || problem_is(&call->problem, "layout", "tnd")) {
        set_sequence_groups(call, is_of_keys(tensor->name), &axes);
    }
    return axes;
}

/* --- handles --------------------------------------------------------------------------------------------- */

const aclTensor *handles_tensor(struct handles *handles, const struct tensor *tensor)
{
    if (!tensor) {
        return NULL;
    }
    aclTensor *handle = aclCreateTensor(tensor->dims, (uint64_t)tensor->rank, (aclDataType)tensor->dtype, NULL, 0,
                                        ACL_FORMAT_ND, tensor->dims, (uint64_t)tensor->rank, tensor->data);
    return handles->tensors[handles->tensor_count++] = handle;
}

const aclIntArray *handles_array(struct handles *handles, const int64_t *items, int64_t count)
{
    return items ? handles->arrays[handles->array_count++] = aclCreateIntArray(items, (uint64_t)count) : NULL;
}

void handles_destroy(struct handles *handles)
{
    for (int i = 0; i < handles->tensor_count; ++i) {
        aclDestroyTensor(handles->tensors[i]);
    }
    for (int i = 0; i < handles->array_count; ++i) {
        aclDestroyIntArray(handles->arrays[i]);
    }
    handles->tensor_count = handles->array_count = 0;
}

/* --- the two phases -------------------------------------------------------------------------------------- */

bool fail_rejected(const char *entry, aclnnStatus status)
{
    const char *text = aclGetRecentErrMsg();
    return cli_fail(CLI_REJECTED, "rejected by %s: status %d: %s", entry, (int)status, text ? text : "(no message)");
}

bool ready_call_finish(struct ready_call *ready, const char *entry, aclnnStatus status, uint64_t workspace_bytes)
{
    ready->entry = entry;
    if (status != 0) {
        ready->executor = NULL;
        return fail_rejected(entry, status);
    }
    ready->workspace_bytes = workspace_bytes;
    ready->workspace = NULL;
    if (workspace_bytes &&
        aclrtMalloc(&ready->workspace, workspace_bytes, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
        return cli_fail(CLI_USAGE, "out of memory for a workspace of %llu bytes",
                        (unsigned long long)workspace_bytes);
    }
    return aclSetAclOpExecutorRepeatable(ready->executor) == 0 || fail_rejected(entry, 0);
}

bool ready_call_run(struct ready_call *ready)
{
    aclnnStatus status = ready->phase2(ready->workspace, ready->workspace_bytes, ready->executor, NULL);
    if (status == 0) {
        status = aclrtSynchronizeStream(NULL);
    }
    return status == 0 || fail_rejected(ready->entry, status);
}

void ready_call_release(struct ready_call *ready)
{
    if (ready->executor) {
        aclDestroyAclOpExecutor(ready->executor);
    }
    handles_destroy(&ready->handles);
    if (ready->workspace) {
        aclrtFree(ready->workspace);
    }
    memset(ready, 0, sizeof *ready);
}

/* --- outputs --------------------------------------------------------------------------------------------- */

int64_t tensor_dim(const struct tensor *tensor, int axis)
{
    return axis < tensor->rank ? tensor->dims[axis] : 1;
}

/* --- calls ----------------------------------------------------------------------------------------------- */

const struct operation *operation_of(const struct call *call)
{
    return operations[call->problem.op];
}

bool add_output(struct tensor_set *outputs, const char *name, int dtype, const struct tensor *like)
{
    return !like || tensor_set_create(outputs, name, dtype, like->rank, like->dims);
}

bool call_run(const struct call *call, struct tensor_set *outputs)
{
    struct ready_call ready = {0};
    const bool is_good = operation_of(call)->make_outputs(call, outputs) &&
                         operation_of(call)->prepare(call, outputs, &ready) && ready_call_run(&ready);
    ready_call_release(&ready);
    return is_good;
}
