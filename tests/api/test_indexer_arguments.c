/* labels: smoke ci */
/* One row per broken rule of aclnnLightningIndexerGrad: status, and a message that names the function, the argument,
 * what it got and what it wanted; nothing written, nothing left behind. The rows stand in the order of the checks,
 * and of two faults the earlier is told. */
#include <stdio.h>
#include <string.h>

#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "base/half.h"
#include "base/memory.h"
#include "support/indexer_problem.h"

enum { B = 2, S1 = 3, S2 = 5, N = 4, D = 128, K = 7, MOST_EXTRAS = 8 };

/* A valid call, and the tensors that a row replaces parts of it by. */
struct fixture {
    struct indexer_call call;
    struct indexer_args *a;
    const aclTensor *tensors[MOST_EXTRAS];
    int tensor_count;
    char data[1 << 17];
};

static const aclTensor *tensor(struct fixture *f, int dtype, int rank, const int64_t *dims)
{
    const aclTensor *made = aclCreateTensor(dims, (uint64_t)rank, (aclDataType)dtype, NULL, 0, ACL_FORMAT_ND, dims,
                                            (uint64_t)rank, f->data);
    assert_non_null(made);
    f->tensors[f->tensor_count++] = made;
    return made;
}

#define TENSOR(dtype, rank, ...) tensor(f, dtype, rank, (const int64_t[]){__VA_ARGS__})

/* [B, S1, N] with strides, over a storage of so many elements. */
static const aclTensor *strided(struct fixture *f, const int64_t *strides, int64_t storage)
{
    const int64_t dims[3] = {B, S1, N};
    const aclTensor *made = aclCreateTensor(dims, 3, ACL_BF16, strides, 1, ACL_FORMAT_ND, &storage, 1, f->data);
    assert_non_null(made);
    f->tensors[f->tensor_count++] = made;
    return made;
}

/* [B, S1, N] whose elements lie in private blocks. */
static const aclTensor *blocked(struct fixture *f)
{
    const int64_t dims[3] = {B, S1, N};
    const aclTensor *made = aclCreateTensor(dims, 3, ACL_BF16, NULL, 0, ACL_FORMAT_FRACTAL_NZ, dims, 3, f->data);
    assert_non_null(made);
    return f->tensors[f->tensor_count++] = made;
}

#define STRIDED(storage, ...) strided(f, (const int64_t[]){__VA_ARGS__}, storage)

static void open_fixture(struct fixture *f, bool is_packed)
{
    const struct indexer_case valid = {.dtype = AG_BF16,
                                       .is_packed = is_packed,
                                       .q_len = {S1, S1},
                                       .kv_len = {S2, S2},
                                       .has_counts = true,
                                       .heads = N,
                                       .topk = K,
                                       .mode = 3};
    indexer_call_create(&f->call, &valid);
    f->a = &f->call.args;
    f->tensor_count = 0;
}

static void close_fixture(struct fixture *f)
{
    for (int i = 0; i < f->tensor_count; ++i) {
        aclDestroyTensor(f->tensors[i]);
    }
    indexer_call_destroy(&f->call);
}

/* --- the rows --------------------------------------------------------------------------------------------------- */

#define FAULT(name, statement)                                                                                       \
    static void name(struct fixture *f)                                                                              \
    {                                                                                                                \
        struct indexer_args *a = f->a;                                                                               \
        statement;                                                                                                   \
    }

static aclTensor *const no_handle = (aclTensor *)(uintptr_t)0x1234;

