/* One row per broken rule of aclnnLightningIndexer: status, and a message that names the function, the argument, what it
 * got and what it wanted; nothing written, nothing left behind. The rows stand in the order of the checks, and of two
 * faults the earlier is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/indexer_forward_problem.h"

enum { B = 2, S1 = 3, S2 = 32, N = 4, D = 128, K = 7, MOST_EXTRAS = 8 };

enum layout { BATCH, PACKED, PAGED, LAYOUTS };

/* A valid call, and the tensors that a row replaces parts of it by. */
struct fixture {
    struct indexer_forward_call call;
    struct indexer_forward_args *a;
    const aclTensor *tensors[MOST_EXTRAS];
    int tensor_count;
    char data[1 << 17];
};

static const aclTensor *tensor(struct fixture *f, int dtype, int rank, const int64_t *dims, const int64_t *strides,
                               aclFormat format)
{
    const int64_t one = strides ? B * S1 * K : 1;
    const aclTensor *made = aclCreateTensor(dims, (uint64_t)rank, (aclDataType)dtype, strides, 0, format,
                                            strides ? &one : dims, strides ? 1 : (uint64_t)rank, f->data);
    assert_non_null(made);
    return f->tensors[f->tensor_count++] = made;
}

#define TENSOR(dtype, rank, ...) tensor(f, dtype, rank, (const int64_t[]){__VA_ARGS__}, NULL, ACL_FORMAT_ND)

/* Slots with strides, over a storage that a dense tensor needs. */
#define STRIDED(dtype, ...)                                                                                          \
    tensor(f, dtype, 4, (const int64_t[]){B, S1, 1, K}, (const int64_t[]){__VA_ARGS__}, ACL_FORMAT_ND)

static void open_fixture(struct fixture *f, enum layout layout)
{
    const struct indexer_forward_case valid = {.dtype = AG_BF16,
                                               .is_packed = layout == PACKED,
                                               .is_paged = layout == PAGED,
                                               .has_values = layout != PAGED,
                                               .q_len = {S1, S1},
                                               .kv_len = {S2, S2},
                                               .has_counts = true,
                                               .heads = N,
                                               .topk = K,
                                               .mode = 3};
    indexer_forward_call_create(&f->call, &valid);
    f->a = &f->call.args;
    f->tensor_count = 0;
}

static void close_fixture(struct fixture *f)
{
    for (int i = 0; i < f->tensor_count; ++i) {
        aclDestroyTensor(f->tensors[i]);
    }
    indexer_forward_call_destroy(&f->call);
}

/* --- the rows --------------------------------------------------------------------------------------------------- */

#define FAULT(name, statement)                                                                                       \
    static void name(struct fixture *f)                                                                              \
    {                                                                                                                \
        struct indexer_forward_args *a = f->a;                                                                       \
        statement;                                                                                                   \
    }

static aclTensor *const no_handle = (aclTensor *)(uintptr_t)0x1234;

