/* labels: smoke ci */
/* aclTensor: creation, what is refused and why, questions, and the descriptor that operators get. */
#define _DEFAULT_SOURCE
#include "support/refused.h"

#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "base/memory.h"
#include "runtime/tensor.h"

static float data[64];

/* Arrays come from operator new[] where there is one; so a sanitizer's run time wants delete[]. */
extern void cxx_delete_array(void *array) __asm__("_ZdaPv") __attribute__((weak));

static void give_back(void *array)
{
    if (cxx_delete_array) {
        cxx_delete_array(array);
    } else {
        free(array);
    }
}

static aclTensor *create(uint64_t rank, const int64_t *dims, const int64_t *strides, int64_t offset,
                         uint64_t storage_rank, const int64_t *storage)
{
    return aclCreateTensor(dims, rank, ACL_FLOAT, strides, offset, ACL_FORMAT_ND, storage, storage_rank, data);
}

/* --- creation ------------------------------------------------------------------------------------------- */

static void descriptor_is_what_was_given(void **state)
{
    (void)state;
    struct ag_view view;
    int64_t dims[] = {2, 3}, strides[] = {8, 2}, storage[] = {4, 16};
    aclTensor *tensor = create(2, dims, strides, 5, 2, storage);
    assert_non_null(tensor);
    dims[0] = strides[0] = storage[0] = 99; /* copied: the caller's arrays may change */
    DONE(ag_tensor_view(tensor, "x", &view));
    assert_true(view.present);
    assert_int_equal(view.rank, 2);
    assert_int_equal(view.dims[0], 2);
    assert_int_equal(view.dims[1], 3);
    assert_int_equal(view.strides[0], 8);
    assert_int_equal(view.strides[1], 2);
    assert_int_equal(view.offset, 5);
    assert_int_equal(view.storage_elems, 64);
    assert_int_equal(view.dtype, ACL_FLOAT);
    assert_int_equal(view.format, ACL_FORMAT_ND);
    assert_ptr_equal(view.data, data);
    DONE(aclDestroyTensor(tensor));
}

static void no_strides_means_contiguous(void **state)
{
    (void)state;
    struct ag_view view;
    aclTensor *tensor = create(3, (int64_t[]){2, 3, 4}, NULL, 0, 0, NULL);
    DONE(ag_tensor_view(tensor, "x", &view));
    assert_int_equal(view.strides[0], 12);
    assert_int_equal(view.strides[1], 4);
    assert_int_equal(view.strides[2], 1);
    assert_int_equal(view.storage_elems, -1); /* rank 0: nobody knows */
    DONE(aclDestroyTensor(tensor));
}

static void scalars_empty_tensors_and_missing_memory_are_legal(void **state)
{
    (void)state;
    struct ag_view view;
    aclTensor *scalar = create(0, NULL, NULL, 0, 0, NULL);
    aclTensor *empty = create(2, (int64_t[]){3, 0}, NULL, 0, 1, (int64_t[]){0});
    aclTensor *later = aclCreateTensor((int64_t[]){4}, 1, ACL_BF16, NULL, 0, ACL_FORMAT_ND, (int64_t[]){4}, 1, NULL);
    aclTensor *broadcast = create(2, (int64_t[]){5, 4}, (int64_t[]){0, 1}, 0, 1, (int64_t[]){4});
    aclTensor *odd_type = aclCreateTensor((int64_t[]){4}, 1, ACL_INT4, NULL, 0, ACL_FORMAT_ND, NULL, 0, data);
    assert_non_null(odd_type);
    DONE(ag_tensor_view(scalar, "x", &view));
    assert_int_equal(ag_view_elems(&view), 1);
    DONE(ag_tensor_view(empty, "x", &view));
    assert_true(ag_view_is_empty(&view));
    assert_int_equal(view.storage_elems, 0);
    DONE(ag_tensor_view(later, "x", &view));
    assert_null(view.data);
    DONE(ag_tensor_view(broadcast, "x", &view));
    assert_true(ag_view_is_inside_storage(&view));
    DONE(aclDestroyTensor(scalar));
    DONE(aclDestroyTensor(empty));
    DONE(aclDestroyTensor(later));
    DONE(aclDestroyTensor(broadcast));
    DONE(aclDestroyTensor(odd_type));
}

