/* Bytes -> .npy reader: refused with a reason, or a tensor that fits the bytes and survives writing and reading. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tensor parsed, mapped;
    const bool is_parsed = npy_parse(data, bytes, "t", &parsed);
    fuzz_check_verdict(is_parsed);
    const bool is_mapped = npy_read(fuzz_file(data, bytes), "t", &mapped);
    fuzz_check_verdict(is_mapped);
    FUZZ_REQUIRE(is_parsed == is_mapped, "a mapped file is judged otherwise");
    if (is_parsed) {
        fuzz_check_tensor(&parsed);
        fuzz_check_same_tensor(&parsed, &mapped);
        fuzz_check_npy_again(&parsed);
        tensor_destroy(&parsed);
        tensor_destroy(&mapped);
    }
    return 0;
}