FAULT(no_query, a->query = NULL)
FAULT(bad_query, a->query = no_handle)
FAULT(no_key, a->key = NULL)
FAULT(no_weights, a->weights = NULL)
FAULT(no_indices, a->sparse_indices = NULL)
FAULT(no_values, a->sparse_values = NULL)
FAULT(no_size, a->workspace_size = NULL)
FAULT(no_executor, a->executor = NULL)
FAULT(key_layout, a->layout_key = "SBND")
FAULT(empty_key_layout, a->layout_key = "")
FAULT(query_layout, a->layout_query = "bsnd")
FAULT(paged_query_layout, a->layout_query = "PA_BSND")
FAULT(mixed_layouts, a->layout_key = "TND")
FAULT(null_key_layout, a->layout_key = NULL)
FAULT(count_zero, a->sparse_count = 0)
FAULT(count_odd, a->sparse_count = 2049)
FAULT(count_large, a->sparse_count = 9216)
FAULT(count_negative, a->sparse_count = -1024)
FAULT(mode_one, a->sparse_mode = 1)
FAULT(pre_tokens, a->pre_tokens = 65536)
FAULT(next_tokens, a->next_tokens = 0)
FAULT(paged_values, (a->return_values = true, a->sparse_values = f->call.values.handle))
FAULT(float_query, a->query = TENSOR(AG_FLOAT, 4, B, S1, N, D))
FAULT(half_key, a->key = TENSOR(AG_FLOAT16, 4, B, S2, 1, D))
FAULT(half_weights, a->weights = TENSOR(AG_FLOAT16, 3, B, S1, N))
FAULT(long_indices, a->sparse_indices = TENSOR(AG_INT64, 4, B, S1, 1, K))
FAULT(half_values, a->sparse_values = TENSOR(AG_FLOAT16, 4, B, S1, 1, K))
FAULT(spare_table, a->block_table = TENSOR(AG_INT32, 2, B, 2))
FAULT(long_table, a->block_table = TENSOR(AG_INT64, 2, B, 2))
FAULT(no_table, a->block_table = NULL)
FAULT(bad_lengths, a->actual_seq_lengths_query = no_handle)
FAULT(long_q_lengths, a->actual_seq_lengths_query = TENSOR(AG_INT64, 1, B))
FAULT(long_kv_lengths, a->actual_seq_lengths_key = TENSOR(AG_INT64, 1, B))
FAULT(no_q_lengths, a->actual_seq_lengths_query = NULL)
FAULT(no_kv_lengths, a->actual_seq_lengths_key = NULL)
FAULT(query_rank, a->query = TENSOR(AG_BF16, 3, B *S1, N, D))
FAULT(key_rank, a->key = TENSOR(AG_BF16, 3, B *S2, 1, D))
FAULT(table_rank, a->block_table = TENSOR(AG_INT32, 1, B))
FAULT(many_heads, a->query = TENSOR(AG_BF16, 4, B, S1, 65, D))
FAULT(no_heads, a->query = TENSOR(AG_BF16, 4, B, S1, 0, D))
FAULT(key_heads, a->key = TENSOR(AG_BF16, 4, B, S2, 2, D))
FAULT(query_dim, a->query = TENSOR(AG_BF16, 4, B, S1, N, 64))
FAULT(key_dim, a->key = TENSOR(AG_BF16, 4, B, S2, 1, 64))
FAULT(few_counts, a->actual_seq_lengths_query = TENSOR(AG_INT32, 1, B - 1))
FAULT(many_counts, a->actual_seq_lengths_key = TENSOR(AG_INT32, 1, B + 1))
FAULT(key_batch, a->key = TENSOR(AG_BF16, 4, B + 1, S2, 1, D))
FAULT(table_batch, a->block_table = TENSOR(AG_INT32, 2, B + 1, 2))
FAULT(block_size_8, a->key = TENSOR(AG_BF16, 4, 6, 8, 1, D))
FAULT(block_size_0, a->key = TENSOR(AG_BF16, 4, 6, 0, 1, D))
FAULT(block_size_2048, a->key = TENSOR(AG_BF16, 4, 6, 2048, 1, D))
FAULT(many_keys, a->key = TENSOR(AG_BF16, 4, B, INT64_C(1) << 31, 1, D))
FAULT(many_blocks, a->block_table = TENSOR(AG_INT32, 2, B, INT64_C(1) << 28))
FAULT(weights_shape, a->weights = TENSOR(AG_BF16, 3, B, S1, N + 1))
FAULT(indices_rank, a->sparse_indices = TENSOR(AG_INT32, 3, B, S1, K))
FAULT(indices_shape, a->sparse_indices = TENSOR(AG_INT32, 4, B, S1, 1, K + 1))
FAULT(values_shape, a->sparse_values = TENSOR(AG_BF16, 4, B, S1, N, K))
FAULT(indices_stride, a->sparse_indices = STRIDED(AG_INT32, S1 *K, 0, 1, 1))
FAULT(values_stride, a->sparse_values = STRIDED(AG_BF16, S1 *K, K, 1, 0))
FAULT(query_format, a->query = tensor(f, AG_BF16, 4, f->call.query.view.dims, NULL, ACL_FORMAT_FRACTAL_NZ))
FAULT(indices_storage, a->sparse_indices = STRIDED(AG_INT32, S1 *K, K, 1, 2))
FAULT(values_are_indices, a->sparse_values = tensor(f, AG_BF16, 4, f->call.indices.view.dims, NULL, ACL_FORMAT_ND);
      a->sparse_indices = tensor(f, AG_INT32, 4, f->call.indices.view.dims, NULL, ACL_FORMAT_ND))

