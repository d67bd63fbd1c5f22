/* Another place of aclnnop/aclnn_moe_token_unpermute_grad.h. */
#ifndef ACLNN_LEVEL2_MOE_TOKEN_UNPERMUTE_GRAD_H
#define ACLNN_LEVEL2_MOE_TOKEN_UNPERMUTE_GRAD_H
#include "aclnnop/aclnn_moe_token_unpermute_grad.h"
#endif
