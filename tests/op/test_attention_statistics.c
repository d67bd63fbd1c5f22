/* labels: smoke ci */
/* The three orders of softmaxMax and softmaxSum, how the order is found out, and what the checked mode tells. */
#define _DEFAULT_SOURCE /* fileno, dup, setenv */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "support/attention_problem.h"

/* --- where ----------------------------------------------------------------------------------------------- */

/* Lengths 2 and 3, two heads; entries are head * 100 + token. */
static void the_three_orders(void **state)
{
    static const int64_t cann[] = {0, 1, 100, 101, 2, 3, 4, 102, 103, 104};
    static const int64_t tnd[] = {0, 100, 1, 101, 2, 102, 3, 103, 4, 104};
    static const int64_t ntd[] = {0, 1, 2, 3, 4, 100, 101, 102, 103, 104};
    const struct attention_problem p = {.query_rows = 5, .query_heads = 2};
    const struct attention_sequence sequences[2] = {{.query_begin = 0, .query_len = 2},
                                                    {.query_begin = 2, .query_len = 3}};
    (void)state;
    for (int b = 0; b < 2; ++b) {
        for (int64_t n = 0; n < 2; ++n) {
            for (int64_t i = 0; i < sequences[b].query_len; ++i) {
                const int64_t code = n * 100 + sequences[b].query_begin + i;
                assert_int_equal(cann[attention_statistics_row(&p, AG_SOFTMAX_CANN, &sequences[b], n, i)], code);
                assert_int_equal(tnd[attention_statistics_row(&p, AG_SOFTMAX_TND, &sequences[b], n, i)], code);
                assert_int_equal(ntd[attention_statistics_row(&p, AG_SOFTMAX_NTD, &sequences[b], n, i)], code);
            }
        }
    }
}

/* A row's number counts in the declared shape, whatever its strides. */
static void offsets_follow_the_strides(void **state)
{
    const struct ag_view view = {.dims = {5, 2, 8}, .strides = {100, 30, 3}, .rank = 3};
    (void)state;
    assert_int_equal(attention_statistics_offset(&view, 0), 0);
    assert_int_equal(attention_statistics_offset(&view, 1), 30);
    assert_int_equal(attention_statistics_offset(&view, 7), 330);
}

/* --- with the order forced ------------------------------------------------------------------------------- */

static void force_layout(const char *name)
{
    assert_int_equal(setenv("ACLGRAD_SOFTMAX_LAYOUT", name, 1), 0);
    ag_config_reload();
    assert_int_equal(ag_config_check(AG_INVALID), AG_OK);
}

static void forced_orders_are_obeyed(void **state)
{
    static const enum ag_softmax_layout layouts[] = {AG_SOFTMAX_CANN, AG_SOFTMAX_TND, AG_SOFTMAX_NTD};
    (void)state;
    for (int k = 0; k < 3; ++k) {
        struct attention_case c = {.dtype = AG_BF16,
                                   .n1 = 3,
                                   .d = 16,
                                   .q_ends = {20, 50, 51},
                                   .mode = 3,
                                   .layout = layouts[k],
                                   .mask_shape = TEST_MASK_COMPRESSED,
                                   .invent_statistics = true};
        struct attention_call call;
        attention_call_create(&call, &c);
        force_layout(attention_layout_name(layouts[k]));
        attention_call_verify(&call);
        attention_call_destroy(&call);
    }
    force_layout("auto");
}

/* A declared shape of [N, T, 8] changes nothing: the order of the memory counts. */
static void the_other_declared_shape(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT, .n1 = 3, .d = 16, .q_ends = {20, 50, 51}};
    const int64_t dims[3] = {3, 51, 8};
    struct attention_call call, other;
    (void)state;
    attention_call_create(&call, &c);
    attention_call_create(&other, &c);
    struct test_tensor max = test_tensor_create(AG_FLOAT, 3, dims), sum = test_tensor_create(AG_FLOAT, 3, dims);
    memcpy(max.view.data, call.max.view.data, max.buffer.bytes);
    memcpy(sum.view.data, call.sum.view.data, sum.buffer.bytes);
    other.args.softmax_max = max.handle;
    other.args.softmax_sum = sum.handle;
    attention_call_run(&call);
    attention_call_run(&other);
    attention_call_assert_same(&call, &other);
    test_tensor_destroy(&max);
    test_tensor_destroy(&sum);
    attention_call_destroy(&call);
    attention_call_destroy(&other);
}

