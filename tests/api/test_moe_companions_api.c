/* labels: smoke ci */
/* The mixture-of-experts companions' contracts with their caller: every constraint broken alone (status; a text that names
 * the argument, what it got and what it wanted; nothing written), and what is accepted though it looks odd. */
#include "support/moe_companions.h"

#include <string.h>

#include "aclnnop/aclnn_moe_token_permute_with_ep.h"
#include "aclnnop/aclnn_moe_token_permute_with_ep_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep.h"

/* --- a call whose arguments can be replaced one by one --------------------------------------------------- */

enum op { PERMUTE, PERMUTE_GRAD, UNPERMUTE, UNPERMUTE_GRAD, OPS };
enum { MOST_TENSORS = 6, MOST_DIMS = 3, UNTOUCHED_SIZE = 777 };

struct shape {
    int dtype, rank;
    int64_t dims[MOST_DIMS];
};

/* Two tokens, two experts each, hidden size 3; tensors in the order of the API. */
static const struct {
    struct shape tensors[MOST_TENSORS];
    int first_output, count;
} calls[OPS] = {
    [PERMUTE] = {{{AG_FLOAT, 2, {2, 3}},
                  {AG_INT32, 2, {2, 2}},
                  {AG_FLOAT16, 2, {2, 2}},
                  {AG_FLOAT, 2, {4, 3}},
                  {AG_INT32, 1, {4}},
                  {AG_FLOAT16, 1, {4}}},
                 3,
                 6},
    [PERMUTE_GRAD] = {{{AG_FLOAT, 2, {4, 3}},
                       {AG_INT32, 1, {4}},
                       {AG_FLOAT16, 1, {4}},
                       {AG_FLOAT, 2, {2, 3}},
                       {AG_FLOAT16, 2, {2, 2}}},
                      3,
                      5},
    [UNPERMUTE] = {{{AG_FLOAT, 2, {4, 3}}, {AG_INT32, 1, {4}}, {AG_FLOAT16, 2, {2, 2}}, {AG_FLOAT, 2, {2, 3}}}, 3, 4},
    [UNPERMUTE_GRAD] = {{{AG_FLOAT, 2, {4, 3}},
                         {AG_FLOAT, 2, {2, 3}},
                         {AG_INT32, 1, {4}},
                         {AG_FLOAT16, 2, {2, 2}},
                         {AG_FLOAT, 2, {4, 3}},
                         {AG_FLOAT16, 2, {2, 2}}},
                        4,
                        6},
};

struct call {
    enum op op;
    struct test_tensor tensors[MOST_TENSORS];
    int64_t range[3];
    int range_count; /* 0: no array */
    int64_t number;  /* numOutTokens, numTopk */
    bool padded_mode;
    uint64_t workspace_size;
    aclOpExecutor *executor;
};

static aclOpExecutor *const untouched_executor = (aclOpExecutor *)(uintptr_t)0x1234;

static void put(struct call *call, int at, struct shape shape)
{
    test_tensor_destroy(&call->tensors[at]);
    call->tensors[at] = test_tensor_create(shape.dtype, shape.rank, shape.dims);
    test_tensor_fill_bytes(&call->tensors[at], at >= calls[call->op].first_output ? 0xff : 0);
}

static void take_away(struct call *call, int at)
{
    test_tensor_destroy(&call->tensors[at]);
    call->tensors[at] = (struct test_tensor){.handle = NULL};
}

static struct call make_call(enum op op)
{
    struct call call = {
        .op = op, .number = op == PERMUTE ? 0 : 2, .workspace_size = UNTOUCHED_SIZE, .executor = untouched_executor};
    for (int i = 0; i < calls[op].count; ++i) {
        put(&call, i, calls[op].tensors[i]);
    }
    return call;
}

static void destroy_call(struct call *call)
{
    for (int i = 0; i < MOST_TENSORS; ++i) {
        test_tensor_destroy(&call->tensors[i]);
    }
}

