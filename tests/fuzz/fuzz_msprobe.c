/* A JSON text, a 0, and choices -> a directory with dump.json and the .npy files a.npy to p.npy -> recorded call,
 * inspected and run. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_call.h"
#include "fuzz_tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, data + bytes};
    struct call call;
    char *text = fuzz_take_text(&input);
    cli.is_quiet = true;
    cli.max_bytes = 1 << 20;
    fuzz_directory_clear();
    fuzz_directory_write("dump.json", text, strlen(text));
    for (char name[] = "a"; name[0] <= 'p' && !fuzz_is_empty(&input); ++name[0]) {
        fuzz_write_npy(&input, name);
    }
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
