/* Bytes -> .npz reader, through a file. An input that does not start with "PK" is packed first: members that are
 * named, sized and filled by the bytes, so that the search reaches what lies behind the zip library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "fuzz_tensor.h"

enum { MOST_BYTES = 1 << 20 };

static void check_file(const void *data, size_t bytes)
{
    struct tensor_set set = {NULL, 0};
    char *notes = NULL;
    cli.max_bytes = MOST_BYTES;
    const bool is_good = npz_read(fuzz_file(data, bytes), &set, &notes);
    fuzz_check_verdict(is_good);
    if (is_good) {
        int64_t total = 0;
        for (int i = 0; i < set.count; ++i) {
            total += tensor_bytes(&set.items[i]);
        }
        FUZZ_REQUIRE(total <= MOST_BYTES, "unpacked to %lld bytes", (long long)total);
        fuzz_check_set(&set);
    }
    tensor_set_destroy(&set);
    free(notes);
}

static void add_member(zip_t *archive, struct fuzz_input *input)
{
    static const char *const names[] = {"a.npy", "b.npy", "c.npy", "call.json", "d.txt", "../e.npy", ".npy", "npy"};
    const char *name = names[fuzz_take(input, 0, 7)];
    const bool is_packed = fuzz_take_bool(input);
    const int64_t left = input->end - input->at;
    const int64_t bytes = fuzz_take(input, 0, left < 4096 ? left : 4096);
    const int64_t have = input->end - input->at;
    const int64_t taken = bytes < have ? bytes : have;
    zip_source_t *source = zip_source_buffer(archive, input->at, (zip_uint64_t)taken, 0);
    const zip_int64_t index = zip_file_add(archive, name, source, 0);
    if (index < 0) {
        zip_source_free(source);
    } else {
        zip_set_file_compression(archive, (zip_uint64_t)index, is_packed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    input->at += taken;
}

static void check_members(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, data + bytes};
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *buffer = zip_source_buffer_create(NULL, 0, 0, &error);
    FUZZ_REQUIRE(buffer, "no buffer");
    zip_source_keep(buffer);
    zip_t *archive = zip_open_from_source(buffer, ZIP_CREATE | ZIP_TRUNCATE, &error);
    FUZZ_REQUIRE(archive, "no archive");
    for (int i = 0; i < 4 && !fuzz_is_empty(&input); ++i) {
        add_member(archive, &input);
    }
    zip_stat_t stat;
    if (zip_close(archive) == 0 && zip_source_stat(buffer, &stat) == 0 && zip_source_open(buffer) == 0) {
        char *file = malloc(stat.size + 1);
        FUZZ_REQUIRE(file && zip_source_read(buffer, file, stat.size) == (zip_int64_t)stat.size, "cannot read back");
        zip_source_close(buffer);
        check_file(file, stat.size);
        free(file);
    }
    zip_source_free(buffer);
    zip_error_fini(&error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes >= 2 && data[0] == 'P' && data[1] == 'K') {
        check_file(data, bytes);
    } else {
        check_members(data, bytes);
    }
    return 0;
}
