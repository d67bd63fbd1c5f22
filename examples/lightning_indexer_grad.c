/* aclnnLightningIndexerGrad from aclInit to aclFinalize, in the shape of the operator's documented example: fp16, BSND,
 * all ones, every slot selects key 1. So every score is 128 and
 *     dq = sum over 128 slots of w dy k = 128,  dw = 128 slots * 128 = 16384,  dk[1] = 3 rows * 128 slots * 64 heads. */
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "example.h"

enum { BATCH = 2, QUERIES = 3, KEYS = 2048, HEADS = 64, DIM = 128, TOPK = 128 };

/* `count` times the half 1.0, on the device. */
static struct tensor ones(int rank, const int64_t *dims, size_t count)
{
    aclFloat16 *values = malloc(count * sizeof *values);
    if (!values) {
        exit(1);
    }
    for (size_t i = 0; i < count; ++i) {
        values[i] = aclFloatToFloat16(1.0f);
    }
    struct tensor tensor = tensor_create(ACL_FLOAT16, rank, dims, values);
    free(values);
    return tensor;
}

/* The first element of each of the first `rows` rows of an fp16 tensor. */
static void print_rows(const char *name, const struct tensor *tensor, size_t row_elems, size_t rows)
{
    aclFloat16 *values = malloc(tensor->bytes);
    if (!values) {
        exit(1);
    }
    tensor_read(tensor, values);
    printf("%s:", name);
    for (size_t row = 0; row < rows; ++row) {
        printf(" %g", (double)aclFloat16ToFloat(values[row * row_elems]));
    }
    printf("\n");
    free(values);
}

int main(void)
{
    static int32_t selected[BATCH * QUERIES * TOPK];
    for (size_t i = 0; i < sizeof selected / sizeof *selected; ++i) {
        selected[i] = 1;
    }

    aclrtStream stream = NULL;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));

    const int64_t query_dims[4] = {BATCH, QUERIES, HEADS, DIM}, key_dims[4] = {BATCH, KEYS, 1, DIM};
    const int64_t weight_dims[3] = {BATCH, QUERIES, HEADS}, slot_dims[3] = {BATCH, QUERIES, TOPK};
    struct tensor query = ones(4, query_dims, BATCH * QUERIES * HEADS * DIM);
    struct tensor key = ones(4, key_dims, BATCH * KEYS * DIM);
    struct tensor dy = ones(3, slot_dims, BATCH * QUERIES * TOPK);
    struct tensor weights = ones(3, weight_dims, BATCH * QUERIES * HEADS);
    struct tensor indices = tensor_create(ACL_INT32, 3, slot_dims, selected);
    struct tensor dq = tensor_create(ACL_FLOAT16, 4, query_dims, NULL);
    struct tensor dk = tensor_create(ACL_FLOAT16, 4, key_dims, NULL);
    struct tensor dw = tensor_create(ACL_FLOAT16, 3, weight_dims, NULL);

    char layout[] = "BSND";
    uint64_t workspace_bytes = 0;
    aclOpExecutor *executor = NULL;
    CHECK(aclnnLightningIndexerGradGetWorkspaceSize(query.handle, key.handle, dy.handle, indices.handle,
                                                    weights.handle, NULL, NULL, HEADS, layout, 3, 65536, 65536, true,
                                                    dq.handle, dk.handle, dw.handle, &workspace_bytes, &executor));
    void *workspace = workspace_create(workspace_bytes);
    CHECK(aclnnLightningIndexerGrad(workspace, workspace_bytes, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));

    print_rows("dq, first heads", &dq, DIM, 4);
    print_rows("dk, first keys", &dk, DIM, 4);
    print_rows("dw, first heads", &dw, 1, 4);

    struct tensor *const all[] = {&query, &key, &dy, &weights, &indices, &dq, &dk, &dw};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        tensor_destroy(all[i]);
    }
    workspace_destroy(workspace);
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
