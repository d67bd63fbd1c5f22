/* Calls of aclnnLightningIndexerGrad for tests: a case in plain values, its tensors, both phases, and the comparison
 * with the definition. What the operator must not look at is NaN or nonsense: padding rows and keys, dy of slots that
 * are not live. */
#ifndef AG_TESTS_SUPPORT_INDEXER_PROBLEM_H
#define AG_TESTS_SUPPORT_INDEXER_PROBLEM_H

#include "op/indexer/indexer.h"
#include "support/support.h"

enum test_indices {
    TEST_INDICES_FORWARD, /* as the forward operator writes them: different visible keys, then -1 */
    TEST_INDICES_WILD,    /* repeated keys, keys the row does not see, -1, beyond the end, the extremes of int32 */
    TEST_INDICES_SAME     /* the same key in every slot */
};

enum test_indexer_views {
    TEST_INDEXER_DENSE,
    TEST_INDEXER_PADDED,   /* gaps behind every dim, an offset */
    TEST_INDEXER_REVERSED, /* the first dim lies innermost */
    TEST_INDEXER_SPREAD,   /* rows of D side by side, one element between them */
    TEST_INDEXER_VIEWS
};

/* A tensor of zeros that lies so. */
struct test_tensor indexer_test_tensor(enum test_indexer_views views, int dtype, int rank, const int64_t *dims);

enum { TEST_INDEXER_SEQUENCES = 12 };

int64_t indexer_test_sum(const int64_t *values, int64_t count);
int64_t indexer_test_largest(const int64_t *values, int64_t count); /* 0 of none */

/* Zero means the default named. */
struct indexer_case {
    int dtype;                             /* AG_FLOAT, AG_FLOAT16, AG_BF16 */
    bool is_packed;                        /* TND */
    bool has_rank4_slots;                  /* dy and sparseIndices with the dim of 1 */
    int64_t sequences;                     /* 0: up to the last nonzero length, at least 1 */
    int64_t q_len[TEST_INDEXER_SEQUENCES]; /* BSND: the counts */
    int64_t kv_len[TEST_INDEXER_SEQUENCES];
    int64_t q_slack, kv_slack; /* rows behind the last (TND), or behind the longest (BSND) */
    bool has_counts;           /* BSND: the counts are given */
    int64_t heads, dim, topk;  /* 1, 128, 16 */
    int64_t mode;
    enum test_indices indices;
    enum test_indexer_views views;
    double deviation; /* of all values; 1 */
    uint64_t seed;
};

struct indexer_call {
    struct indexer_case c;
    int64_t s1, s2;     /* BSND */
    int64_t rows, keys; /* of the whole tensors */
    struct test_tensor query, key, dy, indices, weights, q_lengths, kv_lengths;
    struct test_tensor dq, dk, dweights;
    struct indexer_args args; /* what phase 1 is called with; tests change it as they like */
    int64_t head_num, pre_tokens, next_tokens;
    bool is_deterministic;
    uint64_t workspace_size;
    aclOpExecutor *executor;
};

void indexer_call_create(struct indexer_call *call, const struct indexer_case *c);

/* As indexer_call_create, then query and key 0 and weights 1: for problems by hand. */
void indexer_call_create_blank(struct indexer_call *call, const struct indexer_case *c);

/* Writes element `at`, counted row-major, of the call's sparseIndices. */
void indexer_set_index(struct indexer_call *call, int64_t at, int32_t index);

/* Checks canaries and gaps, frees. */
void indexer_call_destroy(struct indexer_call *call);

aclnnStatus indexer_call_phase1(struct indexer_call *call);

/* Phase 2 on a workspace that is exactly as large as asked for, full of 0xFF, between guard pages. */
aclnnStatus indexer_call_phase2(struct indexer_call *call);

/* Both phases, which must succeed; outputs are NaN before. */
void indexer_call_run(struct indexer_call *call);

/* The problem that phase 1 makes of call->args. */
void indexer_call_problem(const struct indexer_call *call, struct indexer_problem *problem);

/* Compares the outputs with the definition, element by element; returns the worst ratio. */
double indexer_call_compare(const struct indexer_call *call);

/* indexer_call_run, then indexer_call_compare. */
double indexer_call_verify(struct indexer_call *call);

/* Outputs of two calls have the same bits. */
void indexer_call_assert_same(const struct indexer_call *a, const struct indexer_call *b);

/* A call of one sequence of another call, with the same values; layout TND unless `c` says otherwise. */
void indexer_call_create_single(struct indexer_call *single, const struct indexer_call *from, int64_t number);

/* First row and key of a sequence in the tensors. */
int64_t indexer_call_row(const struct indexer_call *call, int64_t number);
int64_t indexer_call_key(const struct indexer_call *call, int64_t number);

/* Element `at`, counted row-major, is `want`. */
void indexer_expect(const char *what, const struct test_tensor *tensor, int64_t at, double want);

/* Rows of a [rows, width] tensor are +0, bit for bit. */
void indexer_expect_zero_rows(const char *what, const struct test_tensor *tensor, int64_t row, int64_t rows,
                              int64_t width);

/* One line that tells the case. */
const char *indexer_case_text(const struct indexer_case *c);

/* Rows of a [rows, width] tensor, elements counted row-major: to[to_row ..] = from[from_row ..]. */
void indexer_copy_rows(struct test_tensor *to, int64_t to_row, const struct test_tensor *from, int64_t from_row,
                       int64_t rows, int64_t width);

#endif
