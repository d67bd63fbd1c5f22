/* One row per broken rule: status, and a message that names the argument, what it got and what it wanted; nothing
 * written, nothing left behind. The rows stand in the order of the checks, and of two faults the earlier is told. */
#include <math.h>
#include <string.h>

#include "support/attention_fixture.h"

static const char function_name[] = "aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize: ";

static void drop_rope(struct attention_args *a)
{
    a->query_rope = a->key_rope = a->dq_rope = a->dk_rope = NULL;
}

static void set_key_heads(struct fixture *f, int64_t heads)
{
    struct attention_args *a = f->a;
    drop_rope(a);
    a->key = BF16(T2, heads, D);
    a->dk = BF16(T2, heads, D);
    a->value = BF16(T2, heads, DV);
    a->dv = BF16(T2, heads, DV);
}

static void set_dim(struct fixture *f, int64_t dim)
{
    struct attention_args *a = f->a;
    a->query = BF16(T1, N1, dim);
    a->dq = BF16(T1, N1, dim);
    a->key = BF16(T2, N2, dim);
    a->dk = BF16(T2, N2, dim);
}

/* Without rope, whose rows would be compared first. */
static void set_rows(struct fixture *f, int64_t query_rows, int64_t key_rows)
{
    struct attention_args *a = f->a;
    drop_rope(a);
    a->query = BF16(query_rows, N1, D);
    a->dq = BF16(query_rows, N1, D);
    a->dy = BF16(query_rows, N1, DV);
    a->attention_in = BF16(query_rows, N1, DV);
    a->key = BF16(key_rows, N2, D);
    a->dk = BF16(key_rows, N2, D);
    a->value = BF16(key_rows, N2, DV);
    a->dv = BF16(key_rows, N2, DV);
}

static void set_value_dim(struct fixture *f, int64_t dim)
{
    struct attention_args *a = f->a;
    a->value = BF16(T2, N2, dim);
    a->dv = BF16(T2, N2, dim);
    a->dy = BF16(T1, N1, dim);
    a->attention_in = BF16(T1, N1, dim);
}

static void set_dtype(struct fixture *f, int dtype)
{
    struct attention_args *a = f->a;
    a->query = TENSOR(dtype, 3, T1, N1, D);
    a->dq = TENSOR(dtype, 3, T1, N1, D);
    a->key = TENSOR(dtype, 3, T2, N2, D);
    a->dk = TENSOR(dtype, 3, T2, N2, D);
    a->value = TENSOR(dtype, 3, T2, N2, DV);
    a->dv = TENSOR(dtype, 3, T2, N2, DV);
    a->dy = TENSOR(dtype, 3, T1, N1, DV);
}

/* Another sparse mode, with a mask of rows x 2048. */
static void set_mode(struct fixture *f, int64_t mode, int64_t rows)
{
    f->a->sparse_mode = mode;
    f->a->atten_mask = TENSOR(AG_UINT8, 2, rows, 2048);
    if (mode == 6) {
        drop_rope(f->a);
        fixture_set_tokens(f->a, 0, 0); /* not looked at in this mode */
    }
}

/* --- the rows -------------------------------------------------------------------------------------------- */

static bool pointer_rows(struct fixture *f, int number, struct row *row)
{
    int at = 0;
    ROW(a->executor = NULL, IS_NULL, FREE, "executor", "null")
    ROW(a->workspace_size = NULL, IS_NULL, FREE, "workspaceSize", "null")
    ROW(a->input_layout = NULL, IS_NULL, FREE, "inputLayout", "null", "TND")
    ROW(a->input_layout = "", IS_BAD, FREE, "inputLayout is empty, expected TND")
    ROW(a->input_layout = "BSND", IS_BAD, FREE, "inputLayout", "\"BSND\"", "\"TND\"")
    ROW(a->input_layout = "tnd", IS_BAD, FREE, "inputLayout", "\"tnd\"", "\"TND\"")
    ROW(a->query = NULL, IS_NULL, FREE, "query: ", "null")
    ROW(a->key = NULL, IS_NULL, FREE, "keyIn: ", "null")
    ROW(a->value = NULL, IS_NULL, FREE, "value: ", "null")
    ROW(a->dy = NULL, IS_NULL, FREE, "dy: ", "null")
    ROW(a->attention_in = NULL, IS_NULL, FREE, "attentionInOptional: ", "null")
    ROW(a->dq = NULL, IS_NULL, FREE, "dqOut: ", "null")
    ROW(a->dk = NULL, IS_NULL, FREE, "dkOut: ", "null")
    ROW(a->dv = NULL, IS_NULL, FREE, "dvOut: ", "null")
    ROW(a->head_num = 0, IS_BAD, FREE, "headNum: got 0")
    ROW(a->head_num = -4, IS_BAD, FREE, "headNum: got -4")
    return false;
}

