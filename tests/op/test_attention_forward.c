/* labels: smoke ci */
/* The forward operator: every element against the definition in every table, the definition against the independent
 * forward pass of the tests, and what the gradient reads of it. */
#include <float.h>
#include <math.h>

#include "support/attention_problem.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int dtypes[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};

#define EACH_DTYPE(t) for (size_t t = 0; t < COUNT(dtypes); ++t)

/* Two sequences with more keys, one with more queries, one without queries, one without keys. */
#define PACK  .count = 6, .q_ends = {3, 3, 8, 13, 15, 18}, .kv_ends = {5, 7, 7, 10, 15, 18}
#define SMALL .n1 = 4, .n2 = 2, .d = 16, .dv = 8, PACK

static const struct attention_case modes[] = {
    {SMALL},
    {SMALL, .mode = 0, .mask_shape = TEST_MASK_SS, .pre = 2, .next = 1},
    {SMALL, .mode = 0, .mask_shape = TEST_MASK_BNSS, .mask_bytes = TEST_MASK_RANDOM, .pre = 9, .next = 2},
    {SMALL, .mode = 0, .mask_shape = TEST_MASK_11SS, .pre = -1, .next = 3},
    {SMALL, .mode = 1, .mask_shape = TEST_MASK_B1SS, .mask_bytes = TEST_MASK_RANDOM},
    {SMALL, .mode = 1, .mask_shape = TEST_MASK_SS, .mask_bytes = TEST_MASK_HOLES, .mask_extra = 2},
    {SMALL, .mode = 2, .mask_shape = TEST_MASK_COMPRESSED},
    {SMALL, .mode = 3, .mask_shape = TEST_MASK_COMPRESSED},
    {SMALL, .mode = 4, .mask_shape = TEST_MASK_COMPRESSED, .pre = 2, .next = 1},
    {SMALL, .mode = 4, .mask_shape = TEST_MASK_COMPRESSED, .pre = 3, .next = -1},
    {SMALL, .mode = 6, .mask_shape = TEST_MASK_COMPRESSED, .prefix = {2, 1, 0, 3, 1, 1}},
    {SMALL, .mode = 7, .mask_shape = TEST_MASK_COMPRESSED, .pre = 2, .next = 0},
    {SMALL, .mode = 8, .mask_shape = TEST_MASK_COMPRESSED, .pre = 1, .next = 1},
};

/* Several tiles of keys, several blocks of rows, several items; odd dims. */
#define LARGE .n1 = 3, .n2 = 1, .d = 33, .dv = 21, .q_ends = {7, 620, 623}, .kv_ends = {150, 480, 481}

static const struct attention_case large[] = {
    {LARGE},
    {LARGE, .mode = 2, .mask_shape = TEST_MASK_COMPRESSED},
    {LARGE, .mode = 3, .mask_shape = TEST_MASK_COMPRESSED},
    {LARGE, .mode = 4, .mask_shape = TEST_MASK_COMPRESSED, .pre = 100, .next = -1},
    {LARGE, .mode = 6, .mask_shape = TEST_MASK_COMPRESSED, .prefix = {5, 129, 1}},
    {LARGE, .mode = 1, .mask_shape = TEST_MASK_SS, .mask_bytes = TEST_MASK_RANDOM},
    {LARGE, .mode = 0, .pre = 70, .next = 50, .mask_shape = TEST_MASK_B1SS, .mask_bytes = TEST_MASK_HOLES},
};

/* --- the definition against the independent forward pass ------------------------------------------------- */

static void near(const char *what, double got, double want, const struct attention_call *call)
{
    if (!(fabs(got - want) <= 1e-11 * (1 + fabs(want)))) {
        fail_msg("%s: definition %.15g, forward pass %.15g\n%s", what, got, want, attention_case_text(&call->c));
    }
}

static void compare_definitions(struct attention_call *call)
{
    const struct attention_case *c = &call->c;
    struct attention_forward_ref ref = attention_forward_call_ref(call);
    for (int64_t b = 0; b < c->count; ++b) {
        const struct attention_rows rows = attention_case_rows(c, c->q_ends, b);
        for (int64_t n = 0; n < c->n1; ++n) {
            for (int64_t i = 0; i < rows.count; ++i) {
                const int64_t from = (rows.begin + i) * c->n1 + n;
                const int64_t cann = rows.begin * c->n1 + n * rows.count + i, to = c->is_as_input ? from : cann;
                near("max", ref.max[to], call->doubles.max[from], call);
                near("sum", ref.sum[to], call->doubles.sum[from], call);
                for (int64_t e = 0; e < c->dv; ++e) {
                    near("out", ref.attention[from * c->dv + e], call->doubles.out[from * c->dv + e], call);
                }
            }
        }
    }
    attention_forward_call_ref_free(&ref);
}

/* --- every element --------------------------------------------------------------------------------------- */

static void check_case(struct attention_case c)
{
    struct attention_call call;
    attention_call_create(&call, &c);
    if (!c.invent_statistics) {
        compare_definitions(&call);
    }
    attention_forward_verify_each_isa(&call);
    attention_call_destroy(&call);
}

static void check_all(const struct attention_case *cases, size_t count, int64_t rope)
{
    for (size_t i = 0; i < count; ++i) {
        EACH_DTYPE(t)
        {
            struct attention_case c = cases[i];
            c.dtype = dtypes[t];
            c.seed = i;
            c.dr = c.mode == 6 ? 0 : rope;
            c.invent_statistics = c.q_ends[1] > 100 && c.dtype != AG_FLOAT; /* their forward pass takes its time */
            check_case(c);
        }
    }
}

static void every_mode(void **state)
{
    (void)state;
    check_all(modes, COUNT(modes), 0);
    check_all(modes, COUNT(modes), 8);
}

static void many_tiles(void **state)
{
    (void)state;
    check_all(large, COUNT(large), 0);
    check_all(large, COUNT(large), 11);
}

static void every_version(void **state)
{
    (void)state;
    EACH_DTYPE(t)
    {
        for (int version = 4; version <= 5; ++version) {
            for (int as_input = 0; as_input <= 1; ++as_input) {
                check_case((struct attention_case){SMALL, .dtype = dtypes[t], .version = version,
                                                   .is_as_input = as_input, .has_sink = version == 5, .mode = 3,
                                                   .mask_shape = TEST_MASK_COMPRESSED});
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode),
        cmocka_unit_test(many_tiles),
        cmocka_unit_test(every_version),
    };
    test_configure(1, ag_config_get().isa, AG_LIMITS_EXTENDED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