FAULT(no_query, a->query = NULL)
FAULT(bad_query, a->query = no_handle)
FAULT(no_key, a->key = NULL)
FAULT(no_dy, a->dy = NULL)
FAULT(no_indices, a->sparse_indices = NULL)
FAULT(no_weights, a->weights = NULL)
FAULT(float_query, a->query = TENSOR(AG_FLOAT, 4, B, S1, N, D))
FAULT(int_query, a->query = TENSOR(AG_INT32, 4, B, S1, N, D))
FAULT(half_key, a->key = TENSOR(AG_FLOAT16, 4, B, S2, 1, D))
FAULT(half_dy, a->dy = TENSOR(AG_FLOAT16, 3, B, S1, K))
FAULT(float_weights, a->weights = TENSOR(AG_FLOAT, 3, B, S1, N))
FAULT(no_executor, a->executor = NULL)
FAULT(no_size, a->workspace_size = NULL)
FAULT(no_layout, a->input_layout = NULL)
FAULT(no_dq, a->dq = NULL)
FAULT(no_dk, a->dk = NULL)
FAULT(no_dweights, a->dweights = NULL)
FAULT(empty_layout, a->input_layout = "")
FAULT(other_layout, a->input_layout = "BNSD")
FAULT(lower_layout, a->input_layout = "bsnd")
FAULT(query_rank, a->query = TENSOR(AG_BF16, 3, B *S1, N, D))
FAULT(key_rank, a->key = TENSOR(AG_BF16, 3, B *S2, 1, D))
FAULT(key_heads, a->key = TENSOR(AG_BF16, 4, B, S2, 2, D))
FAULT(query_dim, a->query = TENSOR(AG_BF16, 4, B, S1, N, 64))
FAULT(key_dim, a->key = TENSOR(AG_BF16, 4, B, S2, 1, 64))
FAULT(key_batch, a->key = TENSOR(AG_BF16, 4, B + 1, S2, 1, D))
FAULT(many_heads, a->query = TENSOR(AG_BF16, 4, B, S1, 65, D))
FAULT(no_heads, a->query = TENSOR(AG_BF16, 4, B, S1, 0, D))
FAULT(long_indices, a->sparse_indices = TENSOR(AG_INT64, 3, B, S1, K))
FAULT(long_q_lengths, a->actual_seq_q_len = TENSOR(AG_INT64, 1, B))
FAULT(long_kv_lengths, a->actual_seq_kv_len = TENSOR(AG_INT64, 1, B))
FAULT(bad_q_lengths, a->actual_seq_q_len = no_handle)
FAULT(no_keys, a->key = TENSOR(AG_BF16, 4, B, 0, 1, D))
FAULT(no_slots, a->dy = TENSOR(AG_BF16, 3, B, S1, 0))
FAULT(many_slots, a->dy = TENSOR(AG_BF16, 3, B, S1, 2049))
FAULT(scalar_dy, a->dy = TENSOR(AG_BF16, 0, 0))
FAULT(weights_shape, a->weights = TENSOR(AG_BF16, 3, B, S1, N + 1))
FAULT(short_dy, a->dy = TENSOR(AG_BF16, 3, B, S1 - 1, K))
FAULT(short_indices, a->sparse_indices = TENSOR(AG_INT32, 3, B, S1 - 1, K))
FAULT(few_counts, a->actual_seq_q_len = TENSOR(AG_INT32, 1, B - 1))
FAULT(many_counts, a->actual_seq_kv_len = TENSOR(AG_INT32, 1, B + 1))
FAULT(indices_shape, a->sparse_indices = TENSOR(AG_INT32, 3, B, K, S1))
FAULT(indices_rank, a->sparse_indices = TENSOR(AG_INT32, 2, B *S1, K))
FAULT(dy_shape, a->dy = TENSOR(AG_BF16, 4, B, S1, 2, K))
FAULT(more_indices, a->sparse_indices = TENSOR(AG_INT32, 3, B, S1, K + 1))
FAULT(mode_one, a->sparse_mode = 1)
FAULT(mode_minus, a->sparse_mode = -3)
FAULT(dq_dtype, a->dq = TENSOR(AG_FLOAT16, 4, B, S1, N, D))
FAULT(dq_shape, a->dq = TENSOR(AG_BF16, 4, B, S1, N, D - 1))
FAULT(dk_dtype, a->dk = TENSOR(AG_FLOAT, 4, B, S2, 1, D))
FAULT(dk_shape, a->dk = TENSOR(AG_BF16, 3, B *S2, 1, D))
FAULT(dweights_dtype, a->dweights = TENSOR(AG_FLOAT, 3, B, S1, N))
FAULT(dweights_shape, a->dweights = TENSOR(AG_BF16, 4, B, S1, 1, N))
FAULT(dweights_stride, a->dweights = STRIDED(100, N, 0, 1))
FAULT(weights_format, a->weights = blocked(f))
FAULT(weights_storage, a->weights = STRIDED(B * S1 * N, S1 *N, N, 1))
FAULT(dweights_storage, a->dweights = STRIDED(B * S1 * N, S1 *N, N, 1))
FAULT(dq_is_query, a->dq = a->query)
FAULT(dk_is_key, a->dk = a->key)
FAULT(dweights_is_weights, a->dweights = a->weights)

