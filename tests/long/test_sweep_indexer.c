/* labels: long short */
/* Random problems of aclnnLightningIndexerGrad against the definition, in every kernel table: layouts, types, lengths
 * with empty and padded sequences, modes, views, live and wild indices, one key in every slot. And the same problems
 * for aclnnLightningIndexer, with pages, float weights, and sums that are exact. */
#include "support/indexer_forward_problem.h"
#include "support/indexer_problem.h"
#include "support/sweep.h"

#include <string.h>

/* Lengths up to `most`, often 0 or 1. */
static int64_t random_length(struct test_random *random, int64_t most)
{
    const int64_t lengths[] = {0, 1, test_random_between(random, 0, 8), test_random_between(random, 0, most),
                               test_random_between(random, 0, most)};
    return test_random_of(random, 5, lengths);
}

static void random_lengths(struct indexer_case *c, struct test_random *random)
{
    int64_t keys = 0;
    c->sequences = test_random_between(random, 1, test_random_once_in(random, 3) ? TEST_INDEXER_SEQUENCES : 3);
    for (int64_t b = 0; b < c->sequences; ++b) {
        c->q_len[b] = random_length(random, 24);
        c->kv_len[b] = random_length(random, test_random_once_in(random, 4) ? 300 : 60);
        keys += c->kv_len[b];
    }
    c->has_counts = !c->is_packed && test_random_once_in(random, 2);
    if (!c->is_packed && !c->has_counts) { /* without counts all sequences are as long as the tensor */
        for (int64_t b = 1; b < c->sequences; ++b) {
            c->q_len[b] = c->q_len[0];
            c->kv_len[b] = c->kv_len[0];
        }
        keys = c->kv_len[0];
    } else {
        c->q_slack = test_random_once_in(random, 3) ? test_random_below(random, 5) : 0;
        c->kv_slack = test_random_once_in(random, 3) ? test_random_below(random, 5) : 0;
    }
    if (keys + c->kv_slack == 0) { /* a key tensor without elements is refused */
        c->kv_len[0] = 1;
        for (int64_t b = 1; b < c->sequences && !c->is_packed && !c->has_counts; ++b) {
            c->kv_len[b] = 1;
        }
    }
}

static struct indexer_case random_case(struct test_random *random, uint64_t seed, enum ag_limits limits)
{
    static const int64_t heads[] = {1, 2, 3, 5, 8, 16, 17, 24, 64};
    static const int64_t topks[] = {1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 100};
    static const int64_t dims[] = {128, 1, 5, 16, 33, 64, 100, 192};
    struct indexer_case c = {.seed = seed};
    const bool is_extended = limits == AG_LIMITS_EXTENDED;
    c.dtype = (int)test_random_of(random, is_extended ? 3 : 2, (const int64_t[]){AG_FLOAT16, AG_BF16, AG_FLOAT});
    c.is_packed = test_random_once_in(random, 2);
    c.has_rank4_slots = test_random_once_in(random, 2);
    c.heads = test_random_of(random, 9, heads);
    c.dim = is_extended ? test_random_of(random, 8, dims) : 128;
    c.topk = test_random_of(random, 11, topks);
    c.mode = test_random_once_in(random, 2) ? 0 : 3;
    c.indices = (enum test_indices)test_random_below(random, 3);
    c.views = (enum test_indexer_views)test_random_below(random, TEST_INDEXER_VIEWS);
    random_lengths(&c, random);
    return c;
}

static void check_problem(struct test_random *random, uint64_t seed)
{
    struct indexer_call call;
    const enum ag_limits limits = test_random_once_in(random, 2) ? AG_LIMITS_EXTENDED : AG_LIMITS_DOCUMENTED;
    const struct indexer_case c = random_case(random, seed, limits);
    ag_config_set_limits(limits);
    indexer_call_create(&call, &c);
    TEST_EACH_ISA (isa) {
        ag_config_set_isa(isa);
        test_random_threads(random);
        indexer_call_verify(&call);
    }
    indexer_call_destroy(&call);
}

static struct indexer_forward_case forward_of(const struct indexer_case *c, struct test_random *random,
                                              enum ag_limits limits)
{
    static const int64_t blocks[] = {16, 48, 1024, 1, 3, 17};
    const bool is_extended = limits == AG_LIMITS_EXTENDED;
    struct indexer_forward_case f = {.dtype = c->dtype,
                                     .is_packed = c->is_packed,
                                     .sequences = c->sequences,
                                     .q_slack = c->q_slack,
                                     .kv_slack = c->kv_slack,
                                     .has_counts = c->has_counts,
                                     .heads = c->heads,
                                     .dim = c->dim,
                                     .topk = c->topk,
                                     .mode = c->mode,
                                     .views = c->views,
                                     .seed = c->seed};
    memcpy(f.q_len, c->q_len, sizeof f.q_len);
    memcpy(f.kv_len, c->kv_len, sizeof f.kv_len);
    f.has_float_weights = test_random_once_in(random, 3);
    f.is_paged = test_random_once_in(random, 3);
    f.block_size = test_random_of(random, is_extended ? 6 : 3, blocks);
    f.has_values = (!f.is_paged || is_extended) && !test_random_once_in(random, 4);
    f.is_whole = test_random_once_in(random, 2);
    return f;
}

static void check_forward(struct test_random *random, uint64_t seed)
{
    struct indexer_forward_call call;
    const enum ag_limits limits = test_random_once_in(random, 2) ? AG_LIMITS_EXTENDED : AG_LIMITS_DOCUMENTED;
    const struct indexer_case like = random_case(random, seed, limits);
    const struct indexer_forward_case c = forward_of(&like, random, limits);
    ag_config_set_limits(limits);
    indexer_forward_call_create(&call, &c);
    TEST_EACH_ISA (isa) {
        ag_config_set_isa(isa);
        test_random_threads(random);
        indexer_forward_call_verify(&call);
    }
    indexer_forward_call_destroy(&call);
}

static void random_forwards(void **state)
{
    (void)state;
    test_sweep("test_sweep_indexer", 2000, check_forward);
}

static void random_problems(void **state)
{
    (void)state;
    test_sweep("test_sweep_indexer", 2000, check_problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(random_problems, test_sweep_teardown),
                                       cmocka_unit_test_teardown(random_forwards, test_sweep_teardown)};
    return cmocka_run_group_tests_name("sweep of indexer", tests, NULL, NULL);
}
