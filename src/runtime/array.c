/* Scalars, arrays, lists. */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/dtype.h"
#include "runtime/object.h"
#include "runtime/tensor.h"

/* Also scalars (`size` is then the element type) and lists (the values are handles). */
struct array {
    uint64_t size;
    int64_t values[]; /* or float or bool: int64_t aligns for all */
};

static void *create_array(enum ag_handle_kind kind, const void *values, uint64_t size, size_t elem_bytes)
{
    struct array *array;
    if (!values && size > 0) {
        ag_fail(AG_NULLPTR, "value: null, want %" PRIu64 " values", size);
        return NULL;
    }
    if (size > SIZE_MAX / 4 / elem_bytes) {
        ag_fail(AG_INVALID, "size: got %" PRIu64 ", too large", size);
        return NULL;
    }
    void *handle = ag_object_create(kind, sizeof *array + (size_t)size * elem_bytes, (void **)&array);
    if (!handle) {
        return NULL;
    }
    array->size = size;
    if (size > 0) {
        memcpy(array->values, values, (size_t)size * elem_bytes);
    }
    return handle;
}

static aclnnStatus get_size(enum ag_handle_kind kind, const void *handle, const char *argument, uint64_t *size)
{
    struct array *array;
    AG_TRY(ag_object_get(kind, handle, argument, (void **)&array));
    AG_REQUIRE(size, NULLPTR, "size: null");
    *size = array->size;
    return AG_OK;
}

aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size)
{
    ag_error_enter(__func__);
    return create_array(AG_HANDLE_INT_ARRAY, value, size, sizeof *value);
}

aclFloatArray *aclCreateFloatArray(const float *value, uint64_t size)
{
    ag_error_enter(__func__);
    return create_array(AG_HANDLE_FLOAT_ARRAY, value, size, sizeof *value);
}

aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t size)
{
    ag_error_enter(__func__);
    return create_array(AG_HANDLE_BOOL_ARRAY, value, size, sizeof *value);
}

aclnnStatus aclDestroyIntArray(const aclIntArray *array)
{
    ag_error_enter(__func__);
    return ag_object_destroy(AG_HANDLE_INT_ARRAY, array, "array");
}

aclnnStatus aclDestroyFloatArray(const aclFloatArray *array)
{
    ag_error_enter(__func__);
    return ag_object_destroy(AG_HANDLE_FLOAT_ARRAY, array, "array");
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray *array)
{
    ag_error_enter(__func__);
    return ag_object_destroy(AG_HANDLE_BOOL_ARRAY, array, "array");
}

aclnnStatus aclGetIntArraySize(const aclIntArray *array, uint64_t *size)
{
    ag_error_enter(__func__);
    return get_size(AG_HANDLE_INT_ARRAY, array, "array", size);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray *array, uint64_t *size)
{
    ag_error_enter(__func__);
    return get_size(AG_HANDLE_FLOAT_ARRAY, array, "array", size);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray *array, uint64_t *size)
{
    ag_error_enter(__func__);
    return get_size(AG_HANDLE_BOOL_ARRAY, array, "array", size);
}

ag_status ag_int_array_values(const aclIntArray *handle, const char *argument, const int64_t **values, int64_t *count)
{
    struct array *array;
    *values = NULL;
    *count = 0;
    if (!handle) {
        return AG_OK;
    }
    AG_TRY(ag_object_get(AG_HANDLE_INT_ARRAY, handle, argument, (void **)&array));
    if (array->size > 0) {
        *values = array->values;
        *count = (int64_t)array->size;
    }
    return AG_OK;
}

/* --- scalars ------------------------------------------------------------------------------------------- */

aclScalar *aclCreateScalar(void *value, aclDataType dataType)
{
    struct array *scalar;
    ag_error_enter(__func__);
    const size_t bytes = ag_dtype_bytes((int)dataType);
    if (!value) {
        ag_fail(AG_NULLPTR, "value: null");
        return NULL;
    }
    if (bytes == 0) {
        ag_fail(AG_INVALID, "dataType: %s (%d), want a type of whole bytes", ag_dtype_name((int)dataType),
                (int)dataType);
        return NULL;
    }
    aclScalar *handle = ag_object_create(AG_HANDLE_SCALAR, sizeof *scalar + bytes, (void **)&scalar);
    if (handle) {
        scalar->size = (uint64_t)dataType;
        memcpy(scalar->values, value, bytes);
    }
    return handle;
}

