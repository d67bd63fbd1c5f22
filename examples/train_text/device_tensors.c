#include "device_tensors.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_TENSORS = 16,
    MOST_LISTS = 4,
    MASK_SIDE = 2048,
    BLOCK_BYTES = 16 << 20,
    MOST_BLOCKS = 64,
    ALIGNMENT = 64
};

struct operator_time operator_times[OPERATORS] = {
    [OPERATOR_ATTENTION] = {"aclnnFlashAttentionVarLenScoreV3", 0, 0},
    [OPERATOR_ATTENTION_GRAD] = {"aclnnFlashAttentionUnpaddingScoreGradV3", 0, 0},
    [OPERATOR_INDEXER] = {"aclnnLightningIndexer", 0, 0},
    [OPERATOR_INDEXER_GRAD] = {"aclnnLightningIndexerGrad", 0, 0},
    [OPERATOR_PERMUTE] = {"aclnnMoeTokenPermuteWithEp", 0, 0},
    [OPERATOR_PERMUTE_GRAD] = {"aclnnMoeTokenPermuteWithEpGrad", 0, 0},
    [OPERATOR_UNPERMUTE] = {"aclnnMoeTokenUnpermuteWithEp", 0, 0},
    [OPERATOR_UNPERMUTE_GRAD] = {"aclnnMoeTokenUnpermuteWithEpGrad", 0, 0},
};

/* What leaves the device when the call is done. */
struct output {
    const void *from;
    void *to;
    aclDataType type;
    int64_t count;
    bool is_raw;
    enum arrival arrival;
};

static struct {
    aclrtStream stream;
    uint8_t *mask;
    /* Memory that stays: blocks, filled one after the other and emptied together. */
    void *blocks[MOST_BLOCKS];
    size_t block_bytes[MOST_BLOCKS];
    int block, block_count;
    size_t filled; /* bytes of blocks[block] */
    /* Of the call that is being made. */
    aclTensor *tensors[MOST_TENSORS];
    aclIntArray *lists[MOST_LISTS];
    struct output outputs[MOST_TENSORS];
    int tensor_count, list_count, output_count;
} device;

void device_check(int status, const char *call)
{
    if (status != ACL_SUCCESS) {
        const char *message = aclGetRecentErrMsg();
        fprintf(stderr, "train_text: %.60s: %d: %s\n", call, status, message ? message : "no message");
        exit(1);
    }
}

double device_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void operators_begin(void)
{
    setenv("ACLGRAD_SOFTMAX_LAYOUT", "cann", 1); /* softmax_row_of() reads this order */
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&device.stream));
    CHECK(aclrtMalloc((void **)&device.mask, (size_t)MASK_SIDE * MASK_SIDE, ACL_MEM_MALLOC_HUGE_FIRST));
    for (size_t row = 0; row < MASK_SIDE; ++row) {
        memset(device.mask + row * MASK_SIDE, 0, row + 1);
        memset(device.mask + row * MASK_SIDE + row + 1, 1, MASK_SIDE - row - 1);
    }
}