static void bad_descriptors_are_refused(void **state)
{
    (void)state;
    const int64_t two[] = {2, 2}, many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t huge[] = {INT64_MAX / 4, 8}, huge_and_empty[] = {INT64_MAX / 4, 0, 8};
    NONE(create(2, NULL, NULL, 0, 0, NULL), "aclCreateTensor", "viewDims: null, want 2 dims");
    NONE(create(2, two, NULL, 0, 2, NULL), "storageDims: null, want 2 dims");
    NONE(create(9, many, NULL, 0, 0, NULL), "viewDims: rank 9, want at most 8");
    NONE(create(2, two, NULL, 0, 9, many), "storageDims: rank 9, want at most 8");
    NONE(create(2, (int64_t[]){2, -1}, NULL, 0, 0, NULL), "viewDims: dim 1 is -1, want 0 or more");
    NONE(create(2, two, NULL, 0, 1, (int64_t[]){-4}), "storageDims: dim 0 is -4, want 0 or more");
    NONE(create(2, two, (int64_t[]){2, -1}, 0, 0, NULL), "stride: dim 1 has stride -1, want 0 or more");
    NONE(create(2, two, NULL, -1, 0, NULL), "offset: got -1, want 0 or more");
    NONE(create(2, huge, NULL, 0, 0, NULL), "viewDims: too many elements");
    NONE(create(3, huge_and_empty, NULL, 0, 0, NULL), "viewDims: too many elements");
    NONE(create(2, two, NULL, 0, 2, huge), "storageDims: too many elements");
    NONE(create(1, (int64_t[]){INT64_C(1) << 61}, NULL, 0, 0, NULL), "viewDims: too many elements"); /* in bytes */
    NONE(create(2, two, (int64_t[]){INT64_MAX / 24, INT64_MAX / 24}, 0, 0, NULL), "stride: dim 1 reaches too far");
    NONE(create(2, two, (int64_t[]){INT64_MAX, 1}, 0, 0, NULL), "stride: dim 0 reaches too far");
    NONE(create(2, two, NULL, INT64_MAX, 0, NULL), "offset: got 9223372036854775807, too large");
    assert_null(aclGetRecentErrMsg());
}

static void out_of_memory(void **state)
{
    (void)state;
    const int64_t blocks = ag_alloc_live();
    ag_alloc_fail_at(1);
    NONE(create(1, (int64_t[]){2}, NULL, 0, 0, NULL), "EZ9999", "out of memory (tensor)");
    assert_true(ag_alloc_has_failed());
    assert_int_equal(ag_alloc_live(), blocks);
}

/* --- end of life ---------------------------------------------------------------------------------------- */

static void destroy(void **state)
{
    (void)state;
    aclTensor *tensor = create(1, (int64_t[]){2}, NULL, 0, 0, NULL);
    DONE(aclDestroyTensor(NULL));
    REFUSED(161002, aclDestroyTensor((const aclTensor *)&tensor), "aclDestroyTensor",
            "tensor: got a pointer that is no handle");
    DONE(aclDestroyTensor(tensor));
    REFUSED(161002, aclDestroyTensor(tensor), "tensor: got a destroyed tensor, want a live tensor");
    aclIntArray *array = aclCreateIntArray((int64_t[]){1}, 1);
    REFUSED(161002, aclDestroyTensor((const aclTensor *)array), "got a live int array, want a live tensor");
    DONE(aclDestroyIntArray(array));
}