static aclnnStatus phase1_to(const struct call *call, uint64_t *size, aclOpExecutor **executor)
{
    aclIntArray *range = call->range_count ? aclCreateIntArray(call->range, (uint64_t)call->range_count) : NULL;
    const bool padded = call->padded_mode;
    aclTensor *t[MOST_TENSORS];
    aclnnStatus status = -1;
    for (int i = 0; i < MOST_TENSORS; ++i) {
        t[i] = call->tensors[i].handle;
    }
    switch (call->op) {
    case PERMUTE:
        status = aclnnMoeTokenPermuteWithEpGetWorkspaceSize(t[0], t[1], t[2], range, call->number, padded, t[3], t[4],
                                                            t[5], size, executor);
        break;
    case PERMUTE_GRAD:
        status = aclnnMoeTokenPermuteWithEpGradGetWorkspaceSize(t[0], t[1], t[2], call->number, range, padded, t[3],
                                                                t[4], size, executor);
        break;
    case UNPERMUTE:
        status = aclnnMoeTokenUnpermuteWithEpGetWorkspaceSize(t[0], t[1], t[2], call->number, range, padded, NULL,
                                                              t[3], size, executor);
        break;
    default:
        status = aclnnMoeTokenUnpermuteGradGetWorkspaceSize(t[0], t[1], t[2], t[3], padded, NULL, t[4], t[5], size,
                                                            executor);
    }
    aclDestroyIntArray(range);
    return status;
}

static aclnnStatus phase1(struct call *call)
{
    return phase1_to(call, &call->workspace_size, &call->executor);
}

static companion_phase2 *const phases2[OPS] = {aclnnMoeTokenPermuteWithEp, aclnnMoeTokenPermuteWithEpGrad,
                                               aclnnMoeTokenUnpermuteWithEp, aclnnMoeTokenUnpermuteGrad};

static bool has_bytes(const struct test_tensor *tensor, int byte)
{
    for (size_t i = 0; i < tensor->buffer.bytes; ++i) {
        if (((const unsigned char *)tensor->buffer.data)[i] != byte) {
            return false;
        }
    }
    return true;
}

static void assert_nothing_written(const struct call *call)
{
    assert_int_equal(call->workspace_size, UNTOUCHED_SIZE);
    assert_ptr_equal(call->executor, untouched_executor);
    for (int i = calls[call->op].first_output; i < calls[call->op].count; ++i) {
        assert_true(has_bytes(&call->tensors[i], 0xff));
    }
}

static void assert_accepted(struct call *call)
{
    companion_require_success(phase1(call), "phase 1");
    companion_run_phase2(phases2[call->op], call->workspace_size, call->executor);
}

/* --- one row per broken rule ----------------------------------------------------------------------------- */

enum { NULLPTR = 161001, INVALID = 161002, TILING = 561002 };

struct broken {
    enum op op;
    int status;
    const char *texts[2];
    int tensor; /* that is replaced by `shape`, or taken away where its rank is -1; with rank 0 none is */
    struct shape shape;
    int range_count;
    int64_t range[3];
    int64_t number; /* where not 0; -99 stands for 0 */
    bool padded_mode;
};

#define GONE                                                                                                         \
    {                                                                                                                \
        .rank = -1                                                                                                   \
    }

