#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

enum { GAP_BYTE = 0xff }; /* NaN in every floating type: no kernel may let what lies between elements in */

static struct test_tensor create(int dtype, int rank, const int64_t *dims, const int64_t *strides, int64_t offset)
{
    struct test_tensor tensor = {.view = {.offset = offset, .rank = rank, .dtype = dtype, .format = 2 /* ND */}};
    uintptr_t begin, end;
    tensor.view.present = true;
    memcpy(tensor.view.dims, dims, (size_t)rank * sizeof *dims);
    memcpy(tensor.view.strides, strides, (size_t)rank * sizeof *strides);
    ag_view_bytes(&tensor.view, &begin, &end); /* data is NULL: addresses are byte offsets */
    const size_t elem = ag_dtype_bytes(dtype);
    tensor.view.storage_elems = (int64_t)(end / elem);
    tensor.buffer = test_buffer_create(end, elem < 4 ? elem : 4); /* element-aligned is all a caller owes */
    tensor.view.data = tensor.buffer.data;
    memset(tensor.buffer.data, GAP_BYTE, end);
    test_tensor_fill_bytes(&tensor, 0);
    tensor.handle = aclCreateTensor(dims, (uint64_t)rank, (aclDataType)dtype, strides, offset, ACL_FORMAT_ND,
                                    &tensor.view.storage_elems, 1, tensor.buffer.data);
    assert_non_null(tensor.handle);
    return tensor;
}

struct test_tensor test_tensor_create(int dtype, int rank, const int64_t *dims)
{
    int64_t strides[AG_MAX_RANK], dense = 1;
    for (int d = rank - 1; d >= 0; --d) {
        strides[d] = dense;
        dense *= dims[d];
    }
    return create(dtype, rank, dims, strides, 0);
}

struct test_tensor test_tensor_create_strided(int dtype, int rank, const int64_t *dims, const int64_t *strides,
                                              int64_t offset)
{
    return create(dtype, rank, dims, strides, offset);
}

void test_tensor_destroy(struct test_tensor *tensor)
{
    test_buffer_destroy(&tensor->buffer);
    aclDestroyTensor(tensor->handle);
    *tensor = (struct test_tensor){0};
}

int64_t test_tensor_elems(const struct test_tensor *tensor)
{
    return ag_view_elems(&tensor->view);
}

void *test_tensor_at(const struct test_tensor *tensor, int64_t logical)
{
    const struct ag_view *view = &tensor->view;
    int64_t position = view->offset;
    for (int d = view->rank - 1; d >= 0; --d) {
        position += logical % view->dims[d] * view->strides[d];
        logical /= view->dims[d];
    }
    return (char *)view->data + position * (int64_t)ag_dtype_bytes(view->dtype);
}

double test_tensor_get(const struct test_tensor *tensor, int64_t logical)
{
    const void *at = test_tensor_at(tensor, logical);
    switch (tensor->view.dtype) {
    case AG_FLOAT:
        return *(const float *)at;
    case AG_FLOAT16:
        return ag_f16_to_f32(*(const ag_f16 *)at);
    case AG_BF16:
        return ag_bf16_to_f32(*(const ag_bf16 *)at);
    case AG_INT32:
        return *(const int32_t *)at;
    case AG_INT64:
        return (double)*(const int64_t *)at;
    case AG_DOUBLE:
        return *(const double *)at;
    default:
        return *(const uint8_t *)at;
    }
}

/* Double to a 16-bit type with one rounding: through float rounded to odd, which keeps what decides ties. */
static float round_to_odd(double value)
{
    float nearest = (float)value;
    if (isfinite(nearest) && (double)nearest != value && !(ag_bits_of_float(nearest) & 1u)) {
        nearest = nextafterf(nearest, value > nearest ? INFINITY : -INFINITY);
    }
    return nearest;
}

void test_tensor_set(struct test_tensor *tensor, int64_t logical, double value)
{
    void *at = test_tensor_at(tensor, logical);
    switch (tensor->view.dtype) {
    case AG_FLOAT:
        *(float *)at = (float)value;
        break;
    case AG_FLOAT16:
        *(ag_f16 *)at = ag_f32_to_f16(round_to_odd(value));
        break;
    case AG_BF16:
        *(ag_bf16 *)at = ag_f32_to_bf16(round_to_odd(value));
        break;
    case AG_INT32:
        *(int32_t *)at = (int32_t)value;
        break;
    case AG_INT64:
        *(int64_t *)at = (int64_t)value;
        break;
    case AG_DOUBLE:
        *(double *)at = value;
        break;
    default:
        *(uint8_t *)at = (uint8_t)value;
        break;
    }
}

void test_tensor_fill_normal(struct test_tensor *tensor, struct test_random *random, double deviation)
{
    for (int64_t i = 0; i < test_tensor_elems(tensor); ++i) {
        test_tensor_set(tensor, i, deviation * test_random_normal(random));
    }
}

void test_tensor_fill_value(struct test_tensor *tensor, double value)
{
    for (int64_t i = 0; i < test_tensor_elems(tensor); ++i) {
        test_tensor_set(tensor, i, value);
    }
}

