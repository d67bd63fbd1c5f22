/* labels: smoke ci */
/* The forward operator without an oracle, and where the right answer can be written down: threads, views, neighbours,
 * rows that see nothing, sinks, garbage where nobody looks, outputs on inputs; and that the gradient reads right what it
 * wrote. */
#define _DEFAULT_SOURCE /* setenv */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/attention_problem.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int dtypes[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};

#define EACH_DTYPE(t) for (size_t t = 0; t < COUNT(dtypes); ++t)

/* Several items per sequence, several heads per item, odd sizes, every kind of mask. */
static const struct attention_case busy_cases[] = {
    {.dtype = AG_BF16,
     .n1 = 4,
     .n2 = 1,
     .d = 24,
     .q_ends = {300, 310, 1400},
     .mode = 3,
     .mask_shape = TEST_MASK_COMPRESSED},
    {.dtype = AG_FLOAT,
     .n1 = 3,
     .n2 = 1,
     .d = 17,
     .q_ends = {1, 40, 700},
     .kv_ends = {9, 50, 900},
     .mode = 4,
     .pre = 300,
     .next = 20,
     .mask_shape = TEST_MASK_COMPRESSED},
    {.dtype = AG_FLOAT16, .n1 = 20, .n2 = 1, .d = 40, .q_ends = {50}, .kv_ends = {333}, .has_sink = true},
    {.dtype = AG_BF16,
     .n1 = 9,
     .n2 = 3,
     .d = 16,
     .dr = 8,
     .dv = 8,
     .q_ends = {64, 65, 300},
     .mode = 0,
     .pre = 90,
     .next = 100,
     .mask_shape = TEST_MASK_SS,
     .mask_bytes = TEST_MASK_RANDOM},
};

/* A case whose statistics nobody needs. */
static void create(struct attention_call *call, struct attention_case c)
{
    c.invent_statistics = true;
    attention_call_create(call, &c);
}

static void expect(const char *what, const struct test_tensor *tensor, int64_t at, double want)
{
    const double got = test_tensor_get(tensor, at);
    if (got != want && !(isnan(got) && isnan(want))) {
        fail_msg("%s[%d]: got %.9g, want %.9g", what, (int)at, got, want);
    }
}

static void expect_row(const struct attention_call *call, int64_t statistics_row, double max, double sum)
{
    for (int lane = 0; lane < 8; ++lane) {
        expect("softmaxMax", &call->max, statistics_row * 8 + lane, max);
        expect("softmaxSum", &call->sum, statistics_row * 8 + lane, sum);
    }
}

/* --- the same bits --------------------------------------------------------------------------------------- */

static void any_number_of_threads(void **state)
{
    static const int threads[] = {2, 3, 7};
    (void)state;
    for (size_t i = 0; i < COUNT(busy_cases); ++i) {
        struct attention_call one, many;
        create(&one, busy_cases[i]);
        create(&many, busy_cases[i]);
        TEST_EACH_ISA (isa) {
            ag_config_set_isa(isa);
            ag_config_set_threads(1);
            attention_forward_run(&one);
            for (size_t t = 0; t < COUNT(threads); ++t) {
                ag_config_set_threads(threads[t]);
                attention_forward_run(&many);
                attention_forward_assert_same(&one, &many);
            }
        }
        ag_config_reload();
        ag_config_set_limits(AG_LIMITS_EXTENDED);
        attention_call_destroy(&one);
        attention_call_destroy(&many);
    }
}

static void any_view_of_the_same_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(busy_cases); ++i) {
        struct attention_call dense;
        create(&dense, busy_cases[i]);
        attention_forward_run(&dense);
        for (int views = TEST_VIEWS_PADDED; views <= TEST_VIEWS_SPREAD; ++views) {
            struct attention_case c = busy_cases[i];
            struct attention_call strided;
            c.views = (enum test_views)views;
            create(&strided, c);
            attention_forward_run(&strided);
            attention_forward_assert_same(&dense, &strided);
            attention_call_destroy(&strided);
        }
        attention_call_destroy(&dense);
    }
}

