/* What the files about mixture-of-experts calls share. */
#ifndef ACLGRAD_CALL_MOE_H
#define ACLGRAD_CALL_MOE_H

#include "call.h"
#include "op/moe/moe.h"

struct checked_moe {
    struct handles handles;
    struct moe_args args;
    struct moe_problem problem;
};

/* Binds and checks. CLI_REJECTED with the library's message; release in every case. */
bool check_moe(const struct call *call, const struct tensor_set *outputs, struct checked_moe *checked);
void release_moe(struct checked_moe *checked);

/* The values of the problem's range; none where its operator has no window. */
const int64_t *moe_range(const struct problem *problem, int64_t *count);

bool generate_moe(struct call *call, uint64_t seed, enum fidelity fidelity);
bool imitate_moe(const struct call *call, struct tensor_set *values);
bool inspect_moe(struct call *call, const struct findings *findings);

/* sortedIndices, and what its positions mean to the operator that reads it. */
struct sorted_map {
    const int32_t *indices; /* [slots] */
    int64_t slots, topk;
    int64_t begin, end, local_rows;   /* positions [begin, end) are of this rank, its first local_rows have a row */
    const char *rows, *of_duplicates; /* the tensor of rows; what becomes of a position that two slots have */
};

/* Positions that appear twice, are none, or have no row. */
bool inspect_map(const struct sorted_map *map, const struct findings *findings);
void inspect_probs(const struct call *call, const struct findings *findings);

#endif
