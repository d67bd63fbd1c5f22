/* aclnnFlashAttentionVarLenScoreV3, V4 and V5: the problem is that of the gradient (attention.h), where softmax_max,
 * softmax_sum and attention_in are what is written.
 *
 *   attention_forward_api.c    the entry points
 *   attention_forward_check.c  arguments -> problem
 *   attention_forward_plan.c   problem -> plan: items, workspace
 *   attention_forward_run.c    executes the plan
 *   attention_forward_ref.c    the definition, in double */
#ifndef AG_OP_ATTENTION_FORWARD_H
#define AG_OP_ATTENTION_FORWARD_H

#include "op/attention/attention.h"

enum attention_forward_version {
    ATTENTION_FORWARD_V3, /* with rope, BF16 (ACLGRAD_LIMITS=extended: as V5) */
    ATTENTION_FORWARD_V4, /* without rope */
    ATTENTION_FORWARD_V5  /* rope or none, and a sink */
};

/* As attention_check; attention_release frees. problem->softmax_layout is the order to write, never AUTO. */
ag_status attention_forward_check(const struct attention_args *args, enum attention_forward_version version,
                                  struct attention_problem *problem);

/* As attention_outputs_overlap_inputs. */
bool attention_forward_outputs_overlap_inputs(const struct attention_problem *problem);

/* As attention_check_outputs. */
ag_status attention_forward_check_outputs(const struct attention_problem *problem);

/* --- the definition (attention_forward_ref.c) ------------------------------------------------------------ */

/* Results in double and, for each, how far a right implementation may be off. Contiguous arrays of the caller. max and
 * sum have one number per row of the statistics, in the order of problem->softmax_layout. */
struct attention_forward_ref {
    double *attention, *attention_bound; /* [T1, N1, Dv] */
    double *max, *max_bound;             /* [T1 * N1] */
    double *sum, *sum_bound;             /* [T1 * N1] */
};

/* Fills all arrays (rows of no sequence with exact zeros). AG_CREATE_EXECUTOR when out of memory. */
ag_status attention_forward_ref(const struct attention_problem *problem, const struct attention_forward_ref *ref);

#endif
