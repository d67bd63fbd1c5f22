/* The .npy format: magic, version, header length, a Python dict as text, then the elements.
 *
 *     \x93NUMPY  major minor  length (2 bytes, from version 2 on 4, little endian)  header  data
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *
 * bf16 has no name there: '|V2' and '<u2' are taken for it, '|V2' is written. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cli.h"
#include "tensor_file.h"

static const struct npy_type {
    const char *descr;
    int dtype;
} npy_types[] = {{"<f2", AG_FLOAT16}, {"<f4", AG_FLOAT}, {"<f8", AG_DOUBLE}, {"<i4", AG_INT32}, {"<i8", AG_INT64},
                 {"|u1", AG_UINT8},   {"|b1", AG_BOOL},  {"|V2", AG_BF16},   {"<u2", AG_BF16},  {"<V2", AG_BF16}};
enum { NPY_TYPES = sizeof npy_types / sizeof *npy_types, MAGIC_BYTES = 6 };
static const uint8_t magic[MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* --- reading the dict ------------------------------------------------------------------------------------ */

/* The header text, read from left to right. */
struct dict {
    const char *at, *begin, *end;
    bool has_descr, has_order, has_shape;
};

static bool fail_at(const struct dict *d, const char *what)
{
    return cli_fail(CLI_IO, "npy header, character %d: %s", (int)(d->at - d->begin), what);
}

static void skip_spaces(struct dict *d)
{
    while (d->at < d->end && (*d->at == ' ' || *d->at == '\n' || *d->at == '\t')) {
        ++d->at;
    }
}

static bool take(struct dict *d, char c)
{
    skip_spaces(d);
    const bool is_there = d->at < d->end && *d->at == c;
    d->at += is_there;
    return is_there;
}

static bool take_text(struct dict *d, const char *text)
{
    const size_t length = strlen(text);
    skip_spaces(d);
    const bool is_there = (size_t)(d->end - d->at) >= length && memcmp(d->at, text, length) == 0;
    d->at += is_there ? length : 0;
    return is_there;
}

enum { WORD_BYTES = 32 };

static bool read_string(struct dict *d, char word[WORD_BYTES])
{
    skip_spaces(d);
    const char quote = d->at < d->end ? *d->at : 0;
    if (quote != '\'' && quote != '"') {
        return fail_at(d, "want a quoted string");
    }
    const char *begin = ++d->at;
    while (d->at < d->end && *d->at != quote) {
        ++d->at;
    }
    if (d->at == d->end || d->at - begin >= WORD_BYTES) {
        d->at = begin;
        return fail_at(d, "the string does not end, or is too long");
    }
    memcpy(word, begin, (size_t)(d->at - begin));
    word[d->at++ - begin] = 0;
    return true;
}

static bool read_dim(struct dict *d, int64_t *dim)
{
    skip_spaces(d);
    *dim = 0;
    const char *begin = d->at;
    for (; d->at < d->end && *d->at >= '0' && *d->at <= '9'; ++d->at) {
        const int digit = *d->at - '0';
        if (*dim > (INT64_MAX - digit) / 10) {
            return fail_at(d, "a dim does not fit 64 bits");
        }
        *dim = *dim * 10 + digit;
    }
    return d->at > begin || fail_at(d, "want a dim, a number that is not negative");
}

static bool read_shape(struct dict *d, struct tensor *tensor)
{
    if (!take(d, '(')) {
        return fail_at(d, "want the shape, a tuple");
    }
    tensor->rank = 0;
    while (!take(d, ')')) {
        if (tensor->rank == AG_MAX_RANK) {
            return fail_at(d, "more than 8 dims");
        }
        if (!read_dim(d, &tensor->dims[tensor->rank])) {
            return false;
        }
        ++tensor->rank;
        if (!take(d, ',')) {
            return take(d, ')') || fail_at(d, "want , or ) in the shape");
        }
    }
    return true;
}

static bool read_descr(struct dict *d, struct tensor *tensor)
{
    char descr[WORD_BYTES];
    if (!read_string(d, descr)) {
        return false;
    }
    for (int i = 0; i < NPY_TYPES; ++i) {
        if (strcmp(descr, npy_types[i].descr) == 0) {
            tensor->dtype = npy_types[i].dtype;
            return true;
        }
    }
    return cli_fail(CLI_IO, "npy header: type '%s'%s; read are <f2 <f4 <f8 <i4 <i8 |u1 |b1, and |V2 or <u2 as bf16",
                    descr, descr[0] == '>' ? " is big-endian" : "");
}

