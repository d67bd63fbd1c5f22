#define _POSIX_C_SOURCE 200809L /* condition variables on the steady clock, signal masks */
#include "runtime/stream_queue.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/memory.h"
#include "runtime/handle.h"

struct queued_task {
    struct queued_task *next;
    struct ag_task task;
    int64_t ticket;
    bool is_dropped;             /* its turn comes, but it does not run */
    _Alignas(16) char context[]; /* the task's own, when it is copied */
};

static _Thread_local const struct ag_stream *running_stream;

bool ag_stream_is_running_here(const struct ag_stream *stream)
{
    return running_stream == stream;
}

/* --- waiting ------------------------------------------------------------------------------------------- */

static pthread_cond_t progress;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void after_fork_in_child(void);

static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void init_once(void)
{
    init_condition(&progress);
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

int64_t ag_deadline_ns(int32_t timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : ag_clock_ns() + (int64_t)timeout_ms * 1000000;
}

bool ag_progress_wait(int64_t deadline_ns)
{
    pthread_once(&once, init_once);
    if (deadline_ns == INT64_MAX) {
        pthread_cond_wait(&progress, ag_lock_mutex(AG_LOCK_RUNTIME));
        return true;
    }
    const struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                                   .tv_nsec = (long)(deadline_ns % 1000000000)};
    pthread_cond_timedwait(&progress, ag_lock_mutex(AG_LOCK_RUNTIME), &until);
    return ag_clock_ns() < deadline_ns;
}

void ag_progress_tell(void)
{
    pthread_once(&once, init_once);
    pthread_cond_broadcast(&progress);
}

void ag_stream_release(struct ag_stream *stream)
{
    if (stream->released < stream->submitted) {
        stream->released = stream->submitted;
        pthread_cond_signal(&stream->has_work);
    }
}

bool ag_stream_wait(struct ag_stream *stream, int64_t deadline_ns)
{
    const int64_t target = stream->submitted;
    ++stream->users;
    ag_stream_release(stream);
    while (stream->completed < target && ag_progress_wait(deadline_ns)) {
    }
    --stream->users;
    ag_progress_tell(); /* a thread that closes the stream waits for users to leave */
    return stream->completed >= target;
}

/* --- running tasks ------------------------------------------------------------------------------------- */

static void release_task(const struct ag_task *task)
{
    if (task->release) {
        task->release(task->context);
    }
}

static ag_status run_here(const struct ag_stream *stream, const struct ag_task *task)
{
    const struct ag_stream *outer = running_stream;
    running_stream = stream;
    const ag_status status = task->run(task->context);
    running_stream = outer;
    return status;
}

static void keep_failure(struct ag_stream *stream, ag_status status)
{
    if (status != AG_OK && stream->failure == AG_OK) {
        const char *text = ag_error_peek();
        stream->failure = status;
        snprintf(stream->failure_text, sizeof stream->failure_text, "%s", text ? text : "");
    }
}

ag_status ag_stream_take_failure(struct ag_stream *stream)
{
    if (stream->failure == AG_OK) {
        return AG_OK;
    }
    stream->failure = AG_OK;
    return ag_fail_again(AG_RUNTIME, stream->failure_text);
}

static void complete(struct ag_stream *stream, int64_t ticket)
{
    stream->completed = ticket;
    ag_progress_tell();
}

/* Takes the first task that may begin out of the queue; NULL when there is none. */
static struct queued_task *pop(struct ag_stream *stream)
{
    struct queued_task *task = stream->first;
    if (!task || task->ticket > stream->released || task->ticket != stream->completed + 1) {
        return NULL;
    }
    stream->first = task->next;
    return task;
}