static void ten_thousand_leave_nothing(void **state)
{
    (void)state;
    DONE(aclDestroyTensor(create(1, (int64_t[]){2}, NULL, 0, 0, NULL))); /* the table's first chunk */
    const int64_t blocks = ag_alloc_live();
    for (int i = 0; i < 10000; ++i) {
        DONE(aclDestroyTensor(create(3, (int64_t[]){2, 3, i}, NULL, 0, 0, NULL)));
    }
    assert_int_equal(ag_alloc_live(), blocks);
}

/* --- questions ------------------------------------------------------------------------------------------ */

static void shape_strides_storage(void **state)
{
    (void)state;
    int64_t *values;
    uint64_t count;
    aclTensor *tensor = create(2, (int64_t[]){2, 3}, (int64_t[]){8, 2}, 5, 1, (int64_t[]){64});
    DONE(aclGetViewShape(tensor, &values, &count));
    assert_int_equal(count, 2);
    assert_int_equal(values[0], 2);
    assert_int_equal(values[1], 3);
    give_back(values);
    DONE(aclGetViewStrides(tensor, &values, &count));
    assert_int_equal(count, 2);
    assert_int_equal(values[0], 8);
    assert_int_equal(values[1], 2);
    give_back(values);
    DONE(aclGetStorageShape(tensor, &values, &count));
    assert_int_equal(count, 1);
    assert_int_equal(values[0], 64);
    give_back(values);
    DONE(aclDestroyTensor(tensor));
}

static void shape_of_a_scalar_is_an_empty_array(void **state)
{
    (void)state;
    int64_t *values = NULL;
    uint64_t count = 7;
    aclTensor *tensor = create(0, NULL, NULL, 0, 0, NULL);
    DONE(aclGetViewShape(tensor, &values, &count));
    assert_int_equal(count, 0);
    assert_non_null(values);
    give_back(values);
    DONE(aclDestroyTensor(tensor));
}

static void offset_format_type_address(void **state)
{
    (void)state;
    int64_t offset;
    aclFormat format;
    aclDataType type;
    void *address;
    aclTensor *tensor =
        aclCreateTensor((int64_t[]){4}, 1, ACL_BF16, NULL, 3, ACL_FORMAT_NCHW, (int64_t[]){9}, 1, data);
    DONE(aclGetViewOffset(tensor, &offset));
    DONE(aclGetFormat(tensor, &format));
    DONE(aclGetDataType(tensor, &type));
    DONE(aclGetRawTensorAddr(tensor, &address));
    assert_int_equal(offset, 3);
    assert_int_equal(format, ACL_FORMAT_NCHW);
    assert_int_equal(type, ACL_BF16);
    assert_ptr_equal(address, data); /* without the offset */
    DONE(aclSetRawTensorAddr(tensor, data + 8));
    DONE(aclGetRawTensorAddr(tensor, &address));
    assert_ptr_equal(address, data + 8);
    DONE(aclSetRawTensorAddr(tensor, NULL));
    DONE(aclGetRawTensorAddr(tensor, &address));
    assert_null(address);
    DONE(aclDestroyTensor(tensor));
}

