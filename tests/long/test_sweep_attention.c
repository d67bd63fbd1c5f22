/* labels: long short */
/* Random problems of aclnnFlashAttentionUnpaddingScoreGradV3 against the definition, in every kernel table: modes and
 * windows, masks of every shape, ropes, head groups, odd dims, lengths with empty sequences, views, statistics in each
 * order. */
#define _DEFAULT_SOURCE /* setenv */
#include "support/attention_problem.h"
#include "support/sweep.h"

#include <stdlib.h>

static const int64_t dims[] = {1, 2, 7, 8, 15, 16, 17, 24, 32, 33, 40, 64, 65, 72, 100, 128, 192};

static void random_lengths(struct attention_case *c, struct test_random *random)
{
    const int64_t most = test_random_once_in(random, 12) ? 200 : 40;
    int64_t q = 0, kv = 0;
    c->count = test_random_between(random, 1, test_random_once_in(random, 4) ? 9 : 3);
    for (int64_t b = 0; b < c->count; ++b) {
        q += test_random_of(random, 4, (const int64_t[]){0, 1, test_random_below(random, most), most});
        kv += test_random_of(random, 4, (const int64_t[]){0, 1, test_random_below(random, most), most});
        c->q_ends[b] = q;
        c->kv_ends[b] = kv;
    }
    c->q_ends[c->count - 1] += q == 0; /* lists of zeros mean something else to a case */
    c->kv_ends[c->count - 1] += kv == 0;
    if (test_random_once_in(random, 10)) { /* a tail of zeros: sequences that are not there */
        c->count += 2;
    }
    c->q_slack = test_random_once_in(random, 4) ? test_random_below(random, 4) : 0;
    c->kv_slack = test_random_once_in(random, 4) ? test_random_below(random, 4) : 0;
}

/* The shortest lists' lengths among sequences that have both queries and keys: no token rule is stricter. */
static void shortest(const struct attention_case *c, int64_t *q, int64_t *kv)
{
    *q = *kv = 1000;
    for (int64_t b = 0; b < c->count; ++b) {
        const int64_t sq = attention_case_rows(c, c->q_ends, b).count;
        const int64_t skv = attention_case_rows(c, c->kv_ends, b).count;
        if (sq > 0 && skv > 0) {
            *q = sq < *q ? sq : *q;
            *kv = skv < *kv ? skv : *kv;
        }
    }
}

static void random_window(struct attention_case *c, struct test_random *random)
{
    int64_t q, kv;
    shortest(c, &q, &kv);
    const int64_t most_pre = c->mode == 0 ? kv : q, most_next = c->mode == 0 ? q : kv;
    c->pre = test_random_between(random, -most_pre, 30);
    c->pre = c->pre + most_next < 1 ? 1 - c->pre : c->pre;
    c->next = test_random_between(random, -most_next, 30);
    c->next = c->pre + c->next < 1 ? 1 - c->pre : c->next;
    if (test_random_once_in(random, 6)) {
        c->pre = test_random_of(random, 2, (const int64_t[]){INT64_MAX, INT32_MAX});
    }
    if (test_random_once_in(random, 6)) {
        c->next = test_random_of(random, 2, (const int64_t[]){INT64_MAX, INT32_MAX});
    }
}

static void random_mask(struct attention_case *c, struct test_random *random)
{
    c->mode = test_random_of(random, 8, (const int64_t[]){0, 1, 2, 3, 4, 6, 7, 8});
    if (c->mode > 1) {
        c->mask_shape = TEST_MASK_COMPRESSED;
    } else {
        c->mask_shape = (enum test_mask_shape)test_random_of(
            random, 5,
            (const int64_t[]){TEST_MASK_NONE, TEST_MASK_SS, TEST_MASK_11SS, TEST_MASK_B1SS, TEST_MASK_BNSS});
        c->mask_bytes = (enum test_mask_bytes)test_random_below(random, 4);
        c->mask_extra = test_random_once_in(random, 2) ? test_random_below(random, 5) : 0;
    }
    random_window(c, random);
    for (int64_t b = 0; b < c->count; ++b) {
        c->prefix[b] = test_random_between(random, 0, attention_case_rows(c, c->kv_ends, b).count);
    }
}

