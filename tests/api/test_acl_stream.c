/* labels: smoke ci threads */
/* Streams and host functions; every test runs synchronously and with a worker per stream, in checked mode too. */
#define _DEFAULT_SOURCE
#include "support/refused.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "base/memory.h"
#include "runtime/handle.h"
#include "support/gate.h"

static bool is_async;

static int end(void **state)
{
    (void)state;
    test_set_mode(false, false);
    aclInit(NULL);
    aclFinalize();
    aclGetRecentErrMsg();
    return ag_handle_count(AG_HANDLE_CONTEXT) + ag_handle_count(AG_HANDLE_STREAM) != 0;
}

static int begin(bool async, bool debug)
{
    is_async = async;
    test_set_mode(async, debug);
    return aclrtSetDevice(0);
}

static int begin_sync(void **state)
{
    (void)state;
    return begin(false, false);
}

static int begin_async(void **state)
{
    (void)state;
    return begin(true, false);
}

static int begin_checked(void **state)
{
    (void)state;
    return begin(true, true);
}

static aclrtStream new_stream(void)
{
    aclrtStream stream = NULL;
    assert_int_equal(aclrtCreateStream(&stream), 0);
    assert_non_null(stream);
    return stream;
}

/* --- tasks ---------------------------------------------------------------------------------------------- */

struct journal {
    _Atomic int count;
    int entries[1000];
};

struct entry {
    struct journal *journal;
    int number;
};

static void write_entry(void *entry_pointer)
{
    const struct entry *entry = entry_pointer;
    entry->journal->entries[atomic_fetch_add(&entry->journal->count, 1)] = entry->number;
}

static void tasks_run_in_order(void **state)
{
    (void)state;
    static struct journal journal;
    static struct entry entries[1000];
    memset(&journal, 0, sizeof journal);
    aclrtStream stream = new_stream();
    for (int i = 0; i < 1000; ++i) {
        entries[i] = (struct entry){&journal, i};
        DONE(aclrtLaunchHostFunc(stream, write_entry, &entries[i]));
    }
    DONE(aclrtSynchronizeStream(stream));
    assert_int_equal(journal.count, 1000);
    for (int i = 0; i < 1000; ++i) {
        assert_int_equal(journal.entries[i], i);
    }
    DONE(aclrtDestroyStream(stream));
}

static void null_stream_is_the_default_one(void **state)
{
    (void)state;
    struct journal journal = {0};
    struct entry entry = {&journal, 5};
    aclrtStreamStatus status;
    DONE(aclrtLaunchHostFunc(NULL, write_entry, &entry));
    DONE(aclrtSynchronizeStream(NULL));
    assert_int_equal(journal.count, 1);
    DONE(aclrtStreamQuery(NULL, &status));
    assert_int_equal(status, ACL_STREAM_STATUS_COMPLETE);
    DONE(aclrtSynchronizeStreamWithTimeout(NULL, -1));
    DONE(aclrtStreamAbort(NULL));
}

static void sleep_a_little(void *unused)
{
    (void)unused;
    usleep(20000);
}

static void copies_are_ordered_with_other_tasks(void **state)
{
    (void)state;
    char a[4] = "abc", b[4] = "", c[4] = "";
    aclrtStream stream = new_stream();
    DONE(aclrtMemcpyAsync(b, 4, a, 4, ACL_MEMCPY_HOST_TO_HOST, stream));
    DONE(aclrtMemcpyAsync(c, 4, b, 4, ACL_MEMCPY_HOST_TO_HOST, stream));
    DONE(aclrtMemsetAsync(b, 4, 'x', 3, stream));
    DONE(aclrtSynchronizeStream(stream));
    assert_string_equal(c, "abc");
    assert_string_equal(b, "xxx");
    DONE(aclrtDestroyStream(stream));
}