/* In TND: */
FAULT(packed_query_rank, a->query = TENSOR(AG_BF16, 4, B, S1, N, D))
FAULT(packed_key_rank, a->key = TENSOR(AG_BF16, 4, B, S2, 1, D))
FAULT(packed_no_keys, a->key = TENSOR(AG_BF16, 3, 0, 1, D))
FAULT(packed_no_sequence, a->actual_seq_q_len = TENSOR(AG_INT32, 1, 0))
FAULT(packed_no_q_lengths, a->actual_seq_q_len = NULL)
FAULT(packed_no_kv_lengths, a->actual_seq_kv_len = NULL)
FAULT(packed_sequences, a->actual_seq_kv_len = TENSOR(AG_INT32, 1, B + 1))
FAULT(packed_dy_shape, a->dy = TENSOR(AG_BF16, 3, B *S1, 2, K))

struct row {
    const char *name;
    void (*apply)(struct fixture *f);
    aclnnStatus status;
    const char *argument, *got, *want;
};

#define ROW(fault, status, argument, got, want)                                                                      \
    {                                                                                                                \
#        fault, fault, status, argument, got, want                                                                   \
    }

static const struct row batch_rows[] = {
    ROW(no_query, 161001, "query", "null", "a tensor"),
    ROW(bad_query, 161002, "query", "a pointer that is no handle", "tensor"),
    ROW(no_key, 161001, "key", "null", "a tensor"),
    ROW(no_dy, 161001, "dy", "null", "a tensor"),
    ROW(no_indices, 161001, "sparseIndices", "null", "a tensor"),
    ROW(no_weights, 161001, "weights", "null", "a tensor"),
    ROW(float_query, 161002, "query", "FLOAT,", "FLOAT16 or BF16"),
    ROW(int_query, 161002, "query", "INT32", "FLOAT16 or BF16"),
    ROW(half_key, 161002, "key", "FLOAT16", "BF16 (that of query)"),
    ROW(half_dy, 161002, "dy", "FLOAT16", "BF16 (that of query)"),
    ROW(float_weights, 161002, "weights", "FLOAT", "BF16 (that of query)"),
    ROW(no_executor, 161001, "executor", "null", "where to store"),
    ROW(no_size, 161001, "workspaceSize", "null", "where to store"),
    ROW(no_layout, 161001, "inputLayout", "null", "BSND"),
    ROW(no_dq, 161001, "dqOut", "null", "a tensor"),
    ROW(no_dk, 161001, "dkOut", "null", "a tensor"),
    ROW(no_dweights, 161001, "dweightsOut", "null", "a tensor"),
    ROW(empty_layout, 161002, "inputLayout", "is empty", "TND"),
    ROW(other_layout, 161002, "inputLayout", "BNSD", "TND"),
    ROW(lower_layout, 161002, "inputLayout", "bsnd", "BSND"),
    ROW(query_rank, 161002, "query", "[6, 4, 128]", "[B, S1, N, D]"),
    ROW(key_rank, 161002, "key", "[10, 1, 128]", "[B, S2, 1, D]"),
    ROW(key_heads, 161002, "key", "2 heads", "1"),
    ROW(query_dim, 161002, "query", "head dim 64", "128"),
    ROW(key_dim, 161002, "key", "head dim 64", "128"),
    ROW(key_batch, 161002, "key", "batch 3", "2 (that of query)"),
    ROW(many_heads, 161002, "query", "65 heads", "1 to 64"),
    ROW(no_heads, 161002, "query", "0 heads", "1 to 64"),
    ROW(long_indices, 161002, "sparseIndices", "INT64", "INT32"),
    ROW(bad_q_lengths, 161002, "actualSeqQLenOptional", "a pointer that is no handle", "tensor"),
    ROW(long_q_lengths, 161002, "actualSeqQLenOptional", "INT64", "INT32"),
    ROW(long_kv_lengths, 161002, "actualSeqKvLenOptional", "INT64", "INT32"),
    ROW(no_keys, 161002, "key", "[2, 0, 1, 128]", "at least 1 key"),
    ROW(no_slots, 161002, "dy", "[2, 3, 0]", "1 to 2048"),
    ROW(many_slots, 161002, "dy", "[2, 3, 2049]", "1 to 2048"),
    ROW(scalar_dy, 161002, "dy", "[]", "1 to 2048"),
    ROW(weights_shape, 161002, "weights", "[2, 3, 5]", "[2, 3, 4]"),
    ROW(short_dy, 161002, "dy", "[2, 2, 7]", "6 rows"),
    ROW(short_indices, 161002, "sparseIndices", "[2, 2, 7]", "6 rows of 7"),
    ROW(few_counts, 161002, "actualSeqQLenOptional", "1 counts", "2 (the batch)"),
    ROW(many_counts, 161002, "actualSeqKvLenOptional", "3 counts", "2 (the batch)"),
    ROW(indices_shape, 161002, "sparseIndices", "[2, 7, 3]", "[B, S1, K]"),
    ROW(indices_rank, 161002, "sparseIndices", "[6, 7]", "[B, S1, K]"),
    ROW(dy_shape, 161002, "dy", "[2, 3, 2, 7]", "[B, S1, 1, K]"),
    ROW(more_indices, 161002, "sparseIndices", "8 slots", "7 (those of dy)"),
    ROW(mode_one, 161002, "sparseMode", "1", "0 or 3"),
    ROW(mode_minus, 161002, "sparseMode", "-3", "0 or 3"),
    ROW(dq_dtype, 161002, "dqOut", "FLOAT16", "BF16"),
    ROW(dq_shape, 161002, "dqOut", "[2, 3, 4, 127]", "[2, 3, 4, 128]"),
    ROW(dk_dtype, 161002, "dkOut", "FLOAT", "BF16"),
    ROW(dk_shape, 161002, "dkOut", "[10, 1, 128]", "[2, 5, 1, 128]"),
    ROW(dweights_dtype, 161002, "dweightsOut", "FLOAT", "BF16"),
    ROW(dweights_shape, 161002, "dweightsOut", "[2, 3, 1, 4]", "[2, 3, 4]"),
    ROW(dweights_stride, 161002, "dweightsOut", "stride 0 over dim 1", "an element of memory"),
    ROW(weights_format, 161002, "weights", "format ACL_FORMAT_FRACTAL_NZ (29)", "ND"),
    ROW(weights_storage, 161002, "weights", "elements 1 to 24", "storage has 24"),
    ROW(dweights_storage, 161002, "dweightsOut", "elements 1 to 24", "storage has 24"),
    ROW(dq_is_query, 161002, "dqOut", "shares memory with query", "memory of its own"),
    ROW(dk_is_key, 161002, "dkOut", "shares memory with key", "memory of its own"),
    ROW(dweights_is_weights, 161002, "dweightsOut", "shares memory with weights", "memory of its own"),
};

