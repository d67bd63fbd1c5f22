/* Events. An event refers to a point: a place in a stream's order, done at some moment. Recording again makes a new
 * point, so that whoever waits for the old one is not disturbed; and an event may be destroyed before its point is
 * done. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>

#include "acl/acl_rt.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"
#include "runtime/event.h"
#include "runtime/handle.h"
#include "runtime/stream_queue.h"

/* Points and events are guarded by AG_LOCK_RUNTIME. */
struct point {
    int64_t references;
    aclrtStream stream; /* where it was recorded; may be destroyed since */
    bool is_done;
    int64_t time_ns; /* when it was done; 0: it was dropped */
};

struct event {
    aclrtEvent handle;
    struct event *next;
    int64_t references; /* the handle's, and one per wait that is not over */
    uint32_t flags;
    struct point *point; /* NULL: never recorded */
    int64_t waits;       /* aclrtStreamWaitEvent calls whose stream still waits */
};

static struct event *first_event;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* --- references ------------------------------------------------------------------------------------------ */

static void release_point(struct point *point)
{
    if (point && --point->references == 0) {
        ag_free(point);
    }
}

static void release_event(struct event *event)
{
    if (--event->references == 0) {
        struct event **link = &first_event;
        while (*link != event) {
            link = &(*link)->next;
        }
        *link = event->next;
        release_point(event->point);
        ag_free(event);
    }
}

/* The worker of a stream in a child of fork() does not exist: nothing to wait for. */
static void after_fork_in_child(void)
{
    for (struct event *event = first_event; event; event = event->next) {
        if (event->point) {
            event->point->is_done = true;
        }
        event->waits = 0;
    }
}

static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* --- life ------------------------------------------------------------------------------------------------ */

static ag_status create(aclrtEvent *handle, uint32_t flags)
{
    const uint32_t known = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                           ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;
    AG_REQUIRE(handle, ACL_INVALID_PARAM, "event: null");
    AG_REQUIRE((flags & ~known) == 0, RT_PARAM_INVALID, "flag: got 0x%" PRIx32 ", want a set of ACL_EVENT_*", flags);
    AG_TRY(ag_context_check_thread());
    struct event *event = ag_alloc_zeroed(sizeof *event);
    if (event) {
        event->handle = ag_handle_create(AG_HANDLE_EVENT, event);
    }
    if (!event || !event->handle) {
        ag_free(event);
        return ag_fail(AG_RT_MEMORY_ALLOCATION, "out of memory for an event");
    }
    event->references = 1;
    event->flags = flags;
    event->next = first_event;
    first_event = event;
    *handle = event->handle;
    return AG_OK;
}

