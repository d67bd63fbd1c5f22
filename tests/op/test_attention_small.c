/* labels: smoke ci */
/* Problems small enough for the right answer to be written down: which corner a causal mask starts from, empty
 * sequences, tails, groups, scales, hidden pairs, statistics of rows that see nothing, overflow. */
#include <float.h>
#include <math.h>

#include "support/attention_problem.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int dtypes[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};

#define EACH_DTYPE(t) for (size_t t = 0; t < COUNT(dtypes); ++t)

static void expect(const char *what, const struct test_tensor *tensor, int64_t at, double want)
{
    const double got = test_tensor_get(tensor, at);
    if (got != want && !(isnan(got) && isnan(want))) {
        fail_msg("%s[%d]: got %.9g, want %.9g", what, (int)at, got, want);
    }
}

static void expect_all(const char *what, const struct test_tensor *tensor, double want)
{
    for (int64_t at = 0; at < test_tensor_elems(tensor); ++at) {
        expect(what, tensor, at, want);
    }
}

static void set_statistics(struct attention_call *call, int64_t row, double max, double sum)
{
    test_tensor_set(&call->max, row * 8, max);
    test_tensor_set(&call->sum, row * 8, sum);
}

/* --- two keys -------------------------------------------------------------------------------------------- */

/* q = e0, k = 0, v0 = e0, v1 = 0, dy = e0: both keys get P = 1/2. */
static void two_keys(int dtype, int64_t n1, int64_t n2, double scale, double want_dk, double want_dv)
{
    const struct attention_case c = {
        .dtype = dtype, .n1 = n1, .n2 = n2, .d = 8, .q_ends = {1}, .kv_ends = {2}, .scale = scale};
    struct attention_call call;
    attention_call_create(&call, &c);
    test_tensor_fill_value(&call.k, 0);
    for (int64_t at = 0; at < n1 * 8; ++at) {
        test_tensor_set(&call.q, at, at % 8 == 0);
        test_tensor_set(&call.dy, at, at % 8 == 0);
    }
    for (int64_t at = 0; at < 2 * n2 * 8; ++at) {
        test_tensor_set(&call.v, at, at < n2 * 8 && at % 8 == 0);
    }
    attention_call_refresh(&call);
    attention_call_run(&call);
    expect_all("dq", &call.dq, 0);
    for (int64_t at = 0; at < 2 * n2 * 8; ++at) {
        const double sign = at < n2 * 8 ? 1 : -1;
        expect("dk", &call.dk, at, at % 8 == 0 ? sign * want_dk : 0);
        expect("dv", &call.dv, at, at % 8 == 0 ? want_dv : 0);
    }
    attention_call_destroy(&call);
}

static void two_keys_and_the_scale(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        two_keys(dtypes[t], 1, 1, 1, 0.25, 0.5);
        two_keys(dtypes[t], 1, 1, 2, 0.5, 0.5);
        two_keys(dtypes[t], 1, 1, 0.125, 0.03125, 0.5);
        two_keys(dtypes[t], 1, 1, -1, -0.25, 0.5);
        two_keys(dtypes[t], 6, 2, 1, 0.75, 1.5); /* three heads of a group add up */
    }
}

/* The scale is the caller's, not one derived from the head dim. */
static void scale_is_not_recomputed(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT, .d = 192, .dv = 128, .q_ends = {5}, .scale = 0.088388};
    struct attention_call given, derived;
    double difference = 0;
    (void)state;
    attention_call_create(&given, &c);
    attention_call_create(&derived, &c);
    derived.args.scale = 1 / sqrt(192);
    attention_call_run(&given);
    attention_call_run(&derived);
    for (int64_t at = 0; at < test_tensor_elems(&given.dk); ++at) {
        difference += fabs(test_tensor_get(&given.dk, at) - test_tensor_get(&derived.dk, at));
    }
    assert_true(difference > 1);
    attention_call_destroy(&given);
    attention_call_destroy(&derived);
}

/* scale = 0: no gradient for query and key, exactly; value's is as for any statistics. */
static void zero_scale(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        const struct attention_case c = {.dtype = dtypes[t], .n1 = 2, .d = 8, .q_ends = {9}, .kv_ends = {12}};
        struct attention_call call;
        attention_call_create(&call, &c);
        call.args.scale = 0;
        attention_call_verify(&call);
        expect_all("dq", &call.dq, 0);
        expect_all("dk", &call.dk, 0);
        attention_call_destroy(&call);
    }
}

