/* The .safetensors format: header length (8 bytes, little endian), a JSON object, then one buffer.
 *
 *     {"__metadata__": {"call": "..."}, "dq": {"dtype": "BF16", "shape": [3, 4], "data_offsets": [0, 24]}, ...}
 *
 * Offsets count from the buffer's start; all tensors together cover the buffer, without holes or overlaps. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cli.h"
#include "tensor_file.h"

enum { LENGTH_BYTES = 8, MOST_TENSORS = 1 << 16 };
static const uint64_t most_header_bytes = 100u << 20;

static const struct safetensors_type {
    const char *name;
    int dtype;
} types[] = {{"F32", AG_FLOAT}, {"F16", AG_FLOAT16}, {"BF16", AG_BF16}, {"F64", AG_DOUBLE},
             {"I32", AG_INT32}, {"I64", AG_INT64},   {"U8", AG_UINT8},  {"BOOL", AG_BOOL}};
enum { TYPES = sizeof types / sizeof *types };

/* --- reading --------------------------------------------------------------------------------------------- */

/* What is being read, and which bytes of the buffer are taken. */
struct span {
    uint64_t begin, end;
};
struct reading {
    const uint8_t *buffer;
    uint64_t buffer_bytes;
    struct tensor_set *set;
    struct span *spans; /* one per tensor of the set */
};

static bool read_shape(const json_t *shape, const char *name, struct tensor *tensor)
{
    if (!json_is_array(shape) || json_array_size(shape) > AG_MAX_RANK) {
        return cli_fail(CLI_IO, "tensor '%s': shape is not an array of at most 8 dims", name);
    }
    tensor->rank = (int)json_array_size(shape);
    for (int axis = 0; axis < tensor->rank; ++axis) {
        const json_t *dim = json_array_get(shape, (size_t)axis);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
            return cli_fail(CLI_IO, "tensor '%s': dim %d of the shape is no number >= 0", name, axis);
        }
        tensor->dims[axis] = json_integer_value(dim);
    }
    return true;
}

static bool read_span(const json_t *offsets, const char *name, const struct reading *r, struct span *span)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin)) {
        return cli_fail(CLI_IO, "tensor '%s': data_offsets are not [begin, end] with 0 <= begin <= end", name);
    }
    span->begin = (uint64_t)json_integer_value(begin);
    span->end = (uint64_t)json_integer_value(end);
    if (span->end > r->buffer_bytes) {
        return cli_fail(
            CLI_IO, "tensor '%s': data_offsets end at %" PRIu64 ", the file has %" PRIu64 " bytes of data: truncated",
            name, span->end, r->buffer_bytes);
    }
    return true;
}

static bool read_type(const json_t *dtype, const char *name, struct tensor *tensor)
{
    const char *text = json_string_value(dtype);
    for (int i = 0; text && i < TYPES; ++i) {
        if (strcmp(types[i].name, text) == 0) {
            tensor->dtype = types[i].dtype;
            return true;
        }
    }
    return cli_fail(CLI_IO, "tensor '%s': dtype '%s'; read are F32 F16 BF16 F64 I32 I64 U8 BOOL", name,
                    text ? text : "(not a string)");
}

static bool read_tensor(struct reading *r, const char *name, const json_t *entry)
{
    struct tensor frame = {0}, tensor;
    struct span span;
    char shape[AG_SHAPE_TEXT];
    int64_t size;
    if (!tensor_name_is_plain(name)) {
        return cli_fail(CLI_IO, "a tensor's name is not made of letters, digits and . _ -");
    }
    if (!read_type(json_object_get(entry, "dtype"), name, &frame) ||
        !read_shape(json_object_get(entry, "shape"), name, &frame) ||
        !read_span(json_object_get(entry, "data_offsets"), name, r, &span)) {
        return false;
    }
    if (!ag_product(&frame.elems, frame.rank, frame.dims) ||
        !ag_product(&size, 2, (int64_t[]){frame.elems, (int64_t)ag_dtype_bytes(frame.dtype)}) ||
        (uint64_t)size != span.end - span.begin) {
        return cli_fail(CLI_IO, "tensor '%s': shape %s %s does not need the %" PRIu64 " bytes of its data_offsets",
                        name, tensor_shape(&frame, shape), dtype_word(frame.dtype), span.end - span.begin);
    }
    if (!tensor_create(&tensor, name, frame.dtype, frame.rank, frame.dims)) {
        return false;
    }
    memcpy(tensor.data, r->buffer + span.begin, (size_t)size);
    r->spans[r->set->count] = span;
    return tensor_set_add(r->set, &tensor);
}

static int compare_spans(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end > y->end) - (x->end < y->end);
}

static bool check_cover(struct reading *r)
{
    uint64_t covered = 0;
    qsort(r->spans, (size_t)r->set->count, sizeof *r->spans, compare_spans);
    for (int i = 0; i < r->set->count; ++i) {
        if (r->spans[i].begin != covered) {
            return cli_fail(CLI_IO, "safetensors: %s at byte %" PRIu64 " of the data",
                            r->spans[i].begin < covered ? "tensors overlap" : "a hole", covered);
        }
        covered = r->spans[i].end;
    }
    return covered == r->buffer_bytes ||
           cli_fail(CLI_IO, "safetensors: %" PRIu64 " bytes behind the last tensor", r->buffer_bytes - covered);
}

