/* Rules of phase 1 that both of the folder's operators have. */
#ifndef AG_OP_INDEXER_RULES_H
#define AG_OP_INDEXER_RULES_H

#include "base/status.h"
#include "base/view.h"
#include "op/indexer/indexer.h"

struct indexer_operand {
    const char *name;
    const struct ag_view *view;
};

/* FLOAT16, BF16, or FLOAT where the limits have it; and key's type is query's. */
ag_status indexer_require_types(const struct indexer_limits *limits, const struct ag_view *query,
                                const struct ag_view *key);

/* The last dims of query are [N, D], those of key [1, D], with D within the limits; the ranks were checked. */
ag_status indexer_require_dims(const struct indexer_limits *limits, const struct ag_view *query,
                               const struct ag_view *key);

/* So is N. */
ag_status indexer_require_head_count(const struct indexer_limits *limits, const struct ag_view *query);

/* An optional tensor of int32; absent when it is null. */
ag_status indexer_take_integers(const aclTensor *tensor, const char *argument, struct ag_view *view);

/* An output holds an element of memory for each result. */
ag_status indexer_require_distinct(const struct ag_view *output, const char *argument);

/* Present operands are row-major and lie inside their storage. */
ag_status indexer_require_memory(const struct indexer_operand *operands, int count);

/* No operand from first_output on shares memory with one before it. */
ag_status indexer_require_apart(const struct indexer_operand *operands, int count, int first_output);

/* A tensor without elements says the same as none. */
void indexer_drop_empty(struct ag_view *view);

#endif
