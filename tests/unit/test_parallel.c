/* labels: smoke ci threads */
/* The parallel loop against the plain loop it equals; lanes, callers, fork, and the floating-point environment. */
#define _DEFAULT_SOURCE /* usleep */
#include "support/support.h"

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parallel.h"

enum { MOST_ITEMS = 1000, MOST_LANES = 16 };

static const int lane_counts[] = {1, 2, 3, 7};

struct record {
    _Atomic int runs[MOST_ITEMS];
    _Atomic int busy[MOST_LANES]; /* items that a lane runs at this moment */
    _Atomic int lane_errors;
    int lanes;
};

static void record_item(void *context, int64_t item, int lane)
{
    struct record *record = context;
    if (lane < 0 || lane >= record->lanes || atomic_fetch_add(&record->busy[lane], 1) != 0) {
        atomic_fetch_add(&record->lane_errors, 1);
        return;
    }
    atomic_fetch_add(&record->runs[item], 1);
    if (item % 50 == 0) {
        usleep(100); /* lets others run into a lane that is not exclusive */
    }
    atomic_fetch_sub(&record->busy[lane], 1);
}

static void check_cover(int lanes, int64_t items)
{
    static struct record record;
    memset(&record, 0, sizeof record);
    record.lanes = lanes;
    ag_parallel_for(lanes, items, record_item, &record);
    assert_int_equal(record.lane_errors, 0);
    for (int64_t i = 0; i < MOST_ITEMS; ++i) {
        assert_int_equal(record.runs[i], i < items);
    }
}

static void every_item_once_and_lanes_are_exclusive(void **state)
{
    (void)state;
    static const int64_t item_counts[] = {0, 1, 2, 6, 7, 8, 100, MOST_ITEMS};
    for (int k = 0; k < 4; ++k) {
        for (size_t i = 0; i < sizeof item_counts / sizeof *item_counts; ++i) {
            check_cover(lane_counts[k], item_counts[i]);
        }
    }
    check_cover(2, 100); /* fewer lanes than the pool has threads by now */
}

/* --- plain writes are handed over ------------------------------------------------------------------------ */

struct sums {
    const double *values; /* plain memory, written by the caller before */
    double total[MOST_ITEMS];
    double scratch[MOST_LANES];
};

static void sum_item(void *context, int64_t item, int lane)
{
    struct sums *sums = context;
    sums->scratch[lane] = sums->values[item] * 2; /* a lane's scratch needs no lock */
    sums->total[item] = sums->scratch[lane] + 1;
}

static void plain_memory_goes_in_and_comes_out(void **state)
{
    (void)state;
    static double values[MOST_ITEMS];
    static struct sums sums = {.values = values};
    for (int round = 0; round < 100; ++round) {
        for (int i = 0; i < MOST_ITEMS; ++i) {
            values[i] = i + round;
        }
        ag_parallel_for(lane_counts[round % 4], MOST_ITEMS, sum_item, &sums);
        for (int i = 0; i < MOST_ITEMS; ++i) {
            assert_true(sums.total[i] == 2.0 * (i + round) + 1);
        }
    }
}

/* --- several callers, one inside the other ---------------------------------------------------------------- */

static void count_item(void *context, int64_t item, int lane)
{
    (void)lane;
    atomic_fetch_add((_Atomic int64_t *)context, item + 1);
}

static void *call_often(void *failures)
{
    for (int round = 0; round < 200; ++round) {
        _Atomic int64_t sum = 0;
        ag_parallel_for(1 + round % 5, 100, count_item, &sum);
        if (atomic_load(&sum) != 5050) {
            atomic_fetch_add((_Atomic int *)failures, 1);
        }
    }
    return NULL;
}

static void several_threads_may_call(void **state)
{
    (void)state;
    pthread_t threads[4];
    _Atomic int failures = 0;
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &failures), 0);
    }
    for (int i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(failures, 0);
}

static void call_one_lane(void *context, int64_t item, int lane)
{
    (void)item, (void)lane;
    _Atomic int64_t sum = 0;
    ag_parallel_for(1, 10, count_item, &sum);
    atomic_fetch_add((_Atomic int64_t *)context, sum);
}

static void one_lane_may_be_nested(void **state)
{
    (void)state;
    for (int k = 0; k < 4; ++k) {
        _Atomic int64_t sum = 0;
        ag_parallel_for(lane_counts[k], 20, call_one_lane, &sum);
        assert_int_equal(sum, 20 * 55);
    }
}

static void note_thread(void *context, int64_t item, int lane)
{
    (void)lane;
    ((pthread_t *)context)[item] = pthread_self();
}

static void one_lane_stays_in_the_calling_thread(void **state)
{
    (void)state;
    pthread_t threads[3];
    ag_parallel_for(1, 3, note_thread, threads);
    for (int i = 0; i < 3; ++i) {
        assert_true(pthread_equal(threads[i], pthread_self()));
    }
    ag_parallel_for(7, 1, note_thread, threads); /* as many lanes as items at most */
    assert_true(pthread_equal(threads[0], pthread_self()));
}

/* --- fork ------------------------------------------------------------------------------------------------ */