static void destroying_waits_for_queued_work(void **state)
{
    (void)state;
    static struct journal journal;
    static struct entry entries[50];
    memset(&journal, 0, sizeof journal);
    aclrtStream stream = new_stream();
    for (int i = 0; i < 50; ++i) {
        entries[i] = (struct entry){&journal, i};
        DONE(aclrtLaunchHostFunc(stream, write_entry, &entries[i]));
    }
    DONE(aclrtDestroyStream(stream));
    assert_int_equal(journal.count, 50);
    REFUSED(107017, aclrtDestroyStream(stream), "stream: got a destroyed stream, want a live stream");
}

static void synchronise_device_waits_for_all_streams(void **state)
{
    (void)state;
    static struct journal journal;
    static struct entry entry;
    memset(&journal, 0, sizeof journal);
    entry = (struct entry){&journal, 0};
    for (int i = 0; i < 8; ++i) {
        DONE(aclrtLaunchHostFunc(new_stream(), write_entry, &entry));
    }
    DONE(aclrtSynchronizeDevice());
    assert_int_equal(journal.count, 8);
    DONE(aclrtSynchronizeDeviceWithTimeout(-1));
    DONE(aclrtResetDevice(0)); /* takes the eight streams with it */
}

static void reset_waits_for_queued_work(void **state)
{
    (void)state;
    static struct journal journal;
    static struct entry entry;
    memset(&journal, 0, sizeof journal);
    entry = (struct entry){&journal, 0};
    DONE(aclrtLaunchHostFunc(new_stream(), write_entry, &entry));
    DONE(aclrtResetDevice(0));
    assert_int_equal(journal.count, 1);
}

/* Memory of the program's own may be gone when the call returns, so the copy is over by then; between allocations of
 * the run time it waits for its turn. */
