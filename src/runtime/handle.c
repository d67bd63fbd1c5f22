#include "runtime/handle.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/lock.h"
#include "base/memory.h"

/* A handle's 64 bits, from the top:  prefix 8 | kind 5 | generation 27 | slot 24.
 * The prefix makes it a non-canonical address: no pointer that a program can hold is equal to a handle. */
enum { SLOT_BITS = 24, GENERATION_BITS = 27, KIND_SHIFT = SLOT_BITS + GENERATION_BITS, PREFIX_SHIFT = 56 };
static const uint64_t PREFIX = 0xa6;
static const uint64_t SLOT_MASK = (UINT64_C(1) << SLOT_BITS) - 1;
static const uint64_t GENERATION_MASK = (UINT64_C(1) << GENERATION_BITS) - 1;

/* `id` is the live handle's number, or that of the last one with the lowest kind bits cleared when free. */
struct slot {
    _Atomic uint64_t id;
    _Atomic(void *) object;
    uint64_t generation;
    int64_t next_free;
};

/* Slots live in chunks that never move, so that a reader needs no lock. */
enum { CHUNK_SLOTS = 4096, MOST_CHUNKS = (1 << SLOT_BITS) / CHUNK_SLOTS };
static _Atomic(struct slot *) chunks[MOST_CHUNKS];

static int64_t slot_count;
static int64_t first_free = -1;
static _Atomic int64_t live_counts[AG_HANDLE_KINDS];

const char *ag_handle_kind_name(enum ag_handle_kind kind)
{
    static const char *const names[AG_HANDLE_KINDS] = {
        "handle",      "context",   "stream",      "event",      "tensor",   "tensor list", "scalar",
        "scalar list", "int array", "float array", "bool array", "executor", "data buffer"};
    return names[kind];
}

static enum ag_handle_kind kind_of(uint64_t id)
{
    const uint64_t kind = (id >> KIND_SHIFT) & 0x1f;
    return id >> PREFIX_SHIFT == PREFIX && kind < AG_HANDLE_KINDS ? (enum ag_handle_kind)kind : AG_HANDLE_NONE;
}

static struct slot *slot_at(int64_t index)
{
    struct slot *chunk = atomic_load_explicit(&chunks[index / CHUNK_SLOTS], memory_order_acquire);
    return chunk ? &chunk[index % CHUNK_SLOTS] : NULL;
}

/* A free slot's index, or -1 without memory or beyond 2^24 live handles. The caller holds the lock. */
static int64_t take_slot(void)
{
    if (first_free >= 0) {
        const int64_t index = first_free;
        first_free = slot_at(index)->next_free;
        return index;
    }
    if (slot_count == (int64_t)MOST_CHUNKS * CHUNK_SLOTS) {
        return -1;
    }
    if (slot_count % CHUNK_SLOTS == 0) {
        struct slot *chunk = ag_alloc_zeroed(CHUNK_SLOTS * sizeof *chunk);
        if (!chunk) {
            return -1;
        }
        atomic_store_explicit(&chunks[slot_count / CHUNK_SLOTS], chunk, memory_order_release);
    }
    return slot_count++;
}

void *ag_handle_create(enum ag_handle_kind kind, void *object)
{
    uint64_t id = 0;
    ag_lock(AG_LOCK_HANDLES);
    const int64_t index = take_slot();
    if (index >= 0) {
        struct slot *slot = slot_at(index);
        slot->generation = (slot->generation + 1) & GENERATION_MASK;
        id = PREFIX << PREFIX_SHIFT | (uint64_t)kind << KIND_SHIFT | slot->generation << SLOT_BITS | (uint64_t)index;
        atomic_store_explicit(&slot->object, object, memory_order_relaxed);
        atomic_store_explicit(&slot->id, id, memory_order_release);
        atomic_fetch_add(&live_counts[kind], 1);
    }
    ag_unlock(AG_LOCK_HANDLES);
    return (void *)(uintptr_t)id; /* id 0 is NULL */
}

void *ag_handle_get(enum ag_handle_kind kind, const void *handle)
{
    const uint64_t id = (uintptr_t)handle;
    if (kind_of(id) != kind) {
        return NULL;
    }
    struct slot *slot = slot_at((int64_t)(id & SLOT_MASK));
    if (!slot || atomic_load_explicit(&slot->id, memory_order_acquire) != id) {
        return NULL;
    }
    return atomic_load_explicit(&slot->object, memory_order_relaxed);
}

void *ag_handle_remove(enum ag_handle_kind kind, const void *handle)
{
    void *object;
    ag_lock(AG_LOCK_HANDLES);
    object = ag_handle_get(kind, handle);
    if (object) {
        const int64_t index = (int64_t)((uintptr_t)handle & SLOT_MASK);
        struct slot *slot = slot_at(index);
        atomic_store_explicit(&slot->id, 0, memory_order_release);
        atomic_store_explicit(&slot->object, NULL, memory_order_relaxed);
        slot->next_free = first_free;
        first_free = index;
        atomic_fetch_sub(&live_counts[kind], 1);
    }
    ag_unlock(AG_LOCK_HANDLES);
    return object;
}

const char *ag_handle_describe(const void *handle)
{
    static const char *const live[AG_HANDLE_KINDS] = {"",
                                                      "a live context",
                                                      "a live stream",
                                                      "a live event",
                                                      "a live tensor",
                                                      "a live tensor list",
                                                      "a live scalar",
                                                      "a live scalar list",
                                                      "a live int array",
                                                      "a live float array",
                                                      "a live bool array",
                                                      "a live executor",
                                                      "a live data buffer"};
    static const char *const stale[AG_HANDLE_KINDS] = {"",
                                                       "a destroyed context",
                                                       "a destroyed stream",
                                                       "a destroyed event",
                                                       "a destroyed tensor",
                                                       "a destroyed tensor list",
                                                       "a destroyed scalar",
                                                       "a destroyed scalar list",
                                                       "a destroyed int array",
                                                       "a destroyed float array",
                                                       "a destroyed bool array",
                                                       "an executor that is used up or destroyed",
                                                       "a destroyed data buffer"};
    const enum ag_handle_kind kind = kind_of((uintptr_t)handle);
    if (!handle) {
        return "null";
    }
    if (kind == AG_HANDLE_NONE) {
        return "a pointer that is no handle of this library";
    }
    return ag_handle_get(kind, handle) ? live[kind] : stale[kind];
}

int64_t ag_handle_count(enum ag_handle_kind kind)
{
    return atomic_load(&live_counts[kind]);
}

void ag_handle_each(enum ag_handle_kind kind, void (*visit)(void *handle, void *object, void *context), void *context)
{
    ag_lock(AG_LOCK_HANDLES);
    for (int64_t index = 0; index < slot_count; ++index) {
        struct slot *slot = slot_at(index);
        const uint64_t id = atomic_load(&slot->id);
        if (kind_of(id) == kind) {
            visit((void *)(uintptr_t)id, atomic_load(&slot->object), context);
        }
    }
    ag_unlock(AG_LOCK_HANDLES);
}