static bool shape_rows(struct fixture *f, int number, struct row *row)
{
    int at = 0;
    ROW(a->query = TENSOR(AG_INT32, 3, T1, N1, D), IS_BAD, FREE, "query: ", "INT32", "FLOAT, FLOAT16 or BF16")
    ROW(a->query = TENSOR(AG_DOUBLE, 3, T1, N1, D), IS_BAD, FREE, "query: ", "DOUBLE", "FLOAT, FLOAT16 or BF16")
    ROW(a->key = TENSOR(AG_FLOAT16, 3, T2, N2, D), IS_BAD, FREE, "keyIn: ", "FLOAT16", "BF16")
    ROW(a->value = TENSOR(AG_FLOAT, 3, T2, N2, DV), IS_BAD, FREE, "value: ", "FLOAT", "BF16")
    ROW(a->dy = TENSOR(AG_FLOAT16, 3, T1, N1, DV), IS_BAD, FREE, "dy: ", "FLOAT16", "BF16")
    ROW(a->query = TENSOR(AG_BF16, 1, 2), IS_BAD, FREE, "query: ", "rank 1", "rank 3 [T, N, D]")
    ROW(a->key = TENSOR(AG_BF16, 4, 1, T2, N2, D), IS_BAD, FREE, "keyIn: ", "rank 4", "rank 3")
    ROW(a->value = TENSOR(AG_BF16, 2, T2, DV), IS_BAD, FREE, "value: ", "rank 2", "rank 3")
    ROW(a->dy = TENSOR(AG_BF16, 2, T1, DV), IS_BAD, FREE, "dy: ", "rank 2", "rank 3")
    ROW(a->attention_in = SCALAR(AG_BF16), IS_BAD, FREE, "attentionInOptional: ", "rank 0", "rank 3")
    ROW(a->dq = TENSOR(AG_BF16, 2, T1, D), IS_BAD, FREE, "dqOut: ", "rank 2", "rank 3")
    ROW(a->dk = TENSOR(AG_BF16, 4, 1, T2, N2, D), IS_BAD, FREE, "dkOut: ", "rank 4", "rank 3")
    ROW(a->dv = TENSOR(AG_BF16, 2, T2, DV), IS_BAD, FREE, "dvOut: ", "rank 2", "rank 3")
    ROW(a->value = BF16(T2 + 1, N2, DV), IS_BAD, FREE, "value: ", "[10, 2, 8]", "[9, 2, 8]")
    ROW(a->value = BF16(T2, N1, DV), IS_BAD, FREE, "value: ", "[9, 4, 8]", "[9, 2, 8]")
    ROW(a->dy = BF16(T1 - 1, N1, DV), IS_BAD, FREE, "dy: ", "[7, 4, 8]", "[8, 4, 8]")
    ROW(a->attention_in = BF16(T1, N1, D), IS_BAD, FREE, "attentionInOptional: ", "[8, 4, 16]", "[8, 4, 8]")
    ROW(a->query_rope = TENSOR(AG_BF16, 2, T1, DR), IS_BAD, NEEDS_ROPE, "queryRope: ", "rank 2", "rank 3")
    ROW(a->key_rope = TENSOR(AG_BF16, 2, T2, DR), IS_BAD, NEEDS_ROPE, "keyInRope: ", "rank 2", "rank 3")
    ROW(a->query_rope = BF16(T1, N2, DR), IS_BAD, NEEDS_ROPE, "queryRope: ", "[8, 2, 8]", "[8, 4, 8]")
    ROW(a->key_rope = BF16(T1, N2, DR), IS_BAD, NEEDS_ROPE, "keyInRope: ", "[8, 2, 8]", "[9, 2, 8]")
    ROW(a->key_rope = BF16(T2, N2, 16), IS_BAD, NEEDS_ROPE, "keyInRope: ", "16", "8")
    ROW(a->query_rope = BF16(T1, N1, 800);
        a->key_rope = BF16(T2, N2, 800), IS_BAD, NEEDS_ROPE, "queryRope: ", "800", "at most D = ")
    ROW(a->dq_rope = BF16(T1, N1, 16), IS_BAD, NEEDS_ROPE, "dqRopeOut: ", "[8, 4, 16]", "[8, 4, 8]")
    ROW(a->dk_rope = BF16(T2, N2, 16), IS_BAD, NEEDS_ROPE, "dkRopeOut: ", "[9, 2, 16]", "[9, 2, 8]")
    ROW(a->dk_rope = BF16(T2, N2, 16);
        a->dq_rope = NULL, IS_BAD, NEEDS_ROPE, "dkRopeOut: ", "[9, 2, 16]", "[9, 2, 8]")
    ROW(a->dq = BF16(T1, N1, DV), IS_BAD, FREE, "dqOut: ", "[8, 4, 8]", "[8, 4, 16]")
    ROW(a->dk = BF16(T1, N2, D), IS_BAD, FREE, "dkOut: ", "[8, 2, 16]", "[9, 2, 16]")
    ROW(a->dv = BF16(T2, N2, D), IS_BAD, FREE, "dvOut: ", "[9, 2, 16]", "[9, 2, 8]")
    ROW(a->dq = TENSOR(AG_FLOAT, 3, T1, N1, D), IS_BAD, FREE, "dqOut: ", "FLOAT", "BF16")
    ROW(a->dk = TENSOR(AG_FLOAT16, 3, T2, N2, D), IS_BAD, FREE, "dkOut: ", "FLOAT16", "BF16")
    ROW(a->dv = TENSOR(AG_FLOAT, 3, T2, N2, DV), IS_BAD, FREE, "dvOut: ", "FLOAT", "BF16")
    ROW(a->dq_rope = TENSOR(AG_FLOAT16, 3, T1, N1, DR), IS_BAD, NEEDS_ROPE, "dqRopeOut: ", "FLOAT16", "BF16")
    ROW(a->dk_rope = TENSOR(AG_FLOAT, 3, T2, N2, DR), IS_BAD, NEEDS_ROPE, "dkRopeOut: ", "FLOAT", "BF16")
    ROW(a->key = BF16(T2, N2, 8); a->dk = BF16(T2, N2, 8), IS_BAD, FREE, "keyIn: ", "8", "D = 16")
    ROW(set_value_dim(f, 800), IS_BAD, FREE, "value: ", "800", "at most D = ")
    ROW(a->dy = BF16(T1, N1, 4); a->attention_in = BF16(T1, N1, 4), IS_BAD, FREE, "dy: ", "4", "Dv = 8")
    return false;
}

