/* labels: ci threads */
/* aclnnLightningIndexer: what must hold without any oracle, bit for bit; order, NaN and infinities by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elem.h"
#include "support/indexer_forward_problem.h"

static const struct indexer_forward_case pack = {.dtype = AG_BF16,
                                                 .is_packed = true,
                                                 .has_values = true,
                                                 .q_len = {9, 0, 4, 17, 1},
                                                 .kv_len = {40, 3, 0, 1190, 1},
                                                 .q_slack = 3,
                                                 .kv_slack = 2,
                                                 .heads = 9,
                                                 .topk = 24};

/* Calls check(case, isa) for every table, type and mode. */
static void everywhere(void (*check)(const struct indexer_forward_case *c, enum ag_isa isa),
                       const struct indexer_forward_case *from)
{
    TEST_EACH_ISA (isa) {
        for (int i = 0; i < 4; ++i) {
            struct indexer_forward_case c = *from;
            c.dtype = i & 1 ? AG_FLOAT16 : AG_BF16;
            c.mode = i & 2 ? 3 : 0;
            test_configure(2, isa, AG_LIMITS_EXTENDED);
            check(&c, isa);
        }
    }
}

static void run_fresh(struct indexer_forward_call *call, const struct indexer_forward_case *c)
{
    indexer_forward_call_create(call, c);
    indexer_forward_call_run(call);
}

/* --- threads, views, pages, neighbours --------------------------------------------------------------------------- */

static void check_threads(const struct indexer_forward_case *c, enum ag_isa isa)
{
    static const int threads[] = {1, 3, 7, 2};
    struct indexer_forward_call first, other;
    run_fresh(&first, c);
    indexer_forward_call_create(&other, c);
    for (int i = 0; i < 8; ++i) {
        test_configure(threads[i % 4], isa, AG_LIMITS_EXTENDED);
        indexer_forward_call_run(&other);
        indexer_forward_call_assert_same(&first, &other);
    }
    indexer_forward_call_destroy(&first);
    indexer_forward_call_destroy(&other);
}

static void test_threads(void **state)
{
    (void)state;
    everywhere(check_threads, &pack);
}

static void check_views(const struct indexer_forward_case *c, enum ag_isa isa)
{
    struct indexer_forward_call dense, other;
    (void)isa;
    run_fresh(&dense, c);
    for (int views = TEST_INDEXER_PADDED; views < TEST_INDEXER_VIEWS; ++views) {
        struct indexer_forward_case strided = *c;
        strided.views = (enum test_indexer_views)views;
        run_fresh(&other, &strided);
        indexer_forward_call_assert_same(&dense, &other);
        indexer_forward_call_destroy(&other);
    }
    indexer_forward_call_destroy(&dense);
}

static void test_views(void **state)
{
    (void)state;
    everywhere(check_views, &pack);
}

static void check_pages(const struct indexer_forward_case *c, enum ag_isa isa)
{
    static const int64_t sizes[] = {16, 48, 1024};
    struct indexer_forward_call whole, paged;
    (void)isa;
    run_fresh(&whole, c);
    for (int i = 0; i < 3; ++i) {
        struct indexer_forward_case other = *c;
        other.is_paged = true;
        other.block_size = sizes[i];
        run_fresh(&paged, &other);
        indexer_forward_call_assert_same(&whole, &paged);
        indexer_forward_call_destroy(&paged);
    }
    indexer_forward_call_destroy(&whole);
}

static void test_pages(void **state)
{
    struct indexer_forward_case batch = pack;
    (void)state;
    everywhere(check_pages, &pack);
    batch.is_packed = false;
    batch.has_counts = true;
    everywhere(check_pages, &batch);
}

static void copy_rows(struct test_tensor *to, const struct test_tensor *from, int64_t row, int64_t rows,
                      int64_t width)
{
    indexer_copy_rows(to, 0, from, row, rows, width);
}

/* A sequence alone, from the tensors of all. */
static void create_single(struct indexer_forward_call *single, const struct indexer_forward_call *all, int64_t number)
{
    struct indexer_forward_case c = all->c;
    const int64_t row = indexer_forward_call_row(all, number), key = indexer_test_sum(c.kv_len, number);
    const int64_t rows = c.q_len[number], keys = c.kv_len[number];
    memset(c.q_len, 0, sizeof c.q_len);
    memset(c.kv_len, 0, sizeof c.kv_len);
    c.q_len[0] = rows;
    c.kv_len[0] = keys;
    c.sequences = 1;
    c.q_slack = c.kv_slack = 0;
    indexer_forward_call_create(single, &c);
    copy_rows(&single->query, &all->query, row, rows, c.heads * c.dim);
    copy_rows(&single->weights, &all->weights, row, rows, c.heads);
    copy_rows(&single->key, &all->key, key, keys, c.dim);
}

