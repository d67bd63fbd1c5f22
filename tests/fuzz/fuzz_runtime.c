/* Bytes -> a sequence of acl and aclnn calls on handles of every kind, used rightly, as another kind, twice, after their
 * end. Each call returns a status; a failure has a message; a handle that is gone or of another kind is never taken. */
#include <stdlib.h>

#include "aclnn/aclnn_base.h"
#include "base/config.h"
#include "base/status.h"
#include "fuzz_runtime.h"

/* --- what there is --------------------------------------------------------------------------------------------- */

void expect(aclnnStatus status)
{
    const char *text = aclGetRecentErrMsg();
    FUZZ_REQUIRE(status == 0 || (text && text[0]), "status %d without a message", (int)status);
    FUZZ_REQUIRE(status != AG_INNER, "an internal error: %s", text);
}

void require_live(const struct item *item, enum kind kind, aclnnStatus status)
{
    FUZZ_REQUIRE(status != 0 || !item || (item->kind == kind && !item->is_gone),
                 "a handle of kind %d%s was taken as %d", (int)item->kind, item->is_gone ? ", which is gone," : "",
                 (int)kind);
}

void expect_live(const struct item *item, enum kind kind, aclnnStatus status)
{
    expect(status);
    require_live(item, kind, status);
}

void keep(struct state *s, enum kind kind, const void *handle)
{
    const char *text = aclGetRecentErrMsg();
    FUZZ_REQUIRE(handle || (text && text[0]), "no object of kind %d, and no message", (int)kind);
    if (!handle) {
        return;
    }
    for (int i = 0; i < s->item_count; ++i) {
        FUZZ_REQUIRE(s->items[i].handle != handle || s->items[i].is_gone || s->items[i].kind <= STREAM,
                     "a handle was given twice");
    }
    s->items[s->item_count++] = (struct item){(void *)(uintptr_t)handle, kind, false};
}

struct item *choose(struct state *s, enum kind kind, void **handle)
{
    const int64_t way = fuzz_take(s->input, 0, 9);
    *handle = NULL;
    if (way == 9) {
        static char variable[64];
        *handle = fuzz_take_bool(s->input) ? variable : (void *)(uintptr_t)fuzz_take(s->input, INT64_MIN, INT64_MAX);
        return NULL;
    }
    const int64_t start = fuzz_take(s->input, 0, MOST_ITEMS - 1);
    for (int i = 0; way < 8 && i < s->item_count; ++i) {
        struct item *item = &s->items[(start + i) % s->item_count];
        if (way == 7 || item->kind == kind) {
            *handle = item->handle;
            return item;
        }
    }
    return NULL;
}

bool has_room(const struct state *s)
{
    return s->item_count < MOST_ITEMS;
}

/* --- devices, contexts ----------------------------------------------------------------------------------------- */

static void call_init(struct state *s)
{
    uint64_t count;
    switch (fuzz_take(s->input, 0, 5)) {
    case 0:
        expect(aclInit(fuzz_take_bool(s->input) ? "/nonexistent" : NULL));
        break;
    case 1:
        expect(aclFinalize());
        break;
    case 2:
        expect(aclFinalizeReference(fuzz_take_bool(s->input) ? &count : NULL));
        break;
    case 3:
        expect(aclnnInit(NULL));
        break;
    default:
        expect(aclnnFinalize());
        break;
    }
}

static void call_device(struct state *s)
{
    int32_t device;
    uint32_t count;
    aclrtRunMode mode;
    size_t free_bytes, total_bytes;
    const int32_t number = fuzz_take_once_in(s->input, 6) ? (int32_t)fuzz_take_edge(s->input) : 0;
    const bool is_null = fuzz_take_once_in(s->input, 6);
    switch (fuzz_take(s->input, 0, 7)) {
    case 0:
        expect(aclrtResetDevice(number));
        break;
    case 1:
        expect(aclrtResetDeviceForce(number));
        break;
    case 2:
        expect(aclrtGetDevice(is_null ? NULL : &device));
        break;
    case 3:
        expect(aclrtGetDeviceCount(is_null ? NULL : &count));
        break;
    case 4:
        expect(aclrtSynchronizeDevice());
        break;
    case 5:
        expect(aclrtGetRunMode(is_null ? NULL : &mode));
        break;
    case 6:
        expect(aclrtGetMemInfo((aclrtMemAttr)number, is_null ? NULL : &free_bytes, &total_bytes));
        break;
    default:
        expect(aclrtSetDevice(number));
        break;
    }
}

