/* Another name of acl_base.h. */
#ifndef ACL_BASE_RT_H
#define ACL_BASE_RT_H
#include "acl/acl_base.h"
#endif