static void check_alone(const struct indexer_forward_case *c, enum ag_isa isa)
{
    struct indexer_forward_call all, single;
    (void)isa;
    run_fresh(&all, c);
    for (int64_t b = 0; b < all.c.sequences; ++b) {
        const int64_t at = indexer_forward_call_row(&all, b) * c->topk, count = all.c.q_len[b] * c->topk;
        create_single(&single, &all, b);
        indexer_forward_call_run(&single);
        for (int64_t i = 0; i < count; ++i) {
            const double value = test_tensor_get(&all.values, at + i), alone = test_tensor_get(&single.values, i);
            assert_int_equal(test_tensor_get(&all.indices, at + i), test_tensor_get(&single.indices, i));
            assert_true(value == alone);
        }
        indexer_forward_call_destroy(&single);
    }
    indexer_forward_call_destroy(&all);
}

static void test_alone_as_in_a_pack(void **state)
{
    (void)state;
    everywhere(check_alone, &pack);
}

/* The indices do not depend on whether values are asked for, nor on their type's rounding. */
static void check_without_values(const struct indexer_forward_case *c, enum ag_isa isa)
{
    struct indexer_forward_case silent = *c;
    struct indexer_forward_call with, without;
    (void)isa;
    silent.has_values = false;
    run_fresh(&with, c);
    run_fresh(&without, &silent);
    test_assert_same_bits("sparseIndices", &with.indices, &without.indices);
    without.args.sparse_values = without.values.handle; /* given, and not looked at */
    without.args.return_values = false;
    indexer_forward_call_run(&without);
    for (int64_t i = 0; i < test_tensor_elems(&without.values); ++i) {
        ag_bf16 bits;
        memcpy(&bits, test_tensor_at(&without.values, i), sizeof bits);
        assert_int_equal(bits, 0x7777);
    }
    indexer_forward_call_destroy(&with);
    indexer_forward_call_destroy(&without);
}

static void test_without_values(void **state)
{
    (void)state;
    everywhere(check_without_values, &pack);
}

static void test_inputs_unchanged(void **state)
{
    struct indexer_forward_call call, twin;
    struct indexer_forward_case c = pack;
    (void)state;
    c.is_paged = true;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_EXTENDED);
    run_fresh(&call, &c);
    indexer_forward_call_create(&twin, &c);
    test_assert_same_bits("query", &call.query, &twin.query);
    test_assert_same_bits("key", &call.key, &twin.key);
    test_assert_same_bits("weights", &call.weights, &twin.weights);
    test_assert_same_bits("blockTable", &call.table, &twin.table);
    indexer_forward_call_destroy(&call);
    indexer_forward_call_destroy(&twin);
}

/* --- order by hand ------------------------------------------------------------------------------------------------ */

/* One row, one head, D = 1, query 1 and weight 1: a key's score is itself, or 0 below it. */
static void with_scores(struct indexer_forward_call *call, enum ag_isa isa, int64_t topk, const float *keys,
                        int64_t count)
{
    const struct indexer_forward_case c = {
        .dtype = AG_FLOAT, .has_values = true, .q_len = {1}, .kv_len = {count}, .dim = 1, .topk = topk};
    test_configure(1, isa, AG_LIMITS_EXTENDED);
    indexer_forward_call_create(call, &c);
    test_tensor_fill_value(&call->query, 1);
    test_tensor_fill_value(&call->weights, 1);
    for (int64_t t = 0; t < count; ++t) {
        memcpy(test_tensor_at(&call->key, t), &keys[t], sizeof keys[t]);
    }
    indexer_forward_call_run(call);
}

static void expect_row(const struct indexer_forward_call *call, const int32_t *want)
{
    for (int64_t j = 0; j < call->c.topk; ++j) {
        assert_int_equal(indexer_forward_index(call, 0, j), want[j]);
    }
}

static void test_order(void **state)
{
    static const float keys[] = {1, -3, 2, 1, NAN, 0, 2, INFINITY, -1, 0.5f, NAN, 3.4e38f};
    static const int32_t all[] = {7, 11, 2, 6, 0, 3, 9, 1, 5, 8, 4, 10, -1, -1};
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int64_t topk = 1; topk <= 14; ++topk) { /* wherever the border lies */
            struct indexer_forward_call call;
            with_scores(&call, isa, topk, keys, 12);
            expect_row(&call, all);
            for (int64_t j = 0; j < topk; ++j) {
                const double value = test_tensor_get(&call.values, j);
                const float key = j < 12 ? keys[all[j]] : -INFINITY;
                assert_true(isnan(key) ? isnan(value) : value == (j < 12 && key < 0 ? 0 : key));
            }
            indexer_forward_call_destroy(&call);
        }
    }
}

/* Negative weights: the order of keys turns, and a product of a tiny negative number, -0, ranks as 0. */
static void test_negative(void **state)
{
    static const float keys[] = {1, 2, 1e-30f, 0, 1e-30f, -5, 3};
    static const int32_t want[] = {2, 3, 4, 5, 0, 1, 6, -1};
    (void)state;
    TEST_EACH_ISA (isa) {
        struct indexer_forward_call call;
        with_scores(&call, isa, 8, keys, 7);
        test_tensor_fill_value(&call.weights, -1e-30); /* 1e-60 is no float: -0 */
        indexer_forward_call_run(&call);
        expect_row(&call, want);
        indexer_forward_call_destroy(&call);
    }
}

