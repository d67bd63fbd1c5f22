/* The definition and the operator against finite differences of an independent forward pass: for every sparse mode the
 * gradient of L = sum(dy * out) by each single element of query, key, value and ropes. */
#include <math.h>
#include <stdlib.h>

#include "support/attention_problem.h"

struct objective {
    struct attention_call *call;
    double *dy; /* [T1, N1, Dv] */
};

static double evaluate(const struct objective *f)
{
    const struct attention_call *call = f->call;
    const int64_t sum_q = attention_case_last_end(call->c.q_ends, call->c.count);
    double sum = 0;
    attention_forward(call, &f->call->doubles);
    for (int64_t at = 0; at < sum_q * call->c.n1 * call->c.dv; ++at) {
        sum += f->dy[at] * call->doubles.out[at];
    }
    return sum;
}

/* grad[i] is the central difference of L by x[i], for all i, to what the fourth-order formula leaves. */
static void check_gradient(const struct objective *f, const char *name, double *x, const double *grad, int64_t count)
{
    const double h = 1e-3;
    for (int64_t i = 0; i < count; ++i) {
        const double here = x[i];
        double at[4];
        for (int k = 0; k < 4; ++k) {
            x[i] = here + h * (const double[]){-2, -1, 1, 2}[k];
            at[k] = evaluate(f);
        }
        x[i] = here;
        const double slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h);
        if (!(fabs(slope - grad[i]) <= 3e-6 * (1 + fabs(slope)))) {
            fail_msg("%s[%d]: definition %.9g, difference quotient %.9g\n%s", name, (int)i, grad[i], slope,
                     attention_case_text(&f->call->c));
        }
    }
}

static void check_case(const struct attention_case *c)
{
    struct attention_call call;
    attention_call_create(&call, c);
    struct attention_ref ref = attention_call_ref(&call, call.c.layout);
    const struct objective f = {&call, test_tensor_to_doubles(&call.dy)};
    const int64_t q = attention_case_last_end(call.c.q_ends, call.c.count) * call.c.n1;
    const int64_t k = attention_case_last_end(call.c.kv_ends, call.c.count) * call.c.n2;
    check_gradient(&f, "dq", call.doubles.q, ref.dq, q * call.c.d);
    check_gradient(&f, "dk", call.doubles.k, ref.dk, k * call.c.d);
    check_gradient(&f, "dv", call.doubles.v, ref.dv, k * call.c.dv);
    check_gradient(&f, "dqRope", call.doubles.qr, ref.dq_rope, q * call.c.dr);
    check_gradient(&f, "dkRope", call.doubles.kr, ref.dk_rope, k * call.c.dr);
    check_gradient(&f, "dsink", call.doubles.sink, ref.dsink, call.c.has_sink ? call.c.n1 : 0);
    attention_call_verify(&call);
    attention_call_ref_free(&ref);
    free(f.dy);
    attention_call_destroy(&call);
}

/* Two sequences with more keys, one with more queries, one empty on each side. */
#define PACK  .q_ends = {3, 3, 8, 13, 15}, .kv_ends = {5, 7, 7, 10, 15}
#define SMALL .dtype = AG_FLOAT, .n1 = 4, .n2 = 2, .d = 6, .dv = 5, PACK

static void every_mode(void **state)
{
    static const struct attention_case cases[] = {
        {SMALL, .mask_shape = TEST_MASK_NONE},
        {SMALL, .mode = 0, .mask_shape = TEST_MASK_SS, .pre = 2, .next = 1},
        {SMALL, .mode = 0, .mask_shape = TEST_MASK_BNSS, .mask_bytes = TEST_MASK_RANDOM, .pre = 9, .next = 2},
        {SMALL, .mode = 0, .mask_shape = TEST_MASK_11SS, .pre = -1, .next = 3},
        {SMALL, .mode = 1, .mask_shape = TEST_MASK_B1SS, .mask_bytes = TEST_MASK_RANDOM},
        {SMALL, .mode = 1, .mask_shape = TEST_MASK_SS, .mask_bytes = TEST_MASK_HOLES, .mask_extra = 2},
        {SMALL, .mode = 2, .mask_shape = TEST_MASK_COMPRESSED},
        {SMALL, .mode = 3, .mask_shape = TEST_MASK_COMPRESSED},
        {SMALL, .mode = 4, .mask_shape = TEST_MASK_COMPRESSED, .pre = 2, .next = 1},
        {SMALL, .mode = 4, .mask_shape = TEST_MASK_COMPRESSED, .pre = 3, .next = -1},
        {SMALL, .mode = 6, .mask_shape = TEST_MASK_COMPRESSED, .prefix = {2, 1, 0, 3, 1}},
        {SMALL, .mode = 7, .mask_shape = TEST_MASK_COMPRESSED, .pre = 2, .next = 0},
        {SMALL, .mode = 8, .mask_shape = TEST_MASK_COMPRESSED, .pre = 1, .next = 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        struct attention_case c = cases[i];
        check_case(&c);
        c.has_sink = true;
        check_case(&c);
    }
}

static void rope_in_every_mode(void **state)
{
    (void)state;
    test_configure(1, ag_config_get().isa, AG_LIMITS_EXTENDED); /* rope in FLOAT */
    for (int64_t mode = 0; mode <= 8; ++mode) {
        const struct attention_case c = {SMALL,
                                         .dr = 3,
                                         .mode = mode,
                                         .pre = 2,
                                         .next = 1,
                                         .seed = 7,
                                         .mask_shape = mode <= 1 ? TEST_MASK_SS : TEST_MASK_COMPRESSED};
        if (mode != 5 && mode != 6) {
            check_case(&c);
        }
    }
}

/* The scale is used as given: large, negative, zero. */
static void scales(void **state)
{
    static const double values[] = {1.5, -0.7, 1e-30};
    (void)state;
    for (int i = 0; i < 3; ++i) {
        const struct attention_case c = {SMALL, .mode = 3, .mask_shape = TEST_MASK_COMPRESSED, .scale = values[i]};
        check_case(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode),
        cmocka_unit_test(rope_in_every_mode),
        cmocka_unit_test(scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
