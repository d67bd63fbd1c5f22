/* Another place of aclnnop/aclnn_lightning_indexer.h. */
#ifndef ACLNN_LEVEL2_LIGHTNING_INDEXER_H
#define ACLNN_LEVEL2_LIGHTNING_INDEXER_H
#include "aclnnop/aclnn_lightning_indexer.h"
#endif
