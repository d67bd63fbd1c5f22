#include "call.h"

extern const struct operation attention_operation, attention_forward_operation, indexer_operation,
    indexer_forward_operation, moe_operation, moe_permute_operation, moe_permute_grad_operation,
    moe_unpermute_operation, moe_unpermute_grad_operation;

const struct operation *const operations[PROBLEM_OPERATORS] = {
    [PROBLEM_ATTENTION] = &attention_operation,
    [PROBLEM_INDEXER] = &indexer_operation,
    [PROBLEM_MOE] = &moe_operation,
    [PROBLEM_ATTENTION_FORWARD] = &attention_forward_operation,
    [PROBLEM_INDEXER_FORWARD] = &indexer_forward_operation,
    [PROBLEM_MOE_PERMUTE] = &moe_permute_operation,
    [PROBLEM_MOE_PERMUTE_GRAD] = &moe_permute_grad_operation,
    [PROBLEM_MOE_UNPERMUTE] = &moe_unpermute_operation,
    [PROBLEM_MOE_UNPERMUTE_GRAD] = &moe_unpermute_grad_operation};