aclnnStatus aclDestroyScalar(const aclScalar *scalar)
{
    ag_error_enter(__func__);
    return ag_object_destroy(AG_HANDLE_SCALAR, scalar, "scalar");
}

/* --- lists: arrays of handles, which own what the handles stand for ------------------------------------- */

static void *entry(const struct array *list, uint64_t i)
{
    return (void *)(uintptr_t)list->values[i];
}

/* Lets go of the first `count` entries. */
static void unclaim(enum ag_handle_kind kind, const void *const *entries, uint64_t count)
{
    for (uint64_t i = 0; i < count; ++i) {
        void *object = ag_handle_get(kind, entries[i]);
        if (object) {
            ag_object_unclaim(object);
        }
    }
}

static ag_status claim_entry(enum ag_handle_kind kind, const void *handle, uint64_t i)
{
    if (handle) {
        void *object = ag_handle_get(kind, handle);
        AG_REQUIRE(object, INVALID, "value[%" PRIu64 "]: got %s, want a live %s", i, ag_handle_describe(handle),
                   ag_handle_kind_name(kind));
        AG_REQUIRE(ag_object_claim(object), INVALID, "value[%" PRIu64 "]: stands in a list already", i);
    }
    return AG_OK;
}

static void *create_list(enum ag_handle_kind kind, enum ag_handle_kind of, const void *const *entries, uint64_t size)
{
    for (uint64_t i = 0; entries && i < size; ++i) {
        if (claim_entry(of, entries[i], i) != AG_OK) {
            unclaim(of, entries, i);
            return NULL;
        }
    }
    void *handle = create_array(kind, entries, size, sizeof *entries);
    if (!handle && entries) {
        unclaim(of, entries, size);
    }
    return handle;
}

static aclnnStatus destroy_list(enum ag_handle_kind kind, enum ag_handle_kind of, const void *handle)
{
    struct array *list;
    if (!handle) {
        return AG_OK;
    }
    AG_TRY(ag_object_get(kind, handle, "array", (void **)&list));
    for (uint64_t i = 0; i < list->size; ++i) {
        void *object = ag_handle_get(of, entry(list, i));
        if (object) {
            ag_object_unclaim(object);
            AG_TRY(ag_object_destroy(of, entry(list, i), "entry"));
        }
    }
    return ag_object_destroy(kind, handle, "array");
}

aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t size)
{
    ag_error_enter(__func__);
    return create_list(AG_HANDLE_TENSOR_LIST, AG_HANDLE_TENSOR, (const void *const *)value, size);
}

aclScalarList *aclCreateScalarList(const aclScalar *const *value, uint64_t size)
{
    ag_error_enter(__func__);
    return create_list(AG_HANDLE_SCALAR_LIST, AG_HANDLE_SCALAR, (const void *const *)value, size);
}

aclnnStatus aclDestroyTensorList(const aclTensorList *array)
{
    ag_error_enter(__func__);
    return destroy_list(AG_HANDLE_TENSOR_LIST, AG_HANDLE_TENSOR, array);
}

aclnnStatus aclDestroyScalarList(const aclScalarList *array)
{
    ag_error_enter(__func__);
    return destroy_list(AG_HANDLE_SCALAR_LIST, AG_HANDLE_SCALAR, array);
}

aclnnStatus aclGetTensorListSize(const aclTensorList *tensorList, uint64_t *size)
{
    ag_error_enter(__func__);
    return get_size(AG_HANDLE_TENSOR_LIST, tensorList, "tensorList", size);
}

aclnnStatus aclGetScalarListSize(const aclScalarList *scalarList, uint64_t *size)
{
    ag_error_enter(__func__);
    return get_size(AG_HANDLE_SCALAR_LIST, scalarList, "scalarList", size);
}
