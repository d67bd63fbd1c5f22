#include "call.h"

extern const struct operation attention_operation, attention_forward_operation, indexer_operation,
    indexer_forward_operation, moe_operation;

const struct operation *const operations[PROBLEM_OPERATORS] = {
    [PROBLEM_ATTENTION] = &attention_operation,
    [PROBLEM_INDEXER] = &indexer_operation,
    [PROBLEM_MOE] = &moe_operation,
    [PROBLEM_ATTENTION_FORWARD] = &attention_forward_operation,
    [PROBLEM_INDEXER_FORWARD] = &indexer_forward_operation};
