/* Calls of aclnnFlashAttentionUnpaddingScoreGradV3, its sisters and the forward for tests: a case in plain values, its
 * tensors with realistic statistics, and the comparison with the definition.
 *
 * The forward pass here shares nothing with the library: its visibility rule is the table of the operator's page, pair
 * by pair, and its arithmetic is double throughout. */
#ifndef AG_TESTS_SUPPORT_ATTENTION_PROBLEM_H
#define AG_TESTS_SUPPORT_ATTENTION_PROBLEM_H

#include "op/attention/attention.h"
#include "op/attention/attention_forward.h"
#include "support/support.h"

enum test_mask_shape {
    TEST_MASK_NONE,
    TEST_MASK_COMPRESSED, /* [2048, 2048], in mode 6 [3072, 2048]; its bytes cannot be read */
    TEST_MASK_SS,         /* [max Sq, max Skv], as the following three with bytes that count */
    TEST_MASK_11SS,
    TEST_MASK_B1SS,
    TEST_MASK_BNSS
};

enum test_mask_bytes {
    TEST_MASK_ZEROS,
    TEST_MASK_RANDOM, /* about a third hidden, by different nonzero bytes */
    TEST_MASK_ONES,
    TEST_MASK_CHECKERS, /* where i + j is odd */
    TEST_MASK_HOLES     /* whole rows and whole columns hidden */
};

enum test_views {
    TEST_VIEWS_DENSE,
    TEST_VIEWS_PADDED,     /* gaps behind rows and heads, an offset */
    TEST_VIEWS_TRANSPOSED, /* [T, N, D] over memory that is [N, T, D] */
    TEST_VIEWS_SPREAD      /* every third element */
};

enum { TEST_MOST_SEQUENCES = 16 };

/* Zero means the default named. */
struct attention_case {
    int dtype;                 /* AG_FLOAT, ... */
    int64_t n1, n2, d, dr, dv; /* n1, n2: 1; dv: d */
    int64_t count;             /* entries of both lists; 0: as many as q_ends up to the last nonzero */
    int64_t q_ends[TEST_MOST_SEQUENCES];
    int64_t kv_ends[TEST_MOST_SEQUENCES]; /* all zero: as q_ends */
    int64_t q_slack, kv_slack;            /* rows behind the last end; NaN in all inputs */
    int64_t mode, pre, next;
    int64_t prefix[TEST_MOST_SEQUENCES];
    enum test_mask_shape mask_shape;
    enum test_mask_bytes mask_bytes;
    int64_t mask_extra;            /* added to the last two dims of the mask */
    double scale;                  /* 1 / sqrt(d + dr) */
    double deviation;              /* of query, key and rope; 1 */
    enum ag_softmax_layout layout; /* the order of the statistics; AUTO: CANN */
    enum test_views views;
    bool has_sink;
    int version;            /* of the entry, 1 to 5; 3, with a sink 5. The forward: 3, 4 or 5 */
    bool is_as_input;       /* versions 4 and 5: the statistics' layout is "same_as_input" */
    bool invent_statistics; /* made up: for cases too large for the forward pass */
    uint64_t seed;
};

/* The same in doubles, for the forward pass. Dense. */
struct attention_doubles {
    double *q, *qr, *k, *kr, *v; /* [T1, N1, D], [T1, N1, Dr], [T2, N2, D], [T2, N2, Dr], [T2, N2, Dv] */
    double *sink;                /* [N1]; NULL: none */
    double *max, *sum, *out;     /* [T1, N1], [T1, N1], [T1, N1, Dv] */
};

struct attention_call {
    struct attention_case c;
    int64_t t1, t2;
    struct test_tensor q, qr, k, kr, v, dy, mask, sink, max, sum, out;
    struct test_tensor dq, dqr, dk, dkr, dv, dsink;
    aclTensor *compressed_mask; /* instead of mask */
    struct attention_doubles doubles;
    aclIntArray *q_list, *kv_list, *prefix;
    struct attention_args args; /* what phase 1 is called with; tests change it as they like */
    uint64_t workspace_size;
    aclOpExecutor *executor;
};

/* Builds all: random inputs, statistics and attentionIn from the forward pass, outputs full of NaN. */
void attention_call_create(struct attention_call *call, const struct attention_case *c);

/* After a test has changed inputs: statistics and attentionIn from the forward pass again. */
void attention_call_refresh(struct attention_call *call);

/* Checks canaries and gaps, frees. */
void attention_call_destroy(struct attention_call *call);

/* Phase 1 with call->args. */
aclnnStatus attention_call_phase1(struct attention_call *call);

/* Both phases, which must succeed; the workspace is exactly as large as asked for, full of 0xFF, between guard pages.
 * Fills the outputs with NaN first. */
void attention_call_run(struct attention_call *call);

/* The definition's results and bounds for the call; attention_call_ref_free releases them. */
struct attention_ref attention_call_ref(struct attention_call *call, enum ag_softmax_layout layout);
void attention_call_ref_free(struct attention_ref *ref);

/* Compares the outputs with the definition, element by element; returns the worst error as a fraction of its bound. */
double attention_call_compare_with(const struct attention_call *call, const struct attention_ref *ref);

/* Runs the call and compares it in the case's own order of statistics. */
double attention_call_verify(struct attention_call *call);

/* The same in every kernel table that this CPU runs. */
void attention_call_verify_each_isa(struct attention_call *call);

/* Outputs of two calls have the same bits. */
void attention_call_assert_same(const struct attention_call *a, const struct attention_call *b);

/* Recomputes max, sum and out in doubles from q, qr, k, kr, v (see attention_forward.c). */
void attention_forward(const struct attention_call *call, struct attention_doubles *x);

/* Row i of sequence b and query head n sees column j: the table of sparse modes, and the mask's bytes. */
bool attention_forward_sees(const struct attention_call *call, int64_t b, int64_t n, int64_t i, int64_t j);

/* Writes doubles->max, ->sum into the tensors in the given order (lanes 1-7: NaN) and doubles->out into attentionIn. */
void attention_call_store_statistics(struct attention_call *call, enum ag_softmax_layout layout);

/* --- the forward operator (attention_forward_call.c), whose outputs are max, sum and out of the same call --- */

/* Phase 1 with call->args. */
aclnnStatus attention_forward_phase1(struct attention_call *call);

/* Both phases, as attention_call_run. */
void attention_forward_run(struct attention_call *call);

/* The definition's results and bounds for the call. */
struct attention_forward_ref attention_forward_call_ref(struct attention_call *call);
void attention_forward_call_ref_free(struct attention_forward_ref *ref);

/* Compares max, sum (all eight lanes of each row) and out with the definition, element by element. */
double attention_forward_compare_with(const struct attention_call *call, const struct attention_forward_ref *ref);

/* Runs and compares; the second in every kernel table that this CPU runs. */
double attention_forward_verify(struct attention_call *call);
void attention_forward_verify_each_isa(struct attention_call *call);

/* The forward's outputs of two calls have the same bits. */
void attention_forward_assert_same(const struct attention_call *a, const struct attention_call *b);

/* One line that tells the case. */
const char *attention_case_text(const struct attention_case *c);

/* Fills in the defaults. */
struct attention_case attention_case_with_defaults(struct attention_case c);

int64_t attention_case_last_end(const int64_t *ends, int64_t count);

/* First row and number of rows of an entry of a list of cumulative ends. */
struct attention_rows {
    int64_t begin, count;
};
struct attention_rows attention_case_rows(const struct attention_case *c, const int64_t *ends, int64_t b);

#endif
