#include "fuzz_tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void fuzz_check_verdict(bool is_good)
{
    FUZZ_REQUIRE(is_good == !cli_failure()[0],
                 is_good ? "success, and a failure's text: %s" : "refused without a word%s", cli_failure());
    cli_forgive();
}

void fuzz_check_tensor(const struct tensor *tensor)
{
    int64_t elems, bytes;
    double sum = 0;
    FUZZ_REQUIRE(tensor->name && tensor->rank >= 0 && tensor->rank <= AG_MAX_RANK, "no name, or rank %d",
                 tensor->rank);
    for (int i = 0; i < tensor->rank; ++i) {
        FUZZ_REQUIRE(tensor->dims[i] >= 0, "a negative dim");
    }
    FUZZ_REQUIRE(ag_product(&elems, tensor->rank, tensor->dims) && elems == tensor->elems,
                 "elems is not the product");
    FUZZ_REQUIRE(ag_product(&bytes, 2, (int64_t[]){elems, (int64_t)ag_dtype_bytes(tensor->dtype)}) &&
                     bytes == tensor_bytes(tensor),
                 "bytes are not elems of the type");
    for (int64_t at = 0; at < elems; ++at) {
        sum += tensor_get(tensor, at);
    }
    volatile double kept = sum; /* so that all were read */
    (void)kept;
}

void fuzz_check_same_tensor(const struct tensor *a, const struct tensor *b)
{
    FUZZ_REQUIRE(a->dtype == b->dtype && a->rank == b->rank &&
                     memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0,
                 "another type or shape");
    FUZZ_REQUIRE(a->elems == 0 || memcmp(a->data, b->data, (size_t)tensor_bytes(a)) == 0, "other elements");
}

static uint8_t *npy_bytes(const struct tensor *tensor, size_t *bytes)
{
    size_t header_bytes = 0;
    char *header = npy_header(tensor, &header_bytes);
    const size_t data_bytes = (size_t)tensor_bytes(tensor);
    uint8_t *file = header ? malloc(header_bytes + data_bytes) : NULL;
    FUZZ_REQUIRE(file, "out of memory");
    memcpy(file, header, header_bytes);
    if (data_bytes) {
        memcpy(file + header_bytes, tensor->data, data_bytes);
    }
    free(header);
    *bytes = header_bytes + data_bytes;
    return file;
}

void fuzz_check_npy_again(const struct tensor *tensor)
{
    struct tensor again;
    size_t bytes;
    uint8_t *file = npy_bytes(tensor, &bytes);
    FUZZ_REQUIRE(npy_parse(file, bytes, tensor->name, &again), "written, and then refused: %s", cli_failure());
    fuzz_check_same_tensor(tensor, &again);
    tensor_destroy(&again);
    free(file);
}

void fuzz_check_set(const struct tensor_set *set)
{
    for (int i = 0; i < set->count; ++i) {
        fuzz_check_tensor(&set->items[i]);
        FUZZ_REQUIRE(tensor_set_find(set, set->items[i].name) == &set->items[i], "'%s' is there twice",
                     set->items[i].name);
    }
}

void fuzz_write_npy(struct fuzz_input *input, const char *name)
{
    static const int types[] = {AG_FLOAT, AG_BF16, AG_FLOAT16, AG_INT32, AG_INT64, AG_UINT8, AG_BOOL, AG_DOUBLE};
    char file_name[128];
    struct tensor tensor;
    int64_t dims[AG_MAX_RANK];
    const int dtype = types[fuzz_take(input, 0, 7)];
    const int rank = (int)fuzz_take(input, 0, 5);
    for (int i = 0; i < rank; ++i) {
        dims[i] = fuzz_take(input, 0, 9);
    }
    FUZZ_REQUIRE(tensor_create(&tensor, name, dtype, rank, dims), "%s", cli_failure());
    uint8_t pattern = (uint8_t)fuzz_take(input, 0, 255);
    const uint8_t step = (uint8_t)fuzz_take(input, 0, 255);
    for (int64_t i = 0; i < tensor_bytes(&tensor); ++i, pattern = (uint8_t)(pattern + step)) {
        ((uint8_t *)tensor.data)[i] = pattern;
    }
    size_t bytes;
    uint8_t *file = npy_bytes(&tensor, &bytes);
    snprintf(file_name, sizeof file_name, "%s.npy", name);
    fuzz_directory_write(file_name, file, bytes);
    free(file);
    tensor_destroy(&tensor);
}
