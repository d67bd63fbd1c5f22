/* What the files about indexer calls share. */
#ifndef ACLGRAD_CALL_INDEXER_H
#define ACLGRAD_CALL_INDEXER_H

#include "call.h"
#include "op/indexer/indexer.h"
#include "op/indexer/indexer_forward.h"

struct checked_indexer {
    struct handles handles;
    struct indexer_args args;
    struct indexer_problem problem;
};

/* Binds and checks, the lengths' values included. CLI_REJECTED with the library's message; release in every case. */
bool check_indexer(const struct call *call, const struct tensor_set *outputs, struct checked_indexer *checked);
void release_indexer(struct checked_indexer *checked);

bool generate_indexer(struct call *call, uint64_t seed, enum fidelity fidelity);
bool generate_indexer_forward(struct call *call, uint64_t seed, enum fidelity fidelity);
bool imitate_indexer(const struct call *call, struct tensor_set *values);
bool inspect_indexer(struct call *call, const struct findings *findings);

/* NaN, infinities and saturated numbers in what a row that sees a key reads; of a call that was checked. */
bool inspect_forward_numbers(struct call *call, const struct indexer_forward_problem *problem,
                             const struct findings *findings);

/* Sets the keys of both operators that follow from query, key and the length tensors of these names; counts of keys lie
 * beside packed rows where keys are paged. */
void describe_indexer_tokens(struct call *call, const char *query_lengths, const char *key_lengths, bool is_paged);

#endif
