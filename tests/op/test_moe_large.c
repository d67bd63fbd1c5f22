/* labels: ci slow */
/* aclnnMoeTokenUnpermuteWithEpGrad on large tensors: outputs that are streamed past the caches, sizes beyond 32 bits. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "support/moe_problem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "base/half.h"

/* --- plain memory: no guard pages, no per-element fill ------------------------------------------------------------ */

static void *map_zeros(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(block != MAP_FAILED);
    return block;
}

static aclTensor *describe(int dtype, int rank, const int64_t *dims, void *data)
{
    aclTensor *tensor =
        aclCreateTensor(dims, (uint64_t)rank, (aclDataType)dtype, NULL, 0, ACL_FORMAT_ND, dims, (uint64_t)rank, data);
    assert_non_null(tensor);
    return tensor;
}

/* bf16 tensors; permuted and probs may be NULL. */
struct large {
    int64_t tokens, topk, hidden, rows;
    void *grad, *permuted, *probs, *permuted_grad, *probs_grad;
    int32_t *indices;
    const int64_t *range;
};

static void run_large(const struct large *p)
{
    const int64_t slots = p->tokens * p->topk;
    aclTensor *grad = describe(AG_BF16, 2, (int64_t[]){p->tokens, p->hidden}, p->grad);
    aclTensor *indices = describe(AG_INT32, 1, &slots, p->indices);
    aclTensor *permuted = p->permuted ? describe(AG_BF16, 2, (int64_t[]){p->rows, p->hidden}, p->permuted) : NULL;
    aclTensor *probs = p->probs ? describe(AG_BF16, 2, (int64_t[]){p->tokens, p->topk}, p->probs) : NULL;
    aclTensor *permuted_grad = describe(AG_BF16, 2, (int64_t[]){p->rows, p->hidden}, p->permuted_grad);
    aclTensor *probs_grad = describe(AG_BF16, 2, (int64_t[]){p->tokens, p->topk}, p->probs_grad);
    aclIntArray *range = p->range ? aclCreateIntArray(p->range, 2) : NULL;
    uint64_t size;
    aclOpExecutor *executor;
    const aclnnStatus status = aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
        grad, indices, permuted, probs, false, NULL, range, p->topk, permuted_grad, probs_grad, &size, &executor);
    assert_int_equal(status, 0);
    void *workspace = malloc(size);
    assert_non_null(workspace);
    assert_int_equal(aclnnMoeTokenUnpermuteWithEpGrad(workspace, size, executor, NULL), 0);
    free(workspace);
    aclDestroyTensor(grad);
    aclDestroyTensor(indices);
    aclDestroyTensor(permuted);
    aclDestroyTensor(probs);
    aclDestroyTensor(permuted_grad);
    aclDestroyTensor(probs_grad);
    aclDestroyIntArray(range);
}

/* Numbers in [1, 2) and their negatives. */
static void fill(uint16_t *values, size_t count, struct test_random *random)
{
    for (size_t i = 0; i < count; i += 4) {
        const uint64_t bits = test_random_bits(random);
        for (size_t j = 0; j < 4 && i + j < count; ++j) {
            values[i + j] = (uint16_t)(0x3f80u | (bits >> 16 * j & 0x807fu));
        }
    }
}

/* --- cases --------------------------------------------------------------------------------------------------------- */