static bool list_rows(struct fixture *f, int number, struct row *row)
{
    int at = 0;
    ROW(a->actual_seq_q = NULL, IS_NULL, FREE, "actualSeqQLenOptional: ", "null")
    ROW(a->actual_seq_q = LIST(0, 0), IS_NULL, FREE, "actualSeqQLenOptional: ", "size 0")
    ROW(a->actual_seq_q = LIST(2, 3, T1 + 1), IS_BAD, FREE, "actualSeqQLenOptional: ", "9", "T = 8")
    ROW(a->actual_seq_q = LIST(4, 3, 8, 3, 8), IS_BAD, FREE, "actualSeqQLenOptional[2]: ", "got 3", "at least 8")
    ROW(a->actual_seq_q = LIST(2, -1, 8), IS_BAD, FREE, "actualSeqQLenOptional[0]: ", "got -1", "at least 0")
    ROW(a->actual_seq_q = LIST(4, 3, 0, 0, 5), IS_BAD, FREE, "actualSeqQLenOptional[3]: ", "got 5", "want 0")
    ROW(a->actual_seq_kv = NULL, IS_NULL, FREE, "actualSeqKvLenOptional: ", "null")
    ROW(a->actual_seq_kv = LIST(0, 0), IS_NULL, FREE, "actualSeqKvLenOptional: ", "size 0")
    ROW(a->actual_seq_kv = LIST(2, 5, T2 + 1), IS_BAD, FREE, "actualSeqKvLenOptional: ", "10", "T = 9")
    ROW(a->actual_seq_kv = LIST(2, 5, 4), IS_BAD, FREE, "actualSeqKvLenOptional[1]: ", "got 4", "at least 5")
    return false;
}

