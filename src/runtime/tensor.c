#include "runtime/tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "runtime/handle.h"
#include "runtime/object.h"

/* base/ has its own numbers so that it need not know the acl headers. */
_Static_assert((int)AG_FLOAT == (int)ACL_FLOAT && (int)AG_FLOAT16 == (int)ACL_FLOAT16 &&
                   (int)AG_INT8 == (int)ACL_INT8 && (int)AG_INT32 == (int)ACL_INT32 &&
                   (int)AG_UINT8 == (int)ACL_UINT8 && (int)AG_INT64 == (int)ACL_INT64 &&
                   (int)AG_DOUBLE == (int)ACL_DOUBLE && (int)AG_BOOL == (int)ACL_BOOL &&
                   (int)AG_BF16 == (int)ACL_BF16,
               "element types");

struct tensor {
    struct ag_view view;
    int64_t storage_dims[AG_MAX_RANK];
    int storage_rank;
};

/* --- creation ------------------------------------------------------------------------------------------ */

static ag_status copy_dims(const char *name, const int64_t *dims, uint64_t rank, int64_t *copy)
{
    AG_REQUIRE(rank == 0 || dims, INVALID, "%s: null, want %" PRIu64 " dims", name, rank);
    AG_REQUIRE(rank <= AG_MAX_RANK, INVALID, "%s: rank %" PRIu64 ", want at most %d", name, rank, AG_MAX_RANK);
    for (uint64_t d = 0; d < rank; ++d) {
        AG_REQUIRE(dims[d] >= 0, INVALID, "%s: dim %" PRIu64 " is %" PRId64 ", want 0 or more", name, d, dims[d]);
        copy[d] = dims[d];
    }
    return AG_OK;
}

/* The sizes fit 63 bits in bytes; a dim of 0 counts as 1, so that no order of multiplication overflows later. */
static ag_status count_elems(const char *name, int rank, const int64_t *dims, int dtype, int64_t *elems)
{
    int64_t factors[AG_MAX_RANK + 1] = {(int64_t)ag_dtype_bytes(dtype)};
    int64_t bytes, product = 1;
    bool is_empty = false;
    if (factors[0] == 0) {
        factors[0] = 1; /* no type of whole bytes: nobody will touch the data */
    }
    for (int d = 0; d < rank; ++d) {
        is_empty = is_empty || dims[d] == 0;
        factors[d + 1] = dims[d] ? dims[d] : 1;
    }
    AG_REQUIRE(ag_product(&bytes, rank + 1, factors), INVALID, "%s: too many elements for 64-bit sizes", name);
    ag_product(&product, rank, factors + 1);
    *elems = is_empty ? 0 : product;
    return AG_OK;
}

static void set_dense_strides(struct ag_view *view)
{
    int64_t dense = 1;
    for (int d = view->rank - 1; d >= 0; --d) {
        view->strides[d] = dense;
        dense *= view->dims[d] ? view->dims[d] : 1;
    }
}

/* No element's distance from the start of the storage overflows, in bytes. */
static ag_status check_span(const struct ag_view *view)
{
    const int64_t bytes = ag_dtype_bytes(view->dtype) ? (int64_t)ag_dtype_bytes(view->dtype) : 1;
    const int64_t most = INT64_MAX / 4 / bytes;
    int64_t last = view->offset;
    AG_REQUIRE(last <= most, INVALID, "offset: got %" PRId64 ", too large", view->offset);
    for (int d = 0; d < view->rank; ++d) {
        int64_t reach = 0;
        const int64_t steps = view->dims[d] > 0 ? view->dims[d] - 1 : 0;
        AG_REQUIRE(ag_product(&reach, 2, (int64_t[]){steps, view->strides[d]}) && reach <= most - last, INVALID,
                   "stride: dim %d reaches too far (stride %" PRId64 ", dim %" PRId64 ")", d, view->strides[d],
                   view->dims[d]);
        last += reach;
    }
    return AG_OK;
}