/* --- found out ------------------------------------------------------------------------------------------- */

static enum ag_softmax_layout choose(const struct attention_call *call)
{
    struct attention_problem p;
    assert_int_equal(attention_check(&call->args, &p), AG_OK);
    const enum ag_softmax_layout layout = attention_choose_layout(&p);
    attention_release(&p);
    return layout;
}

static struct attention_case random_case(struct test_random *random)
{
    static const int64_t modes[] = {0, 1, 2, 3, 4, 7, 8};
    static const int dtypes[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};
    struct attention_case c = {.dtype = dtypes[test_random_below(random, 3)],
                               .n2 = 1 + test_random_below(random, 2),
                               .d = test_random_between(random, 4, 24),
                               .pre = 30,
                               .next = 6,
                               .count = 1 + test_random_below(random, 4),
                               .mode = modes[test_random_below(random, 7)],
                               .seed = test_random_bits(random)};
    c.n1 = c.n2 * test_random_between(random, 2, 3);
    c.mask_shape = c.mode <= 1 ? TEST_MASK_SS : TEST_MASK_COMPRESSED;
    for (int64_t b = 0, q = 0, kv = 0; b < c.count; ++b) {
        c.q_ends[b] = q += test_random_between(random, 2, 30);
        c.kv_ends[b] = kv += test_random_between(random, 2, 40);
    }
    c.mask_bytes = test_random_below(random, 2) ? TEST_MASK_RANDOM : TEST_MASK_HOLES;
    c.q_slack = test_random_below(random, 3);
    return c;
}

/* 240 packs, their statistics written in each order: the order is found. */
static void the_order_is_found(void **state)
{
    static const enum ag_softmax_layout layouts[] = {AG_SOFTMAX_CANN, AG_SOFTMAX_TND, AG_SOFTMAX_NTD};
    struct test_random random = test_random_seed(11);
    (void)state;
    for (int k = 0; k < 240; ++k) {
        const struct attention_case c = random_case(&random);
        struct attention_call call;
        attention_call_create(&call, &c);
        for (int l = 0; l < 3; ++l) {
            /* One sequence without slack: the order of blocks is that of [N, T]. */
            const bool is_same = layouts[l] == AG_SOFTMAX_NTD && c.count == 1 && c.q_slack == 0;
            attention_call_store_statistics(&call, layouts[l]);
            if (choose(&call) != (is_same ? AG_SOFTMAX_CANN : layouts[l])) {
                fail_msg("order %s taken for %s\n%s", attention_layout_name(layouts[l]),
                         attention_layout_name(choose(&call)), attention_case_text(&call.c));
            }
        }
        attention_call_destroy(&call);
    }
}

/* Statistics of more keys than are here, as ring attention merges them: the order of the forward operator. */
static void merged_statistics_are_in_blocks(void **state)
{
    struct test_random random = test_random_seed(12);
    (void)state;
    for (int k = 0; k < 60; ++k) {
        const struct attention_case c = random_case(&random);
        struct attention_call call;
        attention_call_create(&call, &c);
        for (int64_t at = 0; at < call.t1 * c.n1; ++at) {
            call.doubles.max[at] += fabs(test_random_normal(&random));
            call.doubles.sum[at] *= 1 + fabs(test_random_normal(&random));
        }
        attention_call_store_statistics(&call, AG_SOFTMAX_CANN);
        assert_int_equal(choose(&call), AG_SOFTMAX_CANN);
        attention_call_destroy(&call);
    }
}

