/* labels: smoke ci */
/* Scalars, arrays, lists, data buffers, element sizes, half precision. */
#define _DEFAULT_SOURCE
#include "support/refused.h"

#include <math.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "base/memory.h"
#include "runtime/handle.h"
#include "runtime/tensor.h"

static void *const stray = "not a handle";

/* Must run first: it is the first object that needs the handle table. */
static void no_memory_for_the_handle(void **state)
{
    (void)state;
    const int64_t blocks = ag_alloc_live();
    ag_alloc_fail_at(2);
    NONE(aclCreateIntArray((int64_t[]){1}, 1), "EZ9999", "out of memory (int array)");
    assert_true(ag_alloc_has_failed());
    assert_int_equal(ag_alloc_live(), blocks);
}

static void arrays_copy_their_values(void **state)
{
    (void)state;
    int64_t given[] = {1, -2, INT64_MAX};
    const int64_t *values;
    int64_t count;
    uint64_t size;
    aclIntArray *array = aclCreateIntArray(given, 3);
    memset(given, 0, sizeof given);
    DONE(ag_int_array_values(array, "list", &values, &count));
    assert_int_equal(count, 3);
    assert_int_equal(values[0], 1);
    assert_int_equal(values[1], -2);
    assert_true(values[2] == INT64_MAX);
    DONE(aclGetIntArraySize(array, &size));
    assert_int_equal(size, 3);
    DONE(aclDestroyIntArray(array));
    REFUSED(161002, ag_int_array_values(array, "list", &values, &count), "list: got a destroyed int array");
}

static void absent_and_empty_int_arrays_are_alike(void **state)
{
    (void)state;
    const int64_t *values = (const int64_t *)stray;
    int64_t count = 7;
    aclIntArray *empty = aclCreateIntArray(NULL, 0);
    assert_non_null(empty);
    DONE(ag_int_array_values(empty, "list", &values, &count));
    assert_null(values);
    assert_int_equal(count, 0);
    count = 7;
    DONE(ag_int_array_values(NULL, "list", &values, &count));
    assert_null(values);
    assert_int_equal(count, 0);
    DONE(aclDestroyIntArray(empty));
}

static void sizes_and_ends_of_all_arrays(void **state)
{
    (void)state;
    uint64_t size;
    aclFloatArray *floats = aclCreateFloatArray((float[]){1, 2}, 2);
    aclBoolArray *bools = aclCreateBoolArray((bool[]){true, false, true}, 3);
    aclIntArray *ints = aclCreateIntArray((int64_t[]){1}, 1);
    DONE(aclGetFloatArraySize(floats, &size));
    assert_int_equal(size, 2);
    DONE(aclGetBoolArraySize(bools, &size));
    assert_int_equal(size, 3);
    REFUSED(161001, aclGetFloatArraySize(NULL, &size), "aclGetFloatArraySize", "array: null");
    REFUSED(161001, aclGetFloatArraySize(floats, NULL), "size: null");
    REFUSED(161001, aclGetBoolArraySize(NULL, &size), "aclGetBoolArraySize", "array: null");
    REFUSED(161001, aclGetIntArraySize(NULL, &size), "aclGetIntArraySize", "array: null");
    REFUSED(161002, aclGetIntArraySize((aclIntArray *)floats, &size),
            "got a live float array, want a live int array");
    REFUSED(161002, aclDestroyIntArray((aclIntArray *)bools), "got a live bool array");
    REFUSED(161002, aclDestroyFloatArray((aclFloatArray *)ints), "got a live int array");
    REFUSED(161002, aclDestroyBoolArray((aclBoolArray *)stray), "got a pointer that is no handle");
    DONE(aclDestroyFloatArray(floats));
    DONE(aclDestroyBoolArray(bools));
    DONE(aclDestroyIntArray(ints));
    DONE(aclDestroyIntArray(NULL));
    DONE(aclDestroyFloatArray(NULL));
    DONE(aclDestroyBoolArray(NULL));
    REFUSED(161002, aclDestroyIntArray(ints), "got a destroyed int array");
}

static void bad_arrays_are_refused(void **state)
{
    (void)state;
    NONE(aclCreateIntArray(NULL, 2), "aclCreateIntArray", "value: null, want 2 values");
    NONE(aclCreateFloatArray(NULL, 1), "aclCreateFloatArray", "value: null, want 1 values");
    NONE(aclCreateBoolArray(NULL, 1), "aclCreateBoolArray", "value: null, want 1 values");
    NONE(aclCreateIntArray((int64_t *)stray, UINT64_MAX / 2), "size: got 9223372036854775807, too large");
    ag_alloc_fail_at(1);
    NONE(aclCreateIntArray((int64_t[]){1}, 1), "out of memory (int array)");
}

