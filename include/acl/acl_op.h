/* Exists so that programs which include it compile. It declares nothing of the
 * single-operator interface: operators are called through aclnn. */
#ifndef ACL_ACL_OP_H
#define ACL_ACL_OP_H
#include "acl/acl_base.h"
#endif
