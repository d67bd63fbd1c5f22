#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

/* --- choices --------------------------------------------------------------------------------------------------- */

bool fuzz_is_empty(const struct fuzz_input *input)
{
    return input->at == input->end;
}

static uint64_t take_bytes(struct fuzz_input *input, int count)
{
    uint64_t number = 0;
    for (int i = 0; i < count && input->at < input->end; ++i) {
        number |= (uint64_t)*input->at++ << (8 * i);
    }
    return number;
}

int64_t fuzz_take(struct fuzz_input *input, int64_t lowest, int64_t highest)
{
    const uint64_t span = (uint64_t)highest - (uint64_t)lowest;
    const uint64_t number = take_bytes(input, span < 256 ? 1 : span < 65536 ? 2 : span <= UINT32_MAX ? 4 : 8);
    return (int64_t)((uint64_t)lowest + (span == UINT64_MAX ? number : number % (span + 1)));
}

bool fuzz_take_bool(struct fuzz_input *input)
{
    return fuzz_take(input, 0, 1) == 1;
}

bool fuzz_take_once_in(struct fuzz_input *input, int odds)
{
    return fuzz_take(input, 0, odds - 1) == odds - 1;
}

int64_t fuzz_take_edge(struct fuzz_input *input)
{
    static const int64_t edges[] = {0,
                                    1,
                                    -1,
                                    2,
                                    INT32_MAX,
                                    INT32_MIN,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_C(1) << 31,
                                    INT64_C(1) << 32,
                                    INT64_C(1) << 40,
                                    INT64_C(1) << 62,
                                    -(INT64_C(1) << 40)};
    const int64_t count = sizeof edges / sizeof *edges;
    const int64_t choice = fuzz_take(input, 0, 2 * count);
    if (choice == 2 * count) {
        return fuzz_take(input, INT64_MIN, INT64_MAX);
    }
    const int64_t edge = edges[choice % count];
    return choice < count ? edge : (int64_t)((uint64_t)edge + (uint64_t)fuzz_take(input, -20, 20));
}

char *fuzz_take_text(struct fuzz_input *input)
{
    const size_t left = (size_t)(input->end - input->at);
    const size_t length = left ? strnlen((const char *)input->at, left) : 0;
    char *text = malloc(length + 1);
    FUZZ_REQUIRE(text, "out of memory");
    memcpy(text, length ? (const char *)input->at : "", length);
    text[length] = 0;
    input->at += length + (length < left);
    return text;
}

/* --- files ----------------------------------------------------------------------------------------------------- */

static void write_whole(int descriptor, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        const ssize_t count = write(descriptor, from, bytes);
        FUZZ_REQUIRE(count > 0, "cannot write");
        from += count;
        bytes -= (size_t)count;
    }
}

const char *fuzz_file(const void *data, size_t bytes)
{
    static int descriptor = -1;
    static char path[64];
    if (descriptor < 0) {
        descriptor = memfd_create("fuzz", MFD_CLOEXEC);
        FUZZ_REQUIRE(descriptor >= 0, "no file in memory");
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    }
    FUZZ_REQUIRE(ftruncate(descriptor, 0) == 0 && lseek(descriptor, 0, SEEK_SET) == 0, "cannot rewind");
    write_whole(descriptor, data, bytes);
    return path;
}

static char directory[64];
static pid_t directory_owner; /* engines fork */

void fuzz_directory_clear(void)
{
    char path[512];
    DIR *entries = opendir(fuzz_directory());
    for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
            unlink(path);
        }
    }
    if (entries) {
        closedir(entries);
    }
}

static void remove_directory(void)
{
    if (directory_owner == getpid()) {
        fuzz_directory_clear();
        rmdir(directory);
    }
}

const char *fuzz_directory(void)
{
    if (directory_owner != getpid()) {
        directory_owner = getpid();
        snprintf(directory, sizeof directory, "%s/aclgrad-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        FUZZ_REQUIRE(mkdtemp(directory), "cannot make %s", directory);
        atexit(remove_directory);
    }
    return directory;
}

void fuzz_directory_write(const char *name, const void *data, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", fuzz_directory(), name);
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_REQUIRE(descriptor >= 0, "cannot write %s", path);
    write_whole(descriptor, data, bytes);
    close(descriptor);
}
