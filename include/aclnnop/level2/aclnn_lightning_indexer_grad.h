/* Another place of aclnnop/aclnn_lightning_indexer_grad.h. */
#ifndef ACLNN_LEVEL2_LIGHTNING_INDEXER_GRAD_H
#define ACLNN_LEVEL2_LIGHTNING_INDEXER_GRAD_H
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#endif