/* --- uniform rows: the mask seen by eye ------------------------------------------------------------------ */

/* q = k = v = 0 and every dy row = e0: P is uniform over what a row sees, so dv shows the mask. */
static void uniform(const struct attention_case *c, const double *want_dv)
{
    EACH_DTYPE(t)
    {
        struct attention_case typed = *c;
        struct attention_call call;
        typed.dtype = dtypes[t];
        typed.d = 8;
        attention_call_create(&call, &typed);
        test_tensor_fill_value(&call.q, 0);
        test_tensor_fill_value(&call.k, 0);
        test_tensor_fill_value(&call.v, 0);
        for (int64_t at = 0; at < test_tensor_elems(&call.dy); ++at) {
            test_tensor_set(&call.dy, at, at % 8 == 0);
        }
        attention_call_refresh(&call);
        attention_call_verify(&call);
        expect_all("dq", &call.dq, 0);
        expect_all("dk", &call.dk, 0);
        for (int64_t j = 0; j < call.t2; ++j) {
            const double tolerance = dtypes[t] == AG_FLOAT ? 1e-6 : dtypes[t] == AG_FLOAT16 ? 2e-3 : 1e-2;
            if (fabs(test_tensor_get(&call.dv, j * 8) - want_dv[j]) > tolerance * want_dv[j]) {
                fail_msg("dv[%d]: got %g, want %g\n%s", (int)j, test_tensor_get(&call.dv, j * 8), want_dv[j],
                         attention_case_text(&call.c));
            }
        }
        attention_call_destroy(&call);
    }
}

static void causal_corners(void **state)
{
    struct attention_case wide = {.q_ends = {2}, .kv_ends = {5}, .mask_shape = TEST_MASK_COMPRESSED};
    struct attention_case tall = {.q_ends = {5}, .kv_ends = {2}, .mask_shape = TEST_MASK_COMPRESSED};
    (void)state;
    wide.mode = tall.mode = 3; /* bottom right */
    uniform(&wide, (const double[]){.45, .45, .45, .45, .2});
    uniform(&tall, (const double[]){1.5, .5});
    wide.mode = tall.mode = 2; /* top left */
    uniform(&wide, (const double[]){1.5, .5, 0, 0, 0});
    uniform(&tall, (const double[]){3, 2});
}

static void windows_and_prefixes(void **state)
{
    struct attention_case c = {
        .q_ends = {3}, .kv_ends = {5}, .mask_shape = TEST_MASK_COMPRESSED, .mode = 4, .pre = 1, .next = 0};
    (void)state;
    /* rows see columns 1-2, 2-3, 3-4: the band's corner is bottom right */
    uniform(&c, (const double[]){0, .5, 1, 1, .5});
    c = (struct attention_case){.q_ends = {3}, .kv_ends = {5}, .mask_shape = TEST_MASK_SS, .pre = 1, .next = 0};
    /* mode 0: rows see columns 0, 0-1, 1-2: top left */
    uniform(&c, (const double[]){1.5, 1, .5, 0, 0});
    c = (struct attention_case){
        .q_ends = {4}, .kv_ends = {2}, .mask_shape = TEST_MASK_COMPRESSED, .mode = 6, .prefix = {1}};
    /* rows -2..1 of a triangle, but column 0 is always seen */
    uniform(&c, (const double[]){3.5, .5});
    c.prefix[0] = 2;
    uniform(&c, (const double[]){2, 2});
    c.prefix[0] = 0;
    uniform(&c, (const double[]){1.5, .5});
}

/* The band belongs to the last sequence with queries in mode 7, to the first in mode 8. */
static void band_sequences(void **state)
{
    struct attention_case c = {.count = 6,
                               .q_ends = {0, 2, 4, 4, 0, 0},
                               .kv_ends = {1, 4, 7, 8, 0, 0},
                               .pre = 1,
                               .next = 0,
                               .mask_shape = TEST_MASK_COMPRESSED,
                               .mode = 7};
    (void)state;
    /* sequence 1: rows see 0-1, 0-2 of 3; sequence 2 (band): rows see 0-1, 1-2 of 3 */
    uniform(&c, (const double[]){0, 5. / 6, 5. / 6, 1. / 3, .5, 1, .5, 0});
    c.mode = 8;
    /* sequence 1 (band): 0-1, 1-2; sequence 2: top left, 0, 0-1 */
    uniform(&c, (const double[]){0, .5, 1, .5, 1.5, .5, 0, 0});
}

