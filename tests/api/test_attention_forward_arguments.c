/* One row per broken rule of the forward operator, as test_attention_arguments.c has them for the gradient; and what the
 * versions, forward and backward, add or leave out. */
#include <math.h>
#include <string.h>

#include "support/attention_fixture.h"

static const char function_name[] = "aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize: ";

static void set_dim(struct fixture *f, int64_t dim)
{
    f->a->query = BF16(T1, N1, dim);
    f->a->key = BF16(T2, N2, dim);
}

static void set_key_heads(struct fixture *f, int64_t heads)
{
    f->a->key = BF16(T2, heads, D);
    f->a->key_rope = BF16(T2, heads, DR);
    f->a->value = BF16(T2, heads, DV);
}

static void set_dtype(struct fixture *f, int dtype)
{
    f->a->query = TENSOR(dtype, 3, T1, N1, D);
    f->a->key = TENSOR(dtype, 3, T2, N2, D);
    f->a->value = TENSOR(dtype, 3, T2, N2, DV);
    f->a->attention_in = TENSOR(dtype, 3, T1, N1, DV);
}

static void set_value_dim(struct fixture *f, int64_t dim)
{
    f->a->value = BF16(T2, N2, dim);
    f->a->attention_in = BF16(T1, N1, dim);
}

static void set_mode(struct fixture *f, int64_t mode, int64_t rows)
{
    f->a->sparse_mode = mode;
    f->a->atten_mask = TENSOR(AG_UINT8, 2, rows, 2048);
}

static bool pointer_rows(struct fixture *f, int number, struct row *row)
{
    int at = 0;
    ROW(a->executor = NULL, IS_NULL, FREE, "executor", "null")
    ROW(a->workspace_size = NULL, IS_NULL, FREE, "workspaceSize", "null")
    ROW(a->input_layout = NULL, IS_NULL, FREE, "inputLayout", "null", "TND")
    ROW(a->input_layout = "", IS_BAD, FREE, "inputLayout is empty, expected TND")
    ROW(a->input_layout = "BSND", IS_BAD, FREE, "inputLayout", "\"BSND\"", "\"TND\"")
    ROW(a->query = NULL, IS_NULL, FREE, "query: ", "null")
    ROW(a->key = NULL, IS_NULL, FREE, "key: ", "null")
    ROW(a->value = NULL, IS_NULL, FREE, "value: ", "null")
    ROW(a->softmax_max = NULL, IS_NULL, FREE, "softmaxMaxOut: ", "null")
    ROW(a->softmax_sum = NULL, IS_NULL, FREE, "softmaxSumOut: ", "null")
    ROW(a->attention_in = NULL, IS_NULL, FREE, "attentionOutOut: ", "null")
    ROW(a->head_num = 0, IS_BAD, FREE, "headNum: got 0")
    return false;
}

