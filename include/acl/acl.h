/* Everything of acl. aclInit, aclFinalize and aclGetRecentErrMsg are declared in acl_rt.h. */
#ifndef ACL_ACL_H
#define ACL_ACL_H
#include "acl/acl_rt.h"
#include "acl/acl_op.h"
#include "acl/acl_mdl.h"
#endif