/* The worked examples of the operator's page: 3 queries, 5 keys, every sparse mode. */
static void examples_of_the_page(void **state)
{
    static const struct {
        struct attention_case c;
        double dv[10];
    } examples[] = {
        {{.q_ends = {3}, .kv_ends = {5}}, {.6, .6, .6, .6, .6}},
        {{.q_ends = {3}, .kv_ends = {5}, .mode = 0, .pre = 1, .mask_shape = TEST_MASK_SS}, {1.5, 1, .5, 0, 0}},
        {{.q_ends = {3}, .kv_ends = {5}, .mode = 1, .mask_shape = TEST_MASK_SS, .mask_bytes = TEST_MASK_CHECKERS},
         {2. / 3, .5, 2. / 3, .5, 2. / 3}},
        {{.q_ends = {3}, .kv_ends = {5}, .mode = 2, .mask_shape = TEST_MASK_COMPRESSED},
         {11. / 6, 5. / 6, 1. / 3, 0, 0}},
        {{.q_ends = {3}, .kv_ends = {5}, .mode = 3, .mask_shape = TEST_MASK_COMPRESSED},
         {47. / 60, 47. / 60, 47. / 60, .45, .2}},
        {{.q_ends = {3}, .kv_ends = {5}, .mode = 4, .pre = 1, .mask_shape = TEST_MASK_COMPRESSED}, {0, .5, 1, 1, .5}},
        {{.q_ends = {3}, .kv_ends = {5}, .mode = 6, .prefix = {4}, .mask_shape = TEST_MASK_COMPRESSED},
         {.7, .7, .7, .7, .2}},
        {{.q_ends = {3, 6}, .kv_ends = {5, 10}, .mode = 7, .pre = 1, .mask_shape = TEST_MASK_COMPRESSED},
         {47. / 60, 47. / 60, 47. / 60, .45, .2, 0, .5, 1, 1, .5}},
        {{.q_ends = {3, 6}, .kv_ends = {5, 10}, .mode = 8, .pre = 1, .mask_shape = TEST_MASK_COMPRESSED},
         {0, .5, 1, 1, .5, 11. / 6, 5. / 6, 1. / 3, 0, 0}},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(examples); ++i) {
        uniform(&examples[i].c, examples[i].dv);
    }
}

/* Modes 7 and 8 look at the tokens for the band's sequence only: they may be nonsense for the others. */
static void tokens_of_the_band_only(void **state)
{
    struct attention_case c = {.dtype = AG_FLOAT,
                               .d = 8,
                               .q_ends = {30, 32},
                               .pre = -5,
                               .next = 20,
                               .mode = 8,
                               .mask_shape = TEST_MASK_COMPRESSED};
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &c);
    attention_call_verify(&call);
    attention_call_destroy(&call);
    c.q_ends[0] = 2;
    c.mode = 7;
    attention_call_create(&call, &c);
    attention_call_verify(&call);
    attention_call_destroy(&call);
}

static void sequences_without_queries(void **state)
{
    const struct attention_case c = {.count = 2, .q_ends = {0, 3}, .kv_ends = {2, 5}};
    (void)state;
    uniform(&c, (const double[]){0, 0, 1, 1, 1});
}

static void zero_tails(void **state)
{
    double want[20] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct attention_case c = {
        .count = 5, .q_ends = {2, 5, 9, 0, 0}, .kv_ends = {2, 5, 9, 0, 0}, .q_slack = 11, .kv_slack = 11};
    (void)state;
    uniform(&c, want);
    c = (struct attention_case){.count = 5, .q_ends = {2, 4, 4, 6, 8}};
    uniform(&c, (const double[]){1, 1, 1, 1, 1, 1, 1, 1});
    c = (struct attention_case){.count = 3, .q_ends = {0, 0, 3}};
    uniform(&c, (const double[]){1, 1, 1});
    c = (struct attention_case){.count = 3, .q_ends = {0, 0, 0}, .kv_ends = {2, 0, 0}, .kv_slack = 1};
    uniform(&c, (const double[]){0, 0, 0});
    c = (struct attention_case){.count = 3, .q_ends = {2, 3, 0}, .kv_ends = {1, 2, 4}}; /* one-sided tail */
    uniform(&c, (const double[]){2, 1, 0, 0});
}