/* Case 70: the last rows of a gradient of 4.3 GB, of which two are touched. */
static void case_70_offsets_are_64_bit(void **state)
{
    enum { TOKENS = 2050, HIDDEN = 1 << 20, FIRST = 2048 };
    static int32_t indices[TOKENS];
    static const int64_t range[] = {FIRST, TOKENS};
    static uint16_t probs[TOKENS], probs_grad[TOKENS];
    const size_t grad_bytes = (size_t)TOKENS * HIDDEN * 2, row_bytes = (size_t)HIDDEN * 2;
    struct test_random random = test_random_seed(70);
    (void)state;
    struct large p = {.tokens = TOKENS,
                      .topk = 1,
                      .hidden = HIDDEN,
                      .rows = 2,
                      .indices = indices,
                      .range = range,
                      .grad = map_zeros(grad_bytes),
                      .permuted = map_zeros(2 * row_bytes),
                      .probs = probs,
                      .permuted_grad = map_zeros(2 * row_bytes),
                      .probs_grad = probs_grad};
    uint16_t *rows = (uint16_t *)p.grad + (size_t)FIRST * HIDDEN;
    fill(rows, 2 * (size_t)HIDDEN, &random);
    for (int i = 0; i < TOKENS; ++i) {
        indices[i] = i;
        probs[i] = ag_f32_to_bf16(1);
        probs_grad[i] = 0xffff;
    }
    probs[TOKENS - 1] = ag_f32_to_bf16(-1);
    for (size_t h = 0; h < HIDDEN; ++h) { /* the first row picks one element, the second adds up its own signs */
        ((uint16_t *)p.permuted)[h] = ag_f32_to_bf16(h == HIDDEN - 1 ? 2 : 0);
        ((uint16_t *)p.permuted)[HIDDEN + h] = (uint16_t)(rows[HIDDEN + h] & 0x8000u) | 0x3f80u;
        rows[HIDDEN + h] = (uint16_t)((rows[HIDDEN + h] & 0x8000u) | 0x3f80u);
    }
    run_large(&p);
    for (size_t h = 0; h < HIDDEN; ++h) {
        assert_int_equal(((uint16_t *)p.permuted_grad)[h], rows[h]);
        assert_int_equal(((uint16_t *)p.permuted_grad)[HIDDEN + h], rows[HIDDEN + h] ^ 0x8000u);
    }
    assert_true(ag_bf16_to_f32(probs_grad[FIRST]) == 2 * ag_bf16_to_f32(rows[HIDDEN - 1]));
    assert_true(ag_bf16_to_f32(probs_grad[FIRST + 1]) == HIDDEN);
    for (int i = 0; i < FIRST; ++i) {
        assert_int_equal(probs_grad[i], 0);
    }
    munmap(p.grad, grad_bytes);
    munmap(p.permuted, 2 * row_bytes);
    munmap(p.permuted_grad, 2 * row_bytes);
}

/* Case 88: 104 MB moved, byte for byte. */
static void case_88_rows_are_moved(void **state)
{
    enum { TOKENS = 9638, HIDDEN = 5376 };
    const size_t bytes = (size_t)TOKENS * HIDDEN * 2;
    static int32_t indices[TOKENS];
    static uint16_t probs_grad[TOKENS];
    struct test_random random = test_random_seed(88);
    (void)state;
    struct large p = {.tokens = TOKENS,
                      .topk = 1,
                      .hidden = HIDDEN,
                      .rows = TOKENS,
                      .indices = indices,
                      .grad = map_zeros(bytes),
                      .permuted_grad = map_zeros(bytes),
                      .probs_grad = probs_grad};
    test_random_permutation(&random, TOKENS, indices);
    for (size_t i = 0; i < bytes / 8; ++i) { /* any bits: NaNs stay as they are */
        ((uint64_t *)p.grad)[i] = test_random_bits(&random);
    }
    run_large(&p);
    for (int i = 0; i < TOKENS; ++i) {
        const size_t row = (size_t)HIDDEN * 2;
        assert_memory_equal((char *)p.permuted_grad + (size_t)indices[i] * row, (char *)p.grad + (size_t)i * row,
                            row);
    }
    munmap(p.grad, bytes);
    munmap(p.permuted_grad, bytes);
}

enum { TOPK = 4, DROPPED_SLOT = 7, SPARE_ROWS = 9 };

/* Outputs of 40 MB, four rows per token, one slot that is not here, some rows more than slots. */
static struct large make_streamed(int64_t hidden, size_t lead_bytes, struct test_random *random)
{
    const int64_t tokens = (40 << 20) / (hidden * 2 * TOPK), slots = tokens * TOPK, rows = slots + SPARE_ROWS;
    const size_t bytes = (size_t)(rows * hidden) * 2;
    const struct large p = {.tokens = tokens,
                            .topk = TOPK,
                            .hidden = hidden,
                            .rows = rows,
                            .grad = map_zeros((size_t)(tokens * hidden) * 2),
                            .permuted = map_zeros(bytes),
                            .permuted_grad = (char *)map_zeros(bytes + lead_bytes) + lead_bytes,
                            .probs = map_zeros((size_t)slots * 2),
                            .probs_grad = map_zeros((size_t)slots * 2),
                            .indices = map_zeros((size_t)slots * 4)};
    fill(p.grad, (size_t)(tokens * hidden), random);
    fill(p.permuted, (size_t)(rows * hidden), random);
    fill(p.probs, (size_t)slots, random);
    test_random_permutation(random, slots, p.indices);
    p.indices[DROPPED_SLOT] = -1;
    return p;
}