/* The second of three sequences, and the same alone. */
static void alone_as_in_a_pack(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        const struct attention_case pack = {.dtype = dtypes[t],
                                            .n1 = 4,
                                            .n2 = 2,
                                            .d = 24,
                                            .q_ends = {9, 239, 300},
                                            .kv_ends = {5, 305, 400},
                                            .mode = 3,
                                            .mask_shape = TEST_MASK_COMPRESSED};
        struct attention_case single = pack;
        struct attention_call all, one;
        memset(single.q_ends, 0, sizeof single.q_ends);
        memset(single.kv_ends, 0, sizeof single.kv_ends);
        single.q_ends[0] = 230;
        single.kv_ends[0] = 300;
        create(&all, pack);
        create(&one, single);
        for (int64_t at = 0; at < 230 * 4 * 24; ++at) {
            test_tensor_set(&one.q, at, test_tensor_get(&all.q, 9 * 4 * 24 + at));
        }
        for (int64_t at = 0; at < 300 * 2 * 24; ++at) {
            test_tensor_set(&one.k, at, test_tensor_get(&all.k, 5 * 2 * 24 + at));
            test_tensor_set(&one.v, at, test_tensor_get(&all.v, 5 * 2 * 24 + at));
        }
        attention_forward_run(&all);
        attention_forward_run(&one);
        for (int64_t at = 0; at < 230 * 4 * 24; ++at) {
            expect("attentionOut", &one.out, at, test_tensor_get(&all.out, 9 * 4 * 24 + at));
        }
        for (int64_t at = 0; at < 230 * 4 * 8; ++at) {
            expect("softmaxSum", &one.sum, at, test_tensor_get(&all.sum, 9 * 4 * 8 + at));
        }
        attention_call_destroy(&all);
        attention_call_destroy(&one);
    }
}

/* --- what can be written down ---------------------------------------------------------------------------- */

/* q = 0: a row's output is the mean of the values it sees. v[j] = j. */
static void means(void **state)
{
    static const struct {
        struct attention_case c;
        double sum[6], mean[6]; /* per row */
    } examples[] = {
        {{.q_ends = {3}, .kv_ends = {5}}, {5, 5, 5}, {2, 2, 2}},
        {{.q_ends = {3}, .kv_ends = {5}, .mode = 0, .pre = 1, .mask_shape = TEST_MASK_SS}, {1, 2, 2}, {0, .5, 1.5}},
        {{.q_ends = {3}, .kv_ends = {5}, .mode = 2, .mask_shape = TEST_MASK_COMPRESSED}, {1, 2, 3}, {0, .5, 1}},
        {{.q_ends = {3}, .kv_ends = {5}, .mode = 3, .mask_shape = TEST_MASK_COMPRESSED}, {3, 4, 5}, {1, 1.5, 2}},
        {{.q_ends = {3}, .kv_ends = {5}, .mode = 4, .pre = 1, .mask_shape = TEST_MASK_COMPRESSED},
         {2, 2, 2},
         {1.5, 2.5, 3.5}},
        {{.q_ends = {3, 6}, .kv_ends = {5, 10}, .mode = 7, .pre = 1, .mask_shape = TEST_MASK_COMPRESSED},
         {3, 4, 5, 2, 2, 2},
         {1, 1.5, 2, 6.5, 7.5, 8.5}},
        {{.q_ends = {4}, .kv_ends = {4}, .mode = 6, .prefix = {3}, .mask_shape = TEST_MASK_COMPRESSED},
         {3, 3, 3, 4},
         {1, 1, 1, 1.5}},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(examples); ++i) {
        EACH_DTYPE(t)
        {
            struct attention_case c = examples[i].c;
            struct attention_call call;
            c.dtype = dtypes[t];
            c.d = 8;
            create(&call, c);
            test_tensor_fill_value(&call.q, 0);
            for (int64_t at = 0; at < test_tensor_elems(&call.v); ++at) {
                test_tensor_set(&call.v, at, (double)(at / 8));
            }
            attention_forward_run(&call);
            for (int64_t row = 0; row < call.t1; ++row) {
                expect_row(&call, row, 0, examples[i].sum[row]);
                assert_true(fabs(test_tensor_get(&call.out, row * 8 + 3) - examples[i].mean[row]) <= 1e-6);
            }
            attention_call_destroy(&call);
        }
    }
}

/* A sink is one more key of score sink[n] and value 0. */
static void sinks(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        const struct attention_case c = {
            .dtype = dtypes[t], .n1 = 2, .d = 8, .q_ends = {1}, .kv_ends = {2}, .has_sink = true};
        struct attention_call call;
        create(&call, c);
        test_tensor_fill_value(&call.q, 0);
        test_tensor_fill_value(&call.v, 3);
        test_tensor_set(&call.sink, 0, 0);
        test_tensor_set(&call.sink, 1, -INFINITY);
        attention_forward_run(&call);
        expect_row(&call, 0, 0, 3);
        expect_row(&call, 1, 0, 2);
        for (int64_t e = 0; e < 8; ++e) {
            expect("attentionOut", &call.out, e, 2);
            expect("attentionOut", &call.out, 8 + e, 3);
        }
        test_tensor_set(&call.sink, 0, 200); /* takes all */
        attention_forward_run(&call);
        expect_row(&call, 0, 200, 1);
        expect("attentionOut", &call.out, 0, 0);
        attention_call_destroy(&call);
    }
}

