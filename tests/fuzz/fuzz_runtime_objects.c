/* Objects and executors, for fuzz_runtime.c. */
#include <stdlib.h>

#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "base/status.h"
#include "fuzz_runtime.h"

/* Memory of all operators' tensors and workspaces: 8 tokens of 2 experts and 16 elements. */
static float storage[8][256];
static char workspace[1 << 16];

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

aclnnStatus destroy_as(enum kind kind, const void *handle)
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

void call_object(struct state *s)
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

void call_executor(struct state *s)
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