struct tensor_args {
    const int64_t *dims, *strides, *storage_dims;
    uint64_t rank, storage_rank;
    int64_t offset;
    int dtype, format;
    void *data;
};

static ag_status fill_strides(struct ag_view *view, const int64_t *strides)
{
    if (!strides) {
        set_dense_strides(view);
        return AG_OK;
    }
    for (int d = 0; d < view->rank; ++d) {
        AG_REQUIRE(strides[d] >= 0, INVALID, "stride: dim %d has stride %" PRId64 ", want 0 or more", d, strides[d]);
        view->strides[d] = strides[d];
    }
    return AG_OK;
}

static ag_status fill_tensor(struct tensor *tensor, const struct tensor_args *args)
{
    struct ag_view *view = &tensor->view;
    int64_t elems;
    *tensor = (struct tensor){.view = {.data = args->data,
                                       .offset = args->offset,
                                       .storage_elems = -1,
                                       .rank = (int)args->rank,
                                       .dtype = args->dtype,
                                       .format = args->format,
                                       .present = true},
                              .storage_rank = (int)args->storage_rank};
    AG_TRY(copy_dims("viewDims", args->dims, args->rank, view->dims));
    AG_TRY(copy_dims("storageDims", args->storage_dims, args->storage_rank, tensor->storage_dims));
    AG_TRY(count_elems("viewDims", view->rank, view->dims, view->dtype, &elems));
    AG_REQUIRE(args->offset >= 0, INVALID, "offset: got %" PRId64 ", want 0 or more", args->offset);
    AG_TRY(fill_strides(view, args->strides));
    if (tensor->storage_rank > 0) {
        AG_TRY(count_elems("storageDims", tensor->storage_rank, tensor->storage_dims, view->dtype, &elems));
        view->storage_elems = elems;
    }
    return check_span(view);
}

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t *stride,
                           int64_t offset, aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                           void *tensorData)
{
    ag_error_enter(__func__);
    const struct tensor_args args = {viewDims, stride,        storageDims, viewDimsNum, storageDimsNum,
                                     offset,   (int)dataType, (int)format, tensorData};
    struct tensor filled, *tensor;
    if (fill_tensor(&filled, &args) != AG_OK) {
        return NULL;
    }
    aclTensor *handle = ag_object_create(AG_HANDLE_TENSOR, sizeof *tensor, (void **)&tensor);
    if (handle) {
        *tensor = filled;
    }
    return handle;
}

aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
                          uint64_t storageDimsNum, void *tensorDataAddr)
{
    ag_error_enter(__func__);
    const struct tensor_args args = {viewDims, stride,        storageDims, viewDimsNum,   storageDimsNum,
                                     offset,   (int)dataType, (int)format, tensorDataAddr};
    struct tensor *old, filled;
    AG_TRY(ag_object_get(AG_HANDLE_TENSOR, tensor, "tensor", (void **)&old));
    AG_TRY(fill_tensor(&filled, &args));
    *old = filled;
    return AG_OK;
}

aclnnStatus aclDestroyTensor(const aclTensor *tensor)
{
    ag_error_enter(__func__);
    return ag_object_destroy(AG_HANDLE_TENSOR, tensor, "tensor");
}

/* --- questions ----------------------------------------------------------------------------------------- */

/* The program frees the array with delete[]; so it has to come from its operator new[], where there is a C++ run
 * time in the process, else address sanitizers (rightly) complain. */
extern void *cxx_new_array(size_t bytes) __asm__("_Znam") __attribute__((weak));

static ag_status hand_out(const int64_t *values, int count, int64_t **array, uint64_t *size)
{
    const size_t bytes = (size_t)(count ? count : 1) * sizeof *values;
    int64_t *copy = NULL;
    if (!ag_alloc_is_refused()) {
        copy = cxx_new_array ? cxx_new_array(bytes) : malloc(bytes);
    }
    AG_REQUIRE(copy, CREATE_EXECUTOR, "out of memory");
    memcpy(copy, values, (size_t)count * sizeof *values);
    *array = copy;
    *size = (uint64_t)count;
    return AG_OK;
}

aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum)
{
    ag_error_enter(__func__);
    struct tensor *t;
    AG_TRY(ag_object_get(AG_HANDLE_TENSOR, tensor, "tensor", (void **)&t));
    AG_REQUIRE(viewDims, NULLPTR, "viewDims: null");
    AG_REQUIRE(viewDimsNum, NULLPTR, "viewDimsNum: null");
    return hand_out(t->view.dims, t->view.rank, viewDims, viewDimsNum);
}

aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims, uint64_t *storageDimsNum)
{
    ag_error_enter(__func__);
    struct tensor *t;
    AG_TRY(ag_object_get(AG_HANDLE_TENSOR, tensor, "tensor", (void **)&t));
    AG_REQUIRE(storageDims, NULLPTR, "storageDims: null");
    AG_REQUIRE(storageDimsNum, NULLPTR, "storageDimsNum: null");
    return hand_out(t->storage_dims, t->storage_rank, storageDims, storageDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue, uint64_t *stridesNum)
{
    ag_error_enter(__func__);
    struct tensor *t;
    AG_TRY(ag_object_get(AG_HANDLE_TENSOR, tensor, "tensor", (void **)&t));
    AG_REQUIRE(stridesValue, NULLPTR, "stridesValue: null");
    AG_REQUIRE(stridesNum, NULLPTR, "stridesNum: null");
    return hand_out(t->view.strides, t->view.rank, stridesValue, stridesNum);
}

aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset)
{
    ag_error_enter(__func__);
    struct tensor *t;
    AG_TRY(ag_object_get(AG_HANDLE_TENSOR, tensor, "tensor", (void **)&t));
    AG_REQUIRE(offset, NULLPTR, "offset: null");
    *offset = t->view.offset;
    return AG_OK;
}

aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format)
{
    ag_error_enter(__func__);
    struct tensor *t;
    AG_TRY(ag_object_get(AG_HANDLE_TENSOR, tensor, "tensor", (void **)&t));
    AG_REQUIRE(format, NULLPTR, "format: null");
    *format = (aclFormat)t->view.format;
    return AG_OK;
}

aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType)
{
    ag_error_enter(__func__);
    struct tensor *t;
    AG_TRY(ag_object_get(AG_HANDLE_TENSOR, tensor, "tensor", (void **)&t));
    AG_REQUIRE(dataType, NULLPTR, "dataType: null");
    *dataType = (aclDataType)t->view.dtype;
    return AG_OK;
}

aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr)
{
    ag_error_enter(__func__);
    struct tensor *t;
    AG_TRY(ag_object_get(AG_HANDLE_TENSOR, tensor, "tensor", (void **)&t));
    t->view.data = addr;
    return AG_OK;
}

aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **addr)
{
    ag_error_enter(__func__);
    struct tensor *t;
    AG_TRY(ag_object_get(AG_HANDLE_TENSOR, tensor, "tensor", (void **)&t));
    AG_REQUIRE(addr, NULLPTR, "addr: null");
    *addr = t->view.data;
    return AG_OK;
}

/* --- for the operators' checks ------------------------------------------------------------------------- */

ag_status ag_tensor_view(const aclTensor *tensor, const char *argument, struct ag_view *view)
{
    struct tensor *t;
    *view = (struct ag_view){.present = false};
    if (!tensor) {
        return AG_OK;
    }
    AG_TRY(ag_object_get(AG_HANDLE_TENSOR, tensor, argument, (void **)&t));
    *view = t->view;
    return AG_OK;
}

ag_status ag_tensor_view_required(const aclTensor *tensor, const char *argument, struct ag_view *view)
{
    AG_REQUIRE(tensor, NULLPTR, "%s: null, want a tensor", argument);
    return ag_tensor_view(tensor, argument, view);
}

ag_status ag_tensor_view_optional(const aclTensor *tensor, const char *argument, struct ag_view *view)
{
    AG_TRY(ag_tensor_view(tensor, argument, view));
    if (view->present && (view->rank == 0 || ag_view_is_empty(view))) {
        *view = (struct ag_view){.present = false};
    }
    return AG_OK;
}