/* Mode 3 with more queries than keys: the first rows see nothing; a sequence without keys; rows behind the last end. */
static void rows_that_see_nothing(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        for (int mask = 0; mask < 2; ++mask) {
            const struct attention_case c = {.dtype = dtypes[t],
                                             .n1 = 2,
                                             .d = 8,
                                             .q_ends = {4, 6},
                                             .kv_ends = {1, 1},
                                             .q_slack = 3,
                                             .kv_slack = 2,
                                             .mode = mask ? 1 : 3,
                                             .mask_shape = mask ? TEST_MASK_SS : TEST_MASK_COMPRESSED,
                                             .mask_bytes = TEST_MASK_ONES};
            struct attention_call call;
            create(&call, c);
            for (int64_t row = 0; row < 3 * 2 * 8; ++row) {
                test_tensor_set(&call.q, row, NAN);
            }
            if (mask) {
                test_tensor_set(&call.mask, 3, 0); /* the last row sees the key */
            }
            attention_forward_run(&call);
            for (int64_t n = 0; n < 2; ++n) {
                for (int64_t i = 0; i < 3; ++i) {
                    expect_row(&call, n * 4 + i, -FLT_MAX, FLT_MAX);
                    expect("attentionOut", &call.out, (i * 2 + n) * 8, 0);
                }
                expect("softmaxSum", &call.sum, (n * 4 + 3) * 8, 1);
                expect("attentionOut", &call.out, (3 * 2 + n) * 8 + 5, test_tensor_get(&call.v, 5));
            }
            for (int64_t row = 4 * 2; row < 9 * 2; ++row) {
                expect_row(&call, row, 0, 0);
                expect("attentionOut", &call.out, row * 8, 0);
            }
            attention_call_destroy(&call);
        }
    }
}

/* --- numbers at the limit -------------------------------------------------------------------------------- */

/* Keys where no row looks may hold anything; hidden ones within a row's interval too, as far as scores go. */
static void garbage_where_nobody_looks(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        const struct attention_case c = {.dtype = dtypes[t],
                                         .n1 = 2,
                                         .d = 8,
                                         .mode = 2,
                                         .q_ends = {3},
                                         .kv_ends = {70},
                                         .mask_shape = TEST_MASK_COMPRESSED};
        struct attention_call call, clean;
        create(&call, c);
        create(&clean, c);
        for (int64_t at = 3 * 8; at < 70 * 8; ++at) {
            test_tensor_set(&call.k, at, at % 2 ? INFINITY : NAN);
            test_tensor_set(&call.v, at, at % 3 ? -INFINITY : NAN);
        }
        attention_forward_run(&call);
        attention_forward_run(&clean);
        attention_forward_assert_same(&call, &clean);
        attention_call_destroy(&call);
        attention_call_destroy(&clean);
    }
}

/* A NaN query is its own row's business: max as if its scores were not there, sum and output NaN. */
static void a_nan_row_stays_alone(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        const struct attention_case c = {.dtype = dtypes[t], .n1 = 2, .d = 8, .q_ends = {130}, .kv_ends = {300}};
        struct attention_call call, clean;
        create(&call, c);
        create(&clean, c);
        test_tensor_set(&call.q, (57 * 2 + 1) * 8 + 3, NAN);
        attention_forward_run(&call);
        attention_forward_run(&clean);
        for (int64_t at = 0; at < 130 * 2 * 8; ++at) {
            expect("attentionOut", &call.out, at, at / 8 == 57 * 2 + 1 ? NAN : test_tensor_get(&clean.out, at));
        }
        expect("softmaxSum", &call.sum, (130 + 57) * 8, NAN);
        attention_call_destroy(&call);
        attention_call_destroy(&clean);
    }
}

/* Scores of eight million that rise with the column: the maximum moves in every tile. */
static void large_scores(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT, .d = 64, .scale = .125, .q_ends = {3}, .kv_ends = {900}};
    struct attention_call call;
    (void)state;
    create(&call, c);
    test_tensor_fill_value(&call.q, 1000);
    test_tensor_fill_value(&call.k, 1000);
    attention_forward_run(&call);
    expect_row(&call, 0, 8e6, 900);
    for (int64_t at = 0; at < test_tensor_elems(&call.k); ++at) {
        test_tensor_set(&call.k, at, (double)(1000 + at / 64));
    }
    attention_forward_verify_each_isa(&call);
    expect_row(&call, 0, 8e3 * 1899, 1);
    expect("attentionOut", &call.out, 5, test_tensor_get(&call.v, 899 * 64 + 5));
    attention_call_destroy(&call);
}