static void destroy_streamed(struct large *p, size_t lead_bytes)
{
    const int64_t slots = p->tokens * TOPK;
    munmap(p->grad, (size_t)(p->tokens * p->hidden) * 2);
    munmap(p->permuted, (size_t)(p->rows * p->hidden) * 2);
    munmap((char *)p->permuted_grad - lead_bytes, (size_t)(p->rows * p->hidden) * 2 + lead_bytes);
    munmap(p->probs, (size_t)slots * 2);
    munmap(p->probs_grad, (size_t)slots * 2);
    munmap(p->indices, (size_t)slots * 4);
}

/* The slot as a problem of its own, too small to be streamed, gives the same bits. */
static void check_slot_alone(const struct large *p, int64_t slot)
{
    int32_t position = 0;
    uint16_t probs_grad = 0xffff;
    const int64_t row = p->indices[slot];
    const size_t row_bytes = (size_t)p->hidden * 2;
    struct large alone = {.tokens = 1,
                          .topk = 1,
                          .hidden = p->hidden,
                          .rows = 1,
                          .indices = &position,
                          .grad = (char *)p->grad + slot / TOPK * p->hidden * 2,
                          .permuted = (char *)p->permuted + row * p->hidden * 2,
                          .probs = (char *)p->probs + slot * 2,
                          .permuted_grad = malloc(row_bytes),
                          .probs_grad = &probs_grad};
    assert_non_null(alone.permuted_grad);
    run_large(&alone);
    assert_memory_equal(alone.permuted_grad, (char *)p->permuted_grad + row * p->hidden * 2, row_bytes);
    assert_int_equal(probs_grad, ((uint16_t *)p->probs_grad)[slot]);
    free(alone.permuted_grad);
}

/* Every table, with the output moved by lead_bytes from the start of a cache line. */
static void check_streamed(int64_t hidden, size_t lead_bytes)
{
    struct test_random random = test_random_seed((uint64_t)hidden);
    struct large p = make_streamed(hidden, lead_bytes, &random);
    const int64_t slots = p.tokens * TOPK;
    TEST_EACH_ISA (isa) {
        test_configure(2, isa, AG_LIMITS_DOCUMENTED);
        memset(p.permuted_grad, 0xff, (size_t)(p.rows * hidden) * 2);
        run_large(&p);
        for (int i = 0; i < 100; ++i) {
            const int64_t slot = test_random_below(&random, slots);
            if (slot != DROPPED_SLOT) {
                check_slot_alone(&p, slot);
            }
        }
        for (int64_t e = slots * hidden; e < p.rows * hidden; ++e) {
            assert_int_equal(((uint16_t *)p.permuted_grad)[e], 0);
        }
        assert_int_equal(((uint16_t *)p.probs_grad)[DROPPED_SLOT], 0);
    }
    destroy_streamed(&p, lead_bytes);
}

static void streamed_outputs_have_the_same_bits(void **state)
{
    (void)state;
    check_streamed(2048, 0);
    check_streamed(2048, 16); /* where malloc puts large blocks */
    check_streamed(1001, 2);
}

/* The plan streams outputs above 32 MiB and no others. */
static void only_large_outputs_are_streamed(void **state)
{
    struct moe_problem problem = {.tokens = 1, .topk = 1, .hidden = 1 << 20, .slots = 1, .token_elem = AG_ELEM_F16};
    struct moe_plan plan;
    (void)state;
    problem.out_rows = 16;
    assert_int_equal(moe_make_plan(&problem, &plan), 0);
    assert_false(plan.streams);
    problem.out_rows = 17;
    assert_int_equal(moe_make_plan(&problem, &plan), 0);
    assert_true(plan.streams);
    assert_int_equal(plan.streams_products, plan.kernels->streams_products);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_70_offsets_are_64_bit),
        cmocka_unit_test(case_88_rows_are_moved),
        cmocka_unit_test(streamed_outputs_have_the_same_bits),
        cmocka_unit_test(only_large_outputs_are_streamed),
    };
    return cmocka_run_group_tests_name("moe large", tests, NULL, NULL);
}