static bool rope_rows(struct fixture *f, int number, struct row *row)
{
    int at = 0;
    ROW(a->key_rope = NULL, IS_NULL, LONE_ROPE, "keyInRope: ", "null", "queryRope")
    ROW(a->query_rope = NULL, IS_NULL, LONE_ROPE, "queryRope: ", "null", "keyInRope")
    ROW(a->query_rope = TENSOR(AG_FLOAT16, 3, T1, N1, DR);
        a->dq_rope = NULL, IS_BAD, NEEDS_ROPE, "queryRope: ", "FLOAT16", "BF16")
    ROW(a->key_rope = TENSOR(AG_FLOAT16, 3, T2, N2, DR);
        a->dk_rope = NULL, IS_BAD, NEEDS_ROPE, "keyInRope: ", "FLOAT16", "BF16")
    ROW(set_dtype(f, AG_FLOAT16), IS_BAD, NEEDS_ROPE, "query: ", "FLOAT16", "BF16")
    ROW(a->sparse_mode = 6, IS_BAD, NEEDS_ROPE, "sparseMode: ", "got 6", "rope")
    ROW(a->atten_mask = NULL, IS_NULL, NEEDS_ROPE, "attenMaskOptional: ", "null", "queryRope")
    ROW(a->atten_mask = SCALAR(AG_UINT8), IS_NULL, NEEDS_ROPE, "attenMaskOptional: ", "null", "queryRope")
    ROW(a->atten_mask = TENSOR(AG_UINT8, 2, 0, 5), IS_NULL, NEEDS_ROPE, "attenMaskOptional: ", "null", "queryRope")
    ROW(a->pse_shift = BF16(1, 1, 1), IS_BAD, NEEDS_ROPE, "pseShiftOptional: ", "want null")
    ROW(a->pse_shift = SCALAR(AG_BF16), IS_BAD, NEEDS_ROPE, "pseShiftOptional: ", "want null")
    ROW(a->drop_mask = TENSOR(AG_UINT8, 1, 64), IS_BAD, NEEDS_ROPE, "dropMaskOptional: ", "want null")
    ROW(a->keep_prob = 0.9, IS_BAD, NEEDS_ROPE, "keepProb: ", "0.9", "want 1")
    ROW(set_dim(f, 12), IS_BAD, NEEDS_ROPE, "query: ", "12", "multiple of 8")
    ROW(a->query_rope = BF16(T1, N1, 4); a->key_rope = BF16(T2, N2, 4);
        a->dq_rope = a->dk_rope = NULL, IS_BAD, NEEDS_ROPE, "queryRope: ", "4", "multiple of 8")
    return false;
}

static bool head_rows(struct fixture *f, int number, struct row *row)
{
    int at = 0;
    ROW(a->softmax_max = NULL, IS_NULL, FREE, "softmaxMaxOptional: ", "null")
    ROW(a->softmax_max = SCALAR(AG_FLOAT), IS_NULL, FREE, "softmaxMaxOptional: ", "null")
    ROW(a->softmax_sum = NULL, IS_NULL, FREE, "softmaxSumOptional: ", "null")
    ROW(a->head_num = 3, IS_BAD, FREE, "headNum: ", "got 3", "want 4")
    ROW(a->actual_seq_kv = LIST(3, 5, 9, 9), IS_BAD, FREE, "actualSeqKvLenOptional: ", "3", "2")
    ROW(set_key_heads(f, 0), IS_BAD, DROPS_ROPE, "keyIn: ", "0 heads", "at least 1")
    ROW(set_key_heads(f, 8), IS_BAD, DROPS_ROPE, "keyIn: ", "8 heads", "4")
    ROW(set_key_heads(f, 3), IS_BAD, DROPS_ROPE, "keyIn: ", "3 heads", "4")
    ROW(set_dim(f, 776), IS_BAD, FREE, "query: ", "776", "at most 768")
    ROW(drop_rope(a); a->keep_prob = 0, IS_BAD, DROPS_ROPE, "keepProb: ", "got 0", "want 1")
    ROW(drop_rope(a); a->keep_prob = 1.5, IS_BAD, DROPS_ROPE, "keepProb: ", "got 1.5", "want 1")
    ROW(drop_rope(a); a->keep_prob = NAN, IS_BAD, DROPS_ROPE, "keepProb: ", "nan", "want 1")
    return false;
}