static ag_status create_locked(aclrtEvent *event, uint32_t flags)
{
    ag_lock(AG_LOCK_RUNTIME);
    pthread_once(&once, register_fork_handler);
    const ag_status status = create(event, flags);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtCreateEvent(aclrtEvent *event)
{
    ag_error_enter(__func__);
    return create_locked(event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
    ag_error_enter(__func__);
    return create_locked(event, flag);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    ag_error_enter(__func__);
    return create_locked(event, flag);
}

static ag_status find(aclrtEvent handle, const char *argument, struct event **event)
{
    AG_REQUIRE(handle, ACL_INVALID_PARAM, "%s: null", argument);
    *event = ag_handle_get(AG_HANDLE_EVENT, handle);
    AG_REQUIRE(*event, RT_INVALID_HANDLE, "%s: got %s, want a live event", argument, ag_handle_describe(handle));
    return AG_OK;
}

static ag_status destroy(aclrtEvent handle)
{
    struct event *event;
    AG_TRY(find(handle, "event", &event));
    ag_handle_remove(AG_HANDLE_EVENT, handle);
    release_event(event);
    return AG_OK;
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = destroy(event);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

void ag_event_destroy_all(void)
{
    struct event *next;
    for (struct event *event = first_event; event; event = next) {
        next = event->next;
        if (ag_handle_remove(AG_HANDLE_EVENT, event->handle)) {
            release_event(event);
        }
    }
}

/* --- recording ------------------------------------------------------------------------------------------- */

static ag_status reach_point(void *point_pointer)
{
    struct point *point = point_pointer;
    ag_lock(AG_LOCK_RUNTIME);
    point->time_ns = ag_clock_ns();
    ag_unlock(AG_LOCK_RUNTIME);
    return AG_OK;
}

/* Also for a point that was dropped with its stream's work: whoever waits must not wait for ever. */
static void leave_point(void *point_pointer)
{
    struct point *point = point_pointer;
    ag_lock(AG_LOCK_RUNTIME);
    point->is_done = true;
    release_point(point);
    ag_progress_tell();
    ag_unlock(AG_LOCK_RUNTIME);
}

static ag_status new_point(aclrtEvent handle, aclrtStream stream, struct point **point)
{
    struct event *event;
    struct ag_stream *found;
    AG_TRY(find(handle, "event", &event));
    AG_TRY(ag_stream_find(stream, &found));
    *point = ag_alloc_zeroed(sizeof **point);
    AG_REQUIRE(*point, RT_MEMORY_ALLOCATION, "out of memory for a point in the stream");
    (*point)->references = 2; /* the event's and the task's */
    (*point)->stream = found ? found->handle : NULL;
    release_point(event->point);
    event->point = *point;
    return AG_OK;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    struct point *point;
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = new_point(event, stream, &point);
    ag_unlock(AG_LOCK_RUNTIME);
    AG_TRY(status);
    return ag_stream_submit(stream, (struct ag_task){reach_point, leave_point, point, 0});
}

static ag_status forget_point(aclrtEvent handle, aclrtStream stream)
{
    struct event *event;
    struct ag_stream *found;
    AG_TRY(find(handle, "event", &event));
    AG_TRY(ag_stream_find(stream, &found));
    release_point(event->point);
    event->point = NULL;
    return AG_OK;
}

/* What was submitted before holds its own reference to the point, so forgetting at once keeps the order. */
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = forget_point(event, stream);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

/* --- waiting --------------------------------------------------------------------------------------------- */

/* In checked mode the stream's worker holds back: let it go as far as the point. */
static void release_stream_of(const struct point *point)
{
    struct ag_stream *stream = ag_handle_get(AG_HANDLE_STREAM, point->stream);
    if (stream && !point->is_done) {
        ag_stream_release(stream);
    }
}

static bool wait_for_point(const struct point *point, int64_t deadline_ns)
{
    release_stream_of(point);
    while (!point->is_done && ag_progress_wait(deadline_ns)) {
    }
    return point->is_done;
}

struct wait {
    struct event *event;
    struct point *point;
};

static ag_status run_wait(void *context)
{
    const struct wait *wait = context;
    ag_lock(AG_LOCK_RUNTIME);
    wait_for_point(wait->point, INT64_MAX);
    ag_unlock(AG_LOCK_RUNTIME);
    return AG_OK;
}

static void end_wait(void *context)
{
    const struct wait *wait = context;
    ag_lock(AG_LOCK_RUNTIME);
    --wait->event->waits;
    release_event(wait->event);
    release_point(wait->point);
    ag_unlock(AG_LOCK_RUNTIME);
}

static ag_status begin_wait(aclrtEvent handle, aclrtStream stream, struct wait *wait)
{
    struct ag_stream *found;
    AG_TRY(find(handle, "event", &wait->event));
    AG_TRY(ag_stream_find(stream, &found));
    wait->point = wait->event->point;
    if (wait->point) {
        ++wait->point->references;
        ++wait->event->references;
        ++wait->event->waits;
    }
    return AG_OK;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    struct wait wait;
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = begin_wait(event, stream, &wait);
    ag_unlock(AG_LOCK_RUNTIME);
    if (status != AG_OK || !wait.point) {
        return status;
    }
    return ag_stream_submit(stream, (struct ag_task){run_wait, end_wait, &wait, sizeof wait});
}

static ag_status synchronize(aclrtEvent handle, int32_t timeout)
{
    struct event *event;
    AG_TRY(find(handle, "event", &event));
    struct point *point = event->point;
    if (!point) {
        return AG_OK;
    }
    ++point->references;
    const bool is_done = wait_for_point(point, ag_deadline_ns(timeout));
    release_point(point);
    AG_REQUIRE(is_done, RT_EVENT_SYNC_TIMEOUT, "event: not reached after %d ms", (int)timeout);
    return AG_OK;
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = synchronize(event, -1);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout)
{
    ag_error_enter(__func__);
    AG_REQUIRE(timeout >= -1, RT_PARAM_INVALID, "timeout: got %d, want -1 or more", (int)timeout);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = synchronize(event, timeout);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

/* --- asking ---------------------------------------------------------------------------------------------- */

static ag_status ask(aclrtEvent handle, const void *answer, bool *is_reached)
{
    struct event *event;
    AG_TRY(find(handle, "event", &event));
    AG_REQUIRE(answer, ACL_INVALID_PARAM, "status: null");
    *is_reached = event->point && event->point->is_done;
    if (event->point) {
        release_stream_of(event->point); /* whoever polls waits, too */
    }
    return AG_OK;
}

static ag_status ask_locked(aclrtEvent event, const void *answer, bool *is_reached)
{
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = ask(event, answer, is_reached);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    bool is_reached;
    ag_error_enter(__func__);
    AG_TRY(ask_locked(event, status, &is_reached));
    *status = is_reached ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return AG_OK;
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status)
{
    bool is_reached;
    ag_error_enter(__func__);
    AG_TRY(ask_locked(event, status, &is_reached));
    *status = is_reached ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return AG_OK;
}

static ag_status ask_waits(aclrtEvent handle, aclrtEventWaitStatus *status)
{
    struct event *event;
    AG_TRY(find(handle, "event", &event));
    AG_REQUIRE(status, ACL_INVALID_PARAM, "status: null");
    *status = event->waits == 0 ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return AG_OK;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status code = ask_waits(event, status);
    ag_unlock(AG_LOCK_RUNTIME);
    return code;
}

/* --- times ----------------------------------------------------------------------------------------------- */

static ag_status get_time(aclrtEvent handle, const char *argument, int64_t *time_ns)
{
    struct event *event;
    AG_TRY(find(handle, argument, &event));
    AG_REQUIRE(event->flags & ACL_EVENT_TIME_LINE, RT_EVENT_TIMESTAMP_INVALID, "%s: made without ACL_EVENT_TIME_LINE",
               argument);
    AG_REQUIRE(event->point, RT_EVENT_TIMESTAMP_INVALID, "%s: never recorded", argument);
    AG_REQUIRE(event->point->is_done && event->point->time_ns, RT_EVENT_TIMESTAMP_INVALID, "%s: not reached yet",
               argument);
    *time_ns = event->point->time_ns;
    return AG_OK;
}

static ag_status get_both_times(aclrtEvent start, aclrtEvent end, int64_t *start_ns, int64_t *end_ns)
{
    AG_TRY(get_time(start, "startEvent", start_ns));
    AG_TRY(get_time(end, "endEvent", end_ns));
    AG_REQUIRE(*end_ns >= *start_ns, RT_EVENT_TIMESTAMP_REVERSAL, "endEvent: lies %" PRId64 " ns before startEvent",
               *start_ns - *end_ns);
    return AG_OK;
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    int64_t start_ns = 0, end_ns = 0;
    ag_error_enter(__func__);
    AG_REQUIRE(ms, ACL_INVALID_PARAM, "ms: null");
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = get_both_times(startEvent, endEvent, &start_ns, &end_ns);
    ag_unlock(AG_LOCK_RUNTIME);
    AG_TRY(status);
    *ms = (float)((double)(end_ns - start_ns) * 1e-6);
    return AG_OK;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp)
{
    int64_t time_ns = 0;
    ag_error_enter(__func__);
    AG_REQUIRE(timestamp, ACL_INVALID_PARAM, "timestamp: null");
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = get_time(event, "event", &time_ns);
    ag_unlock(AG_LOCK_RUNTIME);
    AG_TRY(status);
    *timestamp = (uint64_t)(time_ns / 1000);
    return AG_OK;
}