static bool shape_rows(struct fixture *f, int number, struct row *row)
{
    int at = 0;
    ROW(a->query = TENSOR(AG_INT32, 3, T1, N1, D), IS_BAD, FREE, "query: ", "INT32", "FLOAT, FLOAT16 or BF16")
    ROW(a->key = TENSOR(AG_FLOAT16, 3, T2, N2, D), IS_BAD, FREE, "key: ", "FLOAT16", "BF16")
    ROW(a->value = TENSOR(AG_FLOAT, 3, T2, N2, DV), IS_BAD, FREE, "value: ", "FLOAT", "BF16")
    ROW(a->query = TENSOR(AG_BF16, 1, 2), IS_BAD, FREE, "query: ", "rank 1", "rank 3 [T, N, D]")
    ROW(a->key = TENSOR(AG_BF16, 4, 1, T2, N2, D), IS_BAD, FREE, "key: ", "rank 4", "rank 3")
    ROW(a->value = TENSOR(AG_BF16, 2, T2, DV), IS_BAD, FREE, "value: ", "rank 2", "rank 3")
    ROW(a->attention_in = TENSOR(AG_BF16, 2, T1, DV), IS_BAD, FREE, "attentionOutOut: ", "rank 2", "rank 3")
    ROW(a->value = BF16(T2 + 1, N2, DV), IS_BAD, FREE, "value: ", "[10, 2, 8]", "[9, 2, 8]")
    ROW(a->query_rope = TENSOR(AG_BF16, 2, T1, DR), IS_BAD, FREE, "queryRope: ", "rank 2", "rank 3")
    ROW(a->key_rope = TENSOR(AG_BF16, 2, T2, DR), IS_BAD, FREE, "keyRope: ", "rank 2", "rank 3")
    ROW(a->query_rope = BF16(T1, N2, DR), IS_BAD, FREE, "queryRope: ", "[8, 2, 8]", "[8, 4, 8]")
    ROW(a->key_rope = BF16(T1, N2, DR), IS_BAD, FREE, "keyRope: ", "[8, 2, 8]", "[9, 2, 8]")
    ROW(a->key_rope = BF16(T2, N2, 16), IS_BAD, FREE, "keyRope: ", "16", "8")
    ROW(a->query_rope = BF16(T1, N1, 24);
        a->key_rope = BF16(T2, N2, 24), IS_BAD, FREE, "queryRope: ", "24", "at most D = 16")
    ROW(a->attention_in = BF16(T1, N1, D), IS_BAD, FREE, "attentionOutOut: ", "[8, 4, 16]", "[8, 4, 8]")
    ROW(a->attention_in = TENSOR(AG_FLOAT, 3, T1, N1, DV), IS_BAD, FREE, "attentionOutOut: ", "FLOAT", "BF16")
    ROW(a->key = BF16(T2, N2, 8), IS_BAD, FREE, "key: ", "8", "D = 16")
    ROW(set_value_dim(f, 24), IS_BAD, FREE, "value: ", "24", "at most D = 16")
    ROW(set_value_dim(f, 0), IS_BAD, FREE, "value: ", "last dim 0", "at least 1")
    return false;
}

static bool size_rows(struct fixture *f, int number, struct row *row)
{
    int at = 0;
    ROW(a->actual_seq_q = NULL, IS_NULL, FREE, "actualSeqQLenOptional: ", "null")
    ROW(a->actual_seq_q = LIST(2, 3, T1 + 1), IS_BAD, FREE, "actualSeqQLenOptional: ", "9", "T = 8")
    ROW(a->actual_seq_kv = LIST(0, 0), IS_NULL, FREE, "actualSeqKvLenOptional: ", "size 0")
    ROW(a->actual_seq_kv = LIST(2, 5, 4), IS_BAD, FREE, "actualSeqKvLenOptional[1]: ", "got 4", "at least 5")
    ROW(a->key_rope = NULL, IS_NULL, LONE_ROPE, "keyRope: ", "null", "queryRope")
    ROW(a->query_rope = NULL, IS_NULL, LONE_ROPE, "queryRope: ", "null", "keyRope")
    ROW(a->query_rope = TENSOR(AG_FLOAT16, 3, T1, N1, DR), IS_BAD, FREE, "queryRope: ", "FLOAT16", "BF16")
    ROW(a->key_rope = TENSOR(AG_FLOAT16, 3, T2, N2, DR), IS_BAD, FREE, "keyRope: ", "FLOAT16", "BF16")
    ROW(set_dtype(f, AG_FLOAT16), IS_BAD, FREE, "query: ", "FLOAT16", "BF16")
    ROW(a->sparse_mode = 6, IS_BAD, FREE, "sparseMode: ", "got 6", "rope")
    ROW(a->atten_mask = NULL, IS_NULL, FREE, "attenMaskOptional: ", "null", "queryRope")
    ROW(a->pse_shift = BF16(1, 1, 1), IS_BAD, FREE, "realShiftOptional: ", "want null")
    ROW(a->drop_mask = TENSOR(AG_UINT8, 1, 64), IS_BAD, FREE, "dropMaskOptional: ", "want null")
    ROW(a->keep_prob = 0.9, IS_BAD, FREE, "keepProb: ", "0.9", "want 1")
    ROW(set_dim(f, 12), IS_BAD, FREE, "query: ", "12", "multiple of 8")
    ROW(a->query_rope = BF16(T1, N1, 4);
        a->key_rope = BF16(T2, N2, 4), IS_BAD, FREE, "queryRope: ", "4", "multiple of 8")
    ROW(a->query_rope = a->key_rope = NULL, IS_NULL, FREE, "queryRope: ", "null", "ACLGRAD_LIMITS=extended")
    ROW(a->head_num = 3, IS_BAD, FREE, "headNum: ", "got 3", "want 4")
    ROW(a->actual_seq_kv = LIST(3, 5, 9, 9), IS_BAD, FREE, "actualSeqKvLenOptional: ", "3", "2")
    ROW(set_key_heads(f, 8), IS_BAD, FREE, "key: ", "8 heads", "4")
    ROW(set_key_heads(f, 3), IS_BAD, FREE, "key: ", "3 heads", "4")
    ROW(set_dim(f, 776), IS_BAD, FREE, "query: ", "776", "at most 768")
    return false;
}

