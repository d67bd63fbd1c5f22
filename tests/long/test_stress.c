/* labels: long short threads */
/* Much at once and much in a row: four threads with a stream each, ten thousand calls, children of fork(). Results are
 * those of one thread alone, bit for bit, and nothing is left behind. */
#define _DEFAULT_SOURCE /* setenv, fork */
#include "support/operators.h"
#include "support/sweep.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "runtime/handle.h"

enum { THREADS = 4, SEEDS = 3 };

static struct test_operators serial[SEEDS]; /* with the answers of one thread alone */

static int make_answers(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; ++seed) {
        test_operators_create(&serial[seed], (uint64_t)seed);
        ag_config_set_threads(1);
        for (int op = 0; op < TEST_OPERATORS; ++op) {
            assert_int_equal(test_operators_run(&serial[seed], (enum test_operator)op, NULL), 0);
        }
    }
    return 0;
}

static int drop_answers(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; ++seed) {
        test_operators_destroy(&serial[seed]);
    }
    return 0;
}

/* --- several threads ------------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    int number;
    int64_t rounds;
    struct test_operators operators[SEEDS];
    const char *failure; /* assertions belong to the main thread */
};

static const char *work_one_round(struct worker *worker, int64_t round, aclrtStream stream)
{
    for (int i = 0; i < TEST_OPERATORS; ++i) {
        const enum test_operator op = (enum test_operator)((i + worker->number) % TEST_OPERATORS);
        const int seed = (int)(round % SEEDS);
        test_operators_fill_outputs(&worker->operators[seed], op, 0xff);
        if (test_operators_run(&worker->operators[seed], op, stream) != 0) {
            return aclGetRecentErrMsg();
        }
        if (!test_operators_same_outputs(&worker->operators[seed], &serial[seed], op)) {
            return test_operator_name(op);
        }
    }
    return NULL;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    aclrtStream stream = NULL;
    if (aclrtSetDevice(0) != 0 || aclrtCreateStream(&stream) != 0) {
        worker->failure = "no stream";
        return NULL;
    }
    for (int64_t round = 0; round < worker->rounds && !worker->failure; ++round) {
        worker->failure = work_one_round(worker, round, stream);
    }
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    return NULL;
}

static void run_workers(int threads_of_pool, const char *is_async)
{
    static struct worker workers[THREADS];
    setenv("ACLGRAD_ASYNC", is_async, 1);
    ag_config_reload();
    ag_config_set_threads(threads_of_pool);
    for (int i = 0; i < THREADS; ++i) {
        workers[i] = (struct worker){.number = i, .rounds = test_effort(200)};
        for (int seed = 0; seed < SEEDS; ++seed) {
            test_operators_create(&workers[i].operators[seed], (uint64_t)seed);
        }
    }
    for (int i = 0; i < THREADS; ++i) {
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(workers[i].thread, NULL);
        for (int seed = 0; seed < SEEDS; ++seed) {
            test_operators_destroy(&workers[i].operators[seed]);
        }
        if (workers[i].failure) {
            fail_msg("thread %d, async %s: %s", i, is_async, workers[i].failure);
        }
    }
}

static void threads_with_a_stream_each(void **state)
{
    (void)state;
    run_workers(3, "0");
    run_workers(1, "0");
}

static void threads_with_a_worker_behind_each_stream(void **state)
{
    (void)state;
    run_workers(2, "1");
}

/* --- many calls ------------------------------------------------------------------------------------------ */

static int64_t live_handles(void)
{
    int64_t count = 0;
    for (int kind = 1; kind < AG_HANDLE_KINDS; ++kind) {
        count += ag_handle_count((enum ag_handle_kind)kind);
    }
    return count;
}

/* Always 0 under sanitizers, which keep what was freed. */
static int64_t resident_kilobytes(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#endif
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void call_often(int64_t calls)
{
    for (int64_t i = 0; i < calls; ++i) {
        const enum test_operator op = (enum test_operator)(i % TEST_OPERATORS);
        assert_int_equal(test_operators_run(&serial[0], op, NULL), 0);
        if (i % 7 == 0) { /* an executor that is made and dropped */
            uint64_t size;
            aclOpExecutor *executor;
            assert_int_equal(test_operators_phase1(&serial[0], op, &size, &executor), 0);
            assert_int_equal(aclDestroyAclOpExecutor(executor), 0);
        }
    }
}

static void many_calls_leave_nothing_behind(void **state)
{
    (void)state;
    ag_config_set_threads(2);
    call_often(100); /* the pool, the table of handles and the heap have grown as far as they do */
    const int64_t handles = live_handles(), blocks = ag_alloc_live(), kilobytes = resident_kilobytes();
    call_often(test_effort(10000));
    assert_int_equal(live_handles(), handles);
    assert_int_equal(ag_alloc_live(), blocks);
    if (resident_kilobytes() > kilobytes + 1024) {
        fail_msg("resident memory went from %lld to %lld KiB", (long long)kilobytes, (long long)resident_kilobytes());
    }
}

/* --- fork ------------------------------------------------------------------------------------------------ */

static int run_all(struct test_operators *operators)
{
    for (int op = 0; op < TEST_OPERATORS; ++op) {
        test_operators_fill_outputs(operators, (enum test_operator)op, 0xff);
        if (test_operators_run(operators, (enum test_operator)op, NULL) != 0 ||
            !test_operators_same_outputs(operators, &serial[0], (enum test_operator)op)) {
            return 1 + op;
        }
    }
    return 0;
}

static void check_child(struct test_operators *operators)
{
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60); /* a hang is a failure */
        test_exit_child(run_all(operators));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void children_can_call(void **state)
{
    (void)state;
    struct test_operators operators;
    test_operators_create(&operators, 0);
    ag_config_set_threads(3);
    assert_int_equal(run_all(&operators), 0); /* there is a pool when the child is made */
    for (int64_t round = 0; round < test_effort(100); ++round) {
        check_child(&operators);
    }
    assert_int_equal(run_all(&operators), 0); /* and the parent is as before */
    test_operators_destroy(&operators);
}

struct busy {
    struct test_operators operators;
    _Atomic bool is_over;
    int failures;
};

static void *keep_busy(void *argument)
{
    struct busy *busy = argument;
    while (!busy->is_over) {
        busy->failures += run_all(&busy->operators) != 0;
    }
    return NULL;
}

/* fork() while another thread is inside the library, wherever that may be. */
static void children_of_a_busy_process_can_call(void **state)
{
    (void)state;
    static struct busy busy;
    struct test_operators operators;
    pthread_t thread;
    test_operators_create(&operators, 0);
    test_operators_create(&busy.operators, 0);
    ag_config_set_threads(2);
    assert_int_equal(pthread_create(&thread, NULL, keep_busy, &busy), 0);
    for (int64_t round = 0; round < test_effort(200); ++round) {
        check_child(&operators);
    }
    busy.is_over = true;
    pthread_join(thread, NULL);
    assert_int_equal(busy.failures, 0);
    test_operators_destroy(&operators);
    test_operators_destroy(&busy.operators);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_with_a_stream_each),
        cmocka_unit_test(threads_with_a_worker_behind_each_stream),
        cmocka_unit_test(many_calls_leave_nothing_behind),
        cmocka_unit_test(children_can_call),
        cmocka_unit_test(children_of_a_busy_process_can_call),
    };
    return cmocka_run_group_tests_name("stress", tests, make_answers, drop_answers);
}