static void *work(void *stream_pointer)
{
    struct ag_stream *stream = stream_pointer;
    ag_lock(AG_LOCK_RUNTIME);
    for (;;) {
        struct queued_task *task = pop(stream);
        if (task) {
            ag_unlock(AG_LOCK_RUNTIME);
            const ag_status status = task->is_dropped ? AG_OK : run_here(stream, &task->task);
            release_task(&task->task);
            ag_lock(AG_LOCK_RUNTIME);
            keep_failure(stream, status);
            complete(stream, task->ticket);
            ag_free(task);
        } else if (stream->is_closing && !stream->first) {
            break;
        } else {
            pthread_cond_wait(&stream->has_work, ag_lock_mutex(AG_LOCK_RUNTIME));
        }
    }
    ag_unlock(AG_LOCK_RUNTIME);
    return NULL;
}

/* The host program's signals are its own threads' business. */
static ag_status start_worker(struct ag_stream *stream)
{
    sigset_t all, callers;
    if (stream->has_worker) {
        return AG_OK;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &callers);
    stream->has_worker = pthread_create(&stream->worker, NULL, work, stream) == 0;
    pthread_sigmask(SIG_SETMASK, &callers, NULL);
    AG_REQUIRE(stream->has_worker, RT_NO_STREAM_RESOURCE, "stream: no thread for it");
    return AG_OK;
}

static ag_status enqueue(struct ag_stream *stream, const struct ag_task *task)
{
    AG_TRY(start_worker(stream));
    struct queued_task *queued = ag_alloc(sizeof *queued + task->context_bytes);
    AG_REQUIRE(queued, RT_MEMORY_ALLOCATION, "stream: out of memory for a task");
    queued->next = NULL;
    queued->task = *task;
    queued->ticket = ++stream->submitted;
    queued->is_dropped = false;
    if (task->context_bytes > 0) {
        memcpy(queued->context, task->context, task->context_bytes);
        queued->task.context = queued->context;
    }
    if (stream->first) {
        stream->last->next = queued;
    } else {
        stream->first = queued;
    }
    stream->last = queued;
    if (!ag_config_get().is_debug) {
        stream->released = queued->ticket;
    }
    pthread_cond_signal(&stream->has_work);
    return AG_OK;
}

/* Runs the task in this thread when its turn has come. */
static ag_status run_in_turn(struct ag_stream *stream, const struct ag_task *task)
{
    const int64_t ticket = ++stream->submitted;
    stream->released = ticket;
    pthread_cond_signal(&stream->has_work); /* tasks left from before the mode changed */
    while (stream->completed != ticket - 1) {
        ag_progress_wait(INT64_MAX);
    }
    ag_unlock(AG_LOCK_RUNTIME);
    const ag_status status = run_here(stream, task);
    release_task(task);
    ag_lock(AG_LOCK_RUNTIME);
    complete(stream, ticket);
    pthread_cond_signal(&stream->has_work);
    return status;
}

/* At once: for a thread without context, and for a task that submits to its own stream. */
static ag_status run_now(const struct ag_stream *stream, const struct ag_task *task)
{
    ag_unlock(AG_LOCK_RUNTIME);
    const ag_status status = stream ? run_here(stream, task) : task->run(task->context);
    release_task(task);
    ag_lock(AG_LOCK_RUNTIME);
    return status;
}