static bool last_rows(struct fixture *f, int number, struct row *row)
{
    int at = 0;
    ROW(a->sparse_mode = 5, IS_BAD, FREE, "sparseMode: ", "got 5", "0, 1, 2, 3, 4, 6, 7 or 8")
    ROW(a->atten_mask = TENSOR(AG_FLOAT16, 2, 5, 5), IS_BAD, FREE, "attenMaskOptional: ", "FLOAT16", "BOOL or UINT8")
    ROW(a->atten_mask = TENSOR(AG_BOOL, 2, 4, 5), IS_BAD, FREE, "attenMaskOptional: ", "[4, 5]", "Sq >= 5")
    ROW(set_mode(f, 3, 512), IS_BAD, FREE, "attenMaskOptional: ", "[512, 2048]", "[2048, 2048] for sparseMode 3")
    ROW(fixture_set_tokens(a, -6, 99), IS_BAD, FREE, "preTokens: ", "got -6", "at least -5")
    ROW(fixture_set_tokens(a, 0, 0), IS_BAD, FREE, "preTokens, nextTokens: ", "got 0 and 0", "above 0")
    ROW(a->pse_type = 2, IS_BAD, FREE, "pseType: ", "got 2", "want 1")
    ROW(a->softmax_max = TENSOR(AG_BF16, 3, T1, N1, 8), IS_BAD, FREE, "softmaxMaxOut: ", "BF16", "want FLOAT")
    ROW(a->softmax_max = TENSOR(AG_FLOAT, 3, T1, N1, 1), IS_BAD, FREE, "softmaxMaxOut: ", "[8, 4, 1]", "[8, 4, 8]")
    ROW(a->softmax_sum = TENSOR(AG_FLOAT, 3, T1 + 1, N1, 8), IS_BAD, FREE, "softmaxSumOut: ", "[9, 4, 8]",
        "[8, 4, 8]")
    ROW(a->query = fixture_tensor_past_storage(f, (int64_t[]){T1, N1, D}, NULL), IS_BAD, FREE, "query: ", "512")
    ROW(a->key = fixture_tensor_of_format(f, ACL_FORMAT_FRACTAL_NZ, (int64_t[]){T2, N2, D}), IS_BAD, FREE,
        "key: ", "29", "row-major")
    ROW(a->attention_in = fixture_tensor_past_storage(f, (int64_t[]){T1, N1, DV}, (int64_t[]){0, DV, 1}), IS_BAD,
        FREE, "attentionOutOut: ", "stride 0")
    return false;
}