static void a_child_of_fork_is_usable(void **state)
{
    (void)state;
    _Atomic int64_t before = 0;
    ag_parallel_for(3, 100, count_item, &before); /* the pool exists */
    for (int round = 0; round < 5; ++round) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            _Atomic int64_t sum = 0;
            alarm(20); /* a hang is a failure, not a wait for ever */
            ag_parallel_for(3, 100, count_item, &sum);
            test_exit_child(sum == 5050 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    check_cover(3, 100);
}

#if !defined(__SANITIZE_THREAD__) /* which tells of the thread that never ends */
static _Atomic bool is_inside;

static void stay_inside(void *unused, int64_t item, int lane)
{
    (void)unused, (void)item, (void)lane;
    is_inside = true;
    for (;;) {
        pause();
    }
}

static void *run_for_ever(void *unused)
{
    ag_parallel_for(2, 2, stay_inside, unused);
    return NULL;
}

/* The end of a program does not wait for a job that never ends. */
static void a_program_may_end_while_a_job_runs(void **state)
{
    (void)state;
    int status;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pthread_t thread;
        alarm(20);
        pthread_create(&thread, NULL, run_for_ever, NULL);
        while (!is_inside) {
            usleep(100);
        }
        exit(7);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
#endif

/* --- the floating-point environment ----------------------------------------------------------------------- */

/* Bits that differ when rounding is not to nearest even, or subnormals are flushed as operands or results. */
struct arithmetic {
    volatile float third, minus_third, tiny_result, tiny_operand;
};

static struct arithmetic compute(void)
{
    volatile float one = 1.0f, minus_one = -1.0f, three = 3.0f, smallest = 0x1p-126f, half = 0.5f, tiny = 0x1p-140f,
                   large = 0x1p30f;
    return (struct arithmetic){one / three, minus_one / three, smallest * half, tiny * large};
}

static bool is_default(const struct arithmetic *got)
{
    return got->third == 0x1.555556p-2f && got->minus_third == -0x1.555556p-2f && got->tiny_result == 0x1p-127f &&
           got->tiny_operand == 0x1p-110f;
}

static void compute_item(void *context, int64_t item, int lane)
{
    (void)lane;
    ((struct arithmetic *)context)[item] = compute();
}

static void check_items_compute_by_default(void)
{
    for (int k = 0; k < 4; ++k) {
        struct arithmetic results[32];
        ag_parallel_for(lane_counts[k], 32, compute_item, results);
        for (int i = 0; i < 32; ++i) {
            if (!is_default(&results[i])) {
                fesetenv(FE_DFL_ENV);
                fail_msg("item %d of %d lanes computed with the caller's environment", i, lane_counts[k]);
            }
        }
    }
}

static void rounding_is_reset_and_restored(void **state)
{
    (void)state;
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
    for (int i = 0; i < 4; ++i) {
        fesetround(modes[i]);
        check_items_compute_by_default();
        const int after = fegetround();
        fesetenv(FE_DFL_ENV);
        assert_int_equal(after, modes[i]);
    }
}

#if defined(__x86_64__)
#    include <xmmintrin.h>

enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x40 };

static void flush_to_zero_is_reset_and_restored(void **state)
{
    (void)state;
    const unsigned flushing = _mm_getcsr() | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO;
    _mm_setcsr(flushing);
    const struct arithmetic outside = compute();
    check_items_compute_by_default();
    const unsigned after = _mm_getcsr();
    fesetenv(FE_DFL_ENV);
    assert_true(outside.tiny_result == 0 && outside.tiny_operand == 0); /* the setting does what it says */
    assert_int_equal(after & (FLUSH_TO_ZERO | DENORMALS_ARE_ZERO), FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
}
#else
static void flush_to_zero_is_reset_and_restored(void **state)
{
    (void)state;
    skip();
}
#endif

static void overflow_item(void *context, int64_t item, int lane)
{
    volatile float large = 0x1p100f;
    (void)item, (void)lane;
    *(volatile float *)context = large * large;
}

static void exception_flags_are_the_callers(void **state)
{
    (void)state;
    float result;
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(FE_DIVBYZERO);
    ag_parallel_for(1, 1, overflow_item, &result);
    assert_false(fetestexcept(FE_OVERFLOW));
    assert_true(fetestexcept(FE_DIVBYZERO));
    feclearexcept(FE_ALL_EXCEPT);
}

/* --- sharing --------------------------------------------------------------------------------------------- */

static void shares_are_consecutive_and_nearly_equal(void **state)
{
    (void)state;
    for (int64_t total = 0; total < 40; ++total) {
        for (int64_t parts = 1; parts < 12; ++parts) {
            int64_t next = 0;
            for (int64_t part = 0; part < parts; ++part) {
                const struct ag_range range = ag_share(total, part, parts);
                const int64_t size = range.end - range.begin;
                assert_int_equal(range.begin, next);
                assert_true(size == total / parts || size == total / parts + 1);
                next = range.end;
            }
            assert_int_equal(next, total);
        }
    }
    const struct ag_range last = ag_share(INT64_MAX, 6, 7); /* no product overflows */
    assert_true(last.end == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once_and_lanes_are_exclusive),
        cmocka_unit_test(plain_memory_goes_in_and_comes_out),
        cmocka_unit_test(several_threads_may_call),
        cmocka_unit_test(one_lane_may_be_nested),
        cmocka_unit_test(one_lane_stays_in_the_calling_thread),
        cmocka_unit_test(a_child_of_fork_is_usable),
#if !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(a_program_may_end_while_a_job_runs),
#endif
        cmocka_unit_test(rounding_is_reset_and_restored),
        cmocka_unit_test(flush_to_zero_is_reset_and_restored),
        cmocka_unit_test(exception_flags_are_the_callers),
        cmocka_unit_test(shares_are_consecutive_and_nearly_equal),
    };
    return cmocka_run_group_tests_name("parallel", tests, NULL, NULL);
}