/* Equal scores whose product with the scale is no float: each is e^0 of the maximum, in every table. */
static void large_rounded_scores(void **state)
{
    static const double scales[] = {0.3, 0.1, 1.7};
    (void)state;
    for (size_t i = 0; i < COUNT(scales); ++i) {
        const struct attention_case c = {
            .dtype = AG_FLOAT, .d = 64, .scale = scales[i], .q_ends = {3}, .kv_ends = {900}};
        struct attention_call call;
        create(&call, c);
        test_tensor_fill_value(&call.q, 0x1.234568p15);
        test_tensor_fill_value(&call.k, 0x1.fedcbap15);
        TEST_EACH_ISA (isa) {
            test_configure(1, isa, AG_LIMITS_EXTENDED);
            attention_forward_run(&call);
            expect("softmaxSum", &call.sum, 0, 900);
        }
        attention_call_destroy(&call);
    }
}

static void scales(void **state)
{
    static const double values[] = {1.5, -0.7, 1e-30, 0x1p-150};
    (void)state;
    for (size_t i = 0; i < COUNT(values); ++i) {
        EACH_DTYPE(t)
        {
            const struct attention_case c = {
                .dtype = dtypes[t], .n1 = 2, .d = 16, .q_ends = {40}, .kv_ends = {200}, .scale = values[i]};
            struct attention_call call;
            attention_call_create(&call, &c);
            attention_forward_verify_each_isa(&call);
            attention_call_destroy(&call);
        }
    }
}

/* --- memory ---------------------------------------------------------------------------------------------- */

static void the_output_may_lie_on_the_query(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(busy_cases) - 1; ++i) {
        struct attention_call apart, same;
        create(&apart, busy_cases[i]);
        create(&same, busy_cases[i]);
        attention_forward_run(&apart);
        same.args.attention_in = same.q.handle;
        attention_forward_run(&same);
        test_assert_same_bits("attentionOut", &apart.out, &same.q);
        test_assert_same_bits("softmaxMax", &apart.max, &same.max);
        attention_call_destroy(&apart);
        attention_call_destroy(&same);
    }
}

/* Every item reads all values: none may be gone when the last one does. Statistics on the keys besides. */
static void the_outputs_may_lie_on_keys_and_values(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT, .n1 = 2, .n2 = 2, .d = 8, .q_ends = {700}};
    struct attention_call apart, same;
    (void)state;
    create(&apart, c);
    create(&same, c);
    attention_forward_run(&apart);
    same.args.attention_in = same.v.handle;
    same.args.softmax_sum = same.k.handle;
    attention_forward_run(&same);
    test_assert_same_bits("attentionOut", &apart.out, &same.v);
    test_assert_same_bits("softmaxSum", &apart.sum, &same.k);
    test_assert_same_bits("softmaxMax", &apart.max, &same.max);
    attention_call_destroy(&apart);
    attention_call_destroy(&same);
}

static void the_workspace_does_not_grow_with_the_keys(void **state)
{
    uint64_t bytes[2];
    (void)state;
    for (int i = 0; i < 2; ++i) {
        const struct attention_case c = {.dtype = AG_BF16, .d = 8, .q_ends = {600}, .kv_ends = {i ? 100000 : 200}};
        struct attention_call call;
        create(&call, c);
        assert_int_equal(attention_forward_phase1(&call), 0);
        bytes[i] = call.workspace_size;
        assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
        attention_call_destroy(&call);
    }
    assert_true(bytes[0] > 0 && bytes[0] == bytes[1]);
}

/* --- forward, then backward ------------------------------------------------------------------------------ */

/* Gradients from the operator's own statistics, in an order that is named, against those from statistics in double: what
 * the roundings of max, sum and attentionIn add is a few times the bound that the gradient has by itself. */
