/* labels: smoke ci */
/* Start and end, the device, contexts, options, settings, and what is not supported. */
#define _DEFAULT_SOURCE
#include "support/refused.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "aclgrad/aclgrad.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "runtime/handle.h"

static void *const stray = "not a handle";

static int teardown(void **state)
{
    (void)state;
    aclInit(NULL); /* so that there is something to end */
    aclFinalize();
    aclGetRecentErrMsg();
    test_set_mode(false, false);
    return ag_handle_count(AG_HANDLE_CONTEXT) + ag_handle_count(AG_HANDLE_STREAM) != 0;
}

/* --- start and end -------------------------------------------------------------------------------------- */

/* Must run first: "ever initialised" is a property of the process. */
static void finalize_before_any_init_is_fine(void **state)
{
    (void)state;
    DONE(aclFinalize());
    DONE(aclFinalize());
    REFUSED(100037, aclFinalizeReference(NULL), "aclFinalizeReference", "no reference is left");
}

static void init_counts_and_finalize_clears(void **state)
{
    (void)state;
    DONE(aclInit(NULL));
    REFUSED(100002, aclInit(NULL), "aclInit", "already initialised; this is reference 2");
    REFUSED(100002, aclInit(NULL), "reference 3");
    DONE(aclFinalize());
    REFUSED(100037, aclFinalize(), "aclFinalize", "already finalised");
    DONE(aclInit(NULL)); /* again */
    DONE(aclFinalize());
}

static void references_go_one_by_one(void **state)
{
    (void)state;
    uint64_t left = 7;
    DONE(aclInit(NULL));
    assert_int_equal(aclInit(NULL), 100002);
    DONE(aclFinalizeReference(&left));
    assert_int_equal(left, 1);
    DONE(aclFinalizeReference(NULL));
    REFUSED(100037, aclFinalizeReference(&left), "no reference is left");
    REFUSED(100037, aclFinalize(), "already finalised");
}

static void configuration_file_is_only_tried(void **state)
{
    (void)state;
    REFUSED(100003, aclInit("/no/such/file.json"), "configPath: cannot read \"/no/such/file.json\"");
    DONE(aclInit("/proc/self/cmdline")); /* readable, and not JSON */
    DONE(aclnnInit(NULL));
    DONE(aclnnInit("/proc/self/cmdline"));
    REFUSED(161002, aclnnInit("/no/such/file.json"), "aclnnInit", "configPath: cannot read");
    DONE(aclnnFinalize());
    DONE(aclnnFinalize());
}

static void bad_environment_is_refused(void **state)
{
    (void)state;
    static char bad[] = "ACLGRAD_LIMITS=some", good[] = "ACLGRAD_LIMITS=";
    putenv(bad);
    ag_config_reload();
    REFUSED(100000, aclInit(NULL), "aclInit: ACLGRAD_LIMITS: got \"some\", want documented or extended");
    REFUSED(161002, aclnnInit(NULL), "ACLGRAD_LIMITS: got \"some\"");
    putenv(good);
    ag_config_reload();
    DONE(aclInit(NULL));
}

static void finalize_cleans_up_what_is_left(void **state)
{
    (void)state;
    aclrtContext context;
    aclrtStream stream;
    aclrtEvent event;
    DONE(aclInit(NULL));
    DONE(aclrtSetDevice(0));
    const int64_t blocks = ag_alloc_live();
    DONE(aclrtCreateContext(&context, 0));
    DONE(aclrtCreateStream(&stream));
    DONE(aclrtCreateEvent(&event));
    DONE(aclFinalize());
    assert_true(ag_alloc_live() < blocks);
    DONE(aclrtResetDevice(0)); /* too late, and no complaint */
    REFUSED(107017, aclrtDestroyStream(stream), "stream: got a destroyed stream");
    REFUSED(107017, aclrtDestroyContext(context), "context: got a destroyed context");
    REFUSED(107017, aclrtDestroyEvent(event), "event: got a destroyed event");
}

static void message_is_handed_out_once(void **state)
{
    (void)state;
    assert_int_equal(aclrtSetDevice(5), 107001);
    const char *text = aclGetRecentErrMsg();
    assert_string_equal(text, "EZ1001: aclrtSetDevice: deviceId: got 5, want 0 (there is one device)");
    assert_null(aclGetRecentErrMsg());
}

static void *has_message(void *unused)
{
    (void)unused;
    return (void *)aclGetRecentErrMsg();
}

static void message_belongs_to_the_thread(void **state)
{
    (void)state;
    pthread_t thread;
    void *text = stray;
    assert_int_equal(aclrtSetDevice(5), 107001);
    pthread_create(&thread, NULL, has_message, NULL);
    pthread_join(thread, &text);
    assert_null(text);
    assert_non_null(aclGetRecentErrMsg());
}

