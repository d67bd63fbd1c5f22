/* Bytes -> a sequence of acl and aclnn calls on handles of every kind, used rightly, as another kind, twice, after their
 * end. Each call returns a status; a failure has a message; a handle that is gone or of another kind is never taken. */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "base/config.h"
#include "base/status.h"
#include "fuzz.h"

/* --- what there is --------------------------------------------------------------------------------------------- */

enum kind {
    CONTEXT,
    STREAM,
    EVENT,
    TENSOR,
    SCALAR,
    INT_ARRAY,
    FLOAT_ARRAY,
    BOOL_ARRAY,
    TENSOR_LIST,
    SCALAR_LIST,
    EXECUTOR,
    DATA_BUFFER,
    KINDS
};

struct item {
    void *handle;
    enum kind kind;
    bool is_gone; /* certainly: its own destruction has succeeded, or its executor has run */
};

struct block { /* of aclrtMalloc */
    char *data;
    size_t bytes;
};

enum { MOST_ITEMS = 24, MOST_BLOCKS = 6, MOST_CALLS = 64 };
struct state {
    struct fuzz_input *input;
    struct item items[MOST_ITEMS];
    int item_count;
    struct block blocks[MOST_BLOCKS];
    int block_count;
};

/* Memory of all operators' tensors and workspaces: 8 tokens of 2 experts and 16 elements. */
static float storage[8][256];
static char workspace[1 << 16];

static void expect(aclnnStatus status)
{
    const char *text = aclGetRecentErrMsg();
    FUZZ_REQUIRE(status == 0 || (text && text[0]), "status %d without a message", (int)status);
    FUZZ_REQUIRE(status != AG_INNER, "an internal error: %s", text);
}

/* A call that needs a live handle of `kind` has not taken another one. */
static void require_live(const struct item *item, enum kind kind, aclnnStatus status)
{
    FUZZ_REQUIRE(status != 0 || !item || (item->kind == kind && !item->is_gone),
                 "a handle of kind %d%s was taken as %d", (int)item->kind, item->is_gone ? ", which is gone," : "",
                 (int)kind);
}

static void expect_live(const struct item *item, enum kind kind, aclnnStatus status)
{
    expect(status);
    require_live(item, kind, status);
}

static void keep(struct state *s, enum kind kind, const void *handle)
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

/* Mostly one of the kind that is asked for; or any; NULL for "null" (and then *handle may be no handle at all). */
static struct item *choose(struct state *s, enum kind kind, void **handle)
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

static bool has_room(const struct state *s)
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

/* --- objects --------------------------------------------------------------------------------------------------- */

static aclTensor *create_tensor(struct state *s)
{
    const int64_t extent = fuzz_take_once_in(s->input, 8) ? fuzz_take_edge(s->input) : 4;
    const int64_t dims[3] = {2, extent, 8}, strides[3] = {32, 8, 1};
    return aclCreateTensor(fuzz_take_once_in(s->input, 12) ? NULL : dims, (uint64_t)fuzz_take(s->input, 0, 3),
                           ACL_FLOAT, fuzz_take_bool(s->input) ? strides : NULL, 0, ACL_FORMAT_ND, NULL, 0,
                           storage[0]);
}

static void create_list(struct state *s)
{
    const void *handles[4];
    struct item *items[4];
    const bool is_scalars = fuzz_take_bool(s->input);
    const int64_t count = fuzz_take(s->input, 0, 4);
    for (int64_t i = 0; i < count; ++i) {
        void *handle;
        items[i] = choose(s, is_scalars ? SCALAR : TENSOR, &handle);
        handles[i] = handle;
    }
    const void *list = is_scalars
                           ? (const void *)aclCreateScalarList((const aclScalar *const *)handles, (uint64_t)count)
                           : (const void *)aclCreateTensorList((const aclTensor *const *)handles, (uint64_t)count);
    keep(s, is_scalars ? SCALAR_LIST : TENSOR_LIST, list);
    for (int64_t i = 0; list && i < count; ++i) {
        if (items[i]) { /* taken over: no longer the caller's to destroy */
            FUZZ_REQUIRE(items[i]->kind == (is_scalars ? SCALAR : TENSOR), "a list of other handles");
            FUZZ_REQUIRE((is_scalars ? aclDestroyScalar(items[i]->handle) : aclDestroyTensor(items[i]->handle)) != 0,
                         "destroyed what a list has taken over");
            items[i]->kind = KINDS; /* alive until the list dies */
        }
    }
}

