#include "base/dtype.h"

#include <assert.h>

struct dtype_row {
    size_t bytes;
    const char *name; /* NULL: no such type */
};

/* All of aclDataType that has whole bytes, by its number; sub-byte types stay at 0. */
static const struct dtype_row dtype_rows[] = {
    [0] = {4, "FLOAT"},        [1] = {2, "FLOAT16"},        [2] = {1, "INT8"},         [3] = {4, "INT32"},
    [4] = {1, "UINT8"},        [6] = {2, "INT16"},          [7] = {2, "UINT16"},       [8] = {4, "UINT32"},
    [9] = {8, "INT64"},        [10] = {8, "UINT64"},        [11] = {8, "DOUBLE"},      [12] = {1, "BOOL"},
    [13] = {0, "STRING"},      [16] = {8, "COMPLEX64"},     [17] = {16, "COMPLEX128"}, [27] = {2, "BF16"},
    [29] = {0, "INT4"},        [30] = {0, "UINT1"},         [33] = {4, "COMPLEX32"},   [34] = {1, "HIFLOAT8"},
    [35] = {1, "FLOAT8_E5M2"}, [36] = {1, "FLOAT8_E4M3FN"}, [37] = {1, "FLOAT8_E8M0"}, [38] = {0, "FLOAT6_E3M2"},
    [39] = {0, "FLOAT6_E2M3"}, [40] = {0, "FLOAT4_E2M1"},   [41] = {0, "FLOAT4_E1M2"},
};

static const struct dtype_row *find_row(int dtype)
{
    static const struct dtype_row unknown = {0, "unknown"};
    const bool is_known =
        dtype >= 0 && dtype < (int)(sizeof dtype_rows / sizeof *dtype_rows) && dtype_rows[dtype].name;
    return is_known ? &dtype_rows[dtype] : &unknown;
}

size_t ag_dtype_bytes(int dtype)
{
    return find_row(dtype)->bytes;
}

const char *ag_dtype_name(int dtype)
{
    return find_row(dtype)->name;
}

bool ag_dtype_is_float(int dtype)
{
    return dtype == AG_FLOAT || dtype == AG_FLOAT16 || dtype == AG_BF16;
}

enum ag_elem ag_elem_of(int dtype)
{
    assert(ag_dtype_is_float(dtype));
    return dtype == AG_FLOAT ? AG_ELEM_F32 : dtype == AG_FLOAT16 ? AG_ELEM_F16 : AG_ELEM_BF16;
}

size_t ag_elem_bytes(enum ag_elem elem)
{
    return elem == AG_ELEM_F32 ? 4 : 2;
}