void operators_end(void)
{
    for (int i = 0; i < device.block_count; ++i) {
        CHECK(aclrtFree(device.blocks[i]));
    }
    CHECK(aclrtFree(device.mask));
    CHECK(aclrtDestroyStream(device.stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}

static void *take(size_t bytes)
{
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    while (device.block < device.block_count && device.filled + bytes > device.block_bytes[device.block]) {
        ++device.block;
        device.filled = 0;
    }
    if (device.block == device.block_count) {
        assert(device.block_count < MOST_BLOCKS);
        const size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        CHECK(aclrtMalloc(&device.blocks[device.block], size, ACL_MEM_MALLOC_HUGE_FIRST));
        device.block_bytes[device.block_count++] = size;
    }
    void *memory = (char *)device.blocks[device.block] + device.filled;
    device.filled += bytes;
    return memory;
}

static int64_t count_of(struct dims dims)
{
    int64_t count = 1;
    for (int d = 0; d < dims.rank; ++d) {
        count *= dims.size[d];
    }
    return count;
}

static aclTensor *tensor_over(void *memory, aclDataType type, struct dims dims)
{
    assert(device.tensor_count < MOST_TENSORS);
    aclTensor *tensor = aclCreateTensor(dims.size, (uint64_t)dims.rank, type, NULL, 0, ACL_FORMAT_ND, dims.size,
                                        (uint64_t)dims.rank, memory);
    device_check(tensor ? ACL_SUCCESS : ACL_ERROR_BAD_ALLOC, "aclCreateTensor");
    device.tensors[device.tensor_count++] = tensor;
    return tensor;
}

/* To the nearest, ties to even. NaN is never trained on. */
static uint16_t to_bf16(real value)
{
    const float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static real from_bf16(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (real)value;
}

aclTensor *device_input(real *values, struct dims dims)
{
    const int64_t count = count_of(dims);
    uint16_t *memory = take((size_t)count * sizeof *memory);
    for (int64_t i = 0; i < count; ++i) {
        memory[i] = to_bf16(values[i]);
        values[i] = from_bf16(memory[i]);
    }
    return tensor_over(memory, ACL_BF16, dims);
}

aclTensor *device_input_float(real *values, struct dims dims)
{
    const int64_t count = count_of(dims);
    float *memory = take((size_t)count * sizeof *memory);
    for (int64_t i = 0; i < count; ++i) {
        memory[i] = (float)values[i];
    }
    return tensor_over(memory, ACL_FLOAT, dims);
}

aclTensor *device_raw(aclDataType type, const void *values, struct dims dims)
{
    const size_t bytes = (size_t)count_of(dims) * aclDataTypeSize(type);
    void *memory = take(bytes);
    if (values) {
        CHECK(aclrtMemcpy(memory, bytes, values, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    }
    return tensor_over(memory, type, dims);
}

aclTensor *device_mask(void)
{
    return tensor_over(device.mask, ACL_UINT8, (struct dims){2, {MASK_SIDE, MASK_SIDE}});
}

static aclTensor *expect(struct output output, struct dims dims)
{
    assert(device.output_count < MOST_TENSORS);
    output.count = count_of(dims);
    void *memory = take((size_t)output.count * aclDataTypeSize(output.type));
    output.from = memory;
    device.outputs[device.output_count++] = output;
    return tensor_over(memory, output.type, dims);
}

aclTensor *device_output(real *values, struct dims dims, enum arrival arrival)
{
    return expect((struct output){.to = values, .type = ACL_BF16, .arrival = arrival}, dims);
}

aclTensor *device_output_float(real *values, struct dims dims, enum arrival arrival)
{
    return expect((struct output){.to = values, .type = ACL_FLOAT, .arrival = arrival}, dims);
}

aclTensor *device_output_raw(aclDataType type, void *values, struct dims dims)
{
    return expect((struct output){.to = values, .type = type, .is_raw = true}, dims);
}

aclIntArray *device_list(const int64_t *items, int64_t count)
{
    assert(device.list_count < MOST_LISTS);
    aclIntArray *list = aclCreateIntArray(items, (uint64_t)count);
    device_check(list ? ACL_SUCCESS : ACL_ERROR_BAD_ALLOC, "aclCreateIntArray");
    device.lists[device.list_count++] = list;
    return list;
}

static void arrive(const struct output *output)
{
    if (output->is_raw) {
        const size_t bytes = (size_t)output->count * aclDataTypeSize(output->type);
        CHECK(aclrtMemcpy(output->to, bytes, output->from, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
        return;
    }
    real *to = output->to;
    const uint16_t *halves = output->from;
    const float *floats = output->from;
    for (int64_t i = 0; i < output->count; ++i) {
        const real value = output->type == ACL_BF16 ? from_bf16(halves[i]) : (real)floats[i];
        to[i] = output->arrival == ARRIVAL_ADD ? to[i] + value : value;
    }
}

static void release(void)
{
    for (int i = 0; i < device.tensor_count; ++i) {
        CHECK(aclDestroyTensor(device.tensors[i]));
    }
    for (int i = 0; i < device.list_count; ++i) {
        CHECK(aclDestroyIntArray(device.lists[i]));
    }
    device.tensor_count = device.list_count = device.output_count = 0;
    device.block = 0;
    device.filled = 0;
}

void device_run(enum operator_kind kind, phase2 *run, uint64_t bytes, aclOpExecutor *executor, double began)
{
    void *workspace = bytes > 0 ? take((size_t)bytes) : NULL;
    device_check(run(workspace, bytes, executor, device.stream), operator_times[kind].entry);
    CHECK(aclrtSynchronizeStream(device.stream));
    operator_times[kind].seconds += device_clock() - began;
    ++operator_times[kind].calls;
    for (int i = 0; i < device.output_count; ++i) {
        arrive(&device.outputs[i]);
    }
    release();
}
