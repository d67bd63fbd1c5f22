/* labels: ci */
/* Every allocation of the library fails once: a status with a message comes back, nothing is written, nothing is
 * leaked. */
#include "support/operators.h"

#include <string.h>

#include "base/memory.h"
#include "runtime/handle.h"

enum { UNTOUCHED = 0x5a, MOST_ALLOCATIONS = 500 };

static int64_t live_handles(void)
{
    int64_t count = 0;
    for (int kind = 1; kind < AG_HANDLE_KINDS; ++kind) {
        count += ag_handle_count((enum ag_handle_kind)kind);
    }
    return count;
}

static void assert_told(const char *what, int64_t nth)
{
    const char *message = aclGetRecentErrMsg();
    if (!message || !message[0]) {
        fail_msg("%s: no message when allocation %lld fails", what, (long long)nth);
    }
}

/* --- the operators --------------------------------------------------------------------------------------- */

/* Phase 2 of a call whose first phase succeeded. A failure there must come before anything is written. */
static void check_phase2(struct test_operators *all, enum test_operator op, uint64_t size, aclOpExecutor *executor,
                         int64_t nth)
{
    struct test_buffer workspace = test_buffer_create(size + 1, 1);
    const aclnnStatus status = test_operators_phase2(op, workspace.data, size, executor, NULL);
    const bool has_failed = ag_alloc_has_failed();
    ag_alloc_fail_at(0);
    if (status != 0) {
        assert_true(has_failed);
        assert_told(test_operator_name(op), nth);
        assert_true(test_operators_outputs_are(all, op, UNTOUCHED));
    }
    test_buffer_destroy(&workspace);
}

/* Returns whether the nth allocation was reached. A call that succeeds all the same must be right. */
static bool check_call(struct test_operators *all, const struct test_operators *good, enum test_operator op,
                       int64_t nth)
{
    uint64_t size = UINT64_C(0x5a5a5a5a5a5a5a5a);
    aclOpExecutor *executor = (aclOpExecutor *)(uintptr_t)0x5a5a;
    const int64_t blocks = ag_alloc_live(), handles = live_handles();
    test_operators_fill_outputs(all, op, UNTOUCHED);
    aclGetRecentErrMsg();
    ag_alloc_fail_at(nth);
    const aclnnStatus status = test_operators_phase1(all, op, &size, &executor);
    const bool has_failed = ag_alloc_has_failed();
    if (status == 0) {
        check_phase2(all, op, size, executor, nth);
        if (!test_operators_same_outputs(all, good, op) && !test_operators_outputs_are(all, op, UNTOUCHED)) {
            fail_msg("%s: wrong results, though allocation %lld fails %d", test_operator_name(op), (long long)nth,
                     has_failed);
        }
    } else {
        ag_alloc_fail_at(0);
        assert_true(has_failed);
        assert_told(test_operator_name(op), nth);
        assert_true(test_operators_outputs_are(all, op, UNTOUCHED));
        assert_true(size == UINT64_C(0x5a5a5a5a5a5a5a5a));
        assert_true(executor == (aclOpExecutor *)(uintptr_t)0x5a5a);
    }
    assert_int_equal(live_handles(), handles);
    assert_int_equal(ag_alloc_live(), blocks);
    return has_failed;
}

static void operators(void **state)
{
    (void)state;
    struct test_operators all, good;
    test_operators_create(&all, 1);
    test_operators_create(&good, 1);
    for (int op = 0; op < TEST_OPERATORS; ++op) {
        int64_t nth = 1;
        assert_int_equal(test_operators_run(&good, (enum test_operator)op, NULL), 0);
        while (check_call(&all, &good, (enum test_operator)op, nth)) {
            assert_true(++nth < MOST_ALLOCATIONS);
        }
        assert_true(nth > 1); /* at least the executor is allocated */
        assert_true(test_operators_same_outputs(&all, &good, (enum test_operator)op)); /* the last one succeeded */
    }
    test_operators_destroy(&all);
    test_operators_destroy(&good);
}

/* --- objects --------------------------------------------------------------------------------------------- */

/* Makes an object and unmakes it; false when it could not be made. */
typedef bool object_maker(void);

static bool make_tensor(void)
{
    static float data[12];
    aclTensor *tensor = aclCreateTensor((const int64_t[]){3, 4}, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND,
                                        (const int64_t[]){12}, 1, data);
    return tensor && aclDestroyTensor(tensor) == 0;
}

