/* labels: smoke ci */
/* 16-bit conversions: every value there and back, and rounding at every boundary between two neighbours. */
#include "support/support.h"

#include <math.h>

#include "base/half.h"

static double exact_f16(unsigned bits)
{
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    const double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits >> 15 ? -magnitude : magnitude;
}

static void f16_widens_exactly(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const float wide = ag_f16_to_f32((ag_f16)bits);
        if ((bits & 0x7fff) > 0x7c00) {
            assert_true(isnan(wide));
        } else if ((bits & 0x7fff) == 0x7c00) {
            assert_true(isinf(wide) && !signbit(wide) == !(bits >> 15));
        } else {
            assert_true(wide == exact_f16(bits) && !signbit(wide) == !(bits >> 15));
        }
    }
}

/* Between two neighbours: below the middle to the lower, above it to the upper, the middle to the even one. */
static void check_boundaries(float (*widen)(uint16_t), uint16_t (*narrow)(float), unsigned infinity)
{
    for (unsigned bits = 0; bits < infinity; ++bits) {
        const float low = widen((uint16_t)bits);
        const double high =
            bits + 1 == infinity ? 2.0 * low - widen((uint16_t)(bits - 1)) : widen((uint16_t)(bits + 1));
        const float middle = (float)(((double)low + high) / 2);
        assert_int_equal(narrow(low), bits);
        assert_int_equal(narrow(middle), bits & 1 ? bits + 1 : bits);
        assert_int_equal(narrow(nextafterf(middle, 0.0f)), bits);
        assert_int_equal(narrow(nextafterf(middle, INFINITY)), bits + 1);
        assert_int_equal(narrow(-low), bits | 0x8000);
    }
    assert_int_equal(narrow(INFINITY), infinity);
    assert_true(isnan(widen(narrow(NAN))));
    assert_true(isnan(widen(narrow(ag_float_of_bits(0x7f800001))))); /* the smallest payload stays a NaN */
}

static float widen_f16(uint16_t bits)
{
    return ag_f16_to_f32(bits);
}

static uint16_t narrow_f16(float value)
{
    return ag_f32_to_f16(value);
}

static float widen_bf16(uint16_t bits)
{
    return ag_bf16_to_f32(bits);
}

static uint16_t narrow_bf16(float value)
{
    return ag_f32_to_bf16(value);
}

static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    check_boundaries(widen_f16, narrow_f16, 0x7c00);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    check_boundaries(widen_bf16, narrow_bf16, 0x7f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_widens_exactly),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests_name("half", tests, NULL, NULL);
}