static void call_context(struct state *s)
{
    void *handle;
    aclrtContext context = NULL;
    struct item *item = choose(s, CONTEXT, &handle);
    switch (fuzz_take(s->input, 0, 3)) {
    case 0:
        if (has_room(s)) {
            const aclError status = aclrtCreateContext(&context, 0);
            expect(status);
            if (status == 0) {
                keep(s, CONTEXT, context);
            }
        }
        break;
    case 1: {
        const aclError status = aclrtDestroyContext(handle);
        expect_live(item, CONTEXT, status);
        if (item && (status == 0 || status == AG_RUNTIME)) {
            item->is_gone = true;
        }
        break;
    }
    case 2:
        expect_live(item, CONTEXT, aclrtSetCurrentContext(handle));
        break;
    default:
        expect(aclrtGetCurrentContext(fuzz_take_once_in(s->input, 6) ? NULL : &context));
        break;
    }
}

static void call_option(struct state *s)
{
    int64_t value = fuzz_take_edge(s->input);
    const aclSysParamOpt option = (aclSysParamOpt)fuzz_take(s->input, -1, 3);
    int64_t *to = fuzz_take_once_in(s->input, 6) ? NULL : &value;
    switch (fuzz_take(s->input, 0, 3)) {
    case 0:
        expect(aclrtCtxSetSysParamOpt(option, value));
        break;
    case 1:
        expect(aclrtCtxGetSysParamOpt(option, to));
        break;
    case 2:
        expect(aclrtSetSysParamOpt(option, value));
        break;
    default:
        expect(aclrtGetSysParamOpt(option, to));
        break;
    }
}

/* --- streams and events ---------------------------------------------------------------------------------------- */

static void create_stream(struct state *s)
{
    aclrtStream stream = NULL;
    const uint32_t flag = fuzz_take_once_in(s->input, 3) ? (uint32_t)fuzz_take(s->input, 0, 0xffff) : 0;
    const aclError status =
        fuzz_take_bool(s->input) ? aclrtCreateStreamWithConfig(&stream, 0, flag) : aclrtCreateStream(&stream);
    expect(status);
    if (status == 0) {
        keep(s, STREAM, stream);
    }
}

static void destroy_stream(struct state *s)
{
    void *handle;
    struct item *item = choose(s, STREAM, &handle);
    const aclError status = fuzz_take_bool(s->input) ? aclrtDestroyStream(handle) : aclrtDestroyStreamForce(handle);
    expect_live(item, STREAM, status);
    if (item && (status == 0 || status == AG_RUNTIME)) {
        item->is_gone = true;
    }
}

static void call_stream(struct state *s)
{
    void *handle;
    aclrtStreamStatus status;
    const struct item *item = choose(s, STREAM, &handle);
    switch (fuzz_take(s->input, 0, 5)) {
    case 0:
        if (has_room(s)) {
            create_stream(s);
        }
        break;
    case 1:
        destroy_stream(s);
        break;
    case 2:
        expect_live(item, STREAM, aclrtStreamQuery(handle, fuzz_take_once_in(s->input, 6) ? NULL : &status));
        break;
    case 3:
        expect_live(item, STREAM, aclrtStreamAbort(handle));
        break;
    case 4:
        expect_live(item, STREAM, aclrtSynchronizeStreamWithTimeout(handle, (int32_t)fuzz_take(s->input, -2, 2)));
        break;
    default:
        expect_live(item, STREAM, aclrtSynchronizeStream(handle));
        break;
    }
}

static void create_event(struct state *s)
{
    aclrtEvent event = NULL;
    const uint32_t flag = (uint32_t)fuzz_take(s->input, 0, 0x1f);
    const int64_t way = fuzz_take(s->input, 0, 2);
    const aclError status = way == 0   ? aclrtCreateEvent(&event)
                            : way == 1 ? aclrtCreateEventWithFlag(&event, flag)
                                       : aclrtCreateEventExWithFlag(&event, flag);
    expect(status);
    if (status == 0) {
        keep(s, EVENT, event);
    }
}

static void order_event(struct state *s)
{
    void *event, *stream;
    const struct item *event_item = choose(s, EVENT, &event), *stream_item = choose(s, STREAM, &stream);
    const int64_t way = fuzz_take(s->input, 0, 2);
    const aclError status = way == 0   ? aclrtRecordEvent(event, stream)
                            : way == 1 ? aclrtResetEvent(event, stream)
                                       : aclrtStreamWaitEvent(stream, event);
    expect_live(event_item, EVENT, status);
    require_live(stream_item, STREAM, status);
}