static const struct row packed_rows[] = {
    ROW(packed_query_rank, 161002, "query", "[2, 3, 4, 128]", "[T1, N, D]"),
    ROW(packed_key_rank, 161002, "key", "[2, 5, 1, 128]", "[T2, 1, D]"),
    ROW(packed_no_keys, 161002, "key", "[0, 1, 128]", "at least 1 key"),
    ROW(packed_no_sequence, 161002, "actualSeqQLenOptional", "0 entries", "at least 1"),
    ROW(packed_no_q_lengths, 161001, "actualSeqQLenOptional", "null", "prefix sums"),
    ROW(packed_no_kv_lengths, 161001, "actualSeqKvLenOptional", "null", "prefix sums"),
    ROW(packed_sequences, 161002, "actualSeqKvLenOptional", "3 entries", "2 (those of actualSeqQLenOptional)"),
    ROW(packed_dy_shape, 161002, "dy", "[6, 2, 7]", "[T1, 1, K]"),
};

enum { BATCH_ROWS = sizeof batch_rows / sizeof *batch_rows, PACKED_ROWS = sizeof packed_rows / sizeof *packed_rows };

/* --- the tests -------------------------------------------------------------------------------------------------- */

static void expect_refusal(struct fixture *f, const struct row *row, const char *also)
{
    aclOpExecutor *const before = (aclOpExecutor *)(uintptr_t)0x5555;
    const int64_t blocks = ag_alloc_live();
    char argument[64];
    f->call.executor = before;
    f->call.workspace_size = 77;
    const aclnnStatus status = indexer_call_phase1(&f->call);
    if (status != row->status) {
        fail_msg("%s%s: status %d, want %d (%s)", row->name, also, (int)status, (int)row->status, ag_error_peek());
    }
    snprintf(argument, sizeof argument, "aclnnLightningIndexerGradGetWorkspaceSize: %s: ", row->argument);
    test_assert_message(argument, row->got, row->want, (const char *)NULL);
    assert_ptr_equal(f->call.executor, before);
    assert_int_equal(f->call.workspace_size, 77);
    assert_int_equal(ag_alloc_live(), blocks);
}

