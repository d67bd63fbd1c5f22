#include <stdlib.h>
#include <string.h>

#include "base/elem.h"
#include "base/memory.h"
#include "cli.h"
#include "peer.h"

void *take(struct blocks *blocks, int64_t elems)
{
    void *block = ag_alloc_zeroed((size_t)elems * 4);
    if (!block) {
        exit((cli_fail(CLI_USAGE, "out of memory"), cli_report()));
    }
    return blocks->items[blocks->count++] = block;
}

void release(struct blocks *blocks)
{
    while (blocks->count > 0) {
        ag_free(blocks->items[--blocks->count]);
    }
}

void widen(float *to, int dtype, const void *from, int64_t at, int64_t count)
{
    if (dtype == AG_BF16) {
        const ag_bf16 *source = (const ag_bf16 *)from + at;
        for (int64_t i = 0; i < count; ++i) {
            const uint32_t bits = (uint32_t)source[i] << 16;
            memcpy(to + i, &bits, sizeof bits);
        }
    } else if (dtype == AG_FLOAT16) {
        for (int64_t i = 0; i < count; ++i) {
            to[i] = ag_f16_to_f32(((const ag_f16 *)from)[at + i]);
        }
    } else {
        memcpy(to, (const float *)from + at, (size_t)count * sizeof *to);
    }
}

void narrow(int dtype, void *to, int64_t at, const float *from, int64_t count)
{
    if (dtype == AG_BF16) {
        ag_bf16 *target = (ag_bf16 *)to + at;
        for (int64_t i = 0; i < count; ++i) {
            uint32_t bits;
            memcpy(&bits, from + i, sizeof bits);
            target[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        }
    } else if (dtype == AG_FLOAT16) {
        for (int64_t i = 0; i < count; ++i) {
            ((ag_f16 *)to)[at + i] = ag_f32_to_f16(from[i]);
        }
    } else {
        memcpy((float *)to + at, from, (size_t)count * sizeof *from);
    }
}

void pack(void *to, int64_t to_stride, bool is_bf16, const struct tensor *from, int64_t at, int64_t from_stride,
          int64_t rows, int64_t cols)
{
    for (int64_t row = 0; row < rows; ++row) {
        if (is_bf16) {
            memcpy((ag_bf16 *)to + row * to_stride, (const ag_bf16 *)from->data + at + row * from_stride,
                   (size_t)cols * sizeof(ag_bf16));
        } else {
            widen((float *)to + row * to_stride, from->dtype, from->data, at + row * from_stride, cols);
        }
    }
}
