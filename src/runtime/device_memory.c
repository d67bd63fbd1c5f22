/* Programs rely on what device allocations are like: aligned, and padded so generously that reading past the end by
 * as much again does no harm (copying `n * sizeof(float)` bytes out of half precision buffers is common). So every
 * allocation has slack as large as itself that reads as zeros.
 *
 *     small:  | size, rounded up to 64 |  the same again + 64, zeroed  |                          one heap block
 *     large:  | size, rounded up to 2 MiB, zero pages | the same again, read-only zero pages |   mapped
 *
 * Slack pages that nobody touches cost address space only. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "runtime/device_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "acl/acl_rt.h"
#include "base/check.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/memory.h"
#include "runtime/context.h"

enum { ALIGN = 64, LARGE_BYTES = 256 * 1024, GRANULE_BYTES = 2 * 1024 * 1024 };

struct block {
    struct ag_memory_block at;
    bool is_mapped;
};

/* Live allocations in ascending order of address; guarded by AG_LOCK_MEMORY. */
static struct block *blocks;
static int64_t block_count, block_room;
static uint64_t asked_bytes;

/* --- the table ------------------------------------------------------------------------------------------- */

/* Number of blocks that begin at or below the address. */
static int64_t rank_of(uintptr_t address)
{
    int64_t low = 0, high = block_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (blocks[middle].at.begin <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool make_room(void)
{
    if (block_count < block_room) {
        return true;
    }
    const int64_t room = block_room ? 2 * block_room : 64;
    struct block *grown = ag_alloc((size_t)room * sizeof *grown);
    if (!grown) {
        return false;
    }
    if (block_count > 0) {
        memcpy(grown, blocks, (size_t)block_count * sizeof *grown);
    }
    ag_free(blocks);
    blocks = grown;
    block_room = room;
    return true;
}

static bool enter(const struct block *block)
{
    ag_lock(AG_LOCK_MEMORY);
    const bool has_room = make_room();
    if (has_room) {
        const int64_t rank = rank_of(block->at.begin);
        memmove(&blocks[rank + 1], &blocks[rank], (size_t)(block_count - rank) * sizeof *blocks);
        blocks[rank] = *block;
        ++block_count;
        asked_bytes += block->at.end - block->at.begin;
    }
    ag_unlock(AG_LOCK_MEMORY);
    return has_room;
}

/* Takes the block that begins at the address out of the table. */
static bool leave(uintptr_t address, struct block *block)
{
    ag_lock(AG_LOCK_MEMORY);
    const int64_t rank = rank_of(address) - 1;
    const bool is_found = rank >= 0 && blocks[rank].at.begin == address;
    if (is_found) {
        *block = blocks[rank];
        --block_count;
        memmove(&blocks[rank], &blocks[rank + 1], (size_t)(block_count - rank) * sizeof *blocks);
        asked_bytes -= block->at.end - block->at.begin;
    }
    ag_unlock(AG_LOCK_MEMORY);
    return is_found;
}

bool ag_memory_find(const void *address, struct ag_memory_block *block)
{
    ag_lock(AG_LOCK_MEMORY);
    const int64_t rank = rank_of((uintptr_t)address) - 1;
    const bool is_found = rank >= 0 && (uintptr_t)address < blocks[rank].at.readable;
    if (is_found) {
        *block = blocks[rank].at;
    }
    ag_unlock(AG_LOCK_MEMORY);
    return is_found;
}

int64_t ag_memory_live(uint64_t *bytes)
{
    ag_lock(AG_LOCK_MEMORY);
    const int64_t count = block_count;
    *bytes = asked_bytes;
    ag_unlock(AG_LOCK_MEMORY);
    return count;
}

/* --- memory ---------------------------------------------------------------------------------------------- */

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static bool take_small(size_t size, struct block *block)
{
    const size_t used = round_up(size, ALIGN), all = 2 * used + ALIGN;
    char *memory = aligned_alloc(ALIGN, all);
    if (!memory) {
        return false;
    }
    memset(memory, 0, all);
    const uintptr_t begin = (uintptr_t)memory;
    *block = (struct block){.at = {begin, begin + size, begin + all, begin + all}};
    return true;
}

/* Reserves address space with `slack` bytes behind the used ones; only the used ones become writable, and only those
 * count against the system's limit of committed memory. */
static bool map_large(size_t size, size_t slack, struct block *block)
{
    const size_t used = round_up(size, GRANULE_BYTES), all = used + slack;
    char *space = mmap(NULL, all + GRANULE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (space == MAP_FAILED) {
        return false;
    }
    char *memory = space + (GRANULE_BYTES - (uintptr_t)space % GRANULE_BYTES) % GRANULE_BYTES;
    if (memory > space) {
        munmap(space, (size_t)(memory - space));
    }
    if (memory < space + GRANULE_BYTES) {
        munmap(memory + all, (size_t)(space + GRANULE_BYTES - memory));
    }
    if (mprotect(memory, used, PROT_READ | PROT_WRITE) != 0) {
        munmap(memory, all);
        return false;
    }
    madvise(memory, used, MADV_HUGEPAGE); /* fewer address translations; no matter if refused */
    const uintptr_t begin = (uintptr_t)memory;
    *block = (struct block){.at = {begin, begin + size, begin + used, begin + all}, .is_mapped = true};
    return true;
}

static bool take_memory(size_t size, struct block *block)
{
    if (size > PTRDIFF_MAX / 4 || ag_alloc_is_refused()) {
        return false;
    }
    if (size <= LARGE_BYTES) {
        return take_small(size, block);
    }
    return map_large(size, round_up(size, GRANULE_BYTES), block) || map_large(size, GRANULE_BYTES, block);
}

static void give_back(const struct block *block)
{
    void *memory = (void *)block->at.begin;
    if (block->is_mapped) {
        munmap(memory, block->at.readable - block->at.begin);
    } else {
        free(memory);
    }
}

static ag_status allocate(const char *argument, void **address, size_t size)
{
    struct block block;
    AG_REQUIRE(address, ACL_INVALID_PARAM, "%s: null", argument);
    AG_REQUIRE(size > 0, ACL_INVALID_PARAM, "size: got 0, want 1 or more");
    AG_REQUIRE(take_memory(size, &block), RT_MEMORY_ALLOCATION, "size: no memory for %zu bytes", size);
    if (!enter(&block)) {
        give_back(&block);
        return ag_fail(AG_RT_MEMORY_ALLOCATION, "size: no memory to keep account of %zu bytes", size);
    }
    *address = (void *)block.at.begin;
    return AG_OK;
}

static ag_status release(const char *argument, const void *address)
{
    struct block block;
    AG_REQUIRE(address, ACL_INVALID_PARAM, "%s: null", argument);
    AG_REQUIRE(leave((uintptr_t)address, &block), RT_PARAM_INVALID, "%s: got %p, not the start of a live allocation",
               argument, address);
    give_back(&block);
    return AG_OK;
}

/* --- the public functions -------------------------------------------------------------------------------- */

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    ag_error_enter(__func__);
    AG_TRY(ag_context_check_thread());
    return allocate("devPtr", devPtr, size);
}

aclError aclrtFree(void *devPtr)
{
    ag_error_enter(__func__);
    return release("devPtr", devPtr);
}

aclError aclrtMallocHost(void **hostPtr, size_t size)
{
    ag_error_enter(__func__);
    return allocate("hostPtr", hostPtr, size);
}

aclError aclrtFreeHost(void *hostPtr)
{
    ag_error_enter(__func__);
    return release("hostPtr", hostPtr);
}