static void copies_of_ordinary_memory_are_over_at_return(void **state)
{
    (void)state;
    char ordinary[4] = "abc";
    void *device, *other;
    aclrtStream stream = new_stream();
    DONE(aclrtMalloc(&device, 4, ACL_MEM_MALLOC_HUGE_FIRST));
    DONE(aclrtMallocHost(&other, 4));
    DONE(aclrtLaunchHostFunc(stream, sleep_a_little, NULL));
    DONE(aclrtMemcpyAsync(device, 4, ordinary, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_string_equal(device, "abc");
    DONE(aclrtMemsetAsync(device, 4, 'x', 3, stream));
    DONE(aclrtMemcpyAsync(ordinary, 4, device, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    assert_string_equal(ordinary, "xxx");
    if (is_async) {
        struct gate gate = gate_closed();
        gate_block(&gate, stream);
        DONE(aclrtMemcpyAsync(other, 4, device, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream));
        assert_string_equal(other, "");
        gate_open(&gate);
        DONE(aclrtSynchronizeStream(stream));
        assert_string_equal(other, "xxx");
    }
    DONE(aclrtDestroyStream(stream));
    DONE(aclrtFree(device));
    DONE(aclrtFreeHost(other));
}

/* --- what is refused ------------------------------------------------------------------------------------- */

static void bad_streams_are_refused(void **state)
{
    (void)state;
    int32_t some = 0;
    char bytes[4];
    aclrtStreamStatus status;
    aclrtStream stream = new_stream();
    aclrtContext context;
    DONE(aclrtGetCurrentContext(&context));
    REFUSED(100000, aclrtCreateStream(NULL), "aclrtCreateStream", "stream: null");
    REFUSED(100000, aclrtCreateStreamWithConfig(NULL, 0, 0), "aclrtCreateStreamWithConfig", "stream: null");
    REFUSED(107000, aclrtCreateStreamWithConfig(&stream, 0, 0x40), "flag: got 0x40, want a set of ACL_STREAM_*");
    REFUSED(100000, aclrtDestroyStream(NULL), "aclrtDestroyStream", "stream: null");
    REFUSED(100000, aclrtDestroyStreamForce(NULL), "aclrtDestroyStreamForce", "stream: null");
    void *const wrong[] = {&stream, &some, context, "text", (void *)8};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        REFUSED(107017, aclrtDestroyStream(wrong[i]), "want a live stream");
        REFUSED(107017, aclrtDestroyStreamForce(wrong[i]), "want a live stream");
        REFUSED(107017, aclrtSynchronizeStream(wrong[i]), "aclrtSynchronizeStream", "want a live stream");
        REFUSED(107017, aclrtSynchronizeStreamWithTimeout(wrong[i], 1), "want a live stream");
        REFUSED(107017, aclrtStreamQuery(wrong[i], &status), "aclrtStreamQuery", "want a live stream");
        REFUSED(107017, aclrtStreamAbort(wrong[i]), "aclrtStreamAbort", "want a live stream");
        REFUSED(107017, aclrtLaunchHostFunc(wrong[i], write_entry, NULL), "aclrtLaunchHostFunc",
                "want a live stream");
        REFUSED(107017, aclrtMemsetAsync(bytes, 4, 0, 4, wrong[i]), "want a live stream");
    }
    REFUSED(100000, aclrtStreamQuery(stream, NULL), "status: null");
    REFUSED(100000, aclrtLaunchHostFunc(stream, NULL, NULL), "fn: null");
    REFUSED(107000, aclrtSynchronizeStreamWithTimeout(stream, -2), "timeout: got -2, want -1 or more");
    REFUSED(107000, aclrtSynchronizeDeviceWithTimeout(-2), "timeout: got -2, want -1 or more");
    DONE(aclrtDestroyStream(stream));
}

static void a_stream_is_destroyed_in_its_own_context(void **state)
{
    (void)state;
    aclrtContext standard, other;
    aclrtStream stream = new_stream();
    DONE(aclrtGetCurrentContext(&standard));
    DONE(aclrtCreateContext(&other, 0));
    REFUSED(107003, aclrtDestroyStream(stream), "stream: belongs to another context");
    REFUSED(107003, aclrtDestroyStreamForce(stream), "stream: belongs to another context");
    DONE(aclrtSetCurrentContext(standard));
    DONE(aclrtDestroyStream(stream));
    DONE(aclrtDestroyContext(other));
}

static void no_memory_for_the_default_context(void **state)
{
    (void)state;
    DONE(aclrtResetDevice(0));
    for (int64_t nth = 1; nth <= 2; ++nth) {
        const int64_t blocks = ag_alloc_live();
        aclrtStream stream;
        ag_alloc_fail_at(nth);
        REFUSED(207001, aclrtSetDevice(0), "aclrtSetDevice", "out of memory");
        assert_true(ag_alloc_has_failed());
        assert_int_equal(ag_alloc_live(), blocks);
        if (!ag_config_get().is_debug) {
            ag_alloc_fail_at(nth);
            REFUSED(207001, aclrtCreateStream(&stream), "aclrtCreateStream", "out of memory");
        }
    }
}

static void out_of_memory(void **state)
{
    (void)state;
    aclrtStream stream = &stream;
    const int64_t blocks = ag_alloc_live();
    ag_alloc_fail_at(1);
    REFUSED(207001, aclrtCreateStream(&stream), "EZ9999", "out of memory for a stream");
    assert_ptr_equal(stream, &stream);
    assert_int_equal(ag_alloc_live(), blocks);
}

static void out_of_memory_for_a_task(void **state)
{
    (void)state;
    struct journal journal = {0};
    struct entry entry = {&journal, 0};
    aclrtStream stream = new_stream();
    DONE(aclrtLaunchHostFunc(stream, write_entry, &entry)); /* its worker is there */
    DONE(aclrtSynchronizeStream(stream));
    const int64_t blocks = ag_alloc_live();
    ag_alloc_fail_at(1);
    REFUSED(207001, aclrtLaunchHostFunc(stream, write_entry, &entry), "stream: out of memory for a task");
    DONE(aclrtSynchronizeStream(stream));
    assert_int_equal(journal.count, 1);
    assert_int_equal(ag_alloc_live(), blocks);
    DONE(aclrtDestroyStream(stream));
}

static void flags_and_priorities_are_accepted(void **state)
{
    (void)state;
    aclrtStream stream;
    DONE(aclrtCreateStreamWithConfig(&stream, 7, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_HUGE));
    DONE(aclrtDestroyStream(stream));
}

static void wait_for_own_stream(void *answer)
{
    int *code = answer;
    *code = aclrtSynchronizeStream(NULL);
}

/* Would wait for itself for ever. */
static void a_task_cannot_wait_for_its_own_stream(void **state)
{
    (void)state;
    int code = 0;
    DONE(aclrtLaunchHostFunc(NULL, wait_for_own_stream, &code));
    assert_int_equal(code, 107000);
}

/* What a task gets that calls everything which would wait for its own stream. */
struct answers {
    aclrtContext context;
    aclrtStream stream;
    int codes[9];
    char text[4]; /* copied by a task of the task */
    struct entry nested;
};

static void wait_for_everything(void *answers)
{
    struct answers *a = answers;
    static const char abc[4] = "abc";
    const int current = aclrtSetCurrentContext(a->context); /* a worker has none */
    const int codes[] = {aclrtSynchronizeStream(a->stream), aclrtSynchronizeStreamWithTimeout(a->stream, 0),
                         aclrtDestroyStream(a->stream),     aclrtDestroyStreamForce(a->stream),
                         aclrtStreamAbort(a->stream),       aclrtSynchronizeDevice(),
                         aclrtDestroyContext(a->context),   aclFinalize(),
                         aclFinalizeReference(NULL)};
    memcpy(a->codes, current == 0 ? codes : (int[9]){0}, sizeof a->codes);
    aclrtMemcpyAsync(a->text, 4, abc, 4, ACL_MEMCPY_HOST_TO_HOST, a->stream);
    aclrtLaunchHostFunc(a->stream, write_entry, &a->nested);
}

/* Would wait for itself for ever; what it submits to its own stream is done, synchronously at once. */
static void a_task_cannot_wait_for_what_waits_for_it(void **state)
{
    (void)state;
    static struct journal journal;
    static struct answers answers;
    aclrtContext standard;
    memset(&journal, 0, sizeof journal);
    aclInit(NULL);
    DONE(aclrtGetCurrentContext(&standard));
    answers = (struct answers){.nested = {&journal, 0}};
    DONE(aclrtCreateContext(&answers.context, 0));
    answers.stream = new_stream();
    DONE(aclrtLaunchHostFunc(answers.stream, wait_for_everything, &answers));
    DONE(aclrtSynchronizeStream(answers.stream));
    DONE(aclrtSynchronizeStream(answers.stream)); /* what the task has submitted, with workers */
    for (int i = 0; i < 9; ++i) {
        assert_int_equal(answers.codes[i], 107000);
    }
    assert_string_equal(answers.text, "abc");
    assert_int_equal(journal.count, 1);
    DONE(aclrtDestroyContext(answers.context));
    DONE(aclrtSetCurrentContext(standard));
}

static void reset_device_in_a_task(void *code)
{
    *(int *)code = aclrtResetDevice(0) == 107000 && aclrtResetDeviceForce(0) == 107000 ? 107000 : -1;
}

static void a_task_cannot_reset_its_device(void **state)
{
    (void)state;
    int code = 0;
    aclrtStream stream = new_stream();
    DONE(aclrtLaunchHostFunc(stream, reset_device_in_a_task, &code));
    DONE(aclrtSynchronizeStream(stream));
    assert_int_equal(code, 107000);
    DONE(aclrtDestroyStream(stream));
}

static void ten_thousand_leave_nothing(void **state)
{
    (void)state;
    const int rounds = is_async ? 300 : 10000; /* a thread for each */
    DONE(aclrtDestroyStream(new_stream()));
    const int64_t blocks = ag_alloc_live();
    for (int i = 0; i < rounds; ++i) {
        char bytes[4];
        aclrtStream stream = new_stream();
        DONE(aclrtMemsetAsync(bytes, 4, 1, 4, stream));
        DONE(aclrtDestroyStream(stream));
    }
    assert_int_equal(ag_alloc_live(), blocks);
}

/* --- only with workers ----------------------------------------------------------------------------------- */

static void submitting_returns_at_once_and_timeouts_expire(void **state)
{
    (void)state;
    struct gate gate = gate_closed();
    aclrtStreamStatus status;
    aclrtStream stream = new_stream();
    gate_block(&gate, stream);
    DONE(aclrtStreamQuery(stream, &status));
    assert_int_equal(status, ACL_STREAM_STATUS_NOT_READY);
    REFUSED(507046, aclrtSynchronizeStreamWithTimeout(stream, 0), "stream: not finished after 0 ms");
    REFUSED(507046, aclrtSynchronizeStreamWithTimeout(stream, 20), "stream: not finished after 20 ms");
    REFUSED(507046, aclrtSynchronizeDeviceWithTimeout(5), "not finished after 5 ms");
    gate_open(&gate);
    DONE(aclrtSynchronizeStreamWithTimeout(stream, 10000));
    DONE(aclrtStreamQuery(stream, &status));
    assert_int_equal(status, ACL_STREAM_STATUS_COMPLETE);
    DONE(aclrtSynchronizeStreamWithTimeout(stream, 0));
    DONE(aclrtDestroyStream(stream));
}

static void two_streams_overlap(void **state)
{
    (void)state;
    struct gate gate = gate_closed();
    static struct journal journal;
    static struct entry entry;
    memset(&journal, 0, sizeof journal);
    entry = (struct entry){&journal, 0};
    aclrtStream blocked = new_stream(), free_stream = new_stream();
    gate_block(&gate, blocked);
    DONE(aclrtLaunchHostFunc(free_stream, write_entry, &entry));
    DONE(aclrtSynchronizeStream(free_stream));
    assert_int_equal(journal.count, 1);
    gate_open(&gate);
    DONE(aclrtDestroyStream(blocked));
    DONE(aclrtDestroyStream(free_stream));
}

/* Late enough for the test to have dropped what waits behind the gate. */
static void open_gate(void *gate)
{
    usleep(50000);
    gate_open(gate);
}

static void abort_and_forced_destruction_drop_what_has_not_begun(void **state)
{
    (void)state;
    static struct journal journal;
    static struct entry entry;
    memset(&journal, 0, sizeof journal);
    entry = (struct entry){&journal, 0};
    aclrtStreamStatus status;
    for (int i = 0; i < 2; ++i) {
        struct gate gate = gate_closed();
        aclrtStream stream = new_stream(), opener = new_stream();
        gate_block(&gate, stream);
        aclrtStreamQuery(stream, &status);
        gate_wait_until_reached(&gate);
        DONE(aclrtLaunchHostFunc(stream, write_entry, &entry));
        DONE(aclrtLaunchHostFunc(opener, open_gate, &gate));
        aclrtStreamQuery(opener, &status); /* in checked mode a worker begins when somebody asks */
        DONE(i == 0 ? aclrtStreamAbort(stream) : aclrtDestroyStreamForce(stream));
        assert_int_equal(journal.count, 0);
        if (i == 0) { /* lives on */
            DONE(aclrtLaunchHostFunc(stream, write_entry, &entry));
            DONE(aclrtDestroyStream(stream));
            assert_int_equal(journal.count, 1);
            journal.count = 0;
        }
        DONE(aclrtDestroyStream(opener));
    }
}

static void finalize_ends_workers(void **state)
{
    (void)state;
    static struct journal journal;
    static struct entry entry;
    memset(&journal, 0, sizeof journal);
    entry = (struct entry){&journal, 0};
    aclInit(NULL);
    DONE(aclrtLaunchHostFunc(new_stream(), write_entry, &entry));
    DONE(aclrtLaunchHostFunc(new_stream(), write_entry, &entry));
    DONE(aclFinalize());
    assert_int_equal(journal.count, 2);
}

/* --- several threads ------------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 200 };

static void *use_own_stream(void *unused)
{
    static struct journal journals[THREADS];
    static _Atomic int next;
    struct journal *journal = &journals[atomic_fetch_add(&next, 1) % THREADS];
    struct entry entry = {journal, 0};
    intptr_t errors = 0;
    (void)unused;
    errors += aclrtSetDevice(0) != 0;
    for (int i = 0; i < ROUNDS / 10; ++i) {
        aclrtStream stream = NULL;
        errors += aclrtCreateStream(&stream) != 0;
        journal->count = 0;
        for (int k = 0; k < 10; ++k) {
            errors += aclrtLaunchHostFunc(stream, write_entry, &entry) != 0;
        }
        errors += aclrtSynchronizeStream(stream) != 0;
        errors += journal->count != 10;
        errors += aclrtDestroyStream(stream) != 0;
    }
    errors += aclrtResetDevice(0) != 0;
    return (void *)errors;
}

static void threads_with_streams_of_their_own(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_own_stream, NULL), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        void *errors;
        pthread_join(threads[i], &errors);
        assert_null(errors);
    }
}

static _Atomic int inside, entered_together;
static aclrtStream shared;
static aclrtContext shared_context;

static void enter_alone(void *unused)
{
    (void)unused;
    entered_together += atomic_fetch_add(&inside, 1) != 0;
    usleep(20);
    atomic_fetch_sub(&inside, 1);
}

static void *use_shared_stream(void *unused)
{
    intptr_t errors = aclrtSetCurrentContext(shared_context) != 0;
    (void)unused;
    for (int i = 0; i < ROUNDS; ++i) {
        errors += aclrtLaunchHostFunc(shared, enter_alone, NULL) != 0;
    }
    errors += aclrtSynchronizeStream(shared) != 0;
    return (void *)errors;
}

static void tasks_of_one_stream_never_overlap(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    shared = new_stream();
    DONE(aclrtGetCurrentContext(&shared_context));
    for (int i = 0; i < THREADS; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_shared_stream, NULL), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        void *errors;
        pthread_join(threads[i], &errors);
        assert_null(errors);
    }
    assert_int_equal(entered_together, 0);
    DONE(aclrtDestroyStream(shared));
}

/* One thread waits for a stream to end when another destroys all that the stream belongs to. */
static void *destroy_blocked_stream(void *stream)
{
    aclrtSetCurrentContext(shared_context);
    return (void *)(intptr_t)aclrtDestroyStream(stream);
}

static void two_threads_destroy_at_once(void **state)
{
    (void)state;
    for (int round = 0; round < 2; ++round) {
        struct gate gate = gate_closed();
        aclrtStreamStatus status;
        pthread_t thread;
        void *code;
        DONE(aclrtSetDevice(0));
        aclrtStream opener = new_stream();
        DONE(aclrtCreateContext(&shared_context, 0));
        aclrtStream stream = new_stream();
        gate_block(&gate, stream);
        aclrtStreamQuery(stream, &status);
        gate_wait_until_reached(&gate);
        assert_int_equal(pthread_create(&thread, NULL, destroy_blocked_stream, stream), 0);
        while (aclrtStreamQuery(stream, &status) == 0) {
            usleep(100);
        }
        DONE(aclrtLaunchHostFunc(opener, open_gate, &gate));
        aclrtStreamQuery(opener, &status);
        aclInit(NULL);
        DONE(round == 0 ? aclrtDestroyContext(shared_context) : aclFinalize());
        pthread_join(thread, &code);
        assert_null(code);
    }
}

/* --- without a context ----------------------------------------------------------------------------------- */

static void works_without_set_device(void **state)
{
    (void)state;
    struct journal journal = {0};
    struct entry entry = {&journal, 0};
    char bytes[4] = "";
    aclrtStreamStatus status;
    aclrtStream stream;
    DONE(aclrtLaunchHostFunc(NULL, write_entry, &entry)); /* at once: there is no stream */
    assert_int_equal(journal.count, 1);
    DONE(aclrtSynchronizeStream(NULL));
    DONE(aclrtStreamQuery(NULL, &status));
    assert_int_equal(status, ACL_STREAM_STATUS_COMPLETE);
    DONE(aclrtStreamAbort(NULL));
    DONE(aclrtMemcpyAsync(bytes, 4, "abc", 4, ACL_MEMCPY_HOST_TO_HOST, NULL));
    assert_string_equal(bytes, "abc");
    DONE(aclrtCreateStream(&stream));
    DONE(aclrtLaunchHostFunc(stream, write_entry, &entry));
    DONE(aclrtDestroyStream(stream));
    REFUSED(107002, aclrtSynchronizeDevice(), "aclrtSynchronizeDevice", "no context");
}

static void but_not_in_checked_mode(void **state)
{
    (void)state;
    void *memory;
    char bytes[4];
    aclrtStream stream;
    aclrtEvent event;
    test_set_mode(false, true);
    REFUSED(107002, aclrtLaunchHostFunc(NULL, write_entry, NULL), "the thread has no context");
    REFUSED(107002, aclrtSynchronizeStream(NULL), "the thread has no context");
    REFUSED(107002, aclrtCreateStream(&stream), "the thread has no context");
    REFUSED(107002, aclrtCreateEvent(&event), "the thread has no context");
    REFUSED(107002, aclrtMalloc(&memory, 4, ACL_MEM_MALLOC_HUGE_FIRST), "the thread has no context");
    REFUSED(107002, aclrtMemcpy(bytes, 4, bytes, 4, ACL_MEMCPY_DEFAULT), "the thread has no context");
    REFUSED(107002, aclrtMemset(bytes, 4, 0, 4), "the thread has no context");
}

#define IN_MODE(name, mode)                                                                                          \
    {                                                                                                                \
#        name "/" #        mode, name, begin_##mode, end, NULL                                                       \
    }
#define EVERYWHERE(name)   IN_MODE(name, sync), IN_MODE(name, async), IN_MODE(name, checked)
#define WITH_WORKERS(name) IN_MODE(name, async), IN_MODE(name, checked)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EVERYWHERE(tasks_run_in_order),
        EVERYWHERE(null_stream_is_the_default_one),
        EVERYWHERE(copies_are_ordered_with_other_tasks),
        EVERYWHERE(copies_of_ordinary_memory_are_over_at_return),
        EVERYWHERE(destroying_waits_for_queued_work),
        EVERYWHERE(synchronise_device_waits_for_all_streams),
        EVERYWHERE(reset_waits_for_queued_work),
        EVERYWHERE(bad_streams_are_refused),
        EVERYWHERE(a_stream_is_destroyed_in_its_own_context),
        EVERYWHERE(no_memory_for_the_default_context),
        EVERYWHERE(out_of_memory),
        EVERYWHERE(flags_and_priorities_are_accepted),
        IN_MODE(a_task_cannot_wait_for_its_own_stream, sync),
        EVERYWHERE(a_task_cannot_wait_for_what_waits_for_it),
        EVERYWHERE(a_task_cannot_reset_its_device),
        EVERYWHERE(ten_thousand_leave_nothing),
        EVERYWHERE(threads_with_streams_of_their_own),
        EVERYWHERE(tasks_of_one_stream_never_overlap),
        WITH_WORKERS(out_of_memory_for_a_task),
        WITH_WORKERS(submitting_returns_at_once_and_timeouts_expire),
        WITH_WORKERS(two_streams_overlap),
        WITH_WORKERS(abort_and_forced_destruction_drop_what_has_not_begun),
        WITH_WORKERS(finalize_ends_workers),
        WITH_WORKERS(two_threads_destroy_at_once),
        cmocka_unit_test_teardown(works_without_set_device, end),
        cmocka_unit_test_teardown(but_not_in_checked_mode, end),
    };
    return cmocka_run_group_tests_name("acl_stream", tests, NULL, NULL);
}
