/* labels: smoke ci */
/* The one-line checks, and products that may not fit. */
#include "support/support.h"

#include "base/check.h"

struct product_row {
    const char *name;
    int count;
    int64_t factors[4];
    bool fits;
    int64_t product;
};

static const struct product_row product_rows[] = {
    {"of nothing", 0, {0}, true, 1},
    {"of one", 1, {7}, true, 7},
    {"of four", 4, {2, 3, 5, 7}, true, 210},
    {"largest", 2, {INT64_MAX, 1}, true, INT64_MAX},
    {"largest by factors", 3, {INT64_C(7) * 7 * 73 * 127, 337, INT64_C(92737) * 649657}, true, INT64_MAX},
    {"one bit too many", 2, {INT64_C(1) << 31, INT64_C(1) << 32}, false, 0},
    {"just fits", 2, {INT64_C(1) << 31, INT64_C(1) << 31}, true, INT64_C(1) << 62},
    {"far too many", 3, {INT64_MAX, INT64_MAX, INT64_MAX}, false, 0},
    {"wraps to something small", 2, {INT64_C(1) << 32, INT64_C(1) << 32}, false, 0},
    {"zero", 3, {5, 0, 7}, true, 0},
    {"zero behind an overflow", 3, {INT64_MAX, INT64_MAX, 0}, true, 0},
    {"zero before an overflow", 3, {0, INT64_MAX, INT64_MAX}, true, 0},
    {"negative", 2, {5, -1}, false, 0},
    {"two negatives", 2, {-5, -1}, false, 0},
    {"negative behind a zero", 2, {0, -1}, false, 0},
};

static void products(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof product_rows / sizeof *product_rows; ++i) {
        const struct product_row *row = &product_rows[i];
        int64_t product = -7;
        const bool fits = ag_product(&product, row->count, row->factors);
        if (fits != row->fits || (fits && product != row->product)) {
            fail_msg("product %s: fits %d, %lld", row->name, fits, (long long)product);
        }
    }
}

static int evaluations;

static ag_status counted(ag_status status)
{
    ++evaluations;
    return status == AG_OK ? AG_OK : ag_fail(status, "the cause");
}

static ag_status require(int64_t dim)
{
    AG_REQUIRE(dim == 128, INVALID, "query: head dim %lld, want 128", (long long)dim);
    AG_REQUIRE(dim > 0, TILING, "not reached");
    return AG_OK;
}

static ag_status forward(ag_status status)
{
    AG_TRY(counted(status));
    return 77;
}

static void require_returns_and_tells(void **state)
{
    (void)state;
    ag_error_clear();
    assert_int_equal(require(128), AG_OK);
    assert_null(ag_error_peek());
    assert_int_equal(require(96), AG_INVALID);
    test_assert_message("query: head dim 96, want 128", NULL);
}

static void try_forwards_once(void **state)
{
    (void)state;
    evaluations = 0;
    assert_int_equal(forward(AG_OK), 77);
    assert_int_equal(forward(AG_TILING), AG_TILING);
    assert_int_equal(evaluations, 2);
    test_assert_message("the cause", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(require_returns_and_tells),
        cmocka_unit_test(try_forwards_once),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
