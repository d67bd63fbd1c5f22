/* Lays out one caller-given block. The same carve function runs twice: with base == NULL it only measures,
 * with the block it hands out pointers; so size and layout cannot disagree.
 *
 *     struct ag_arena arena = ag_arena_measure();
 *     carve(&arena, plan, &scratch);                   // pointers come out NULL
 *     workspace_bytes = ag_arena_bytes(&arena);
 *     ...
 *     struct ag_arena arena = ag_arena_over(workspace);
 *     carve(&arena, plan, &scratch);                   // pointers into workspace
 */
#ifndef AG_BASE_ARENA_H
#define AG_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { AG_ARENA_ALIGN = 64 }; /* a cache line, and the widest vector */

struct ag_arena {
    char *base;       /* aligned start, or NULL: only measures */
    uint64_t used;    /* bytes handed out so far, a multiple of AG_ARENA_ALIGN */
    int has_overflow; /* a request did not fit 64 bits: ag_arena_bytes returns UINT64_MAX */
};

struct ag_arena ag_arena_measure(void);

/* Any block pointer will do; the measured size includes the bytes that aligning may cost. */
struct ag_arena ag_arena_over(void *block);

/* `count` elements of `elem_bytes` each, 64-byte aligned, content undefined (NaN bytes in debug builds,
 * with poisoned gaps under the address sanitizer). NULL while measuring. count == 0 takes nothing. */
void *ag_take(struct ag_arena *arena, int64_t count, size_t elem_bytes);

/* Ends the use of a block: the address sanitizer lets its owner touch all of it again. */
void ag_arena_close(void *block, uint64_t bytes);

/* Bytes that a block must have. 0 when nothing was taken. */
uint64_t ag_arena_bytes(const struct ag_arena *arena);

#endif