/* --- hidden pairs ---------------------------------------------------------------------------------------- */

/* Three packs of one key each: with the bottom-right corner only the last query of each sees it. */
static void more_queries_than_keys(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        const struct attention_case c = {.dtype = dtypes[t],
                                         .d = 32,
                                         .deviation = 3,
                                         .mode = 3,
                                         .q_ends = {76, 110, 256},
                                         .kv_ends = {1, 2, 3},
                                         .mask_shape = TEST_MASK_COMPRESSED};
        struct attention_call call;
        attention_call_create(&call, &c);
        test_tensor_fill_value(&call.dy, 1);
        attention_call_verify(&call);
        for (int64_t at = 0; at < test_tensor_elems(&call.dv); ++at) {
            assert_true(fabs(test_tensor_get(&call.dv, at) - 1) < 1e-4);
        }
        attention_call_destroy(&call);
    }
}

/* A hidden score would overflow exp: its P is 0 all the same, and nothing is inf * 0. */
static void hidden_overflow(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        const struct attention_case c = {.dtype = dtypes[t],
                                         .d = 8,
                                         .mode = 1,
                                         .scale = 1,
                                         .q_ends = {1},
                                         .kv_ends = {2},
                                         .mask_shape = TEST_MASK_SS};
        struct attention_call call;
        attention_call_create(&call, &c);
        for (int64_t at = 0; at < 16; ++at) {
            test_tensor_set(&call.k, at, at == 0 ? -20 : at == 8 ? 20 : 0);
            test_tensor_set(&call.v, at, at == 0 || at == 9);
        }
        for (int64_t at = 0; at < 8; ++at) {
            test_tensor_set(&call.q, at, at == 0 ? 20 : 0);
            test_tensor_set(&call.dy, at, at == 0);
        }
        test_tensor_set(&call.mask, 1, 255);
        attention_call_refresh(&call);
        expect("max", &call.max, 0, -400);
        attention_call_run(&call);
        expect_all("dq", &call.dq, 0);
        expect_all("dk", &call.dk, 0);
        for (int64_t at = 0; at < 16; ++at) {
            expect("dv", &call.dv, at, at == 0);
        }
        attention_call_destroy(&call);
    }
}

/* Infinite and NaN keys where no row looks. */
static void hidden_garbage_keys(void **state)
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
        attention_call_create(&call, &c);
        attention_call_create(&clean, &c);
        for (int64_t at = 3 * 8; at < 70 * 8; ++at) {
            test_tensor_set(&call.k, at, at % 2 ? INFINITY : NAN);
            test_tensor_set(&call.v, at, at % 3 ? -INFINITY : NAN);
        }
        attention_call_run(&call);
        attention_call_run(&clean);
        attention_call_assert_same(&call, &clean);
        attention_call_destroy(&call);
        attention_call_destroy(&clean);
    }
}

/* Rows that see nothing: zeros whatever their statistics are, and the other rows as ever. */
static void statistics_of_blind_rows(void **state)
{
    static const double garbage[][2] = {{NAN, NAN}, {INFINITY, 0},       {-INFINITY, INFINITY},
                                        {0, 0},     {-FLT_MAX, FLT_MAX}, {-FLT_MAX, 7}};
    (void)state;
    EACH_DTYPE(t)
    {
        for (size_t g = 0; g < COUNT(garbage); ++g) {
            const struct attention_case c = {.dtype = dtypes[t],
                                             .n1 = 2,
                                             .d = 16,
                                             .mode = 1,
                                             .q_ends = {33, 70},
                                             .kv_ends = {20, 71},
                                             .mask_shape = TEST_MASK_SS,
                                             .mask_bytes = TEST_MASK_HOLES};
            struct attention_call call;
            attention_call_create(&call, &c);
            for (int64_t row = 0; row < 70; ++row) {
                for (int64_t n = 0; n < 2; ++n) {
                    const int64_t i = row < 33 ? row : row - 33, sq = row < 33 ? 33 : 37, begin = row < 33 ? 0 : 33;
                    if (i % 5 == 2) {
                        set_statistics(&call, begin * 2 + n * sq + i, garbage[g][0], garbage[g][1]);
                    }
                }
            }
            attention_call_verify(&call);
            for (int64_t at = 0; at < 32; ++at) {
                expect("dq", &call.dq, 2 * 32 + at, 0);
            }
            attention_call_destroy(&call);
        }
    }
}

