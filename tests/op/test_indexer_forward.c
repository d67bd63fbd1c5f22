/* aclnnLightningIndexer against its definition, in every kernel table: layouts, modes, lengths, types, sizes that are
 * multiples of nothing, pages; and where sums are exact, against the definition's own choice. */
#include "support/indexer_forward_problem.h"

static void verify(const struct indexer_forward_case *c)
{
    struct indexer_forward_call call;
    indexer_forward_call_create(&call, c);
    indexer_forward_call_verify(&call);
    indexer_forward_call_destroy(&call);
}

static const int dtypes[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};

/* Every table, type, weights type, sparse mode; rounded and exact sums. */
static void everywhere(const struct indexer_forward_case *from)
{
    TEST_EACH_ISA (isa) {
        for (int i = 0; i < 3 * 2 * 2 * 2; ++i) {
            struct indexer_forward_case c = *from;
            c.dtype = dtypes[i / 8];
            c.has_float_weights = i & 1;
            c.mode = i & 2 ? 3 : 0;
            c.is_whole = i & 4;
            c.has_values = true;
            test_configure(1, isa, AG_LIMITS_EXTENDED);
            verify(&c);
        }
    }
}

static void test_batch(void **state)
{
    (void)state;
    everywhere(&(struct indexer_forward_case){.q_len = {5, 5}, .kv_len = {70, 70}, .heads = 3, .topk = 9});
}

static void test_counts(void **state)
{
    (void)state;
    everywhere(&(struct indexer_forward_case){.q_len = {4, 0, 9, 3},
                                              .kv_len = {33, 5, 0, 140},
                                              .q_slack = 2,
                                              .kv_slack = 3,
                                              .has_counts = true,
                                              .heads = 5,
                                              .topk = 20});
}

static void test_packed(void **state)
{
    (void)state;
    everywhere(&(struct indexer_forward_case){.is_packed = true,
                                              .q_len = {6, 0, 3, 20, 1},
                                              .kv_len = {40, 7, 0, 170, 1},
                                              .q_slack = 3,
                                              .kv_slack = 4,
                                              .heads = 7,
                                              .topk = 33});
}

static void test_pages(void **state)
{
    (void)state;
    everywhere(&(struct indexer_forward_case){.is_packed = true,
                                              .is_paged = true,
                                              .q_len = {6, 0, 3, 20},
                                              .kv_len = {40, 7, 0, 170},
                                              .q_slack = 2,
                                              .heads = 4,
                                              .topk = 17});
    everywhere(&(struct indexer_forward_case){
        .is_paged = true, .q_len = {6, 6}, .kv_len = {70, 23}, .block_size = 32, .heads = 4, .topk = 40});
}

/* More rows than keys: the first see nothing in mode 3. */
static void test_more_rows_than_keys(void **state)
{
    (void)state;
    everywhere(
        &(struct indexer_forward_case){.is_packed = true, .q_len = {20, 9}, .kv_len = {6, 9}, .heads = 2, .topk = 4});
}

/* A single head, where groups have the most rows and many scores are exactly 0. */
static void test_one_head(void **state)
{
    (void)state;
    everywhere(&(struct indexer_forward_case){.q_len = {70}, .kv_len = {150}, .heads = 1, .topk = 64});
}

/* D, N and K that are multiples of nothing, and those of one element. */
static void test_sizes(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {2, 3, 5}, {17, 9, 31}, {130, 65, 7}, {16, 200, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        everywhere(&(struct indexer_forward_case){.q_len = {3, 2},
                                                  .kv_len = {20, 35},
                                                  .has_counts = true,
                                                  .dim = sizes[i][0],
                                                  .heads = sizes[i][1],
                                                  .topk = sizes[i][2]});
    }
}

/* The sizes of the model: 64 heads, more keys than one item of work, all documented kinds of K. */
static void test_large(void **state)
{
    static const int64_t counts[] = {2048, 3072, 8192, 1};
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int i = 0; i < 4; ++i) {
            const struct indexer_forward_case c = {.dtype = AG_BF16,
                                                   .is_packed = true,
                                                   .has_values = true,
                                                   .q_len = {isa == AG_ISA_SCALAR ? 1 : 4, 1},
                                                   .kv_len = {2500, 700},
                                                   .heads = 64,
                                                   .topk = counts[i],
                                                   .mode = i % 2 ? 3 : 0};
            test_configure(2, isa, AG_LIMITS_DOCUMENTED);
            verify(&c);
        }
    }
}

/* More sequences than a wave has, and more rows than a batch. */
static void test_waves(void **state)
{
    (void)state;
    struct indexer_forward_case c = {.dtype = AG_BF16, .heads = 1, .topk = 3, .is_whole = true, .has_values = true};
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_EXTENDED);
    c.dim = 2;
    for (int b = 0; b < 4; ++b) {
        c.q_len[b] = 3;
        c.kv_len[b] = 20000;
    }
    verify(&c);
    c.mode = 3;
    c.is_paged = true;
    c.block_size = 1024;
    verify(&c);
    c.is_paged = false;
    for (int b = 0; b < 4; ++b) {
        c.q_len[b] = 300; /* 6 million scores and more */
        c.kv_len[b] = 5500;
    }
    verify(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch), cmocka_unit_test(test_counts),   cmocka_unit_test(test_packed),
        cmocka_unit_test(test_pages), cmocka_unit_test(test_one_head), cmocka_unit_test(test_more_rows_than_keys),
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_large),    cmocka_unit_test(test_waves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
