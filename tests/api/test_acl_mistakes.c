/* labels: smoke ci */
/* Programs in the wild make these mistakes and work on the device: none may crash here. And what checked mode says
 * about them. */
#define _DEFAULT_SOURCE
#include "support/refused.h"

#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "runtime/handle.h"

static int end(void **state)
{
    (void)state;
    test_set_mode(false, false);
    aclInit(NULL);
    aclFinalize();
    aclGetRecentErrMsg();
    return 0;
}

/* Addresses of the variables instead of the handles, everything in the wrong order, and all of it left behind. */
static void addresses_of_handles(void **state)
{
    (void)state;
    aclrtContext context;
    aclrtStream stream;
    aclrtEvent event;
    DONE(aclInit(NULL));
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateContext(&context, 0));
    DONE(aclrtSetCurrentContext(context));
    DONE(aclrtCreateStream(&stream));
    DONE(aclrtCreateEvent(&event));
    REFUSED(107017, aclrtDestroyStream(&stream), "a pointer that is no handle of this library");
    REFUSED(107017, aclrtDestroyContext(&context), "a pointer that is no handle of this library");
    REFUSED(107017, aclrtDestroyEvent(&event), "a pointer that is no handle of this library");
    DONE(aclrtResetDevice(0));
    DONE(aclFinalize());
    assert_int_equal(ag_handle_count(AG_HANDLE_STREAM), 0);
    assert_int_equal(ag_handle_count(AG_HANDLE_CONTEXT), 0);
    assert_int_equal(ag_handle_count(AG_HANDLE_EVENT), 0);
}

static void printing_halves_as_floats(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static aclFloat16 halves[COUNT];
    static float printed[COUNT];
    void *device;
    for (int i = 0; i < COUNT; ++i) {
        halves[i] = aclFloatToFloat16(1.0f);
        printed[i] = 5.0f;
    }
    DONE(aclrtMalloc(&device, sizeof halves, ACL_MEM_MALLOC_HUGE_FIRST));
    DONE(aclrtMemcpy(device, sizeof halves, halves, sizeof halves, ACL_MEMCPY_HOST_TO_DEVICE));
    DONE(aclrtMemcpy(printed, sizeof printed, device, COUNT * sizeof(float), ACL_MEMCPY_DEVICE_TO_HOST));
    assert_memory_equal(printed, halves, sizeof halves);
    for (int i = COUNT / 2; i < COUNT; ++i) {
        assert_true(printed[i] == 0.0f);
    }
    DONE(aclrtFree(device));
}

static void leaks_end_quietly(void **state)
{
    (void)state;
    void *memory;
    aclrtStream stream;
    DONE(aclInit(NULL));
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateStream(&stream));
    DONE(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    aclIntArray *array = aclCreateIntArray((int64_t[]){1, 5}, 2); /* "range": never destroyed */
    aclTensor *tensor = aclCreateTensor((int64_t[]){4}, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, memory);
    DONE(aclFinalize());
    DONE(aclDestroyIntArray(array)); /* still there after the end */
    DONE(aclDestroyTensor(tensor));
    DONE(aclrtFree(memory));
}

static void no_init_and_wrong_order_of_the_end(void **state)
{
    (void)state;
    void *memory;
    aclrtStream stream;
    char bytes[4] = "abc";
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateStream(&stream));
    DONE(aclrtMalloc(&memory, 4, ACL_MEM_MALLOC_HUGE_FIRST));
    DONE(aclrtMemcpyAsync(memory, 4, bytes, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    DONE(aclrtSynchronizeStream(stream));
    assert_string_equal(memory, "abc");
    DONE(aclrtDestroyStream(stream));
    DONE(aclrtFree(memory));
    DONE(aclInit(NULL));
    DONE(aclFinalize());
    DONE(aclrtResetDevice(0));
    REFUSED(100000, aclrtFree(NULL), "devPtr: null"); /* the workspace was 0 */
    DONE(aclDestroyTensor(NULL));
}

/* --- checked mode ---------------------------------------------------------------------------------------- */

/* What the calls write on stderr. */
static void capture(void (*calls)(void), char *text, size_t bytes)
{
    const struct test_stderr kept = test_stderr_begin();
    calls();
    test_stderr_end(kept, text, bytes);
}

static void *left_memory;
static aclTensor *left_tensor;

static void leave_things(void)
{
    aclrtStream stream;
    aclrtEvent event;
    aclInit(NULL);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
    aclrtCreateEvent(&event);
    aclrtMalloc(&left_memory, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    left_tensor = aclCreateTensor((int64_t[]){4}, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, NULL);
    aclFinalize();
}

static void leave_nothing(void)
{
    aclInit(NULL);
    aclrtSetDevice(0);
    aclrtResetDevice(0);
    aclFinalize();
}

static void checked_mode_tells_what_is_left(void **state)
{
    (void)state;
    char text[1024];
    test_set_mode(false, true);
    capture(leave_things, text, sizeof text);
    assert_string_equal(
        text, "aclgrad: aclFinalize: not given back: 1 x stream, 1 x event, 1 x tensor, 1 x allocation (64 bytes)\n");
    DONE(aclrtFree(left_memory));
    DONE(aclDestroyTensor(left_tensor));
    capture(leave_nothing, text, sizeof text);
    assert_string_equal(text, "");
}

static void log_errors(void)
{
    ACL_APP_LOG(ACL_INFO, "nothing %d", 1);
    ACL_APP_LOG(ACL_ERROR, "count is %d, want %s", 3, "four");
    ACL_APP_LOG(ACL_ERROR, "no arguments");
    aclAppLog(ACL_ERROR, NULL, NULL, 7, NULL);
    aclAppLog(ACL_ERROR, NULL, NULL, 7, "x");
}

static void the_programs_own_log(void **state)
{
    (void)state;
    char text[1024];
    capture(log_errors, text, sizeof text);
    assert_null(strstr(text, "nothing"));
    assert_non_null(strstr(text, "test_acl_mistakes.c:"));
    assert_non_null(strstr(text, "log_errors: count is 3, want four\n"));
    assert_non_null(strstr(text, "log_errors: no arguments\n"));
    assert_non_null(strstr(text, "?:7 ?: x\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(addresses_of_handles, end),
        cmocka_unit_test_teardown(printing_halves_as_floats, end),
        cmocka_unit_test_teardown(leaks_end_quietly, end),
        cmocka_unit_test_teardown(no_init_and_wrong_order_of_the_end, end),
        cmocka_unit_test_teardown(checked_mode_tells_what_is_left, end),
        cmocka_unit_test_teardown(the_programs_own_log, end),
    };
    return cmocka_run_group_tests_name("acl_mistakes", tests, NULL, NULL);
}
