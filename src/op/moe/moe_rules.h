/* Rules that all operators of this folder have: what a tensor must be, and what the window makes of the positions.
 * Inputs come first in a list of tensors, then outputs, each as the API lists them. */
#ifndef AG_OP_MOE_RULES_H
#define AG_OP_MOE_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "aclnn/acl_meta.h"
#include "base/status.h"
#include "base/view.h"

/* --- limits ---------------------------------------------------------------------------------------------- */

/* The largest values accepted. A row of the table per enum ag_limits. */
struct moe_limits {
    int64_t topk;
    int64_t sorted_slots; /* that permute sorts */
};
extern const struct moe_limits moe_limits_table[];

/* --- tensors --------------------------------------------------------------------------------------------- */

/* A tensor under the name the caller knows. An absent one breaks no rule. */
struct moe_tensor {
    const char *name;
    const struct ag_view *view;
    int rank;       /* wanted */
    bool is_output; /* contiguous, in memory of its own */
    bool is_unused; /* an output that this call does not write: only its format and its storage are looked at */
};

/* BF16, FLOAT16 or FLOAT: 161002. */
ag_status moe_require_float(const struct ag_view *view, const char *name);

/* Formats, then that the views stay in their storage: 161002. */
ag_status moe_check_memory(const struct moe_tensor *tensors, int count);

/* 161002 */
ag_status moe_check_output_strides(const struct moe_tensor *tensors, int count);

/* 561002 */
ag_status moe_check_ranks(const struct moe_tensor *tensors, int count);

/* 161002 when an output shares bytes with an input or with another output. The addresses may change between the
 * phases, so both ask. */
ag_status moe_check_overlap(const struct moe_tensor *tensors, int count);

/* 161001 when workspaceSize or executor is NULL; they are only tested against that. */
ag_status moe_require_results(const uint64_t *workspace_size, aclOpExecutor *const *executor);

/* 161002 */
ag_status moe_check_padded_mode(bool padded_mode);

/* --- sizes ----------------------------------------------------------------------------------------------- */

/* T, H, K and N, and the arguments that they come from. */
struct moe_sizes {
    int64_t tokens, hidden, topk, slots;
    const char *tokens_name, *topk_name, *slots_name;
};

/* None is 0, K is within the limits, N within int32, N = T * K: 561002. */
ag_status moe_check_sizes(const struct moe_sizes *sizes);
ag_status moe_check_slots(const struct moe_sizes *sizes); /* the last of these */

/* Dim 1 of a [rows, H] tensor: 561002 */
ag_status moe_check_hidden(const struct ag_view *view, const char *name, int64_t hidden, const char *of);

/* rows * H floats fit 64 bits: 561002 */
ag_status moe_check_bytes(int64_t rows, int64_t hidden, const char *name);

/* --- the window ------------------------------------------------------------------------------------------ */

/* Positions [begin, end) of the sorted order, 0 <= begin <= end <= N. */
struct moe_window {
    int64_t begin, end;
};

/* No range: the whole order. A negative value counts from the end, what lies outside [0, N] moves to its edge; an end before
 * the start: 561002. */
ag_status moe_read_window(const aclIntArray *range, int64_t slots, struct moe_window *window);

/* As moe_read_window, but a value outside [0, N] is 561002, too. */
ag_status moe_read_window_exactly(const aclIntArray *range, int64_t slots, struct moe_window *window);

/* Of the window's rows, those that `given` rows hold. Fewer rows than the window has: the forward has dropped the rest. No row
 * at all is refused unless none is needed, 561002: it would silently drop every token. */
ag_status moe_count_rows(const struct moe_window *window, int64_t given, const char *name, int64_t *local_rows);

#endif
