/* ACLGRAD_DEBUG=1: what phase 2 checks and does in addition. */
#ifndef AG_RUNTIME_CHECKED_MODE_H
#define AG_RUNTIME_CHECKED_MODE_H

#include <stdint.h>

#include "base/status.h"
#include "runtime/executor.h"

/* 161002 for an operand that begins in an allocation of aclrtMalloc and does not stay inside. */
ag_status ag_checked_allocations(const struct ag_operator *op, void *plan);

/* The same for the workspace. */
ag_status ag_checked_workspace(const void *workspace, uint64_t bytes);

/* Makes every element of every output that overlaps no input NaN: what is read before the stream is synchronised
 * shows. */
void ag_checked_spoil_outputs(const struct ag_operator *op, void *plan);

#endif
