/* aclnnFlashAttentionUnpaddingScoreGradV3 from aclInit to aclFinalize: bf16, head dim 128 and rope 64, two sequences of 128
 * tokens in one pack, nothing masked. With e0, e1 the first unit vectors and sign(j) = + for even keys, - for odd ones:
 *     q = e1, k[j] = sign(j) e0, v[j] = e0 for even j, else 0, dy = e0
 * every score is 0, so P = 1/128, attention = e0/2, dS = sign(j)/256, and the result is short:
 *     dq = scale * 128/256 e0, dk[j] = sign(j) scale * 128/256 e1, dv = e0; the rope parts alike. */
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "example.h"

enum { SEQUENCES = 2, LENGTH = 128, TOKENS = SEQUENCES * LENGTH, DIM = 128, ROPE = 64, STATISTICS = 8 };

static const float scale = 0.0625f;

/* A float whose lower half is 0 (all values here) is a bf16 followed by zeros. */
static uint16_t bf16_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float float_of_bf16(uint16_t value)
{
    const uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* [TOKENS, 1, dim]: row t holds even or odd (by t) in one column and 0 elsewhere. */
static struct tensor rows_create(int64_t dim, int64_t column, float even, float odd)
{
    static uint16_t values[TOKENS * DIM];
    const int64_t dims[3] = {TOKENS, 1, dim};
    memset(values, 0, sizeof values);
    for (int64_t t = 0; t < TOKENS; ++t) {
        values[t * dim + column] = bf16_of_float(t % 2 == 0 ? even : odd);
    }
    return tensor_create(ACL_BF16, 3, dims, values);
}

static struct tensor output_create(int64_t dim)
{
    const int64_t dims[3] = {TOKENS, 1, dim};
    return tensor_create(ACL_BF16, 3, dims, NULL);
}

/* One statistic: float [TOKENS, 1, 8], all equal. */
static struct tensor statistic_create(float value)
{
    static float values[TOKENS * STATISTICS];
    const int64_t dims[3] = {TOKENS, 1, STATISTICS};
    for (size_t i = 0; i < TOKENS * STATISTICS; ++i) {
        values[i] = value;
    }
    return tensor_create(ACL_FLOAT, 3, dims, values);
}

/* Columns 0 and 1 of the first two tokens. */
static void print_corner(const char *name, const struct tensor *tensor, size_t dim)
{
    static uint16_t values[TOKENS * DIM];
    tensor_read(tensor, values);
    const float corner[4] = {float_of_bf16(values[0]), float_of_bf16(values[1]), float_of_bf16(values[dim]),
                             float_of_bf16(values[dim + 1])};
    print_floats(name, corner, 4);
}

int main(void)
{
    static const uint8_t nothing_masked[LENGTH * LENGTH];
    const int64_t mask_dims[2] = {LENGTH, LENGTH}, ends[SEQUENCES] = {LENGTH, 2 * LENGTH};

    aclrtStream stream = NULL;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));

    struct tensor query = rows_create(DIM, 1, 1, 1), query_rope = rows_create(ROPE, 1, 1, 1);
    struct tensor key = rows_create(DIM, 0, 1, -1), key_rope = rows_create(ROPE, 0, 1, -1);
    struct tensor value = rows_create(DIM, 0, 1, 0), dy = rows_create(DIM, 0, 1, 1);
    struct tensor attention = rows_create(DIM, 0, 0.5f, 0.5f);
    struct tensor softmax_max = statistic_create(0), softmax_sum = statistic_create(LENGTH);
    struct tensor mask = tensor_create(ACL_UINT8, 2, mask_dims, nothing_masked);
    struct tensor dq = output_create(DIM), dq_rope = output_create(ROPE), dk = output_create(DIM);
    struct tensor dk_rope = output_create(ROPE), dv = output_create(DIM);
    aclIntArray *query_ends = aclCreateIntArray(ends, SEQUENCES), *key_ends = aclCreateIntArray(ends, SEQUENCES);

    char layout[] = "TND";
    uint64_t workspace_bytes = 0;
    aclOpExecutor *executor = NULL;
    CHECK(aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
        query.handle, query_rope.handle, key.handle, key_rope.handle, value.handle, dy.handle, NULL, NULL, NULL,
        mask.handle, softmax_max.handle, softmax_sum.handle, NULL, attention.handle, NULL, query_ends, key_ends, NULL,
        NULL, scale, 1.0, 65536, 65536, 1, layout, 0, 0, 1, dq.handle, dq_rope.handle, dk.handle, dk_rope.handle,
        dv.handle, NULL, &workspace_bytes, &executor));
    void *workspace = workspace_create(workspace_bytes);
    CHECK(aclnnFlashAttentionUnpaddingScoreGradV3(workspace, workspace_bytes, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));

    print_corner("dq", &dq, DIM);
    print_corner("dqRope", &dq_rope, ROPE);
    print_corner("dk", &dk, DIM);
    print_corner("dkRope", &dk_rope, ROPE);
    print_corner("dv", &dv, DIM);

    CHECK(aclDestroyIntArray(query_ends));
    CHECK(aclDestroyIntArray(key_ends));
    struct tensor *const all[] = {&query, &query_rope, &key,         &key_rope,    &value,
                                  &dy,    &attention,  &softmax_max, &softmax_sum, &mask,
                                  &dq,    &dq_rope,    &dk,          &dk_rope,     &dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        tensor_destroy(all[i]);
    }
    workspace_destroy(workspace);
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