static const struct broken broken_rules[] = {
    /* null */
    {PERMUTE, NULLPTR, {"tokens", "null"}, .tensor = 0, .shape = GONE},
    {PERMUTE, NULLPTR, {"indices", "null"}, .tensor = 1, .shape = GONE},
    {PERMUTE, NULLPTR, {"permuteTokensOut", "null"}, .tensor = 3, .shape = GONE},
    {PERMUTE, NULLPTR, {"sortedIndicesOut", "null"}, .tensor = 4, .shape = GONE},
    {PERMUTE, NULLPTR, {"permuteProbsOut", "null"}, .tensor = 5, .shape = GONE},
    {PERMUTE_GRAD, NULLPTR, {"permutedTokensOutputGrad", "null"}, .tensor = 0, .shape = GONE},
    {PERMUTE_GRAD, NULLPTR, {"sortedIndices", "null"}, .tensor = 1, .shape = GONE},
    {PERMUTE_GRAD, NULLPTR, {"tokenGradOut", "null"}, .tensor = 3, .shape = GONE},
    {PERMUTE_GRAD, NULLPTR, {"probsGradOut", "null"}, .tensor = 4, .shape = GONE},
    {UNPERMUTE, NULLPTR, {"permutedTokens", "null"}, .tensor = 0, .shape = GONE},
    {UNPERMUTE, NULLPTR, {"sortedIndices", "null"}, .tensor = 1, .shape = GONE},
    {UNPERMUTE, NULLPTR, {"out", "null"}, .tensor = 3, .shape = GONE},
    {UNPERMUTE_GRAD, NULLPTR, {"permutedTokensOptional", "no tensor"}, .tensor = 0, .shape = GONE},
    {UNPERMUTE_GRAD, NULLPTR, {"unpermutedTokensGrad", "null"}, .tensor = 1, .shape = GONE},
    {UNPERMUTE_GRAD, NULLPTR, {"sortedIndices", "null"}, .tensor = 2, .shape = GONE},
    {UNPERMUTE_GRAD, NULLPTR, {"permutedTokensGradOut", "null"}, .tensor = 4, .shape = GONE},
    {UNPERMUTE_GRAD, NULLPTR, {"probsGradOut", "null"}, .tensor = 5, .shape = GONE},
    /* types */
    {PERMUTE, INVALID, {"tokens", "dtype INT32"}, .tensor = 0, .shape = {AG_INT32, 2, {2, 3}}},
    {PERMUTE, INVALID, {"indices", "want INT32 or INT64"}, .tensor = 1, .shape = {AG_FLOAT, 2, {2, 2}}},
    {PERMUTE, INVALID, {"probsOptional", "dtype INT32"}, .tensor = 2, .shape = {AG_INT32, 2, {2, 2}}},
    {PERMUTE, INVALID, {"permuteTokensOut", "want FLOAT"}, .tensor = 3, .shape = {AG_BF16, 2, {4, 3}}},
    {PERMUTE, INVALID, {"sortedIndicesOut", "want INT32"}, .tensor = 4, .shape = {AG_INT64, 1, {4}}},
    {PERMUTE, INVALID, {"permuteProbsOut", "want FLOAT16"}, .tensor = 5, .shape = {AG_FLOAT, 1, {4}}},
    {PERMUTE_GRAD, INVALID, {"permutedTokensOutputGrad", "dtype INT32"}, .tensor = 0, .shape = {AG_INT32, 2, {4, 3}}},
    {PERMUTE_GRAD, INVALID, {"sortedIndices", "want INT32"}, .tensor = 1, .shape = {AG_INT64, 1, {4}}},
    {PERMUTE_GRAD,
     INVALID,
     {"permutedProbsOutputGradOptional", "dtype INT8"},
     .tensor = 2,
     .shape = {AG_INT8, 1, {4}}},
    {PERMUTE_GRAD, INVALID, {"tokenGradOut", "want FLOAT"}, .tensor = 3, .shape = {AG_FLOAT16, 2, {2, 3}}},
    {PERMUTE_GRAD, INVALID, {"probsGradOut", "want FLOAT16"}, .tensor = 4, .shape = {AG_FLOAT, 2, {2, 2}}},
    {UNPERMUTE, INVALID, {"permutedTokens", "dtype INT32"}, .tensor = 0, .shape = {AG_INT32, 2, {4, 3}}},
    {UNPERMUTE, INVALID, {"sortedIndices", "want INT32"}, .tensor = 1, .shape = {AG_INT64, 1, {4}}},
    {UNPERMUTE, INVALID, {"probsOptional", "dtype INT32"}, .tensor = 2, .shape = {AG_INT32, 2, {2, 2}}},
    {UNPERMUTE, INVALID, {"out", "want FLOAT"}, .tensor = 3, .shape = {AG_BF16, 2, {2, 3}}},
    {UNPERMUTE_GRAD, TILING, {"permutedTokensOptional", "want FLOAT"}, .tensor = 0, .shape = {AG_BF16, 2, {4, 3}}},
    {UNPERMUTE_GRAD, INVALID, {"sortedIndices", "want INT32"}, .tensor = 2, .shape = {AG_INT64, 1, {4}}},
    /* padded mode */
    {PERMUTE, INVALID, {"paddedMode", "want false"}, .padded_mode = true},
    {PERMUTE_GRAD, INVALID, {"paddedMode", "want false"}, .padded_mode = true},
    {UNPERMUTE, INVALID, {"paddedMode", "want false"}, .padded_mode = true},
    {UNPERMUTE_GRAD, INVALID, {"paddedMode", "want false"}, .padded_mode = true},
    /* ranks */
    {PERMUTE, TILING, {"tokens", "rank 3, want 2"}, .tensor = 0, .shape = {AG_FLOAT, 3, {2, 3, 1}}},
    {PERMUTE, TILING, {"indices", "rank 3, want 2"}, .tensor = 1, .shape = {AG_INT32, 3, {2, 2, 1}}},
    {PERMUTE, TILING, {"probsOptional", "rank 1, want 2"}, .tensor = 2, .shape = {AG_FLOAT16, 1, {4}}},
    {PERMUTE, TILING, {"permuteTokensOut", "rank 1, want 2"}, .tensor = 3, .shape = {AG_FLOAT, 1, {12}}},
    {PERMUTE, TILING, {"sortedIndicesOut", "rank 2, want 1"}, .tensor = 4, .shape = {AG_INT32, 2, {2, 2}}},
    {PERMUTE, TILING, {"permuteProbsOut", "rank 2, want 1"}, .tensor = 5, .shape = {AG_FLOAT16, 2, {2, 2}}},
    {PERMUTE_GRAD, TILING, {"permutedTokensOutputGrad", "rank 1, want 2"}, .tensor = 0, .shape = {AG_FLOAT, 1, {12}}},
    {PERMUTE_GRAD, TILING, {"sortedIndices", "rank 2, want 1"}, .tensor = 1, .shape = {AG_INT32, 2, {2, 2}}},
    {PERMUTE_GRAD,
     TILING,
     {"permutedProbsOutputGradOptional", "rank 2, want 1"},
     .tensor = 2,
     .shape = {AG_FLOAT16, 2, {2, 2}}},
    {PERMUTE_GRAD, TILING, {"tokenGradOut", "rank 1, want 2"}, .tensor = 3, .shape = {AG_FLOAT, 1, {6}}},
    {PERMUTE_GRAD, TILING, {"probsGradOut", "rank 1, want 2"}, .tensor = 4, .shape = {AG_FLOAT16, 1, {4}}},
    {UNPERMUTE, TILING, {"permutedTokens", "rank 1, want 2"}, .tensor = 0, .shape = {AG_FLOAT, 1, {12}}},
    {UNPERMUTE, TILING, {"sortedIndices", "rank 2, want 1"}, .tensor = 1, .shape = {AG_INT32, 2, {2, 2}}},
    {UNPERMUTE, TILING, {"probsOptional", "rank 1, want 2"}, .tensor = 2, .shape = {AG_FLOAT16, 1, {4}}},
    {UNPERMUTE, TILING, {"out", "rank 1, want 2"}, .tensor = 3, .shape = {AG_FLOAT, 1, {6}}},
    /* sizes */
    {PERMUTE, TILING, {"tokens", "0 tokens"}, .tensor = 0, .shape = {AG_FLOAT, 2, {0, 3}}},
    {PERMUTE, TILING, {"tokens", "hidden size 0"}, .tensor = 0, .shape = {AG_FLOAT, 2, {2, 0}}},
    {PERMUTE, TILING, {"indices: dim 1", "got 0"}, .tensor = 1, .shape = {AG_INT32, 2, {2, 0}}},
    {PERMUTE, TILING, {"indices: dim 1", "got 513, want 1 to 512"}, .tensor = 1, .shape = {AG_INT32, 2, {2, 513}}},
    {PERMUTE, TILING, {"indices", "shape [3, 2], want [2, 2]"}, .tensor = 1, .shape = {AG_INT32, 2, {3, 2}}},
    {PERMUTE, TILING, {"indices", "shape [4], want [2]"}, .tensor = 1, .shape = {AG_INT32, 1, {4}}},
    {PERMUTE,
     TILING,
     {"sortedIndicesOut", "5 entries, want tokens * topk"},
     .tensor = 4,
     .shape = {AG_INT32, 1, {5}}},
    {PERMUTE, TILING, {"probsOptional", "want [2, 2]"}, .tensor = 2, .shape = {AG_FLOAT16, 2, {2, 3}}},
    {PERMUTE, TILING, {"permuteTokensOut", "hidden size 4"}, .tensor = 3, .shape = {AG_FLOAT, 2, {4, 4}}},
    {PERMUTE, TILING, {"permuteTokensOut", "3 rows, want at least 4"}, .tensor = 3, .shape = {AG_FLOAT, 2, {3, 3}}},
    {PERMUTE, TILING, {"permuteProbsOut", "3 rows, want at least 4"}, .tensor = 5, .shape = {AG_FLOAT16, 1, {3}}},
    {PERMUTE_GRAD, TILING, {"numTopk", "got 0"}, .number = -99},
    {PERMUTE_GRAD, TILING, {"numTopk", "got -1"}, .number = -1},
    {PERMUTE_GRAD, TILING, {"numTopk", "want 1 to 512"}, .number = 513},
    {PERMUTE_GRAD, TILING, {"sortedIndices", "4 entries, want tokens * topk = 2 * 3"}, .number = 3},
    {PERMUTE_GRAD, TILING, {"sortedIndices", "got 0 entries"}, .tensor = 1, .shape = {AG_INT32, 1, {0}}},
    {PERMUTE_GRAD,
     TILING,
     {"permutedTokensOutputGrad", "hidden size 4"},
     .tensor = 0,
     .shape = {AG_FLOAT, 2, {4, 4}}},
    {PERMUTE_GRAD, TILING, {"permutedTokensOutputGrad", "got 0 rows"}, .tensor = 0, .shape = {AG_FLOAT, 2, {0, 3}}},
    {PERMUTE_GRAD,
     TILING,
     {"permutedProbsOutputGradOptional", "want [4]"},
     .tensor = 2,
     .shape = {AG_FLOAT16, 1, {5}}},
    {PERMUTE_GRAD, TILING, {"probsGradOut", "want [2, 2]"}, .tensor = 4, .shape = {AG_FLOAT16, 2, {4, 1}}},
    {UNPERMUTE, TILING, {"numTopk", "got 0"}, .number = -99},
    {UNPERMUTE, TILING, {"numTopk", "want 1 to 512"}, .number = 513},
    {UNPERMUTE, TILING, {"sortedIndices", "4 entries, want tokens * topk = 2 * 1"}, .number = 1},
    {UNPERMUTE, TILING, {"probsOptional", "want [2, 2]"}, .tensor = 2, .shape = {AG_FLOAT16, 2, {2, 3}}},
    {UNPERMUTE, TILING, {"permutedTokens", "hidden size 4"}, .tensor = 0, .shape = {AG_FLOAT, 2, {4, 4}}},
    {UNPERMUTE, TILING, {"permutedTokens", "got 0 rows"}, .tensor = 0, .shape = {AG_FLOAT, 2, {0, 3}}},
    {UNPERMUTE_GRAD,
     TILING,
     {"sortedIndices", "5 entries, want tokens * topk"},
     .tensor = 2,
     .shape = {AG_INT32, 1, {5}}},
    {UNPERMUTE_GRAD,
     TILING,
     {"permutedTokensGradOut", "3 rows, want at least 4"},
     .tensor = 4,
     .shape = {AG_FLOAT, 2, {3, 3}}},
    /* range */
    {PERMUTE, TILING, {"rangeOptional", "got 1 values"}, .range_count = 1},
    {PERMUTE, TILING, {"rangeOptional", "got [-1, 4)"}, .range_count = 2, .range = {-1, 4}},
    {PERMUTE, TILING, {"rangeOptional", "got [0, 5)"}, .range_count = 2, .range = {0, 5}},
    {PERMUTE, TILING, {"rangeOptional", "got [3, 2)"}, .range_count = 2, .range = {3, 2}},
    {PERMUTE_GRAD, TILING, {"rangeOptional", "got 3 values"}, .range_count = 3},
    {PERMUTE_GRAD, TILING, {"rangeOptional", "got [3, 2)"}, .range_count = 2, .range = {3, 2}},
    {UNPERMUTE, TILING, {"rangeOptional", "got 1 values"}, .range_count = 1},
    {UNPERMUTE, TILING, {"rangeOptional", "got [-1, 2)"}, .range_count = 2, .range = {-1, 2}},
};

