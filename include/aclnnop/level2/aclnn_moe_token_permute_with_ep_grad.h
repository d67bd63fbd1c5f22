/* Another place of aclnnop/aclnn_moe_token_permute_with_ep_grad.h. */
#ifndef ACLNN_LEVEL2_MOE_TOKEN_PERMUTE_WITH_EP_GRAD_H
#define ACLNN_LEVEL2_MOE_TOKEN_PERMUTE_WITH_EP_GRAD_H
#include "aclnnop/aclnn_moe_token_permute_with_ep_grad.h"
#endif
