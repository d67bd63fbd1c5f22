#include "support/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    const char *program;
    uint64_t seed;
    bool is_running;
} sweep;

int64_t test_effort(int64_t full)
{
    const char *percent = getenv("ACLGRAD_TEST_EFFORT");
    const int64_t part = percent ? full * strtoll(percent, NULL, 10) / 100 : full;
    return part < 1 ? 1 : part;
}

static void run_problem(uint64_t seed, test_sweep_body *body)
{
    struct test_random random = test_random_seed(seed);
    sweep.seed = seed;
    body(&random, seed);
}

void test_sweep(const char *program, int64_t problems, test_sweep_body *body)
{
    const char *one = getenv("ACLGRAD_TEST_SEED");
    sweep.program = program;
    sweep.is_running = true;
    if (one) {
        run_problem(strtoull(one, NULL, 10), body);
    }
    for (int64_t i = 0; !one && i < test_effort(problems); ++i) {
        run_problem((uint64_t)i, body);
    }
    sweep.is_running = false;
}

int test_sweep_teardown(void **state)
{
    (void)state;
    if (sweep.is_running) {
        fprintf(stderr, "REPRO: ACLGRAD_TEST_SEED=%" PRIu64 " tests/%s\n", sweep.seed, sweep.program);
        sweep.is_running = false;
    }
    return 0;
}

struct test_tensor test_tensor_create_random_view(struct test_random *random, int dtype, int rank,
                                                  const int64_t *dims)
{
    int64_t strides[AG_MAX_RANK], next = test_random_once_in(random, 2) ? 1 : test_random_between(random, 1, 3);
    int32_t order[AG_MAX_RANK];
    const bool has_gaps = test_random_once_in(random, 2);
    if (test_random_once_in(random, 3)) {
        return test_tensor_create(dtype, rank, dims);
    }
    test_random_permutation(random, rank, order);
    for (int i = 0; i < rank; ++i) {
        strides[order[i]] = next;
        next = next * dims[order[i]] + (has_gaps ? test_random_below(random, 5) : 0);
        next = next > 0 ? next : 1;
    }
    return test_tensor_create_strided(dtype, rank, dims, strides, test_random_below(random, 9));
}

int64_t test_random_of(struct test_random *random, int count, const int64_t *values)
{
    return values[test_random_below(random, count)];
}

bool test_random_once_in(struct test_random *random, int odds)
{
    return test_random_below(random, odds) == 0;
}

void test_random_threads(struct test_random *random)
{
    ag_config_set_threads((int)test_random_of(random, 4, (const int64_t[]){1, 2, 3, 7}));
}
