/* labels: smoke ci threads */
/* Events: recording, waiting across streams, times. */
#define _DEFAULT_SOURCE
#include "support/refused.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "base/memory.h"
#include "runtime/handle.h"
#include "support/gate.h"

static int end(void **state)
{
    (void)state;
    test_set_mode(false, false);
    aclInit(NULL);
    aclFinalize();
    aclGetRecentErrMsg();
    return ag_handle_count(AG_HANDLE_EVENT) + ag_handle_count(AG_HANDLE_STREAM) != 0;
}

static int begin_sync(void **state)
{
    (void)state;
    test_set_mode(false, false);
    return aclrtSetDevice(0);
}

static int begin_async(void **state)
{
    (void)state;
    test_set_mode(true, false);
    return aclrtSetDevice(0);
}

static int begin_checked(void **state)
{
    (void)state;
    test_set_mode(true, true);
    return aclrtSetDevice(0);
}

static aclrtEvent new_event(void)
{
    aclrtEvent event = NULL;
    assert_int_equal(aclrtCreateEvent(&event), 0);
    assert_non_null(event);
    return event;
}

static aclrtStream new_stream(void)
{
    aclrtStream stream = NULL;
    assert_int_equal(aclrtCreateStream(&stream), 0);
    return stream;
}

static void assert_reached(aclrtEvent event, bool is_reached)
{
    aclrtEventRecordedStatus recorded;
    aclrtEventStatus old;
    assert_int_equal(aclrtQueryEventStatus(event, &recorded), 0);
    assert_int_equal(recorded, is_reached ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY);
    assert_int_equal(aclrtQueryEvent(event, &old), 0);
    assert_int_equal(old, is_reached ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY);
}

/* --- in every mode --------------------------------------------------------------------------------------- */

static void recorded_and_synchronised(void **state)
{
    (void)state;
    char bytes[4] = "";
    aclrtEvent event = new_event();
    aclrtStream stream = new_stream();
    DONE(aclrtSynchronizeEvent(event)); /* never recorded: nothing to wait for */
    DONE(aclrtStreamWaitEvent(stream, event));
    assert_reached(event, false);
    DONE(aclrtMemsetAsync(bytes, 4, 'x', 3, stream));
    DONE(aclrtRecordEvent(event, stream));
    DONE(aclrtSynchronizeEvent(event));
    assert_string_equal(bytes, "xxx");
    assert_reached(event, true);
    DONE(aclrtSynchronizeEventWithTimeout(event, 0));
    DONE(aclrtResetEvent(event, stream));
    assert_reached(event, false);
    DONE(aclrtRecordEvent(event, NULL)); /* the default stream */
    DONE(aclrtSynchronizeEventWithTimeout(event, -1));
    assert_reached(event, true);
    DONE(aclrtDestroyEvent(event));
    DONE(aclrtDestroyStream(stream));
}

static void sleep_a_little(void *unused)
{
    (void)unused;
    usleep(20000);
}

static void elapsed_time(void **state)
{
    (void)state;
    float milliseconds = -1;
    uint64_t start_us = 0, stop_us = 0;
    aclrtEvent start = new_event(), stop = new_event();
    aclrtStream stream = new_stream();
    DONE(aclrtRecordEvent(start, stream));
    DONE(aclrtLaunchHostFunc(stream, sleep_a_little, NULL));
    DONE(aclrtRecordEvent(stop, stream));
    DONE(aclrtSynchronizeStream(stream));
    DONE(aclrtEventElapsedTime(&milliseconds, start, stop));
    assert_true(milliseconds >= 20 && milliseconds < 10000);
    DONE(aclrtEventGetTimestamp(start, &start_us));
    DONE(aclrtEventGetTimestamp(stop, &stop_us));
    assert_true(start_us > 0 && stop_us >= start_us + 20000);
    REFUSED(107007, aclrtEventElapsedTime(&milliseconds, stop, start), "aclrtEventElapsedTime", "endEvent: lies");
    DONE(aclrtDestroyEvent(start));
    DONE(aclrtDestroyEvent(stop));
    DONE(aclrtDestroyStream(stream));
}

static void times_that_do_not_exist(void **state)
{
    (void)state;
    float milliseconds;
    uint64_t us;
    aclrtEvent with = new_event(), without;
    DONE(aclrtCreateEventWithFlag(&without, ACL_EVENT_SYNC));
    DONE(aclrtRecordEvent(without, NULL));
    DONE(aclrtSynchronizeEvent(without));
    REFUSED(107006, aclrtEventElapsedTime(&milliseconds, without, with),
            "startEvent: made without ACL_EVENT_TIME_LINE");
    REFUSED(107006, aclrtEventElapsedTime(&milliseconds, with, without), "startEvent: never recorded");
    REFUSED(107006, aclrtEventGetTimestamp(with, &us), "event: never recorded");
    REFUSED(107006, aclrtEventGetTimestamp(without, &us), "event: made without ACL_EVENT_TIME_LINE");
    DONE(aclrtDestroyEvent(without));
    DONE(aclrtCreateEventExWithFlag(&without, ACL_EVENT_TIME_LINE)); /* with, in fact */
    DONE(aclrtRecordEvent(without, NULL));
    DONE(aclrtSynchronizeEvent(without));
    DONE(aclrtEventGetTimestamp(without, &us));
    DONE(aclrtDestroyEvent(without));
    DONE(aclrtDestroyEvent(with));
}

