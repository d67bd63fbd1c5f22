/* A small language model over bytes, shaped like DeepSeek's: layers of
 *
 *     x += attention(norm(x))        heads with split rotary embedding, in one pack of documents    attention_block.c
 *     x += experts(norm(x))          8 experts, each token takes 2, in two windows                  expert_block.c
 *
 * and beside each attention an indexer that learns which keys get its mass                            indexer_block.c
 *
 * Forward keeps what backward needs; backward adds to the gradients of parameters. */
#ifndef TRAIN_TEXT_MODEL_H
#define TRAIN_TEXT_MODEL_H

#include <stdbool.h>

#include "layers.h"
#include "train_operators.h"
#include "parameters.h"
#include "text.h"

enum { BYTES = 256, MOST_LAYERS = 16, MOST_EXPERTS = 64, WINDOWS = 2 };

struct model_shape {
    int64_t layers, width;                         /* width: of a token */
    int64_t query_heads, key_heads, dim, rope_dim; /* attention */
    int64_t index_heads, selected;                 /* indexer: keys it selects for each token */
    int64_t experts, topk, expert_width;           /* experts: hidden width of each */
};
extern const struct model_shape model_small; /* what the program trains */

/* Everything of one layer's attention: numbers of its parameters, then [tokens, ...] activations. */
struct attention_block {
    int norm, query, query_rope, key, key_rope, value, output; /* parameters */
    struct attention operator;
    real *normed, *inverse;
    struct attention_gradients gradients;
};

struct indexer_block {
    int query, key, weights; /* parameters */
    struct indexer operator;
    struct indexer_gradients gradients;
    real *target;              /* [tokens, selected]: the attention's mass on the selected keys, sum 1 per token */
    double divergence, recall; /* of the last forward: mean over tokens */
};

struct expert_block {
    int norm, router, gate[MOST_EXPERTS], up[MOST_EXPERTS], down[MOST_EXPERTS]; /* parameters */
    struct experts operator;
    real *normed, *inverse;
    real *logits;                                /* [tokens, experts] */
    real *rows, *gates, *ups, *hidden, *results; /* by sorted slot: [tokens * topk, width or expert_width] */
    int64_t ends[MOST_EXPERTS];                  /* of the experts' stretches of the sorted slots */
    real *bias; /* [experts]: added to logits to choose, not to weigh: pushed so that all experts get work */
};

struct model {
    struct model_shape shape;
    struct parameters parameters;
    bool owns_parameters;            /* and the biases; else another model does */
    int embedding, final_norm, head; /* parameters */
    struct attention_block attention[MOST_LAYERS];
    struct indexer_block indexer[MOST_LAYERS];
    struct expert_block experts[MOST_LAYERS];
    real *bias; /* [layers, experts], see struct expert_block */

    /* Choices stay as the last forward made them (selection, routing, the indexer's target): for differences. */
    bool is_frozen;

    int64_t tokens;           /* of a pack */
    real *residual;           /* [2 * layers + 1, tokens, width]: the stream before each block, and at the end */
    real *normed, *inverse;   /* of the end */
    real *logits;             /* [tokens, 256]; backward's gradient after forward */
    real *rotary;             /* table of layers.h: attention's ropes, and as many dims of the indexer */
    real *gradient, *scratch; /* [tokens, width] */
    real *wide;               /* the gradients of one expert block's activations */
    double cross_entropy, divergence,
        recall; /* of the last forward: nats per byte; sum over layers; mean over layers */
};

void model_create(struct model *model, const struct model_shape *shape, int64_t tokens, uint64_t seed);
void model_destroy(struct model *model);

/* A model of other packs, to try or sample, that shares parameters and biases with `of`. */
void model_create_sharing(struct model *model, const struct model *of, int64_t tokens);

/* Losses, and logits of every token (the gradient of the loss takes their place when `learns`). */
void model_forward(struct model *model, const struct pack *pack, bool learns);
void model_backward(struct model *model, const struct pack *pack);

/* After a step: the biases move by `speed` toward experts that got fewer slots than their share. */
void model_balance(struct model *model, double speed);

/* --- the blocks: declare adds parameters, forward and backward go through one layer ------------------------------------ */

void attention_block_declare(struct model *model, int layer);
void attention_block_create(struct model *model, int layer);
void attention_block_forward(struct model *model, int layer, const struct pack *pack, const real *in, real *out);
void attention_block_backward(struct model *model, int layer, const real *in, real *gradient);
void attention_block_destroy(struct attention_block *block);

/* The indexer reads the attention's normed input but sends no gradient back into it. */
void indexer_block_declare(struct model *model, int layer);
void indexer_block_create(struct model *model, int layer);
void indexer_block_forward(struct model *model, int layer, const struct pack *pack);
void indexer_block_backward(struct model *model, int layer);
void indexer_block_destroy(struct indexer_block *block);

void expert_block_declare(struct model *model, int layer);
void expert_block_create(struct model *model, int layer);
void expert_block_forward(struct model *model, int layer, const real *in, real *out);
void expert_block_backward(struct model *model, int layer, const real *in, real *gradient);
void expert_block_destroy(struct expert_block *block);

#endif
