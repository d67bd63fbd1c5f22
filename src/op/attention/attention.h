/* Attention over packs, forward and backward: the problem, as every file of this folder sees it.
 *
 *   attention_api.c         the entry points of the gradient: a table of contents
 *   attention_rules.c       the rules that both directions share, each with its status and message
 *   attention_check.c       the gradient's arguments -> problem
 *   attention_plan.c        problem -> plan: tiles, partition, workspace
 *   attention_run.c         executes the plan
 *   attention_mask.c        which columns a row sees
 *   attention_statistics.c  where a row's softmax statistics lie
 *   attention_ref.c         the definition, in double
 *   attention_forward_*.c   the same files of the forward operator
 *
 * Words: T1, T2 rows of query and key over the whole pack; N1, N2 their heads; D, Dr, Dv the dims of query/key, rope
 * and value. A sequence is one entry of the length lists: Sq query rows against Skv keys. Row i and column j count
 * within the sequence. Query head n reads key head n / group. */
#ifndef AG_OP_ATTENTION_H
#define AG_OP_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "aclnn/acl_meta.h"
#include "base/config.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/view.h"

/* --- what the caller gave, by name ----------------------------------------------------------------------- */

/* Of every version and both directions; what a version has not is NULL, or keep_prob and pse_type 1. */
struct attention_args {
    const char *entry; /* the operator's name, for messages; lives for ever */
    const aclTensor *query, *query_rope, *key, *key_rope, *value, *dy;
    const aclTensor *pse_shift, *drop_mask, *padding_mask, *atten_mask, *sink;
    const aclTensor *softmax_max, *softmax_sum, *softmax_in, *attention_in; /* the forward's outputs */
    const aclIntArray *prefix, *actual_seq_q, *actual_seq_kv, *q_start, *kv_start;
    double scale, keep_prob;
    int64_t pre_tokens, next_tokens, head_num;
    const char *input_layout;
    const char *softmax_layout; /* "", "same_as_input"; NULL counts as "" */
    int64_t inner_precise, sparse_mode, pse_type;
    const aclTensor *dq, *dq_rope, *dk, *dk_rope, *dv, *dpse, *dsink; /* the gradient's outputs */
    const uint64_t *workspace_size;                                   /* only tested against NULL */
    aclOpExecutor *const *executor;                                   /* only tested against NULL */
};

/* --- what the check makes of it -------------------------------------------------------------------------- */

/* Row i sees the columns [i + diagonal_low, max(i + diagonal_high + 1, prefix)), cut to [0, key_len): every sparse
 * mode is such an interval. Where mask bytes take part they can only take columns away. */
struct attention_sequence {
    int64_t batch;                  /* position in the length lists: the first index of a [B, ...] mask */
    int64_t query_begin, query_len; /* rows of [T1, ...] */
    int64_t key_begin, key_len;     /* rows of [T2, ...] */
    int64_t diagonal_low, diagonal_high, prefix;
};

/* Tokens are cut to this before any addition, so that no sum of them overflows. */
#define ATTENTION_FAR ((int64_t)1 << 40)

struct attention_problem {
    const char *entry;
    /* Inputs. The 16-bit or 32-bit type of all of them is `elem`, ropes included. */
    struct ag_view query, query_rope; /* [T1, N1, D], [T1, N1, Dr] */
    struct ag_view key, key_rope;     /* [T2, N2, D], [T2, N2, Dr] */
    struct ag_view value;             /* [T2, N2, Dv] */
    struct ag_view dy, attention_in;  /* [T1, N1, Dv] */
    struct ag_view sink;              /* FLOAT [N1], or absent: a score that every row of the head sees, of value 0 */
    struct ag_view mask;              /* has_mask_bytes: [B or 1, N1 or 1, >= Sq, >= Skv], strides 0 where the same
                                       * for all; else never read */
    struct ag_view softmax_max, softmax_sum; /* FLOAT [T1, N1, 8] or [N1, T1, 8]; their true order: see below. The
                                              * forward writes these two and attention_in, and has none of the following */
    /* Outputs; a rope output may be absent (then it is skipped). */
    struct ag_view dq, dq_rope; /* [T1, N1, D], [T1, N1, Dr] */
    struct ag_view dk, dk_rope; /* [T2, N2, D], [T2, N2, Dr] */
    struct ag_view dv;          /* [T2, N2, Dv] */
    struct ag_view dsink;       /* FLOAT [N1]; absent without sink */
    /* Arguments that are accepted and never touched; kept only so that the runtime can number the operands.
     * `rejected` is always absent: pseShift and dropMask. */
    struct ag_view rejected, padding_mask, softmax_in, dpse;

    enum ag_elem elem;
    int64_t query_rows, key_rows;     /* T1, T2 */
    int64_t query_heads, key_heads;   /* N1, N2 */
    int64_t group;                    /* N1 / N2 */
    int64_t dim, rope_dim, value_dim; /* D, Dr (0 without rope), Dv */
    float scale;

    int64_t sequence_count;
    const struct attention_sequence *sequences; /* sequence_count of them, in order of the pack; some are empty */
    int64_t max_query_len, max_key_len;         /* over the sequences */

    int64_t sparse_mode; /* as given: for messages; the sequences hold its meaning */
    bool has_mask;       /* attenMask was given */
    bool has_mask_bytes; /* its bytes take part (modes 0 and 1) */
    bool has_rope;
    bool is_nothing;  /* all outputs are empty: success, workspace 0, and all else here is zero */
    bool has_overlap; /* an output shares memory with an input: outputs must be staged */
    bool is_debug;    /* ACLGRAD_DEBUG=1 */
    enum ag_softmax_layout softmax_layout; /* AUTO only where the orders differ and data must decide */
};

