/* What stands behind a stream handle: tickets, a queue, a worker thread.
 *
 * Every task of a stream draws a ticket and runs when all earlier tickets are done. Synchronous streams run it in
 * the thread that submitted it; asynchronous ones (ACLGRAD_ASYNC=1) put it into a queue for the stream's worker.
 * The caller of every function here holds AG_LOCK_RUNTIME; those that wait let go of it meanwhile. */
#ifndef AG_RUNTIME_STREAM_QUEUE_H
#define AG_RUNTIME_STREAM_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/context.h"
#include "runtime/stream.h"

struct queued_task;

struct ag_stream {
    aclrtStream handle;
    struct ag_context *context;
    struct ag_stream *next;       /* of the same context */
    int64_t submitted, completed; /* last ticket drawn, last ticket done */
    int64_t released; /* last ticket the worker may begin: checked mode holds tasks back until somebody waits */
    int64_t users;    /* threads that wait for it: it is not freed before they have left */
    struct queued_task *first, *last;
    pthread_t worker;
    pthread_cond_t has_work;
    bool has_worker, is_closing;
    ag_status failure; /* of the first failed task since the last synchronisation */
    char failure_text[512];
};

/* A new stream of the context; NULL, with a message, when out of memory. */
struct ag_stream *ag_stream_open(struct ag_context *context);

/* Waits for its tasks (drop: does not run those that have not begun) and frees it. 361001 as
 * ag_stream_take_failure. The caller has taken the handle out of the table, and this thread is not in one of its
 * tasks. */
ag_status ag_stream_close(struct ag_stream *stream, bool drop);

/* The live stream of a handle. NULL: the default stream of the thread's context; without a context *stream is NULL,
 * which stands for "at once, in this thread" (ACLGRAD_DEBUG=1: 107002). 107017 not a live stream. */
ag_status ag_stream_find(aclrtStream handle, struct ag_stream **stream);

/* Waits until all tickets drawn so far are done or the deadline (INT64_MAX: none) is over; false then. */
bool ag_stream_wait(struct ag_stream *stream, int64_t deadline_ns);

/* Lets a worker in checked mode begin all that was submitted so far. */
void ag_stream_release(struct ag_stream *stream);

/* Lets the tasks that have not begun pass without running. */
void ag_stream_drop(struct ag_stream *stream);

/* 361001, with the kept message, when a task had failed; clears it. */
ag_status ag_stream_take_failure(struct ag_stream *stream);

/* This thread is running a task of that stream. */
bool ag_stream_is_running_here(const struct ag_stream *stream);

/* Waits until anything has happened on any stream or deadline_ns (of ag_clock_ns; INT64_MAX: never) is over; false
 * then. */
bool ag_progress_wait(int64_t deadline_ns);
void ag_progress_tell(void);

/* The moment timeout_ms from now; -1: INT64_MAX. */
int64_t ag_deadline_ns(int32_t timeout_ms);

#endif
