/* One call of each operator behind one interface, for tests that do the same to all three. */
#ifndef AG_TESTS_SUPPORT_OPERATORS_H
#define AG_TESTS_SUPPORT_OPERATORS_H

#include "acl/acl_rt.h"
#include "support/attention_problem.h"
#include "support/indexer_problem.h"
#include "support/moe_problem.h"

enum test_operator { TEST_MOE, TEST_INDEXER, TEST_ATTENTION, TEST_OPERATORS };

enum { TEST_MOST_OUTPUTS = 3 };

struct test_operators {
    struct moe_test moe;
    struct indexer_call indexer;
    struct attention_call attention;
};

const char *test_operator_name(enum test_operator op);

/* Middling problems: several work items and tiles each, a millisecond or so. Equal seeds, equal inputs. */
void test_operators_create(struct test_operators *all, uint64_t seed);
void test_operators_destroy(struct test_operators *all);

aclnnStatus test_operators_phase1(struct test_operators *all, enum test_operator op, uint64_t *workspace_size,
                                  aclOpExecutor **executor);
aclnnStatus test_operators_phase2(enum test_operator op, void *workspace, uint64_t workspace_size,
                                  aclOpExecutor *executor, aclrtStream stream);

/* Both phases in the calling thread, with malloc'd workspace; the status of the first phase that fails. */
aclnnStatus test_operators_run(struct test_operators *all, enum test_operator op, aclrtStream stream);

/* Every byte of the outputs. */
void test_operators_fill_outputs(struct test_operators *all, enum test_operator op, int byte);
bool test_operators_outputs_are(const struct test_operators *all, enum test_operator op, int byte);
bool test_operators_same_outputs(const struct test_operators *a, const struct test_operators *b,
                                 enum test_operator op);

#endif