static void query_event(struct state *s)
{
    void *event;
    aclrtEventRecordedStatus recorded;
    aclrtEventStatus done;
    aclrtEventWaitStatus waited;
    uint64_t time;
    const struct item *item = choose(s, EVENT, &event);
    const bool is_null = fuzz_take_once_in(s->input, 6);
    switch (fuzz_take(s->input, 0, 5)) {
    case 0:
        expect_live(item, EVENT, aclrtQueryEventStatus(event, is_null ? NULL : &recorded));
        break;
    case 1:
        expect_live(item, EVENT, aclrtQueryEvent(event, is_null ? NULL : &done));
        break;
    case 2:
        expect_live(item, EVENT, aclrtQueryEventWaitStatus(event, is_null ? NULL : &waited));
        break;
    case 3:
        expect_live(item, EVENT, aclrtEventGetTimestamp(event, is_null ? NULL : &time));
        break;
    case 4:
        expect_live(item, EVENT, aclrtSynchronizeEventWithTimeout(event, (int32_t)fuzz_take(s->input, -2, 2)));
        break;
    default:
        expect_live(item, EVENT, aclrtSynchronizeEvent(event));
        break;
    }
}

static void end_event(struct state *s)
{
    void *event, *other;
    float milliseconds;
    struct item *item = choose(s, EVENT, &event), *other_item = choose(s, EVENT, &other);
    if (fuzz_take_bool(s->input)) {
        const aclError status = aclrtEventElapsedTime(&milliseconds, event, other);
        expect_live(item, EVENT, status);
        require_live(other_item, EVENT, status);
        return;
    }
    const aclError status = aclrtDestroyEvent(event);
    expect_live(item, EVENT, status);
    if (item && status == 0) {
        item->is_gone = true;
    }
}

static void call_event(struct state *s)
{
    switch (fuzz_take(s->input, 0, 4)) {
    case 0:
        if (has_room(s)) {
            create_event(s);
        }
        break;
    case 1:
        query_event(s);
        break;
    case 2:
        end_event(s);
        break;
    default:
        order_event(s);
        break;
    }
}

/* A task that waits for its own stream must be told so; it must not wait. */
static void do_nothing(void *stream)
{
    (void)stream;
}

static void wait_for_own(void *stream)
{
    if (!stream) { /* perhaps none at all: then nothing waits */
        return;
    }
    FUZZ_REQUIRE(aclrtSynchronizeStream(stream) != 0, "a task waited for its own stream");
    FUZZ_REQUIRE(aclrtDestroyStream(stream) != 0, "a task destroyed its own stream");
    aclGetRecentErrMsg();
}

static void submit_another(void *stream)
{
    aclrtLaunchHostFunc(stream, do_nothing, stream);
    aclGetRecentErrMsg();
}

static void call_task(struct state *s)
{
    static const aclrtHostFunc tasks[] = {do_nothing, wait_for_own, submit_another, NULL};
    void *handle;
    const struct item *item = choose(s, STREAM, &handle);
    expect_live(item, STREAM, aclrtLaunchHostFunc(handle, tasks[fuzz_take(s->input, 0, 3)], handle));
}

/* --- memory ---------------------------------------------------------------------------------------------------- */

static void synchronise_all(struct state *s)
{
    aclrtSynchronizeStream(NULL);
    for (int i = 0; i < s->item_count; ++i) {
        if (s->items[i].kind == STREAM && !s->items[i].is_gone) {
            aclrtSynchronizeStream(s->items[i].handle);
        }
    }
    aclGetRecentErrMsg();
}

static void allocate(struct state *s)
{
    void *data = NULL;
    const size_t bytes =
        fuzz_take_once_in(s->input, 8) ? (size_t)fuzz_take_edge(s->input) : (size_t)fuzz_take(s->input, 0, 300);
    const aclError status = fuzz_take_bool(s->input) ? aclrtMalloc(&data, bytes, ACL_MEM_MALLOC_HUGE_FIRST)
                                                     : aclrtMallocHost(&data, bytes);
    expect(status);
    if (status != 0) {
        return;
    }
    if (s->block_count == MOST_BLOCKS || bytes > 1 << 20) { /* given, but too large to play with */
        FUZZ_REQUIRE(aclrtFree(data) == 0, "cannot free");
        return;
    }
    for (size_t i = 0; i < bytes; ++i) {
        FUZZ_REQUIRE(((char *)data)[i] == 0, "memory that is not zero");
    }
    s->blocks[s->block_count++] = (struct block){data, bytes};
}