static void scalars(void **state)
{
    (void)state;
    double value = 2.5;
    aclScalar *scalar = aclCreateScalar(&value, ACL_DOUBLE);
    assert_non_null(scalar);
    DONE(aclDestroyScalar(scalar));
    DONE(aclDestroyScalar(NULL));
    REFUSED(161002, aclDestroyScalar(scalar), "aclDestroyScalar", "scalar: got a destroyed scalar");
    NONE(aclCreateScalar(NULL, ACL_DOUBLE), "aclCreateScalar", "value: null");
    NONE(aclCreateScalar(&value, ACL_INT4), "dataType: INT4 (29), want a type of whole bytes");
    NONE(aclCreateScalar(&value, (aclDataType)99), "dataType: unknown (99)");
    ag_alloc_fail_at(1);
    NONE(aclCreateScalar(&value, ACL_DOUBLE), "out of memory (scalar)");
}

/* --- lists ---------------------------------------------------------------------------------------------- */

static aclTensor *new_tensor(void)
{
    return aclCreateTensor((int64_t[]){2}, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, NULL);
}

static void a_list_owns_its_tensors(void **state)
{
    (void)state;
    uint64_t size;
    aclTensor *a = new_tensor(), *b = new_tensor();
    const aclTensor *entries[] = {a, NULL, b};
    aclTensorList *list = aclCreateTensorList(entries, 3);
    assert_non_null(list);
    DONE(aclGetTensorListSize(list, &size));
    assert_int_equal(size, 3);
    REFUSED(161002, aclDestroyTensor(a), "tensor: belongs to a list, which destroys it");
    DONE(aclDestroyTensorList(list));
    REFUSED(161002, aclDestroyTensor(a), "got a destroyed tensor"); /* again, as some programs do */
    REFUSED(161002, aclDestroyTensor(b), "got a destroyed tensor");
    REFUSED(161002, aclDestroyTensorList(list), "got a destroyed tensor list");
    DONE(aclDestroyTensorList(NULL));
    assert_int_equal(ag_handle_count(AG_HANDLE_TENSOR), 0);
}

static void bad_lists_are_refused_and_take_nothing(void **state)
{
    (void)state;
    uint64_t size;
    aclTensor *a = new_tensor(), *b = new_tensor();
    NONE(aclCreateTensorList(NULL, 2), "aclCreateTensorList", "value: null, want 2 values");
    NONE(aclCreateTensorList((const aclTensor *[]){a, a}, 2), "value[1]: stands in a list already");
    NONE(aclCreateTensorList((const aclTensor *[]){a, b, stray}, 3), "value[2]: got a pointer that is no handle");
    NONE(aclCreateTensorList((const aclTensor *[]){a, NULL, stray}, 3), "value[2]: got a pointer that is no handle");
    ag_alloc_fail_at(1);
    NONE(aclCreateTensorList((const aclTensor *[]){a, b}, 2), "out of memory (tensor list)");
    aclTensorList *list = aclCreateTensorList((const aclTensor *[]){a}, 1);
    NONE(aclCreateTensorList((const aclTensor *[]){b, a}, 2), "value[1]: stands in a list already");
    REFUSED(161001, aclGetTensorListSize(NULL, &size), "aclGetTensorListSize", "tensorList: null");
    REFUSED(161001, aclGetTensorListSize(list, NULL), "size: null");
    DONE(aclDestroyTensorList(list));
    DONE(aclDestroyTensor(b)); /* still the program's */
    aclTensorList *empty = aclCreateTensorList(NULL, 0);
    assert_non_null(empty);
    DONE(aclDestroyTensorList(empty));
}

static void lists_of_scalars(void **state)
{
    (void)state;
    uint64_t size;
    float value = 1;
    aclScalar *a = aclCreateScalar(&value, ACL_FLOAT);
    aclScalarList *list = aclCreateScalarList((const aclScalar *[]){a}, 1);
    DONE(aclGetScalarListSize(list, &size));
    assert_int_equal(size, 1);
    REFUSED(161001, aclGetScalarListSize(NULL, &size), "scalarList: null");
    REFUSED(161002, aclDestroyScalar(a), "belongs to a list");
    REFUSED(161002, aclDestroyTensorList((aclTensorList *)list), "got a live scalar list, want a live tensor list");
    DONE(aclDestroyScalarList(list));
    DONE(aclDestroyScalarList(NULL));
    assert_int_equal(ag_handle_count(AG_HANDLE_SCALAR), 0);
}

