/* The gradient of unpermute, aclnnMoeTokenUnpermuteWithEpGrad: the problem and the plan.
 *
 *   moe_api.c    the entry points: a table of contents; moe_unpermute_grad_api.c those without a window
 *   moe_check.c  arguments -> problem, every rule with its status and message; moe_rules.c what the operators of
 *                this folder share
 *   moe_plan.c   problem -> plan: kernels, partition, workspace
 *   moe_run.c    executes the plan
 *   moe_ref.c    the definition, in double
 *
 * Words: T tokens, K experts per token, H hidden size. Slot i = t * K + k is the k-th expert of token t; there are
 * N = T * K. sorted_indices[i] is the slot's position in the order sorted by expert, over all ranks; the window
 * [window_begin, window_end) of positions lies on this rank. A slot inside the window is local, its row is
 * position - window_begin.
 *
 * The other operators are moe_unpermute.h, which sums rows, and moe_permute.h, which scatters them as this one does.
 *
 *   grad of permuted tokens   [row of i, :] = unpermuted_tokens_grad[t, :] * probs[t, k]
 *   grad of probs             [t, k]        = sum over h of permuted_tokens[row of i, h] * unpermuted_tokens_grad[t, h]
 */
#ifndef AG_OP_MOE_H
#define AG_OP_MOE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aclnn/acl_meta.h"
#include "base/arena.h"
#include "base/config.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/view.h"
#include "kernel/moe_kernels.h"
#include "op/moe/moe_rules.h"

/* --- what the caller gave, by name ----------------------------------------------------------------------- */

struct moe_args {
    const char *entry; /* name of the function, for reports */
    const aclTensor *unpermuted_tokens_grad, *sorted_indices, *permuted_tokens, *probs;
    bool padded_mode;
    const aclIntArray *restore_shape, *range;
    int64_t topk_num;
    const aclTensor *permuted_tokens_grad, *probs_grad;
    const uint64_t *workspace_size; /* only tested against NULL */
    aclOpExecutor *const *executor; /* only tested against NULL */
};

/* --- what the check makes of it -------------------------------------------------------------------------- */

struct moe_problem {
    const char *entry;
    struct ag_view unpermuted_tokens_grad; /* [T, H] */
    struct ag_view sorted_indices;         /* [N] int32; any value, one outside the window means "not here" */
    struct ag_view permuted_tokens;        /* [R, H]; present whenever probs is */
    struct ag_view probs;                  /* [T, K], or absent: every weight is 1 */
    struct ag_view permuted_tokens_grad;   /* [R', H], contiguous */
    struct ag_view probs_grad;             /* [T, K], contiguous; not touched without probs */
    enum ag_elem token_elem, probs_elem;   /* probs_elem is meaningless without probs */
    int64_t tokens, topk, hidden, slots;   /* T, K, H, N */
    int64_t window_begin, window_end;      /* 0 <= begin <= end <= N */
    int64_t local_rows;                    /* rows that a slot may own: the window, cut to R; at most R' */
    int64_t out_rows;                      /* R' */
    bool is_debug;                         /* ACLGRAD_DEBUG=1: positions that are no permutation's are told */
    bool is_empty;                         /* both outputs have no element: nothing to do, nothing else is set */
};

/* Every rule of the contract in its order. On failure *problem is undefined. */
ag_status moe_check(const struct moe_args *args, struct moe_problem *problem);

/* 161002 when an output shares bytes with an input or with the other output. The addresses may change between the
 * phases, so both ask. */
ag_status moe_check_apart(const struct moe_problem *problem);

/* --- how it will be done --------------------------------------------------------------------------------- */

struct moe_plan {
    struct moe_problem problem;
    enum ag_isa isa;
    const struct ag_moe_kernels *kernels;
    int lanes;             /* threads that may work at a time, each with its own scratch */
    int64_t batch_slots;   /* slots of one work item, at most MOE_MOST_BATCH_SLOTS */
    bool streams;          /* rows that are copied or cleared go past the caches, ... */
    bool streams_products; /* ... and those that are scaled */
    bool gathers_grad;     /* rows of the input have a last stride other than 1: they are copied to scratch first */
    bool gathers_tokens;
    uint64_t workspace_bytes;
};
enum { MOE_MOST_BATCH_SLOTS = 64 };

/* The workspace. Columns: what, entries, entry.
 *
 *     owner        local_rows               int32: the slot whose row this is (the largest i wins), or -1
 *     local_slots  N                        int32: the slots inside the window, ascending
 *     spare_row    lanes, if probs          H elements: where a slot that lost its row to another writes it
 *     grad_rows    lanes * batch_slots      H elements: gathered gradient rows (gathers_grad)
 *     token_rows   lanes * batch_slots      H elements: gathered token rows (gathers_tokens)
 */
struct moe_workspace {
    int32_t *owner, *local_slots;
    char *spare_row, *grad_rows, *token_rows;
};

ag_status moe_make_plan(const struct moe_problem *problem, struct moe_plan *plan);
void moe_carve(struct ag_arena *arena, const struct moe_plan *plan, struct moe_workspace *workspace);

/* For struct ag_operator. */
void moe_describe(const void *plan, char *text, size_t bytes);

/* Phase 1 after the arguments have names. `op` has a struct moe_plan whose operands these are. */
struct ag_operator;
ag_status moe_prepare(const struct ag_operator *op, const struct moe_args *args, uint64_t *workspace_size,
                      aclOpExecutor **executor);
#define MOE_OPERAND(name, member)                                                                                    \
    {                                                                                                                \
        name, offsetof(struct moe_plan, problem.member)                                                              \
    }

/* Phase 2. */
ag_status moe_run(const void *plan, void *workspace);

/* The same after the check for overlap, with the workspace laid out. */
void moe_scatter(const struct moe_plan *plan, const struct moe_workspace *workspace);

/* --- the definition -------------------------------------------------------------------------------------- */

/* Computed in double. permuted_tokens_grad is rounded as the contract says (to float, then to the token type), so it
 * is the exact answer; probs_grad is not rounded, and |answer - probs_grad| <= probs_grad_bound for each element.
 * Without probs the last two are not touched and may be NULL. */
struct moe_reference {
    double *permuted_tokens_grad; /* [R', H] */
    double *probs_grad;           /* [T, K] */
    double *probs_grad_bound;     /* [T, K] */
};
void moe_ref(const struct moe_problem *problem, const struct moe_reference *reference);

#endif