/* Where every order fits it is the usual one; and a forward that is off by a thousandth is still recognised. */
static void close_calls(void **state)
{
    struct attention_case c = {.dtype = AG_FLOAT, .n1 = 2, .d = 8, .q_ends = {5, 9}};
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &c);
    test_tensor_fill_value(&call.q, 0);
    test_tensor_fill_value(&call.k, 1);
    for (int64_t at = 0; at < test_tensor_elems(&call.max); at += 8) { /* 4 or 5 keys: say 4.5 */
        test_tensor_set(&call.max, at, 0);
        test_tensor_set(&call.sum, at, 4.5);
    }
    assert_int_equal(choose(&call), AG_SOFTMAX_CANN); /* fits nowhere */
    attention_call_destroy(&call);
    c.q_ends[1] = 10;
    attention_call_create(&call, &c);
    test_tensor_fill_value(&call.q, 0);
    attention_call_refresh(&call);
    assert_int_equal(choose(&call), AG_SOFTMAX_CANN); /* five keys each: fits everywhere */
    test_tensor_fill_normal(&call.q, &(struct test_random){4}, 1);
    attention_call_refresh(&call);
    for (int64_t at = 0; at < 20; ++at) {
        call.doubles.sum[at] *= 1.001;
    }
    attention_call_store_statistics(&call, AG_SOFTMAX_TND);
    assert_int_equal(choose(&call), AG_SOFTMAX_TND);
    attention_call_destroy(&call);
}

/* Where the orders are one, or no row can be computed, nothing is told apart, and it is the usual one: one head and
 * sequences of one row; a mask that hides all; no sequence with both queries and keys; queries that are all NaN. */
static void nothing_to_tell_apart(void **state)
{
    static const struct attention_case cases[] = {
        {.dtype = AG_FLOAT, .n1 = 1, .d = 8, .q_ends = {1, 2, 3, 4}},
        {.dtype = AG_FLOAT,
         .n1 = 2,
         .d = 8,
         .q_ends = {4, 9},
         .pre = 9,
         .next = 9,
         .mask_shape = TEST_MASK_SS,
         .mask_bytes = TEST_MASK_ONES},
        {.dtype = AG_BF16, .n1 = 2, .d = 8, .count = 2, .q_ends = {5, 5}, .kv_ends = {0, 7}},
        {.dtype = AG_FLOAT, .n1 = 2, .d = 8, .q_ends = {5, 9}}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        struct attention_call call;
        attention_call_create(&call, &cases[i]);
        attention_call_store_statistics(&call, AG_SOFTMAX_TND);
        if (i == 3) {
            test_tensor_fill_value(&call.q, NAN);
        }
        assert_int_equal(choose(&call), AG_SOFTMAX_CANN);
        attention_call_destroy(&call);
    }
}

/* What is found is what is used: gradients from statistics in [T, N] order, nothing forced. */
static void the_found_order_is_used(void **state)
{
    static const enum ag_softmax_layout layouts[] = {AG_SOFTMAX_CANN, AG_SOFTMAX_TND, AG_SOFTMAX_NTD};
    (void)state;
    for (int k = 0; k < 3; ++k) {
        const struct attention_case c = {
            .dtype = AG_BF16, .n1 = 2, .d = 16, .q_ends = {1, 3, 40}, .kv_ends = {4, 20, 70}, .layout = layouts[k]};
        struct attention_call call;
        attention_call_create(&call, &c);
        attention_call_verify_each_isa(&call);
        attention_call_destroy(&call);
    }
}

/* Lengths 1 and 2, two heads: a reader of [T, N] swaps entries 3 and 4, and the gradients tell. */
static void swapped_entries_are_noticed(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT, .n1 = 2, .d = 8, .q_ends = {1, 3}, .kv_ends = {9, 30}};
    struct attention_call right, swapped;
    (void)state;
    force_layout("cann");
    attention_call_create(&right, &c);
    attention_call_create(&swapped, &c);
    attention_call_verify(&right);
    attention_call_store_statistics(&swapped, AG_SOFTMAX_TND);
    attention_call_run(&swapped);
    test_assert_same_bits("row 0 of dq", &right.dq, &right.dq);
    for (int64_t at = 0; at < 16; ++at) { /* the first sequence has one row: the orders agree */
        assert_true(test_tensor_get(&right.dq, at) == test_tensor_get(&swapped.dq, at));
    }
    double difference = 0;
    for (int64_t at = 16; at < test_tensor_elems(&right.dq); ++at) {
        difference += fabs(test_tensor_get(&right.dq, at) - test_tensor_get(&swapped.dq, at));
    }
    assert_true(difference > 1e-3);
    attention_call_destroy(&right);
    attention_call_destroy(&swapped);
    force_layout("auto");
}

/* --- the checked mode ------------------------------------------------------------------------------------ */

