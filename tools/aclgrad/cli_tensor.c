#include "cli_tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/elem.h"
#include "cli.h"

/* --- types ----------------------------------------------------------------------------------------------- */

static const struct dtype_name {
    int dtype;
    const char *word;
} dtype_names[] = {{AG_FLOAT, "f32"}, {AG_FLOAT16, "f16"}, {AG_BF16, "bf16"}, {AG_DOUBLE, "f64"},
                   {AG_INT32, "i32"}, {AG_INT64, "i64"},   {AG_UINT8, "u8"},  {AG_BOOL, "bool"}};
enum { DTYPES = sizeof dtype_names / sizeof *dtype_names };

const char *dtype_word(int dtype)
{
    for (int i = 0; i < DTYPES; ++i) {
        if (dtype_names[i].dtype == dtype) {
            return dtype_names[i].word;
        }
    }
    return "unknown";
}

int dtype_of_word(const char *word)
{
    for (int i = 0; i < DTYPES; ++i) {
        if (strcmp(dtype_names[i].word, word) == 0) {
            return dtype_names[i].dtype;
        }
    }
    return AG_DTYPE_UNDEFINED;
}

/* --- rounding -------------------------------------------------------------------------------------------- */

/* Exponent of the distance of neighbouring numbers at value. */
static int ulp_exponent(int dtype, double value)
{
    const int fraction_bits = dtype == AG_FLOAT16 ? 10 : dtype == AG_BF16 ? 7 : dtype == AG_FLOAT ? 23 : 52;
    const int smallest = dtype == AG_FLOAT16 ? -14 : dtype == AG_DOUBLE ? -1022 : -126;
    int exponent;
    frexp(value, &exponent); /* |value| in [2^(exponent - 1), 2^exponent) */
    exponent = value != 0 && exponent - 1 > smallest ? exponent - 1 : smallest;
    return exponent - fraction_bits;
}

double ulp_of_dtype(int dtype, double value)
{
    const bool is_float = ag_dtype_is_float(dtype) || dtype == AG_DOUBLE;
    return !is_float ? 0 : isfinite(value) ? ldexp(1, ulp_exponent(dtype, value)) : INFINITY;
}

/* Beyond the largest number of the type: infinity. */
static double overflow(int dtype, double value)
{
    const double beyond = dtype == AG_FLOAT16 ? 65536 : 0x1p128;
    return fabs(value) >= beyond ? copysign(INFINITY, value) : value;
}

double round_to_dtype(int dtype, double value)
{
    if (dtype == AG_DOUBLE || !isfinite(value) || !ag_dtype_is_float(dtype)) {
        return value;
    }
    const int ulp = ulp_exponent(dtype, value);
    return overflow(dtype, ldexp(rint(ldexp(value, -ulp)), ulp));
}

double round_to_dtype_away(int dtype, double value)
{
    if (dtype == AG_DOUBLE || !isfinite(value) || !ag_dtype_is_float(dtype)) {
        return value;
    }
    const int ulp = ulp_exponent(dtype, value);
    return overflow(dtype, ldexp(round(ldexp(value, -ulp)), ulp));
}

/* --- one tensor ------------------------------------------------------------------------------------------ */

bool tensor_is_float(const struct tensor *tensor)
{
    return ag_dtype_is_float(tensor->dtype) || tensor->dtype == AG_DOUBLE;
}

int64_t tensor_bytes(const struct tensor *tensor)
{
    return tensor->elems * (int64_t)ag_dtype_bytes(tensor->dtype);
}

const char *tensor_shape(const struct tensor *tensor, char text[AG_SHAPE_TEXT])
{
    return ag_shape_text(text, tensor->rank, tensor->dims);
}

static int64_t machine_bytes(void)
{
    const int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? pages * page_bytes : INT64_MAX;
}

