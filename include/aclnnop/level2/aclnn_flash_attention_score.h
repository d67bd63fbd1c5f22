/* Another place of aclnnop/aclnn_flash_attention_score.h. */
#ifndef ACLNN_LEVEL2_FLASH_ATTENTION_SCORE_H
#define ACLNN_LEVEL2_FLASH_ATTENTION_SCORE_H
#include "aclnnop/aclnn_flash_attention_score.h"
#endif
