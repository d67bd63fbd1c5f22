/* Tensor files: .npy, .npz, .safetensors, raw bytes, and directories of .npy files.
 *
 * Readers trust nothing: sizes, offsets and names that a file claims are checked against the file before they are
 * used, and what is wrong is refused (CLI_IO) with its place. Row-major .npy and raw files are mapped, not copied. Writers write to
 * a temporary name in the same directory and rename, so that no half-written file is ever seen. */
#ifndef ACLGRAD_TENSOR_FILE_H
#define ACLGRAD_TENSOR_FILE_H

#include "cli_tensor.h"

/* What a reader may need to know beside the file. */
struct tensor_file_hints {
    const char *dtype; /* raw: "f16"; NULL: none given */
    const char *shape; /* raw: "2,3,128" */
};

/* Reads a file or directory; `notes`, when not NULL, receives the JSON text that travels with the tensors (the
 * safetensors metadata "call", the npz member or directory file "call.json", or FILE.json beside a file), or NULL. */
bool tensor_path_read(const char *path, const struct tensor_file_hints *hints, struct tensor_set *set, char **notes);

/* tensor_path_read would take it for raw bytes: none of the forms that say themselves what they hold. */
bool tensor_path_is_raw(const char *path);

/* Writes all tensors: into one file for .npz and .safetensors, else as NAME.npy into a directory, which is made.
 * `notes` may be NULL. */
bool tensor_path_write(const char *path, const struct tensor_set *set, const char *notes);

/* --- one form each --------------------------------------------------------------------------------------- */

/* A whole file in memory, mapped read-only. */
struct file_bytes {
    const uint8_t *data;
    size_t bytes;
    void *mapping; /* NULL for an empty file */
};
bool file_map(const char *path, struct file_bytes *file);
void file_unmap(struct file_bytes *file);

/* The tensors point into `file` or copy from it; the caller keeps the mapping until it has decided (see adopt). These
 * are what the fuzzers call. */
bool npy_parse(const uint8_t *data, size_t bytes, const char *name, struct tensor *tensor);
bool safetensors_parse(const uint8_t *data, size_t bytes, struct tensor_set *set, char **notes);

bool npy_read(const char *path, const char *name, struct tensor *tensor);
bool npz_read(const char *path, struct tensor_set *set, char **notes);
bool safetensors_read(const char *path, struct tensor_set *set, char **notes);
bool raw_read(const char *path, const struct tensor_file_hints *hints, const char *name, struct tensor *tensor);

/* The header of an .npy file for the tensor, padded to 64 bytes; the caller frees. */
char *npy_header(const struct tensor *tensor, size_t *bytes);
bool npy_write(const char *path, const struct tensor *tensor);
bool npz_write(const char *path, const struct tensor_set *set, const char *notes);
bool safetensors_write(const char *path, const struct tensor_set *set, const char *notes);

/* Header of .npy data of which the first `bytes` are at hand. Fills all of *tensor but name and data. */
struct npy_layout {
    size_t header_bytes; /* the data starts here */
    bool is_column_major;
};
bool npy_parse_header(const uint8_t *data, size_t bytes, struct tensor *tensor, struct npy_layout *layout);

/* Copies column-major elements to row-major order. */
void npy_transpose(struct tensor *tensor, const uint8_t *from);

/* A name that is safe as a file's name and as a word of a message: letters, digits, . _ - ; not starting with a dot. */
bool tensor_name_is_plain(const char *name);

/* --- output (output_file.c) ------------------------------------------------------------------------------ */

struct output_file {
    char *path, *temporary;
    int descriptor;
};
bool output_open(struct output_file *file,
                 const char *path); /* what is no file (/dev/null) is written as it stands */
bool output_write(struct output_file *file, const void *data, size_t bytes);
bool output_close(struct output_file *file);  /* renames */
void output_cancel(struct output_file *file); /* removes; harmless after output_close */
/* From here on SIGINT, SIGTERM and SIGHUP remove the file that is being written, and then do what they do. */
void output_clean_on_signals(void);

/* Between the two these signals wait: for a writer that has a temporary file of its own. */
void output_hold_signals(void);
void output_release_signals(void);

bool output_text(const char *path, const char *text);

#endif