static void random_rope(struct attention_case *c, struct test_random *random, bool is_extended)
{
    if (c->mode == 6 || (!is_extended && c->mask_shape == TEST_MASK_NONE)) {
        return;
    }
    if (is_extended) {
        c->dr = test_random_between(random, 1, c->d);
        return;
    }
    c->dtype = AG_BF16;
    c->d = (c->d + 7) / 8 * 8;
    c->dr = 8 * test_random_between(random, 1, c->d / 8);
}

static struct attention_case random_case(struct test_random *random, uint64_t seed, bool is_extended)
{
    struct attention_case c = {.seed = seed};
    c.dtype = (int)test_random_of(random, 3, (const int64_t[]){AG_FLOAT, AG_FLOAT16, AG_BF16});
    c.n2 = test_random_between(random, 1, 3);
    c.n1 = c.n2 * test_random_of(random, 5, (const int64_t[]){1, 1, 2, 3, 5});
    c.d = test_random_of(random, sizeof dims / sizeof *dims, dims);
    random_lengths(&c, random);
    random_mask(&c, random);
    if (test_random_once_in(random, 3)) {
        random_rope(&c, random, is_extended);
    }
    c.dv = test_random_once_in(random, 3) ? test_random_between(random, 1, c.d) : c.d;
    c.deviation = test_random_once_in(random, 5) ? 4 : 1;
    c.scale = test_random_once_in(random, 8) ? -0.3 : 0;
    c.layout = (enum ag_softmax_layout)test_random_between(random, AG_SOFTMAX_CANN, AG_SOFTMAX_NTD);
    c.views = (enum test_views)test_random_below(random, 4);
    c.has_sink = test_random_once_in(random, 4);
    return c;
}

/* The order of the statistics is told, or must be found. */
static void configure(enum ag_softmax_layout layout, bool is_told, bool is_extended)
{
    static const char *const names[] = {"auto", "cann", "tnd", "ntd"};
    setenv("ACLGRAD_SOFTMAX_LAYOUT", names[is_told ? layout : AG_SOFTMAX_AUTO], 1);
    setenv("ACLGRAD_LIMITS", is_extended ? "extended" : "documented", 1);
    ag_config_reload();
}

/* The forward of the same problem: version 5 takes them all. */
static void check_forward(struct attention_call *call, struct test_random *random)
{
    struct attention_forward_ref ref = attention_forward_call_ref(call);
    call->c.version = 5;
    TEST_EACH_ISA (isa) {
        ag_config_set_isa(isa);
        test_random_threads(random);
        attention_forward_run(call);
        attention_forward_compare_with(call, &ref);
    }
    attention_forward_call_ref_free(&ref);
}

static void check_problem(struct test_random *random, uint64_t seed)
{
    struct attention_call call;
    const bool is_extended = test_random_once_in(random, 3);
    const struct attention_case c = random_case(random, seed, is_extended);
    configure(c.layout, c.layout != AG_SOFTMAX_CANN || test_random_once_in(random, 2), is_extended);
    attention_call_create(&call, &c);
    struct attention_ref ref = attention_call_ref(&call, c.layout);
    TEST_EACH_ISA (isa) {
        ag_config_set_isa(isa);
        test_random_threads(random);
        attention_call_run(&call);
        attention_call_compare_with(&call, &ref);
    }
    attention_call_ref_free(&ref);
    check_forward(&call, random);
    attention_call_destroy(&call);
}

static void random_problems(void **state)
{
    (void)state;
    test_sweep("test_sweep_attention", 2000, check_problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(random_problems, test_sweep_teardown)};
    return cmocka_run_group_tests_name("sweep of attention", tests, NULL, NULL);
}