void test_tensor_fill_bytes(struct test_tensor *tensor, int byte)
{
    const size_t elem = ag_dtype_bytes(tensor->view.dtype);
    for (int64_t i = 0; i < test_tensor_elems(tensor); ++i) {
        memset(test_tensor_at(tensor, i), byte, elem);
    }
}

void test_tensor_copy_values(struct test_tensor *to, const struct test_tensor *from)
{
    for (int64_t i = 0; i < test_tensor_elems(to); ++i) {
        if (to->view.dtype == from->view.dtype) {
            memcpy(test_tensor_at(to, i), test_tensor_at(from, i), ag_dtype_bytes(to->view.dtype));
        } else {
            test_tensor_set(to, i, test_tensor_get(from, i));
        }
    }
}

double *test_tensor_to_doubles(const struct test_tensor *tensor)
{
    const int64_t elems = test_tensor_elems(tensor);
    double *values = malloc((size_t)(elems ? elems : 1) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < elems; ++i) {
        values[i] = test_tensor_get(tensor, i);
    }
    return values;
}

void *test_tensor_to_bytes(const struct test_tensor *tensor, size_t *bytes)
{
    const size_t elem = ag_dtype_bytes(tensor->view.dtype);
    const int64_t elems = test_tensor_elems(tensor);
    char *copy = malloc((size_t)(elems ? elems : 1) * elem);
    assert_non_null(copy);
    for (int64_t i = 0; i < elems; ++i) {
        memcpy(copy + (size_t)i * elem, test_tensor_at(tensor, i), elem);
    }
    *bytes = (size_t)elems * elem;
    return copy;
}

/* "[1, 0, 17]": the coordinates of a logical element. */
static const char *coordinates(char text[AG_SHAPE_TEXT], const struct ag_view *view, int64_t logical)
{
    int64_t at[AG_MAX_RANK];
    for (int d = view->rank - 1; d >= 0; --d) {
        at[d] = logical % view->dims[d];
        logical /= view->dims[d];
    }
    return ag_shape_text(text, view->rank, at);
}

void test_assert_same_bits(const char *what, const struct test_tensor *a, const struct test_tensor *b)
{
    char at[AG_SHAPE_TEXT];
    const size_t elem = ag_dtype_bytes(a->view.dtype);
    assert_int_equal(a->view.dtype, b->view.dtype);
    assert_int_equal(test_tensor_elems(a), test_tensor_elems(b));
    for (int64_t i = 0; i < test_tensor_elems(a); ++i) {
        if (memcmp(test_tensor_at(a, i), test_tensor_at(b, i), elem) != 0) {
            fail_msg("%s%s: %.9g and %.9g differ", what, coordinates(at, &a->view, i), test_tensor_get(a, i),
                     test_tensor_get(b, i));
        }
    }
}

void test_tensor_check_gaps(const struct test_tensor *tensor)
{
    const size_t elem = ag_dtype_bytes(tensor->view.dtype);
    const size_t bytes = tensor->buffer.bytes;
    unsigned char *is_element = calloc(bytes ? bytes : 1, 1);
    assert_non_null(is_element);
    for (int64_t i = 0; i < test_tensor_elems(tensor); ++i) {
        memset(is_element + ((char *)test_tensor_at(tensor, i) - (char *)tensor->buffer.data), 1, elem);
    }
    for (size_t i = 0; i < bytes; ++i) {
        if (!is_element[i] && ((unsigned char *)tensor->buffer.data)[i] != GAP_BYTE) {
            free(is_element);
            fail_msg("byte %zu between the elements was written", i);
        }
    }
    free(is_element);
}

double test_compare(const char *what, const struct test_tensor *got, const double *want, const double *bound,
                    const char *repro)
{
    char at[AG_SHAPE_TEXT];
    double worst = 0;
    int64_t worst_at = 0;
    for (int64_t i = 0; i < test_tensor_elems(got); ++i) {
        const double value = test_tensor_get(got, i);
        const bool is_same = value == want[i] || (isnan(value) && isnan(want[i]));
        const double error = fabs(value - want[i]);
        double ratio = is_same ? 0 : bound[i] > 0 ? error / bound[i] : INFINITY;
        ratio = isnan(ratio) ? INFINITY : ratio; /* only one of the two is NaN */
        if (ratio > worst) {
            worst = ratio;
            worst_at = i;
        }
    }
    if (worst > 1) {
        fail_msg("%s%s: got %.9g, want %.9g, bound %.3g (error is %.3g of it)\n%s", what,
                 coordinates(at, &got->view, worst_at), test_tensor_get(got, worst_at), want[worst_at],
                 bound[worst_at], worst, repro ? repro : "");
    }
    return worst;
}

void test_assert_message(const char *text, ...)
{
    const char *message = ag_error_take();
    va_list texts;
    va_start(texts, text);
    if (!message) {
        fail_msg("no error message, want one with \"%s\"", text);
    }
    for (const char *part = text; part; part = va_arg(texts, const char *)) {
        if (!strstr(message, part)) {
            fail_msg("message \"%s\" lacks \"%s\"", message, part);
        }
    }
    va_end(texts);
}

void test_configure(int threads, enum ag_isa isa, enum ag_limits limits)
{
    ag_config_set_threads(threads);
    ag_config_set_isa(isa);
    ag_config_set_limits(limits);
}
