/* Streams: where tasks run. Synchronous by default (a task runs inside the submitting call); with ACLGRAD_ASYNC=1
 * every stream has one worker thread and submitting returns at once. */
#ifndef AG_RUNTIME_STREAM_H
#define AG_RUNTIME_STREAM_H

#include <stddef.h>

#include "acl/acl_base.h"
#include "base/status.h"

struct ag_task {
    /* Runs the task; its failure is returned by the submitting call (synchronous) or, as 361001 with the message
     * kept, by the call that synchronises the stream. */
    ag_status (*run)(void *context);
    /* Releases what the context holds, whether the task ran or was dropped. May be NULL. Must not wait. */
    void (*release)(void *context);
    void *context;
    size_t context_bytes; /* copied when the task has to wait in a queue; 0: the pointer itself is kept */
};

/* Runs or queues a task on `stream` (NULL: the default stream of the thread's context; without a context the task
 * runs at once, unless ACLGRAD_DEBUG=1: then 107002). A bad handle: 107017, nothing runs. The task is released in
 * every case. */
ag_status ag_stream_submit(aclrtStream stream, struct ag_task task);

/* Waits until all that was submitted to the stream is done; failures of tasks stay where they are. A task of the
 * stream itself does not wait. */
ag_status ag_stream_settle(aclrtStream stream);

/* The status that ag_stream_submit would give for the stream alone. */
ag_status ag_stream_check(aclrtStream stream);

#endif