ag_status ag_stream_submit(aclrtStream handle, struct ag_task task)
{
    const bool is_async = ag_config_get().is_async;
    struct ag_stream *stream = NULL;
    ag_lock(AG_LOCK_RUNTIME);
    ag_status status = ag_stream_find(handle, &stream);
    if (status != AG_OK || (stream && is_async)) {
        if (status == AG_OK) {
            status = enqueue(stream, &task);
        }
        ag_unlock(AG_LOCK_RUNTIME);
        if (status != AG_OK) {
            release_task(&task);
        }
        return status;
    }
    status = !stream || ag_stream_is_running_here(stream) ? run_now(stream, &task) : run_in_turn(stream, &task);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

ag_status ag_stream_settle(aclrtStream handle)
{
    struct ag_stream *stream;
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = ag_stream_find(handle, &stream);
    if (status == AG_OK && stream && !ag_stream_is_running_here(stream)) {
        ag_stream_wait(stream, INT64_MAX);
    }
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

ag_status ag_stream_check(aclrtStream handle)
{
    struct ag_stream *stream;
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = ag_stream_find(handle, &stream);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

/* --- life ---------------------------------------------------------------------------------------------- */

struct ag_stream *ag_stream_open(struct ag_context *context)
{
    struct ag_stream *stream = ag_alloc_zeroed(sizeof *stream);
    if (stream) {
        stream->handle = ag_handle_create(AG_HANDLE_STREAM, stream);
    }
    if (!stream || !stream->handle) {
        ag_free(stream);
        ag_fail(AG_RT_MEMORY_ALLOCATION, "out of memory for a stream");
        return NULL;
    }
    pthread_once(&once, init_once);
    init_condition(&stream->has_work);
    stream->context = context;
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

static void unlink_stream(const struct ag_stream *stream)
{
    struct ag_stream **link = &stream->context->streams;
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
}

void ag_stream_drop(struct ag_stream *stream)
{
    for (struct queued_task *task = stream->first; task; task = task->next) {
        task->is_dropped = true;
    }
    ag_stream_release(stream);
}

ag_status ag_stream_close(struct ag_stream *stream, bool drop)
{
    if (drop) {
        ag_stream_drop(stream);
    }
    ag_stream_wait(stream, INT64_MAX);
    while (stream->users > 0 || stream->completed < stream->submitted) {
        ag_progress_wait(INT64_MAX);
    }
    stream->is_closing = true;
    if (stream->has_worker) {
        pthread_cond_signal(&stream->has_work);
        ag_unlock(AG_LOCK_RUNTIME);
        pthread_join(stream->worker, NULL);
        ag_lock(AG_LOCK_RUNTIME);
    }
    unlink_stream(stream);
    const ag_status status = ag_stream_take_failure(stream);
    pthread_cond_destroy(&stream->has_work);
    ag_free(stream);
    ag_progress_tell();
    return status;
}

ag_status ag_stream_find(aclrtStream handle, struct ag_stream **stream)
{
    AG_TRY(ag_context_check_thread());
    if (handle) {
        *stream = ag_handle_get(AG_HANDLE_STREAM, handle);
        AG_REQUIRE(*stream, RT_INVALID_HANDLE, "stream: got %s, want a live stream", ag_handle_describe(handle));
        return AG_OK;
    }
    const struct ag_context *context = ag_context_current();
    *stream = context ? context->default_stream : NULL;
    return AG_OK;
}

/* A child of fork() has none of the workers: what they had to do is done, or not, in the parent. */
static void orphan(struct ag_stream *stream)
{
    stream->first = NULL; /* its memory is lost, not freed: a worker of the parent may have held it half changed */
    stream->has_worker = false;
    stream->users = 0;
    stream->completed = stream->submitted;
    init_condition(&stream->has_work);
}

static void after_fork_in_child(void)
{
    init_condition(&progress);
    for (struct ag_context *context = ag_context_first(); context; context = context->next) {
        for (struct ag_stream *stream = context->streams; stream; stream = stream->next) {
            orphan(stream);
        }
    }
}

/* When the program ends or unloads the library: tasks that have not begun are dropped, those that run are waited for,
 * and the worker leaves before its code goes away. */
static void stop_worker(struct ag_stream *stream)
{
    ag_stream_drop(stream);
    ag_stream_wait(stream, INT64_MAX);
    stream->is_closing = true;
    stream->has_worker = false;
    pthread_cond_signal(&stream->has_work);
    ag_unlock(AG_LOCK_RUNTIME);
    pthread_join(stream->worker, NULL);
    ag_lock(AG_LOCK_RUNTIME);
}

__attribute__((destructor)) static void stop_workers(void)
{
    ag_lock(AG_LOCK_RUNTIME);
    for (struct ag_context *context = ag_context_first(); context; context = context->next) {
        for (struct ag_stream *stream = context->streams; stream; stream = stream->next) {
            if (stream->has_worker && !stream->is_closing && !ag_stream_is_running_here(stream)) {
                stop_worker(stream);
            }
        }
    }
    ag_unlock(AG_LOCK_RUNTIME);
}
