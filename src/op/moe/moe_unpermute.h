/* Rows back into token order: aclnnMoeTokenUnpermuteWithEp, and the gradient of permute, aclnnMoeTokenPermuteWithEpGrad,
 * which is the same sum without weights and hands back the gradients of the probabilities beside it. Words as in moe.h.
 *
 *   moe_unpermute_api.c, moe_permute_grad_api.c      the entry points
 *   moe_unpermute_check.c, moe_permute_grad_check.c  arguments -> problem
 *   moe_unpermute_plan.c                             problem -> plan
 *   moe_unpermute_run.c                              executes the plan
 *   moe_unpermute_ref.c                              the definition, in double
 *
 *   tokens    [t, :] = sum over local slots i = t * K + k of permuted_tokens[row of i, :] * probs[t, k]
 *   probs_out [t, k] = permuted_probs[row of i], 0 for a slot that is not local
 */
#ifndef AG_OP_MOE_UNPERMUTE_H
#define AG_OP_MOE_UNPERMUTE_H

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

struct moe_unpermute_args {
    const aclTensor *permuted_tokens, *sorted_indices, *probs;
    int64_t num_topk;
    const aclIntArray *range;
    bool padded_mode;
    const aclIntArray *restore_shape;
    const aclTensor *tokens;
    const uint64_t *workspace_size; /* only tested against NULL */
    aclOpExecutor *const *executor; /* only tested against NULL */
};

struct moe_permute_grad_args {
    const aclTensor *permuted_tokens_grad, *sorted_indices, *permuted_probs_grad;
    int64_t num_topk;
    const aclIntArray *range;
    bool padded_mode;
    const aclTensor *tokens_grad, *probs_grad;
    const uint64_t *workspace_size; /* only tested against NULL */
    aclOpExecutor *const *executor; /* only tested against NULL */
};

/* --- what the checks make of it -------------------------------------------------------------------------- */

struct moe_unpermute_problem {
    struct ag_view permuted_tokens; /* [R, H] */
    struct ag_view sorted_indices;  /* [N] int32; any value, one outside the window means "not here" */
    struct ag_view probs;           /* [T, K], or absent: every weight is 1 */
    struct ag_view permuted_probs;  /* [R], or absent; a gradient, only with probs_out */
    struct ag_view tokens;          /* [T, H], contiguous */
    struct ag_view probs_out;       /* [T, K], contiguous; not touched without permuted_probs */
    enum ag_elem token_elem;
    int64_t tokens_count, topk, hidden, slots; /* T, K, H, N */
    struct moe_window window;
    int64_t local_rows; /* rows that slots may read: the window, cut to R */
    bool is_empty;      /* no output has an element: nothing to do, nothing else is set */
};

/* Every rule of the contracts in its order. On failure *problem is undefined. */
ag_status moe_unpermute_check(const struct moe_unpermute_args *args, struct moe_unpermute_problem *problem);
ag_status moe_permute_grad_check(const struct moe_permute_grad_args *args, struct moe_unpermute_problem *problem);

/* 161002 when an output shares bytes with an input or with the other output; under the names of either entry. */
ag_status moe_unpermute_check_apart(const struct moe_unpermute_problem *problem);
ag_status moe_permute_grad_check_apart(const struct moe_unpermute_problem *problem);

/* What both checks do once ranks and padded mode are right: sizes, window, rows. */
struct moe_unpermute_names {
    const char *permuted_tokens, *tokens;
};
ag_status moe_unpermute_measure(const struct moe_unpermute_names *names, int64_t num_topk, const aclIntArray *range,
                                struct moe_unpermute_problem *problem);

/* --- how it will be done --------------------------------------------------------------------------------- */

struct moe_unpermute_plan {
    struct moe_unpermute_problem problem;
    enum ag_isa isa;
    const struct ag_moe_kernels *kernels;
    int lanes;            /* threads that may work at a time, each with its own scratch */
    int64_t batch_tokens; /* tokens of one work item, at most MOE_MOST_BATCH_TOKENS */
    bool streams;         /* tokens go past the caches */
    bool gathers;         /* the rows have a last stride other than 1: they are copied to scratch first */
    int64_t columns;      /* that are summed at a time: H, fewer where rows are gathered */
    uint64_t workspace_bytes;
};
enum { MOE_MOST_BATCH_TOKENS = 64 };

/* The workspace. Columns: what, entries, entry.
 *
 *     terms     lanes * batch_tokens * K     struct ag_moe_term: the rows of a work item's tokens
 *     dense     lanes * K, if gathers        the same of the copies of one token's rows
 *     gathered  lanes * K, if gathers        `columns` elements: the copies
 */
struct moe_unpermute_workspace {
    struct ag_moe_term *terms, *dense;
    char *gathered;
};

ag_status moe_unpermute_make_plan(const struct moe_unpermute_problem *problem, struct moe_unpermute_plan *plan);
void moe_unpermute_carve(struct ag_arena *arena, const struct moe_unpermute_plan *plan,
                         struct moe_unpermute_workspace *workspace);

/* For struct ag_operator. */
void moe_unpermute_describe(const void *plan, char *text, size_t bytes);
#define MOE_UNPERMUTE_OPERAND(name, member)                                                                          \
    {                                                                                                                \
        name, offsetof(struct moe_unpermute_plan, problem.member)                                                    \
    }

/* Phase 2 of each entry, which name overlaps differently. */
ag_status moe_unpermute_run(const void *plan, void *workspace);
ag_status moe_permute_grad_run(const void *plan, void *workspace);

/* --- the definition -------------------------------------------------------------------------------------- */

/* Computed in double and not rounded: |answer - tokens| <= tokens_bound for each element; probs_out is exact. Without
 * permuted_probs the last is not touched and may be NULL. */
struct moe_unpermute_reference {
    double *tokens;       /* [T, H] */
    double *tokens_bound; /* [T, H] */
    double *probs_out;    /* [T, K] */
};
void moe_unpermute_ref(const struct moe_unpermute_problem *problem, const struct moe_unpermute_reference *reference);

#endif