static void check_rows(const struct row *rows, int count, bool is_packed)
{
    for (int i = 0; i < count; ++i) {
        struct fixture f;
        open_fixture(&f, is_packed);
        rows[i].apply(&f);
        expect_refusal(&f, &rows[i], "");
        close_fixture(&f);
    }
}

static void test_rules(void **state)
{
    (void)state;
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    check_rows(batch_rows, BATCH_ROWS, false);
    check_rows(packed_rows, PACKED_ROWS, true);
}

/* A fault of the executor and size pointers cannot be told from outside when they are what is missing. */
static bool is_about_results(const struct row *row)
{
    return row->apply == no_executor || row->apply == no_size;
}

static void check_order(const struct row *rows, int count, bool is_packed)
{
    for (int later = 1; later < count; ++later) {
        for (int i = 0; i < later; ++i) {
            struct fixture f;
            if (is_about_results(&rows[i]) || strcmp(rows[i].argument, rows[later].argument) == 0) {
                continue; /* the earlier would undo the later */
            }
            open_fixture(&f, is_packed);
            rows[later].apply(&f);
            rows[i].apply(&f);
            expect_refusal(&f, &rows[i], rows[later].name);
            close_fixture(&f);
        }
    }
}

static void test_order(void **state)
{
    (void)state;
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    check_order(batch_rows, BATCH_ROWS, false);
    check_order(packed_rows, PACKED_ROWS, true);
}

/* --- lengths: read in phase 2 only ------------------------------------------------------------------------------ */

struct length_row {
    int32_t q[3], kv[3];
    const char *argument, *got, *want;
};

