/* labels: smoke ci */
/* aclnnLightningIndexerGrad: the size of the workspace, and what the verbose and the checked mode tell. */
#define _DEFAULT_SOURCE /* setenv, fileno, dup */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "support/indexer_problem.h"

/* --- workspace: phase 1 needs shapes only ----------------------------------------------------------------------- */

static aclTensor *shape(int dtype, int rank, const int64_t *dims)
{
    aclTensor *made =
        aclCreateTensor(dims, (uint64_t)rank, (aclDataType)dtype, NULL, 0, ACL_FORMAT_ND, dims, (uint64_t)rank, NULL);
    assert_non_null(made);
    return made;
}

static uint64_t workspace_of(int64_t rows, int64_t keys, int64_t heads, int64_t topk, int64_t sequences)
{
    aclTensor *const tensors[] = {
        shape(AG_BF16, 3, (const int64_t[]){rows, heads, 128}), shape(AG_BF16, 3, (const int64_t[]){keys, 1, 128}),
        shape(AG_BF16, 2, (const int64_t[]){rows, topk}),       shape(AG_INT32, 2, (const int64_t[]){rows, topk}),
        shape(AG_BF16, 2, (const int64_t[]){rows, heads}),      shape(AG_INT32, 1, (const int64_t[]){sequences}),
        shape(AG_BF16, 3, (const int64_t[]){rows, heads, 128}), shape(AG_BF16, 3, (const int64_t[]){keys, 1, 128}),
        shape(AG_BF16, 2, (const int64_t[]){rows, heads})};
    aclOpExecutor *executor = NULL;
    uint64_t bytes = 0;
    assert_int_equal(aclnnLightningIndexerGradGetWorkspaceSize(
                         tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], tensors[5], tensors[5], heads,
                         (char[]){"TND"}, 3, 0, 0, false, tensors[6], tensors[7], tensors[8], &bytes, &executor),
                     0);
    assert_int_equal(aclDestroyAclOpExecutor(executor), 0);
    for (int i = 0; i < 9; ++i) {
        aclDestroyTensor(tensors[i]);
    }
    return bytes;
}

/* 1 KiB per key (float panels), a batch, and scratch per thread: nothing grows with rows x keys or rows x slots. */
static void test_workspace(void **state)
{
    const uint64_t mib = 1 << 20, keys = 1 << 20;
    (void)state;
    test_configure(1, AG_ISA_SCALAR, AG_LIMITS_DOCUMENTED);
    const uint64_t small = workspace_of(4096, 4096, 64, 2048, 1);
    assert_true(small <= 4 * mib + 18 * mib + mib);
    assert_int_equal(workspace_of(4096, keys, 64, 2048, 1) - small, (keys - 4096) * 1024);
    assert_int_equal(workspace_of(1 << 20, 4096, 64, 2048, 1), small);
    assert_int_equal(workspace_of(4096, 4096, 64, 2048, 4000), small);
    assert_true(workspace_of(1, 1, 1, 1, 1) < mib);
    test_configure(64, AG_ISA_SCALAR, AG_LIMITS_DOCUMENTED);
    assert_true(workspace_of(4096, 4096, 64, 2048, 1) <= small + 63 * 3 * mib);
    TEST_EACH_ISA (isa) {
        test_configure(2, isa, AG_LIMITS_DOCUMENTED);
        assert_true(workspace_of(4096, keys, 64, 2048, 1) <= keys * 1024 + 21 * mib);
    }
}

/* --- what is told ----------------------------------------------------------------------------------------------- */

static char told[4096];

/* Runs the call with a variable of the environment set, and keeps what it writes to stderr. */
static void run_telling(struct indexer_call *call, const char *variable, const char *value)
{
    setenv(variable, value, 1);
    ag_config_reload();
    const struct test_stderr kept = test_stderr_begin();
    indexer_call_run(call);
    test_stderr_end(kept, told, sizeof told);
    unsetenv(variable);
    ag_config_reload();
}

static void expect_told(const char *text)
{
    if (!strstr(told, text)) {
        fail_msg("stderr \"%s\" lacks \"%s\"", told, text);
    }
}

static void test_plan_line(void **state)
{
    struct indexer_call call;
    (void)state;
    indexer_call_create(
        &call,
        &(struct indexer_case){.dtype = AG_BF16, .is_packed = true, .q_len = {3, 2}, .kv_len = {5, 9}, .mode = 3});
    run_telling(&call, "ACLGRAD_VERBOSE", "plan");
    expect_told("aclgrad,plan,aclnnLightningIndexerGrad,layout=TND elem=BF16 sequences=2 rows=5 keys=14 heads=1 "
                "dim=128 topk=16 mode=3 isa=");
    expect_told(" workspace_bytes=");
    indexer_call_destroy(&call);
}

/* Indices that point nowhere are skipped in silence, unless checked mode is on: then the first one is named. */
static void test_checked_indices(void **state)
{
    struct indexer_call call;
    const int32_t beyond = 9, empty = -1;
    (void)state;
    assert_int_equal(aclrtSetDevice(0), 0); /* checked mode wants a context */
    indexer_call_create(
        &call,
        &(struct indexer_case){.dtype = AG_BF16, .is_packed = true, .q_len = {3, 2}, .kv_len = {5, 9}, .topk = 4});
    memcpy(test_tensor_at(&call.indices, 2), &empty, sizeof empty);
    run_telling(&call, "ACLGRAD_DEBUG", "1");
    assert_null(strstr(told, "sparseIndices"));
    memcpy(test_tensor_at(&call.indices, 4 * 4 + 1), &beyond, sizeof beyond);
    run_telling(&call, "ACLGRAD_DEBUG", "1");
    expect_told("sparseIndices: first bad index is 9 at row 1 slot 1 of sequence 1, want -1 to 8; skipped");
    indexer_call_compare(&call);
    run_telling(&call, "ACLGRAD_DEBUG", "0");
    assert_null(strstr(told, "sparseIndices"));
    indexer_call_destroy(&call);
    assert_int_equal(aclrtResetDevice(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_plan_line),
        cmocka_unit_test(test_checked_indices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
