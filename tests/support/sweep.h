/* Long tests: how much of them to do, and sweeps over random problems, each made from its own seed.
 *
 * ACLGRAD_TEST_EFFORT=3 does 3 percent of everything (the short versions in the ci tier), default 100.
 * ACLGRAD_TEST_SEED=17 does the problem of seed 17 alone: what a failure's REPRO line says. */
#ifndef AG_TESTS_SUPPORT_SWEEP_H
#define AG_TESTS_SUPPORT_SWEEP_H

#include "support/support.h"

/* `full`, cut to the effort asked for; at least 1. */
int64_t test_effort(int64_t full);

/* One problem. All of it must follow from `random` (which starts at `seed`). */
typedef void test_sweep_body(struct test_random *random, uint64_t seed);

void test_sweep(const char *program, int64_t problems, test_sweep_body *body);

/* The teardown of a sweep: after a failure tells how to repeat the problem that failed. */
int test_sweep_teardown(void **state);

/* A tensor whose dims lie in memory in random order, with random gaps and offset, or dense (one of three). */
struct test_tensor test_tensor_create_random_view(struct test_random *random, int dtype, int rank,
                                                  const int64_t *dims);

/* One of the values. */
int64_t test_random_of(struct test_random *random, int count, const int64_t *values);

/* True once in `odds`. */
bool test_random_once_in(struct test_random *random, int odds);

/* The thread count of the next call: 1, 2, 3 or 7. */
void test_random_threads(struct test_random *random);

#endif
