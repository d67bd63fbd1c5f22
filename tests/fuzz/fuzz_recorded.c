/* A JSON text, a 0, and choices -> a directory with call.json and .npy files -> recorded call, inspected and run. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_call.h"
#include "fuzz_tensor.h"

/* One tensor after the other, under the names of the operator that the first choice says. */
static void write_tensors(struct fuzz_input *input)
{
    const struct operation *operation = operations[fuzz_take(input, 0, PROBLEM_OPERATORS - 1)];
    const char *names[64];
    int count = 0;
    for (const char *const *name = operation->inputs; *name; ++name) {
        names[count++] = *name;
    }
    for (const char *const *name = operation->outputs; *name; ++name) {
        names[count++] = *name;
    }
    for (int i = 0; i < 16 && !fuzz_is_empty(input); ++i) {
        fuzz_write_npy(input, names[fuzz_take(input, 0, count - 1)]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, data + bytes};
    struct call call;
    char *text = fuzz_take_text(&input);
    cli.is_quiet = true;
    cli.max_bytes = 1 << 20;
    fuzz_directory_clear();
    fuzz_directory_write("call.json", text, strlen(text));
    write_tensors(&input);
    const bool is_good = recorded_read(fuzz_directory(), NULL, &call);
    fuzz_check_verdict(is_good);
    if (is_good) {
        fuzz_check_call(&call);
    } else {
        call_destroy(&call);
    }
    free(text);
    return 0;
}
