/* Handles: what a program holds instead of a pointer to our memory.
 *
 * A handle is a number that only looks like a pointer: kind, generation and slot of a process-wide table, under a
 * prefix that no user-space address has. So a pointer to a handle, a stale handle, a handle of another kind
 * and any stray pointer are all told apart from a live handle without touching the memory they point to. */
#ifndef AG_RUNTIME_HANDLE_H
#define AG_RUNTIME_HANDLE_H

#include <stdint.h>

enum ag_handle_kind {
    AG_HANDLE_NONE,
    AG_HANDLE_CONTEXT,
    AG_HANDLE_STREAM,
    AG_HANDLE_EVENT,
    AG_HANDLE_TENSOR,
    AG_HANDLE_TENSOR_LIST,
    AG_HANDLE_SCALAR,
    AG_HANDLE_SCALAR_LIST,
    AG_HANDLE_INT_ARRAY,
    AG_HANDLE_FLOAT_ARRAY,
    AG_HANDLE_BOOL_ARRAY,
    AG_HANDLE_EXECUTOR,
    AG_HANDLE_DATA_BUFFER,
    AG_HANDLE_KINDS
};

/* "stream" */
const char *ag_handle_kind_name(enum ag_handle_kind kind);

/* Enters `object` (not NULL) and returns its handle; NULL when out of memory. The object stays the caller's. */
void *ag_handle_create(enum ag_handle_kind kind, void *object);

/* The object behind a live handle of that kind; NULL for anything else. Thread-safe, no lock, constant time. */
void *ag_handle_get(enum ag_handle_kind kind, const void *handle);

/* Takes the handle out of the table and returns its object; NULL when it is not live. Of two threads that
 * remove the same handle exactly one gets the object. */
void *ag_handle_remove(enum ag_handle_kind kind, const void *handle);

/* What `handle` is: "a live stream", "a stale tensor", "not a handle of this library"; for messages. */
const char *ag_handle_describe(const void *handle);

/* Number of live handles of a kind. */
int64_t ag_handle_count(enum ag_handle_kind kind);

/* Calls visit(object, context) for every live handle of a kind. The table is locked meanwhile. */
void ag_handle_each(enum ag_handle_kind kind, void (*visit)(void *handle, void *object, void *context),
                    void *context);

#endif