/* In TND: */
FAULT(packed_query_rank, a->query = TENSOR(AG_BF16, 4, B, S1, N, D))
FAULT(packed_key_rank, a->key = TENSOR(AG_BF16, 4, B, S2, 1, D))
FAULT(packed_no_sequence, a->actual_seq_lengths_query = TENSOR(AG_INT32, 1, 0))
FAULT(packed_sequences, a->actual_seq_lengths_key = TENSOR(AG_INT32, 1, B + 1))
FAULT(packed_indices, a->sparse_indices = TENSOR(AG_INT32, 2, B *S1, K))

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
#define ROWS_END                                                                                                     \
    {                                                                                                                \
        NULL, NULL, 0, NULL, NULL, NULL                                                                              \
    }

static const struct row batch_rows[] = {
    ROW(no_query, 161001, "query", "null", "a tensor"),
    ROW(bad_query, 161002, "query", "a pointer that is no handle", "tensor"),
    ROW(no_key, 161001, "key", "null", "a tensor"),
    ROW(no_weights, 161001, "weights", "null", "a tensor"),
    ROW(no_indices, 161001, "sparseIndicesOut", "null", "a tensor"),
    ROW(no_values, 161001, "sparseValuesOut", "null", "a tensor"),
    ROW(no_size, 161001, "workspaceSize", "null", "where to store"),
    ROW(no_executor, 161001, "executor", "null", "where to store"),
    ROW(key_layout, 161002, "layoutKeyOptional", "SBND", "PA_BSND"),
    ROW(empty_key_layout, 161002, "layoutKeyOptional", "\"\"", "BSND"),
    ROW(query_layout, 161002, "layoutQueryOptional", "bsnd", "TND"),
    ROW(paged_query_layout, 161002, "layoutQueryOptional", "PA_BSND", "\"BSND\" or \"TND\""),
    ROW(mixed_layouts, 161002, "layoutKeyOptional", "TND", "the same"),
    ROW(count_zero, 161002, "sparseCount", "0", "1 to 2048, or a multiple of 1024 up to 8192"),
    ROW(count_odd, 161002, "sparseCount", "2049", "1 to 2048"),
    ROW(count_large, 161002, "sparseCount", "9216", "up to 8192"),
    ROW(count_negative, 161002, "sparseCount", "-1024", "1 to 2048"),
    ROW(mode_one, 161002, "sparseMode", "1", "0 or 3"),
    ROW(pre_tokens, 161002, "preTokens", "65536", "9223372036854775807"),
    ROW(next_tokens, 161002, "nextTokens", "0", "9223372036854775807"),
    ROW(float_query, 161002, "query", "FLOAT,", "FLOAT16 or BF16"),
    ROW(half_key, 161002, "key", "FLOAT16", "BF16 (that of query)"),
    ROW(half_weights, 161002, "weights", "FLOAT16", "BF16 (that of query) or FLOAT"),
    ROW(long_indices, 161002, "sparseIndicesOut", "INT64", "INT32"),
    ROW(half_values, 161002, "sparseValuesOut", "FLOAT16", "BF16 (that of query)"),
    ROW(spare_table, 161002, "blockTableOptional", "a tensor", "null"),
    ROW(bad_lengths, 161002, "actualSeqLengthsQueryOptional", "a pointer that is no handle", "tensor"),
    ROW(long_q_lengths, 161002, "actualSeqLengthsQueryOptional", "INT64", "INT32"),
    ROW(long_kv_lengths, 161002, "actualSeqLengthsKeyOptional", "INT64", "INT32"),
    ROW(query_rank, 161002, "query", "[6, 4, 128]", "[B, S1, N, D]"),
    ROW(key_rank, 161002, "key", "[64, 1, 128]", "[B, S2, 1, D]"),
    ROW(many_heads, 161002, "query", "65 heads", "1 to 64"),
    ROW(no_heads, 161002, "query", "0 heads", "1 to 64"),
    ROW(key_heads, 161002, "key", "2 heads", "1"),
    ROW(query_dim, 161002, "query", "head dim 64", "128"),
    ROW(key_dim, 161002, "key", "head dim 64", "128"),
    ROW(few_counts, 161002, "actualSeqLengthsQueryOptional", "1 counts", "2 (the batch)"),
    ROW(many_counts, 161002, "actualSeqLengthsKeyOptional", "3 entries", "2 (the batch)"),
    ROW(key_batch, 161002, "key", "batch 3", "2 (that of query)"),
    ROW(many_keys, 161002, "key", "dim of 2147483648", "at most 2147483647"),
    ROW(weights_shape, 161002, "weights", "[2, 3, 5]", "[2, 3, 4]"),
    ROW(indices_rank, 161002, "sparseIndicesOut", "[2, 3, 7]", "[2, 3, 1, 7]"),
    ROW(indices_shape, 161002, "sparseIndicesOut", "[2, 3, 1, 8]", "[2, 3, 1, 7]"),
    ROW(values_shape, 161002, "sparseValuesOut", "[2, 3, 4, 7]", "[2, 3, 1, 7]"),
    ROW(indices_stride, 161002, "sparseIndicesOut", "stride 0 over dim 1", "an element of memory"),
    ROW(values_stride, 161002, "sparseValuesOut", "stride 0 over dim 3", "an element of memory"),
    ROW(query_format, 161002, "query", "format ACL_FORMAT_FRACTAL_NZ (29)", "ND"),
    ROW(indices_storage, 161002, "sparseIndicesOut", "elements 0 to 47", "storage has 42"),
    ROW(values_are_indices, 161002, "sparseValuesOut", "shares memory with sparseIndicesOut", "memory of its own"),
    ROWS_END,
};

