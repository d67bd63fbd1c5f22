/* labels: ci threads */
/* aclnnLightningIndexerGrad: what must hold without any oracle, bit for bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/indexer_problem.h"

static const struct indexer_case pack = {.dtype = AG_BF16,
                                         .is_packed = true,
                                         .q_len = {9, 0, 4, 17, 1},
                                         .kv_len = {40, 3, 0, 90, 1},
                                         .q_slack = 3,
                                         .kv_slack = 2,
                                         .heads = 9,
                                         .topk = 24,
                                         .mode = 3,
                                         .indices = TEST_INDICES_WILD};

static const int dtypes[] = {AG_BF16, AG_FLOAT16};

/* Calls check(case, isa) for every table and type. */
static void everywhere(void (*check)(const struct indexer_case *c, enum ag_isa isa), const struct indexer_case *from)
{
    TEST_EACH_ISA (isa) {
        for (int t = 0; t < 2; ++t) {
            for (int mode = 0; mode <= 3; mode += 3) {
                struct indexer_case c = *from;
                c.dtype = dtypes[t];
                c.mode = mode;
                test_configure(2, isa, AG_LIMITS_DOCUMENTED);
                check(&c, isa);
            }
        }
    }
}

static void run_fresh(struct indexer_call *call, const struct indexer_case *c)
{
    indexer_call_create(call, c);
    indexer_call_run(call);
}

/* --- threads, runs, the flag ------------------------------------------------------------------------------------ */

static void check_threads(const struct indexer_case *c, enum ag_isa isa)
{
    static const int threads[] = {1, 3, 7, 2};
    struct indexer_call first, other;
    run_fresh(&first, c);
    indexer_call_create(&other, c);
    for (int i = 0; i < 8; ++i) {
        test_configure(threads[i % 4], isa, AG_LIMITS_DOCUMENTED);
        other.is_deterministic = i % 2;
        other.head_num = i;    /* ignored, as torch passes 0 */
        other.pre_tokens = -i; /* ignored */
        other.next_tokens = 65536;
        indexer_call_run(&other);
        indexer_call_assert_same(&first, &other);
    }
    indexer_call_destroy(&first);
    indexer_call_destroy(&other);
}

static void test_threads(void **state)
{
    (void)state;
    everywhere(check_threads, &pack);
}

