#include "runtime/object.h"

#include <stdatomic.h>

#include "base/check.h"
#include "base/memory.h"

/* Stands before every object's content; 64 bytes keep the content aligned. */
struct header {
    _Atomic int is_claimed; /* by a list, which alone may destroy it */
    char padding[60];
};

static struct header *header_of(void *object)
{
    return (struct header *)object - 1;
}

void *ag_object_create(enum ag_handle_kind kind, size_t bytes, void **object)
{
    struct header *header = ag_alloc(sizeof *header + bytes);
    void *handle = NULL;
    if (header) {
        atomic_init(&header->is_claimed, 0);
        *object = header + 1;
        handle = ag_handle_create(kind, header + 1);
    }
    if (!handle) {
        ag_free(header);
        ag_fail(AG_CREATE_EXECUTOR, "out of memory (%s)", ag_handle_kind_name(kind));
    }
    return handle;
}

ag_status ag_object_get(enum ag_handle_kind kind, const void *handle, const char *argument, void **object)
{
    AG_REQUIRE(handle, NULLPTR, "%s: null, want a live %s", argument, ag_handle_kind_name(kind));
    *object = ag_handle_get(kind, handle);
    AG_REQUIRE(*object, INVALID, "%s: got %s, want a live %s", argument, ag_handle_describe(handle),
               ag_handle_kind_name(kind));
    return AG_OK;
}

ag_status ag_object_destroy(enum ag_handle_kind kind, const void *handle, const char *argument)
{
    void *object;
    if (!handle) {
        return AG_OK;
    }
    AG_TRY(ag_object_get(kind, handle, argument, &object));
    AG_REQUIRE(!atomic_load(&header_of(object)->is_claimed), INVALID, "%s: belongs to a list, which destroys it",
               argument);
    object = ag_handle_remove(kind, handle);
    AG_REQUIRE(object, INVALID, "%s: another thread has destroyed it", argument);
    ag_free(header_of(object));
    return AG_OK;
}

int ag_object_claim(void *object)
{
    return !atomic_exchange(&header_of(object)->is_claimed, 1);
}

void ag_object_unclaim(void *object)
{
    atomic_store(&header_of(object)->is_claimed, 0);
}