static void bad_events_are_refused(void **state)
{
    (void)state;
    aclrtEvent event = new_event(), created;
    aclrtStream stream = new_stream();
    aclrtEventRecordedStatus recorded;
    aclrtEventStatus old;
    aclrtEventWaitStatus waits;
    float milliseconds;
    uint64_t us;
    REFUSED(100000, aclrtCreateEvent(NULL), "aclrtCreateEvent", "event: null");
    REFUSED(100000, aclrtCreateEventWithFlag(NULL, 1), "aclrtCreateEventWithFlag", "event: null");
    REFUSED(100000, aclrtCreateEventExWithFlag(NULL, 1), "aclrtCreateEventExWithFlag", "event: null");
    REFUSED(107000, aclrtCreateEventWithFlag(&created, 4), "flag: got 0x4, want a set of ACL_EVENT_*");
    REFUSED(107000, aclrtCreateEventExWithFlag(&created, 0x80), "flag: got 0x80");
    void *const wrong[] = {NULL, &event, stream, "text"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        const int code = wrong[i] ? 107017 : 100000;
        REFUSED(code, aclrtDestroyEvent(wrong[i]), "aclrtDestroyEvent", "event: ");
        REFUSED(code, aclrtRecordEvent(wrong[i], stream), "aclrtRecordEvent", "event: ");
        REFUSED(code, aclrtResetEvent(wrong[i], stream), "aclrtResetEvent", "event: ");
        REFUSED(code, aclrtStreamWaitEvent(stream, wrong[i]), "aclrtStreamWaitEvent", "event: ");
        REFUSED(code, aclrtSynchronizeEvent(wrong[i]), "aclrtSynchronizeEvent", "event: ");
        REFUSED(code, aclrtSynchronizeEventWithTimeout(wrong[i], 1), "event: ");
        REFUSED(code, aclrtQueryEventStatus(wrong[i], &recorded), "aclrtQueryEventStatus", "event: ");
        REFUSED(code, aclrtQueryEvent(wrong[i], &old), "aclrtQueryEvent", "event: ");
        REFUSED(code, aclrtQueryEventWaitStatus(wrong[i], &waits), "aclrtQueryEventWaitStatus", "event: ");
        REFUSED(code, aclrtEventElapsedTime(&milliseconds, wrong[i], event), "startEvent: ");
        REFUSED(code, aclrtEventGetTimestamp(wrong[i], &us), "aclrtEventGetTimestamp", "event: ");
    }
    REFUSED(107017, aclrtRecordEvent(event, &stream), "stream: got a pointer that is no handle");
    REFUSED(107017, aclrtResetEvent(event, &stream), "stream: got a pointer that is no handle");
    REFUSED(107017, aclrtStreamWaitEvent(event, event), "stream: got a live event, want a live stream");
    REFUSED(100000, aclrtQueryEventStatus(event, NULL), "status: null");
    REFUSED(100000, aclrtQueryEvent(event, NULL), "status: null");
    REFUSED(100000, aclrtQueryEventWaitStatus(event, NULL), "status: null");
    REFUSED(100000, aclrtEventElapsedTime(NULL, event, event), "ms: null");
    REFUSED(100000, aclrtEventGetTimestamp(event, NULL), "timestamp: null");
    REFUSED(107000, aclrtSynchronizeEventWithTimeout(event, -2), "timeout: got -2, want -1 or more");
    DONE(aclrtDestroyEvent(event));
    REFUSED(107017, aclrtDestroyEvent(event), "event: got a destroyed event");
    DONE(aclrtDestroyStream(stream));
}

static void out_of_memory(void **state)
{
    (void)state;
    aclrtEvent event;
    aclrtStream stream = new_stream();
    DONE(aclrtCreateEvent(&event));
    const int64_t blocks = ag_alloc_live();
    ag_alloc_fail_at(1);
    REFUSED(207001, aclrtCreateEvent(&event), "out of memory for an event");
    ag_alloc_fail_at(1);
    REFUSED(207001, aclrtRecordEvent(event, stream), "out of memory");
    assert_int_equal(ag_alloc_live(), blocks);
    DONE(aclrtDestroyEvent(event));
    DONE(aclrtDestroyStream(stream));
}

static void ten_thousand_leave_nothing(void **state)
{
    (void)state;
    aclrtStream stream = new_stream();
    DONE(aclrtDestroyEvent(new_event()));
    const int64_t blocks = ag_alloc_live();
    for (int i = 0; i < 10000; ++i) {
        aclrtEvent event = new_event();
        DONE(aclrtRecordEvent(event, stream));
        DONE(aclrtRecordEvent(event, stream));
        DONE(aclrtStreamWaitEvent(stream, event));
        DONE(aclrtDestroyEvent(event)); /* before completion */
    }
    DONE(aclrtSynchronizeStream(stream));
    assert_int_equal(ag_alloc_live(), blocks);
    DONE(aclrtDestroyStream(stream));
}

