/* What fuzz targets share. A target is one file with LLVMFuzzerTestOneInput; an engine calls it with inputs that it
 * invents, replay.c with those that are kept in corpus/. Whatever is found wrong ends the program. */
#ifndef AG_TESTS_FUZZ_H
#define AG_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Tells what is wrong, and aborts: engines keep the input. */
_Noreturn void fuzz_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define FUZZ_REQUIRE(condition, ...)                                                                                 \
    do {                                                                                                             \
        if (!(condition)) {                                                                                          \
            fuzz_fail(__FILE__, __LINE__, __VA_ARGS__);                                                              \
        }                                                                                                            \
    } while (0)

/* Elements of outputs that were held against the definition so far. */
extern int64_t fuzz_compared_elements;

/* --- choices made of bytes ------------------------------------------------------------------------------------- */

/* Read from the front. Where the input is at its end every choice is the lowest: short inputs are simple ones. */
struct fuzz_input {
    const uint8_t *at, *end;
};

int64_t fuzz_take(struct fuzz_input *input, int64_t lowest,
                  int64_t highest); /* 1, 2, 4 or 8 bytes, as the span needs */
bool fuzz_take_bool(struct fuzz_input *input);
bool fuzz_take_once_in(struct fuzz_input *input, int odds); /* false at the end of the input */
bool fuzz_is_empty(const struct fuzz_input *input);

/* A number from the edges of its type: negative, 0, around powers of two, the extremes of int32 and int64. */
int64_t fuzz_take_edge(struct fuzz_input *input);

/* The bytes up to the first 0 (or all) as text on the heap, which the caller frees; what is behind is left. */
char *fuzz_take_text(struct fuzz_input *input);

/* --- files in memory ------------------------------------------------------------------------------------------- */

/* A file that holds these bytes, until the next call. The path is valid as long as the program runs. */
const char *fuzz_file(const void *data, size_t bytes);

/* A directory of this process, made at the first call and removed at its end. */
const char *fuzz_directory(void);
void fuzz_directory_write(const char *name, const void *data, size_t bytes);
void fuzz_directory_clear(void); /* removes all files in it */

#endif