static void check_refused(size_t number, const struct broken *rule)
{
    struct call call = make_call(rule->op);
    if (rule->shape.rank > 0) {
        put(&call, rule->tensor, rule->shape);
    } else if (rule->shape.rank < 0) {
        take_away(&call, rule->tensor);
    }
    call.range_count = rule->range_count;
    memcpy(call.range, rule->range, sizeof call.range);
    call.number = rule->number == -99 ? 0 : rule->number != 0 ? rule->number : call.number;
    call.padded_mode = rule->padded_mode;
    const aclnnStatus status = phase1(&call);
    if (status != rule->status) {
        fail_msg("row %zu (%s, %s): status %d, want %d", number, rule->texts[0], rule->texts[1], (int)status,
                 rule->status);
    }
    test_assert_message(rule->texts[0], rule->texts[1], NULL);
    assert_nothing_written(&call);
    destroy_call(&call);
}

static void every_broken_rule_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken_rules / sizeof *broken_rules; ++i) {
        check_refused(i, &broken_rules[i]);
    }
}

/* --- rules that concern the call or two tensors ---------------------------------------------------------- */

static void results_need_addresses(void **state)
{
    (void)state;
    for (int op = 0; op < OPS; ++op) {
        struct call call = make_call((enum op)op);
        assert_int_equal(phase1_to(&call, NULL, &call.executor), NULLPTR);
        test_assert_message("workspaceSize", "null", NULL);
        assert_int_equal(phase1_to(&call, &call.workspace_size, NULL), NULLPTR);
        test_assert_message("executor", "null", NULL);
        assert_nothing_written(&call);
        destroy_call(&call);
    }
}