/* Rows that see nothing, between rows that see something: their query, dy and attentionIn reach no sum, in no table. */
static void garbage_in_blind_rows(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        test_configure(1, isa, AG_LIMITS_DOCUMENTED);
        EACH_DTYPE(t)
        {
            const struct attention_case c = {.dtype = dtypes[t],
                                             .n1 = 2,
                                             .d = 16,
                                             .mode = 1,
                                             .q_ends = {33, 70},
                                             .kv_ends = {20, 71},
                                             .mask_shape = TEST_MASK_SS,
                                             .mask_bytes = TEST_MASK_HOLES};
            struct attention_call call, clean;
            attention_call_create(&call, &c);
            attention_call_create(&clean, &c);
            for (int64_t at = 0; at < 70 * 2 * 16; ++at) {
                const int64_t row = at / 32, i = row < 33 ? row : row - 33;
                if (i % 5 == 2) {
                    test_tensor_set(&call.q, at, at % 2 ? INFINITY : NAN);
                    test_tensor_set(&call.dy, at, at % 3 ? -INFINITY : NAN);
                    test_tensor_set(&call.out, at, NAN);
                }
            }
            attention_call_run(&call);
            attention_call_run(&clean);
            attention_call_assert_same(&call, &clean);
            attention_call_destroy(&call);
            attention_call_destroy(&clean);
        }
    }
    ag_config_reload();
}

static void everything_hidden(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        const struct attention_case c = {.dtype = dtypes[t],
                                         .n1 = 2,
                                         .d = 16,
                                         .mode = 1,
                                         .q_ends = {33, 70},
                                         .mask_shape = TEST_MASK_11SS,
                                         .mask_bytes = TEST_MASK_ONES};
        struct attention_call call;
        attention_call_create(&call, &c);
        test_tensor_fill_value(&call.max, NAN);
        test_tensor_fill_value(&call.sum, 0);
        attention_call_run(&call);
        expect_all("dq", &call.dq, 0);
        expect_all("dk", &call.dk, 0);
        expect_all("dv", &call.dv, 0);
        attention_call_destroy(&call);
    }
}

/* Without a mask all is seen, as with a mask of zeros and wide tokens. */
static void no_mask_is_a_mask_of_zeros(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        struct attention_case c = {.dtype = dtypes[t], .n1 = 2, .d = 16, .q_ends = {33, 70}, .mode = 3, .pre = -9};
        struct attention_call none, zeros;
        attention_call_create(&none, &c); /* sparse mode and tokens mean nothing without a mask */
        c.mask_shape = TEST_MASK_SS;
        c.mode = 0;
        c.pre = c.next = INT64_MAX;
        attention_call_create(&zeros, &c);
        attention_call_run(&none);
        attention_call_run(&zeros);
        attention_call_assert_same(&none, &zeros);
        attention_call_destroy(&none);
        attention_call_destroy(&zeros);
    }
}

/* A mask that begins to hide far to the right is not forgotten. */
static void late_mask_columns(void **state)
{
    (void)state;
    for (int shape = TEST_MASK_SS; shape <= TEST_MASK_BNSS; ++shape) {
        const struct attention_case c = {.dtype = AG_BF16,
                                         .n1 = 2,
                                         .d = 8,
                                         .mode = 1,
                                         .q_ends = {1},
                                         .kv_ends = {600},
                                         .mask_shape = (enum test_mask_shape)shape};
        struct attention_call call;
        attention_call_create(&call, &c);
        for (int64_t at = 0; at < test_tensor_elems(&call.mask); ++at) {
            test_tensor_set(&call.mask, at, at % 600 >= 513);
        }
        attention_call_refresh(&call);
        attention_call_verify(&call);
        for (int64_t at = 0; at < 600 * 8; ++at) {
            assert_int_equal(test_tensor_get(&call.dv, at) == 0, at >= 513 * 8);
        }
        attention_call_destroy(&call);
    }
}

/* --- statistics and sums at the limit -------------------------------------------------------------------- */

