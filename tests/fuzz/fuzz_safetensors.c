/* Bytes -> .safetensors reader. Half of the search would be lost on the 8 bytes of the header's length: an input that
 * starts with "{" is a header, up to its first 0, and the rest is the buffer. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_tensor.h"

static uint8_t *with_length(const uint8_t *data, size_t bytes, size_t *total)
{
    const size_t length = strnlen((const char *)data, bytes), behind = length < bytes ? bytes - length - 1 : 0;
    *total = 8 + length + behind;
    uint8_t *file = malloc(*total);
    FUZZ_REQUIRE(file, "out of memory");
    for (int i = 0; i < 8; ++i) {
        file[i] = (uint8_t)((uint64_t)length >> (8 * i));
    }
    memcpy(file + 8, data, length);
    memcpy(file + 8 + length, data + bytes - behind, behind);
    return file;
}

static void check_file(const uint8_t *data, size_t bytes)
{
    struct tensor_set set = {NULL, 0};
    char *notes = NULL;
    const bool is_good = safetensors_parse(data, bytes, &set, &notes);
    fuzz_check_verdict(is_good);
    if (is_good) {
        int64_t total = 0;
        for (int i = 0; i < set.count; ++i) {
            total += tensor_bytes(&set.items[i]);
        }
        FUZZ_REQUIRE((uint64_t)total + 8 <= bytes, "more tensors than bytes");
        fuzz_check_set(&set);
    }
    tensor_set_destroy(&set);
    free(notes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes && data[0] == '{') {
        size_t total;
        uint8_t *file = with_length(data, bytes, &total);
        check_file(file, total);
        free(file);
    } else {
        check_file(data, bytes);
    }
    return 0;
}
