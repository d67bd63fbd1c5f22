/* All heap memory of the library (but not the memory that programs get from aclrtMalloc). One door, so that tests can
 * make any allocation fail and can count what is left. */
#ifndef AG_BASE_MEMORY_H
#define AG_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 64-byte aligned; NULL when out of memory. bytes == 0 gives a block too. */
void *ag_alloc(size_t bytes);
void *ag_alloc_zeroed(size_t bytes);

/* NULL is legal. */
void ag_free(void *block);

/* Blocks that are not freed yet. */
int64_t ag_alloc_live(void);

/* --- for tests ------------------------------------------------------------------------------------------ */

/* The nth allocation from now (1: the next) and no other fails; 0: none does. Process-wide. */
void ag_alloc_fail_at(int64_t nth);

/* True once the failure asked for has happened. */
bool ag_alloc_has_failed(void);

/* An allocation that goes another way (operator new[], mmap) asks here whether it is to fail. */
bool ag_alloc_is_refused(void);

#endif
