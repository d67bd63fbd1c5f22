#include "runtime/context.h"

#include <string.h>

#include "base/check.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/memory.h"
#include "runtime/handle.h"
#include "runtime/stream_queue.h"

static struct ag_context *first_context;
static struct ag_context *default_context;
static _Thread_local aclrtContext thread_context;

struct ag_context *ag_context_first(void)
{
    return first_context;
}

struct ag_context *ag_context_current(void)
{
    return ag_handle_get(AG_HANDLE_CONTEXT, thread_context);
}

void ag_context_bind(const struct ag_context *context)
{
    thread_context = context->handle;
}

ag_status ag_context_require(struct ag_context **context)
{
    *context = ag_context_current();
    AG_REQUIRE(*context, RT_CONTEXT_NULL, "the thread has no context (aclrtSetDevice comes first)");
    return AG_OK;
}

ag_status ag_context_check_thread(void)
{
    AG_REQUIRE(ag_context_current() || !ag_config_get().is_debug, RT_CONTEXT_NULL,
               "the thread has no context (aclrtSetDevice comes first)");
    return AG_OK;
}

/* --- life ---------------------------------------------------------------------------------------------- */

static struct ag_context *open_context(void)
{
    struct ag_context *context = ag_alloc_zeroed(sizeof *context);
    if (context) {
        context->default_stream = ag_stream_open(context);
    }
    if (context && context->default_stream) {
        context->handle = ag_handle_create(AG_HANDLE_CONTEXT, context);
    }
    if (context && context->handle) {
        context->next = first_context;
        first_context = context;
        return context;
    }
    if (context && context->default_stream) {
        ag_handle_remove(AG_HANDLE_STREAM, context->default_stream->handle);
        ag_stream_close(context->default_stream, true);
    }
    ag_free(context);
    ag_fail(AG_RT_MEMORY_ALLOCATION, "out of memory for a context");
    return NULL;
}

struct ag_context *ag_context_default_if_any(void)
{
    return default_context;
}

ag_status ag_context_default(struct ag_context **context)
{
    if (!default_context) {
        default_context = open_context();
        if (!default_context) {
            return AG_RT_MEMORY_ALLOCATION;
        }
        default_context->is_default = true;
    }
    *context = default_context;
    return AG_OK;
}

void ag_context_wait_for_others(void)
{
    ag_progress_wait(INT64_MAX);
}

/* A stream that another thread is closing right now leaves the list without our doing. */
static ag_status close_streams(const struct ag_context *context)
{
    ag_status status = AG_OK;
    while (context->streams) {
        struct ag_stream *stream = context->streams;
        if (ag_handle_remove(AG_HANDLE_STREAM, stream->handle)) {
            const ag_status one = ag_stream_close(stream, false);
            status = one == AG_OK ? status : one;
        } else {
            ag_context_wait_for_others();
        }
    }
    return status;
}

ag_status ag_context_close(struct ag_context *context)
{
    if (context == default_context) {
        default_context = NULL;
    }
    const ag_status status = close_streams(context);
    struct ag_context **link = &first_context;
    while (*link != context) {
        link = &(*link)->next;
    }
    *link = context->next;
    ag_free(context);
    ag_progress_tell();
    return status;
}

ag_status ag_context_check_not_inside(const struct ag_context *context)
{
    for (const struct ag_context *c = first_context; c; c = c->next) {
        for (const struct ag_stream *s = c->streams; s && (!context || c == context); s = s->next) {
            AG_REQUIRE(!ag_stream_is_running_here(s), RT_PARAM_INVALID,
                       "called by a task of a stream that it would wait for");
        }
    }
    return AG_OK;
}

/* --- the public functions ------------------------------------------------------------------------------ */

static ag_status create(aclrtContext *handle, int32_t device)
{
    AG_REQUIRE(handle, ACL_INVALID_PARAM, "context: null");
    AG_REQUIRE(device == 0, RT_INVALID_DEVICE, "deviceId: got %d, want 0 (there is one device)", (int)device);
    const struct ag_context *context = open_context();
    if (!context) {
        return AG_RT_MEMORY_ALLOCATION;
    }
    ag_context_bind(context);
    *handle = context->handle;
    return AG_OK;
}

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = create(context, deviceId);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

static ag_status find(aclrtContext handle, struct ag_context **context)
{
    AG_REQUIRE(handle, ACL_INVALID_PARAM, "context: null");
    *context = ag_handle_get(AG_HANDLE_CONTEXT, handle);
    AG_REQUIRE(*context, RT_INVALID_HANDLE, "context: got %s, want a live context", ag_handle_describe(handle));
    return AG_OK;
}

static ag_status destroy(aclrtContext handle)
{
    struct ag_context *context;
    AG_TRY(find(handle, &context));
    AG_REQUIRE(!context->is_default, RT_PARAM_INVALID,
               "context: the device's default one, which aclrtResetDevice destroys");
    AG_TRY(ag_context_check_not_inside(context));
    ag_handle_remove(AG_HANDLE_CONTEXT, handle);
    return ag_context_close(context);
}

aclError aclrtDestroyContext(aclrtContext context)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = destroy(context);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    struct ag_context *found;
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = find(context, &found);
    if (status == AG_OK) {
        ag_context_bind(found);
    }
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

static ag_status get_current(aclrtContext *handle)
{
    struct ag_context *context;
    AG_REQUIRE(handle, ACL_INVALID_PARAM, "context: null");
    AG_TRY(ag_context_require(&context));
    *handle = context->handle;
    return AG_OK;
}

aclError aclrtGetCurrentContext(aclrtContext *context)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = get_current(context);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

/* --- options: stored and handed out ---------------------------------------------------------------------- */

static int64_t process_options[AG_OPTION_COUNT];

void ag_context_clear_options(void)
{
    memset(process_options, 0, sizeof process_options);
}

static ag_status check_option(aclSysParamOpt option)
{
    AG_REQUIRE((int)option >= 0 && (int)option < AG_OPTION_COUNT, ACL_INVALID_PARAM, "opt: got %d, want 0 to %d",
               (int)option, AG_OPTION_COUNT - 1);
    return AG_OK;
}

static ag_status set_context_option(aclSysParamOpt option, int64_t value)
{
    struct ag_context *context;
    AG_TRY(check_option(option));
    AG_TRY(ag_context_require(&context));
    context->has_option[option] = true;
    context->options[option] = value;
    return AG_OK;
}

static ag_status get_context_option(aclSysParamOpt option, int64_t *value)
{
    struct ag_context *context;
    AG_TRY(check_option(option));
    AG_REQUIRE(value, ACL_INVALID_PARAM, "value: null");
    AG_TRY(ag_context_require(&context));
    AG_REQUIRE(context->has_option[option], RT_SYSPARAM_NOT_SET, "opt: %d was never set in this context",
               (int)option);
    *value = context->options[option];
    return AG_OK;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = set_context_option(opt, value);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = get_context_option(opt, value);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    ag_error_enter(__func__);
    AG_TRY(check_option(opt));
    ag_lock(AG_LOCK_RUNTIME);
    process_options[opt] = value;
    ag_unlock(AG_LOCK_RUNTIME);
    return AG_OK;
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    ag_error_enter(__func__);
    AG_TRY(check_option(opt));
    AG_REQUIRE(value, ACL_INVALID_PARAM, "value: null");
    ag_lock(AG_LOCK_RUNTIME);
    *value = process_options[opt];
    ag_unlock(AG_LOCK_RUNTIME);
    return AG_OK;
}