static const struct row packed_rows[] = {
    ROW(null_key_layout, 161002, "layoutKeyOptional", "BSND", "the same"),
    ROW(no_q_lengths, 161001, "actualSeqLengthsQueryOptional", "null", "prefix sums"),
    ROW(no_kv_lengths, 161001, "actualSeqLengthsKeyOptional", "null", "prefix sums"),
    ROW(packed_query_rank, 161002, "query", "[2, 3, 4, 128]", "[T1, N, D]"),
    ROW(packed_key_rank, 161002, "key", "[2, 32, 1, 128]", "[T2, 1, D]"),
    ROW(packed_no_sequence, 161002, "actualSeqLengthsQueryOptional", "0 entries", "at least 1"),
    ROW(packed_sequences, 161002, "actualSeqLengthsKeyOptional", "3 entries", "2 (those of actualSeqLengthsQuery"),
    ROW(packed_indices, 161002, "sparseIndicesOut", "[6, 7]", "[6, 1, 7]"),
    ROWS_END,
};

static const struct row paged_rows[] = {
    ROW(paged_values, 161002, "returnValues", "true", "false"),
    ROW(long_table, 161002, "blockTableOptional", "INT64", "INT32"),
    ROW(no_table, 161001, "blockTableOptional", "null", "PA_BSND needs"),
    ROW(no_kv_lengths, 161001, "actualSeqLengthsKeyOptional", "null", "PA_BSND needs"),
    ROW(key_rank, 161002, "key", "[64, 1, 128]", "[blocks, block size, 1, D]"),
    ROW(table_rank, 161002, "blockTableOptional", "[2]", "[B, blocks]"),
    ROW(table_batch, 161002, "blockTableOptional", "3 rows", "2 (the sequences)"),
    ROW(block_size_0, 161002, "key", "block size 0", "a multiple of 16 up to 1024"),
    ROW(block_size_8, 161002, "key", "block size 8", "a multiple of 16 up to 1024"),
    ROW(block_size_2048, 161002, "key", "block size 2048", "a multiple of 16 up to 1024"),
    ROW(many_blocks, 161002, "blockTableOptional", "dim of 268435456", "at most 134217727"),
    ROWS_END,
};

static const struct row *const rows_of[LAYOUTS] = {batch_rows, packed_rows, paged_rows};

/* --- the tests -------------------------------------------------------------------------------------------------- */

static void expect_refusal(struct fixture *f, const struct row *row, const char *also)
{
    aclOpExecutor *const before = (aclOpExecutor *)(uintptr_t)0x5555;
    const int64_t blocks = ag_alloc_live();
    char argument[96];
    f->call.executor = before;
    f->call.workspace_size = 77;
    const aclnnStatus status = indexer_forward_call_phase1(&f->call);
    if (status != row->status) {
        fail_msg("%s %s: status %d, want %d (%s)", row->name, also, (int)status, (int)row->status, ag_error_peek());
    }
    snprintf(argument, sizeof argument, "aclnnLightningIndexerGetWorkspaceSize: %s: ", row->argument);
    test_assert_message(argument, row->got, row->want, (const char *)NULL);
    assert_ptr_equal(f->call.executor, before);
    assert_int_equal(f->call.workspace_size, 77);
    assert_int_equal(ag_alloc_live(), blocks);
}

