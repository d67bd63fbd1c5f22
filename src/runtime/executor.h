/* Executors: what phase 1 makes and phase 2 runs. One block of memory holds the operator's plan and its tables.
 *
 * Life: ag_executor_create (phase 1) -> ag_executor_run (phase 2, which consumes it) or, when the program made it
 * repeatable, any number of runs and aclDestroyAclOpExecutor. The handle is generation-tagged: a second phase 2
 * is an error, never a use of freed memory. */
#ifndef AG_RUNTIME_EXECUTOR_H
#define AG_RUNTIME_EXECUTOR_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"
#include "base/status.h"
#include "base/view.h"

/* One tensor argument of an operator, in the order of the API's parameter list: inputs first, then outputs. */
struct ag_operand {
    const char *name;
    size_t offset; /* of its struct ag_view inside the plan */
};

/* An operator as the runtime sees it. All members but adopt and describe are required. */
struct ag_operator {
    const char *name;  /* "aclnnLightningIndexerGrad": phase 2's name, starts messages */
    size_t plan_bytes; /* sizeof the plan struct */
    const struct ag_operand *operands;
    int inputs, outputs; /* numbers of operands */

    /* The plan was copied into the executor block, followed by `tables` (the table_bytes asked for, 64-byte
     * aligned): copy into them all that still points to the caller's memory, and build what phase 2 needs. The
     * plan may point into the tables but not into itself: it is copied again when a repeatable executor's task has
     * to wait. */
    void (*adopt)(void *plan, void *tables);

    /* Phase 2, on the stream's thread. `workspace` has at least plan's workspace bytes (any alignment), or is
     * NULL when that is 0. Data-dependent errors: a code and a message, with nothing written before. */
    ag_status (*run)(const void *plan, void *workspace);

    /* One line for ACLGRAD_VERBOSE=plan and `aclgrad explain`: key=value pairs separated by spaces. */
    void (*describe)(const void *plan, char *text, size_t bytes);
};

/* The operand's view inside a plan, to read or to move. */
struct ag_view *ag_operand_view(const struct ag_operator *op, void *plan, int index);

/* Makes the executor: copies *plan, reserves table_bytes, calls adopt. On success sets *workspace_size and
 * *executor; on failure (561101) touches neither. The caller has checked that both pointers are not NULL. */
ag_status ag_executor_create(const struct ag_operator *op, const void *plan, uint64_t table_bytes,
                             uint64_t workspace_bytes, uint64_t *workspace_size, aclOpExecutor **executor);

/* The end of every phase 1: ACLGRAD_VERBOSE=check tells why a call was refused. Returns `status`. */
ag_status ag_executor_tell_refusal(const struct ag_operator *op, ag_status status);

/* Phase 2 of every operator: checks executor (NULL: 161001; used up or foreign: 161002; of another operator:
 * 161002), workspace (NULL though needed: 161001; too small: 161002), that operands with elements have
 * memory (161001), stream (NULL: the default stream), then runs or queues the task. A non-repeatable executor is
 * consumed whatever happens. `op` names the operator whose phase 2 was called. */
ag_status ag_executor_run(const struct ag_operator *op, void *workspace, uint64_t workspace_size,
                          aclOpExecutor *executor, aclrtStream stream);

#endif
