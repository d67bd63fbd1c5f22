/* The memory that programs get from aclrtMalloc and aclrtMallocHost. */
#ifndef AG_RUNTIME_DEVICE_MEMORY_H
#define AG_RUNTIME_DEVICE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Where an allocation lies: [begin, end) as the program asked for, then up to `writable` and then up to `readable`
 * bytes that are owned, too. */
struct ag_memory_block {
    uintptr_t begin, end, writable, readable;
};

/* The live allocation that contains the address, slack included; false when there is none. */
bool ag_memory_find(const void *address, struct ag_memory_block *block);

/* Live allocations, and the bytes the program asked for. */
int64_t ag_memory_live(uint64_t *bytes);

#endif