/* Rows of one key, contended: 30 runs, cold and warm. */
static void test_thirty_runs(void **state)
{
    (void)state;
    const struct indexer_case c = {.dtype = AG_BF16,
                                   .q_len = {64, 64},
                                   .kv_len = {256, 256},
                                   .heads = 5,
                                   .topk = 64,
                                   .indices = TEST_INDICES_WILD};
    struct indexer_call first, other;
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    run_fresh(&first, &c);
    indexer_call_create(&other, &c);
    for (int i = 0; i < 30; ++i) {
        test_configure(1 + i % 2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
        other.is_deterministic = i % 3 == 0;
        indexer_call_run(&other);
        indexer_call_assert_same(&first, &other);
    }
    indexer_call_destroy(&first);
    indexer_call_destroy(&other);
}

/* --- neighbours ------------------------------------------------------------------------------------------------- */

static void assert_same_rows(const char *what, const struct test_tensor *a, int64_t a_row,
                             const struct test_tensor *b, int64_t b_row, int64_t rows, int64_t width)
{
    for (int64_t i = 0; i < rows * width; ++i) {
        if (memcmp(test_tensor_at(a, a_row * width + i), test_tensor_at(b, b_row * width + i),
                   ag_dtype_bytes(a->view.dtype)) != 0) {
            fail_msg("%s: row %lld element %lld: %g and %g", what, (long long)(i / width), (long long)(i % width),
                     test_tensor_get(a, a_row * width + i), test_tensor_get(b, b_row * width + i));
        }
    }
}

/* Sequence number `a_number` of a equals sequence number `b_number` of b. */
static void assert_same_sequence(const struct indexer_call *a, int64_t a_number, const struct indexer_call *b,
                                 int64_t b_number)
{
    const int64_t a_row = indexer_call_row(a, a_number), b_row = indexer_call_row(b, b_number);
    const int64_t rows = a->c.q_len[a_number], keys = a->c.kv_len[a_number];
    assert_same_rows("dq", &a->dq, a_row, &b->dq, b_row, rows, a->c.heads * a->c.dim);
    assert_same_rows("dweights", &a->dweights, a_row, &b->dweights, b_row, rows, a->c.heads);
    assert_same_rows("dk", &a->dk, indexer_call_key(a, a_number), &b->dk, indexer_call_key(b, b_number), keys,
                     a->c.dim);
}

static void check_alone(const struct indexer_case *c, enum ag_isa isa)
{
    struct indexer_call all, single;
    (void)isa;
    run_fresh(&all, c);
    for (int64_t b = 0; b < all.c.sequences; ++b) {
        if (all.c.q_len[b] && all.c.kv_len[b]) { /* an empty tensor is another path */
            indexer_call_create_single(&single, &all, b);
            indexer_call_run(&single);
            assert_same_sequence(&single, 0, &all, b);
            indexer_call_destroy(&single);
        }
    }
    indexer_call_destroy(&all);
}

static void test_alone_as_in_a_pack(void **state)
{
    struct indexer_case batch = pack;
    (void)state;
    everywhere(check_alone, &pack);
    batch.is_packed = false;
    batch.has_counts = true;
    everywhere(check_alone, &batch);
}

static void copy_sequence(struct indexer_call *to, int64_t to_number, const struct indexer_call *from, int64_t number)
{
    const int64_t to_row = indexer_call_row(to, to_number), row = indexer_call_row(from, number);
    const int64_t rows = from->c.q_len[number], heads = from->c.heads, dim = from->c.dim;
    indexer_copy_rows(&to->query, to_row, &from->query, row, rows, heads * dim);
    indexer_copy_rows(&to->weights, to_row, &from->weights, row, rows, heads);
    indexer_copy_rows(&to->dy, to_row, &from->dy, row, rows, from->c.topk);
    indexer_copy_rows(&to->indices, to_row, &from->indices, row, rows, from->c.topk);
    indexer_copy_rows(&to->key, indexer_call_key(to, to_number), &from->key, indexer_call_key(from, number),
                      from->c.kv_len[number], dim);
}

static void check_permuted(const struct indexer_case *c, enum ag_isa isa)
{
    static const int64_t order[] = {3, 0, 4, 2, 1};
    struct indexer_call straight, permuted;
    struct indexer_case other = *c;
    (void)isa;
    for (int b = 0; b < 5; ++b) {
        other.q_len[b] = c->q_len[order[b]];
        other.kv_len[b] = c->kv_len[order[b]];
    }
    run_fresh(&straight, c);
    indexer_call_create(&permuted, &other);
    for (int b = 0; b < 5; ++b) {
        copy_sequence(&permuted, b, &straight, order[b]);
    }
    indexer_call_run(&permuted);
    for (int b = 0; b < 5; ++b) {
        assert_same_sequence(&straight, order[b], &permuted, b);
    }
    indexer_call_destroy(&straight);
    indexer_call_destroy(&permuted);
}

static void test_permuted(void **state)
{
    struct indexer_case batch = pack;
    (void)state;
    everywhere(check_permuted, &pack);
    batch.is_packed = false;
    batch.has_counts = true;
    everywhere(check_permuted, &batch);
}

/* A head's dq and dweights do not depend on how many heads stand beside it. */
static void check_heads(const struct indexer_case *c, enum ag_isa isa)
{
    struct indexer_call all, single;
    struct indexer_case one = *c;
    const int64_t dim = 128, heads = c->heads;
    (void)isa;
    one.heads = 1;
    run_fresh(&all, c);
    for (int64_t h = 0; h < heads; ++h) {
        indexer_call_create(&single, &one);
        indexer_copy_rows(&single.key, 0, &all.key, 0, all.keys, dim);
        indexer_copy_rows(&single.dy, 0, &all.dy, 0, all.rows, c->topk);
        indexer_copy_rows(&single.indices, 0, &all.indices, 0, all.rows, c->topk);
        for (int64_t r = 0; r < all.rows; ++r) {
            indexer_copy_rows(&single.query, r, &all.query, r * heads + h, 1, dim);
            indexer_copy_rows(&single.weights, r, &all.weights, r * heads + h, 1, 1);
        }
        indexer_call_run(&single);
        for (int64_t r = 0; r < all.rows; ++r) {
            assert_same_rows("dq", &single.dq, r, &all.dq, r * heads + h, 1, dim);
            assert_same_rows("dweights", &single.dweights, r, &all.dweights, r * heads + h, 1, 1);
        }
        indexer_call_destroy(&single);
    }
    indexer_call_destroy(&all);
}

static void test_heads_apart(void **state)
{
    struct indexer_case c = pack;
    (void)state;
    for (int i = 0; i < 2; ++i) {
        c.heads = i ? 33 : 3;
        test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
        check_heads(&c, ag_cpu_best_isa());
    }
    everywhere(check_heads, &(struct indexer_case){.q_len = {2}, .kv_len = {9}, .heads = 5, .topk = 7});
}

/* --- linear in dy ----------------------------------------------------------------------------------------------- */

/* twice[i] is 2 * single[i], bit for bit where single[i] is a normal number of the type. */
static void assert_doubled(const char *what, const struct test_tensor *single, const struct test_tensor *twice)
{
    const bool is_half = single->view.dtype == AG_FLOAT16;
    const double normal = is_half ? 0x1p-14 : 0x1p-126, subnormal = is_half ? 0x1p-24 : 0x1p-133;
    for (int64_t i = 0; i < test_tensor_elems(single); ++i) {
        const double want = 2 * test_tensor_get(single, i), got = test_tensor_get(twice, i);
        const double allowed = fabs(want) >= 2 * normal ? 0 : 2 * subnormal;
        if (!(fabs(got - want) <= allowed)) {
            fail_msg("%s: element %lld is %g with dy and %g with 2 dy", what, (long long)i, want / 2, got);
        }
    }
}

static void check_doubled(const struct indexer_case *c, enum ag_isa isa)
{
    struct indexer_call single, twice;
    (void)isa;
    run_fresh(&single, c);
    indexer_call_create(&twice, c);
    for (int64_t i = 0; i < test_tensor_elems(&twice.dy); ++i) {
        test_tensor_set(&twice.dy, i, 2 * test_tensor_get(&twice.dy, i));
    }
    indexer_call_run(&twice);
    assert_doubled("dq", &single.dq, &twice.dq);
    assert_doubled("dk", &single.dk, &twice.dk);
    assert_doubled("dweights", &single.dweights, &twice.dweights);
    indexer_call_destroy(&single);
    indexer_call_destroy(&twice);
}

static void test_doubled(void **state)
{
    (void)state;
    everywhere(check_doubled, &pack);
}

static void assert_all_zero(const char *what, const struct test_tensor *tensor)
{
    for (int64_t i = 0; i < test_tensor_elems(tensor); ++i) {
        if (test_tensor_get(tensor, i) != 0) {
            fail_msg("%s: element %lld is %g, want 0", what, (long long)i, test_tensor_get(tensor, i));
        }
    }
}

static void check_zero(const struct indexer_case *c, enum ag_isa isa)
{
    struct indexer_call call;
    (void)isa;
    indexer_call_create(&call, c);
    test_tensor_fill_value(&call.dy, 0);
    indexer_call_run(&call);
    assert_all_zero("dq", &call.dq);
    assert_all_zero("dk", &call.dk);
    assert_all_zero("dweights", &call.dweights);
    indexer_call_destroy(&call);
}

static void test_zero(void **state)
{
    (void)state;
    everywhere(check_zero, &pack);
}

/* --- memory ----------------------------------------------------------------------------------------------------- */

static void copy_inputs(struct indexer_call *to, const struct indexer_call *from)
{
    test_tensor_copy_values(&to->query, &from->query);
    test_tensor_copy_values(&to->key, &from->key);
    test_tensor_copy_values(&to->dy, &from->dy);
    test_tensor_copy_values(&to->indices, &from->indices);
    test_tensor_copy_values(&to->weights, &from->weights);
}

static void check_views(const struct indexer_case *c, enum ag_isa isa)
{
    struct indexer_call dense, viewed;
    (void)isa;
    run_fresh(&dense, c);
    for (int views = TEST_INDEXER_PADDED; views <= TEST_INDEXER_REVERSED; ++views) {
        struct indexer_case other = *c;
        other.views = (enum test_indexer_views)views;
        indexer_call_create(&viewed, &other);
        copy_inputs(&viewed, &dense);
        indexer_call_run(&viewed);
        indexer_call_assert_same(&dense, &viewed);
        indexer_call_destroy(&viewed);
    }
    indexer_call_destroy(&dense);
}

static void test_strided_as_dense(void **state)
{
    (void)state;
    everywhere(check_views, &pack);
}

/* dy as autograd of values.sum() hands it over: one element, all strides 0. */
static void check_expanded(const struct indexer_case *c, enum ag_isa isa)
{
    struct indexer_call dense, expanded;
    const int64_t zeros[2] = {0, 0};
    (void)isa;
    indexer_call_create(&dense, c);
    test_tensor_fill_value(&dense.dy, 1);
    indexer_call_run(&dense);
    indexer_call_create(&expanded, c);
    copy_inputs(&expanded, &dense);
    test_tensor_destroy(&expanded.dy);
    expanded.dy = test_tensor_create_strided(c->dtype, 2, dense.dy.view.dims, zeros, 3);
    test_tensor_set(&expanded.dy, 0, 1);
    expanded.args.dy = expanded.dy.handle;
    indexer_call_run(&expanded);
    indexer_call_assert_same(&dense, &expanded);
    indexer_call_destroy(&dense);
    indexer_call_destroy(&expanded);
}

static void test_expanded_dy(void **state)
{
    (void)state;
    everywhere(check_expanded, &pack);
}

static void check_inputs_unchanged(const struct indexer_case *c, enum ag_isa isa)
{
    struct indexer_call call, copy;
    (void)isa;
    indexer_call_create(&call, c);
    indexer_call_create(&copy, c);
    indexer_call_run(&call);
    test_assert_same_bits("query", &call.query, &copy.query);
    test_assert_same_bits("key", &call.key, &copy.key);
    test_assert_same_bits("dy", &call.dy, &copy.dy);
    test_assert_same_bits("sparseIndices", &call.indices, &copy.indices);
    test_assert_same_bits("weights", &call.weights, &copy.weights);
    test_assert_same_bits("actualSeqQLen", &call.q_lengths, &copy.q_lengths);
    test_assert_same_bits("actualSeqKvLen", &call.kv_lengths, &copy.kv_lengths);
    indexer_call_destroy(&call);
    indexer_call_destroy(&copy);
}

static void test_inputs_unchanged(void **state)
{
    (void)state;
    everywhere(check_inputs_unchanged, &pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_thirty_runs),
        cmocka_unit_test(test_alone_as_in_a_pack),
        cmocka_unit_test(test_permuted),
        cmocka_unit_test(test_heads_apart),
        cmocka_unit_test(test_doubled),
        cmocka_unit_test(test_zero),
        cmocka_unit_test(test_strided_as_dense),
        cmocka_unit_test(test_expanded_dy),
        cmocka_unit_test(test_inputs_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