static void null_arguments_of_questions(void **state)
{
    (void)state;
    int64_t *values = NULL, offset;
    uint64_t count;
    aclFormat format;
    aclDataType type;
    void *address;
    aclTensor *tensor = create(1, (int64_t[]){2}, NULL, 0, 0, NULL);
    REFUSED(161001, aclGetViewShape(NULL, &values, &count), "aclGetViewShape", "tensor: null");
    REFUSED(161001, aclGetViewShape(tensor, NULL, &count), "viewDims: null");
    REFUSED(161001, aclGetViewShape(tensor, &values, NULL), "viewDimsNum: null");
    REFUSED(161001, aclGetStorageShape(NULL, &values, &count), "aclGetStorageShape", "tensor: null");
    REFUSED(161001, aclGetStorageShape(tensor, NULL, &count), "storageDims: null");
    REFUSED(161001, aclGetStorageShape(tensor, &values, NULL), "storageDimsNum: null");
    REFUSED(161001, aclGetViewStrides(NULL, &values, &count), "aclGetViewStrides", "tensor: null");
    REFUSED(161001, aclGetViewStrides(tensor, NULL, &count), "stridesValue: null");
    REFUSED(161001, aclGetViewStrides(tensor, &values, NULL), "stridesNum: null");
    REFUSED(161001, aclGetViewOffset(NULL, &offset), "aclGetViewOffset", "tensor: null");
    REFUSED(161001, aclGetViewOffset(tensor, NULL), "offset: null");
    REFUSED(161001, aclGetFormat(NULL, &format), "aclGetFormat", "tensor: null");
    REFUSED(161001, aclGetFormat(tensor, NULL), "format: null");
    REFUSED(161001, aclGetDataType(NULL, &type), "aclGetDataType", "tensor: null");
    REFUSED(161001, aclGetDataType(tensor, NULL), "dataType: null");
    REFUSED(161001, aclSetRawTensorAddr(NULL, data), "aclSetRawTensorAddr", "tensor: null");
    REFUSED(161001, aclGetRawTensorAddr(NULL, &address), "aclGetRawTensorAddr", "tensor: null");
    REFUSED(161001, aclGetRawTensorAddr(tensor, NULL), "addr: null");
    assert_null(values);
    DONE(aclDestroyTensor(tensor));
    REFUSED(161002, aclGetViewOffset(tensor, &offset), "got a destroyed tensor");
}

static void out_of_memory_for_an_answer(void **state)
{
    (void)state;
    int64_t *values = NULL;
    uint64_t count = 7;
    aclTensor *tensor = create(1, (int64_t[]){2}, NULL, 0, 0, NULL);
    ag_alloc_fail_at(1);
    REFUSED(561101, aclGetViewShape(tensor, &values, &count), "out of memory");
    assert_null(values);
    assert_int_equal(count, 7);
    DONE(aclDestroyTensor(tensor));
}

static void describe_anew(void **state)
{
    (void)state;
    struct ag_view view;
    aclTensor *tensor = create(1, (int64_t[]){2}, NULL, 0, 0, NULL);
    DONE(aclInitTensor(tensor, (int64_t[]){3, 4}, 2, ACL_FLOAT16, NULL, 1, ACL_FORMAT_ND, NULL, 0, data + 1));
    DONE(ag_tensor_view(tensor, "x", &view));
    assert_int_equal(view.rank, 2);
    assert_int_equal(view.dtype, ACL_FLOAT16);
    assert_int_equal(view.offset, 1);
    REFUSED(161001, aclInitTensor(NULL, NULL, 0, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, data), "aclInitTensor",
            "tensor: null");
    REFUSED(161002, aclInitTensor(tensor, NULL, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, data),
            "viewDims: null, want 2 dims");
    DONE(ag_tensor_view(tensor, "x", &view));
    assert_int_equal(view.dims[1], 4); /* a refused description changes nothing */
    DONE(aclDestroyTensor(tensor));
    REFUSED(161002, aclInitTensor(tensor, NULL, 0, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, data),
            "got a destroyed tensor");
}

/* --- what operators ask --------------------------------------------------------------------------------- */