static fixture_group *const groups[] = {pointer_rows, shape_rows, size_rows, last_rows};

static void every_row(void **state)
{
    struct fixture *f = *state;
    struct row row;
    int rows = 0;
    for (size_t group = 0; group < sizeof groups / sizeof *groups; ++group) {
        for (int number = 0; groups[group](NULL, number, &row); ++number, ++rows) {
            fixture_open(f);
            test_tensor_fill_bytes(&f->call.out, 0xff);
            groups[group](f, number, &row);
            fixture_expect_refusal(f, attention_forward_phase1, function_name, (int)group * 100 + number, &row);
            assert_true(isnan(test_tensor_get(&f->call.out, 0)));
            fixture_close(f);
        }
    }
    assert_true(rows > 60);
}

/* Of two faults the one whose row stands earlier is told. */
static void the_earlier_fault_is_told(void **state)
{
    struct fixture *f = *state;
    struct row first, second;
    for (size_t group = 0; group + 1 < sizeof groups / sizeof *groups; ++group) {
        for (int number = 0; groups[group](NULL, number, &first); ++number) {
            fixture_open(f);
            groups[group + 1](f, (number * 5) % 10, &second);
            groups[group](f, number, &first); /* last, so that it stands where both change one argument */
            if (second.need == FREE && first.need == FREE) {
                fixture_expect_refusal(f, attention_forward_phase1, function_name, (int)group * 100 + number, &first);
            }
            fixture_close(f);
        }
    }
}

static void the_valid_call_is_accepted(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    attention_forward_verify_each_isa(&f->call);
    fixture_close(f);
}

/* --- versions -------------------------------------------------------------------------------------------- */

static void expect_status(struct fixture *f, aclnnStatus (*phase1)(struct attention_call *call), aclnnStatus status,
                          const char *text)
{
    assert_int_equal(phase1(&f->call), status);
    if (status == 0) {
        assert_int_equal(aclDestroyAclOpExecutor(f->call.executor), 0);
    } else {
        test_assert_message(text, NULL);
    }
}

static void drop_rope(struct attention_args *a)
{
    a->query_rope = a->key_rope = a->dq_rope = a->dk_rope = NULL;
}

/* Version 3 wants rope and BF16 unless the limits are extended; versions 4 and 5 do not. */
static void what_version_3_asks_for(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    drop_rope(f->a);
    set_dtype(f, AG_FLOAT);
    expect_status(f, attention_forward_phase1, IS_NULL, "queryRope: got null");
    f->call.c.version = 4;
    expect_status(f, attention_forward_phase1, 0, NULL);
    f->call.c.version = 5;
    expect_status(f, attention_forward_phase1, 0, NULL);
    f->call.c.version = 3;
    ag_config_set_limits(AG_LIMITS_EXTENDED);
    expect_status(f, attention_forward_phase1, 0, NULL);
    ag_config_set_limits(AG_LIMITS_DOCUMENTED);
    fixture_close(f);
}

static void softmax_layouts(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    drop_rope(f->a);
    for (int version = 4; version <= 5; ++version) {
        f->call.c.version = version;
        f->a->softmax_layout = "TND";
        expect_status(f, attention_forward_phase1, IS_BAD,
                      "softmaxOutLayout: got \"TND\", want \"\" or \"same_as_input\"");
        expect_status(f, attention_call_phase1, IS_BAD,
                      "softmaxInLayout: got \"TND\", want \"\" or \"same_as_input\"");
        static const char *const fine[] = {"", "same_as_input", NULL};
        for (int i = 0; i < 3; ++i) {
            f->a->softmax_layout = fine[i];
            expect_status(f, attention_forward_phase1, 0, NULL);
            expect_status(f, attention_call_phase1, 0, NULL);
        }
    }
    fixture_close(f);
}