static void test_rules(void **state)
{
    (void)state;
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    for (int layout = 0; layout < LAYOUTS; ++layout) {
        for (const struct row *row = rows_of[layout]; row->name; ++row) {
            struct fixture f;
            open_fixture(&f, (enum layout)layout);
            row->apply(&f);
            expect_refusal(&f, row, "");
            close_fixture(&f);
        }
    }
}

/* Where two rows replace the same tensor, or one's message needs the other's tensor whole, there is no telling. */
static bool is_apart(const struct row *a, const struct row *b)
{
    const bool is_about_results = a->apply == no_executor || a->apply == no_size;
    const bool is_shared = a->apply == values_are_indices || b->apply == values_are_indices;
    return !is_about_results && !is_shared && strcmp(a->argument, b->argument) != 0;
}

static void test_order(void **state)
{
    (void)state;
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    for (int layout = 0; layout < LAYOUTS; ++layout) {
        for (const struct row *later = rows_of[layout]; later->name; ++later) {
            for (const struct row *row = rows_of[layout]; row < later; ++row) {
                struct fixture f;
                if (!is_apart(row, later)) {
                    continue;
                }
                open_fixture(&f, (enum layout)layout);
                later->apply(&f);
                row->apply(&f);
                expect_refusal(&f, row, later->name);
                close_fixture(&f);
            }
        }
    }
}

/* What only the documented limits refuse. */
static void test_extended(void **state)
{
    static void (*const lifted[])(struct fixture * f) = {count_odd, count_large, paged_values};
    (void)state;
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_EXTENDED);
    for (int i = 0; i < 3; ++i) {
        struct fixture f;
        struct indexer_forward_case c = {.dtype = AG_BF16, .q_len = {2}, .kv_len = {40}, .has_values = true};
        c.is_paged = lifted[i] == paged_values;
        c.topk = lifted[i] == count_odd ? 2049 : lifted[i] == count_large ? 9216 : 7;
        c.block_size = c.is_paged ? 5 : 16;
        open_fixture(&f, BATCH);
        close_fixture(&f);
        indexer_forward_call_create(&f.call, &c);
        indexer_forward_call_verify(&f.call);
        indexer_forward_call_destroy(&f.call);
    }
}

/* --- data ------------------------------------------------------------------------------------------------------- */

static void assert_untouched(const struct test_tensor *tensor)
{
    size_t bytes;
    unsigned char *data = test_tensor_to_bytes(tensor, &bytes);
    for (size_t i = 0; i < bytes; ++i) {
        assert_int_equal(data[i], 0x5a);
    }
    free(data);
}

static void expect_refused_data(struct indexer_forward_call *call, const char *argument, const char *got,
                                const char *want)
{
    test_tensor_fill_bytes(&call->indices, 0x5a);
    test_tensor_fill_bytes(&call->values, 0x5a);
    assert_int_equal(indexer_forward_call_phase1(call), 0);
    assert_int_equal(indexer_forward_call_phase2(call), 161002);
    test_assert_message("aclnnLightningIndexer: ", argument, got, want, (const char *)NULL);
    assert_untouched(&call->indices);
    assert_untouched(&call->values);
}

struct length_row {
    int32_t q[2], kv[2];
    const char *argument, *got, *want;
};

static void test_lengths(void **state)
{
    static const struct length_row rows[] = {
        {{7, 6}, {32, 64}, "actualSeqLengthsQueryOptional: ", "entry 0 is 7", "at most the 6 tokens"},
        {{4, 3}, {32, 64}, "actualSeqLengthsQueryOptional: ", "entry 1 is 3 after 4", "never fall"},
        {{3, 6}, {-5, 64}, "actualSeqLengthsKeyOptional: ", "entry 0 is -5 after 0", "never fall"},
        {{3, 6}, {32, INT32_MAX}, "actualSeqLengthsKeyOptional: ", "entry 1 is 2147483647", "at most the 64 tokens"},
    };
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        struct fixture f;
        open_fixture(&f, PACKED);
        memcpy(f.call.q_lengths.buffer.data, rows[i].q, sizeof rows[i].q);
        memcpy(f.call.kv_lengths.buffer.data, rows[i].kv, sizeof rows[i].kv);
        expect_refused_data(&f.call, rows[i].argument, rows[i].got, rows[i].want);
        close_fixture(&f);
    }
}

