/* Exists so that programs which include it compile. It declares nothing of the
 * model interface: this library runs no models. */
#ifndef ACL_ACL_MDL_H
#define ACL_ACL_MDL_H
#include "acl/acl_base.h"
#endif
