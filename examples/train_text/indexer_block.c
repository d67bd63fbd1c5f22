/* The lightning indexer beside an attention, and what it learns from: the sparse training stage of DeepSeek-V3.2. For
 * token t with selected keys S, scores I and the attention's mass m (mean over heads of its probabilities),
 *
 *     p[s] = m[s] / sum over S of m          target, held constant
 *     loss = mean over t of the divergence KL(p || softmax of I over S)
 *
 * so the gradient of I[t, s] is (softmax(I)[s] - p[s]) / tokens. Recall, how much of the attention the selection
 * catches, is the sum over S of m. */
#include "model.h"

#include <math.h>
#include <string.h>

#define VALUE(number)    parameter_value(&model->parameters, number)
#define GRADIENT(number) parameter_gradient(&model->parameters, number)

void indexer_block_declare(struct model *model, int layer)
{
    struct indexer_block *block = &model->indexer[layer];
    const int64_t width = model->shape.width, heads = model->shape.index_heads;
    const double deviation = 1 / sqrt((double)width);
    block->query =
        parameters_declare(&model->parameters, width, heads * INDEXER_DIM, deviation, "%d.indexer.query", layer);
    block->key = parameters_declare(&model->parameters, width, INDEXER_DIM, deviation, "%d.indexer.key", layer);
    block->weights = parameters_declare(&model->parameters, width, heads, deviation, "%d.indexer.weights", layer);
}

void indexer_block_create(struct model *model, int layer)
{
    struct indexer_block *block = &model->indexer[layer];
    const int64_t tokens = model->tokens, heads = model->shape.index_heads, slots = tokens * model->shape.selected;
    block->operator=(struct indexer){
        .heads = heads,
        .selected = model->shape.selected,
        .query = reals(tokens * heads * INDEXER_DIM),
        .key = reals(tokens * INDEXER_DIM),
        .weights = reals(tokens * heads),
        .index = zeroed(slots, sizeof(int32_t)),
        .score = reals(slots),
    };
    block->gradients = (struct indexer_gradients){
        .query = reals(tokens * heads * INDEXER_DIM),
        .key = reals(tokens * INDEXER_DIM),
        .weights = reals(tokens * heads),
        .score = reals(slots),
    };
    block->target = reals(slots);
}

void indexer_block_destroy(struct indexer_block *block)
{
    struct indexer *x = &block->operator;
    struct indexer_gradients *g = &block->gradients;
    void *const arrays[] = {x->query, x->key, x->weights, x->index, x->score,
                            g->query, g->key, g->weights, g->score, block->target};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i) {
        free(arrays[i]);
    }
}

/* Folds the usual 1 / sqrt(dim) and the mean over heads into the weights: the operator applies no scale. */
static void scale_weights(real *weights, int64_t tokens, int64_t heads)
{
    const real scale = (real)(1 / sqrt((double)(heads * INDEXER_DIM)));
    for (int64_t i = 0; i < tokens * heads; ++i) {
        weights[i] *= scale;
    }
}

