// The C++11 form of the C example of this name: bf16, head dim 128 and rope 64, two sequences in one pack.
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "example.hpp"

#include <cstring>

using Bf16 = example::Tensor<uint16_t>;

static const int64_t length = 128, tokens = 2 * length, dim = 128, rope = 64;

// A float whose lower half is 0 (all values here) is a bf16 followed by zeros.
static uint16_t bf16_of_float(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<uint16_t>(bits >> 16);
}

static float float_of_bf16(uint16_t value)
{
    const uint32_t bits = static_cast<uint32_t>(value) << 16;
    float result;
    std::memcpy(&result, &bits, sizeof result);
    return result;
}

// [tokens, 1, columns]: row t holds even or odd (by t) in one column and 0 elsewhere.
static std::vector<uint16_t> rows(int64_t columns, int64_t column, float even, float odd)
{
    std::vector<uint16_t> values(static_cast<size_t>(tokens * columns));
    for (int64_t t = 0; t < tokens; ++t) {
        values[static_cast<size_t>(t * columns + column)] = bf16_of_float(t % 2 == 0 ? even : odd);
    }
    return values;
}

// Columns 0 and 1 of the first two tokens.
static void print_corner(const char *name, const Bf16 &tensor, size_t columns)
{
    const std::vector<uint16_t> values = tensor.read();
    example::print(name, {float_of_bf16(values[0]), float_of_bf16(values[1]), float_of_bf16(values[columns]),
                          float_of_bf16(values[columns + 1])});
}

static void attention_grad()
{
    const example::Session session;
    const std::vector<int64_t> wide = {tokens, 1, dim}, narrow = {tokens, 1, rope}, statistics = {tokens, 1, 8};

    const Bf16 query(ACL_BF16, wide, rows(dim, 1, 1, 1)), query_rope(ACL_BF16, narrow, rows(rope, 1, 1, 1));
    const Bf16 key(ACL_BF16, wide, rows(dim, 0, 1, -1)), key_rope(ACL_BF16, narrow, rows(rope, 0, 1, -1));
    const Bf16 value(ACL_BF16, wide, rows(dim, 0, 1, 0)), dy(ACL_BF16, wide, rows(dim, 0, 1, 1));
    const Bf16 attention(ACL_BF16, wide, rows(dim, 0, 0.5f, 0.5f));
    const example::Tensor<float> softmax_max(ACL_FLOAT, statistics, std::vector<float>(tokens * 8, 0.0f));
    const example::Tensor<float> softmax_sum(ACL_FLOAT, statistics, std::vector<float>(tokens * 8, float(length)));
    const example::Tensor<uint8_t> mask(ACL_UINT8, {length, length}, std::vector<uint8_t>(length * length, 0));
    const Bf16 dq(ACL_BF16, wide), dq_rope(ACL_BF16, narrow), dk(ACL_BF16, wide), dk_rope(ACL_BF16, narrow);
    const Bf16 dv(ACL_BF16, wide);
    const example::IntArray query_ends({length, 2 * length}), key_ends({length, 2 * length});

    char layout[] = "TND";
    uint64_t workspace_bytes = 0;
    aclOpExecutor *executor = nullptr;
    CHECK(aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
        query.get(), query_rope.get(), key.get(), key_rope.get(), value.get(), dy.get(), nullptr, nullptr, nullptr,
        mask.get(), softmax_max.get(), softmax_sum.get(), nullptr, attention.get(), nullptr, query_ends.get(),
        key_ends.get(), nullptr, nullptr, 0.0625, 1.0, 65536, 65536, 1, layout, 0, 0, 1, dq.get(), dq_rope.get(),
        dk.get(), dk_rope.get(), dv.get(), nullptr, &workspace_bytes, &executor));
    const example::Memory workspace(workspace_bytes);
    CHECK(
        aclnnFlashAttentionUnpaddingScoreGradV3(workspace.address(), workspace.bytes(), executor, session.stream()));
    CHECK(aclrtSynchronizeStream(session.stream()));

    print_corner("dq", dq, static_cast<size_t>(dim));
    print_corner("dqRope", dq_rope, static_cast<size_t>(rope));
    print_corner("dk", dk, static_cast<size_t>(dim));
    print_corner("dkRope", dk_rope, static_cast<size_t>(rope));
    print_corner("dv", dv, static_cast<size_t>(dim));
}

int main()
{
    return example::run(attention_grad);
}
