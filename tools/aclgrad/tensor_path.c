/* Which form a path has, and directories. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "tensor_file.h"

enum { MOST_NOTES = 1 << 24 };

/* --- mapped files ---------------------------------------------------------------------------------------- */

bool file_map(const char *path, struct file_bytes *file)
{
    struct stat stat;
    *file = (struct file_bytes){NULL, 0, NULL};
    /* not blocking: a pipe without a writer is told to be no regular file, not waited for */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0 || fstat(descriptor, &stat) != 0) {
        const int error = errno;
        if (descriptor >= 0) {
            close(descriptor);
        }
        return cli_fail(CLI_IO, "%s: %s", path, strerror(error));
    }
    bool is_good = S_ISREG(stat.st_mode) || cli_fail(CLI_IO, "%s: not a regular file", path);
    if (is_good && stat.st_size > 0) {
        void *mapping = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        is_good = mapping != MAP_FAILED || cli_fail(CLI_IO, "%s: %s", path, strerror(errno));
        file->mapping = is_good ? mapping : NULL;
        file->data = file->mapping;
        file->bytes = is_good ? (size_t)stat.st_size : 0;
    }
    close(descriptor);
    return is_good;
}

void file_unmap(struct file_bytes *file)
{
    if (file->mapping) {
        munmap(file->mapping, file->bytes);
    }
    file->mapping = NULL;
}

/* --- names ----------------------------------------------------------------------------------------------- */

bool tensor_name_is_plain(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return name[0] && name[0] != '.' && name[strspn(name, allowed)] == 0;
}

static bool has_suffix(const char *path, const char *suffix)
{
    const size_t length = strlen(path), suffix_length = strlen(suffix);
    return length > suffix_length && strcmp(path + length - suffix_length, suffix) == 0;
}

/* "dir/dq.npy" -> "dq"; characters that a name may not have become "_". */
static void stem_of(const char *path, char *stem, size_t bytes)
{
    const char *slash = strrchr(path, '/');
    snprintf(stem, bytes, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(stem, '.');
    if (dot && dot != stem) {
        *dot = 0;
    }
    for (char *c = stem; *c; ++c) {
        const char probe[] = {'a', *c, 0};
        if (c != stem && !tensor_name_is_plain(probe)) {
            *c = '_';
        }
    }
}

static char *join(const char *directory, const char *name)
{
    char *path = malloc(strlen(directory) + strlen(name) + 2);
    if (path) {
        sprintf(path, "%s/%s", directory, name);
    } else {
        cli_fail(CLI_IO, "out of memory");
    }
    return path;
}

/* --- notes ----------------------------------------------------------------------------------------------- */

/* The text of a file that may be absent (then *notes stays). */
static bool read_notes(const char *path, char **notes)
{
    struct file_bytes file;
    if (!notes || *notes || access(path, F_OK) != 0) {
        return true;
    }
    if (!file_map(path, &file)) {
        return false;
    }
    bool is_good = file.bytes <= MOST_NOTES || cli_fail(CLI_IO, "%s: more than 16 MiB", path);
    if (is_good) {
        *notes = calloc(file.bytes + 1, 1);
        is_good = *notes || cli_fail(CLI_IO, "%s: out of memory", path);
        if (is_good && file.bytes) {
            memcpy(*notes, file.data, file.bytes);
        }
    }
    file_unmap(&file);
    return is_good;
}

/* FILE.json beside FILE.npz. */
static bool read_notes_beside(const char *path, char **notes)
{
    char *beside = strdup(path);
    bool is_good = false;
    if (beside) {
        char *name = realloc(beside, strlen(path) + sizeof ".json");
        beside = name ? name : beside;
        memcpy(strrchr(beside, '.'), ".json", sizeof ".json");
        is_good = read_notes(beside, notes);
    }
    free(beside);
    return is_good;
}

/* --- reading --------------------------------------------------------------------------------------------- */

static int is_array_file(const struct dirent *entry)
{
    return has_suffix(entry->d_name, ".npy");
}

static bool read_array_file(const char *path, struct tensor_set *set)
{
    char name[256];
    struct tensor tensor;
    stem_of(path, name, sizeof name);
    return npy_read(path, name, &tensor) && tensor_set_add(set, &tensor);
}

static bool read_directory(const char *path, struct tensor_set *set, char **notes)
{
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, is_array_file, alphasort);
    bool is_good = count >= 0 || cli_fail(CLI_IO, "%s: %s", path, strerror(errno));
    for (int i = 0; i < count; ++i) {
        char *file = is_good ? join(path, entries[i]->d_name) : NULL;
        is_good = is_good && file && read_array_file(file, set);
        free(file);
        free(entries[i]);
    }
    free(entries);
    char *call = join(path, "call.json");
    is_good = is_good && call && read_notes(call, notes);
    free(call);
    return is_good;
}

