/* Asks an operator for the impossible and prints what the library has to say: no data needed to see that
 * headers, library and messages are found. */
#include <stdio.h>

#include "aclgrad/aclgrad.h"
#include "acl/acl.h"
#include "aclnn_moe_token_unpermute_with_ep_grad.h"

int main(void)
{
    uint64_t workspace_bytes = 0;
    aclOpExecutor *executor = NULL;
    const aclnnStatus status = aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
        NULL, NULL, NULL, NULL, false, NULL, NULL, 1, NULL, NULL, &workspace_bytes, &executor);
    const char *message = aclGetRecentErrMsg();
    printf("aclgrad %s\nstatus %d, %s\n", aclgrad_version(), status,
           message ? "with a message" : "without a message");
    return executor != NULL;
}
