/* labels: smoke ci emulated */
/* The exponential of every kernel table against exp() in double, over its whole range and at its ends. */
#include "support/support.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kernel/kernel.h"

#define RELATIVE_ERROR 2.5e-7

/* Half the distance of subnormals: what rounding the last product may add there. */
#define HALF_SUBNORMAL 0x1p-150

static void check_value(enum ag_isa isa, float x, float got)
{
    const double want = exp((double)x);
    const double bound = RELATIVE_ERROR * want + (want < 0x1p-126 ? HALF_SUBNORMAL : 0);
    if (want > FLT_MAX * (1.0 - RELATIVE_ERROR)) {
        if (!(got >= FLT_MAX * (1.0 - 2 * RELATIVE_ERROR))) { /* largest numbers or infinity */
            fail_msg("%s: exp(%.9g) = %.9g", ag_isa_name(isa), x, got);
        }
    } else if (!(fabs(got - want) <= bound)) {
        fail_msg("%s: exp(%.9g) = %.9g, want %.17g", ag_isa_name(isa), x, got, want);
    }
}

/* Every 499th float of one sign, to behind the end of the range. */
static void sweep(enum ag_isa isa, uint32_t sign)
{
    enum { STEP = 499, COUNT = 1024 };
    float from[COUNT], to[COUNT];
    for (uint32_t bits = 0; bits < 0x42d40000u;) { /* 106 */
        for (int i = 0; i < COUNT; ++i, bits += STEP) {
            from[i] = ag_float_of_bits(sign | bits);
        }
        ag_kernels_for(isa)->exp(to, from, COUNT);
        for (int i = 0; i < COUNT; ++i) {
            check_value(isa, from[i], to[i]);
        }
    }
}

static void error_over_the_whole_range(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        sweep(isa, 0);
        sweep(isa, 0x80000000u);
    }
}

struct special_row {
    float x, want;
};

static const struct special_row special_rows[] = {
    {0.0f, 1.0f},     {-0.0f, 1.0f},     {INFINITY, INFINITY}, {-INFINITY, 0.0f},   {FLT_MAX, INFINITY},
    {-FLT_MAX, 0.0f}, {89.0f, INFINITY}, {89.5f, INFINITY},    {1000.0f, INFINITY}, {-104.0f, 0.0f},
    {-104.5f, 0.0f},  {-1000.0f, 0.0f},  {-3e9f, 0.0f},        {3e9f, INFINITY},    {1e-40f, 1.0f},
    {-1e-40f, 1.0f},  {NAN, NAN},
};

enum { SPECIALS = sizeof special_rows / sizeof *special_rows };

/* Every special value at every position of a vector and of its tail, ordinary values around it. */
static void special_values_at_every_position(void **state)
{
    (void)state;
    enum { MOST = 35 }; /* two vectors of the widest and a tail */
    TEST_EACH_ISA (isa) {
        for (int k = 0; k < SPECIALS; ++k) {
            for (int at = 0; at < MOST; ++at) {
                float values[MOST];
                for (int i = 0; i < MOST; ++i) {
                    values[i] = i == at ? special_rows[k].x : (float)i * 0.25f - 4.0f;
                }
                const float x = values[at];
                ag_kernels_for(isa)->exp(values, values, MOST); /* in place */
                const float got = values[at], want = special_rows[k].want;
                if (!(got == want || (isnan(got) && isnan(want))) || signbit(got)) {
                    fail_msg("%s: exp(%.9g) = %.9g at position %d, want %.9g", ag_isa_name(isa), x, got, at, want);
                }
                for (int i = 0; i < MOST; ++i) {
                    if (i != at) {
                        check_value(isa, (float)i * 0.25f - 4.0f, values[i]);
                    }
                }
            }
        }
    }
}

static void nothing_outside_is_touched(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int64_t count = 0; count <= 35; ++count) {
            struct test_buffer from = test_buffer_create((size_t)count * sizeof(float), sizeof(float));
            struct test_buffer to = test_buffer_create((size_t)count * sizeof(float), sizeof(float));
            for (int64_t i = 0; i < count; ++i) {
                ((float *)from.data)[i] = (float)i;
            }
            ag_kernels_for(isa)->exp(to.data, from.data, count);
            for (int64_t i = 0; i < count; ++i) {
                check_value(isa, (float)i, ((float *)to.data)[i]);
            }
            test_buffer_destroy(&from);
            test_buffer_destroy(&to);
        }
    }
}

/* A value's bits do not depend on where it stands: a tile's width must not change results. */
static void position_does_not_change_bits(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    float from[COUNT], whole[COUNT];
    struct test_random random = test_random_seed(1);
    for (int i = 0; i < COUNT; ++i) {
        from[i] = (float)(test_random_normal(&random) * 20.0);
    }
    TEST_EACH_ISA (isa) {
        ag_kernels_for(isa)->exp(whole, from, COUNT);
        for (int i = 0; i < COUNT; ++i) {
            float alone;
            ag_kernels_for(isa)->exp(&alone, from + i, 1);
            assert_memory_equal(&alone, &whole[i], sizeof alone);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_over_the_whole_range),
        cmocka_unit_test(special_values_at_every_position),
        cmocka_unit_test(nothing_outside_is_touched),
        cmocka_unit_test(position_does_not_change_bits),
    };
    return cmocka_run_group_tests_name("exp kernel", tests, NULL, NULL);
}
