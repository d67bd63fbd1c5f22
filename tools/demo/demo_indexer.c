/* Indexer of a DeepSeek-like layer: 64 heads of 128, and for each query token the 2048 best of up to 4096 earlier ones. The
 * queries are the last tokens of two sequences, packed. */
#include <stdlib.h>

#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "base/config.h"
#include "base/half.h"
#include "base/parallel.h"
#include "demo.h"
#include "op/indexer/indexer.h"

enum { SEQUENCES = 2, QUERIES = 72, KEYS = 6700, HEADS = 64, DIM = 128, TOPK = 2048 };

static const int32_t query_end[SEQUENCES] = {40, QUERIES}, key_end[SEQUENCES] = {4096, KEYS};
static char layout[] = "TND";

static struct demo_tensor query, key, dy, indices, weights, query_lengths, key_lengths, dq, dk, dweights;

struct forward {
    float *query, *key, *weights;
};

struct scored {
    float score;
    int32_t key;
};

static int better_first(const void *left, const void *right)
{
    const struct scored *a = left, *b = right;
    return a->score != b->score ? (a->score < b->score ? 1 : -1) : a->key - b->key;
}

/* Item: a query row. The forward operator: scores of the visible keys, the best TOPK of them. */
static void select_row(void *context, int64_t row, int lane)
{
    (void)lane;
    const struct forward *f = context;
    const int64_t b = row >= query_end[0], key_begin = b ? key_end[0] : 0;
    const int64_t visible = key_end[b] - key_begin - (query_end[b] - 1 - row);
    struct scored *all = demo_alloc(visible, sizeof *all);
    for (int64_t t = 0; t < visible; ++t) {
        all[t].key = (int32_t)t;
        for (int64_t h = 0; h < HEADS; ++h) {
            const float product = demo_dot(f->query + (row * HEADS + h) * DIM, f->key + (key_begin + t) * DIM, DIM);
            all[t].score += product > 0 ? product * f->weights[row * HEADS + h] : 0;
        }
    }
    qsort(all, (size_t)visible, sizeof *all, better_first);
    for (int64_t j = 0; j < TOPK; ++j) {
        ((int32_t *)indices.memory)[row * TOPK + j] = j < visible ? all[j].key : -1;
    }
    free(all);
}

static void fill_lengths(const struct demo_tensor *tensor, const int32_t *values)
{
    for (int b = 0; b < SEQUENCES; ++b) {
        ((int32_t *)tensor->memory)[b] = values[b];
    }
}

static void prepare(void)
{
    const int64_t q_dims[3] = {QUERIES, HEADS, DIM}, k_dims[3] = {KEYS, 1, DIM}, w_dims[2] = {QUERIES, HEADS};
    const int64_t slots[2] = {QUERIES, TOPK}, batch[1] = {SEQUENCES};
    query = demo_tensor_create(ACL_BF16, 3, q_dims);
    key = demo_tensor_create(ACL_BF16, 3, k_dims);
    weights = demo_tensor_create(ACL_BF16, 2, w_dims);
    dy = demo_tensor_create(ACL_BF16, 2, slots);
    indices = demo_tensor_create(ACL_INT32, 2, slots);
    query_lengths = demo_tensor_create(ACL_INT32, 1, batch);
    key_lengths = demo_tensor_create(ACL_INT32, 1, batch);
    dq = demo_tensor_create(ACL_BF16, 3, q_dims);
    dk = demo_tensor_create(ACL_BF16, 3, k_dims);
    dweights = demo_tensor_create(ACL_BF16, 2, w_dims);
    demo_tensor_fill(&query, 1.0f, 20);
    demo_tensor_fill(&key, 1.0f, 21);
    demo_tensor_fill(&weights, 0.125f, 22);
    demo_tensor_fill(&dy, 0.01f, 23);
    fill_lengths(&query_lengths, query_end);
    fill_lengths(&key_lengths, key_end);
    struct forward f = {demo_floats(&query), demo_floats(&key), demo_floats(&weights)};
    ag_parallel_for(ag_config_get().threads, QUERIES, select_row, &f);
    free(f.query);
    free(f.key);
    free(f.weights);
}

static aclnnStatus plan(uint64_t *workspace, aclOpExecutor **executor)
{
    return aclnnLightningIndexerGradGetWorkspaceSize(
        query.handle, key.handle, dy.handle, indices.handle, weights.handle, query_lengths.handle, key_lengths.handle,
        HEADS, layout, 3, INT64_MAX, INT64_MAX, true, dq.handle, dk.handle, dweights.handle, workspace, executor);
}

enum { OUTPUTS = 3 };
static struct demo_want wants[OUTPUTS];

static aclnnStatus define(void)
{
    uint64_t workspace = 0;
    aclOpExecutor *executor = NULL;
    const struct indexer_args args = {.query = query.handle,
                                      .key = key.handle,
                                      .dy = dy.handle,
                                      .sparse_indices = indices.handle,
                                      .weights = weights.handle,
                                      .actual_seq_q_len = query_lengths.handle,
                                      .actual_seq_kv_len = key_lengths.handle,
                                      .input_layout = layout,
                                      .sparse_mode = 3,
                                      .dq = dq.handle,
                                      .dk = dk.handle,
                                      .dweights = dweights.handle,
                                      .workspace_size = &workspace,
                                      .executor = &executor};
    demo_want_create(&wants[0], "dq", &dq);
    demo_want_create(&wants[1], "dk", &dk);
    demo_want_create(&wants[2], "dweights", &dweights);
    const struct indexer_reference reference = {wants[0].value, wants[0].bound, wants[1].value,
                                                wants[1].bound, wants[2].value, wants[2].bound};
    struct indexer_problem problem;
    ag_status status = indexer_check(&args, &problem);
    if (status == AG_OK) {
        status = indexer_ref(&problem, &reference);
    }
    return (aclnnStatus)status;
}

static double worst(const char **output)
{
    return demo_worst(wants, OUTPUTS, output);
}

static void release(void)
{
    struct demo_tensor *const all[] = {&query,         &key,         &dy, &indices, &weights,
                                       &query_lengths, &key_lengths, &dq, &dk,      &dweights};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        demo_tensor_destroy(all[i]);
    }
    for (int i = 0; i < OUTPUTS; ++i) {
        demo_want_destroy(&wants[i]);
    }
}

const struct demo_case demo_indexer = {
    .operator_name = "LightningIndexerGrad",
    .problem = "40 of 4096 + 32 of 2604 tokens, 64 heads, top-2048",
    .prepare = prepare,
    .plan = plan,
    .run = aclnnLightningIndexerGrad,
    .define = define,
    .worst = worst,
    .release = release,
};
