#include "model.h"

#include <math.h>
#include <string.h>

#define VALUE(number)    parameter_value(&model->parameters, number)
#define GRADIENT(number) parameter_gradient(&model->parameters, number)

void attention_block_declare(struct model *model, int layer)
{
    struct attention_block *block = &model->attention[layer];
    struct parameters *parameters = &model->parameters;
    const struct model_shape *shape = &model->shape;
    const int64_t width = shape->width, queries = shape->query_heads * shape->dim,
                  keys = shape->key_heads * shape->dim;
    const int64_t query_ropes = shape->query_heads * shape->rope_dim, key_ropes = shape->key_heads * shape->rope_dim;
    const double deviation = 1 / sqrt((double)width); /* outputs as large as inputs */
    block->norm = parameters_declare(parameters, 1, width, 0, "%d.attention.norm", layer);
    block->query = parameters_declare(parameters, width, queries, deviation, "%d.attention.query", layer);
    block->query_rope =
        parameters_declare(parameters, width, query_ropes, deviation, "%d.attention.query_rope", layer);
    block->key = parameters_declare(parameters, width, keys, deviation, "%d.attention.key", layer);
    block->key_rope = parameters_declare(parameters, width, key_ropes, deviation, "%d.attention.key_rope", layer);
    block->value = parameters_declare(parameters, width, keys, deviation, "%d.attention.value", layer);
    block->output = parameters_declare(parameters, queries, width, 1 / sqrt((double)(queries * 2 * shape->layers)),
                                       "%d.attention.output", layer);
}

static struct attention_gradients gradients_create(const struct model_shape *shape, int64_t tokens)
{
    return (struct attention_gradients){
        .query = reals(tokens * shape->query_heads * shape->dim),
        .query_rope = reals(tokens * shape->query_heads * shape->rope_dim),
        .key = reals(tokens * shape->key_heads * shape->dim),
        .key_rope = reals(tokens * shape->key_heads * shape->rope_dim),
        .value = reals(tokens * shape->key_heads * shape->dim),
        .output = reals(tokens * shape->query_heads * shape->dim),
    };
}

void attention_block_create(struct model *model, int layer)
{
    struct attention_block *block = &model->attention[layer];
    const struct model_shape *shape = &model->shape;
    const int64_t tokens = model->tokens, statistics = tokens * shape->query_heads * 8;
    const struct attention_gradients arrays = gradients_create(shape, tokens); /* the same shapes */
    block->operator=(struct attention){
        .query_heads = shape->query_heads,
        .key_heads = shape->key_heads,
        .dim = shape->dim,
        .rope_dim = shape->rope_dim,
        .scale = 1 / sqrt((double)(shape->dim + shape->rope_dim)),
        .query = arrays.query,
        .query_rope = arrays.query_rope,
        .key = arrays.key,
        .key_rope = arrays.key_rope,
        .value = arrays.value,
        .output = arrays.output,
        .maximum = zeroed(statistics, sizeof(float)),
        .sum = zeroed(statistics, sizeof(float)),
    };
    block->gradients = gradients_create(shape, tokens);
    block->normed = reals(tokens * shape->width);
    block->inverse = reals(tokens);
}

void attention_block_destroy(struct attention_block *block)
{
    struct attention *a = &block->operator;
    struct attention_gradients *g = &block->gradients;
    void *const arrays[] = {a->query, a->query_rope, a->key,        a->key_rope,   a->value, a->output,
                            a->sum,   a->maximum,    g->query,      g->query_rope, g->key,   g->key_rope,
                            g->value, g->output,     block->normed, block->inverse};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i) {
        free(arrays[i]);
    }
}

void attention_block_forward(struct model *model, int layer, const struct pack *pack, const real *in, real *out)
{
    struct attention_block *block = &model->attention[layer];
    struct attention *a = &block->operator;
    const int64_t tokens = model->tokens, width = model->shape.width;
    const int64_t queries = a->query_heads * a->dim, keys = a->key_heads * a->dim;
    a->documents = (struct documents){pack->ends, pack->documents, pack->tokens};
    norm_forward(block->normed, block->inverse, in, VALUE(block->norm), tokens, width);
    linear_forward(a->query, block->normed, VALUE(block->query), tokens, width, queries);
    linear_forward(a->query_rope, block->normed, VALUE(block->query_rope), tokens, width,
                   a->query_heads * a->rope_dim);
    linear_forward(a->key, block->normed, VALUE(block->key), tokens, width, keys);
    linear_forward(a->key_rope, block->normed, VALUE(block->key_rope), tokens, width, a->key_heads * a->rope_dim);
    linear_forward(a->value, block->normed, VALUE(block->value), tokens, width, keys);
    rotary_turn(a->query_rope, model->rotary, tokens, a->query_heads, a->rope_dim, a->rope_dim, 1);
    rotary_turn(a->key_rope, model->rotary, tokens, a->key_heads, a->rope_dim, a->rope_dim, 1);
    attention_forward(a);
    linear_forward(out, a->output, VALUE(block->output), tokens, queries, width);
    add(out, in, tokens * width);
}

/* One projection of the normed input, backward. */
static void project_backward(struct model *model, const struct attention_block *block, int number,
                             const real *gradient)
{
    const int64_t outputs = model->parameters.table[number].columns;
    linear_backward(model->scratch, GRADIENT(number), gradient, block->normed, VALUE(number), model->tokens,
                    model->shape.width, outputs);
}

void attention_block_backward(struct model *model, int layer, const real *in, real *gradient)
{
    struct attention_block *block = &model->attention[layer];
    struct attention *a = &block->operator;
    const struct attention_gradients *g = &block->gradients;
    const int64_t tokens = model->tokens, width = model->shape.width, queries = a->query_heads * a->dim;
    memset(g->output, 0, (size_t)(tokens * queries) * sizeof(real));
    linear_backward(g->output, GRADIENT(block->output), gradient, a->output, VALUE(block->output), tokens, queries,
                    width);
    attention_backward(a, g);
    rotary_turn(g->query_rope, model->rotary, tokens, a->query_heads, a->rope_dim, a->rope_dim, -1);
    rotary_turn(g->key_rope, model->rotary, tokens, a->key_heads, a->rope_dim, a->rope_dim, -1);
    memset(model->scratch, 0, (size_t)(tokens * width) * sizeof(real));
    project_backward(model, block, block->query, g->query);
    project_backward(model, block, block->query_rope, g->query_rope);
    project_backward(model, block, block->key, g->key);
    project_backward(model, block, block->key_rope, g->key_rope);
    project_backward(model, block, block->value, g->value);
    norm_backward(gradient, GRADIENT(block->norm), model->scratch, in, block->inverse, VALUE(block->norm), tokens,
                  width);
}
