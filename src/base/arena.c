#include "base/arena.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#    define AG_HAS_ASAN 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define AG_HAS_ASAN 1
#    endif
#    if __has_feature(memory_sanitizer)
#        define AG_HAS_MSAN 1
#    endif
#endif
#ifdef AG_HAS_ASAN
#    include <sanitizer/asan_interface.h>
#    define AG_UNPOISON(address, bytes) ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#    define AG_POISON(address, bytes)   ASAN_POISON_MEMORY_REGION(address, bytes)
enum { GAP_BYTES = AG_ARENA_ALIGN }; /* room between blocks, so that stepping over an end is seen */
#else
#    define AG_UNPOISON(address, bytes) ((void)(address), (void)(bytes))
#    define AG_POISON(address, bytes)   ((void)(address), (void)(bytes))
enum { GAP_BYTES = 0 };
#endif
#ifdef AG_HAS_MSAN
#    include <sanitizer/msan_interface.h>
#    define AG_FORGET(address, bytes) __msan_poison(address, bytes) /* content undefined, whoever wrote it before */
#else
#    define AG_FORGET(address, bytes) ((void)(address), (void)(bytes))
#endif

struct ag_arena ag_arena_measure(void)
{
    return (struct ag_arena){.base = NULL};
}

struct ag_arena ag_arena_over(void *block)
{
    if (!block) { /* a plan that takes nothing: even NULL + 0 is undefined */
        return ag_arena_measure();
    }
    const uintptr_t address = (uintptr_t)block;
    const uintptr_t aligned = (address + AG_ARENA_ALIGN - 1) & ~(uintptr_t)(AG_ARENA_ALIGN - 1);
    return (struct ag_arena){.base = (char *)block + (aligned - address)};
}

static void prepare(void *taken, uint64_t bytes, uint64_t padded)
{
    AG_UNPOISON(taken, bytes);
#ifndef NDEBUG
    memset(taken, 0xff, bytes); /* every float reads as NaN, every index as -1 */
#endif
    AG_FORGET(taken, bytes);
    AG_POISON((char *)taken + bytes, padded - bytes);
}

void *ag_take(struct ag_arena *arena, int64_t count, size_t elem_bytes)
{
    uint64_t bytes, padded, used;
    if (count <= 0) {
        arena->has_overflow |= count < 0;
        return NULL;
    }
    if (__builtin_mul_overflow((uint64_t)count, (uint64_t)elem_bytes, &bytes) ||
        __builtin_add_overflow(bytes, (uint64_t)(GAP_BYTES + AG_ARENA_ALIGN - 1), &padded)) {
        arena->has_overflow = 1;
        return NULL;
    }
    padded &= ~(uint64_t)(AG_ARENA_ALIGN - 1);
    if (__builtin_add_overflow(arena->used, padded, &used)) {
        arena->has_overflow = 1;
        return NULL;
    }
    char *taken = arena->base ? arena->base + arena->used : NULL;
    arena->used = used;
    if (taken) {
        prepare(taken, bytes, padded);
    }
    return taken;
}

void ag_arena_close(void *block, uint64_t bytes)
{
    AG_UNPOISON(block, bytes);
}

uint64_t ag_arena_bytes(const struct ag_arena *arena)
{
    if (arena->has_overflow || arena->used > UINT64_MAX - AG_ARENA_ALIGN) {
        return UINT64_MAX;
    }
    return arena->used ? arena->used + AG_ARENA_ALIGN - 1 : 0;
}
