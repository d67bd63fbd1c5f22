/* aclnn: start and end, and (with acl_meta.h and op_errno.h) all that an operator's header needs. */
#ifndef ACLNN_BASE_H
#define ACLNN_BASE_H

#include "aclnn/acl_meta.h"
#include "opdev/op_errno.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Optional besides aclInit, and mixes with it freely; `configPath` may be null and is otherwise only tried for
 * reading. Always allowed, any number of times.
 * 0; 161002 when the file cannot be read or an ACLGRAD_* variable of the environment has a bad value. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnInit(const char *configPath);

/* The counterpart of aclnnInit. 0 always: nothing is kept that could be in use. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
