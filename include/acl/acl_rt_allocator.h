/* Exists so that programs which include it compile. It declares nothing of the
 * user-defined allocators: device memory is host memory here. */
#ifndef ACL_ACL_RT_ALLOCATOR_H
#define ACL_ACL_RT_ALLOCATOR_H
#include "acl/acl_base.h"
#endif
