/* labels: smoke ci threads */
/* The one door to the heap: alignment, counting, failures asked for; and the clock that never goes back. */
#include "support/support.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

static void blocks_are_aligned_and_counted(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 100000};
    void *blocks[7];
    const int64_t before = ag_alloc_live();
    for (int i = 0; i < 7; ++i) {
        blocks[i] = ag_alloc(sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], 0xff, sizes[i]);
        assert_int_equal(ag_alloc_live(), before + i + 1);
    }
    for (int i = 0; i < 7; ++i) {
        ag_free(blocks[i]);
    }
    ag_free(NULL);
    assert_int_equal(ag_alloc_live(), before);
}

static void zeroed_blocks_are_zero(void **state)
{
    (void)state;
    unsigned char *used = ag_alloc(1000);
    memset(used, 0xff, 1000);
    ag_free(used); /* so that the heap has something to hand out again */
    unsigned char *block = ag_alloc_zeroed(1000);
    for (int i = 0; i < 1000; ++i) {
        assert_int_equal(block[i], 0);
    }
    ag_free(block);
}

static void impossible_sizes_give_null(void **state)
{
    (void)state;
    const int64_t before = ag_alloc_live();
    assert_null(ag_alloc(SIZE_MAX));
    assert_null(ag_alloc(SIZE_MAX - 63));
    assert_null(ag_alloc_zeroed(SIZE_MAX - 127));
    assert_int_equal(ag_alloc_live(), before);
}

static void exactly_the_nth_allocation_fails(void **state)
{
    (void)state;
    for (int64_t nth = 1; nth <= 4; ++nth) {
        ag_alloc_fail_at(nth);
        for (int64_t i = 1; i <= 6; ++i) {
            assert_int_equal(ag_alloc_has_failed(), i > nth);
            void *block = i % 2 ? ag_alloc(8) : ag_alloc_zeroed(8);
            assert_int_equal(block == NULL, i == nth);
            ag_free(block);
        }
        assert_true(ag_alloc_has_failed());
    }
    ag_alloc_fail_at(0);
    assert_false(ag_alloc_has_failed());
    assert_false(ag_alloc_is_refused());
    ag_alloc_fail_at(1);
    assert_true(ag_alloc_is_refused()); /* an allocation that goes another way */
    assert_true(ag_alloc_has_failed());
    ag_alloc_fail_at(0);
}

enum { ROUNDS = 2000 };

static void *allocate_often(void *nothing)
{
    for (int i = 0; i < ROUNDS; ++i) {
        ag_free(ag_alloc((size_t)i));
    }
    return nothing;
}

static void threads_may_allocate_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    const int64_t before = ag_alloc_live();
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_often, NULL), 0);
    }
    for (int i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(ag_alloc_live(), before);
}

static void the_clock_never_goes_back(void **state)
{
    (void)state;
    const int64_t start = ag_clock_ns();
    int64_t last = start;
    assert_true(start >= 0);
    for (int i = 0; i < 10000; ++i) {
        const int64_t now = ag_clock_ns();
        assert_true(now >= last);
        last = now;
    }
    assert_true(last > start && last - start < INT64_C(60000000000)); /* nanoseconds: 10,000 readings take less */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_counted), cmocka_unit_test(zeroed_blocks_are_zero),
        cmocka_unit_test(impossible_sizes_give_null),     cmocka_unit_test(exactly_the_nth_allocation_fails),
        cmocka_unit_test(threads_may_allocate_at_once),   cmocka_unit_test(the_clock_never_goes_back),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
