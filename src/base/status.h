/* Status codes and the message that goes with them.
 *
 * The function that first knows a cause writes the message (ag_fail, through AG_REQUIRE) and returns the
 * code; everyone above forwards the code (AG_TRY). The message is thread-local; aclGetRecentErrMsg hands it
 * out and clears it. Numbers: the aclnn and acl tables of the documented API. */
#ifndef AG_BASE_STATUS_H
#define AG_BASE_STATUS_H

#include <stdint.h>

/* The codes our own code returns. X(name, number, text). */
#define AG_STATUS_LIST(X)                                                                                            \
    X(OK, 0, "success")                                                                                              \
    X(NULLPTR, 161001, "a needed pointer is null")                                                                   \
    X(INVALID, 161002, "an argument is invalid")                                                                     \
    X(RUNTIME, 361001, "a task failed at run time")                                                                  \
    X(INNER, 561000, "internal error")                                                                               \
    X(TILING, 561002, "shapes or attributes do not fit together")                                                    \
    X(CREATE_EXECUTOR, 561101, "out of memory for the executor")                                                     \
    X(INNER_NULLPTR, 561103, "a handle is null")                                                                     \
    X(ACL_INVALID_PARAM, 100000, "an argument is invalid")                                                           \
    X(ACL_REPEAT_INITIALIZE, 100002, "already initialised")                                                          \
    X(ACL_INVALID_FILE, 100003, "a file cannot be read")                                                             \
    X(ACL_REPEAT_FINALIZE, 100037, "already finalised")                                                              \
    X(ACL_BAD_ALLOC, 200000, "out of host memory")                                                                   \
    X(ACL_UNSUPPORTED, 200006, "not supported on a host")                                                            \
    X(RT_PARAM_INVALID, 107000, "an argument is invalid")                                                            \
    X(RT_INVALID_DEVICE, 107001, "no such device")                                                                   \
    X(RT_CONTEXT_NULL, 107002, "the thread has no context")                                                          \
    X(RT_STREAM_CONTEXT, 107003, "the stream belongs to another context")                                            \
    X(RT_EVENT_TIMESTAMP_INVALID, 107006, "the event has no time stamp")                                             \
    X(RT_EVENT_TIMESTAMP_REVERSAL, 107007, "the end event is older than the start event")                            \
    X(RT_INVALID_HANDLE, 107017, "not a live handle of this kind")                                                   \
    X(RT_SYSPARAM_NOT_SET, 107021, "the option was never set")                                                       \
    X(RT_NO_STREAM_RESOURCE, 207008, "no thread for a stream")                                                       \
    X(RT_MEMORY_ALLOCATION, 207001, "out of memory")                                                                 \
    X(RT_STREAM_SYNC_TIMEOUT, 507046, "the stream did not finish in time")                                           \
    X(RT_EVENT_SYNC_TIMEOUT, 507047, "the event did not finish in time")

enum ag_status_code {
#define AG_STATUS_ENUM(name, number, text) AG_##name = number,
    AG_STATUS_LIST(AG_STATUS_ENUM)
#undef AG_STATUS_ENUM
};

typedef int32_t ag_status;

/* "INVALID"; NULL for a number that is not in the list. */
const char *ag_status_name(ag_status status);

/* Names the public function on whose behalf this thread now works; it starts every message.
 * `function` must be a string literal (it is kept by pointer). */
void ag_error_enter(const char *function);

/* Writes this thread's message "EZ1001: <function>: <text>" and returns `status`. The last failure wins. */
ag_status ag_fail(ag_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes `text`, a whole message that another thread kept, this thread's message; returns `status`. */
ag_status ag_fail_again(ag_status status, const char *text);

/* This thread's message, or NULL when there is none; the text stays until the next call in this thread. */
const char *ag_error_peek(void);

/* As ag_error_peek, and clears: a second call returns NULL. */
const char *ag_error_take(void);

/* Drops the message, if any. */
void ag_error_clear(void);

#endif
