#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

static _Atomic int64_t live_blocks;
static _Atomic int64_t calls_to_failure; /* 0 or below: none ahead; reaching 0 is the failure */
static _Atomic bool has_failed;

bool ag_alloc_is_refused(void)
{
    if (atomic_load_explicit(&calls_to_failure, memory_order_relaxed) <= 0 ||
        atomic_fetch_sub(&calls_to_failure, 1) != 1) {
        return false;
    }
    atomic_store(&has_failed, true);
    return true;
}

void *ag_alloc(size_t bytes)
{
    if (ag_alloc_is_refused() || bytes > SIZE_MAX - 2 * ALIGN) {
        return NULL;
    }
    void *block = aligned_alloc(ALIGN, (bytes + ALIGN) / ALIGN * ALIGN);
    if (block) {
        atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    }
    return block;
}

void *ag_alloc_zeroed(size_t bytes)
{
    void *block = ag_alloc(bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

void ag_free(void *block)
{
    if (block) {
        atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
        free(block);
    }
}

int64_t ag_alloc_live(void)
{
    return atomic_load(&live_blocks);
}

void ag_alloc_fail_at(int64_t nth)
{
    atomic_store(&has_failed, false);
    atomic_store(&calls_to_failure, nth);
}

bool ag_alloc_has_failed(void)
{
    return atomic_load(&has_failed);
}