static real dot(const real *a, const real *b, int64_t count)
{
    real sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* The attention's mass of token `begin + row` of a document on its key, mean over heads. */
static real attention_mass(const struct attention *a, int64_t document, int64_t begin, int64_t row, int64_t key)
{
    const int64_t group = a->query_heads / a->key_heads;
    real mass = 0;
    for (int64_t head = 0; head < a->query_heads; ++head) {
        const int64_t q = (begin + row) * a->query_heads + head, k = (begin + key) * a->key_heads + head / group;
        const int64_t statistic = 8 * softmax_row_of(a, document, head, row);
        const real score = dot(a->query + q * a->dim, a->key + k * a->dim, a->dim) +
                           dot(a->query_rope + q * a->rope_dim, a->key_rope + k * a->rope_dim, a->rope_dim);
        mass += real_exp(score * (real)a->scale - (real)a->maximum[statistic]) / (real)a->sum[statistic];
    }
    return mass / (real)a->query_heads;
}

/* How many keys were selected for a row: the -1 stand behind them. */
static int64_t count_selected(const struct indexer *x, int64_t token)
{
    int64_t count = 0;
    while (count < x->selected && x->index[token * x->selected + count] >= 0) {
        ++count;
    }
    return count;
}

static double find_target(const struct attention *a, struct indexer_block *block, int64_t document, int64_t begin,
                          int64_t row)
{
    const struct indexer *x = &block->operator;
    const int64_t first = (begin + row) * x->selected, count = count_selected(x, begin + row);
    double total = 0;
    for (int64_t j = 0; j < count; ++j) {
        block->target[first + j] = attention_mass(a, document, begin, row, x->index[first + j]);
        total += (double)block->target[first + j];
    }
    for (int64_t j = 0; j < count && total > 0; ++j) {
        block->target[first + j] = (real)((double)block->target[first + j] / total);
    }
    return total;
}

/* The divergence of one token; its gradient of scores, times tokens, is left in `gradient`. */
static double diverge(const real *target, const real *score, real *gradient, int64_t count)
{
    double divergence = 0;
    memcpy(gradient, score, (size_t)count * sizeof *gradient);
    softmax(gradient, count);
    for (int64_t j = 0; j < count; ++j) {
        const double p = (double)target[j], guess = fmax((double)gradient[j], 1e-30); /* keeps the loss finite */
        divergence += p > 0 ? p * log(p / guess) : 0;
        gradient[j] -= target[j];
    }
    return divergence;
}

void indexer_block_forward(struct model *model, int layer, const struct pack *pack)
{
    struct indexer_block *block = &model->indexer[layer];
    struct indexer *x = &block->operator;
    const struct attention *attention = &model->attention[layer].operator;
    const real *in = model->attention[layer].normed;
    const int64_t tokens = model->tokens, width = model->shape.width, rope = model->shape.rope_dim;
    x->documents = attention->documents;
    linear_forward(x->query, in, VALUE(block->query), tokens, width, x->heads * INDEXER_DIM);
    linear_forward(x->key, in, VALUE(block->key), tokens, width, INDEXER_DIM);
    linear_forward(x->weights, in, VALUE(block->weights), tokens, width, x->heads);
    rotary_turn(x->query, model->rotary, tokens, x->heads, INDEXER_DIM, rope, 1);
    rotary_turn(x->key, model->rotary, tokens, 1, INDEXER_DIM, rope, 1);
    scale_weights(x->weights, tokens, x->heads);
    indexer_forward(x);
    block->divergence = block->recall = 0;
    for (int64_t document = 0, begin = 0; document < pack->documents; begin = pack->ends[document++]) {
        for (int64_t row = 0; begin + row < pack->ends[document]; ++row) {
            const int64_t first = (begin + row) * x->selected, count = count_selected(x, begin + row);
            if (!model->is_frozen) {
                block->recall += find_target(attention, block, document, begin, row) / (double)tokens;
            }
            memset(block->gradients.score + first, 0, (size_t)x->selected * sizeof(real));
            block->divergence +=
                diverge(block->target + first, x->score + first, block->gradients.score + first, count) /
                (double)tokens;
        }
    }
}

void indexer_block_backward(struct model *model, int layer)
{
    struct indexer_block *block = &model->indexer[layer];
    struct indexer *x = &block->operator;
    const struct indexer_gradients *g = &block->gradients;
    const real *in = model->attention[layer].normed;
    const int64_t tokens = model->tokens, width = model->shape.width, rope = model->shape.rope_dim;
    for (int64_t i = 0; i < tokens * x->selected; ++i) {
        g->score[i] /= (real)tokens;
    }
    indexer_backward(x, g);
    scale_weights(g->weights, tokens, x->heads);
    rotary_turn(g->query, model->rotary, tokens, x->heads, INDEXER_DIM, rope, -1);
    rotary_turn(g->key, model->rotary, tokens, 1, INDEXER_DIM, rope, -1);
    linear_backward(NULL, GRADIENT(block->query), g->query, in, VALUE(block->query), tokens, width,
                    x->heads * INDEXER_DIM);
    linear_backward(NULL, GRADIENT(block->key), g->key, in, VALUE(block->key), tokens, width, INDEXER_DIM);
    linear_backward(NULL, GRADIENT(block->weights), g->weights, in, VALUE(block->weights), tokens, width, x->heads);
}
