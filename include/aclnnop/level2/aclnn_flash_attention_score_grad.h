/* Another place of aclnnop/aclnn_flash_attention_score_grad.h. */
#ifndef ACLNN_LEVEL2_FLASH_ATTENTION_SCORE_GRAD_H
#define ACLNN_LEVEL2_FLASH_ATTENTION_SCORE_GRAD_H
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#endif