static bool read_entry(struct dict *d, struct tensor *tensor, struct npy_layout *layout)
{
    char key[WORD_BYTES];
    if (!read_string(d, key)) {
        return false;
    }
    bool *is_seen = strcmp(key, "descr") == 0           ? &d->has_descr
                    : strcmp(key, "fortran_order") == 0 ? &d->has_order
                    : strcmp(key, "shape") == 0         ? &d->has_shape
                                                        : NULL;
    if (!is_seen || *is_seen) {
        return fail_at(d, is_seen ? "a key appears twice" : "a key other than descr, fortran_order, shape");
    }
    *is_seen = true;
    if (!take(d, ':')) {
        return fail_at(d, "want :");
    }
    if (is_seen == &d->has_descr) {
        return read_descr(d, tensor);
    }
    if (is_seen == &d->has_shape) {
        return read_shape(d, tensor);
    }
    layout->is_column_major = take_text(d, "True");
    return layout->is_column_major || take_text(d, "False") || fail_at(d, "want True or False");
}

static bool read_dict(struct dict *d, struct tensor *tensor, struct npy_layout *layout)
{
    if (!take(d, '{')) {
        return fail_at(d, "want {");
    }
    while (!take(d, '}')) {
        if (!read_entry(d, tensor, layout)) {
            return false;
        }
        if (!take(d, ',')) {
            if (!take(d, '}')) {
                return fail_at(d, "want , or }");
            }
            break;
        }
    }
    skip_spaces(d);
    if (d->at != d->end) {
        return fail_at(d, "text behind the dict");
    }
    return (d->has_descr && d->has_order && d->has_shape) || fail_at(d, "descr, fortran_order or shape is missing");
}

/* --- the frame ------------------------------------------------------------------------------------------- */

bool npy_parse_header(const uint8_t *data, size_t bytes, struct tensor *tensor, struct npy_layout *layout)
{
    enum { SHORT_FRAME = MAGIC_BYTES + 4, LONG_FRAME = MAGIC_BYTES + 6, MOST_HEADER = 1 << 20 };
    if (bytes < SHORT_FRAME || memcmp(data, magic, MAGIC_BYTES) != 0) {
        return cli_fail(CLI_IO, "npy: does not start with \\x93NUMPY");
    }
    const int major = data[MAGIC_BYTES];
    if (major < 1 || major > 3) {
        return cli_fail(CLI_IO, "npy: format version %d, want 1 to 3", major);
    }
    const size_t frame = major == 1 ? SHORT_FRAME : LONG_FRAME;
    size_t length = (size_t)data[8] | (size_t)data[9] << 8;
    if (major > 1 && bytes >= LONG_FRAME) {
        length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    }
    if (bytes < frame || length > bytes - frame || length > MOST_HEADER) {
        return cli_fail(CLI_IO, "npy: the header claims %zu bytes, the file has %zu behind byte %zu%s", length,
                        bytes < frame ? 0 : bytes - frame, frame, length > MOST_HEADER ? " (at most 2^20)" : "");
    }
    const char *text = (const char *)data + frame;
    struct dict d = {.at = text, .begin = text, .end = text + length};
    layout->header_bytes = frame + length;
    if (!read_dict(&d, tensor, layout)) {
        return false;
    }
    char shape[AG_SHAPE_TEXT];
    int64_t size;
    if (!ag_product(&tensor->elems, tensor->rank, tensor->dims) ||
        !ag_product(&size, 2, (int64_t[]){tensor->elems, (int64_t)ag_dtype_bytes(tensor->dtype)})) {
        return cli_fail(CLI_IO, "npy header: shape %s does not fit 64 bits", tensor_shape(tensor, shape));
    }
    return true;
}

void npy_transpose(struct tensor *tensor, const uint8_t *from)
{
    const size_t bytes = ag_dtype_bytes(tensor->dtype);
    int64_t strides[AG_MAX_RANK], index[AG_MAX_RANK] = {0}, source = 0;
    for (int axis = 0; axis < tensor->rank; ++axis) {
        strides[axis] = axis ? strides[axis - 1] * tensor->dims[axis - 1] : 1;
    }
    for (int64_t at = 0; at < tensor->elems; ++at) {
        memcpy((char *)tensor->data + (size_t)at * bytes, from + (size_t)source * bytes, bytes);
        for (int axis = tensor->rank - 1; axis >= 0; --axis) {
            source += strides[axis];
            if (++index[axis] < tensor->dims[axis]) {
                break;
            }
            source -= strides[axis] * tensor->dims[axis];
            index[axis] = 0;
        }
    }
}