/* The entries that keys are read through, be it a single key; those behind are INT32_MIN and INT32_MAX in every paged test. */
static void test_tables(void **state)
{
    static const struct {
        int64_t at;
        int32_t block;
        const char *got;
    } rows[] = {{0, -1, "entry [0, 0] is -1"},
                {1, 6, "entry [0, 1] is 6"},
                {2, INT32_MIN, "entry [1, 0] is -2147483648"},
                {3, INT32_MAX, "entry [1, 1] is 2147483647"}};
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        struct fixture f;
        open_fixture(&f, PAGED);
        memcpy(f.call.kv_lengths.buffer.data, (const int32_t[]){30, 17}, 2 * sizeof(int32_t));
        memcpy(test_tensor_at(&f.call.table, rows[i].at), &rows[i].block, sizeof rows[i].block);
        expect_refused_data(&f.call, "blockTableOptional: ", rows[i].got, "want 0 to 5");
        close_fixture(&f);
    }
}

/* Lengths and table may arrive after phase 1. */
static void test_late_data(void **state)
{
    struct fixture f;
    const int32_t lengths[2] = {30, 17}, table[4] = {5, 0, 3, 2};
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    open_fixture(&f, PAGED);
    test_tensor_fill_bytes(&f.call.kv_lengths, 0x81);
    test_tensor_fill_bytes(&f.call.table, 0xff);
    test_tensor_fill_value(&f.call.key, 1);
    assert_int_equal(indexer_forward_call_phase1(&f.call), 0);
    memcpy(f.call.kv_lengths.buffer.data, lengths, sizeof lengths);
    memcpy(f.call.table.buffer.data, table, sizeof table);
    assert_int_equal(indexer_forward_call_phase2(&f.call), 0);
    indexer_forward_call_judge(&f.call);
    close_fixture(&f);
}

/* A repeatable executor's outputs may move between the phases: elsewhere, and onto an input, which is refused. */
static void test_moved_addresses(void **state)
{
    struct fixture f;
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    open_fixture(&f, BATCH);
    struct indexer_forward_call *call = &f.call;
    struct test_buffer moved = test_buffer_create(call->indices.buffer.bytes, sizeof(int32_t));
    assert_int_equal(indexer_forward_call_phase1(call), 0);
    assert_int_equal(aclSetAclOpExecutorRepeatable(call->executor), 0);
    assert_int_equal(indexer_forward_call_phase2(call), 0);
    indexer_forward_call_judge(call);
    assert_int_equal(aclSetOutputTensorAddr(call->executor, 0, call->indices.handle, moved.data), 0);
    assert_int_equal(indexer_forward_call_phase2(call), 0);
    assert_memory_equal(moved.data, call->indices.buffer.data, moved.bytes);
    assert_int_equal(aclSetOutputTensorAddr(call->executor, 0, call->indices.handle, call->query.buffer.data), 0);
    assert_int_equal(indexer_forward_call_phase2(call), 161002);
    test_assert_message("aclnnLightningIndexer: sparseIndicesOut: shares memory with query", (const char *)NULL);
    assert_int_equal(aclDestroyAclOpExecutor(call->executor), 0);
    test_buffer_destroy(&moved);
    close_fixture(&f);
}

/* Null layouts are BSND. */
static void test_null_layouts(void **state)
{
    struct fixture f;
    (void)state;
    test_configure(2, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    open_fixture(&f, BATCH);
    f.a->layout_query = f.a->layout_key = NULL;
    indexer_forward_call_verify(&f.call);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),        cmocka_unit_test(test_order),           cmocka_unit_test(test_extended),
        cmocka_unit_test(test_lengths),      cmocka_unit_test(test_tables),          cmocka_unit_test(test_late_data),
        cmocka_unit_test(test_null_layouts), cmocka_unit_test(test_moved_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
