/* aclnnLightningIndexerGrad: the problem and the plan, as every file of this folder sees them.
 *
 *   indexer_api.c       the entry points: a table of contents
 *   indexer_check.c     arguments -> problem, every rule with its status and message
 *   indexer_sequence.c  the length tensors, read in phase 2: which rows meet which keys; shared with the forward
 *   indexer_rules.c     rules of the check that the forward has as well
 *   indexer_plan.c      problem -> plan: kernels, batches, workspace
 *   indexer_run.c       executes the plan
 *   indexer_ref.c       the definition, in double
 *
 * Words: a row r is one query token, with N heads of D elements and K slots; slot j holds the number of a key,
 * counted within the row's sequence, and the gradient dy[r, j] of that key's score. A slot is live when it lies before
 * the row's limit and its key is one the sequence has; all others are skipped: neither their dy nor their key is read. */
#ifndef AG_OP_INDEXER_H
#define AG_OP_INDEXER_H

#include <stdbool.h>
#include <stdint.h>

#include "aclnn/acl_meta.h"
#include "base/arena.h"
#include "base/config.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/view.h"
#include "kernel/kernel.h"
#include "op/indexer/indexer_sequence.h"
#include "runtime/executor.h"

extern const struct ag_operator indexer_operator;

/* --- what the caller gave, by name ----------------------------------------------------------------------- */

/* headNum, preTokens, nextTokens and deterministic are accepted and never looked at, so they are not here. */
struct indexer_args {
    const aclTensor *query, *key, *dy, *sparse_indices, *weights;
    const aclTensor *actual_seq_q_len, *actual_seq_kv_len;
    const char *input_layout;
    int64_t sparse_mode;
    const aclTensor *dq, *dk, *dweights;
    const uint64_t *workspace_size; /* only tested against NULL */
    aclOpExecutor *const *executor; /* only tested against NULL */
};

/* --- what is accepted ------------------------------------------------------------------------------------ */

struct indexer_limits {
    int64_t dim_min, dim_max, heads_max, topk_max;
    bool has_float32;
};

/* By enum ag_limits: what the device takes too, and all that the kernels can do. */
extern const struct indexer_limits indexer_limits[2];

/* --- what the check makes of it -------------------------------------------------------------------------- */

/* Rows and keys are numbered through the whole tensor: r = b * S1 + s in BSND, the packed token in TND. */
struct indexer_problem {
    /* Inputs. */
    struct ag_view query;                      /* [B, S1, N, D] or [T1, N, D] */
    struct ag_view key;                        /* [B, S2, 1, D] or [T2, 1, D] */
    struct ag_view dy;                         /* rows x K, read flat: element r * K + j, whatever its dims */
    struct ag_view indices;                    /* INT32, the same; K is dy's last dim, the indices' may be larger */
    struct ag_view weights;                    /* [B, S1, N] or [T1, N] */
    struct ag_view query_lengths, key_lengths; /* INT32, `sequences` elements; values exist in phase 2 only.
                                                * TND: prefix sums. BSND: counts, either may be absent */
    /* Outputs. */
    struct ag_view dq, dk, dweights; /* as query, key, weights */

    enum ag_elem elem;        /* of all but the int32 tensors */
    bool is_packed;           /* TND */
    bool is_nothing;          /* query is empty: dkOut is zeroed, all else needs no work */
    bool is_debug;            /* ACLGRAD_DEBUG=1: indices that point nowhere are reported */
    int64_t sequences;        /* B, or the number of prefix sums */
    int64_t rows, keys;       /* B * S1 and B * S2, or T1 and T2 */
    int64_t heads, dim, topk; /* N, D, K */
    int64_t sparse_mode;      /* 0 or 3 */
};

/* Everything of phase 1 but the plan. On failure the message is written. Reads no tensor data. */
ag_status indexer_check(const struct indexer_args *args, struct indexer_problem *problem);

/* No output shares memory with another tensor of the problem: 161002 names both. Addresses can change between the
 * phases (repeatable executors), so phase 2 asks again. */
ag_status indexer_check_overlaps(const struct indexer_problem *problem);

/* --- sequences (indexer_sequence.c) ---------------------------------------------------------------------- */

/* Phase 2, before anything is written: TND prefix sums neither fall nor leave the tensor. 161002 names the first
 * entry that does. BSND counts are cut to [0, S], so nothing can be wrong with them. */
ag_status indexer_check_lengths(const struct indexer_problem *problem);

/* The same as of indexer_tokens: all sequences together own every row and every key once, in order. */
int64_t indexer_sequence_count(const struct indexer_problem *problem);
struct indexer_sequence indexer_sequence_at(const struct indexer_problem *problem, int64_t number);