/* Ranked by the float scores, not by what they are rounded to: 257 and 256 are one number in BF16. */
static void test_ranked_before_rounding(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        struct indexer_forward_call call;
        const struct indexer_forward_case c = {
            .dtype = AG_BF16, .has_values = true, .q_len = {1}, .kv_len = {3}, .dim = 2, .topk = 3};
        test_configure(1, isa, AG_LIMITS_EXTENDED);
        indexer_forward_call_create(&call, &c);
        const double keys[] = {256, 0, 256, 1, 256, 1};
        test_tensor_fill_value(&call.query, 1);
        test_tensor_fill_value(&call.weights, 1);
        for (int i = 0; i < 6; ++i) {
            test_tensor_set(&call.key, i, keys[i]);
        }
        indexer_forward_call_run(&call);
        expect_row(&call, (const int32_t[]){1, 2, 0});
        assert_true(test_tensor_get(&call.values, 0) == 256 && test_tensor_get(&call.values, 2) == 256);
        indexer_forward_call_destroy(&call);
    }
}

/* A half that overflows is infinity, and its place is that of its float. */
static void test_overflow(void **state)
{
    struct indexer_forward_call call;
    (void)state;
    const struct indexer_forward_case c = {
        .dtype = AG_FLOAT16, .has_values = true, .q_len = {1}, .kv_len = {2}, .dim = 1, .topk = 2};
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_EXTENDED);
    indexer_forward_call_create(&call, &c);
    test_tensor_fill_value(&call.query, 1000);
    test_tensor_fill_value(&call.weights, 1);
    test_tensor_set(&call.key, 0, 100);
    test_tensor_set(&call.key, 1, 101);
    indexer_forward_call_run(&call);
    expect_row(&call, (const int32_t[]){1, 0});
    assert_true(isinf(test_tensor_get(&call.values, 0)) && isinf(test_tensor_get(&call.values, 1)));
    indexer_forward_call_destroy(&call);
}

/* --- nothing ----------------------------------------------------------------------------------------------------- */

static void test_empty_query(void **state)
{
    struct indexer_forward_call call;
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    for (int is_packed = 0; is_packed < 2; ++is_packed) {
        run_fresh(&call, &(struct indexer_forward_case){
                             .dtype = AG_BF16, .is_packed = is_packed, .has_values = true, .kv_len = {9}});
        assert_int_equal(call.workspace_size, 0);
        indexer_forward_call_destroy(&call);
    }
}

static void test_no_keys(void **state)
{
    struct indexer_forward_case c = {.dtype = AG_BF16, .has_values = true, .q_len = {9, 9}};
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    for (int i = 0; i < 8; ++i) {
        struct indexer_forward_call call;
        c.is_packed = i & 1;
        c.is_paged = i & 2;
        c.has_values = !c.is_paged;
        c.mode = i & 4 ? 3 : 0;
        indexer_forward_call_create(&call, &c);
        indexer_forward_call_verify(&call);
        indexer_forward_call_destroy(&call);
    }
}

/* Counts beyond the tensor, and negative ones, are cut. */
static void test_wild_counts(void **state)
{
    static const int32_t q[] = {100, -1, 2}, kv[] = {INT32_MAX, 9, INT32_MIN};
    (void)state;
    for (int is_paged = 0; is_paged < 2; ++is_paged) {
        struct indexer_forward_call call;
        const struct indexer_forward_case c = {.dtype = AG_FLOAT16,
                                               .is_paged = is_paged,
                                               .has_values = true,
                                               .q_len = {5, 5, 5},
                                               .kv_len = {32, 32, 32},
                                               .has_counts = true,
                                               .mode = 3};
        test_configure(2, ag_cpu_best_isa(), AG_LIMITS_EXTENDED);
        indexer_forward_call_create(&call, &c);
        for (int b = 0; b < 3; ++b) {
            memcpy(test_tensor_at(&call.q_lengths, b), &q[b], sizeof q[b]);
            memcpy(test_tensor_at(&call.kv_lengths, b), &kv[b], sizeof kv[b]);
        }
        indexer_forward_call_verify(&call);
        assert_int_equal(indexer_forward_index(&call, 4, 15) >= 0, 1); /* all 32 keys, all 5 rows */
        assert_int_equal(indexer_forward_index(&call, 5, 0), -1);
        indexer_forward_call_destroy(&call);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_views),
        cmocka_unit_test(test_pages),          cmocka_unit_test(test_alone_as_in_a_pack),
        cmocka_unit_test(test_without_values), cmocka_unit_test(test_inputs_unchanged),
        cmocka_unit_test(test_order),          cmocka_unit_test(test_negative),
        cmocka_unit_test(test_overflow),       cmocka_unit_test(test_ranked_before_rounding),
        cmocka_unit_test(test_empty_query),    cmocka_unit_test(test_no_keys),
        cmocka_unit_test(test_wild_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