static bool make_int_array(void)
{
    aclIntArray *array = aclCreateIntArray((const int64_t[]){1, 2, 3}, 3);
    return array && aclDestroyIntArray(array) == 0;
}

static bool make_float_array(void)
{
    aclFloatArray *array = aclCreateFloatArray((const float[]){1, 2, 3}, 3);
    return array && aclDestroyFloatArray(array) == 0;
}

static bool make_bool_array(void)
{
    aclBoolArray *array = aclCreateBoolArray((const bool[]){true, false}, 2);
    return array && aclDestroyBoolArray(array) == 0;
}

static bool make_scalar(void)
{
    float value = 1;
    aclScalar *scalar = aclCreateScalar(&value, ACL_FLOAT);
    return scalar && aclDestroyScalar(scalar) == 0;
}

/* A list owns its tensors once it exists; until then they are the caller's. */
static bool make_tensor_list(void)
{
    static float data[4];
    const int64_t dims[1] = {4};
    aclTensor *tensor = aclCreateTensor(dims, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, data);
    aclTensorList *list = tensor ? aclCreateTensorList((const aclTensor *const *)&tensor, 1) : NULL;
    if (!list) {
        aclDestroyTensor(tensor);
        return false;
    }
    return aclDestroyTensorList(list) == 0;
}

static bool make_stream(void)
{
    aclrtStream stream = NULL;
    return aclrtCreateStream(&stream) == 0 && aclrtDestroyStream(stream) == 0;
}

static bool make_event(void)
{
    aclrtEvent event = NULL;
    return aclrtCreateEvent(&event) == 0 && aclrtDestroyEvent(event) == 0;
}

static bool make_context(void)
{
    aclrtContext context = NULL;
    return aclrtCreateContext(&context, 0) == 0 && aclrtDestroyContext(context) == 0;
}

static bool make_device_memory(void)
{
    void *memory = NULL;
    return aclrtMalloc(&memory, 100, ACL_MEM_MALLOC_HUGE_FIRST) == 0 && aclrtFree(memory) == 0;
}

static bool make_host_memory(void)
{
    void *memory = NULL;
    return aclrtMallocHost(&memory, 100) == 0 && aclrtFreeHost(memory) == 0;
}

struct object_row {
    const char *name;
    object_maker *make;
};

static const struct object_row object_rows[] = {
    {"tensor", make_tensor},           {"int array", make_int_array},
    {"float array", make_float_array}, {"bool array", make_bool_array},
    {"scalar", make_scalar},           {"tensor list", make_tensor_list},
    {"stream", make_stream},           {"event", make_event},
    {"context", make_context},         {"device memory", make_device_memory},
    {"host memory", make_host_memory},
};

static bool check_object(const struct object_row *row, int64_t nth)
{
    const int64_t blocks = ag_alloc_live(), handles = live_handles();
    aclGetRecentErrMsg();
    ag_alloc_fail_at(nth);
    const bool is_made = row->make();
    const bool has_failed = ag_alloc_has_failed();
    ag_alloc_fail_at(0);
    if (is_made == has_failed) {
        fail_msg("%s: made %d though allocation %lld failed %d", row->name, is_made, (long long)nth, has_failed);
    }
    if (has_failed) {
        assert_told(row->name, nth);
    }
    if (live_handles() != handles || ag_alloc_live() != blocks) {
        fail_msg("%s: allocation %lld fails and something is left", row->name, (long long)nth);
    }
    return has_failed;
}

static void objects(void **state)
{
    (void)state;
    assert_int_equal(aclrtSetDevice(0), 0);
    for (size_t i = 0; i < sizeof object_rows / sizeof *object_rows; ++i) {
        int64_t nth = 1;
        assert_true(object_rows[i].make());
        while (check_object(&object_rows[i], nth)) {
            assert_true(++nth < MOST_ALLOCATIONS);
        }
        if (nth == 1) {
            fail_msg("%s: no allocation of it can fail", object_rows[i].name);
        }
    }
    assert_int_equal(aclrtResetDevice(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators),
        cmocka_unit_test(objects),
    };
    return cmocka_run_group_tests_name("allocation failure", tests, NULL, NULL);
}
