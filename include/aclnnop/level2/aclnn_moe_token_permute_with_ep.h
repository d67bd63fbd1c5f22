/* Another place of aclnnop/aclnn_moe_token_permute_with_ep.h. */
#ifndef ACLNN_LEVEL2_MOE_TOKEN_PERMUTE_WITH_EP_H
#define ACLNN_LEVEL2_MOE_TOKEN_PERMUTE_WITH_EP_H
#include "aclnnop/aclnn_moe_token_permute_with_ep.h"
#endif
