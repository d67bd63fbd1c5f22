#include "aclnnop/aclnn_lightning_indexer.h"
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "device_tensors.h"

enum { CAUSAL_RIGHT = 3, MOST_DOCUMENTS = 4096 };

/* This operator wants the ends as an int32 tensor. */
static aclTensor *ends_of(const struct documents *documents)
{
    int32_t ends[MOST_DOCUMENTS];
    device_check(documents->count <= MOST_DOCUMENTS ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM, "documents of a pack");
    for (int64_t i = 0; i < documents->count; ++i) {
        ends[i] = (int32_t)documents->ends[i];
    }
    return device_raw(ACL_INT32, ends, (struct dims){1, {documents->count}});
}

static struct dims by_head(const struct indexer *x, int64_t heads)
{
    return (struct dims){3, {x->documents.tokens, heads, INDEXER_DIM}};
}

static struct dims by_slot(const struct indexer *x)
{
    return (struct dims){3, {x->documents.tokens, 1, x->selected}};
}

static struct dims by_weight(const struct indexer *x)
{
    return (struct dims){2, {x->documents.tokens, x->heads}};
}

void indexer_forward(struct indexer *x)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    aclTensor *query = device_input(x->query, by_head(x, x->heads)), *key = device_input(x->key, by_head(x, 1));
    aclTensor *weights = device_input(x->weights, by_weight(x));
    aclTensor *query_ends = ends_of(&x->documents), *key_ends = ends_of(&x->documents);
    aclTensor *index = device_output_raw(ACL_INT32, x->index, by_slot(x));
    aclTensor *score = device_output(x->score, by_slot(x), ARRIVAL_PUT);
    const double began = device_clock();
    CHECK(aclnnLightningIndexerGetWorkspaceSize(query, key, weights, query_ends, key_ends, NULL, "TND", "TND",
                                                x->selected, CAUSAL_RIGHT, INT64_MAX, INT64_MAX, true, index, score,
                                                &bytes, &executor));
    device_run(OPERATOR_INDEXER, aclnnLightningIndexer, bytes, executor, began);
}

void indexer_backward(struct indexer *x, const struct indexer_gradients *gradients)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    aclTensor *query = device_input(x->query, by_head(x, x->heads)), *key = device_input(x->key, by_head(x, 1));
    aclTensor *weights = device_input(x->weights, by_weight(x));
    aclTensor *index = device_raw(ACL_INT32, x->index, by_slot(x));
    aclTensor *dscore = device_input(gradients->score, by_slot(x));
    aclTensor *query_ends = ends_of(&x->documents), *key_ends = ends_of(&x->documents);
    aclTensor *dquery = device_output(gradients->query, by_head(x, x->heads), ARRIVAL_PUT);
    aclTensor *dkey = device_output(gradients->key, by_head(x, 1), ARRIVAL_PUT);
    aclTensor *dweights = device_output(gradients->weights, by_weight(x), ARRIVAL_PUT);
    const double began = device_clock();
    CHECK(aclnnLightningIndexerGradGetWorkspaceSize(query, key, dscore, index, weights, query_ends, key_ends,
                                                    x->heads, "TND", CAUSAL_RIGHT, INT64_MAX, INT64_MAX, true, dquery,
                                                    dkey, dweights, &bytes, &executor));
    device_run(OPERATOR_INDEXER_GRAD, aclnnLightningIndexerGrad, bytes, executor, began);
}
