/* labels: long slow */
/* aclnnLightningIndexerGrad: 2,000 random problems in every kernel table, against the definition. INDEXER_SWEEP_SEED
 * in the environment starts elsewhere. */
#include <stdio.h>
#include <stdlib.h>

#include "support/indexer_problem.h"

enum { PROBLEMS = 2000 };

/* Small sizes are likely, large ones possible. */
static int64_t some_size(struct test_random *random, int64_t most)
{
    const int64_t cut = test_random_below(random, 4) ? 1 + most / 8 : most;
    return 1 + test_random_below(random, cut);
}

static struct indexer_case random_case(struct test_random *random, uint64_t seed)
{
    static const int dtypes[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};
    struct indexer_case c = {.seed = seed};
    c.dtype = dtypes[test_random_below(random, 3)];
    c.is_packed = test_random_below(random, 2);
    c.has_rank4_slots = test_random_below(random, 2);
    c.has_counts = test_random_below(random, 2);
    c.sequences = 1 + test_random_below(random, 5);
    const int64_t q_len = some_size(random, 12), kv_len = some_size(random, 150);
    for (int64_t b = 0; b < c.sequences; ++b) {
        const bool is_free = c.is_packed || c.has_counts;
        c.q_len[b] = is_free ? test_random_below(random, q_len + 1) : q_len;
        c.kv_len[b] = is_free ? test_random_below(random, kv_len + 1) : kv_len;
    }
    c.q_slack = 1 + (c.is_packed || c.has_counts ? test_random_below(random, 3) : -1); /* never an empty tensor */
    c.kv_slack = 1 + (c.is_packed || c.has_counts ? test_random_below(random, 3) : -1);
    c.heads = some_size(random, 80);
    c.dim = test_random_below(random, 2) ? 128 : some_size(random, 160);
    c.topk = some_size(random, 300);
    c.mode = test_random_below(random, 2) ? 3 : 0;
    c.indices = (enum test_indices)test_random_below(random, 3);
    c.views = (enum test_indexer_views)test_random_below(random, TEST_INDEXER_VIEWS);
    return c;
}

static void test_sweep(void **state)
{
    const char *text = getenv("INDEXER_SWEEP_SEED");
    const uint64_t first = text ? strtoull(text, NULL, 10) : 1;
    (void)state;
    for (uint64_t seed = first; seed < first + PROBLEMS; ++seed) {
        TEST_EACH_ISA (isa) {
            struct test_random random = test_random_seed(seed);
            const struct indexer_case c = random_case(&random, seed);
            struct indexer_call call;
            test_configure(1 + (int)(seed % 3), isa, AG_LIMITS_EXTENDED);
            indexer_call_create(&call, &c);
            indexer_call_verify(&call);
            indexer_call_destroy(&call);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweep)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
