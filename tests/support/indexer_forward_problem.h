/* Calls of aclnnLightningIndexer for tests: a case in plain values, its tensors, both phases, and the judgement by the
 * definition. What the operator must not look at is NaN or nonsense: padding rows and keys, blocks of no sequence, table
 * entries behind the last key. */
#ifndef AG_TESTS_SUPPORT_INDEXER_FORWARD_PROBLEM_H
#define AG_TESTS_SUPPORT_INDEXER_FORWARD_PROBLEM_H

#include "op/indexer/indexer_forward.h"
#include "support/indexer_problem.h"

/* Zero means the default named. */
struct indexer_forward_case {
    int dtype; /* AG_FLOAT, AG_FLOAT16, AG_BF16 */
    bool has_float_weights;
    bool is_packed; /* TND */
    bool is_paged;
    bool has_values;
    int64_t sequences;                     /* 0: up to the last nonzero length, at least 1 */
    int64_t q_len[TEST_INDEXER_SEQUENCES]; /* BSND: the counts */
    int64_t kv_len[TEST_INDEXER_SEQUENCES];
    int64_t q_slack, kv_slack; /* rows behind the last (TND), or behind the longest (else) */
    bool has_counts;           /* BSND: the counts are given */
    int64_t block_size;        /* 16 */
    int64_t heads, dim, topk;  /* 1, 128, 16 */
    int64_t mode;
    enum test_indexer_views views;
    bool is_whole; /* all values are whole numbers so small that float sums are exact: many scores are equal */
    uint64_t seed;
};

struct indexer_forward_call {
    struct indexer_forward_case c;
    int64_t s1, s2;     /* BSND */
    int64_t rows, keys; /* TND: of the whole tensors */
    struct test_tensor query, key, weights, q_lengths, kv_lengths, table, indices, values;
    struct indexer_forward_args args; /* what phase 1 is called with; tests change it as they like */
    uint64_t workspace_size;
    aclOpExecutor *executor;
};

const char *indexer_forward_case_text(const struct indexer_forward_case *c);

void indexer_forward_call_create(struct indexer_forward_call *call, const struct indexer_forward_case *c);

/* Checks canaries and gaps, frees. */
void indexer_forward_call_destroy(struct indexer_forward_call *call);

aclnnStatus indexer_forward_call_phase1(struct indexer_forward_call *call);

/* Phase 2 on a workspace that is exactly as large as asked for, full of 0xFF, between guard pages. */
aclnnStatus indexer_forward_call_phase2(struct indexer_forward_call *call);

/* Both phases, which must succeed; outputs are nonsense before. */
void indexer_forward_call_run(struct indexer_forward_call *call);

/* Fails unless the outputs are right; where scores are exact, unless they are the definition's own. */
void indexer_forward_call_judge(const struct indexer_forward_call *call);

void indexer_forward_call_verify(struct indexer_forward_call *call); /* run, then judge */

/* Equal bits of all outputs. */
void indexer_forward_call_assert_same(const struct indexer_forward_call *a, const struct indexer_forward_call *b);

/* The first row of a sequence, in the whole tensor. */
int64_t indexer_forward_call_row(const struct indexer_forward_call *call, int64_t sequence);

/* Row r's slot j. */
int32_t indexer_forward_index(const struct indexer_forward_call *call, int64_t row, int64_t slot);

#endif