/* Another handle for the memory that `at` has; dims with or without a gap between the rows. */
static aclTensor *second_handle(const struct call *call, int at, void *data, int64_t row_stride, int format)
{
    const struct ag_view *v = &call->tensors[at].view;
    const int64_t strides[2] = {v->rank == 2 ? row_stride : 1, 1};
    return aclCreateTensor(v->dims, (uint64_t)v->rank, (aclDataType)v->dtype, strides, 0, (aclFormat)format, v->dims,
                           0, data);
}

/* Calls phase 1 with tensor `at` replaced by another handle. */
static aclnnStatus phase1_with(struct call *call, int at, aclTensor *other)
{
    aclTensor *const own = call->tensors[at].handle;
    call->tensors[at].handle = other;
    const aclnnStatus status = phase1(call);
    call->tensors[at].handle = own;
    aclDestroyTensor(other);
    return status;
}

static void outputs_are_dense_and_alone(void **state)
{
    static const char *const names[OPS][MOST_TENSORS] = {
        {NULL, NULL, NULL, "permuteTokensOut", "sortedIndicesOut", "permuteProbsOut"},
        {NULL, NULL, NULL, "tokenGradOut", "probsGradOut"},
        {NULL, NULL, NULL, "out"},
        {NULL, NULL, NULL, NULL, "permutedTokensGradOut", "probsGradOut"}};
    (void)state;
    for (int op = 0; op < OPS; ++op) {
        for (int at = calls[op].first_output; at < calls[op].count; ++at) {
            struct call call = make_call((enum op)op);
            if (call.tensors[at].view.rank == 2) {
                const int64_t gap = call.tensors[at].view.dims[1] + 1;
                assert_int_equal(phase1_with(&call, at, second_handle(&call, at, call.tensors[at].view.data, gap, 2)),
                                 INVALID);
                test_assert_message(names[op][at], "strided view", NULL);
            }
            for (int other = 0; other < at; ++other) { /* every earlier tensor's memory */
                aclTensor *shared =
                    second_handle(&call, at, call.tensors[other].view.data, call.tensors[at].view.dims[1], 2);
                assert_int_equal(phase1_with(&call, at, shared), INVALID);
                test_assert_message(names[op][at], "overlaps", NULL);
            }
            assert_nothing_written(&call);
            destroy_call(&call);
        }
    }
}