static void sinks(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    f->call.c.version = 5;
    f->a->sink = TENSOR(AG_BF16, 1, N1);
    expect_status(f, attention_forward_phase1, IS_BAD, "sinkOptional: dtype BF16, want FLOAT");
    f->a->sink = TENSOR(AG_FLOAT, 1, N1 + 1);
    expect_status(f, attention_forward_phase1, IS_BAD, "sinkOptional: shape [5], want [4]");
    f->a->sink = TENSOR(AG_FLOAT, 1, N1);
    expect_status(f, attention_forward_phase1, 0, NULL);
    expect_status(f, attention_call_phase1, IS_NULL, "dsinkOut: got null");
    f->a->dsink = TENSOR(AG_FLOAT, 2, 1, N1);
    expect_status(f, attention_call_phase1, IS_BAD, "dsinkOut: shape [1, 4], want [4]");
    f->a->dsink = TENSOR(AG_BF16, 1, N1);
    expect_status(f, attention_call_phase1, IS_BAD, "dsinkOut: dtype BF16, want FLOAT");
    f->a->dsink = TENSOR(AG_FLOAT, 1, N1);
    expect_status(f, attention_call_phase1, 0, NULL);
    f->a->sink = TENSOR(AG_BF16, 1, N1);
    expect_status(f, attention_call_phase1, IS_BAD, "sinkInOptional: dtype BF16, want FLOAT");
    f->a->sink = NULL;
    expect_status(f, attention_call_phase1, IS_BAD, "dsinkOut: got a tensor with elements");
    f->a->dsink = TENSOR(AG_FLOAT, 1, 0);
    expect_status(f, attention_call_phase1, 0, NULL);
    fixture_close(f);
}

/* No version computes a pse or dropout. */
static void no_pse_no_dropout(void **state)
{
    static const int versions[] = {1, 2, 4, 5};
    struct fixture *f = *state;
    for (int i = 0; i < 4; ++i) {
        fixture_open(f);
        drop_rope(f->a);
        f->call.c.version = versions[i];
        expect_status(f, attention_call_phase1, 0, NULL);
        f->a->pse_shift = BF16(1, 1, 1);
        expect_status(f, attention_call_phase1, IS_BAD, "pseShiftOptional: got a tensor, want null");
        f->a->pse_shift = NULL;
        f->a->drop_mask = TENSOR(AG_UINT8, 1, 64);
        expect_status(f, attention_call_phase1, IS_BAD, "dropMaskOptional: got a tensor, want null");
        f->a->drop_mask = NULL;
        f->a->keep_prob = 0.5;
        expect_status(f, attention_call_phase1, IS_BAD, "keepProb: got 0.5, want 1");
        fixture_close(f);
    }
}

/* Every version of the gradient, and its executor with another's phase 2. */
static void every_version_computes(void **state)
{
    (void)state;
    for (int version = 1; version <= 5; ++version) {
        struct attention_case c = {
            .dtype = AG_FLOAT, .n1 = 4, .n2 = 2, .d = 16, .q_ends = {3, 8}, .version = version};
        struct attention_call call;
        c.is_as_input = version >= 4;
        c.layout = version >= 4 ? AG_SOFTMAX_TND : AG_SOFTMAX_CANN;
        c.has_sink = version == 5;
        attention_call_create(&call, &c);
        attention_call_verify_each_isa(&call);
        attention_call_destroy(&call);
    }
}

static int make_fixture(void **state)
{
    static struct fixture fixture;
    *state = &fixture;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_valid_call_is_accepted),
        cmocka_unit_test(every_row),
        cmocka_unit_test(the_earlier_fault_is_told),
        cmocka_unit_test(what_version_3_asks_for),
        cmocka_unit_test(softmax_layouts),
        cmocka_unit_test(sinks),
        cmocka_unit_test(no_pse_no_dropout),
        cmocka_unit_test(every_version_computes),
    };
    return cmocka_run_group_tests(tests, make_fixture, NULL);
}
