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

#endif