/* --- with workers ---------------------------------------------------------------------------------------- */

static void *device_memory(void)
{
    void *memory = NULL;
    assert_int_equal(aclrtMalloc(&memory, 4, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    return memory;
}

static void a_stream_waits_for_another(void **state)
{
    (void)state;
    struct gate gate = gate_closed();
    aclrtEventWaitStatus waits;
    aclrtStreamStatus status;
    aclrtStream first = new_stream(), second = new_stream();
    aclrtEvent event = new_event();
    char *target = device_memory(), *copy = device_memory();
    memcpy(copy, "???", 4);
    gate_block(&gate, first);
    DONE(aclrtMemsetAsync(target, 4, 'x', 3, first));
    DONE(aclrtRecordEvent(event, first));
    DONE(aclrtStreamWaitEvent(second, event));
    DONE(aclrtMemcpyAsync(copy, 4, target, 4, ACL_MEMCPY_HOST_TO_HOST, second));
    DONE(aclrtQueryEventWaitStatus(event, &waits));
    assert_int_equal(waits, ACL_EVENT_WAIT_STATUS_NOT_READY);
    assert_reached(event, false);
    REFUSED(507047, aclrtSynchronizeEventWithTimeout(event, 20), "event: not reached after 20 ms");
    REFUSED(507046, aclrtSynchronizeStreamWithTimeout(second, 20), "stream: not finished");
    assert_string_equal(copy, "???");
    DONE(aclrtStreamQuery(second, &status));
    assert_int_equal(status, ACL_STREAM_STATUS_NOT_READY);
    gate_open(&gate);
    DONE(aclrtSynchronizeStream(second));
    assert_string_equal(copy, "xxx");
    DONE(aclrtQueryEventWaitStatus(event, &waits));
    assert_int_equal(waits, ACL_EVENT_WAIT_STATUS_COMPLETE);
    DONE(aclrtFree(target));
    DONE(aclrtFree(copy));
    DONE(aclrtDestroyEvent(event));
    DONE(aclrtDestroyStream(first));
    DONE(aclrtDestroyStream(second));
}

static void a_wait_is_for_the_point_at_the_time_of_the_call(void **state)
{
    (void)state;
    struct gate gate = gate_closed();
    aclrtStream first = new_stream(), second = new_stream();
    aclrtEvent event = new_event();
    DONE(aclrtRecordEvent(event, first));
    DONE(aclrtStreamWaitEvent(second, event));
    gate_block(&gate, first);
    DONE(aclrtRecordEvent(event, first)); /* moves on, behind the gate */
    DONE(aclrtSynchronizeStream(second));
    assert_reached(event, false);
    DONE(aclrtDestroyEvent(event)); /* although its point is not reached */
    gate_open(&gate);
    DONE(aclrtDestroyStream(first));
    DONE(aclrtDestroyStream(second));
}

/* Late enough for the test to have dropped what waits behind the gate. */
static void open_gate(void *gate)
{
    usleep(50000);
    gate_open(gate);
}

/* A dropped record must not leave anybody waiting for ever; it has no time. */
static void a_dropped_record_lets_waiters_go(void **state)
{
    (void)state;
    struct gate gate = gate_closed();
    aclrtStreamStatus status;
    uint64_t us;
    aclrtStream first = new_stream(), second = new_stream(), opener = new_stream();
    aclrtEvent event = new_event();
    gate_block(&gate, first);
    aclrtStreamQuery(first, &status); /* in checked mode the worker begins when somebody asks */
    gate_wait_until_reached(&gate);
    DONE(aclrtRecordEvent(event, first));
    DONE(aclrtStreamWaitEvent(second, event));
    DONE(aclrtLaunchHostFunc(opener, open_gate, &gate));
    aclrtStreamQuery(opener, &status);
    DONE(aclrtDestroyStreamForce(first));
    DONE(aclrtSynchronizeStream(second));
    DONE(aclrtSynchronizeEvent(event));
    REFUSED(107006, aclrtEventGetTimestamp(event, &us), "event: not reached yet");
    DONE(aclrtDestroyEvent(event));
    DONE(aclrtDestroyStream(second));
    DONE(aclrtDestroyStream(opener));
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
        EVERYWHERE(recorded_and_synchronised),
        EVERYWHERE(elapsed_time),
        EVERYWHERE(times_that_do_not_exist),
        EVERYWHERE(bad_events_are_refused),
        EVERYWHERE(out_of_memory),
        EVERYWHERE(ten_thousand_leave_nothing),
        WITH_WORKERS(a_stream_waits_for_another),
        WITH_WORKERS(a_wait_is_for_the_point_at_the_time_of_the_call),
        WITH_WORKERS(a_dropped_record_lets_waiters_go),
    };
    return cmocka_run_group_tests_name("acl_event", tests, NULL, NULL);
}