/* Slots [0, limit) of the sequence's row s may be live: all K, or in sparse mode 3 as many as keys are visible to the
 * row when both ends of the sequence are aligned. 0 for padding. */
int64_t indexer_slot_limit(const struct indexer_problem *problem, const struct indexer_sequence *sequence, int64_t s);

/* --- the plan -------------------------------------------------------------------------------------------- */

/* The keys of each sequence are shared out to so many owners, each the only one to add to the gradients of its keys.
 * It walks the rows in order, so a key's sum is taken in the same order whatever the threads and the batches. */
enum { INDEXER_PARTS = 32 };

/* Sequences are worked on in waves, whose keys are packed and summed in the workspace together; the rows of a wave in
 * batches: first, row by row, dp, dq and dweights; then, owner by owner, dk from the dp of the whole batch. */
struct indexer_plan {
    struct indexer_problem problem;
    const struct ag_kernels *kernels;
    enum ag_panel panel;
    int threads;
    int64_t wave_sequences; /* all of them in TND, where lengths are not known yet */
    int64_t wave_keys;
    int64_t batch_rows;
    int64_t block_slots; /* slots whose keys are gathered at a time */
    /* Sizes of packed data in words of 4 bytes. */
    int64_t key_words;   /* a key: D elements, rounded up to a cache line */
    int64_t dim_words;   /* D floats, rounded up to half a panel */
    int64_t head_words;  /* N floats, likewise */
    int64_t dp_words;    /* one slot's dp: head_words elements of the panel's type */
    int64_t query_words; /* a row's query as lanes, and as contraction over heads: the larger one */
    uint64_t workspace_bytes;
};

ag_status indexer_make_plan(const struct indexer_problem *problem, struct indexer_plan *plan);

/* One line of key=value pairs. */
void indexer_describe(const void *plan, char *text, size_t bytes);

/* A row of the batch at hand. */
struct indexer_row {
    int64_t row;       /* in the whole tensor */
    int64_t key_begin; /* first key of its sequence, counted in the wave */
    int64_t keys;      /* live keys of its sequence */
    int64_t limit;     /* slots that may be live */
    int64_t count;     /* slots that are: known after the first phase */
};

/* Scratch of one thread. */
struct indexer_lane {
    int32_t *indices;   /* [K] as given */
    float *dy;          /* [K] of the live slots */
    uint32_t *query;    /* [query_words] heads as lanes */
    float *weights;     /* [head_words] */
    float *dweights;    /* [head_words] */
    float *dq;          /* [N, dim_words] */
    uint32_t *gathered; /* [panels of D][words of block_slots][lanes] */
    uint32_t *dp_pairs; /* [words of block_slots][head_words]; bf16 panels only */
};

/* The workspace, top to bottom. */
struct indexer_workspace {
    uint32_t *keys;             /* [wave_keys, key_words]; idle where the tensor's rows are words already */
    float *dk;                  /* [wave_keys, dim_words] */
    struct indexer_row *rows;   /* [batch_rows] */
    uint32_t *dp;               /* [batch_rows, K, dp_words] */
    uint32_t *queries;          /* [batch_rows, query_words] contraction over heads */
    int32_t *numbers;           /* [batch_rows, K] keys of the live slots */
    int32_t *entries;           /* [batch_rows, K] live slots by owner of their key */
    int32_t *starts;            /* [batch_rows, INDEXER_PARTS + 1] first entry of each owner */
    struct indexer_lane *lanes; /* [threads], and what they point to */
};

/* Measures, or lays out over the caller's block. */
void indexer_carve(struct ag_arena *arena, const struct indexer_plan *plan, struct indexer_workspace *workspace);

/* --- phase 2 --------------------------------------------------------------------------------------------- */

ag_status indexer_run(const void *plan, void *workspace);

/* --- the definition (indexer_ref.c) ---------------------------------------------------------------------- */

/* Dense arrays that the caller owns: value and the most by which a correct result may differ from it. */
struct indexer_reference {
    double *dq, *dq_bound;             /* [rows, N, D] */
    double *dk, *dk_bound;             /* [keys, D] */
    double *dweights, *dweights_bound; /* [rows, N] */
};

/* Fills all six arrays; where nothing flows, 0 with bound 0. Reads the tensors' data, so the lengths must have been
 * checked. Slow: a test's and a tool's business. AG_CREATE_EXECUTOR when out of memory. */
ag_status indexer_ref(const struct indexer_problem *problem, const struct indexer_reference *reference);

#endif
