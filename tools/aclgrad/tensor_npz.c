/* The .npz format: a zip archive of .npy files, through libzip. A member's size is believed only when the member's own
 * .npy header says the same, and unpacks to at most --max-bytes, so that a small file cannot fill the memory. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "cli.h"
#include "tensor_file.h"

enum { MOST_MEMBERS = 4096, MOST_NOTES = 1 << 24 };

static bool fail_zip(zip_t *archive, const char *what)
{
    return cli_fail(CLI_IO, "npz: %s: %s", what, zip_error_strerror(zip_get_error(archive)));
}

/* --- reading --------------------------------------------------------------------------------------------- */

/* All `bytes` of an opened member, into `to`. */
static bool read_all(zip_file_t *member, const char *name, uint8_t *to, uint64_t bytes)
{
    while (bytes > 0) {
        const zip_int64_t got = zip_fread(member, to, bytes);
        if (got <= 0) {
            return cli_fail(CLI_IO, "npz: member '%s': %s", name,
                            got < 0 ? zip_error_strerror(zip_file_get_error(member)) : "truncated");
        }
        to += got;
        bytes -= (uint64_t)got;
    }
    return true;
}

/* The whole member on the heap. The archive has checked size against --max-bytes. */
static uint8_t *unpack(zip_t *archive, uint64_t index, const char *name, uint64_t bytes)
{
    uint8_t *data = malloc(bytes + 1);
    uint8_t beyond;
    zip_file_t *member = zip_fopen_index(archive, index, 0);
    bool is_good = false;
    if (!data || !member) {
        cli_fail(CLI_IO, "npz: member '%s': %s", name,
                 data ? "cannot be opened (encrypted, or an unknown packing)" : "out of memory");
    } else {
        is_good = read_all(member, name, data, bytes);
        if (is_good && zip_fread(member, &beyond, 1) != 0) { /* at the end the checksum is compared */
            is_good = cli_fail(CLI_IO,
                               "npz: member '%s': its checksum is wrong, or it unpacks to more than it claims", name);
        }
    }
    if (member) {
        zip_fclose(member);
    }
    if (is_good) {
        data[bytes] = 0;
        return data;
    }
    free(data);
    return NULL;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool add_array(const char *member, const uint8_t *data, uint64_t bytes, struct tensor_set *set)
{
    char name[256];
    struct tensor tensor;
    snprintf(name, sizeof name, "%.*s", (int)(strlen(member) - strlen(".npy")), member);
    return (npy_parse(data, bytes, name, &tensor) || cli_fail_in("npz: member '%s'", member)) &&
           tensor_set_add(set, &tensor);
}

/* *left: bytes that the whole archive may still unpack to. */
static bool read_member(zip_t *archive, uint64_t index, uint64_t *left, struct tensor_set *set, char **notes)
{
    zip_stat_t stat;
    if (zip_stat_index(archive, index, 0, &stat) != 0 || !(stat.valid & ZIP_STAT_NAME) ||
        !(stat.valid & ZIP_STAT_SIZE)) {
        return fail_zip(archive, "a member cannot be described");
    }
    const bool is_notes = strcmp(stat.name, "call.json") == 0;
    if (!tensor_name_is_plain(stat.name) || strlen(stat.name) > 200) {
        return cli_fail(CLI_IO, "npz: member %" PRIu64 " has a name that is a path, or not plain", index);
    }
    if (!is_notes && !ends_with(stat.name, ".npy")) {
        return cli_fail(CLI_IO, "npz: member '%s' is neither .npy nor call.json", stat.name);
    }
    const uint64_t most = is_notes && *left > MOST_NOTES ? MOST_NOTES : *left;
    if (stat.size > most) {
        return cli_fail(CLI_IO,
                        "npz: member '%s' unpacks to %" PRIu64 " bytes, at most %" PRIu64 " are read (--max-bytes)",
                        stat.name, stat.size, most);
    }
    *left -= stat.size;
    uint8_t *data = unpack(archive, index, stat.name, stat.size);
    if (data && is_notes && notes && !*notes) {
        *notes = (char *)data;
        return true;
    }
    const bool is_good = data && (is_notes || add_array(stat.name, data, stat.size, set));
    free(data);
    return is_good;
}

bool npz_read(const char *path, struct tensor_set *set, char **notes)
{
    int code = 0;
    zip_t *archive = zip_open(path, ZIP_RDONLY | ZIP_CHECKCONS, &code);
    if (!archive) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        cli_fail(CLI_IO, "%s: npz: %s", path,
                 code == ZIP_ER_EXISTS ? "a member's name appears twice" : zip_error_strerror(&error));
        zip_error_fini(&error);
        return false;
    }
    uint64_t left = cli.max_bytes;
    const zip_int64_t members = zip_get_num_entries(archive, 0);
    bool is_good = members <= MOST_MEMBERS || cli_fail(CLI_IO, "npz: more than %d members", MOST_MEMBERS);
    for (zip_int64_t i = 0; is_good && i < members; ++i) {
        is_good = read_member(archive, (uint64_t)i, &left, set, notes);
    }
    zip_discard(archive);
    return is_good || cli_fail_in("%s", path);
}

