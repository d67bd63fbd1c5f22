/* The aclnn operators of one training step, on arrays of the model's own type. Here is the edge: what goes in is rounded to
 * bf16 (in the caller's array too, so that both sides mean the same numbers), what comes out is widened.
 *
 * operators_*.c call the public API. The test of gradients puts the definitions in double in their place. */
#ifndef TRAIN_TEXT_OPERATORS_H
#define TRAIN_TEXT_OPERATORS_H

#include "real.h"

/* Documents one behind the other: cumulative ends, [documents]. */
struct documents {
    const int64_t *ends;
    int64_t count, tokens; /* tokens: the last end */
};

/* --- attention: every token sees its document up to itself; query head n reads key head n / (query_heads / key_heads) -- */

struct attention {
    struct documents documents;
    int64_t query_heads, key_heads;
    int64_t dim, rope_dim; /* values have `dim` too */
    double scale;
    real *query, *query_rope; /* [tokens, query_heads, dim], [tokens, query_heads, rope_dim] */
    real *key, *key_rope;     /* [tokens, key_heads, dim], [tokens, key_heads, rope_dim] */
    real *value;              /* [tokens, key_heads, dim] */
    real *output;             /* [tokens, query_heads, dim] */
    float *maximum,
        *sum; /* [tokens * query_heads, 8]: softmax statistics, per document head-major, 8 copies of each */
};
struct attention_gradients { /* shapes as above; all but `output` are written */
    real *query, *query_rope, *key, *key_rope, *value, *output;
};
void attention_forward(struct attention *attention);
void attention_backward(struct attention *attention, const struct attention_gradients *gradients);

/* The row of head `head` and row `row` of document `document` in maximum and sum. */
static inline int64_t softmax_row_of(const struct attention *attention, int64_t document, int64_t head, int64_t row)
{
    const int64_t begin = document > 0 ? attention->documents.ends[document - 1] : 0;
    return begin * attention->query_heads + head * (attention->documents.ends[document] - begin) + row;
}

/* --- the indexer: for each token the `selected` keys of its document, up to itself, with the highest scores ------------ */

enum { INDEXER_DIM = 128 }; /* what the operator is made for */

struct indexer {
    struct documents documents;
    int64_t heads, selected;
    real *query, *key, *weights; /* [tokens, heads, 128], [tokens, 128], [tokens, heads] */
    int32_t *index; /* [tokens, selected]: within the document, best first; -1 where there are fewer keys */
    real *score;    /* [tokens, selected] */
};
struct indexer_gradients { /* score goes in, the others are written */
    real *query, *key, *weights, *score;
};
void indexer_forward(struct indexer *indexer);
void indexer_backward(struct indexer *indexer, const struct indexer_gradients *gradients);

/* --- mixture of experts: one window [begin, end) of the slots sorted by expert ----------------------------------------- */

struct experts {
    int64_t tokens, topk, width;
    int32_t *expert;   /* [tokens, topk]: who takes the token */
    real *probability; /* [tokens, topk], fp32 at the edge */
    int32_t *position; /* [tokens * topk]: where each slot stands in the sorted order; written by permute */
};
struct window {
    int64_t begin, end;
};
/* rows [end - begin, width] = the tokens of the window's slots. tokens [tokens, width]. */
void experts_permute(struct experts *experts, struct window window, real *tokens, real *rows);
/* token_gradient [tokens, width] += the sum of the token's rows in the window. */
void experts_permute_backward(struct experts *experts, struct window window, real *rows_gradient,
                              real *token_gradient);
/* output [tokens, width] += probability times row, over the token's slots in the window. */
void experts_unpermute(struct experts *experts, struct window window, real *rows, real *output);
/* rows_gradient is written; probability_gradient [tokens, topk] += . */
void experts_unpermute_backward(struct experts *experts, struct window window, real *rows, real *output_gradient,
                                real *rows_gradient, real *probability_gradient);

/* --- time spent, for the report ---------------------------------------------------------------------------------------- */

enum operator_kind {
    OPERATOR_ATTENTION,
    OPERATOR_ATTENTION_GRAD,
    OPERATOR_INDEXER,
    OPERATOR_INDEXER_GRAD,
    OPERATOR_PERMUTE,
    OPERATOR_PERMUTE_GRAD,
    OPERATOR_UNPERMUTE,
    OPERATOR_UNPERMUTE_GRAD,
    OPERATORS
};
struct operator_time {
    const char *entry;
    double seconds; /* both phases, without conversions */
    int64_t calls;
};
extern struct operator_time operator_times[OPERATORS];

/* aclInit and a stream; at the end all is given back. */
void operators_begin(void);
void operators_end(void);

#endif
