/* Objects behind aclnn handles: tensors, scalars, arrays, lists. All live and die alike. */
#ifndef AG_RUNTIME_OBJECT_H
#define AG_RUNTIME_OBJECT_H

#include <stddef.h>

#include "base/status.h"
#include "runtime/handle.h"

/* A new object of `bytes` (content undefined, for the caller to fill) and its handle; NULL, with a message, when
 * out of memory. */
void *ag_object_create(enum ag_handle_kind kind, size_t bytes, void **object);

/* *object of a live handle. 161001 handle NULL; 161002 not a live one of that kind; the message names `argument`. */
ag_status ag_object_get(enum ag_handle_kind kind, const void *handle, const char *argument, void **object);

/* AG_OK, NULL included; 161002 not a live handle of that kind, or one that a list has taken over. */
ag_status ag_object_destroy(enum ag_handle_kind kind, const void *handle, const char *argument);

/* Marks a live object as a list's; false when it is one already. */
int ag_object_claim(void *object);
void ag_object_unclaim(void *object);

#endif