bool tensor_create(struct tensor *tensor, const char *name, int dtype, int rank, const int64_t *dims)
{
    int64_t bytes;
    char shape[AG_SHAPE_TEXT];
    memset(tensor, 0, sizeof *tensor);
    tensor->dtype = dtype;
    tensor->rank = rank;
    memcpy(tensor->dims, dims, (size_t)rank * sizeof *dims);
    const bool fits = ag_product(&tensor->elems, rank, dims) &&
                      ag_product(&bytes, 2, (int64_t[]){tensor->elems, (int64_t)ag_dtype_bytes(dtype)});
    if (!fits || bytes > machine_bytes()) {
        return cli_fail(CLI_USAGE, "%s: %s %s is more than this machine's memory", name,
                        ag_shape_text(shape, rank, dims), dtype_word(dtype));
    }
    char *copy = strdup(name);
    void *data = calloc((size_t)bytes + 1, 1); /* large ones come as untouched pages */
    if (!copy || !data) {
        free(copy);
        free(data);
        return cli_fail(CLI_USAGE, "%s: out of memory", name);
    }
    tensor->name = copy;
    tensor->data = data;
    return true;
}

void tensor_destroy(struct tensor *tensor)
{
    if (tensor->mapping) {
        munmap(tensor->mapping, tensor->mapping_bytes);
    }
    free(tensor->mapping ? NULL : tensor->data);
    free(tensor->name);
    memset(tensor, 0, sizeof *tensor);
}

double tensor_get(const struct tensor *tensor, int64_t at)
{
    switch (tensor->dtype) {
    case AG_DOUBLE:
        return ((const double *)tensor->data)[at];
    case AG_INT32:
        return ((const int32_t *)tensor->data)[at];
    case AG_INT64:
        return (double)((const int64_t *)tensor->data)[at];
    case AG_UINT8:
    case AG_BOOL:
        return ((const uint8_t *)tensor->data)[at];
    default:
        return ag_elem_load(ag_elem_of(tensor->dtype), tensor->data, at);
    }
}

void tensor_set(struct tensor *tensor, int64_t at, double value)
{
    switch (tensor->dtype) {
    case AG_DOUBLE:
        ((double *)tensor->data)[at] = value;
        break;
    case AG_INT32:
        ((int32_t *)tensor->data)[at] = (int32_t)value;
        break;
    case AG_INT64:
        ((int64_t *)tensor->data)[at] = (int64_t)value;
        break;
    case AG_UINT8:
    case AG_BOOL:
        ((uint8_t *)tensor->data)[at] = (uint8_t)value;
        break;
    default: /* rounded to the type first: through float alone it would be rounded twice */
        ag_elem_store(ag_elem_of(tensor->dtype), tensor->data, at, (float)round_to_dtype(tensor->dtype, value));
    }
}

/* --- sets ------------------------------------------------------------------------------------------------ */

struct tensor *tensor_set_find(const struct tensor_set *set, const char *name)
{
    for (int i = 0; i < set->count; ++i) {
        if (strcmp(set->items[i].name, name) == 0) {
            return &set->items[i];
        }
    }
    return NULL;
}

bool tensor_set_add(struct tensor_set *set, struct tensor *tensor)
{
    struct tensor *items = NULL;
    if (!tensor->name) {
        cli_fail(CLI_IO, "out of memory");
    } else if (tensor_set_find(set, tensor->name)) {
        cli_fail(CLI_IO, "tensor '%s' appears twice", tensor->name);
    } else {
        items = realloc(set->items, (size_t)(set->count + 1) * sizeof *items);
        if (!items) {
            cli_fail(CLI_IO, "tensor '%s': out of memory", tensor->name);
        }
    }
    if (!items) {
        tensor_destroy(tensor);
        return false;
    }
    set->items = items;
    items[set->count++] = *tensor;
    memset(tensor, 0, sizeof *tensor);
    return true;
}

struct tensor *tensor_set_create(struct tensor_set *set, const char *name, int dtype, int rank, const int64_t *dims)
{
    struct tensor tensor;
    const bool is_good = tensor_create(&tensor, name, dtype, rank, dims) && tensor_set_add(set, &tensor);
    return is_good ? &set->items[set->count - 1] : NULL;
}

void tensor_set_destroy(struct tensor_set *set)
{
    for (int i = 0; i < set->count; ++i) {
        tensor_destroy(&set->items[i]);
    }
    free(set->items);
    *set = (struct tensor_set){NULL, 0};
}
