/* labels: smoke ci */
/* compat/securec.h: results, codes, and what is cleared. */
#include "support/support.h"

#include <string.h>

#include "compat/securec.h"

static void memory_functions(void **state)
{
    (void)state;
    char to[8] = "0123456", from[8] = "abcdefg";
    assert_int_equal(memcpy_s(to, sizeof to, from, 3), EOK);
    assert_string_equal(to, "abc3456");
    assert_int_equal(memcpy_s(to, sizeof to, to, 8), EOK); /* onto itself */
    assert_int_equal(memcpy_s(to, sizeof to, from, 0), EOK);
    assert_int_equal(memcpy_s(to, 0, from, 1), ERANGE);
    assert_int_equal(memcpy_s(to, (size_t)0x80000000u, from, 1), ERANGE);
    assert_int_equal(memcpy_s(NULL, 8, from, 1), EINVAL);
    assert_string_equal(to, "abc3456");
    assert_int_equal(memcpy_s(to, sizeof to, to + 1, 4), EOVERLAP_AND_RESET);
    assert_memory_equal(to, "\0\0\0\0\0\0\0", 8);
    memcpy(to, "0123456", 8);
    assert_int_equal(memcpy_s(to, 4, from, 5), ERANGE_AND_RESET);
    assert_memory_equal(to,
                        "\0\0\0\0"
                        "456",
                        8);
    assert_int_equal(memcpy_s(to, 8, NULL, 5), EINVAL_AND_RESET);
    assert_memory_equal(to, "\0\0\0\0\0\0\0", 8);
    assert_int_equal(memmove_s(from + 1, 7, from, 4), EOK);
    assert_string_equal(from, "aabcdfg");
    assert_int_equal(memmove_s(from, 2, to, 3), ERANGE_AND_RESET);
    assert_int_equal(memmove_s(from, 2, NULL, 1), EINVAL_AND_RESET);
    assert_int_equal(memmove_s(NULL, 2, to, 1), EINVAL);
    assert_int_equal(memmove_s(from, 0, to, 1), ERANGE);
    assert_int_equal(memset_s(to, sizeof to, 'x', 7), EOK);
    assert_string_equal(to, "xxxxxxx");
    assert_int_equal(memset_s(to, 3, 'y', 4), ERANGE_AND_RESET);
    assert_string_equal(to, "yyyxxxx");
    assert_int_equal(memset_s(NULL, 3, 'y', 1), EINVAL);
    assert_int_equal(memset_s(to, 0, 'y', 0), ERANGE);
}

static void string_functions(void **state)
{
    (void)state;
    char to[8] = "";
    assert_int_equal(strcpy_s(to, sizeof to, "abcdefg"), EOK);
    assert_string_equal(to, "abcdefg");
    assert_int_equal(strcpy_s(to, sizeof to, "abcdefgh"), ERANGE_AND_RESET);
    assert_string_equal(to, "");
    assert_int_equal(strncpy_s(to, sizeof to, "abcdefghij", 3), EOK);
    assert_string_equal(to, "abc");
    assert_int_equal(strncpy_s(to, 3, "abcdef", 3), ERANGE_AND_RESET);
    assert_string_equal(to, "");
    assert_int_equal(strcpy_s(NULL, 8, "a"), EINVAL);
    assert_int_equal(strcpy_s(to, 0, "a"), ERANGE);
    strcpy(to, "abc");
    assert_int_equal(strcpy_s(to, 8, NULL), EINVAL_AND_RESET);
    assert_string_equal(to, "");
    strcpy(to, "abc");
    assert_int_equal(strcpy_s(to + 1, 7, to), EOVERLAP_AND_RESET);
    strcpy(to, "abc");
    assert_int_equal(strcpy_s(to, 8, to), EOK);
    assert_string_equal(to, "abc");
}

static void printing_functions(void **state)
{
    (void)state;
    char to[8] = "old";
    assert_int_equal(sprintf_s(to, sizeof to, "%d", 1234567), 7);
    assert_string_equal(to, "1234567");
    assert_int_equal(sprintf_s(to, sizeof to, "%d", 12345678), -1);
    assert_string_equal(to, "");
    assert_int_equal(snprintf_s(to, sizeof to, 3, "%s", "abc"), 3);
    assert_string_equal(to, "abc");
    assert_int_equal(snprintf_s(to, sizeof to, 3, "%s", "abcd"), -1); /* cut at count: the beginning stays */
    assert_string_equal(to, "abc");
    assert_int_equal(snprintf_s(to, sizeof to, 20, "%s", "abcdefghij"), -1);
    assert_string_equal(to, "");
    assert_int_equal(sprintf_s(NULL, 8, "x"), -1);
    assert_int_equal(sprintf_s(to, 0, "x"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_functions),
        cmocka_unit_test(string_functions),
        cmocka_unit_test(printing_functions),
    };
    return cmocka_run_group_tests_name("acl_securec", tests, NULL, NULL);
}