/* Everything of phase 1 but the plan. On success *problem owns problem->sequences until attention_release. On
 * failure nothing is owned, and the message is written. Reads no tensor data. */
ag_status attention_check(const struct attention_args *args, struct attention_problem *problem);

void attention_release(struct attention_problem *problem);

/* An output's memory range meets an input's. Addresses can change between the phases (repeatable executors), so
 * phase 2 asks again. */
bool attention_outputs_overlap_inputs(const struct attention_problem *problem);

/* No two outputs share memory. */
ag_status attention_check_outputs(const struct attention_problem *problem);

/* --- which columns a row sees (attention_mask.c) --------------------------------------------------------- */

/* sparseMode. 5, a prefix with a full mask, does not exist here. */
enum attention_mode {
    ATTENTION_MODE_DEFAULT = 0,
    ATTENTION_MODE_ALL = 1,
    ATTENTION_MODE_CAUSAL_LEFT = 2,
    ATTENTION_MODE_CAUSAL_RIGHT = 3,
    ATTENTION_MODE_BAND = 4,
    ATTENTION_MODE_PREFIX_FULL = 5,
    ATTENTION_MODE_PREFIX = 6,
    ATTENTION_MODE_RIGHT_BAND_LAST = 7,
    ATTENTION_MODE_LEFT_BAND_FIRST = 8,
    ATTENTION_MODE_LAST = ATTENTION_MODE_LEFT_BAND_FIRST
};

struct attention_columns {
    int64_t begin, end; /* begin == end: none */
};

/* Sets the interval of every sequence from sparse mode, tokens (any int64) and the prefix list (NULL: none). */
void attention_set_intervals(struct attention_sequence *sequences, int64_t count, int64_t sparse_mode,
                             int64_t pre_tokens, int64_t next_tokens, const int64_t *prefix, int64_t prefix_count);

/* The columns of a row before mask bytes. Both ends never fall from one row to the next, so the columns of rows
 * [i, i + m) lie in [begin of row i, end of row i + m - 1). */
struct attention_columns attention_visible_columns(const struct attention_sequence *sequence, int64_t row);

/* The rows (of [0, query_len)) whose interval holds the column, again ends that never fall. The inverse of the above:
 * row in visible_rows(column) exactly when column in visible_columns(row). */
struct attention_columns attention_visible_rows(const struct attention_sequence *sequence, int64_t column);

/* Mask byte of column j is bytes[j * stride]; nonzero hides the column. bytes == NULL: no bytes take part. */
struct attention_mask_row {
    const uint8_t *bytes;
    int64_t stride;
};
struct attention_mask_row attention_mask_row(const struct attention_problem *problem,
                                             const struct attention_sequence *sequence, int64_t head, int64_t row);

/* The columns of a row; none when mask bytes hide them all. */
struct attention_columns attention_columns_of_row(const struct attention_problem *problem,
                                                  const struct attention_sequence *sequence, int64_t head,
                                                  int64_t row);

/* --- where statistics lie (attention_statistics.c) ------------------------------------------------------- */

/* The T1 * N1 rows of softmaxMax and softmaxSum come in one of three orders:
 *   CANN  per sequence, head-major: what the forward operator writes, whatever shape is declared
 *   TND   [T1, N1]      NTD   [N1, T1]
 * Returns the number of the row (layout must not be AUTO). */
int64_t attention_statistics_row(const struct attention_problem *problem, enum ag_softmax_layout layout,
                                 const struct attention_sequence *sequence, int64_t head, int64_t row);

/* Element offset, from ag_view_origin, of lane 0 of a row; the other seven lanes are copies and never read. */
int64_t attention_statistics_offset(const struct ag_view *statistics, int64_t statistics_row);

/* Phase 2: problem->softmax_layout, or where that is AUTO the order the data speak for. Reads a few rows of query and
 * key. Depends on the data alone, not on threads. With problem->is_debug also reports, on stderr, statistics that do
 * not normalise. */
enum ag_softmax_layout attention_choose_layout(const struct attention_problem *problem);

/* "auto", "cann", "tnd", "ntd" */
const char *attention_layout_name(enum ag_softmax_layout layout);

/* --- the definition (attention_ref.c) -------------------------------------------------------------------- */

/* Element [i, j, d] of a rank-3 view of a float type. */
double attention_read(const struct ag_view *view, int64_t i, int64_t j, int64_t d);

/* Gradients in double and, for each element, how far a right implementation may be off. Contiguous arrays of the
 * caller; ropes are ignored without rope. */
struct attention_ref {
    double *dq, *dq_bound;           /* [T1, N1, D] */
    double *dq_rope, *dq_rope_bound; /* [T1, N1, Dr] */
    double *dk, *dk_bound;           /* [T2, N2, D] */
    double *dk_rope, *dk_rope_bound; /* [T2, N2, Dr] */
    double *dv, *dv_bound;           /* [T2, N2, Dv] */
    double *dsink, *dsink_bound;     /* [N1]; ignored without sink */
};

/* Fills all arrays (slack rows with exact zeros of bound 0). Slow: a test's and a tool's business. AG_CREATE_EXECUTOR
 * when out of memory. */
ag_status attention_ref(const struct attention_problem *problem, enum ag_softmax_layout layout,
                        const struct attention_ref *ref);

#endif
