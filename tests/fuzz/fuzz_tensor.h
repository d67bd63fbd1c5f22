/* Checks of what the readers of tensor files give. */
#ifndef AG_TESTS_FUZZ_TENSOR_H
#define AG_TESTS_FUZZ_TENSOR_H

#include "cli.h"
#include "fuzz.h"
#include "tensor_file.h"

/* A refusal has a text, a success has none. Forgets it. */
void fuzz_check_verdict(bool is_good);

/* Rank, dims, elems and type fit together, the name is there, and all elements can be read. */
void fuzz_check_tensor(const struct tensor *tensor);
void fuzz_check_same_tensor(const struct tensor *a, const struct tensor *b);

/* As an .npy file it is read back the same. */
void fuzz_check_npy_again(const struct tensor *tensor);

/* All tensors; their names differ. */
void fuzz_check_set(const struct tensor_set *set);

/* --- files made of bytes --------------------------------------------------------------------------------------- */

/* Writes a small tensor, whose type, dims and elements the input chooses, as NAME.npy into fuzz_directory(). */
void fuzz_write_npy(struct fuzz_input *input, const char *name);

#endif