static void formats_are_plain(void **state)
{
    (void)state;
    for (int op = 0; op < OPS; ++op) {
        for (int at = 0; at < calls[op].count; ++at) {
            struct call call = make_call((enum op)op);
            aclTensor *private = second_handle(&call, at, call.tensors[at].view.data, call.tensors[at].view.dims[1],
                                               ACL_FORMAT_FRACTAL_NZ);
            assert_int_equal(phase1_with(&call, at, private), INVALID);
            test_assert_message("format", "want ND", NULL);
            assert_nothing_written(&call);
            destroy_call(&call);
        }
    }
}

/* The addresses may change after phase 1. */
static void overlaps_are_found_in_phase_2(void **state)
{
    (void)state;
    for (int op = 0; op < OPS; ++op) {
        struct call call = make_call((enum op)op);
        const int out = calls[op].first_output;
        companion_require_success(phase1(&call), "phase 1");
        struct test_buffer workspace = test_buffer_create(call.workspace_size, 64);
        assert_int_equal(
            aclSetTensorAddr(call.executor, (size_t)out, call.tensors[out].handle, call.tensors[0].view.data), 0);
        assert_int_equal(phases2[op](workspace.data, call.workspace_size, call.executor, NULL), INVALID);
        test_assert_message("overlaps", NULL);
        test_buffer_destroy(&workspace);
        destroy_call(&call);
    }
}