static bool mask_rows(struct fixture *f, int number, struct row *row)
{
    int at = 0;
    ROW(a->sparse_mode = -1, IS_BAD, FREE, "sparseMode: ", "got -1", "0, 1, 2, 3, 4, 6, 7 or 8")
    ROW(a->sparse_mode = 5, IS_BAD, FREE, "sparseMode: ", "got 5", "0, 1, 2, 3, 4, 6, 7 or 8")
    ROW(a->sparse_mode = 9, IS_BAD, FREE, "sparseMode: ", "got 9", "0, 1, 2, 3, 4, 6, 7 or 8")
    ROW(a->atten_mask = TENSOR(AG_FLOAT16, 2, 5, 5), IS_BAD, FREE, "attenMaskOptional: ", "FLOAT16", "BOOL or UINT8")
    ROW(a->atten_mask = TENSOR(AG_UINT8, 3, 1, 5, 5), IS_BAD, FREE, "attenMaskOptional: ", "[1, 5, 5]",
        "[B, N, Sq, Skv], [B, 1, Sq, Skv]")
    ROW(a->atten_mask = TENSOR(AG_BOOL, 4, 1, N1, 5, 5), IS_BAD, FREE, "attenMaskOptional: ", "[1, 4, 5, 5]",
        "[1, 1, Sq, Skv] or [Sq, Skv]")
    ROW(a->atten_mask = TENSOR(AG_BOOL, 4, 3, 1, 5, 5), IS_BAD, FREE, "attenMaskOptional: ", "[3, 1, 5, 5]", "B = 2")
    ROW(a->atten_mask = TENSOR(AG_BOOL, 4, 2, N2, 5, 5), IS_BAD, FREE, "attenMaskOptional: ", "[2, 2, 5, 5]", "N = 4")
    ROW(a->atten_mask = TENSOR(AG_BOOL, 2, 4, 5), IS_BAD, FREE, "attenMaskOptional: ", "[4, 5]", "Sq >= 5")
    ROW(a->atten_mask = TENSOR(AG_UINT8, 4, 1, 1, 5, 4), IS_BAD, FREE, "attenMaskOptional: ", "[1, 1, 5, 4]",
        "Skv >= 5")
    ROW(a->atten_mask = TENSOR(AG_UINT8, 4, 1, 1, 1, 600), IS_BAD, FREE, "attenMaskOptional: ", "[1, 1, 1, 600]",
        "[B, N, Sq, Skv]")
    ROW(set_mode(f, 3, 512), IS_BAD, FREE, "attenMaskOptional: ", "[512, 2048]", "[2048, 2048] for sparseMode 3")
    ROW(set_mode(f, 4, 3072), IS_BAD, FREE, "attenMaskOptional: ", "[3072, 2048]", "[2048, 2048] for sparseMode 4")
    ROW(set_mode(f, 6, 2048), IS_BAD, DROPS_ROPE, "attenMaskOptional: ", "[2048, 2048]",
        "[3072, 2048] for sparseMode 6")
    ROW(fixture_set_tokens(a, -6, 99), IS_BAD, FREE, "preTokens: ", "got -6", "at least -5")
    ROW(fixture_set_tokens(a, 99, -6), IS_BAD, FREE, "nextTokens: ", "got -6", "at least -3")
    ROW(fixture_set_tokens(a, 0, 0), IS_BAD, FREE, "preTokens, nextTokens: ", "got 0 and 0", "above 0")
    ROW(fixture_set_tokens(a, INT64_MIN, 99), IS_BAD, FREE, "preTokens: ", "got -9223372036854775808", "at least -5")
    ROW(fixture_set_tokens(a, INT64_MAX, INT64_MIN), IS_BAD, FREE, "nextTokens: ", "got -9223372036854775808",
        "at least -3")
    ROW(set_mode(f, 4, 2048); fixture_set_tokens(a, -4, 99), IS_BAD, FREE, "preTokens: ", "got -4", "at least -3")
    ROW(set_mode(f, 4, 2048); fixture_set_tokens(a, 99, -5), IS_BAD, FREE, "nextTokens: ", "got -5", "at least -4")
    ROW(set_mode(f, 4, 2048);
        fixture_set_tokens(a, 1, -1), IS_BAD, FREE, "preTokens, nextTokens: ", "got 1 and -1", "above 0")
    ROW(set_mode(f, 7, 2048); fixture_set_tokens(a, -6, 99), IS_BAD, FREE, "preTokens: ", "got -6", "sequence 1")
    ROW(set_mode(f, 8, 2048); fixture_set_tokens(a, -4, 99), IS_BAD, FREE, "preTokens: ", "got -4", "sequence 0")
    return false;
}