ag_status ag_require_inside_storage(const struct ag_view *view, const char *argument)
{
    AG_REQUIRE(!view->present || ag_view_is_inside_storage(view), INVALID,
               "%s: the view takes elements %" PRId64 " to %" PRId64 ", its storage has %" PRId64, argument,
               view->offset, ag_view_last(view), view->storage_elems);
    return AG_OK;
}

ag_status ag_require_shape(ag_status status, const struct ag_view *view, const char *argument, int rank,
                           const int64_t *dims)
{
    char got[AG_SHAPE_TEXT], want[AG_SHAPE_TEXT];
    if (view->rank == rank && memcmp(view->dims, dims, (size_t)rank * sizeof *dims) == 0) {
        return AG_OK;
    }
    return ag_fail(status, "%s: shape %s, want %s", argument, ag_shape_text(got, view->rank, view->dims),
                   ag_shape_text(want, rank, dims));
}

/* Row-major: the elements lie where dims and strides say. */
struct format_row {
    int format;
    bool is_row_major;
    const char *name;
};
#define ROW_MAJOR(name)                                                                                              \
    {                                                                                                                \
        name, true, #name                                                                                            \
    }
#define PRIVATE(name)                                                                                                \
    {                                                                                                                \
        name, false, #name                                                                                           \
    }
static const struct format_row format_rows[] = {
    ROW_MAJOR(ACL_FORMAT_UNDEFINED),
    ROW_MAJOR(ACL_FORMAT_NCHW),
    ROW_MAJOR(ACL_FORMAT_NHWC),
    ROW_MAJOR(ACL_FORMAT_ND),
    PRIVATE(ACL_FORMAT_NC1HWC0),
    PRIVATE(ACL_FORMAT_FRACTAL_Z),
    PRIVATE(ACL_FORMAT_NC1HWC0_C04),
    PRIVATE(ACL_FORMAT_HWCN),
    ROW_MAJOR(ACL_FORMAT_NDHWC),
    PRIVATE(ACL_FORMAT_FRACTAL_NZ),
    ROW_MAJOR(ACL_FORMAT_NCDHW),
    PRIVATE(ACL_FORMAT_NDC1HWC0),
    PRIVATE(ACL_FRACTAL_Z_3D),
    ROW_MAJOR(ACL_FORMAT_NC),
    ROW_MAJOR(ACL_FORMAT_NCL),
    PRIVATE(ACL_FORMAT_FRACTAL_NZ_C0_16),
    PRIVATE(ACL_FORMAT_FRACTAL_NZ_C0_32),
    PRIVATE(ACL_FORMAT_FRACTAL_NZ_C0_2),
    PRIVATE(ACL_FORMAT_FRACTAL_NZ_C0_4),
    PRIVATE(ACL_FORMAT_FRACTAL_NZ_C0_8),
};

static const struct format_row *find_format(int format)
{
    for (size_t i = 0; i < sizeof format_rows / sizeof *format_rows; ++i) {
        if (format_rows[i].format == format) {
            return &format_rows[i];
        }
    }
    return NULL;
}

const char *ag_format_name(int format)
{
    const struct format_row *row = find_format(format);
    return row ? row->name : "unknown";
}

ag_status ag_require_row_major(const struct ag_view *view, const char *argument)
{
    const struct format_row *row = find_format(view->format);
    AG_REQUIRE(row && row->is_row_major, INVALID, "%s: format %s (%d), want ND or another row-major one", argument,
               ag_format_name(view->format), view->format);
    return AG_OK;
}

ag_status ag_require_dtype(ag_status status, const struct ag_view *view, const char *argument, int dtype,
                           const char *reason)
{
    if (view->dtype == dtype) {
        return AG_OK;
    }
    return ag_fail(status, "%s: dtype %s, want %s%s%s%s", argument, ag_dtype_name(view->dtype), ag_dtype_name(dtype),
                   reason[0] ? " (" : "", reason, reason[0] ? ")" : "");
}
