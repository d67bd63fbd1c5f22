/* Exists so that programs which include it compile. It declares nothing of the
 * operator compiler interface: nothing is compiled on a host. */
#ifndef ACL_ACL_OP_COMPILER_H
#define ACL_ACL_OP_COMPILER_H
#include "acl/acl_base.h"
#endif
