/* aclGetRecentErrMsg, and the functions that a host does not support. */
#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "base/status.h"

const char *aclGetRecentErrMsg(void)
{
    return ag_error_take();
}