static bool last_rows(struct fixture *f, int number, struct row *row)
{
    int at = 0;
    ROW(a->pse_type = 2, IS_BAD, FREE, "pseType: ", "got 2", "want 1")
    ROW(a->pse_type = -1, IS_BAD, FREE, "pseType: ", "got -1", "want 1")
    ROW(a->softmax_max = TENSOR(AG_BF16, 3, T1, N1, 8), IS_BAD, FREE, "softmaxMaxOptional: ", "BF16", "want FLOAT")
    ROW(a->softmax_max = TENSOR(AG_FLOAT, 3, T1, N1, 1), IS_BAD, FREE, "softmaxMaxOptional: ", "[8, 4, 1]",
        "[8, 4, 8]")
    ROW(a->softmax_max = TENSOR(AG_FLOAT, 2, T1, N1), IS_BAD, FREE, "softmaxMaxOptional: ", "[8, 4]", "[8, 4, 8]")
    ROW(a->softmax_max = TENSOR(AG_FLOAT, 1, 0), IS_BAD, FREE, "softmaxMaxOptional: ", "[0]", "[8, 4, 8]")
    ROW(a->softmax_sum = TENSOR(AG_FLOAT, 3, T1 + 1, N1, 8), IS_BAD, FREE, "softmaxSumOptional: ", "[9, 4, 8]",
        "[8, 4, 8]")
    ROW(a->attention_in = TENSOR(AG_FLOAT, 3, T1, N1, DV), IS_BAD, FREE, "attentionInOptional: ", "FLOAT", "BF16")
    ROW(set_mode(f, 6, 3072), IS_NULL, DROPS_ROPE, "prefixOptional: ", "null", "sparseMode 6")
    ROW(set_mode(f, 6, 3072);
        a->prefix = LIST(0, 0), IS_NULL, DROPS_ROPE, "prefixOptional: ", "size 0", "sparseMode 6")
    ROW(set_mode(f, 6, 3072);
        a->prefix = LIST(3, 1, 1, 1), IS_BAD, DROPS_ROPE, "prefixOptional: ", "3 values", "want 2")
    ROW(a->dpse = BF16(1, 1, 1), IS_BAD, FREE, "dpseOut: ", "want null")
    ROW(a->dpse = SCALAR(AG_BF16), IS_BAD, FREE, "dpseOut: ", "want null")
    ROW(a->query_rope = a->key_rope = a->dk_rope = NULL, IS_BAD, DROPS_ROPE, "dqRopeOut: ", "without queryRope")
    ROW(a->query_rope = a->key_rope = a->dq_rope = NULL, IS_BAD, DROPS_ROPE, "dkRopeOut: ", "without keyInRope")
    ROW(drop_rope(a); a->pse_shift = BF16(1, 1, 1), IS_BAD, DROPS_ROPE, "pseShiftOptional: ", "want null")
    ROW(drop_rope(a); a->drop_mask = TENSOR(AG_UINT8, 1, 64), IS_BAD, DROPS_ROPE, "dropMaskOptional: ", "want null")
    ROW(a->query = fixture_tensor_past_storage(f, (int64_t[]){T1, N1, D}, NULL), IS_BAD, FREE, "query: ", "512")
    ROW(a->key = fixture_tensor_of_format(f, ACL_FORMAT_FRACTAL_NZ, (int64_t[]){T2, N2, D}), IS_BAD, FREE,
        "keyIn: ", "29", "row-major")
    ROW(a->dq = fixture_tensor_past_storage(f, (int64_t[]){T1, N1, D}, (int64_t[]){0, D, 1}), IS_BAD, FREE,
        "dqOut: ", "stride 0")
    ROW(a->dv = fixture_tensor_past_storage(f, (int64_t[]){T2, N2, DV}, NULL), IS_BAD, FREE, "dvOut: ", "144")
    return false;
}

/* The groups in the order of the checks. */
static fixture_group *const groups[] = {pointer_rows, shape_rows, list_rows, rope_rows,
                                        head_rows,    mask_rows,  last_rows};

enum { GROUPS = sizeof groups / sizeof *groups, MOST_IN_GROUP = 64 };

