/* Tensors as files hold them: a name, a type, dims, and dense memory in row-major order. */
#ifndef ACLGRAD_CLI_TENSOR_H
#define ACLGRAD_CLI_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/view.h"

struct tensor {
    char *name; /* never NULL in a set */
    int dtype;  /* AG_FLOAT, AG_FLOAT16, AG_BF16, AG_DOUBLE, AG_INT32, AG_INT64, AG_UINT8 or AG_BOOL */
    int rank;
    int64_t dims[AG_MAX_RANK];
    int64_t elems;
    void *data;    /* elems * bytes of dtype */
    void *mapping; /* where data lies in a mapped file, else NULL: data is on the heap */
    size_t mapping_bytes;
    bool was_column_major; /* the file had the first index fastest */
};

/* Elements are zero. CLI_USAGE when the dims do not fit or the machine has not so much memory. */
bool tensor_create(struct tensor *tensor, const char *name, int dtype, int rank, const int64_t *dims);
void tensor_destroy(struct tensor *tensor);

int64_t tensor_bytes(const struct tensor *tensor);

/* Element `at` of the row-major order; 16-bit types exactly, int64 beyond 2^53 rounded. */
double tensor_get(const struct tensor *tensor, int64_t at);
void tensor_set(struct tensor *tensor, int64_t at, double value); /* rounds once, to nearest even */

bool tensor_is_float(const struct tensor *tensor);

/* "f16", "bf16", "f32", "f64", "i32", "i64", "u8", "bool"; the inverse gives AG_DTYPE_UNDEFINED for others. */
const char *dtype_word(int dtype);
int dtype_of_word(const char *word);

/* "[2, 3]" */
const char *tensor_shape(const struct tensor *tensor, char text[AG_SHAPE_TEXT]);

/* The value a float type makes of a double: rounded once, ties to even, or ties away from zero. */
double round_to_dtype(int dtype, double value);
double round_to_dtype_away(int dtype, double value);

/* Distance of neighbouring numbers of the type at value; 0 for integers. */
double ulp_of_dtype(int dtype, double value);

/* --- sets ------------------------------------------------------------------------------------------------ */

struct tensor_set {
    struct tensor *items;
    int count;
};

struct tensor *tensor_set_find(const struct tensor_set *set, const char *name); /* NULL when absent */

/* Takes the tensor over, name included. Refuses a second one of a name (CLI_IO). */
bool tensor_set_add(struct tensor_set *set, struct tensor *tensor);

/* tensor_create into the set; NULL on failure. The pointer lives until the next add. */
struct tensor *tensor_set_create(struct tensor_set *set, const char *name, int dtype, int rank, const int64_t *dims);
void tensor_set_destroy(struct tensor_set *set);

#endif
