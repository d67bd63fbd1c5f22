/* labels: smoke ci forks */
/* A host program that forks: the child goes on with a run time that works, whatever the parent was doing. */
#define _DEFAULT_SOURCE
#include "support/refused.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "support/gate.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define HAS_SANITIZER
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#        define HAS_SANITIZER
#    endif
#endif

static int end(void **state)
{
    (void)state;
    test_set_mode(false, false);
    aclInit(NULL);
    aclFinalize();
    aclGetRecentErrMsg();
    return 0;
}

/* Runs `child` in a child; it returns a nonzero line number when something is wrong. 60 seconds at most. */
static void in_child(int (*child)(void *), void *argument)
{
    int status;
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        test_exit_child(child(argument) ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, 0);
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define CHECK(condition)                                                                                             \
    if (!(condition)) {                                                                                              \
        fprintf(stderr, "child: line %d: %s\n", __LINE__, #condition);                                               \
        return __LINE__;                                                                                             \
    }

struct inherited {
    aclrtStream stream;
    aclrtEvent event;
    void *memory;
};

static int use_everything(void *argument)
{
    const struct inherited *from = argument;
    char bytes[4] = "";
    aclrtStream stream;
    aclrtEvent event;
    aclrtContext context;
    void *memory;
    CHECK(aclrtSynchronizeStream(from->stream) == 0);
    CHECK(aclrtSynchronizeEvent(from->event) == 0);
    CHECK(aclrtMemsetAsync(bytes, 4, 'x', 3, from->stream) == 0);
    CHECK(aclrtSynchronizeStream(from->stream) == 0);
    CHECK(strcmp(bytes, "xxx") == 0);
    CHECK(aclrtCreateStream(&stream) == 0);
    CHECK(aclrtCreateEvent(&event) == 0);
    CHECK(aclrtMemsetAsync(bytes, 4, 'y', 3, stream) == 0);
    CHECK(aclrtRecordEvent(event, stream) == 0);
    CHECK(aclrtStreamWaitEvent(from->stream, event) == 0);
    CHECK(aclrtSynchronizeDevice() == 0);
    CHECK(strcmp(bytes, "yyy") == 0);
    CHECK(aclrtMalloc(&memory, 3000000, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
    CHECK(aclrtFree(memory) == 0);
    CHECK(aclrtFree(from->memory) == 0);
    CHECK(aclrtCreateContext(&context, 0) == 0);
    CHECK(aclrtDestroyContext(context) == 0);
    CHECK(aclrtDestroyEvent(from->event) == 0);
    CHECK(aclFinalize() == 0);
    CHECK(aclInit(NULL) == 0);
    CHECK(aclrtSetDevice(0) == 0);
    CHECK(aclrtResetDevice(0) == 0);
    return 0;
}

static struct inherited make(bool is_async)
{
    struct inherited made;
    test_set_mode(is_async, false);
    assert_true(aclInit(NULL) == 0);
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateStream(&made.stream));
    DONE(aclrtCreateEvent(&made.event));
    DONE(aclrtRecordEvent(made.event, made.stream));
    DONE(aclrtMalloc(&made.memory, 100, ACL_MEM_MALLOC_HUGE_FIRST));
    return made;
}

static void give_back(const struct inherited *made)
{
    DONE(aclrtSynchronizeStream(made->stream));
    DONE(aclrtDestroyStream(made->stream));
    DONE(aclrtDestroyEvent(made->event));
    DONE(aclrtFree(made->memory));
}

static void child_of_a_synchronous_program(void **state)
{
    (void)state;
    struct inherited made = make(false);
    in_child(use_everything, &made);
    give_back(&made);
}

static void child_of_a_program_with_workers(void **state)
{
    (void)state;
    struct inherited made = make(true);
    DONE(aclrtSynchronizeStream(made.stream));
    in_child(use_everything, &made);
    give_back(&made);
}

/* The parent's worker stands at a gate with work behind it: that work is the parent's, not the child's. */
static void child_of_a_program_that_is_busy(void **state)
{
    (void)state;
    struct gate gate = gate_closed();
    char bytes[4] = "";
    struct inherited made = make(true);
    gate_block(&gate, made.stream);
    gate_wait_until_reached(&gate);
    DONE(aclrtMemsetAsync(bytes, 4, 'z', 3, made.stream));
    DONE(aclrtRecordEvent(made.event, made.stream));
    in_child(use_everything, &made);
    gate_open(&gate);
    give_back(&made);
    assert_string_equal(bytes, "zzz");
}

/* --- a system at its limits ------------------------------------------------------------------------------- */

#if !defined(HAS_SANITIZER)
static void write_one(void *value)
{
    *(int *)value = 1;
}

/* Leaves so many bytes of address space; the limit before. */
static struct rlimit leave_room(rlim_t bytes)
{
    long pages = 0;
    struct rlimit usual, tight;
    FILE *file = fopen("/proc/self/statm", "r");
    getrlimit(RLIMIT_AS, &usual);
    if (file && fscanf(file, "%ld", &pages) == 1) {
        tight = usual;
        tight.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
        setrlimit(RLIMIT_AS, &tight);
        fclose(file);
    }
    return usual;
}

/* Address space for a little memory, but not for the stack of a thread. */
static int work_without_threads(void *unused)
{
    int value = 0;
    aclrtStream stream;
    (void)unused;
    test_set_mode(true, false);
    CHECK(aclrtCreateStream(&stream) == 0);
    const struct rlimit usual = leave_room(1 << 20);
    CHECK(aclrtLaunchHostFunc(stream, write_one, &value) == 207008);
    CHECK(strstr(aclGetRecentErrMsg(), "EZ9999: aclrtLaunchHostFunc: stream: no thread for it"));
    CHECK(aclrtSynchronizeStream(stream) == 0 && value == 0); /* nothing was queued */
    CHECK(setrlimit(RLIMIT_AS, &usual) == 0);
    CHECK(aclrtLaunchHostFunc(stream, write_one, &value) == 0); /* it is tried again */
    CHECK(aclrtDestroyStream(stream) == 0 && value == 1);
    return 0;
}

/* Where an allocation's slack does not fit, a smaller one does; where the memory itself does not, it is an error. */
static int allocate_in_little_room(void *unused)
{
    enum { MIB = 1 << 20 };
    void *memory, *none = NULL;
    char byte;
    (void)unused;
    const struct rlimit usual = leave_room(40 * MIB);
    CHECK(aclrtMalloc(&memory, 24 * MIB, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
    CHECK(aclrtMemcpy(&byte, 1, (char *)memory + 24 * MIB, 1, ACL_MEMCPY_DEVICE_TO_HOST) == 0 && byte == 0);
    CHECK(aclrtMemcpy(&byte, 1, (char *)memory + 25 * MIB, 1, ACL_MEMCPY_DEVICE_TO_HOST) == 0);
    CHECK(aclrtMalloc(&none, 24 * MIB, ACL_MEM_MALLOC_HUGE_FIRST) == 207001 && !none);
    CHECK(strstr(aclGetRecentErrMsg(), "size: no memory for 25165824 bytes"));
    CHECK(aclrtFree(memory) == 0);
    CHECK(setrlimit(RLIMIT_AS, &usual) == 0);
    return 0;
}

static void little_room_for_an_allocation(void **state)
{
    (void)state;
    in_child(allocate_in_little_room, NULL);
}

/* Must run first: stacks of former threads would be used again. */
static void no_thread_for_a_stream(void **state)
{
    (void)state;
    in_child(work_without_threads, NULL);
}
#endif

/* --- forks while other threads hold the locks ------------------------------------------------------------ */

#if !defined(HAS_SANITIZER)
static _Atomic bool is_over;

static void *keep_busy(void *unused)
{
    (void)unused;
    aclrtSetDevice(0);
    while (!is_over) {
        char bytes[4];
        void *memory;
        aclrtStream stream;
        aclrtCreateStream(&stream);
        aclrtMemsetAsync(bytes, 4, 1, 4, stream);
        if (aclrtMalloc(&memory, 100, ACL_MEM_MALLOC_HUGE_FIRST) == 0) {
            aclrtFree(memory);
        }
        aclrtDestroyStream(stream);
    }
    aclrtResetDevice(0);
    return NULL;
}

static int use_briefly(void *unused)
{
    char bytes[4] = "";
    aclrtStream stream;
    (void)unused;
    CHECK(aclrtCreateStream(&stream) == 0);
    CHECK(aclrtMemsetAsync(bytes, 4, 'x', 3, stream) == 0);
    CHECK(aclrtSynchronizeStream(stream) == 0);
    CHECK(strcmp(bytes, "xxx") == 0);
    CHECK(aclrtDestroyStream(stream) == 0);
    return 0;
}

static void fork_at_any_moment(void **state)
{
    (void)state;
    pthread_t threads[2];
    DONE(aclrtSetDevice(0));
    for (int mode = 0; mode < 2; ++mode) {
        test_set_mode(mode == 1, false);
        is_over = false;
        for (int i = 0; i < 2; ++i) {
            assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, NULL), 0);
        }
        for (int i = 0; i < 100; ++i) {
            in_child(use_briefly, NULL);
        }
        is_over = true;
        for (int i = 0; i < 2; ++i) {
            pthread_join(threads[i], NULL);
        }
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if !defined(HAS_SANITIZER) /* whose own memory does not fit into a limit */
        cmocka_unit_test_teardown(no_thread_for_a_stream, end),
        cmocka_unit_test_teardown(little_room_for_an_allocation, end),
#endif
        cmocka_unit_test_teardown(child_of_a_synchronous_program, end),
        cmocka_unit_test_teardown(child_of_a_program_with_workers, end),
        cmocka_unit_test_teardown(child_of_a_program_that_is_busy, end),
#if !defined(HAS_SANITIZER) /* whose own allocator locks do not survive a fork among busy threads */
        cmocka_unit_test_teardown(fork_at_any_moment, end),
#endif
    };
    return cmocka_run_group_tests_name("acl_fork", tests, NULL, NULL);
}