/* --- acl_base.h ----------------------------------------------------------------------------------------- */

static void element_sizes(void **state)
{
    (void)state;
    static const struct {
        aclDataType type;
        size_t bytes;
    } rows[] = {{ACL_DT_UNDEFINED, 0}, {ACL_FLOAT, 4},        {ACL_FLOAT16, 2},       {ACL_INT8, 1},
                {ACL_INT32, 4},        {ACL_UINT8, 1},        {ACL_INT16, 2},         {ACL_UINT16, 2},
                {ACL_UINT32, 4},       {ACL_INT64, 8},        {ACL_UINT64, 8},        {ACL_DOUBLE, 8},
                {ACL_BOOL, 1},         {ACL_STRING, 0},       {ACL_COMPLEX64, 8},     {ACL_COMPLEX128, 16},
                {ACL_BF16, 2},         {ACL_INT4, 0},         {ACL_UINT1, 0},         {ACL_COMPLEX32, 4},
                {ACL_HIFLOAT8, 1},     {ACL_FLOAT8_E5M2, 1},  {ACL_FLOAT8_E4M3FN, 1}, {ACL_FLOAT8_E8M0, 1},
                {(aclDataType)5, 0},   {(aclDataType)1000, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        assert_int_equal(aclDataTypeSize(rows[i].type), rows[i].bytes);
    }
}

static void half_precision(void **state)
{
    (void)state;
    assert_int_equal(aclFloatToFloat16(1.0f), 0x3c00);
    assert_int_equal(aclFloatToFloat16(-2.0f), 0xc000);
    assert_int_equal(aclFloatToFloat16(1e6f), 0x7c00);
    assert_true(aclFloat16ToFloat(0x3555) == 0.333251953125f);
    assert_true(isnan(aclFloat16ToFloat(0x7e00)));
    for (int bits = 0; bits < 0x7c01; ++bits) {
        assert_int_equal(aclFloatToFloat16(aclFloat16ToFloat((aclFloat16)bits)), bits);
    }
}

static void data_buffers(void **state)
{
    (void)state;
    char bytes[8];
    aclDataBuffer *buffer = aclCreateDataBuffer(bytes, sizeof bytes);
    assert_ptr_equal(aclGetDataBufferAddr(buffer), bytes);
    assert_int_equal(aclGetDataBufferSizeV2(buffer), 8);
    assert_int_equal(aclGetDataBufferSize(buffer), 8);
    DONE(aclDestroyDataBuffer(buffer));
    REFUSED(100000, aclDestroyDataBuffer(buffer), "aclDestroyDataBuffer", "dataBuffer: got a destroyed data buffer");
    REFUSED(100000, aclDestroyDataBuffer(NULL), "dataBuffer: null");
    NONE(aclGetDataBufferAddr(buffer), "got a destroyed data buffer");
    assert_int_equal(aclGetDataBufferSizeV2(NULL), 0);
    assert_int_equal(aclGetDataBufferSize((aclDataBuffer *)stray), 0);
    aclGetRecentErrMsg();
    ag_alloc_fail_at(1);
    NONE(aclCreateDataBuffer(bytes, 8), "out of memory (data buffer)");
}

static void ten_thousand_leave_nothing(void **state)
{
    (void)state;
    const int64_t blocks = ag_alloc_live();
    for (int i = 0; i < 10000; ++i) {
        aclIntArray *array = aclCreateIntArray((int64_t[]){i, i}, 2);
        aclTensorList *list = aclCreateTensorList((const aclTensor *[]){new_tensor(), new_tensor()}, 2);
        DONE(aclDestroyIntArray(array));
        DONE(aclDestroyTensorList(list));
    }
    assert_int_equal(ag_alloc_live(), blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_memory_for_the_handle),
        cmocka_unit_test(arrays_copy_their_values),
        cmocka_unit_test(absent_and_empty_int_arrays_are_alike),
        cmocka_unit_test(sizes_and_ends_of_all_arrays),
        cmocka_unit_test(bad_arrays_are_refused),
        cmocka_unit_test(scalars),
        cmocka_unit_test(a_list_owns_its_tensors),
        cmocka_unit_test(bad_lists_are_refused_and_take_nothing),
        cmocka_unit_test(lists_of_scalars),
        cmocka_unit_test(element_sizes),
        cmocka_unit_test(half_precision),
        cmocka_unit_test(data_buffers),
        cmocka_unit_test(ten_thousand_leave_nothing),
    };
    return cmocka_run_group_tests_name("acl_array", tests, NULL, NULL);
}