static void views_of_arguments(void **state)
{
    (void)state;
    struct ag_view view;
    aclTensor *scalar = create(0, NULL, NULL, 0, 0, NULL);
    aclTensor *empty = create(1, (int64_t[]){0}, NULL, 0, 0, NULL);
    aclTensor *full = create(1, (int64_t[]){2}, NULL, 0, 0, NULL);
    ag_error_enter("aclnnX");
    memset(&view, 0xff, sizeof view);
    DONE(ag_tensor_view(NULL, "query", &view));
    assert_false(view.present);
    REFUSED(161001, ag_tensor_view_required(NULL, "query", &view), "aclnnX: query: null, want a tensor");
    REFUSED(161002, ag_tensor_view((aclTensor *)data, "query", &view), "query: got a pointer that is no handle");
    DONE(ag_tensor_view_required(scalar, "query", &view));
    assert_true(view.present);
    DONE(ag_tensor_view_optional(scalar, "mask", &view));
    assert_false(view.present);
    DONE(ag_tensor_view_optional(empty, "mask", &view));
    assert_false(view.present);
    DONE(ag_tensor_view_optional(full, "mask", &view));
    assert_true(view.present);
    DONE(aclDestroyTensor(scalar));
    DONE(aclDestroyTensor(empty));
    DONE(aclDestroyTensor(full));
}

static void requirements(void **state)
{
    (void)state;
    struct ag_view view;
    aclTensor *tensor = create(2, (int64_t[]){2, 3}, (int64_t[]){4, 1}, 1, 1, (int64_t[]){7});
    ag_error_enter("aclnnX");
    DONE(ag_tensor_view(tensor, "key", &view));
    REFUSED(161002, ag_require_inside_storage(&view, "key"),
            "key: the view takes elements 1 to 7, its storage has 7");
    view.dtype = 29; /* INT4: no whole bytes */
    REFUSED(161002, ag_require_inside_storage(&view, "key"),
            "key: the view takes elements 1 to 7, its storage has 7");
    view.dtype = AG_FLOAT;
    view.offset = 0;
    DONE(ag_require_inside_storage(&view, "key"));
    DONE(ag_require_shape(AG_INVALID, &view, "key", 2, (int64_t[]){2, 3}));
    REFUSED(561002, ag_require_shape(AG_TILING, &view, "key", 2, (int64_t[]){3, 2}),
            "key: shape [2, 3], want [3, 2]");
    REFUSED(161002, ag_require_shape(AG_INVALID, &view, "key", 1, (int64_t[]){2}), "key: shape [2, 3], want [2]");
    DONE(ag_require_row_major(&view, "key"));
    view.format = ACL_FORMAT_NCHW;
    DONE(ag_require_row_major(&view, "key"));
    view.format = ACL_FORMAT_FRACTAL_NZ;
    REFUSED(161002, ag_require_row_major(&view, "key"),
            "key: format ACL_FORMAT_FRACTAL_NZ (29), want ND or another row-major one");
    view.format = 33;
    REFUSED(161002, ag_require_row_major(&view, "key"), "key: format ACL_FRACTAL_Z_3D (33), want ND");
    view.format = 77;
    REFUSED(161002, ag_require_row_major(&view, "key"), "key: format unknown (77), want ND");
    DONE(ag_require_dtype(AG_INVALID, &view, "key", AG_FLOAT, ""));
    REFUSED(161002, ag_require_dtype(AG_INVALID, &view, "key", AG_BF16, "that of query"),
            "key: dtype FLOAT, want BF16 (that of query)");
    DONE(aclDestroyTensor(tensor));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptor_is_what_was_given),
        cmocka_unit_test(no_strides_means_contiguous),
        cmocka_unit_test(scalars_empty_tensors_and_missing_memory_are_legal),
        cmocka_unit_test(bad_descriptors_are_refused),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(destroy),
        cmocka_unit_test(ten_thousand_leave_nothing),
        cmocka_unit_test(shape_strides_storage),
        cmocka_unit_test(shape_of_a_scalar_is_an_empty_array),
        cmocka_unit_test(offset_format_type_address),
        cmocka_unit_test(null_arguments_of_questions),
        cmocka_unit_test(out_of_memory_for_an_answer),
        cmocka_unit_test(describe_anew),
        cmocka_unit_test(views_of_arguments),
        cmocka_unit_test(requirements),
    };
    return cmocka_run_group_tests_name("acl_tensor", tests, NULL, NULL);
}
