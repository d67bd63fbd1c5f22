/* Element types. The numbers are those of aclDataType, so that base need not know the acl headers
 * (runtime/tensor.c asserts that they agree). */
#ifndef AG_BASE_DTYPE_H
#define AG_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

enum ag_dtype {
    AG_DTYPE_UNDEFINED = -1,
    AG_FLOAT = 0,
    AG_FLOAT16 = 1,
    AG_INT8 = 2,
    AG_INT32 = 3,
    AG_UINT8 = 4,
    AG_INT64 = 9,
    AG_DOUBLE = 11,
    AG_BOOL = 12,
    AG_BF16 = 27
};

/* The three types gradients come in, counted from 0: the index of every kernel table. */
enum ag_elem { AG_ELEM_F32, AG_ELEM_F16, AG_ELEM_BF16, AG_ELEM_COUNT };

/* Bytes of one element; 0 for a type without whole bytes or one we do not know. */
size_t ag_dtype_bytes(int dtype);

/* "FLOAT16"; "dtype(99)" is not made up here: unknown numbers give "unknown". */
const char *ag_dtype_name(int dtype);

/* True for FLOAT, FLOAT16 and BF16: the types that have an ag_elem. */
bool ag_dtype_is_float(int dtype);

/* The caller guarantees ag_dtype_is_float(dtype). */
enum ag_elem ag_elem_of(int dtype);

size_t ag_elem_bytes(enum ag_elem elem);

#endif
