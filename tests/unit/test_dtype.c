/* labels: smoke ci */
/* Element types: sizes and names by number, and one element read, written and rounded. */
#include "support/support.h"

#include <math.h>

#include "base/elem.h"

struct dtype_row {
    int dtype;
    size_t bytes;
    const char *name;
};

static const struct dtype_row dtype_rows[] = {
    {ACL_FLOAT, 4, "FLOAT"},
    {ACL_FLOAT16, 2, "FLOAT16"},
    {ACL_INT8, 1, "INT8"},
    {ACL_INT32, 4, "INT32"},
    {ACL_UINT8, 1, "UINT8"},
    {ACL_INT16, 2, "INT16"},
    {ACL_UINT16, 2, "UINT16"},
    {ACL_UINT32, 4, "UINT32"},
    {ACL_INT64, 8, "INT64"},
    {ACL_UINT64, 8, "UINT64"},
    {ACL_DOUBLE, 8, "DOUBLE"},
    {ACL_BOOL, 1, "BOOL"},
    {ACL_STRING, 0, "STRING"},
    {ACL_COMPLEX64, 8, "COMPLEX64"},
    {ACL_COMPLEX128, 16, "COMPLEX128"},
    {ACL_BF16, 2, "BF16"},
    {ACL_INT4, 0, "INT4"},
    {-1, 0, "unknown"},
    {5, 0, "unknown"},
    {999, 0, "unknown"},
};

static void sizes_and_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof dtype_rows / sizeof *dtype_rows; ++i) {
        assert_int_equal(ag_dtype_bytes(dtype_rows[i].dtype), dtype_rows[i].bytes);
        assert_string_equal(ag_dtype_name(dtype_rows[i].dtype), dtype_rows[i].name);
    }
}

static void three_types_are_gradients(void **state)
{
    (void)state;
    for (int dtype = -2; dtype < 64; ++dtype) {
        const bool want = dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16;
        assert_int_equal(ag_dtype_is_float(dtype), want);
    }
    assert_int_equal(ag_elem_of(ACL_FLOAT), AG_ELEM_F32);
    assert_int_equal(ag_elem_of(ACL_FLOAT16), AG_ELEM_F16);
    assert_int_equal(ag_elem_of(ACL_BF16), AG_ELEM_BF16);
    assert_int_equal(ag_elem_bytes(AG_ELEM_F32), 4);
    assert_int_equal(ag_elem_bytes(AG_ELEM_F16), 2);
    assert_int_equal(ag_elem_bytes(AG_ELEM_BF16), 2);
}

static void stored_elements_load_as_rounded(void **state)
{
    (void)state;
    static const float values[] = {0, 1, -1.0f / 3, 65504, 1e-7f, 3.4e38f, 1e-40f, INFINITY};
    for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
        for (size_t i = 0; i < sizeof values / sizeof *values; ++i) {
            uint32_t array[3] = {0xa5a5a5a5u, 0xa5a5a5a5u, 0xa5a5a5a5u};
            ag_elem_store(elem, array, 1, values[i]);
            assert_true(ag_elem_load(elem, array, 1) == ag_elem_round(elem, values[i]));
            assert_int_equal(array[2], 0xa5a5a5a5u);
            assert_int_equal(array[0] & 0xffff, 0xa5a5);
        }
    }
    assert_true(ag_elem_round(AG_ELEM_F32, 1.0f / 3) == 1.0f / 3);
    assert_true(ag_elem_round(AG_ELEM_F16, 1.0f / 3) == 0.333251953125f);
    assert_true(ag_elem_round(AG_ELEM_BF16, 1.0f / 3) == 0.333984375f);
}

static void half_an_ulp(void **state)
{
    (void)state;
    static const int bits[AG_ELEM_COUNT] = {23, 10, 7};
    static const int lowest[AG_ELEM_COUNT] = {-126, -14, -126};
    for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
        for (int exponent = lowest[elem]; exponent < 15; ++exponent) {
            const double ulp = ldexp(1, exponent - bits[elem]);
            assert_true(ag_elem_half_ulp(elem, ldexp(1, exponent)) == ulp / 2);
            assert_true(ag_elem_half_ulp(elem, -ldexp(1.999, exponent)) == ulp / 2);
        }
        const double smallest = ldexp(1, lowest[elem] - bits[elem]);
        assert_true(ag_elem_half_ulp(elem, 0) == smallest / 2);
        assert_true(ag_elem_half_ulp(elem, smallest) == smallest / 2);
        assert_true(ag_elem_half_ulp(elem, ldexp(1, lowest[elem] - 1)) == smallest / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_names),
        cmocka_unit_test(three_types_are_gradients),
        cmocka_unit_test(stored_elements_load_as_rounded),
        cmocka_unit_test(half_an_ulp),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}
