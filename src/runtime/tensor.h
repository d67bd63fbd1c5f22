/* From the API's opaque objects to plain values. Checks of the operators start here; after them nobody sees an
 * aclTensor again. */
#ifndef AG_RUNTIME_TENSOR_H
#define AG_RUNTIME_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "aclnn/acl_meta.h"
#include "base/status.h"
#include "base/view.h"

/* Copies the descriptor of `tensor` into *view. NULL gives an absent view and AG_OK (whether NULL is allowed is the
 * operator's business). A handle that is not a live tensor: 161002, message names `argument`. */
ag_status ag_tensor_view(const aclTensor *tensor, const char *argument, struct ag_view *view);

/* As ag_tensor_view, and 161001 when tensor is NULL. */
ag_status ag_tensor_view_required(const aclTensor *tensor, const char *argument, struct ag_view *view);

/* As ag_tensor_view for an optional input: a rank-0 tensor, and one with a zero dim, count as absent. */
ag_status ag_tensor_view_optional(const aclTensor *tensor, const char *argument, struct ag_view *view);

/* The values of an int array: the pointer lives as long as the array. NULL and size 0 both give count 0. */
ag_status ag_int_array_values(const aclIntArray *array, const char *argument, const int64_t **values, int64_t *count);

/* The view stays inside its storage: 161002 with name, span and storage size. */
ag_status ag_require_inside_storage(const struct ag_view *view, const char *argument);

/* The format is one whose elements lie where dims and strides say (ND, NCHW, ...; not a private one): 161002 "query:
 * format ACL_FORMAT_FRACTAL_NZ (29), want ND or another row-major one". */
ag_status ag_require_row_major(const struct ag_view *view, const char *argument);

/* "ACL_FORMAT_FRACTAL_NZ", "unknown" */
const char *ag_format_name(int format);

/* dims equal: 161002 "query: shape [..], want [..]" (or the status given). */
ag_status ag_require_shape(ag_status status, const struct ag_view *view, const char *argument, int rank,
                           const int64_t *dims);

/* dtype equal: message "key: dtype FLOAT16, want BF16 (that of query)"; `reason` may be "". */
ag_status ag_require_dtype(ag_status status, const struct ag_view *view, const char *argument, int dtype,
                           const char *reason);

#endif