static void release(struct state *s)
{
    if (s->block_count == 0 || fuzz_take_once_in(s->input, 4)) {
        char nobody;
        FUZZ_REQUIRE(aclrtFree(fuzz_take_bool(s->input) ? NULL : &nobody) != 0, "freed what is not its own");
        expect(1);
        return;
    }
    struct block *block = &s->blocks[fuzz_take(s->input, 0, s->block_count - 1)];
    char *data = block->data;
    synchronise_all(s);
    FUZZ_REQUIRE(aclrtFree(data + 1) != 0, "freed from the middle");
    FUZZ_REQUIRE((fuzz_take_bool(s->input) ? aclrtFree(data) : aclrtFreeHost(data)) == 0, "cannot free");
    FUZZ_REQUIRE(aclrtFree(data) != 0, "freed twice");
    *block = s->blocks[--s->block_count];
}

/* Counts may pass the end of the block: the library knows its own memory. */
static void copy(struct state *s)
{
    void *stream;
    const struct item *item = choose(s, STREAM, &stream);
    const aclrtMemcpyKind direction = (aclrtMemcpyKind)fuzz_take(s->input, 0, 7);
    if (s->block_count == 0) {
        return;
    }
    const struct block *to = &s->blocks[fuzz_take(s->input, 0, s->block_count - 1)];
    const struct block *from = &s->blocks[fuzz_take(s->input, 0, s->block_count - 1)];
    const size_t count =
        fuzz_take_once_in(s->input, 6) ? (size_t)fuzz_take_edge(s->input) : (size_t)fuzz_take(s->input, 0, 300);
    const size_t most = fuzz_take_once_in(s->input, 4) ? (size_t)fuzz_take_edge(s->input) : to->bytes;
    const int32_t value = (int32_t)count;
    switch (fuzz_take(s->input, 0, 3)) {
    case 0:
        expect(aclrtMemcpy(to->data, most, from->data, count, direction));
        break;
    case 1:
        expect_live(item, STREAM, aclrtMemcpyAsync(to->data, most, from->data, count, direction, stream));
        break;
    case 2:
        expect(aclrtMemset(to->data, most, value, count));
        break;
    default:
        expect_live(item, STREAM, aclrtMemsetAsync(to->data, most, value, count, stream));
        break;
    }
    if (!stream) { /* of whichever context is current: nobody will find it again before the memory is freed */
        aclrtSynchronizeStream(NULL);
        aclGetRecentErrMsg();
    }
}

static void call_memory(struct state *s)
{
    switch (fuzz_take(s->input, 0, 3)) {
    case 0:
        allocate(s);
        break;
    case 1:
        release(s);
        break;
    default:
        copy(s);
        break;
    }
}

/* --- the whole ------------------------------------------------------------------------------------------------- */

static void set_mode(bool is_async, bool is_debug)
{
    static int mode = -1;
    if (mode != is_async + 2 * is_debug) {
        mode = is_async + 2 * is_debug;
        setenv("ACLGRAD_ASYNC", is_async ? "1" : "0", 1);
        setenv("ACLGRAD_DEBUG", is_debug ? "1" : "0", 1);
        setenv("ACLGRAD_THREADS", "1", 1);
        ag_config_reload();
    }
}

/* Whatever is left. Handles that are gone already are told apart by the library. */
static void destroy_all(struct state *s)
{
    synchronise_all(s);
    for (int i = s->item_count - 1; i >= 0; --i) {
        if (s->items[i].kind >= TENSOR && s->items[i].kind < KINDS) {
            destroy_as(s->items[i].kind, s->items[i].handle);
        } else if (s->items[i].kind == EVENT) {
            aclrtDestroyEvent(s->items[i].handle);
        }
    }
    for (int i = s->item_count - 1; i >= 0; --i) {
        if (s->items[i].kind == CONTEXT) {
            aclrtDestroyContext(s->items[i].handle);
        }
    }
    aclrtSetDevice(0); /* streams of the default context go with it */
    aclrtResetDeviceForce(0);
    for (int i = 0; i < s->block_count; ++i) {
        FUZZ_REQUIRE(aclrtFree(s->blocks[i].data) == 0, "cannot free");
    }
    while (aclFinalizeReference(NULL) == 0) {
    }
    aclGetRecentErrMsg();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static void (*const calls[])(struct state *) = {
        call_init, call_device, call_context, call_option, call_stream, call_stream,   call_event,   call_event,
        call_task, call_memory, call_memory,  call_object, call_object, call_executor, call_executor};
    struct fuzz_input input = {data, data + bytes};
    struct state s = {.input = &input};
    const int64_t mode = fuzz_take(&input, 0, 7);
    set_mode(mode & 1, mode >= 6);
    for (int i = 0; i < MOST_CALLS && !fuzz_is_empty(&input); ++i) {
        calls[fuzz_take(&input, 0, sizeof calls / sizeof *calls - 1)](&s);
    }
    destroy_all(&s);
    return 0;
}
