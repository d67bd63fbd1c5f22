/* Contexts. A thread has one current context, kept as a handle: once that context is destroyed the thread has none.
 * The caller of every function here holds AG_LOCK_RUNTIME; those that wait let go of it meanwhile. */
#ifndef AG_RUNTIME_CONTEXT_H
#define AG_RUNTIME_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "base/status.h"

enum { AG_OPTION_COUNT = ACL_OPT_STRONG_CONSISTENCY + 1 };

struct ag_stream;

struct ag_context {
    aclrtContext handle;
    struct ag_context *next;   /* of all contexts of the process */
    struct ag_stream *streams; /* the default stream among them */
    struct ag_stream *default_stream;
    bool is_default; /* the device's, which aclrtSetDevice makes */
    bool has_option[AG_OPTION_COUNT];
    int64_t options[AG_OPTION_COUNT];
};

/* The thread's context, or NULL. */
struct ag_context *ag_context_current(void);

/* As above; without one 107002 and a message. */
ag_status ag_context_require(struct ag_context **context);

/* ACLGRAD_DEBUG=1 wants every thread that uses the run time to have a context: 107002 when it has none. */
ag_status ag_context_check_thread(void);

/* The device's default context, made when there is none. 207001 out of memory. */
ag_status ag_context_default(struct ag_context **context);

/* The same, NULL when there is none. */
struct ag_context *ag_context_default_if_any(void);

/* Makes it the thread's. */
void ag_context_bind(const struct ag_context *context);

/* Destroys a context whose handle the caller has taken out of the table; waits for its streams. 361001 when a task of
 * theirs had failed and nobody has synchronised since. */
ag_status ag_context_close(struct ag_context *context);

/* This thread is running a task of one of its streams (NULL: of any context's), so it cannot wait for them:
 * 107000. */
ag_status ag_context_check_not_inside(const struct ag_context *context);

/* Waits until another thread has got further, after ag_handle_remove has found that it was faster. */
void ag_context_wait_for_others(void);

/* Back to "never set" for the process-wide options. */
void ag_context_clear_options(void);

/* The first of all contexts. */
struct ag_context *ag_context_first(void);

#endif