static void check_training_step(struct attention_case c, const char *layout)
{
    enum { ROUNDINGS = 6 };
    struct attention_call call;
    assert_int_equal(setenv("ACLGRAD_SOFTMAX_LAYOUT", layout, 1), 0);
    ag_config_reload();
    ag_config_set_limits(AG_LIMITS_EXTENDED);
    attention_call_create(&call, &c);
    struct attention_ref ref = attention_call_ref(&call, call.c.layout);
    double *const bounds[] = {ref.dq_bound,      ref.dk_bound,      ref.dv_bound,
                              ref.dq_rope_bound, ref.dk_rope_bound, ref.dsink_bound};
    const struct test_tensor *const outputs[] = {&call.dq, &call.dk, &call.dv, &call.dqr, &call.dkr, &call.dsink};
    for (int k = 0; k < 6; ++k) {
        for (int64_t at = 0; outputs[k]->handle && at < test_tensor_elems(outputs[k]); ++at) {
            bounds[k][at] = ROUNDINGS * bounds[k][at];
        }
    }
    attention_forward_run(&call);
    attention_call_run(&call);
    attention_call_compare_with(&call, &ref);
    attention_call_ref_free(&ref);
    attention_call_destroy(&call);
    unsetenv("ACLGRAD_SOFTMAX_LAYOUT");
    ag_config_reload();
    ag_config_set_limits(AG_LIMITS_EXTENDED);
}

/* Unequal lengths, many heads: where the orders differ most. */
static void the_gradient_reads_what_was_written(void **state)
{
    static const struct attention_case cases[] = {
        {.n1 = 12, .n2 = 3, .d = 16, .q_ends = {3, 40, 41, 90}, .mode = 3, .mask_shape = TEST_MASK_COMPRESSED},
        {.n1 = 6,
         .n2 = 6,
         .d = 24,
         .dr = 8,
         .dv = 16,
         .q_ends = {33, 70},
         .kv_ends = {20, 171},
         .mode = 3,
         .mask_shape = TEST_MASK_COMPRESSED},
        {.n1 = 4,
         .n2 = 2,
         .d = 16,
         .q_ends = {5, 30, 170},
         .has_sink = true,
         .mode = 2,
         .mask_shape = TEST_MASK_COMPRESSED},
        {.n1 = 4,
         .n2 = 2,
         .d = 16,
         .q_ends = {33, 70},
         .kv_ends = {20, 71},
         .mode = 1,
         .mask_shape = TEST_MASK_SS,
         .mask_bytes = TEST_MASK_HOLES},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); ++i) {
        struct attention_case c = cases[i];
        c.dtype = AG_FLOAT;
        check_training_step(c, "cann");
        c.layout = AG_SOFTMAX_TND;
        check_training_step(c, "tnd");
        c.layout = AG_SOFTMAX_NTD;
        check_training_step(c, "ntd");
        if (c.dr == 0) { /* the layout's own argument says the same in versions 4 and 5 */
            c.layout = AG_SOFTMAX_TND;
            c.version = c.has_sink ? 5 : 4;
            c.is_as_input = true;
            check_training_step(c, "ntd");
        }
    }
}

/* Statistics in another order, a sink among them, are recognised by themselves. */
static void the_probe_counts_the_sink(void **state)
{
    static const enum ag_softmax_layout layouts[] = {AG_SOFTMAX_CANN, AG_SOFTMAX_TND, AG_SOFTMAX_NTD};
    (void)state;
    for (size_t i = 0; i < COUNT(layouts); ++i) {
        const struct attention_case c = {.dtype = AG_FLOAT,
                                         .n1 = 3,
                                         .n2 = 1,
                                         .d = 16,
                                         .q_ends = {4, 30},
                                         .has_sink = true,
                                         .layout = layouts[i],
                                         .mode = 3,
                                         .mask_shape = TEST_MASK_COMPRESSED};
        struct attention_call call;
        attention_call_create(&call, &c);
        attention_call_verify(&call);
        attention_call_destroy(&call);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(any_view_of_the_same_values),
        cmocka_unit_test(alone_as_in_a_pack),
        cmocka_unit_test(means),
        cmocka_unit_test(sinks),
        cmocka_unit_test(rows_that_see_nothing),
        cmocka_unit_test(garbage_where_nobody_looks),
        cmocka_unit_test(a_nan_row_stays_alone),
        cmocka_unit_test(large_scores),
        cmocka_unit_test(large_rounded_scores),
        cmocka_unit_test(scales),
        cmocka_unit_test(the_output_may_lie_on_the_query),
        cmocka_unit_test(the_outputs_may_lie_on_keys_and_values),
        cmocka_unit_test(the_workspace_does_not_grow_with_the_keys),
        cmocka_unit_test(the_gradient_reads_what_was_written),
        cmocka_unit_test(the_probe_counts_the_sink),
    };
    test_configure(1, ag_config_get().isa, AG_LIMITS_EXTENDED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
