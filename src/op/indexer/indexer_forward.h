/* aclnnLightningIndexer: the problem and the plan, as every file of the forward sees them.
 *
 *   indexer_forward_api.c     the entry points: a table of contents
 *   indexer_forward_check.c   arguments -> problem, every rule with its status and message
 *   indexer_forward_plan.c    problem -> plan: kernels, waves, batches, workspace
 *   indexer_forward_run.c     executes the plan
 *   indexer_forward_select.c  the best of a row's scores, in order
 *   indexer_forward_ref.c     the definition, in double
 *   indexer_forward_judge.c   which results are right by it
 *
 * Words: a row r is one query token with N heads of D elements; it scores the keys of its sequence that it sees, numbered
 * within the sequence, and keeps the K best. */
#ifndef AG_OP_INDEXER_FORWARD_H
#define AG_OP_INDEXER_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "aclnn/acl_meta.h"
#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/view.h"
#include "kernel/kernel.h"
#include "op/indexer/indexer_sequence.h"
#include "runtime/executor.h"

extern const struct ag_operator indexer_forward_operator;

/* --- what the caller gave, by name ----------------------------------------------------------------------- */

struct indexer_forward_args {
    const aclTensor *query, *key, *weights;
    const aclTensor *actual_seq_lengths_query, *actual_seq_lengths_key, *block_table;
    const char *layout_query, *layout_key; /* NULL: "BSND" */
    int64_t sparse_count, sparse_mode, pre_tokens, next_tokens;
    bool return_values;
    const aclTensor *sparse_indices, *sparse_values;
    const uint64_t *workspace_size; /* only tested against NULL */
    aclOpExecutor *const *executor; /* only tested against NULL */
};

/* --- what is accepted ------------------------------------------------------------------------------------ */

/* Beside those of indexer_limits. */
struct indexer_forward_limits {
    int64_t topk_max;              /* any count up to here, and */
    int64_t topk_step, topk_limit; /* whole multiples of the step up to the limit */
    int64_t block_step, block_max; /* keys of a block of paged memory */
    bool has_paged_values;
};

extern const struct indexer_forward_limits indexer_forward_limits[2]; /* by enum ag_limits */

/* --- what the check makes of it -------------------------------------------------------------------------- */

struct indexer_forward_problem {
    /* Inputs. */
    struct ag_view query;                      /* [B, S1, N, D] or [T1, N, D] */
    struct ag_view key;                        /* [B, S2, 1, D], [T2, 1, D], or paged: [blocks, block_size, 1, D] */
    struct ag_view weights;                    /* [B, S1, N] or [T1, N] */
    struct ag_view query_lengths, key_lengths; /* INT32, `sequences` elements; see struct indexer_tokens */
    struct ag_view block_table;                /* INT32 [B, blocks of a sequence]; paged only */
    /* Outputs. */
    struct ag_view indices; /* INT32 [B, S1, 1, K] or [T1, 1, K] */
    struct ag_view values;  /* the same; present only where they are wanted */

    enum ag_elem elem, weights_elem; /* of query, key and values; of weights */
    bool is_packed, has_packed_keys; /* TND: of query; of key */
    bool is_paged;
    bool is_nothing;     /* query is empty: nothing is written */
    int64_t sequences;   /* B, or the number of prefix sums */
    int64_t rows, keys;  /* B * S1 or T1; B * S2 or T2, where S2 of paged keys is what the table has room for */
    int64_t block_size;  /* keys; paged only */
    int64_t heads, dim;  /* N, D */
    int64_t topk;        /* K */
    int64_t sparse_mode; /* 0 or 3 */
};

/* Everything of phase 1 but the plan. On failure the message is written. Reads no tensor data. */
ag_status indexer_forward_check(const struct indexer_forward_args *args, struct indexer_forward_problem *problem);

/* Phase 2, before anything is written: outputs with memory of their own (addresses can change between the phases),
 * prefix sums that fit the tensors, and table entries that name a block wherever a key is read. */
ag_status indexer_forward_check_data(const struct indexer_forward_problem *problem);

/* --- sequences ------------------------------------------------------------------------------------------- */

struct indexer_tokens indexer_forward_tokens(const struct indexer_forward_problem *problem);

/* Keys [0, limit) are what the sequence's row s sees. */
int64_t indexer_forward_limit(const struct indexer_forward_problem *problem, const struct indexer_sequence *sequence,
                              int64_t s);

/* Keys [first, first + count) of sequence `number` to dense memory, [count, D] in the tensor's type. */
void indexer_forward_gather_keys(const struct indexer_forward_problem *problem, void *dense, int64_t number,
                                 const struct indexer_sequence *sequence, int64_t first, int64_t count);

/* --- the plan -------------------------------------------------------------------------------------------- */

