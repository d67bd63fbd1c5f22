/* The engine of `make test`: every input that is named, or lies in a folder that is named, goes through the target
 * once. As under an engine the input ends where its memory ends. After -least=N it fails unless that many elements of
 * outputs were held against the definition: a corpus whose every call is refused proves nothing of them. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static int replayed;

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    FUZZ_REQUIRE(file, "cannot read %s", path);
    fseek(file, 0, SEEK_END);
    const size_t bytes = (size_t)ftell(file);
    uint8_t *data = malloc(bytes ? bytes : 1);
    rewind(file);
    FUZZ_REQUIRE(data && fread(data, 1, bytes, file) == bytes, "cannot read %s", path);
    fclose(file);
    printf("%s\n", path);
    fflush(stdout); /* a crash shows which */
    LLVMFuzzerTestOneInput(data, bytes);
    free(data);
    ++replayed;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void replay_path(const char *path)
{
    struct stat stat_of_path;
    struct dirent **entries;
    FUZZ_REQUIRE(stat(path, &stat_of_path) == 0, "there is no %s", path);
    if (!S_ISDIR(stat_of_path.st_mode)) {
        replay_file(path);
        return;
    }
    const int count = scandir(path, &entries, is_visible, alphasort);
    FUZZ_REQUIRE(count >= 0, "cannot read %s", path);
    for (int i = 0; i < count; ++i) {
        char file[1024];
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        replay_file(file);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    static const char option[] = "-least=";
    long long least = 0;
    for (int i = 1; i < argc; ++i) {
        if (strncmp(argv[i], option, sizeof option - 1) == 0) {
            least = atoll(argv[i] + sizeof option - 1);
        } else {
            replay_path(argv[i]);
        }
    }
    printf("%d inputs, %lld elements compared, want %lld\n", replayed, (long long)fuzz_compared_elements, least);
    return replayed == 0 || fuzz_compared_elements < least;
}