/* --- writing --------------------------------------------------------------------------------------------- */

static bool add_member(zip_t *archive, const char *name, void *data, size_t bytes)
{
    zip_source_t *source = zip_source_buffer(archive, data, bytes, 0);
    const zip_int64_t index = source ? zip_file_add(archive, name, source, ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0) {
        zip_source_free(source);
        return fail_zip(archive, name);
    }
    /* As numpy.savez stores: unpacked, and one fixed time, so that equal tensors make equal files. */
    zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0);
    zip_file_set_dostime(archive, (zip_uint64_t)index, 0, 0x21, 0);
    return true;
}

/* The tensor as an .npy file in memory. */
static uint8_t *pack(const struct tensor *tensor, size_t *bytes)
{
    size_t header_bytes = 0;
    char *header = npy_header(tensor, &header_bytes);
    *bytes = header_bytes + (size_t)tensor_bytes(tensor);
    uint8_t *data = header ? malloc(*bytes) : NULL;
    if (data) {
        memcpy(data, header, header_bytes);
        memcpy(data + header_bytes, tensor->data, (size_t)tensor_bytes(tensor));
    } else {
        cli_fail(CLI_IO, "npz: out of memory");
    }
    free(header);
    return data;
}

static bool add_all(zip_t *archive, const struct tensor_set *set, const char *notes, uint8_t **packed)
{
    bool is_good = true;
    for (int i = 0; is_good && i < set->count; ++i) {
        char name[256];
        size_t bytes = 0;
        packed[i] = pack(&set->items[i], &bytes);
        snprintf(name, sizeof name, "%.200s.npy", set->items[i].name);
        is_good = packed[i] && add_member(archive, name, packed[i], bytes);
    }
    return is_good && (!notes || add_member(archive, "call.json", (void *)(uintptr_t)notes, strlen(notes)));
}

bool npz_write(const char *path, const struct tensor_set *set, const char *notes)
{
    struct output_file file;
    if (!output_open(&file, path)) {
        return false;
    }
    uint8_t **packed = calloc((size_t)set->count + 1, sizeof *packed);
    zip_t *archive = packed && file.temporary[0] ? zip_open(file.temporary, ZIP_CREATE | ZIP_TRUNCATE, NULL) : NULL;
    bool is_good = archive || cli_fail(CLI_IO, "%s: cannot write%s", path,
                                       file.temporary[0] ? "" : ": no file, and an archive is not a stream");
    is_good = is_good && add_all(archive, set, notes, packed);
    output_hold_signals(); /* the archive is written to a temporary file whose name only libzip knows */
    if (archive && (!is_good || zip_close(archive) != 0)) { /* zip_close writes, and reads the sources */
        is_good = is_good && (fail_zip(archive, "cannot write") || cli_fail_in("%s", path));
        zip_discard(archive);
    }
    output_release_signals();
    for (int i = 0; packed && i < set->count; ++i) {
        free(packed[i]);
    }
    free(packed);
    is_good = is_good && output_close(&file);
    output_cancel(&file);
    return is_good;
}
