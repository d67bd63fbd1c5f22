/* labels: ci */
/* aclnnLightningIndexerGrad against the definition, with a bound for every element: every kernel table, element type,
 * layout, sparse mode and kind of view; odd numbers of heads, slots, rows and keys. */
#include <inttypes.h>
#include <stdio.h>

#include "support/indexer_problem.h"

static const int dtypes[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};

static void verify(struct indexer_case c, enum ag_isa isa)
{
    struct indexer_call call;
    test_configure(1, isa, c.dtype == AG_FLOAT ? AG_LIMITS_EXTENDED : AG_LIMITS_DOCUMENTED);
    indexer_call_create(&call, &c);
    indexer_call_verify(&call);
    indexer_call_destroy(&call);
}

/* Every table and element type. */
static void verify_everywhere(struct indexer_case c)
{
    TEST_EACH_ISA (isa) {
        for (int t = 0; t < 3; ++t) {
            c.dtype = dtypes[t];
            c.seed += 1;
            verify(c, isa);
        }
    }
}

static void test_heads(void **state)
{
    static const int64_t heads[] = {1, 2, 3, 7, 8, 17, 33, 63, 64};
    (void)state;
    for (int i = 0; i < 9; ++i) {
        verify_everywhere((struct indexer_case){.is_packed = true,
                                                .q_len = {3, 2},
                                                .kv_len = {20, 9},
                                                .heads = heads[i],
                                                .topk = 19,
                                                .indices = TEST_INDICES_WILD});
    }
}

static void test_slots(void **state)
{
    static const int64_t slots[] = {1, 2, 5, 6, 7, 17, 129, 257};
    (void)state;
    for (int i = 0; i < 8; ++i) {
        verify_everywhere((struct indexer_case){
            .q_len = {2}, .kv_len = {131}, .heads = 5, .topk = slots[i], .has_rank4_slots = i % 2 == 0});
    }
}

static void test_most_slots(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        verify((struct indexer_case){.dtype = AG_BF16, .q_len = {1}, .kv_len = {2500}, .heads = 4, .topk = 2048},
               isa);
        verify((struct indexer_case){.dtype = AG_FLOAT16, .q_len = {1}, .kv_len = {2048}, .heads = 3, .topk = 2047},
               isa);
    }
}

/* Sequences of all kinds: without rows, without keys, without both, shorter than the slots, more rows than keys. */
static void test_packs(void **state)
{
    (void)state;
    for (int mode = 0; mode <= 3; mode += 3) {
        for (int style = TEST_INDICES_FORWARD; style <= TEST_INDICES_SAME; ++style) {
            verify_everywhere((struct indexer_case){.is_packed = true,
                                                    .sequences = 9,
                                                    .q_len = {0, 3, 0, 7, 2, 0, 1, 4},
                                                    .kv_len = {5, 40, 0, 3, 0, 2, 1, 33},
                                                    .q_slack = mode,
                                                    .kv_slack = style,
                                                    .heads = 6,
                                                    .topk = 12,
                                                    .mode = mode,
                                                    .indices = (enum test_indices)style});
        }
    }
}

static void test_batches(void **state)
{
    (void)state;
    for (int mode = 0; mode <= 3; mode += 3) {
        for (int slack = 0; slack < 3; ++slack) {
            verify_everywhere((struct indexer_case){
                .q_len = {3, 3, 3}, .kv_len = {19, 19, 19}, .heads = 9, .topk = 23, .mode = mode});
            verify_everywhere((struct indexer_case){.q_len = {3, 0, 5, 1},
                                                    .kv_len = {19, 7, 2, 0},
                                                    .has_counts = true,
                                                    .q_slack = slack,
                                                    .kv_slack = 2 * slack,
                                                    .heads = 9,
                                                    .topk = 23,
                                                    .mode = mode,
                                                    .indices = TEST_INDICES_WILD});
        }
    }
}

static void test_views(void **state)
{
    (void)state;
    for (int views = TEST_INDEXER_PADDED; views < TEST_INDEXER_VIEWS; ++views) {
        for (int packed = 0; packed < 2; ++packed) {
            verify_everywhere((struct indexer_case){.is_packed = packed,
                                                    .q_len = {3, 2},
                                                    .kv_len = {17, 30},
                                                    .has_counts = true,
                                                    .q_slack = 1,
                                                    .kv_slack = 2,
                                                    .heads = 17,
                                                    .topk = 21,
                                                    .mode = 3,
                                                    .has_rank4_slots = true,
                                                    .views = (enum test_indexer_views)views});
        }
    }
}

/* One key that every slot of every row selects: more than 10^5 terms in each element of its gradient. */
static void test_one_key_of_all(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        verify((struct indexer_case){.dtype = AG_BF16,
                                     .q_len = {8},
                                     .kv_len = {3},
                                     .heads = 64,
                                     .topk = 256,
                                     .indices = TEST_INDICES_SAME},
               isa);
    }
}

/* Several waves of BSND sequences and several chunks of keys; several batches of rows. */
static void test_waves(void **state)
{
    (void)state;
    struct indexer_call call;
    const struct indexer_case waves = {.dtype = AG_FLOAT16,
                                       .q_len = {1, 2, 1},
                                       .kv_len = {12000, 11000, 12500},
                                       .has_counts = true,
                                       .heads = 2,
                                       .dim = 4,
                                       .topk = 40};
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_EXTENDED);
    indexer_call_create(&call, &waves);
    indexer_call_verify(&call);
    indexer_call_destroy(&call);
    verify(
        (struct indexer_case){.dtype = AG_BF16, .q_len = {60}, .kv_len = {80}, .heads = 64, .topk = 2048, .mode = 3},
        ag_cpu_best_isa());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),          cmocka_unit_test(test_slots),   cmocka_unit_test(test_most_slots),
        cmocka_unit_test(test_packs),          cmocka_unit_test(test_batches), cmocka_unit_test(test_views),
        cmocka_unit_test(test_one_key_of_all), cmocka_unit_test(test_waves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