/* Outputs and inputs that move after phase 1: the new places count, the old ones stay as they are. */
static void tensors_may_move_between_the_phases(void **state)
{
    (void)state;
    for (int op = 0; op < OPS; ++op) {
        struct call call = make_call((enum op)op), moved = make_call((enum op)op);
        companion_require_success(phase1(&call), "phase 1");
        for (int at = 0; at < calls[op].count; ++at) {
            assert_int_equal(
                aclSetTensorAddr(call.executor, (size_t)at, call.tensors[at].handle, moved.tensors[at].view.data), 0);
        }
        companion_run_phase2(phases2[op], call.workspace_size, call.executor);
        for (int at = calls[op].first_output; at < calls[op].count; ++at) {
            assert_true(has_bytes(&call.tensors[at], 0xff));
            assert_false(has_bytes(&moved.tensors[at], 0xff));
        }
        destroy_call(&call);
        destroy_call(&moved);
    }
}

static void operators_do_not_run_each_others_executors(void **state)
{
    (void)state;
    for (int op = 0; op < OPS; ++op) {
        struct call call = make_call((enum op)op);
        companion_require_success(phase1(&call), "phase 1");
        struct test_buffer workspace = test_buffer_create(call.workspace_size, 64);
        assert_int_equal(phases2[(op + 1) % OPS](workspace.data, call.workspace_size, call.executor, NULL), INVALID);
        test_assert_message("executor", NULL);
        test_buffer_destroy(&workspace);
        destroy_call(&call);
    }
}

/* --- accepted though it looks odd ------------------------------------------------------------------------ */

static void probs_are_optional(void **state)
{
    static const int probs_of[OPS] = {2, 2, 2, 3}, out_of[OPS] = {5, 4, -1, -1};
    (void)state;
    for (int op = 0; op < OPS; ++op) {
        for (int has_out = 0; has_out < 2; ++has_out) {
            struct call call = make_call((enum op)op);
            take_away(&call, probs_of[op]);
            if (!has_out && out_of[op] >= 0) {
                take_away(&call, out_of[op]);
            }
            assert_accepted(&call);
            if (has_out && out_of[op] >= 0) {
                assert_true(has_bytes(&call.tensors[out_of[op]], 0xff)); /* not touched */
            }
            destroy_call(&call);
        }
    }
}