/* Sequences are worked on in waves, whose keys are packed into the workspace together; the rows of a wave in batches,
 * whose scores are in the workspace together. Rows of a sequence that lie side by side form groups, which share the walk
 * over the keys. */
struct indexer_forward_plan {
    struct indexer_forward_problem problem;
    const struct ag_kernels *kernels;
    enum ag_panel panel;
    int threads;
    int64_t wave_sequences; /* all of them where keys are packed (TND): lengths are not known yet */
    int64_t wave_panels;
    int64_t group_rows;
    int64_t step_keys; /* keys whose products with a group's heads are in the nearest cache together: whole panels */
    int64_t batch_groups, batch_scores;
    int64_t selected;   /* the most that a row keeps: K, or all keys of a sequence */
    int64_t depth;      /* words of a key */
    int64_t head_words; /* a head of the query: depth, rounded up to a cache line */
    uint64_t workspace_bytes;
};

ag_status indexer_forward_make_plan(const struct indexer_forward_problem *problem, struct indexer_forward_plan *plan);

/* One line of key=value pairs. */
void indexer_forward_describe(const void *plan, char *text, size_t bytes);

/* Keys are packed so many at a time: whole panels of every table. */
enum { INDEXER_PACK_KEYS = 256 };

/* Rows [row, row + rows) of one sequence, all live or all padding. Row i sees keys [0, visible + i * step) of the
 * sequence's, cut to [0, keys]. */
struct indexer_forward_group {
    int64_t row, rows;
    int64_t keys, visible, step;
    int64_t panel;                     /* of the wave: the sequence's first */
    int64_t score_begin, score_stride; /* row i's scores in the batch: from score_begin + i * score_stride on */
    int64_t first_item;                /* of the batch's items of scoring */
};

/* Where indexer_select works. */
struct indexer_selection {
    uint32_t *histogram;              /* [INDEXER_BINS] */
    uint32_t *ranks, *other_ranks;    /* [selected + 1] */
    int32_t *numbers, *other_numbers; /* [selected + 1] */
};

enum { INDEXER_BINS = 2048 };

/* Scratch of one thread. */
struct indexer_forward_lane {
    uint32_t *query; /* [group_rows * N, head_words] */
    float *weights;  /* [group_rows * N] */
    float *products; /* [group_rows * N, step_keys] */
    char *keys;      /* [INDEXER_PACK_KEYS, D] of the tensor's type; paged only */
    float *values;   /* [selected] */
    struct indexer_selection selection;
};

/* The workspace, top to bottom. */
struct indexer_forward_workspace {
    uint32_t *panels;                     /* [wave_panels][depth][lanes] keys as lanes */
    float *scores;                        /* [batch_scores] */
    struct indexer_forward_group *groups; /* [batch_groups] */
    struct indexer_forward_lane *lanes;   /* [threads], and what they point to */
};

/* Measures, or lays out over the caller's block. */
void indexer_forward_carve(struct ag_arena *arena, const struct indexer_forward_plan *plan,
                           struct indexer_forward_workspace *workspace);

/* --- phase 2 --------------------------------------------------------------------------------------------- */

ag_status indexer_forward_run(const void *plan, void *workspace);

/* The count <= keys best of scores[0 .. keys), best first, of equal ones (-0 equals 0) the lower number first, NaN last:
 * s->numbers and s->ranks, whose scores are indexer_score_of(rank). Linear in keys and in count. */
void indexer_select(const struct indexer_selection *s, const float *scores, int64_t keys, int64_t count);

/* 0 for NaN; -0 comes back as 0. */
float indexer_score_of(uint32_t rank);

/* --- the definition (indexer_forward_ref.c) -------------------------------------------------------------- */

/* Row s of a sequence: the scores of the keys that it sees, and the most by which a correct one may differ before it is
 * rounded to the type of the values. score and bound are [limit]. Reads the tensors' data, so it must have been
 * checked. AG_CREATE_EXECUTOR when out of memory. */
ag_status indexer_forward_ref(const struct indexer_forward_problem *problem, int64_t number, int64_t s, double *score,
                              double *bound);

/* One row of a right result: keys and, behind the last of them, -1; their scores before rounding, -inf; bounds, 0. */
struct indexer_forward_row {
    int32_t *keys;           /* [K] */
    double *values, *bounds; /* [K] */
};

/* Row s of a sequence: `got` ([K]; NULL: nothing) where it is right, and what is right in place of the rest; of equal
 * scores the lower key first. Reads data and may be out of memory, as above (indexer_forward_judge.c). */
ag_status indexer_forward_settle(const struct indexer_forward_problem *problem, int64_t number, int64_t s,
                                 const int32_t *got, const struct indexer_forward_row *want);

/* Whether the problem's outputs are right; if not, text says where and why. */
ag_status indexer_forward_judge(const struct indexer_forward_problem *problem, bool *is_right, char *text,
                                size_t bytes);

#endif