/* --- the device ----------------------------------------------------------------------------------------- */

static void set_and_reset_are_counted(void **state)
{
    (void)state;
    int32_t device = 9;
    REFUSED(107002, aclrtGetDevice(&device), "aclrtGetDevice", "the thread has no context");
    assert_int_equal(device, 9);
    DONE(aclrtSetDevice(0));
    DONE(aclrtSetDevice(0));
    DONE(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
    REFUSED(100000, aclrtGetDevice(NULL), "deviceId: null");
    DONE(aclrtResetDevice(0));
    DONE(aclrtGetDevice(&device));
    DONE(aclrtResetDevice(0));
    REFUSED(107002, aclrtGetDevice(&device), "no context");
    DONE(aclrtResetDevice(0)); /* nothing to take back */
    DONE(aclrtSetDevice(0));
    DONE(aclrtSetDevice(0));
    DONE(aclrtResetDeviceForce(0));
    REFUSED(107002, aclrtGetDevice(&device), "no context");
}

static void there_is_one_device(void **state)
{
    (void)state;
    uint32_t count = 0;
    DONE(aclrtGetDeviceCount(&count));
    assert_int_equal(count, 1);
    REFUSED(100000, aclrtGetDeviceCount(NULL), "count: null");
    REFUSED(107001, aclrtSetDevice(1), "deviceId: got 1");
    REFUSED(107001, aclrtSetDevice(-1), "deviceId: got -1");
    REFUSED(107001, aclrtResetDevice(1), "aclrtResetDevice", "deviceId: got 1");
    REFUSED(107001, aclrtResetDeviceForce(1), "aclrtResetDeviceForce", "deviceId: got 1");
}

static void reset_destroys_the_streams_of_the_default_context_only(void **state)
{
    (void)state;
    aclrtStream mine, theirs;
    aclrtContext context;
    aclrtStreamStatus status;
    DONE(aclrtSetDevice(0));
    DONE(aclrtCreateStream(&mine));
    DONE(aclrtCreateContext(&context, 0));
    DONE(aclrtCreateStream(&theirs));
    DONE(aclrtResetDevice(0));
    REFUSED(107017, aclrtStreamQuery(mine, &status), "got a destroyed stream");
    DONE(aclrtStreamQuery(theirs, &status));
    DONE(aclrtDestroyContext(context));
    REFUSED(107017, aclrtStreamQuery(theirs, &status), "got a destroyed stream");
}

static void run_mode_name_memory(void **state)
{
    (void)state;
    static char other[] = "ACLGRAD_SOC_NAME=Ascend910_93", none[] = "ACLGRAD_SOC_NAME=";
    aclrtRunMode mode;
    size_t free_bytes = 0, total = 0;
    DONE(aclrtGetRunMode(&mode));
    assert_int_equal(mode, ACL_HOST);
    REFUSED(100000, aclrtGetRunMode(NULL), "runMode: null");
    assert_string_equal(aclrtGetSocName(), "Ascend910B1");
    putenv(other);
    assert_string_equal(aclrtGetSocName(), "Ascend910_93");
    putenv(none);
    assert_string_equal(aclrtGetSocName(), "Ascend910B1");
    DONE(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    assert_true(free_bytes > 0 && free_bytes <= total);
    REFUSED(100000, aclrtGetMemInfo(ACL_HBM_MEM, NULL, &total), "free: null");
    REFUSED(100000, aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, NULL), "total: null");
    REFUSED(100000, aclrtGetMemInfo((aclrtMemAttr)18, &free_bytes, &total), "attr: got 18, want 0 to 17");
}

/* --- contexts ------------------------------------------------------------------------------------------- */

static void created_context_is_current(void **state)
{
    (void)state;
    aclrtContext current = NULL, first, second;
    int32_t device;
    REFUSED(107002, aclrtGetCurrentContext(&current), "aclrtGetCurrentContext", "no context");
    DONE(aclrtCreateContext(&first, 0));
    DONE(aclrtCreateContext(&second, 0));
    DONE(aclrtGetCurrentContext(&current));
    assert_ptr_equal(current, second);
    DONE(aclrtSetCurrentContext(first));
    DONE(aclrtGetCurrentContext(&current));
    assert_ptr_equal(current, first);
    DONE(aclrtGetDevice(&device));
    DONE(aclrtDestroyContext(first));
    REFUSED(107002, aclrtGetCurrentContext(&current), "no context");
    REFUSED(107017, aclrtSetCurrentContext(first), "context: got a destroyed context, want a live context");
    DONE(aclrtDestroyContext(second));
}

static void bad_contexts_are_refused(void **state)
{
    (void)state;
    aclrtContext context, standard;
    aclrtStream stream;
    DONE(aclrtSetDevice(0));
    DONE(aclrtGetCurrentContext(&standard));
    REFUSED(100000, aclrtCreateContext(NULL, 0), "aclrtCreateContext", "context: null");
    REFUSED(107001, aclrtCreateContext(&context, 3), "deviceId: got 3");
    REFUSED(100000, aclrtDestroyContext(NULL), "aclrtDestroyContext", "context: null");
    REFUSED(107000, aclrtDestroyContext(standard), "context: the device's default one");
    REFUSED(100000, aclrtSetCurrentContext(NULL), "aclrtSetCurrentContext", "context: null");
    REFUSED(100000, aclrtGetCurrentContext(NULL), "context: null");
    DONE(aclrtCreateContext(&context, 0));
    DONE(aclrtCreateStream(&stream));
    REFUSED(107017, aclrtDestroyContext(&context), "got a pointer that is no handle");
    REFUSED(107017, aclrtDestroyContext(stream), "got a live stream, want a live context");
    REFUSED(107017, aclrtSetCurrentContext(stray), "got a pointer that is no handle");
    for (int64_t nth = 1; nth <= 2; ++nth) {
        const int64_t blocks = ag_alloc_live();
        ag_alloc_fail_at(nth);
        REFUSED(207001, aclrtCreateContext(&context, 0), "out of memory");
        assert_true(ag_alloc_has_failed());
        assert_int_equal(ag_alloc_live(), blocks);
    }
}

static void *current_of_another_thread(void *answer)
{
    aclrtContext current;
    *(int *)answer = aclrtGetCurrentContext(&current);
    return NULL;
}

static void current_context_belongs_to_the_thread(void **state)
{
    (void)state;
    pthread_t thread;
    int answer = 0;
    DONE(aclrtSetDevice(0));
    pthread_create(&thread, NULL, current_of_another_thread, &answer);
    pthread_join(thread, NULL);
    assert_int_equal(answer, 107002);
}

/* --- options -------------------------------------------------------------------------------------------- */

static void options_of_a_context(void **state)
{
    (void)state;
    int64_t value = 7;
    aclrtContext context;
    REFUSED(107002, aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), "aclrtCtxSetSysParamOpt", "no context");
    REFUSED(107002, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), "no context");
    DONE(aclrtSetDevice(0));
    REFUSED(107021, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), "opt: 0 was never set");
    DONE(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 3));
    DONE(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    assert_int_equal(value, 3);
    DONE(aclrtCreateContext(&context, 0)); /* another context, another value */
    REFUSED(107021, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), "never set");
    REFUSED(100000, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL), "value: null");
    REFUSED(100000, aclrtCtxSetSysParamOpt((aclSysParamOpt)3, 1), "opt: got 3, want 0 to 2");
    REFUSED(100000, aclrtCtxGetSysParamOpt((aclSysParamOpt)-1, &value), "opt: got -1");
}

