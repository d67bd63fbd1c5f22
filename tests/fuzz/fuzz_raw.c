/* Text of --dtype, text of --shape, then the file's bytes -> raw reader. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_tensor.h"

/* The shape as it must have been written. */
static void check_shape_text(const char *text, const struct tensor *tensor)
{
    char want[256] = "";
    int used = 0;
    for (int i = 0; i < tensor->rank; ++i) {
        used += snprintf(want + used, sizeof want - (size_t)used, "%s%" PRId64, i ? "," : "", tensor->dims[i]);
    }
    const char *dim = text;
    for (const char *digit = want; *digit; ++digit, ++dim) {
        while ((digit == want || digit[-1] == ',') && *dim == '0' && dim[1] >= '0' && dim[1] <= '9') {
            ++dim;
        }
        FUZZ_REQUIRE(*digit == *dim, "'%s' was read as %s", text, want);
    }
    FUZZ_REQUIRE(!*dim, "'%s' was read as %s", text, want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, data + bytes};
    struct tensor tensor;
    char *dtype = fuzz_take_text(&input), *shape = fuzz_take_text(&input);
    const size_t left = (size_t)(input.end - input.at);
    const struct tensor_file_hints hints = {.dtype = dtype, .shape = shape};
    const bool is_good = raw_read(fuzz_file(input.at, left), &hints, "t", &tensor);
    fuzz_check_verdict(is_good);
    if (is_good) {
        FUZZ_REQUIRE((size_t)tensor_bytes(&tensor) == left, "another size than the file's");
        FUZZ_REQUIRE(strcmp(dtype_word(tensor.dtype), dtype) == 0, "another type");
        check_shape_text(shape, &tensor);
        fuzz_check_tensor(&tensor);
        fuzz_check_npy_again(&tensor);
        tensor_destroy(&tensor);
    }
    free(dtype);
    free(shape);
    return 0;
}