static bool apply(struct fixture *f, int id, struct row *row)
{
    return groups[id / MOST_IN_GROUP](f, id % MOST_IN_GROUP, row);
}

/* --- every row ------------------------------------------------------------------------------------------- */

static void expect_nan(const struct test_tensor *output)
{
    for (int64_t i = 0; i < test_tensor_elems(output); ++i) {
        assert_true(isnan(test_tensor_get(output, i)));
    }
}

static void every_row(void **state)
{
    struct fixture *f = *state;
    struct row row;
    int rows = 0;
    for (int id = 0; id < GROUPS * MOST_IN_GROUP; ++id) {
        if (apply(NULL, id, &row)) {
            fixture_open(f);
            test_tensor_fill_bytes(&f->call.dq, 0xff);
            test_tensor_fill_bytes(&f->call.dv, 0xff);
            apply(f, id, &row);
            fixture_expect_refusal(f, attention_call_phase1, function_name, id, &row);
            expect_nan(&f->call.dq);
            expect_nan(&f->call.dv);
            fixture_close(f);
            ++rows;
        }
    }
    assert_true(rows > 110);
}

/* Not among the rows: with so many rows the rules about lengths could not be broken. */
static void more_rows_than_memory_are_refused_at_once(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    set_rows(f, INT64_C(2147483649), T2);
    assert_int_equal(attention_call_phase1(&f->call), 161002);
    test_assert_message("query: ", "2147483649 rows", "at most 2147483648", NULL);
    set_rows(f, T1, INT64_C(2147483649));
    assert_int_equal(attention_call_phase1(&f->call), 161002);
    test_assert_message("keyIn: ", "2147483649 rows", "at most 2147483648", NULL);
    fixture_close(f);
}

static void the_valid_call_is_accepted(void **state)
{
    struct fixture *f = *state;
    fixture_open(f);
    assert_int_equal(attention_call_phase1(&f->call), 0);
    assert_int_equal(aclDestroyAclOpExecutor(f->call.executor), 0);
    fixture_close(f);
}

/* --- the order ------------------------------------------------------------------------------------------- */

/* Two rows that change the same argument cannot both stand. */
static bool changes_meet(struct fixture *f, int first, int second)
{
    struct attention_args before, after_first, after_second;
    struct row row;
    before = *f->a;
    apply(f, first, &row);
    after_first = *f->a;
    *f->a = before;
    apply(f, second, &row);
    after_second = *f->a;
    *f->a = before;
    for (size_t at = 0; at < sizeof before; at += sizeof(void *)) {
        if (memcmp((char *)&before + at, (char *)&after_first + at, sizeof(void *)) != 0 &&
            memcmp((char *)&before + at, (char *)&after_second + at, sizeof(void *)) != 0) {
            return true;
        }
    }
    return false;
}

static bool ropes_clash(const struct row *a, const struct row *b)
{
    return a->need != FREE && b->need != FREE && (a->need != b->need || a->need == LONE_ROPE);
}

static void check_pair(struct fixture *f, int first, int second, int *pairs)
{
    struct row row;
    fixture_open(f);
    if (!changes_meet(f, first, second)) {
        apply(f, second, &row);
        apply(f, first, &row);
        const aclnnStatus status = attention_call_phase1(&f->call);
        const char *message = ag_error_take();
        if (status != row.status || !message || !strstr(message, row.texts[0])) {
            fail_msg("row %d (%s) before row %d: status %d, message %s", first, row.texts[0], second, status,
                     message);
        }
        ++*pairs;
    }
    fixture_close(f);
}

static void the_earlier_fault_is_told(void **state)
{
    struct row first_row, second_row;
    int pairs = 0;
    for (int first = 0; first < GROUPS * MOST_IN_GROUP; ++first) {
        for (int second = first + 1; second < GROUPS * MOST_IN_GROUP;
             second += 1 + first % 3) { /* about half of all */
            if (apply(NULL, first, &first_row) && apply(NULL, second, &second_row) &&
                !ropes_clash(&first_row, &second_row)) {
                check_pair(*state, first, second, &pairs);
            }
        }
    }
    assert_true(pairs > 2000);
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
        cmocka_unit_test(more_rows_than_memory_are_refused_at_once),
        cmocka_unit_test(the_earlier_fault_is_told),
    };
    return cmocka_run_group_tests(tests, make_fixture, NULL);
}