/* Checks the frame against the size; *tensor has no data yet. */
static bool parse_frame(const uint8_t *data, size_t bytes, struct tensor *tensor, struct npy_layout *layout)
{
    char shape[AG_SHAPE_TEXT];
    memset(tensor, 0, sizeof *tensor);
    if (!npy_parse_header(data, bytes, tensor, layout)) {
        return false;
    }
    const uint64_t want = (uint64_t)tensor_bytes(tensor), have = bytes - layout->header_bytes;
    if (want != have) {
        return cli_fail(CLI_IO, "npy: shape %s %s needs %" PRIu64 " bytes of data, the file has %" PRIu64 ": %s",
                        tensor_shape(tensor, shape), dtype_word(tensor->dtype), want, have,
                        have < want ? "truncated" : "something lies behind the array");
    }
    return true;
}

bool npy_parse(const uint8_t *data, size_t bytes, const char *name, struct tensor *tensor)
{
    struct npy_layout layout = {0};
    struct tensor frame;
    if (!parse_frame(data, bytes, &frame, &layout) ||
        !tensor_create(tensor, name, frame.dtype, frame.rank, frame.dims)) {
        return false;
    }
    tensor->was_column_major = layout.is_column_major;
    if (layout.is_column_major) {
        npy_transpose(tensor, data + layout.header_bytes);
    } else {
        memcpy(tensor->data, data + layout.header_bytes, (size_t)tensor_bytes(tensor));
    }
    return true;
}

/* As npy_parse, but a row-major array on an aligned place stays where the file is mapped. */
static bool parse_mapped(struct file_bytes *file, const char *name, struct tensor *tensor)
{
    struct npy_layout layout = {0};
    if (!parse_frame(file->data, file->bytes, tensor, &layout)) {
        return false;
    }
    if (layout.is_column_major || layout.header_bytes % 8 != 0) {
        return npy_parse(file->data, file->bytes, name, tensor);
    }
    tensor->name = strdup(name);
    tensor->mapping = file->mapping;
    tensor->mapping_bytes = file->bytes;
    tensor->data = (char *)file->mapping + layout.header_bytes;
    file->mapping = NULL;
    return tensor->name || cli_fail(CLI_IO, "out of memory");
}

bool npy_read(const char *path, const char *name, struct tensor *tensor)
{
    struct file_bytes file;
    if (!file_map(path, &file)) {
        return false;
    }
    const bool is_good = parse_mapped(&file, name, tensor) || cli_fail_in("%s", path);
    file_unmap(&file);
    return is_good;
}

/* --- writing --------------------------------------------------------------------------------------------- */

char *npy_header(const struct tensor *tensor, size_t *bytes)
{
    enum { MOST = 512, FRAME = MAGIC_BYTES + 4 };
    const char *descr = "";
    char *header = calloc(1, MOST);
    if (!header) {
        return NULL;
    }
    for (int i = NPY_TYPES - 1; i >= 0; --i) { /* the first name of a type is the one written */
        descr = npy_types[i].dtype == tensor->dtype ? npy_types[i].descr : descr;
    }
    int used = sprintf(header + FRAME, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int axis = 0; axis < tensor->rank; ++axis) {
        used += sprintf(header + FRAME + used, "%" PRId64 "%s", tensor->dims[axis],
                        axis + 1 < tensor->rank ? ", "
                        : tensor->rank == 1     ? ","
                                                : "");
    }
    used += sprintf(header + FRAME + used, "), }");
    while ((FRAME + used + 1) % 64 != 0) {
        header[FRAME + used++] = ' ';
    }
    header[FRAME + used++] = '\n';
    memcpy(header, magic, MAGIC_BYTES);
    header[MAGIC_BYTES] = 1;
    header[8] = (char)(used & 0xff);
    header[9] = (char)(used >> 8);
    *bytes = FRAME + (size_t)used;
    return header;
}

bool npy_write(const char *path, const struct tensor *tensor)
{
    struct output_file file;
    size_t bytes;
    if (!output_open(&file, path)) {
        return false;
    }
    char *header = npy_header(tensor, &bytes);
    const bool is_good = (header || cli_fail(CLI_IO, "%s: out of memory", path)) &&
                         output_write(&file, header, bytes) &&
                         output_write(&file, tensor->data, (size_t)tensor_bytes(tensor)) && output_close(&file);
    output_cancel(&file);
    free(header);
    return is_good;
}