static bool read_entries(struct reading *r, json_t *header, char **notes)
{
    const char *name;
    json_t *entry;
    if (!json_is_object(header) || json_object_size(header) > MOST_TENSORS) {
        return cli_fail(CLI_IO, "safetensors: the header is no JSON object of at most %d tensors", MOST_TENSORS);
    }
    r->spans = calloc(json_object_size(header) + 1, sizeof *r->spans);
    if (!r->spans) {
        return cli_fail(CLI_IO, "safetensors: out of memory");
    }
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) {
            const char *call = json_string_value(json_object_get(entry, "call"));
            if (call && notes && !*notes) {
                *notes = strdup(call);
            }
        } else if (!read_tensor(r, name, entry)) {
            return false;
        }
    }
    return check_cover(r);
}

bool safetensors_parse(const uint8_t *data, size_t bytes, struct tensor_set *set, char **notes)
{
    uint64_t length = 0;
    json_error_t error;
    if (bytes < LENGTH_BYTES) {
        return cli_fail(CLI_IO, "safetensors: %zu bytes, too short for the header's length", bytes);
    }
    for (int i = 0; i < LENGTH_BYTES; ++i) {
        length |= (uint64_t)data[i] << (8 * i);
    }
    if (length > bytes - LENGTH_BYTES || length > most_header_bytes) {
        return cli_fail(CLI_IO, "safetensors: the header claims %" PRIu64 " bytes, the file has %zu behind byte 8%s",
                        length, bytes - LENGTH_BYTES, length > most_header_bytes ? " (at most 100 MiB)" : "");
    }
    json_t *header = json_loadb((const char *)data + LENGTH_BYTES, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!header) {
        return cli_fail(CLI_IO, "safetensors: header, byte %d: %s", error.position + LENGTH_BYTES, error.text);
    }
    struct reading r = {
        .buffer = data + LENGTH_BYTES + length, .buffer_bytes = bytes - LENGTH_BYTES - length, .set = set};
    const bool is_good = read_entries(&r, header, notes);
    free(r.spans);
    json_decref(header);
    return is_good;
}

bool safetensors_read(const char *path, struct tensor_set *set, char **notes)
{
    struct file_bytes file;
    if (!file_map(path, &file)) {
        return false;
    }
    const bool is_good = safetensors_parse(file.data, file.bytes, set, notes) || cli_fail_in("%s", path);
    file_unmap(&file);
    return is_good;
}

/* --- writing --------------------------------------------------------------------------------------------- */

static const char *type_name(int dtype)
{
    for (int i = 0; i < TYPES; ++i) {
        if (types[i].dtype == dtype) {
            return types[i].name;
        }
    }
    return "F32";
}

static json_t *make_header(const struct tensor_set *set, const char *notes)
{
    json_t *header = json_object();
    json_int_t offset = 0;
    if (notes) {
        json_object_set_new(header, "__metadata__", json_pack("{s:s}", "call", notes));
    }
    for (int i = 0; i < set->count; ++i) {
        const struct tensor *tensor = &set->items[i];
        json_t *shape = json_array();
        for (int axis = 0; axis < tensor->rank; ++axis) {
            json_array_append_new(shape, json_integer(tensor->dims[axis]));
        }
        const json_int_t end = offset + tensor_bytes(tensor);
        json_object_set_new(header, tensor->name,
                            json_pack("{s:s,s:o,s:[I,I]}", "dtype", type_name(tensor->dtype), "shape", shape,
                                      "data_offsets", offset, end));
        offset = end;
    }
    return header;
}

/* The header's text, with spaces behind it so that the data starts at a multiple of 64. */
static char *header_text(const struct tensor_set *set, const char *notes, size_t *bytes)
{
    json_t *header = make_header(set, notes);
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (text) {
        const size_t length = strlen(text);
        *bytes = (length + LENGTH_BYTES + 63) / 64 * 64 - LENGTH_BYTES;
        char *padded = realloc(text, *bytes + 1);
        if (!padded) {
            free(text);
            return NULL;
        }
        memset(padded + length, ' ', *bytes - length);
        return padded;
    }
    return NULL;
}

bool safetensors_write(const char *path, const struct tensor_set *set, const char *notes)
{
    struct output_file file;
    size_t bytes = 0;
    uint8_t length[LENGTH_BYTES];
    char *text = header_text(set, notes, &bytes);
    if (!text) {
        return cli_fail(CLI_IO, "%s: out of memory", path);
    }
    for (int i = 0; i < LENGTH_BYTES; ++i) {
        length[i] = (uint8_t)((uint64_t)bytes >> (8 * i));
    }
    bool is_good = output_open(&file, path);
    if (is_good) {
        is_good = output_write(&file, length, sizeof length) && output_write(&file, text, bytes);
        for (int i = 0; is_good && i < set->count; ++i) {
            is_good = output_write(&file, set->items[i].data, (size_t)tensor_bytes(&set->items[i]));
        }
        is_good = is_good && output_close(&file);
        output_cancel(&file);
    }
    free(text);
    return is_good;
}