static void options_of_the_process(void **state)
{
    (void)state;
    int64_t value = 7;
    DONE(aclInit(NULL));
    DONE(aclrtGetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, &value));
    assert_int_equal(value, 0);
    DONE(aclrtSetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, 1));
    DONE(aclrtGetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, &value));
    assert_int_equal(value, 1);
    REFUSED(100000, aclrtSetSysParamOpt((aclSysParamOpt)3, 1), "aclrtSetSysParamOpt", "opt: got 3");
    REFUSED(100000, aclrtGetSysParamOpt((aclSysParamOpt)3, &value), "opt: got 3");
    REFUSED(100000, aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL), "value: null");
    DONE(aclFinalize());
    DONE(aclrtGetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, &value));
    assert_int_equal(value, 0);
}

/* --- aclgrad.h ------------------------------------------------------------------------------------------ */

static void settings(void **state)
{
    (void)state;
    assert_non_null(strchr(aclgrad_version(), '.'));
    const int threads = aclgrad_get_threads();
    assert_true(threads >= 1);
    DONE(aclgrad_set_threads(3));
    assert_int_equal(aclgrad_get_threads(), 3);
    REFUSED(161002, aclgrad_set_threads(0), "aclgrad_set_threads", "threads: got 0, want 1 to 1024");
    REFUSED(161002, aclgrad_set_threads(1025), "threads: got 1025");
    assert_int_equal(aclgrad_get_threads(), 3);
    DONE(aclgrad_set_instruction_set("scalar"));
    assert_string_equal(aclgrad_get_instruction_set(), "scalar");
    REFUSED(161001, aclgrad_set_instruction_set(NULL), "name: null, want one of: scalar");
    REFUSED(161002, aclgrad_set_instruction_set("sse9"), "name: got \"sse9\", want one this CPU can run: scalar");
    assert_string_equal(aclgrad_get_instruction_set(), "scalar");
    for (int isa = 0; isa < AG_ISA_COUNT; ++isa) {
        const char *name = ag_isa_name((enum ag_isa)isa);
        assert_int_equal(aclgrad_set_instruction_set(name), ag_cpu_has_isa((enum ag_isa)isa) ? 0 : 161002);
    }
    assert_int_equal(aclgrad_get_limits(), ACLGRAD_LIMITS_DOCUMENTED);
    DONE(aclgrad_set_limits(ACLGRAD_LIMITS_EXTENDED));
    assert_int_equal(aclgrad_get_limits(), ACLGRAD_LIMITS_EXTENDED);
    REFUSED(161002, aclgrad_set_limits((aclgradLimits)2), "limits: got 2, want ACLGRAD_LIMITS_DOCUMENTED (0)");
    DONE(aclgrad_set_limits(ACLGRAD_LIMITS_DOCUMENTED));
    ag_config_reload();
    assert_int_equal(aclgrad_get_threads(), threads);
}

