/* Copies and fills, now or in order on a stream. */
#include <string.h>

#include "acl/acl_rt.h"
#include "base/check.h"
#include "runtime/context.h"
#include "runtime/device_memory.h"
#include "runtime/stream.h"

struct copy {
    void *destination;
    const void *source;
    size_t bytes;
};

struct fill {
    void *destination;
    int value;
    size_t bytes;
};

/* Reading past the end is allowed as far as the memory is ours; further it would end the program. */
static ag_status check_inside_block(const char *argument, const void *address, size_t bytes, bool is_written)
{
    struct ag_memory_block block;
    if (ag_memory_find(address, &block)) {
        const uintptr_t end = is_written ? block.writable : block.readable;
        AG_REQUIRE((uintptr_t)address <= end && bytes <= end - (uintptr_t)address, RT_PARAM_INVALID,
                   "%s: %zu bytes from here leave the allocation of %zu bytes", argument, bytes,
                   (size_t)(block.end - block.begin));
    }
    return AG_OK;
}

static ag_status check_copy(const struct copy *copy, size_t room, aclrtMemcpyKind kind)
{
    AG_TRY(ag_context_check_thread());
    AG_REQUIRE(copy->destination, ACL_INVALID_PARAM, "dst: null");
    AG_REQUIRE(copy->source, ACL_INVALID_PARAM, "src: null");
    AG_REQUIRE((int)kind >= ACL_MEMCPY_HOST_TO_HOST && (int)kind <= ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
               ACL_INVALID_PARAM, "kind: got %d, want 0 to 5", (int)kind);
    AG_REQUIRE(copy->bytes <= room, RT_PARAM_INVALID, "count: got %zu, destMax is %zu", copy->bytes, room);
    AG_TRY(check_inside_block("dst", copy->destination, copy->bytes, true));
    return check_inside_block("src", copy->source, copy->bytes, false);
}

static ag_status run_copy(void *context)
{
    const struct copy *copy = context;
    memmove(copy->destination, copy->source, copy->bytes);
    return AG_OK;
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    struct copy copy = {dst, src, count};
    ag_error_enter(__func__);
    if (count == 0) {
        return AG_OK;
    }
    AG_TRY(check_copy(&copy, destMax, kind));
    return run_copy(&copy);
}

/* Ordinary host memory (the stack, malloc) may be gone as soon as the call returns: programs for the device count
 * on the copy being over by then. */
static bool is_ours(const void *address)
{
    struct ag_memory_block block;
    return ag_memory_find(address, &block);
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream)
{
    struct copy copy = {dst, src, count};
    ag_error_enter(__func__);
    if (count == 0) {
        return ag_stream_check(stream);
    }
    AG_TRY(check_copy(&copy, destMax, kind));
    AG_TRY(ag_stream_submit(stream, (struct ag_task){run_copy, NULL, &copy, sizeof copy}));
    return is_ours(dst) && is_ours(src) ? AG_OK : ag_stream_settle(stream);
}

static ag_status check_fill(const struct fill *fill, size_t room)
{
    AG_TRY(ag_context_check_thread());
    AG_REQUIRE(fill->destination, ACL_INVALID_PARAM, "devPtr: null");
    AG_REQUIRE(fill->bytes <= room, RT_PARAM_INVALID, "count: got %zu, maxCount is %zu", fill->bytes, room);
    return check_inside_block("devPtr", fill->destination, fill->bytes, true);
}

static ag_status run_fill(void *context)
{
    const struct fill *fill = context;
    memset(fill->destination, fill->value, fill->bytes);
    return AG_OK;
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    struct fill fill = {devPtr, (int)value, count};
    ag_error_enter(__func__);
    if (count == 0) {
        return AG_OK;
    }
    AG_TRY(check_fill(&fill, maxCount));
    return run_fill(&fill);
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream)
{
    struct fill fill = {devPtr, (int)value, count};
    ag_error_enter(__func__);
    if (count == 0) {
        return ag_stream_check(stream);
    }
    AG_TRY(check_fill(&fill, maxCount));
    return ag_stream_submit(stream, (struct ag_task){run_fill, NULL, &fill, sizeof fill});
}
