#include "model.h"

#include <math.h>
#include <string.h>

#define VALUE(number)    parameter_value(&model->parameters, number)
#define GRADIENT(number) parameter_gradient(&model->parameters, number)

void expert_block_declare(struct model *model, int layer)
{
    struct expert_block *block = &model->experts[layer];
    struct parameters *parameters = &model->parameters;
    const struct model_shape *shape = &model->shape;
    const double in = 1 / sqrt((double)shape->width);
    const double out = 1 / sqrt((double)(shape->expert_width * 2 * shape->layers));
    block->norm = parameters_declare(parameters, 1, shape->width, 0, "%d.experts.norm", layer);
    block->router = parameters_declare(parameters, shape->width, shape->experts, in, "%d.experts.router", layer);
    for (int e = 0; e < (int)shape->experts; ++e) {
        block->gate[e] =
            parameters_declare(parameters, shape->width, shape->expert_width, in, "%d.expert.%d.gate", layer, e);
        block->up[e] =
            parameters_declare(parameters, shape->width, shape->expert_width, in, "%d.expert.%d.up", layer, e);
        block->down[e] =
            parameters_declare(parameters, shape->expert_width, shape->width, out, "%d.expert.%d.down", layer, e);
    }
}

void expert_block_create(struct model *model, int layer)
{
    struct expert_block *block = &model->experts[layer];
    const struct model_shape *shape = &model->shape;
    const int64_t tokens = model->tokens, slots = tokens * shape->topk;
    block->operator=(struct experts){
        .tokens = tokens,
        .topk = shape->topk,
        .width = shape->width,
        .expert = zeroed(slots, sizeof(int32_t)),
        .probability = reals(slots),
        .position = zeroed(slots, sizeof(int32_t)),
    };
    block->normed = reals(tokens * shape->width);
    block->inverse = reals(tokens);
    block->logits = reals(tokens * shape->experts);
    block->rows = reals(slots * shape->width);
    block->results = reals(slots * shape->width);
    block->gates = reals(slots * shape->expert_width);
    block->ups = reals(slots * shape->expert_width);
    block->hidden = reals(slots * shape->expert_width);
    block->bias = model->bias + layer * shape->experts;
}

void expert_block_destroy(struct expert_block *block)
{
    struct experts *e = &block->operator;
    void *const arrays[] = {e->expert,   e->probability, e->position,  block->normed, block->inverse, block->logits,
                            block->rows, block->results, block->gates, block->ups,    block->hidden};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i) {
        free(arrays[i]);
    }
}

/* The topk experts of one token by logit + bias, best first, the lower number first among equals. */
static void choose(const struct expert_block *block, const real *logits, int64_t experts, int32_t *chosen)
{
    for (int64_t k = 0; k < block->operator.topk; ++k) {
        int32_t best = -1;
        for (int32_t e = 0; e < (int32_t)experts; ++e) {
            bool is_taken = false;
            for (int64_t before = 0; before < k; ++before) {
                is_taken = is_taken || chosen[before] == e;
            }
            if (!is_taken && (best < 0 || logits[e] + block->bias[e] > logits[best] + block->bias[best])) {
                best = e;
            }
        }
        chosen[k] = best;
    }
}

/* Who takes which token with what weight, and how far each expert's stretch of the sorted slots reaches. */
static void route(struct model *model, struct expert_block *block)
{
    struct experts *e = &block->operator;
    const int64_t experts = model->shape.experts;
    int64_t counts[MOST_EXPERTS] = {0};
    for (int64_t t = 0; t < e->tokens; ++t) {
        const real *logits = block->logits + t * experts;
        int32_t *chosen = e->expert + t * e->topk;
        if (!model->is_frozen) {
            choose(block, logits, experts, chosen);
        }
        for (int64_t k = 0; k < e->topk; ++k) {
            e->probability[t * e->topk + k] = logits[chosen[k]];
            ++counts[chosen[k]];
        }
        softmax(e->probability + t * e->topk, e->topk);
    }
    for (int64_t x = 0; x < experts; ++x) {
        block->ends[x] = counts[x] + (x > 0 ? block->ends[x - 1] : 0);
    }
}

static int64_t begin_of(const struct expert_block *block, int64_t expert)
{
    return expert > 0 ? block->ends[expert - 1] : 0;
}

/* Each window is what one of WINDOWS ranks would hold: the sorted slots of its experts. */
static struct window window_of(const struct expert_block *block, int64_t experts, int number)
{
    return (struct window){begin_of(block, number * experts / WINDOWS),
                           begin_of(block, (number + 1) * experts / WINDOWS)};
}

