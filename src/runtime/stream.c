/* The public functions of streams. */
#include <inttypes.h>

#include "acl/acl_rt.h"
#include "base/check.h"
#include "base/config.h"
#include "base/lock.h"
#include "runtime/context.h"
#include "runtime/handle.h"
#include "runtime/stream_queue.h"

static ag_status check_not_inside(const struct ag_stream *stream)
{
    AG_REQUIRE(!ag_stream_is_running_here(stream), RT_PARAM_INVALID, "stream: a task of it cannot wait for it");
    return AG_OK;
}

/* --- life ---------------------------------------------------------------------------------------------- */

static ag_status create(aclrtStream *handle)
{
    AG_REQUIRE(handle, ACL_INVALID_PARAM, "stream: null");
    AG_TRY(ag_context_check_thread());
    struct ag_context *context = ag_context_current();
    if (!context) {
        AG_TRY(ag_context_default(&context));
    }
    const struct ag_stream *stream = ag_stream_open(context);
    if (!stream) {
        return AG_RT_MEMORY_ALLOCATION;
    }
    *handle = stream->handle;
    return AG_OK;
}

aclError aclrtCreateStream(aclrtStream *stream)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = create(stream);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    const uint32_t known = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT | ACL_STREAM_HUGE |
                           ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;
    (void)priority;
    ag_error_enter(__func__);
    AG_REQUIRE(stream, ACL_INVALID_PARAM, "stream: null");
    AG_REQUIRE((flag & ~known) == 0, RT_PARAM_INVALID, "flag: got 0x%" PRIx32 ", want a set of ACL_STREAM_*", flag);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = create(stream);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

static ag_status destroy(aclrtStream handle, bool drop)
{
    struct ag_stream *stream;
    AG_REQUIRE(handle, ACL_INVALID_PARAM, "stream: null");
    AG_TRY(ag_stream_find(handle, &stream));
    const struct ag_context *context = ag_context_current();
    AG_REQUIRE(!context || context == stream->context, RT_STREAM_CONTEXT,
               "stream: belongs to another context than the thread's current one");
    AG_REQUIRE(stream != stream->context->default_stream, RT_PARAM_INVALID,
               "stream: a context's default one, which goes with its context");
    AG_TRY(check_not_inside(stream));
    ag_handle_remove(AG_HANDLE_STREAM, handle);
    return ag_stream_close(stream, drop);
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = destroy(stream, false);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = destroy(stream, true);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

/* --- waiting, asking, dropping --------------------------------------------------------------------------- */

static ag_status synchronize(aclrtStream handle, int32_t timeout)
{
    struct ag_stream *stream;
    AG_TRY(ag_stream_find(handle, &stream));
    if (!stream) {
        return AG_OK; /* without a context everything ran at once */
    }
    AG_TRY(check_not_inside(stream));
    AG_REQUIRE(ag_stream_wait(stream, ag_deadline_ns(timeout)), RT_STREAM_SYNC_TIMEOUT,
               "stream: not finished after %d ms", (int)timeout);
    return ag_stream_take_failure(stream);
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = synchronize(stream, -1);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    ag_error_enter(__func__);
    AG_REQUIRE(timeout >= -1, RT_PARAM_INVALID, "timeout: got %d, want -1 or more", (int)timeout);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = synchronize(stream, timeout);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

static ag_status query(aclrtStream handle, aclrtStreamStatus *answer)
{
    struct ag_stream *stream;
    AG_REQUIRE(answer, ACL_INVALID_PARAM, "status: null");
    AG_TRY(ag_stream_find(handle, &stream));
    const bool is_complete = !stream || stream->completed == stream->submitted;
    if (!is_complete) {
        ag_stream_release(stream); /* whoever polls waits, too */
    }
    *answer = is_complete ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return AG_OK;
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status code = query(stream, status);
    ag_unlock(AG_LOCK_RUNTIME);
    return code;
}

static ag_status abort_stream(aclrtStream handle)
{
    struct ag_stream *stream;
    AG_TRY(ag_stream_find(handle, &stream));
    if (stream) {
        AG_TRY(check_not_inside(stream));
        ag_stream_drop(stream);
        ag_stream_wait(stream, INT64_MAX);
    }
    return AG_OK;
}

aclError aclrtStreamAbort(aclrtStream stream)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = abort_stream(stream);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

/* --- the whole device ------------------------------------------------------------------------------------ */

/* A stream that is waited for stays in its context's list until the wait is over, and so does the context. */
static ag_status synchronize_device(int32_t timeout)
{
    const int64_t deadline_ns = ag_deadline_ns(timeout);
    struct ag_context *context;
    ag_status status = AG_OK;
    AG_REQUIRE(timeout >= -1, RT_PARAM_INVALID, "timeout: got %d, want -1 or more", (int)timeout);
    AG_TRY(ag_context_require(&context));
    AG_TRY(ag_context_check_not_inside(context));
    for (struct ag_stream *stream = context->streams; stream; stream = stream->next) {
        AG_REQUIRE(ag_stream_wait(stream, deadline_ns), RT_STREAM_SYNC_TIMEOUT, "not finished after %d ms",
                   (int)timeout);
        const ag_status one = ag_stream_take_failure(stream);
        status = status == AG_OK ? one : status;
    }
    return status;
}

aclError aclrtSynchronizeDevice(void)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = synchronize_device(-1);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = synchronize_device(timeout);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

/* --- callbacks ------------------------------------------------------------------------------------------- */

struct host_call {
    aclrtHostFunc function;
    void *arguments;
};

static ag_status run_host_call(void *context)
{
    const struct host_call *call = context;
    call->function(call->arguments);
    return AG_OK;
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args)
{
    struct host_call call = {fn, args};
    ag_error_enter(__func__);
    AG_REQUIRE(fn, ACL_INVALID_PARAM, "fn: null");
    return ag_stream_submit(stream, (struct ag_task){run_host_call, NULL, &call, sizeof call});
}
