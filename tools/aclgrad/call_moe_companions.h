/* What the files about calls of permute, its gradient and unpermute share. */
#ifndef ACLGRAD_CALL_MOE_COMPANIONS_H
#define ACLGRAD_CALL_MOE_COMPANIONS_H

#include "call.h"
#include "op/moe/moe_permute.h"
#include "op/moe/moe_unpermute.h"

/* The arguments of all three, in the order of their lists. */
struct companion_args {
    const aclTensor *in[3], *out[3];
    const aclIntArray *range;
    int64_t number; /* numOutTokens, numTopk */
    bool padded_mode;
};

struct checked_companion {
    struct handles handles;
    struct companion_args args;
    struct moe_permute_problem permute;     /* of a permute */
    struct moe_unpermute_problem unpermute; /* of the two others */
};

/* Binds and checks. CLI_REJECTED with the library's message; release in every case. */
bool check_companion(const struct call *call, const struct tensor_set *outputs, struct checked_companion *checked);
void release_companion(struct checked_companion *checked);

bool generate_moe_companion(struct call *call, uint64_t seed, enum fidelity fidelity);
bool imitate_moe_companion(const struct call *call, struct tensor_set *values);
bool inspect_moe_companion(struct call *call, const struct findings *findings);

#endif