void expert_block_forward(struct model *model, int layer, const real *in, real *out)
{
    struct expert_block *block = &model->experts[layer];
    struct experts *e = &block->operator;
    const int64_t width = e->width, inner = model->shape.expert_width, experts = model->shape.experts;
    norm_forward(block->normed, block->inverse, in, VALUE(block->norm), e->tokens, width);
    linear_forward(block->logits, block->normed, VALUE(block->router), e->tokens, width, experts);
    route(model, block);
    for (int w = 0; w < WINDOWS; ++w) {
        const struct window window = window_of(block, experts, w);
        experts_permute(e, window, block->normed, block->rows + window.begin * width);
    }
    for (int64_t x = 0; x < experts; ++x) {
        const int64_t begin = begin_of(block, x), rows = block->ends[x] - begin;
        const real *row = block->rows + begin * width;
        linear_forward(block->gates + begin * inner, row, VALUE(block->gate[x]), rows, width, inner);
        linear_forward(block->ups + begin * inner, row, VALUE(block->up[x]), rows, width, inner);
        gate_forward(block->hidden + begin * inner, block->gates + begin * inner, block->ups + begin * inner,
                     rows * inner);
        linear_forward(block->results + begin * width, block->hidden + begin * inner, VALUE(block->down[x]), rows,
                       inner, width);
    }
    memcpy(out, in, (size_t)(e->tokens * width) * sizeof *out);
    for (int w = 0; w < WINDOWS; ++w) {
        const struct window window = window_of(block, experts, w);
        experts_unpermute(e, window, block->results + window.begin * width, out);
    }
}

/* The gradients of the block's activations, laid into model->wide. */
struct expert_gradients {
    real *results, *rows;       /* [slots, width] */
    real *hidden, *gates, *ups; /* [slots, expert_width] */
    real *probability;          /* [tokens, topk] */
    real *logits;               /* [tokens, experts] */
};

static struct expert_gradients lay_out(const struct model *model)
{
    const struct model_shape *shape = &model->shape;
    const int64_t slots = model->tokens * shape->topk;
    struct expert_gradients g = {.results = model->wide};
    g.rows = g.results + slots * shape->width;
    g.hidden = g.rows + slots * shape->width;
    g.gates = g.hidden + slots * shape->expert_width;
    g.ups = g.gates + slots * shape->expert_width;
    g.probability = g.ups + slots * shape->expert_width;
    g.logits = g.probability + slots;
    memset(g.results, 0, (size_t)(g.logits + model->tokens * shape->experts - g.results) * sizeof(real));
    return g;
}

static void expert_backward(struct model *model, const struct expert_block *block, const struct expert_gradients *g,
                            int64_t x)
{
    const int64_t width = model->shape.width, inner = model->shape.expert_width;
    const int64_t begin = begin_of(block, x), rows = block->ends[x] - begin;
    const int64_t at = begin * width, at_inner = begin * inner;
    linear_backward(g->hidden + at_inner, GRADIENT(block->down[x]), g->results + at, block->hidden + at_inner,
                    VALUE(block->down[x]), rows, inner, width);
    gate_backward(g->gates + at_inner, g->ups + at_inner, g->hidden + at_inner, block->gates + at_inner,
                  block->ups + at_inner, rows * inner);
    linear_backward(g->rows + at, GRADIENT(block->gate[x]), g->gates + at_inner, block->rows + at,
                    VALUE(block->gate[x]), rows, width, inner);
    linear_backward(g->rows + at, GRADIENT(block->up[x]), g->ups + at_inner, block->rows + at, VALUE(block->up[x]),
                    rows, width, inner);
}

/* Through the softmax over the chosen logits: p (dp - sum of p dp). */
static void route_backward(const struct model *model, const struct expert_block *block,
                           const struct expert_gradients *g)
{
    const struct experts *e = &block->operator;
    for (int64_t t = 0; t < e->tokens; ++t) {
        const real *p = e->probability + t * e->topk, *dp = g->probability + t * e->topk;
        real mean = 0;
        for (int64_t k = 0; k < e->topk; ++k) {
            mean += p[k] * dp[k];
        }
        for (int64_t k = 0; k < e->topk; ++k) {
            g->logits[t * model->shape.experts + e->expert[t * e->topk + k]] = p[k] * (dp[k] - mean);
        }
    }
}

void expert_block_backward(struct model *model, int layer, const real *in, real *gradient)
{
    struct expert_block *block = &model->experts[layer];
    struct experts *e = &block->operator;
    const struct expert_gradients g = lay_out(model);
    const int64_t width = e->width, experts = model->shape.experts, size = e->tokens * width;
    memcpy(model->scratch, gradient, (size_t)size * sizeof *gradient); /* the operator rounds what it reads */
    for (int w = 0; w < WINDOWS; ++w) {
        const struct window window = window_of(block, experts, w);
        experts_unpermute_backward(e, window, block->results + window.begin * width, model->scratch,
                                   g.results + window.begin * width, g.probability);
    }
    for (int64_t x = 0; x < experts; ++x) {
        expert_backward(model, block, &g, x);
    }
    route_backward(model, block, &g);
    memset(model->scratch, 0, (size_t)size * sizeof(real));
    for (int w = 0; w < WINDOWS; ++w) {
        const struct window window = window_of(block, experts, w);
        experts_permute_backward(e, window, g.rows + window.begin * width, model->scratch);
    }
    linear_backward(model->scratch, GRADIENT(block->router), g.logits, block->normed, VALUE(block->router), e->tokens,
                    width, experts);
    norm_backward(gradient, GRADIENT(block->norm), model->scratch, in, block->inverse, VALUE(block->norm), e->tokens,
                  width);
}
