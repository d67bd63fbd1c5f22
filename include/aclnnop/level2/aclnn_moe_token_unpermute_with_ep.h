/* Another place of aclnnop/aclnn_moe_token_unpermute_with_ep.h. */
#ifndef ACLNN_LEVEL2_MOE_TOKEN_UNPERMUTE_WITH_EP_H
#define ACLNN_LEVEL2_MOE_TOKEN_UNPERMUTE_WITH_EP_H
#include "aclnnop/aclnn_moe_token_unpermute_with_ep.h"
#endif
