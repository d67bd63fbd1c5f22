#include "model.h"

#include <math.h>
#include <string.h>

#define VALUE(number)    parameter_value(&model->parameters, number)
#define GRADIENT(number) parameter_gradient(&model->parameters, number)

const struct model_shape model_small = {
    .layers = 2,
    .width = 128,
    .query_heads = 4,
    .key_heads = 2,
    .dim = 32,
    .rope_dim = 16,
    .index_heads = 4,
    .selected = 32,
    .experts = 8,
    .topk = 2,
    .expert_width = 128,
};

static void declare(struct model *model)
{
    const int64_t width = model->shape.width;
    model->embedding = parameters_declare(&model->parameters, BYTES, width, 0.7, "embedding");
    for (int layer = 0; layer < (int)model->shape.layers; ++layer) {
        attention_block_declare(model, layer);
        indexer_block_declare(model, layer);
        expert_block_declare(model, layer);
    }
    model->final_norm = parameters_declare(&model->parameters, 1, width, 0, "norm");
    /* Small: the first guess is that all bytes are alike. */
    model->head = parameters_declare(&model->parameters, width, BYTES, 0.02, "head");
}

static void create_activations(struct model *model)
{
    const struct model_shape *shape = &model->shape;
    const int64_t tokens = model->tokens, width = shape->width, slots = tokens * shape->topk;
    for (int layer = 0; layer < (int)shape->layers; ++layer) {
        attention_block_create(model, layer);
        indexer_block_create(model, layer);
        expert_block_create(model, layer);
    }
    model->residual = reals((2 * shape->layers + 1) * tokens * width);
    model->normed = reals(tokens * width);
    model->inverse = reals(tokens);
    model->logits = reals(tokens * BYTES);
    model->rotary = reals(tokens * shape->rope_dim);
    model->gradient = reals(tokens * width);
    model->scratch = reals(tokens * width);
    model->wide = reals(slots * (2 * width + 3 * shape->expert_width + 1) + tokens * shape->experts);
}

void model_create(struct model *model, const struct model_shape *shape, int64_t tokens, uint64_t seed)
{
    *model = (struct model){.shape = *shape, .tokens = tokens, .owns_parameters = true};
    declare(model);
    parameters_create(&model->parameters, seed);
    model->bias = reals(shape->layers * shape->experts);
    create_activations(model);
}

void model_create_sharing(struct model *model, const struct model *of, int64_t tokens)
{
    *model = *of; /* the numbers of parameters, and where they lie */
    model->tokens = tokens;
    model->owns_parameters = false;
    create_activations(model);
}

void model_destroy(struct model *model)
{
    for (int layer = 0; layer < (int)model->shape.layers; ++layer) {
        attention_block_destroy(&model->attention[layer]);
        indexer_block_destroy(&model->indexer[layer]);
        expert_block_destroy(&model->experts[layer]);
    }
    void *const arrays[] = {model->residual, model->normed,   model->inverse, model->logits,
                            model->rotary,   model->gradient, model->scratch, model->wide};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i) {
        free(arrays[i]);
    }
    if (model->owns_parameters) {
        parameters_destroy(&model->parameters);
        free(model->bias);
    }
}

/* The stream before block `number` of all 2 * layers. */
static real *residual(const struct model *model, int number)
{
    return model->residual + number * model->tokens * model->shape.width;
}

void model_forward(struct model *model, const struct pack *pack, bool learns)
{
    const int64_t tokens = model->tokens, width = model->shape.width;
    const int layers = (int)model->shape.layers;
    rotary_table(model->rotary, pack->position, tokens, model->shape.rope_dim);
    for (int64_t t = 0; t < tokens; ++t) {
        memcpy(residual(model, 0) + t * width, VALUE(model->embedding) + pack->input[t] * width,
               (size_t)width * sizeof(real));
    }
    model->divergence = model->recall = 0;
    for (int layer = 0; layer < layers; ++layer) {
        real *in = residual(model, 2 * layer), *middle = residual(model, 2 * layer + 1);
        attention_block_forward(model, layer, pack, in, middle);
        indexer_block_forward(model, layer, pack);
        expert_block_forward(model, layer, middle, residual(model, 2 * layer + 2));
        model->divergence += model->indexer[layer].divergence;
        model->recall += model->indexer[layer].recall / layers;
    }
    norm_forward(model->normed, model->inverse, residual(model, 2 * layers), VALUE(model->final_norm), tokens, width);
    linear_forward(model->logits, model->normed, VALUE(model->head), tokens, width, BYTES);
    if (learns) {
        model->cross_entropy = cross_entropy(model->logits, pack->target, tokens, BYTES);
    }
}

void model_backward(struct model *model, const struct pack *pack)
{
    const int64_t tokens = model->tokens, width = model->shape.width;
    const int layers = (int)model->shape.layers;
    memset(model->scratch, 0, (size_t)(tokens * width) * sizeof(real));
    memset(model->gradient, 0, (size_t)(tokens * width) * sizeof(real));
    linear_backward(model->scratch, GRADIENT(model->head), model->logits, model->normed, VALUE(model->head), tokens,
                    width, BYTES);
    norm_backward(model->gradient, GRADIENT(model->final_norm), model->scratch, residual(model, 2 * layers),
                  model->inverse, VALUE(model->final_norm), tokens, width);
    for (int layer = layers - 1; layer >= 0; --layer) {
        expert_block_backward(model, layer, residual(model, 2 * layer + 1), model->gradient);
        indexer_block_backward(model, layer);
        attention_block_backward(model, layer, residual(model, 2 * layer), model->gradient);
    }
    for (int64_t t = 0; t < tokens; ++t) {
        add(GRADIENT(model->embedding) + pack->input[t] * width, model->gradient + t * width, width);
    }
}

void model_balance(struct model *model, double speed)
{
    const int64_t experts = model->shape.experts, slots = model->tokens * model->shape.topk;
    for (int layer = 0; layer < (int)model->shape.layers; ++layer) {
        struct expert_block *block = &model->experts[layer];
        for (int64_t x = 0; x < experts; ++x) {
            const int64_t got = block->ends[x] - (x > 0 ? block->ends[x - 1] : 0);
            block->bias[x] += (real)(got * experts < slots ? speed : got * experts > slots ? -speed : 0);
        }
    }
}