static void create_object(struct state *s)
{
    const enum kind kind = (enum kind)fuzz_take(s->input, TENSOR, DATA_BUFFER);
    const uint64_t count = (uint64_t)fuzz_take(s->input, 0, 5);
    if (!has_room(s)) {
        return;
    }
    switch (kind) {
    case TENSOR:
        keep(s, kind, create_tensor(s));
        break;
    case SCALAR:
        keep(s, kind, aclCreateScalar(storage[0], (aclDataType)fuzz_take(s->input, -1, 42)));
        break;
    case INT_ARRAY:
        keep(s, kind, aclCreateIntArray((int64_t *)(void *)storage[1], count));
        break;
    case FLOAT_ARRAY:
        keep(s, kind, aclCreateFloatArray(storage[1], count));
        break;
    case BOOL_ARRAY:
        keep(s, kind, aclCreateBoolArray(count ? (const bool[8]){true} : NULL, count));
        break;
    case DATA_BUFFER:
        keep(s, kind, aclCreateDataBuffer(storage[0], count));
        break;
    default:
        create_list(s);
        break;
    }
}

static aclnnStatus destroy_as(enum kind kind, const void *handle)
{
    switch (kind) {
    case TENSOR:
        return aclDestroyTensor(handle);
    case SCALAR:
        return aclDestroyScalar(handle);
    case INT_ARRAY:
        return aclDestroyIntArray(handle);
    case FLOAT_ARRAY:
        return aclDestroyFloatArray(handle);
    case BOOL_ARRAY:
        return aclDestroyBoolArray(handle);
    case TENSOR_LIST:
        return aclDestroyTensorList(handle);
    case SCALAR_LIST:
        return aclDestroyScalarList(handle);
    case DATA_BUFFER:
        return aclDestroyDataBuffer(handle);
    default:
        return aclDestroyAclOpExecutor((aclOpExecutor *)(uintptr_t)handle);
    }
}

static void destroy_object(struct state *s)
{
    void *handle;
    const enum kind kind = (enum kind)fuzz_take(s->input, TENSOR, DATA_BUFFER);
    struct item *item = choose(s, kind, &handle);
    const aclnnStatus status = destroy_as(kind, handle);
    expect_live(item, kind, status);
    if (item && status == 0) {
        item->is_gone = true;
    }
}

/* What hands out an array lets the program free it with delete[]. */
extern void cxx_delete_array(void *array) __asm__("_ZdaPv") __attribute__((weak));

static void free_array(int64_t *array)
{
    if (cxx_delete_array) {
        cxx_delete_array(array);
    } else {
        free(array);
    }
}

static void ask_tensor(struct state *s)
{
    void *handle, *address;
    int64_t *array = NULL, offset;
    uint64_t count;
    const struct item *item = choose(s, TENSOR, &handle);
    if (item && item->kind == KINDS) {
        return;
    }
    switch (fuzz_take(s->input, 0, 5)) {
    case 0:
        expect_live(item, TENSOR, aclGetViewShape(handle, &array, &count));
        break;
    case 1:
        expect_live(item, TENSOR, aclGetStorageShape(handle, &array, &count));
        break;
    case 2:
        expect_live(item, TENSOR, aclGetViewStrides(handle, &array, &count));
        break;
    case 3:
        expect_live(item, TENSOR, aclGetViewOffset(handle, &offset));
        break;
    case 4:
        expect_live(item, TENSOR, aclGetRawTensorAddr(handle, &address));
        break;
    default:
        expect_live(item, TENSOR, aclSetRawTensorAddr(handle, storage[0]));
        break;
    }
    free_array(array);
}

static void ask_object(struct state *s)
{
    void *handle;
    uint64_t size;
    const enum kind kind = (enum kind)fuzz_take(s->input, INT_ARRAY, SCALAR_LIST);
    const struct item *item = choose(s, kind, &handle);
    uint64_t *to = fuzz_take_once_in(s->input, 6) ? NULL : &size;
    switch (kind) {
    case INT_ARRAY:
        expect_live(item, kind, aclGetIntArraySize(handle, to));
        break;
    case FLOAT_ARRAY:
        expect_live(item, kind, aclGetFloatArraySize(handle, to));
        break;
    case BOOL_ARRAY:
        expect_live(item, kind, aclGetBoolArraySize(handle, to));
        break;
    case TENSOR_LIST:
        expect_live(item, kind, aclGetTensorListSize(handle, to));
        break;
    default:
        expect_live(item, kind, aclGetScalarListSize(handle, to));
        break;
    }
}