/* Equal scores of eight million: max + log(sum) in one constant would lose the answer. */
static void large_equal_scores(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT, .d = 64, .scale = .125, .q_ends = {50}};
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &c);
    test_tensor_fill_value(&call.q, 1000);
    test_tensor_fill_value(&call.k, 1000);
    test_tensor_fill_value(&call.v, 1000);
    test_tensor_fill_value(&call.dy, 1);
    attention_call_refresh(&call);
    expect("max", &call.max, 0, 8e6);
    expect("sum", &call.sum, 0, 50);
    attention_call_run(&call);
    expect_all("dq", &call.dq, 0);
    expect_all("dk", &call.dk, 0);
    for (int64_t at = 0; at < test_tensor_elems(&call.dv); ++at) {
        assert_true(fabs(test_tensor_get(&call.dv, at) - 1) < 1e-5);
    }
    for (int64_t at = 0; at < test_tensor_elems(&call.q); ++at) {
        test_tensor_set(&call.q, at, (double)(1000 + at / 64));
    }
    attention_call_refresh(&call);
    attention_call_verify(&call);
    attention_call_destroy(&call);
}

/* dv beyond the largest FLOAT16 is infinite, not cut; a P of e^200 is infinite and shows. */
static void overflow_shows(void **state)
{
    struct attention_case c = {.dtype = AG_FLOAT16, .d = 8, .q_ends = {2}, .kv_ends = {1}};
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &c);
    test_tensor_fill_value(&call.dy, -60000);
    attention_call_run(&call);
    expect_all("dv", &call.dv, -INFINITY);
    attention_call_destroy(&call);
    EACH_DTYPE(t)
    {
        c.dtype = dtypes[t];
        attention_call_create(&call, &c);
        test_tensor_fill_value(&call.dy, 1);
        set_statistics(&call, 1, -200, 1);
        attention_call_run(&call);
        expect_all("dv", &call.dv, INFINITY);
        attention_call_destroy(&call);
    }
}

/* attentionIn and statistics are used as given: they need not be those of the local keys. */
static void statistics_from_elsewhere(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        const struct attention_case c = {.dtype = dtypes[t],
                                         .n1 = 4,
                                         .n2 = 2,
                                         .d = 16,
                                         .q_ends = {33, 70},
                                         .mode = 3,
                                         .kv_ends = {20, 71},
                                         .mask_shape = TEST_MASK_COMPRESSED,
                                         .invent_statistics = true};
        struct attention_call call;
        attention_call_create(&call, &c);
        attention_call_verify_each_isa(&call);
        attention_call_destroy(&call);
    }
}

/* A single FLOAT problem by the usual measure: relative error of the whole tensor. */
static void float_is_float_throughout(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT, .n1 = 2, .n2 = 2, .d = 40, .q_ends = {33}, .kv_ends = {65}};
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &c);
    struct attention_ref ref = attention_call_ref(&call, AG_SOFTMAX_CANN);
    attention_call_run(&call);
    const struct test_tensor *const got[] = {&call.dq, &call.dk, &call.dv};
    const double *const want[] = {ref.dq, ref.dk, ref.dv};
    for (int k = 0; k < 3; ++k) {
        double error = 0, norm = 0;
        for (int64_t at = 0; at < test_tensor_elems(got[k]); ++at) {
            error += pow(test_tensor_get(got[k], at) - want[k][at], 2);
            norm += pow(want[k][at], 2);
        }
        assert_true(sqrt(error / norm) < 1e-6);
    }
    attention_call_ref_free(&ref);
    attention_call_destroy(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_keys_and_the_scale),
        cmocka_unit_test(scale_is_not_recomputed),
        cmocka_unit_test(zero_scale),
        cmocka_unit_test(causal_corners),
        cmocka_unit_test(windows_and_prefixes),
        cmocka_unit_test(band_sequences),
        cmocka_unit_test(examples_of_the_page),
        cmocka_unit_test(tokens_of_the_band_only),
        cmocka_unit_test(sequences_without_queries),
        cmocka_unit_test(zero_tails),
        cmocka_unit_test(more_queries_than_keys),
        cmocka_unit_test(hidden_overflow),
        cmocka_unit_test(hidden_garbage_keys),
        cmocka_unit_test(statistics_of_blind_rows),
        cmocka_unit_test(garbage_in_blind_rows),
        cmocka_unit_test(everything_hidden),
        cmocka_unit_test(no_mask_is_a_mask_of_zeros),
        cmocka_unit_test(late_mask_columns),
        cmocka_unit_test(large_equal_scores),
        cmocka_unit_test(overflow_shows),
        cmocka_unit_test(statistics_from_elsewhere),
        cmocka_unit_test(float_is_float_throughout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
