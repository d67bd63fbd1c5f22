/* Bytes without a header: --shape and --dtype say what they are. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cli.h"
#include "tensor_file.h"
#include "whole_number.h"

static bool parse_shape(const char *text, struct tensor *tensor)
{
    const char *begin = text, *end = text + strlen(text);
    tensor->rank = 0;
    while (text < end) {
        const char *comma = memchr(text, ',', (size_t)(end - text)), *dim_end = comma ? comma : end;
        int64_t dim;
        if (!whole_number(text, (size_t)(dim_end - text), &dim) || *text == '-' || (comma && comma + 1 == end) ||
            tensor->rank == AG_MAX_RANK) {
            return cli_fail(CLI_USAGE, "--shape: got '%s', want at most 8 dims like 2,3,128", begin);
        }
        tensor->dims[tensor->rank++] = dim;
        text = comma ? comma + 1 : end;
    }
    return true;
}

bool raw_read(const char *path, const struct tensor_file_hints *hints, const char *name, struct tensor *tensor)
{
    struct file_bytes file;
    int64_t want;
    memset(tensor, 0, sizeof *tensor);
    if (!hints) { /* of a command that takes no raw bytes */
        return cli_fail(CLI_USAGE, "%s: no .npy, .npz, .safetensors or directory", path);
    }
    if (!hints->dtype || !hints->shape) {
        return cli_fail(CLI_USAGE, "%s: no .npy, .npz, .safetensors or directory; raw bytes need --shape and --dtype",
                        path);
    }
    tensor->dtype = dtype_of_word(hints->dtype);
    if (tensor->dtype == AG_DTYPE_UNDEFINED) {
        return cli_fail(CLI_USAGE, "--dtype: got '%s', want f32, f16, bf16, f64, i32, i64, u8 or bool", hints->dtype);
    }
    if (!parse_shape(hints->shape, tensor) || !file_map(path, &file)) {
        return false;
    }
    if (!ag_product(&tensor->elems, tensor->rank, tensor->dims) ||
        !ag_product(&want, 2, (int64_t[]){tensor->elems, (int64_t)ag_dtype_bytes(tensor->dtype)}) ||
        (uint64_t)want != file.bytes) {
        file_unmap(&file);
        return cli_fail(CLI_IO, "%s: has %zu bytes, --shape %s --dtype %s needs another number", path, file.bytes,
                        hints->shape, hints->dtype);
    }
    tensor->name = strdup(name);
    tensor->mapping = file.mapping;
    tensor->mapping_bytes = file.bytes;
    tensor->data = file.mapping;
    return tensor->name || cli_fail(CLI_IO, "out of memory");
}