/* --- what a host does not offer --------------------------------------------------------------------------- */

static void unsupported_functions_say_so(void **state)
{
    (void)state;
    void *p = stray;
    int64_t value = 7;
    int32_t number = 7;
    const char *text = "not supported on a host";
    REFUSED(200006, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICORE_CORE_NUM, &value), "aclrtGetDeviceInfo", text);
    REFUSED(200006, aclrtGetVersion(&number, &number, &number), "aclrtGetVersion", text);
    REFUSED(200006, aclrtSetStreamFailureMode(NULL, ACL_STOP_ON_FAILURE), "aclrtSetStreamFailureMode", text);
    REFUSED(200006, aclrtMallocAlign32(&p, 4, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMallocAlign32", text);
    REFUSED(200006, aclrtMallocCached(&p, 4, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMallocCached", text);
    REFUSED(200006, aclrtMallocWithCfg(&p, 4, ACL_MEM_MALLOC_HUGE_FIRST, NULL), "aclrtMallocWithCfg", text);
    REFUSED(200006, aclrtHostRegister(&value, 8, ACL_HOST_REGISTER_MAPPED, &p), "aclrtHostRegister", text);
    REFUSED(200006, aclrtMemcpy2d(&value, 8, &number, 4, 4, 1, ACL_MEMCPY_HOST_TO_HOST), "aclrtMemcpy2d", text);
    REFUSED(200006, aclrtMemcpy2dAsync(&value, 8, &number, 4, 4, 1, ACL_MEMCPY_HOST_TO_HOST, NULL),
            "aclrtMemcpy2dAsync", text);
    REFUSED(200006, aclrtLaunchCallback(NULL, NULL, ACL_CALLBACK_BLOCK, NULL), "aclrtLaunchCallback", text);
    REFUSED(200006, aclrtSubscribeReport(1, NULL), "aclrtSubscribeReport", text);
    REFUSED(200006, aclrtProcessReport(1), "aclrtProcessReport", text);
    REFUSED(200006, aclrtUnSubscribeReport(1, NULL), "aclrtUnSubscribeReport", text);
    REFUSED(200006, aclDumpOpTensors("op", "name", NULL, 0, 0, NULL), "aclDumpOpTensors", text);
    assert_ptr_equal(p, stray);
    assert_int_equal(value, 7);
    assert_int_equal(number, 7);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finalize_before_any_init_is_fine),
        TEST(init_counts_and_finalize_clears),
        TEST(references_go_one_by_one),
        TEST(configuration_file_is_only_tried),
        TEST(bad_environment_is_refused),
        TEST(finalize_cleans_up_what_is_left),
        TEST(message_is_handed_out_once),
        TEST(message_belongs_to_the_thread),
        TEST(set_and_reset_are_counted),
        TEST(there_is_one_device),
        TEST(reset_destroys_the_streams_of_the_default_context_only),
        TEST(run_mode_name_memory),
        TEST(created_context_is_current),
        TEST(bad_contexts_are_refused),
        TEST(current_context_belongs_to_the_thread),
        TEST(options_of_a_context),
        TEST(options_of_the_process),
        TEST(settings),
        TEST(unsupported_functions_say_so),
    };
    return cmocka_run_group_tests_name("acl_device", tests, NULL, NULL);
}