static void call_object(struct state *s)
{
    switch (fuzz_take(s->input, 0, 3)) {
    case 0:
        destroy_object(s);
        break;
    case 1:
        ask_tensor(s);
        break;
    case 2:
        ask_object(s);
        break;
    default:
        create_object(s);
        break;
    }
}

/* --- executors ------------------------------------------------------------------------------------------------- */

/* Phase 1 of a sound call: 8 tokens, 2 experts, 16 elements. The tensors are gone when it returns. */
static void create_executor(struct state *s)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    const int64_t tokens[2] = {8, 16}, rows[2] = {16, 16}, slots = 16, probs[2] = {8, 2};
    aclTensor *all[] = {
        aclCreateTensor(tokens, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, storage[2]),
        aclCreateTensor(&slots, 1, ACL_INT32, NULL, 0, ACL_FORMAT_ND, NULL, 0, storage[3]),
        aclCreateTensor(rows, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, storage[4]),
        aclCreateTensor(probs, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, storage[5]),
        aclCreateTensor(rows, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, storage[6]),
        aclCreateTensor(probs, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, storage[7]),
    };
    const aclnnStatus status = aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
        all[0], all[1], all[2], all[3], false, NULL, NULL, 2, all[4], all[5], &bytes, &executor);
    FUZZ_REQUIRE(status == 0 && bytes <= sizeof workspace, "status %d: %s", (int)status, ag_error_peek());
    for (int i = 0; i < 6; ++i) {
        FUZZ_REQUIRE(aclDestroyTensor(all[i]) == 0, "cannot destroy");
    }
    keep(s, EXECUTOR, executor);
}

static void run_executor(struct state *s)
{
    void *handle, *stream;
    struct item *item = choose(s, EXECUTOR, &handle);
    const struct item *stream_item = choose(s, STREAM, &stream);
    const uint64_t bytes = fuzz_take_once_in(s->input, 6) ? (uint64_t)fuzz_take(s->input, 0, 64) : sizeof workspace;
    void *block = fuzz_take_once_in(s->input, 8) ? NULL : workspace;
    const int64_t way = fuzz_take(s->input, 0, 9);
    const aclnnStatus status = way == 8   ? aclnnLightningIndexerGrad(block, bytes, handle, stream)
                               : way == 9 ? aclnnFlashAttentionUnpaddingScoreGradV3(block, bytes, handle, stream)
                                          : aclnnMoeTokenUnpermuteWithEpGrad(block, bytes, handle, stream);
    expect_live(item, EXECUTOR, status);
    require_live(stream_item, STREAM, status);
    FUZZ_REQUIRE(status != 0 || (way < 8 && item), "another operator's executor was taken");
}

static void move_executor(struct state *s)
{
    void *handle, *tensor;
    const struct item *item = choose(s, EXECUTOR, &handle);
    choose(s, TENSOR, &tensor);
    const size_t index =
        fuzz_take_once_in(s->input, 6) ? (size_t)fuzz_take_edge(s->input) : (size_t)fuzz_take(s->input, 0, 6);
    void *address = fuzz_take_once_in(s->input, 6) ? NULL : storage[fuzz_take(s->input, 2, 7)];
    switch (fuzz_take(s->input, 0, 3)) {
    case 0:
        expect_live(item, EXECUTOR, aclSetInputTensorAddr(handle, index, tensor, address));
        break;
    case 1:
        expect_live(item, EXECUTOR, aclSetOutputTensorAddr(handle, index, tensor, address));
        break;
    case 2:
        expect_live(item, EXECUTOR, aclSetTensorAddr(handle, index, tensor, address));
        break;
    default:
        expect_live(item, EXECUTOR, aclSetDynamicTensorAddr(handle, index, 0, tensor, address));
        break;
    }
}

static void call_executor(struct state *s)
{
    void *handle;
    switch (fuzz_take(s->input, 0, 4)) {
    case 0:
        if (has_room(s)) {
            create_executor(s);
        }
        break;
    case 1: {
        const struct item *item = choose(s, EXECUTOR, &handle);
        expect_live(item, EXECUTOR, aclSetAclOpExecutorRepeatable(handle));
        break;
    }
    case 2:
        move_executor(s);
        break;
    default:
        run_executor(s);
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