static bool read_raw_file(const char *path, const struct tensor_file_hints *hints, struct tensor_set *set)
{
    char name[256];
    struct tensor tensor;
    stem_of(path, name, sizeof name);
    return raw_read(path, hints, name, &tensor) && tensor_set_add(set, &tensor);
}

bool tensor_path_is_raw(const char *path)
{
    struct stat stat_of_path;
    const bool is_directory = stat(path, &stat_of_path) == 0 && S_ISDIR(stat_of_path.st_mode);
    return !is_directory && !has_suffix(path, ".npy") && !has_suffix(path, ".npz") &&
           !has_suffix(path, ".safetensors");
}

bool tensor_path_read(const char *path, const struct tensor_file_hints *hints, struct tensor_set *set, char **notes)
{
    struct stat stat_of_path;
    *set = (struct tensor_set){NULL, 0};
    if (notes) {
        *notes = NULL;
    }
    if (stat(path, &stat_of_path) != 0) {
        return cli_fail(CLI_IO, "%s: %s", path, strerror(errno));
    }
    bool is_good;
    if (S_ISDIR(stat_of_path.st_mode)) {
        is_good = read_directory(path, set, notes);
    } else if (has_suffix(path, ".npy")) {
        is_good = read_array_file(path, set);
    } else if (has_suffix(path, ".npz")) {
        is_good = npz_read(path, set, notes) && read_notes_beside(path, notes);
    } else if (has_suffix(path, ".safetensors")) {
        is_good = safetensors_read(path, set, notes) && read_notes_beside(path, notes);
    } else {
        is_good = read_raw_file(path, hints, set);
    }
    if (!is_good) {
        tensor_set_destroy(set);
        free(notes ? *notes : NULL);
    }
    return is_good;
}

/* --- writing --------------------------------------------------------------------------------------------- */

static bool write_directory(const char *path, const struct tensor_set *set, const char *notes)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return cli_fail(CLI_IO, "%s: cannot make the directory: %s", path, strerror(errno));
    }
    bool is_good = true;
    for (int i = 0; is_good && i < set->count; ++i) {
        char name[256];
        snprintf(name, sizeof name, "%.200s.npy", set->items[i].name);
        char *file = join(path, name);
        is_good = file && npy_write(file, &set->items[i]);
        free(file);
    }
    if (is_good && notes) {
        char *file = join(path, "call.json");
        is_good = file && output_text(file, notes);
        free(file);
    }
    return is_good;
}

bool tensor_path_write(const char *path, const struct tensor_set *set, const char *notes)
{
    if (has_suffix(path, ".npz")) {
        return npz_write(path, set, notes);
    }
    if (has_suffix(path, ".safetensors")) {
        return safetensors_write(path, set, notes);
    }
    if (has_suffix(path, ".npy")) {
        return (set->count == 1 || cli_fail(CLI_USAGE,
                                            "%s: holds one tensor, there are %d; want a directory, .npz or "
                                            ".safetensors",
                                            path, set->count)) &&
               npy_write(path, &set->items[0]);
    }
    return write_directory(path, set, notes);
}
