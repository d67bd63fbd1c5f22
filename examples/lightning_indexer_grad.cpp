// The C++11 form of the C example of this name: fp16, BSND, all ones, every slot selects key 1.
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "example.hpp"

using Half = example::Tensor<aclFloat16>;

static std::vector<aclFloat16> ones(int64_t elems)
{
    return std::vector<aclFloat16>(static_cast<size_t>(elems), aclFloatToFloat16(1.0f));
}

// The first element of each of the first `rows` rows.
static void print_rows(const char *name, const Half &tensor, size_t row_elems, size_t rows)
{
    const std::vector<aclFloat16> values = tensor.read();
    std::vector<float> firsts;
    for (size_t row = 0; row < rows; ++row) {
        firsts.push_back(aclFloat16ToFloat(values[row * row_elems]));
    }
    example::print(name, firsts);
}

static void indexer_grad()
{
    const int64_t batch = 2, queries = 3, keys = 2048, heads = 64, dim = 128, topk = 128;
    const int64_t rows = batch * queries;
    const example::Session session;

    const Half query(ACL_FLOAT16, {batch, queries, heads, dim}, ones(rows * heads * dim));
    const Half key(ACL_FLOAT16, {batch, keys, 1, dim}, ones(batch * keys * dim));
    const Half dy(ACL_FLOAT16, {batch, queries, topk}, ones(rows * topk));
    const Half weights(ACL_FLOAT16, {batch, queries, heads}, ones(rows * heads));
    const example::Tensor<int32_t> indices(ACL_INT32, {batch, queries, topk},
                                           std::vector<int32_t>(static_cast<size_t>(rows * topk), 1));
    const Half dq(ACL_FLOAT16, {batch, queries, heads, dim});
    const Half dk(ACL_FLOAT16, {batch, keys, 1, dim});
    const Half dw(ACL_FLOAT16, {batch, queries, heads});

    char layout[] = "BSND";
    uint64_t workspace_bytes = 0;
    aclOpExecutor *executor = nullptr;
    CHECK(aclnnLightningIndexerGradGetWorkspaceSize(query.get(), key.get(), dy.get(), indices.get(), weights.get(),
                                                    nullptr, nullptr, heads, layout, 3, 65536, 65536, true, dq.get(),
                                                    dk.get(), dw.get(), &workspace_bytes, &executor));
    const example::Memory workspace(workspace_bytes);
    CHECK(aclnnLightningIndexerGrad(workspace.address(), workspace.bytes(), executor, session.stream()));
    CHECK(aclrtSynchronizeStream(session.stream()));

    print_rows("dq, first heads", dq, static_cast<size_t>(dim), 4);
    print_rows("dk, first keys", dk, static_cast<size_t>(dim), 4);
    print_rows("dw, first heads", dw, 1, 4);
}

int main()
{
    return example::run(indexer_grad);
}