static const struct length_row length_rows[] = {
    {{3, 2, 6}, {5, 10, 15}, "actualSeqQLenOptional", "entry 1 is 2 after 3", "never fall"},
    {{-1, 3, 6}, {5, 10, 15}, "actualSeqQLenOptional", "entry 0 is -1 after 0", "never fall"},
    {{3, 6, 10}, {5, 10, 15}, "actualSeqQLenOptional", "entry 2 is 10", "at most the 9 tokens"},
    {{3, 6, 9}, {5, 4, 15}, "actualSeqKvLenOptional", "entry 1 is 4 after 5", "never fall"},
    {{3, 6, 9}, {5, 10, 16}, "actualSeqKvLenOptional", "entry 2 is 16", "at most the 15 tokens"},
    {{3, 6, 9}, {INT32_MIN, 10, 15}, "actualSeqKvLenOptional", "entry 0 is -2147483648 after 0", "never fall"},
};

static void assert_untouched(const struct test_tensor *tensor)
{
    for (int64_t i = 0; i < test_tensor_elems(tensor); ++i) {
        ag_bf16 bits;
        memcpy(&bits, test_tensor_at(tensor, i), sizeof bits);
        assert_int_equal(bits, 0x5a5a);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    for (size_t i = 0; i < sizeof length_rows / sizeof *length_rows; ++i) {
        const struct length_row *row = &length_rows[i];
        struct indexer_call call;
        char argument[80];
        indexer_call_create(
            &call, &(struct indexer_case){
                       .dtype = AG_BF16, .is_packed = true, .q_len = {3, 3, 3}, .kv_len = {5, 5, 5}, .topk = 4});
        for (int b = 0; b < 3; ++b) {
            memcpy(test_tensor_at(&call.q_lengths, b), &row->q[b], sizeof row->q[b]);
            memcpy(test_tensor_at(&call.kv_lengths, b), &row->kv[b], sizeof row->kv[b]);
        }
        test_tensor_fill_bytes(&call.dq, 0x5a);
        test_tensor_fill_bytes(&call.dk, 0x5a);
        test_tensor_fill_bytes(&call.dweights, 0x5a);
        assert_int_equal(indexer_call_phase1(&call), 0);
        assert_int_equal(indexer_call_phase2(&call), 161002);
        snprintf(argument, sizeof argument, "aclnnLightningIndexerGrad: %s: ", row->argument);
        test_assert_message(argument, row->got, row->want, (const char *)NULL);
        assert_untouched(&call.dq);
        assert_untouched(&call.dk);
        assert_untouched(&call.dweights);
        indexer_call_destroy(&call);
    }
}

/* Length data may arrive after phase 1. */
static void test_late_lengths(void **state)
{
    struct indexer_call call;
    const int32_t q[2] = {3, 6}, kv[2] = {5, 10};
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    indexer_call_create(
        &call, &(struct indexer_case){.dtype = AG_FLOAT16, .is_packed = true, .q_len = {3, 3}, .kv_len = {5, 5}});
    test_tensor_fill_bytes(&call.q_lengths, 0xff);
    test_tensor_fill_bytes(&call.kv_lengths, 0x81);
    assert_int_equal(indexer_call_phase1(&call), 0);
    memcpy(call.q_lengths.buffer.data, q, sizeof q);
    memcpy(call.kv_lengths.buffer.data, kv, sizeof kv);
    assert_int_equal(indexer_call_phase2(&call), 0);
    indexer_call_compare(&call);
    indexer_call_destroy(&call);
}

/* --- an empty query --------------------------------------------------------------------------------------------- */

/* The layout and the shapes of query and key are looked at before the emptiness, the slots never. */
static void test_empty_query(void **state)
{
    struct fixture f;
    (void)state;
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    for (int i = 0; i < 5; ++i) {
        const int64_t query[4] = {B, 0, N, D}, weights[3] = {B, 0, N}, dy[1] = {5};
        open_fixture(&f, false);
        f.a->query = tensor(&f, AG_BF16, 4, query);
        f.a->dq = tensor(&f, AG_BF16, 4, query);
        f.a->weights = tensor(&f, AG_BF16, 3, weights);
        f.a->dweights = tensor(&f, AG_BF16, 3, weights);
        f.a->dy = tensor(&f, AG_BF16, 1, dy);
        f.a->sparse_mode = 99;
        if (i == 0) {
            indexer_call_run(&f.call);
            assert_int_equal(f.call.workspace_size, 0);
        } else {
            static const struct row faults[] = {{.apply = NULL},
                                                ROW(no_layout, 161001, "inputLayout", "null", "BSND"),
                                                ROW(lower_layout, 161002, "inputLayout", "bsnd", "BSND"),
                                                ROW(key_heads, 161002, "key", "2 heads", "1"),
                                                ROW(dk_shape, 161002, "dkOut", "[10, 1, 128]", "[2, 5, 1, 128]")};
            faults[i].apply(&f);
            expect_refusal(&f, &faults[i], " with an empty query");
        }
        close_fixture(&f);
    }
}

/* --- what is accepted ------------------------------------------------------------------------------------------- */

/* A tensor without memory: phase 1 must not miss it. */
static const aclTensor *shape_only(struct fixture *f, int dtype, int rank, const int64_t *dims)
{
    const aclTensor *made =
        aclCreateTensor(dims, (uint64_t)rank, (aclDataType)dtype, NULL, 0, ACL_FORMAT_ND, dims, (uint64_t)rank, NULL);
    assert_non_null(made);
    return f->tensors[f->tensor_count++] = made;
}

#define SHAPE(dtype, rank, ...) shape_only(f, dtype, rank, (const int64_t[]){__VA_ARGS__})

/* The published shapes in TND: dy like query, indices wider than K, one sequence. */
static void set_published_shapes(struct fixture *f)
{
    struct indexer_args *a = f->a;
    a->query = SHAPE(AG_BF16, 3, 64, 64, D);
    a->key = SHAPE(AG_BF16, 3, 128, 1, D);
    a->dy = a->query;
    a->sparse_indices = SHAPE(AG_INT32, 2, 64, 2048);
    a->weights = SHAPE(AG_BF16, 2, 64, 64);
    a->actual_seq_q_len = SHAPE(AG_INT32, 1, 1);
    a->actual_seq_kv_len = a->actual_seq_q_len;
    a->dq = SHAPE(AG_BF16, 3, 64, 64, D);
    a->dk = SHAPE(AG_BF16, 3, 128, 1, D);
    a->dweights = SHAPE(AG_BF16, 2, 64, 64);
}

FAULT(nothing, (void)a)
FAULT(no_counts, a->actual_seq_q_len = a->actual_seq_kv_len = NULL)
FAULT(one_count, a->actual_seq_kv_len = NULL)
FAULT(zero_size_counts, a->actual_seq_q_len = TENSOR(AG_INT32, 1, 0))
FAULT(dense_mode, a->sparse_mode = 0)

static void test_accepted(void **state)
{
    void (*const changes[])(struct fixture * f) = {nothing, no_counts, one_count, zero_size_counts, dense_mode};
    struct fixture f;
    (void)state;
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    for (int i = 0; i < 5; ++i) {
        open_fixture(&f, false);
        changes[i](&f);
        indexer_call_run(&f.call);
        close_fixture(&f);
    }
    open_fixture(&f, true);
    set_published_shapes(&f);
    assert_int_equal(indexer_call_phase1(&f.call), 0);
    assert_int_equal(aclDestroyAclOpExecutor(f.call.executor), 0);
    close_fixture(&f);
}

/* --- between the phases ----------------------------------------------------------------------------------------- */

/* Phase 1 keeps nothing of the caller's: layout text and tensor handles may go; values may still change. */
static void test_arguments_freed_between_phases(void **state)
{
    struct indexer_call call, want;
    const struct indexer_case c = {
        .dtype = AG_BF16, .is_packed = true, .q_len = {3, 2}, .kv_len = {5, 9}, .heads = 3};
    char layout[] = "TND";
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    indexer_call_create(&want, &c);
    indexer_call_run(&want);
    indexer_call_create(&call, &c);
    call.args.input_layout = layout;
    test_tensor_fill_bytes(&call.key, 0xff);
    assert_int_equal(indexer_call_phase1(&call), 0);
    memset(layout, 'X', sizeof layout);
    test_tensor_copy_values(&call.key, &want.key);
    struct test_tensor *const all[] = {&call.query,     &call.key,        &call.dy, &call.indices, &call.weights,
                                       &call.q_lengths, &call.kv_lengths, &call.dq, &call.dk,      &call.dweights};
    for (int i = 0; i < 10; ++i) {
        assert_int_equal(aclDestroyTensor(all[i]->handle), 0);
        all[i]->handle = NULL;
    }
    assert_int_equal(indexer_call_phase2(&call), 0);
    indexer_call_assert_same(&call, &want);
    indexer_call_destroy(&call);
    indexer_call_destroy(&want);
}

/* Addresses of a repeatable executor move; an output moved onto an input is refused in phase 2. */
static void test_moved_addresses(void **state)
{
    struct indexer_call call, want;
    struct test_tensor moved;
    const struct indexer_case c = {.dtype = AG_BF16, .q_len = {3}, .kv_len = {5}, .heads = 3};
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    indexer_call_create(&want, &c);
    indexer_call_run(&want);
    indexer_call_create(&call, &c);
    moved = test_tensor_create(AG_BF16, call.dq.view.rank, call.dq.view.dims);
    assert_int_equal(indexer_call_phase1(&call), 0);
    assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
    assert_int_equal(aclSetOutputTensorAddr(call.executor, 0, call.dq.handle, moved.buffer.data), 0);
    assert_int_equal(indexer_call_phase2(&call), 0);
    test_assert_same_bits("dq", &moved, &want.dq);
    assert_int_equal(aclSetOutputTensorAddr(call.executor, 0, call.dq.handle, call.query.buffer.data), 0);
    assert_int_equal(indexer_call_phase2(&call), 161002);
    test_assert_message("aclnnLightningIndexerGrad: dqOut: ", "shares memory with query", (const char *)NULL);
    test_assert_same_bits("query", &call.query, &want.query);
    assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
    test_tensor_destroy(&moved);
    indexer_call_destroy(&call);
    indexer_call_destroy(&want);
}

static void test_phase2_pointers(void **state)
{
    struct fixture f;
    (void)state;
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    open_fixture(&f, false);
    assert_int_equal(aclnnLightningIndexerGrad(NULL, 0, NULL, NULL), 161001);
    test_assert_message("aclnnLightningIndexerGrad: executor", (const char *)NULL);
    assert_int_equal(indexer_call_phase1(&f.call), 0);
    assert_int_equal(aclnnLightningIndexerGrad(NULL, f.call.workspace_size, f.call.executor, NULL), 161001);
    test_assert_message("workspace", (const char *)NULL);
    close_fixture(&f);
}

/* --- limits ----------------------------------------------------------------------------------------------------- */

static const struct indexer_case beyond[] = {
    {.dtype = AG_FLOAT, .q_len = {1}, .kv_len = {3}},
    {.dtype = AG_BF16, .q_len = {1}, .kv_len = {3}, .dim = 64},
    {.dtype = AG_BF16, .q_len = {1}, .kv_len = {3}, .dim = 129},
    {.dtype = AG_BF16, .q_len = {1}, .kv_len = {3}, .heads = 65},
    {.dtype = AG_BF16, .q_len = {1}, .kv_len = {3}, .topk = 2049},
};

static void test_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; ++i) {
        struct indexer_call call;
        indexer_call_create(&call, &beyond[i]);
        test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
        assert_int_equal(indexer_call_phase1(&call), 161002);
        test_configure(1, ag_cpu_best_isa(), AG_LIMITS_EXTENDED);
        indexer_call_verify(&call);
        test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
        indexer_call_destroy(&call);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_late_lengths),
        cmocka_unit_test(test_empty_query),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_arguments_freed_between_phases),
        cmocka_unit_test(test_moved_addresses),
        cmocka_unit_test(test_phase2_pointers),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