/* What `call` writes to stderr while it runs. */
static void run_and_read_stderr(struct attention_call *call, char *text, size_t bytes)
{
    const struct test_stderr kept = test_stderr_begin();
    attention_call_run(call);
    test_stderr_end(kept, text, bytes);
}

static void bad_statistics_are_reported(void **state)
{
    const struct attention_case blind = {.dtype = AG_FLOAT,
                                         .n1 = 2,
                                         .d = 8,
                                         .q_ends = {4, 9},
                                         .pre = 9,
                                         .next = 9,
                                         .mask_shape = TEST_MASK_SS,
                                         .mask_bytes = TEST_MASK_HOLES};
    const struct attention_case c = {.dtype = AG_FLOAT, .n1 = 2, .d = 8, .q_ends = {1, 3}, .kv_ends = {9, 30}};
    struct attention_call call;
    char text[4096];
    (void)state;
    assert_int_equal(setenv("ACLGRAD_DEBUG", "1", 1), 0);
    assert_int_equal(aclrtSetDevice(0), 0); /* the checked mode wants a context */
    force_layout("cann");
    attention_call_create(&call, &c);
    run_and_read_stderr(&call, text, sizeof text);
    assert_null(strstr(text, "inconsistent"));
    attention_call_store_statistics(&call, AG_SOFTMAX_TND);
    run_and_read_stderr(&call, text, sizeof text);
    /* blocks of sequence 1: head 0 rows 0, 1, then head 1; the second entry is row 0 of head 1 */
    assert_non_null(strstr(text, "aclgrad,debug,aclnnFlashAttentionUnpaddingScoreGradV3,"));
    assert_non_null(strstr(text, "softmaxMax/softmaxSum inconsistent, first bad (b,n,s) = (1,0,1)"));
    assert_non_null(strstr(text, "the order that fits all: tnd"));
    for (int64_t at = 0; at < 6; ++at) { /* as if merged over more keys */
        call.doubles.sum[at] *= 1.5;
    }
    attention_call_store_statistics(&call, AG_SOFTMAX_TND);
    run_and_read_stderr(&call, text, sizeof text);
    assert_non_null(strstr(text, "the order that fits all: none"));
    attention_call_destroy(&call);
    attention_call_create(&call, &blind);
    for (int k = 0; k < 4; ++k) { /* row 2 of each sequence and head sees nothing: its statistics say nothing */
        static const int64_t rows[] = {2, 6, 10, 15};
        test_tensor_set(&call.max, rows[k] * 8, NAN);
    }
    run_and_read_stderr(&call, text, sizeof text);
    assert_null(strstr(text, "inconsistent"));
    unsetenv("ACLGRAD_DEBUG");
    force_layout("auto");
    assert_int_equal(aclrtResetDevice(0), 0);
    attention_call_destroy(&call);
}

/* The reading used is told: in the plan line when it is settled, in the run line when data decide. */
static void the_reading_is_told(void **state)
{
    struct attention_case c = {.dtype = AG_FLOAT, .n1 = 2, .d = 8, .q_ends = {20, 50}, .layout = AG_SOFTMAX_TND};
    struct attention_call call;
    char text[8192];
    (void)state;
    assert_int_equal(setenv("ACLGRAD_VERBOSE", "plan,run", 1), 0);
    force_layout("auto");
    attention_call_create(&call, &c);
    run_and_read_stderr(&call, text, sizeof text);
    assert_non_null(strstr(text, "statistics=auto"));
    assert_non_null(strstr(text, "statistics=tnd"));
    force_layout("ntd");
    run_and_read_stderr(&call, text, sizeof text);
    assert_non_null(strstr(text, "statistics=ntd"));
    unsetenv("ACLGRAD_VERBOSE");
    force_layout("auto");
    attention_call_destroy(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_three_orders),
        cmocka_unit_test(offsets_follow_the_strides),
        cmocka_unit_test(forced_orders_are_obeyed),
        cmocka_unit_test(the_other_declared_shape),
        cmocka_unit_test(the_order_is_found),
        cmocka_unit_test(merged_statistics_are_in_blocks),
        cmocka_unit_test(close_calls),
        cmocka_unit_test(nothing_to_tell_apart),
        cmocka_unit_test(the_found_order_is_used),
        cmocka_unit_test(swapped_entries_are_noticed),
        cmocka_unit_test(bad_statistics_are_reported),
        cmocka_unit_test(the_reading_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