/* A rank without tokens has no rows; all else is there. */
static void a_rank_without_tokens_is_normal(void **state)
{
    (void)state;
    struct call permute = make_call(PERMUTE), grad = make_call(PERMUTE_GRAD), unpermute = make_call(UNPERMUTE);
    permute.range_count = grad.range_count = unpermute.range_count = 2; /* [0, 0) */
    put(&permute, 3, (struct shape){AG_FLOAT, 2, {0, 3}});
    put(&permute, 5, (struct shape){AG_FLOAT16, 1, {0}});
    put(&grad, 0, (struct shape){AG_FLOAT, 2, {0, 3}});
    put(&grad, 2, (struct shape){AG_FLOAT16, 1, {0}});
    put(&unpermute, 0, (struct shape){AG_FLOAT, 2, {0, 3}});
    assert_accepted(&permute);
    assert_accepted(&grad);
    assert_accepted(&unpermute);
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(((int32_t *)permute.tensors[4].view.data)[i], i); /* all experts are 0: in order */
    }
    assert_true(has_bytes(&grad.tensors[3], 0));
    assert_true(has_bytes(&grad.tensors[4], 0));
    assert_true(has_bytes(&unpermute.tensors[3], 0));
    destroy_call(&permute);
    destroy_call(&grad);
    destroy_call(&unpermute);
}

static void outputs_without_elements_need_nothing(void **state)
{
    (void)state;
    for (int op = 0; op < OPS; ++op) {
        struct call call = make_call((enum op)op);
        for (int at = calls[op].first_output; at < calls[op].count; ++at) {
            struct shape empty = calls[op].tensors[at];
            empty.dims[0] = 0;
            put(&call, at, empty);
        }
        assert_int_equal(phase1(&call), 0);
        assert_int_equal(call.workspace_size, 0);
        assert_int_equal(phases2[op](NULL, 0, call.executor, NULL), 0);
        destroy_call(&call);
    }
}

/* Without probs and without topkNum: K is N / T. */
static void unpermute_grad_finds_the_experts_per_token(void **state)
{
    (void)state;
    struct call call = make_call(UNPERMUTE_GRAD);
    take_away(&call, 0);
    take_away(&call, 3);
    for (int i = 0; i < 6; ++i) {
        test_tensor_set(&call.tensors[1], i, i + 1);
    }
    for (int i = 0; i < 4; ++i) {
        test_tensor_set(&call.tensors[2], i, 3 - i);
    }
    assert_accepted(&call);
    static const double want[] = {4, 5, 6, 4, 5, 6, 1, 2, 3, 1, 2, 3};
    for (int i = 0; i < 12; ++i) {
        assert_true(test_tensor_get(&call.tensors[4], i) == want[i]);
    }
    destroy_call(&call);
}

static void extended_limits_lift_the_number_of_experts(void **state)
{
    const struct ag_config config = ag_config_get();
    (void)state;
    test_configure(config.threads, config.isa, AG_LIMITS_EXTENDED);
    struct call call = make_call(UNPERMUTE);
    call.number = 600;
    put(&call, 1, (struct shape){AG_INT32, 1, {1200}});
    put(&call, 2, (struct shape){AG_FLOAT16, 2, {2, 600}});
    assert_accepted(&call);
    destroy_call(&call);
    test_configure(config.threads, config.isa, config.limits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_broken_rule_is_named),
        cmocka_unit_test(results_need_addresses),
        cmocka_unit_test(outputs_are_dense_and_alone),
        cmocka_unit_test(formats_are_plain),
        cmocka_unit_test(overlaps_are_found_in_phase_2),
        cmocka_unit_test(tensors_may_move_between_the_phases),
        cmocka_unit_test(operators_do_not_run_each_others_executors),
        cmocka_unit_test(probs_are_optional),
        cmocka_unit_test(a_rank_without_tokens_is_normal),
        cmocka_unit_test(outputs_without_elements_need_nothing),
        cmocka_unit_test(unpermute_grad_finds_the_experts_per_token),
        cmocka_unit_test(extended_limits_lift_the_number_of_experts),
    };
    return cmocka_run_group_tests_name("moe companions, calls", tests, NULL, NULL);
}
