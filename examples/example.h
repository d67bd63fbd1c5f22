/* What the C examples share: stopping on an error, and tensors with memory on the device. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

#define CHECK(call) example_check((call), #call)

static inline void example_check(int code, const char *call)
{
    if (code != ACL_SUCCESS) {
        const char *message = aclGetRecentErrMsg();
        fprintf(stderr, "%s: %d: %s\n", call, code, message ? message : "no message");
        exit(1);
    }
}

struct tensor {
    aclTensor *handle;
    void *memory; /* on the device */
    size_t bytes;
};

/* A contiguous tensor; its memory gets a copy of `values`, or is left as it comes when values is NULL (outputs). */
static inline struct tensor tensor_create(aclDataType type, int rank, const int64_t *dims, const void *values)
{
    struct tensor tensor = {NULL, NULL, aclDataTypeSize(type)};
    for (int d = 0; d < rank; ++d) {
        tensor.bytes *= (size_t)dims[d];
    }
    CHECK(aclrtMalloc(&tensor.memory, tensor.bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    if (values) {
        CHECK(aclrtMemcpy(tensor.memory, tensor.bytes, values, tensor.bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    }
    tensor.handle =
        aclCreateTensor(dims, (uint64_t)rank, type, NULL, 0, ACL_FORMAT_ND, dims, (uint64_t)rank, tensor.memory);
    if (!tensor.handle) {
        fprintf(stderr, "aclCreateTensor: %s\n", aclGetRecentErrMsg());
        exit(1);
    }
    return tensor;
}

static inline void tensor_read(const struct tensor *tensor, void *values)
{
    CHECK(aclrtMemcpy(values, tensor->bytes, tensor->memory, tensor->bytes, ACL_MEMCPY_DEVICE_TO_HOST));
}

static inline void tensor_destroy(struct tensor *tensor)
{
    CHECK(aclDestroyTensor(tensor->handle));
    CHECK(aclrtFree(tensor->memory));
}

/* Scratch that phase 1 asked for; NULL when it asked for none. */
static inline void *workspace_create(uint64_t bytes)
{
    void *workspace = NULL;
    if (bytes > 0) {
        CHECK(aclrtMalloc(&workspace, (size_t)bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    return workspace;
}

static inline void workspace_destroy(void *workspace)
{
    if (workspace) {
        CHECK(aclrtFree(workspace));
    }
}

static inline void print_floats(const char *name, const float *values, size_t count)
{
    printf("%s:", name);
    for (size_t i = 0; i < count; ++i) {
        printf(" %g", (double)values[i]);
    }
    printf("\n");
}

#endif
