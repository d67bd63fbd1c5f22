/* Tokens in the order of their experts: aclnnMoeTokenPermuteWithEp. Words as in moe.h.
 *
 *   moe_permute_api.c    the entry points
 *   moe_permute_check.c  arguments -> problem
 *   moe_permute_plan.c   problem -> plan
 *   moe_permute_sort.c   experts -> positions
 *   moe_permute_run.c    executes the plan: sorts, then scatters rows as the gradient of unpermute does
 *   moe_permute_ref.c    the definition
 *
 *   sorted_indices  [i]                  = number of slots j with indices[j] < indices[i], or equal and j < i
 *   permuted_tokens [row of i, :]        = tokens[t, :]
 *   permuted_probs  [row of i]           = probs[t, k]
 */
#ifndef AG_OP_MOE_PERMUTE_H
#define AG_OP_MOE_PERMUTE_H

#include "op/moe/moe.h"

/* --- what the caller gave, by name ----------------------------------------------------------------------- */

struct moe_permute_args {
    const aclTensor *tokens, *indices, *probs;
    const aclIntArray *range;
    int64_t num_out_tokens;
    bool padded_mode;
    const aclTensor *permuted_tokens, *sorted_indices, *permuted_probs;
    const uint64_t *workspace_size; /* only tested against NULL */
    aclOpExecutor *const *executor; /* only tested against NULL */
};

/* --- what the check makes of it -------------------------------------------------------------------------- */

struct moe_permute_problem {
    struct ag_view tokens;          /* [T, H] */
    struct ag_view indices;         /* [T, K] or [T] int32 or int64; any value */
    struct ag_view probs;           /* [T, K], or absent */
    struct ag_view permuted_tokens; /* [R, H], contiguous */
    struct ag_view sorted_indices;  /* [N] int32, contiguous */
    struct ag_view permuted_probs;  /* [R''], contiguous; not touched without probs */
    enum ag_elem token_elem;
    int64_t tokens_count, topk, hidden, slots; /* T, K, H, N */
    struct moe_window window;
    int64_t local_rows; /* rows that have a slot: the window, cut by numOutTokens; at most R and R'' */
    bool is_empty;      /* no output has an element: nothing to do, nothing else is set */
};

/* Every rule of the contract in its order. On failure *problem is undefined. */
ag_status moe_permute_check(const struct moe_permute_args *args, struct moe_permute_problem *problem);

/* 161002 when an output shares bytes with an input or with another output. */
ag_status moe_permute_check_apart(const struct moe_permute_problem *problem);

/* --- how it will be done --------------------------------------------------------------------------------- */

struct moe_permute_plan {
    struct moe_permute_problem problem;
    struct moe_plan scatter; /* of moe_permute_scatter(problem); phase 2 takes the addresses from `problem` */
    uint64_t workspace_bytes;
};

/* The copy of rows, as the gradient of an unpermute without weights: that one's gradient are these tokens. */
struct moe_problem moe_permute_scatter(const struct moe_permute_problem *problem);

/* What the sort needs. Columns: what, entries, entry.
 *
 *     keys          N                  uint64: experts, the smallest one as 0
 *     order, next   N                  int32: slots in the order of the digits so far, and of one more
 *     starts        MOE_SORT_DIGITS    int32: where the slots of a digit go
 */
struct moe_sort_scratch {
    uint64_t *keys;
    int32_t *order, *next, *starts;
};
enum { MOE_SORT_BITS = 12, MOE_SORT_DIGITS = 1 << MOE_SORT_BITS }; /* the starts fill half of a first cache */

struct moe_permute_workspace {
    struct moe_sort_scratch sort;
    struct moe_workspace scatter;
};

ag_status moe_permute_make_plan(const struct moe_permute_problem *problem, struct moe_permute_plan *plan);
void moe_permute_carve(struct ag_arena *arena, const struct moe_permute_plan *plan,
                       struct moe_permute_workspace *workspace);

/* For struct ag_operator. */
void moe_permute_describe(const void *plan, char *text, size_t bytes);

/* Writes sorted_indices. Stable, in linear time: a counting sort by the last MOE_SORT_BITS bits of the expert, one more by
 * each further so many bits that the experts differ in; for up to MOE_SORT_DIGITS experts one is enough. */
void moe_permute_sort(const struct moe_permute_problem *problem, const struct moe_sort_scratch *scratch);

/* Phase 2. */
ag_status moe_permute_run(const void *plan, void *workspace);

/* --- the definition -------------------------------------------------------------------------------------- */

/* Exact: bytes are moved. Without probs permuted_probs is not touched and may be NULL. */
struct moe_permute_reference {
    double *permuted_tokens; /* [R, H] */
    double *sorted_indices;  /* [N] */
    double *permuted_probs;  /* [R''] */
};
void moe_permute_ref(const struct moe_permute_problem *problem, const struct moe_permute_reference *reference);

#endif
