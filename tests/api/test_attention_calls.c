/* labels: smoke ci */
/* The two phases as a program meets them: what may be freed between them, what counts as absent, empty tensors, misuse,
 * repeatable executors, and a program of the documented shape. */
#define _DEFAULT_SOURCE /* setenv */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "base/memory.h"
#include "support/attention_problem.h"

static const struct attention_case rope_case = {.dtype = AG_BF16,
                                                .n1 = 4,
                                                .n2 = 2,
                                                .d = 16,
                                                .dr = 8,
                                                .dv = 8,
                                                .q_ends = {30, 70},
                                                .kv_ends = {50, 90},
                                                .mode = 3,
                                                .mask_shape = TEST_MASK_COMPRESSED};
static const struct attention_case plain_case = {.dtype = AG_FLOAT, .n1 = 2, .d = 8, .q_ends = {30, 70}};

static aclnnStatus phase2(struct attention_call *call, void *workspace)
{
    return aclnnFlashAttentionUnpaddingScoreGradV3(workspace, call->workspace_size, call->executor, NULL);
}

static void *workspace_of(const struct attention_call *call)
{
    void *workspace = malloc((size_t)call->workspace_size + 1);
    assert_non_null(workspace);
    return workspace;
}

/* --- between the phases ---------------------------------------------------------------------------------- */

/* The layout string, the lists and all tensors are gone before phase 2; only memory stays. */
static void arguments_may_die_between_the_phases(void **state)
{
    struct attention_call kept, gone;
    char layout[] = "TND";
    (void)state;
    attention_call_create(&kept, &rope_case);
    attention_call_create(&gone, &rope_case);
    attention_call_run(&kept);
    gone.args.input_layout = layout;
    assert_int_equal(attention_call_phase1(&gone), 0);
    memset(layout, 'X', sizeof layout);
    struct test_tensor *const tensors[] = {&gone.q,   &gone.qr,  &gone.k,  &gone.kr,  &gone.v,  &gone.dy,  &gone.max,
                                           &gone.sum, &gone.out, &gone.dq, &gone.dqr, &gone.dk, &gone.dkr, &gone.dv};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i) {
        aclDestroyTensor(tensors[i]->handle);
    }
    aclDestroyIntArray(gone.q_list);
    aclDestroyIntArray(gone.kv_list);
    gone.q_list = gone.kv_list = NULL;
    void *workspace = workspace_of(&gone);
    assert_int_equal(phase2(&gone, workspace), 0);
    free(workspace);
    attention_call_assert_same(&kept, &gone);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i) {
        tensors[i]->handle = NULL;
        test_buffer_destroy(&tensors[i]->buffer);
    }
    attention_call_destroy(&kept);
    attention_call_destroy(&gone);
}

static void prefix_list_may_die_too(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT,
                                     .n1 = 2,
                                     .d = 8,
                                     .q_ends = {30, 70},
                                     .kv_ends = {40, 60},
                                     .mode = 6,
                                     .prefix = {33, 9},
                                     .mask_shape = TEST_MASK_COMPRESSED};
    struct attention_call kept, gone;
    (void)state;
    attention_call_create(&kept, &c);
    attention_call_create(&gone, &c);
    attention_call_verify(&kept);
    assert_int_equal(attention_call_phase1(&gone), 0);
    aclDestroyIntArray(gone.prefix);
    gone.prefix = aclCreateIntArray((const int64_t[]){0, 0}, 2);
    void *workspace = workspace_of(&gone);
    assert_int_equal(phase2(&gone, workspace), 0);
    free(workspace);
    attention_call_assert_same(&kept, &gone);
    attention_call_destroy(&kept);
    attention_call_destroy(&gone);
}

/* --- misuse of phase 2 ----------------------------------------------------------------------------------- */

static void misuse_of_phase_2(void **state)
{
    struct attention_call call;
    const int64_t live = ag_alloc_live();
    (void)state;
    attention_call_create(&call, &rope_case);
    const int64_t live_with_call = ag_alloc_live();
    assert_int_equal(aclnnFlashAttentionUnpaddingScoreGradV3(NULL, 0, NULL, NULL), 161001);
    test_assert_message("aclnnFlashAttentionUnpaddingScoreGradV3: executor", NULL);

    assert_int_equal(attention_call_phase1(&call), 0);
    assert_true(call.workspace_size > 0);
    assert_int_equal(phase2(&call, NULL), 161001);
    test_assert_message("aclnnFlashAttentionUnpaddingScoreGradV3: workspace", NULL);
    assert_int_equal(ag_alloc_live(), live_with_call); /* the executor is consumed all the same */

    void *workspace = workspace_of(&call);
    assert_int_equal(attention_call_phase1(&call), 0);
    assert_int_equal(aclnnFlashAttentionUnpaddingScoreGradV3(workspace, call.workspace_size - 1, call.executor, NULL),
                     161002);
    test_assert_message("workspaceSize", NULL);
    assert_int_equal(ag_alloc_live(), live_with_call);

    assert_int_equal(attention_call_phase1(&call), 0);
    assert_int_equal(phase2(&call, workspace), 0);
    assert_int_equal(phase2(&call, workspace), 161002); /* twice */
    test_assert_message("executor", "used up", NULL);
    free(workspace);
    attention_call_destroy(&call);
    assert_int_equal(ag_alloc_live(), live);
}

static void any_workspace_address_will_do(void **state)
{
    struct attention_call even, odd;
    (void)state;
    attention_call_create(&even, &rope_case);
    attention_call_create(&odd, &rope_case);
    attention_call_run(&even);
    assert_int_equal(attention_call_phase1(&odd), 0);
    char *workspace = malloc((size_t)odd.workspace_size + 1);
    assert_non_null(workspace);
    assert_int_equal(phase2(&odd, workspace + 1), 0);
    free(workspace);
    attention_call_assert_same(&even, &odd);
    attention_call_destroy(&even);
    attention_call_destroy(&odd);
}

/* Every allocation of phase 1 fails once: an error, nothing kept, nothing written. */
static void out_of_memory(void **state)
{
    struct attention_call call;
    bool has_failed = true;
    (void)state;
    attention_call_create(&call, &rope_case);
    const int64_t live = ag_alloc_live();
    for (int64_t nth = 1; has_failed; ++nth) {
        call.executor = NULL;
        ag_alloc_fail_at(nth);
        const aclnnStatus status = attention_call_phase1(&call);
        has_failed = ag_alloc_has_failed();
        ag_alloc_fail_at(0);
        if (has_failed) {
            assert_int_equal(status, 561101);
            assert_null(call.executor);
            test_assert_message("out of memory", NULL);
        } else {
            assert_int_equal(status, 0);
            aclDestroyAclOpExecutor(call.executor);
            assert_true(nth > 2);
        }
        assert_int_equal(ag_alloc_live(), live);
    }
    attention_call_destroy(&call);
}

/* --- repeatable executors -------------------------------------------------------------------------------- */

/* The same executor over another call's memory gives the other call's bits. Operands are numbered as in the list of
 * parameters: inputs, then outputs. */
static void a_repeatable_executor_moves(void **state)
{
    struct attention_case other_case = rope_case;
    struct attention_call call, other, want;
    (void)state;
    other_case.seed = 99;
    attention_call_create(&call, &rope_case);
    attention_call_create(&other, &other_case);
    attention_call_create(&want, &other_case);
    attention_call_run(&want);
    assert_int_equal(attention_call_phase1(&call), 0);
    assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
    void *workspace = workspace_of(&call);
    assert_int_equal(phase2(&call, workspace), 0);
    const struct {
        size_t index;
        const struct test_tensor *tensor;
    } inputs[] = {{0, &other.q},  {1, &other.qr},   {2, &other.k},    {3, &other.kr},  {4, &other.v},
                  {5, &other.dy}, {10, &other.max}, {11, &other.sum}, {13, &other.out}},
      outputs[] = {{0, &other.dq}, {1, &other.dqr}, {2, &other.dk}, {3, &other.dkr}, {4, &other.dv}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; ++i) {
        assert_int_equal(aclSetInputTensorAddr(call.executor, inputs[i].index, inputs[i].tensor->handle,
                                               inputs[i].tensor->buffer.data),
                         0);
    }
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; ++i) {
        assert_int_equal(aclSetOutputTensorAddr(call.executor, outputs[i].index, outputs[i].tensor->handle,
                                                outputs[i].tensor->buffer.data),
                         0);
    }
    assert_int_equal(phase2(&call, workspace), 0);
    attention_call_assert_same(&want, &other);
    /* An output moved onto an input after the workspace was measured without room for that: refused, not wrong. */
    assert_int_equal(aclSetOutputTensorAddr(call.executor, 0, other.dq.handle, other.q.buffer.data), 0);
    assert_true(phase2(&call, workspace) != 0);
    test_assert_message("shares memory", NULL);
    assert_int_equal(aclSetOutputTensorAddr(call.executor, 0, other.dq.handle, other.dq.buffer.data), 0);
    assert_int_equal(aclSetOutputTensorAddr(call.executor, 2, other.dk.handle, other.dq.buffer.data), 0);
    assert_int_equal(phase2(&call, workspace), 161002);
    test_assert_message("dkOut: shares memory with dqOut", NULL);
    free(workspace);
    assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
    attention_call_destroy(&call);
    attention_call_destroy(&other);
    attention_call_destroy(&want);
}

/* --- outputs in their inputs' memory ---------------------------------------------------------------------- */

/* Every gradient over what it is the gradient of, under all strides: the bits of the call whose outputs lie elsewhere, and
 * no byte between the elements (attention_call_destroy looks). */
static void outputs_over_their_inputs(void **state)
{
    static const enum test_views views[] = {TEST_VIEWS_DENSE, TEST_VIEWS_PADDED, TEST_VIEWS_TRANSPOSED,
                                            TEST_VIEWS_SPREAD};
    char text[8192];
    (void)state;
    assert_int_equal(setenv("ACLGRAD_VERBOSE", "plan", 1), 0);
    ag_config_reload();
    for (size_t i = 0; i < sizeof views / sizeof *views; ++i) {
        struct attention_case c = rope_case;
        struct attention_call apart, over;
        c.views = views[i];
        attention_call_create(&apart, &c);
        attention_call_create(&over, &c);
        attention_call_run(&apart);
        over.args.dq = over.q.handle;
        over.args.dq_rope = over.qr.handle;
        over.args.dk = over.k.handle;
        over.args.dk_rope = over.kr.handle;
        over.args.dv = over.v.handle;
        const struct test_stderr kept = test_stderr_begin();
        attention_call_run(&over);
        test_stderr_end(kept, text, sizeof text);
        assert_non_null(strstr(text, "outputs-overlap-inputs:staged"));
        assert_true(over.workspace_size > apart.workspace_size);
        test_assert_same_bits("dq over query", &apart.dq, &over.q);
        test_assert_same_bits("dqRope over queryRope", &apart.dqr, &over.qr);
        test_assert_same_bits("dk over keyIn", &apart.dk, &over.k);
        test_assert_same_bits("dkRope over keyInRope", &apart.dkr, &over.kr);
        test_assert_same_bits("dv over value", &apart.dv, &over.v);
        attention_call_destroy(&apart);
        attention_call_destroy(&over);
    }
    unsetenv("ACLGRAD_VERBOSE");
    ag_config_reload();
}

/* One buffer for two gradients is refused. */
static void outputs_over_each_other(void **state)
{
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &plain_case);
    call.args.dv = call.args.dk;
    assert_int_equal(attention_call_phase1(&call), 161002);
    test_assert_message("dvOut: shares memory with dkOut", NULL);
    attention_call_destroy(&call);
}

/* --- what counts as absent ------------------------------------------------------------------------------- */

/* Ignored arguments of any kind, empty tensors and lists for optional ones: the same bits. */
static void absent_in_every_way(void **state)
{
    struct attention_call bare, dressed;
    float memory[4] = {0};
    (void)state;
    attention_call_create(&bare, &plain_case);
    attention_call_create(&dressed, &plain_case);
    attention_call_run(&bare);
    aclTensor *empty =
        aclCreateTensor((const int64_t[]){0}, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, (const int64_t[]){0}, 1, NULL);
    aclTensor *scalar = aclCreateTensor(NULL, 0, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, memory);
    aclTensor *some =
        aclCreateTensor((const int64_t[]){4}, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, (const int64_t[]){4}, 1, NULL);
    aclIntArray *none = aclCreateIntArray(NULL, 0), *junk = aclCreateIntArray((const int64_t[]){7, 7, 7}, 3);
    assert_true(empty && scalar && some && none && junk);
    struct attention_args *a = &dressed.args;
    a->query_rope = a->key_rope = a->dq_rope = a->dk_rope = empty;
    a->pse_shift = scalar;
    a->drop_mask = empty;
    a->padding_mask = some; /* ignored, so even without memory */
    a->softmax_in = some;
    a->atten_mask = scalar;
    a->prefix = none;
    a->q_start = none;
    a->kv_start = junk;
    a->dpse = empty;
    a->inner_precise = 17;
    a->pse_type = 0;
    attention_call_run(&dressed);
    attention_call_assert_same(&bare, &dressed);
    a->prefix = junk; /* ignored but in mode 6 */
    a->atten_mask = empty;
    a->padding_mask = NULL;
    attention_call_run(&dressed);
    attention_call_assert_same(&bare, &dressed);
    aclDestroyTensor(empty);
    aclDestroyTensor(scalar);
    aclDestroyTensor(some);
    aclDestroyIntArray(none);
    aclDestroyIntArray(junk);
    attention_call_destroy(&bare);
    attention_call_destroy(&dressed);
}

/* Lists that are fine: [3, 8, 11, 16], and prefixes as many as sequences before the tail. */
static void lists_that_are_accepted(void **state)
{
    const struct attention_case rising = {.dtype = AG_FLOAT, .d = 8, .q_ends = {3, 8, 11, 16}};
    const struct attention_case tail = {.dtype = AG_FLOAT,
                                        .d = 8,
                                        .count = 4,
                                        .q_ends = {3, 8, 0, 0},
                                        .kv_ends = {3, 8, 0, 0},
                                        .mode = 6,
                                        .prefix = {1, 2},
                                        .mask_shape = TEST_MASK_COMPRESSED};
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &rising);
    attention_call_verify(&call);
    attention_call_destroy(&call);
    attention_call_create(&call, &tail);
    attention_call_verify(&call);
    aclDestroyIntArray(call.prefix);
    call.args.prefix = call.prefix = aclCreateIntArray((const int64_t[]){1, 2}, 2);
    attention_call_verify(&call);
    attention_call_destroy(&call);
}

/* A mask for as many sequences as there are before the zero tail is one for all. */
static void masks_without_the_tail(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT,
                                     .n1 = 2,
                                     .d = 8,
                                     .count = 4,
                                     .q_ends = {3, 8, 0, 0},
                                     .kv_ends = {4, 9, 0, 0},
                                     .mode = 1,
                                     .mask_shape = TEST_MASK_B1SS,
                                     .mask_bytes = TEST_MASK_RANDOM};
    struct attention_call all, live;
    (void)state;
    attention_call_create(&all, &c);
    attention_call_create(&live, &c);
    const int64_t dims[4] = {2, 1, all.mask.view.dims[2], all.mask.view.dims[3]};
    struct test_tensor mask = test_tensor_create(all.mask.view.dtype, 4, dims);
    for (int64_t at = 0; at < test_tensor_elems(&mask); ++at) {
        test_tensor_set(&mask, at, test_tensor_get(&all.mask, at));
    }
    live.args.atten_mask = mask.handle;
    attention_call_run(&all);
    attention_call_run(&live);
    attention_call_assert_same(&all, &live);
    test_tensor_destroy(&mask);
    attention_call_destroy(&all);
    attention_call_destroy(&live);
}

/* --- empty tensors --------------------------------------------------------------------------------------- */

/* All outputs empty: success before any other check, workspace 0. */
static void nothing_to_do(void **state)
{
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &plain_case);
    struct test_tensor empty = test_tensor_create(AG_FLOAT, 3, (const int64_t[]){0, 2, 8});
    call.args.dq = call.args.dk = call.args.dv = empty.handle;
    call.args.head_num = 0;
    call.args.actual_seq_q = NULL;
    call.workspace_size = 77;
    assert_int_equal(attention_call_phase1(&call), 0);
    assert_int_equal(call.workspace_size, 0);
    assert_int_equal(phase2(&call, NULL), 0);
    call.args.dpse = call.q.handle; /* an output with elements: the other checks come */
    assert_int_equal(attention_call_phase1(&call), 161002);
    test_assert_message("headNum", NULL);
    test_tensor_destroy(&empty);
    attention_call_destroy(&call);
}

/* Rows on one side only: the other side's gradients are zeros. */
static void one_side_empty(void **state)
{
    const struct attention_case no_queries = {
        .dtype = AG_BF16, .n1 = 2, .d = 8, .count = 1, .q_ends = {0}, .kv_ends = {5}};
    const struct attention_case no_keys = {
        .dtype = AG_BF16, .n1 = 2, .d = 8, .count = 2, .q_ends = {3, 3}, .kv_ends = {0, 0}};
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &no_queries);
    attention_call_run(&call);
    for (int64_t at = 0; at < 5 * 8; ++at) {
        assert_true(test_tensor_get(&call.dk, at) == 0 && test_tensor_get(&call.dv, at) == 0);
    }
    attention_call_destroy(&call);
    struct attention_case c = no_keys;
    attention_call_create(&call, &c);
    /* the fixture takes all-zero kv_ends for "as q": make the keys empty by hand */
    struct test_tensor none = test_tensor_create(AG_BF16, 3, (const int64_t[]){0, 1, 8});
    aclIntArray *zeros = aclCreateIntArray((const int64_t[]){0, 0}, 2);
    call.args.key = call.args.value = call.args.dk = call.args.dv = none.handle;
    call.args.actual_seq_kv = zeros;
    attention_call_run(&call);
    for (int64_t at = 0; at < 3 * 16; ++at) {
        assert_true(test_tensor_get(&call.dq, at) == 0);
    }
    aclDestroyIntArray(zeros);
    test_tensor_destroy(&none);
    attention_call_destroy(&call);
}

/* Ropes without rows belong to a pack without rows; they are not "absent". */
static void ropes_without_rows(void **state)
{
    const struct attention_case c = {.dtype = AG_BF16,
                                     .n1 = 2,
                                     .d = 8,
                                     .dr = 8,
                                     .count = 1,
                                     .q_ends = {0},
                                     .kv_ends = {5},
                                     .mode = 3,
                                     .mask_shape = TEST_MASK_COMPRESSED};
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &c);
    attention_call_run(&call);
    for (int64_t at = 0; at < 5 * 8; ++at) {
        assert_true(test_tensor_get(&call.dk, at) == 0 && test_tensor_get(&call.dkr, at) == 0);
    }
    attention_call_destroy(&call);
}

/* A value without columns: dv has nothing, dq and dk are zeros. */
static void no_value_columns(void **state)
{
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &plain_case);
    struct test_tensor value = test_tensor_create(AG_FLOAT, 3, (const int64_t[]){70, 1, 0});
    struct test_tensor dy = test_tensor_create(AG_FLOAT, 3, (const int64_t[]){70, 2, 0});
    call.args.value = call.args.dv = value.handle;
    call.args.dy = call.args.attention_in = dy.handle;
    attention_call_run(&call);
    for (int64_t at = 0; at < test_tensor_elems(&call.dq); ++at) {
        assert_true(test_tensor_get(&call.dq, at) == 0);
    }
    for (int64_t at = 0; at < test_tensor_elems(&call.dk); ++at) {
        assert_true(test_tensor_get(&call.dk, at) == 0);
    }
    test_tensor_destroy(&value);
    test_tensor_destroy(&dy);
    attention_call_destroy(&call);
}

/* --- the documented program ------------------------------------------------------------------------------ */

/* float 1.0 uploaded into BF16 tensors: elements are 0, 1, 0, 1, ... */
static void fill_halves_of_ones(struct test_tensor *tensor)
{
    for (int64_t at = 0; at < test_tensor_elems(tensor); ++at) {
        test_tensor_set(tensor, at, (double)(at % 2));
    }
}

/* q, k, v [256, 1, 128], rope 64, mask zeros [256, 256] in mode 0, max = sum = 3: P = exp(S - 3) / 3 is 80.37 and is
 * taken as it is. */
static void the_documented_program(void **state)
{
    const struct attention_case c = {.dtype = AG_BF16,
                                     .d = 128,
                                     .dr = 64,
                                     .q_ends = {256},
                                     .pre = 65536,
                                     .next = 65536,
                                     .scale = 0.088388,
                                     .mask_shape = TEST_MASK_SS};
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &c);
    struct test_tensor *const ones[] = {&call.q, &call.qr, &call.k, &call.kr, &call.v, &call.dy, &call.out};
    for (size_t i = 0; i < sizeof ones / sizeof *ones; ++i) {
        fill_halves_of_ones(ones[i]);
    }
    test_tensor_fill_value(&call.max, 3);
    test_tensor_fill_value(&call.sum, 3);
    TEST_EACH_ISA (isa) {
        ag_config_set_isa(isa);
        attention_call_run(&call);
        for (int64_t at = 0; at < 256 * 128; ++at) {
            assert_true(test_tensor_get(&call.dq, at) == 0 && test_tensor_get(&call.dk, at) == 0);
            assert_true(test_tensor_get(&call.dv, at) == (at % 2 ? 20608 : 0));
        }
        for (int64_t at = 0; at < 256 * 64; ++at) {
            assert_true(test_tensor_get(&call.dqr, at) == 0 && test_tensor_get(&call.dkr, at) == 0);
        }
    }
    ag_config_set_isa(ag_cpu_best_isa());
    attention_call_destroy(&call);
}

/* The deterministic option changes nothing: results are always the same bits. */
static void the_deterministic_option(void **state)
{
    struct attention_call off, on;
    (void)state;
    attention_call_create(&off, &rope_case);
    attention_call_create(&on, &rope_case);
    assert_int_equal(aclrtSetDevice(0), 0);
    attention_call_run(&off);
    assert_int_equal(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), 0);
    attention_call_run(&on);
    attention_call_assert_same(&off, &on);
    assert_int_equal(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0), 0);
    assert_int_equal(aclrtResetDevice(0), 0);
    attention_call_destroy(&off);
    attention_call_destroy(&on);
}

/* A bad ACLGRAD_* value is refused by phase 1, with the valid ones named. */
static void bad_environment(void **state)
{
    struct attention_call call;
    (void)state;
    attention_call_create(&call, &plain_case);
    assert_int_equal(setenv("ACLGRAD_SOFTMAX_LAYOUT", "bnsd", 1), 0);
    ag_config_reload();
    assert_int_equal(attention_call_phase1(&call), 161002);
    test_assert_message("ACLGRAD_SOFTMAX_LAYOUT", "bnsd", "auto, cann, tnd or ntd", NULL);
    unsetenv("ACLGRAD_SOFTMAX_LAYOUT");
    ag_config_reload();
    attention_call_verify(&call);
    attention_call_destroy(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_may_die_between_the_phases),
        cmocka_unit_test(prefix_list_may_die_too),
        cmocka_unit_test(misuse_of_phase_2),
        cmocka_unit_test(any_workspace_address_will_do),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(a_repeatable_executor_moves),
        cmocka_unit_test(outputs_over_their_inputs),
        cmocka_unit_test(outputs_over_each_other),
        cmocka_unit_test(absent_in_every_way),
        cmocka_unit_test(lists_that_are_accepted),
        cmocka_unit_test(masks_without_the_tail),
        cmocka_unit_test(nothing_to_do),
        cmocka_unit_test(one_side_empty),
        cmocka_unit_test(ropes_without_rows),
        cmocka_unit_test(no_value_columns),
        cmocka_unit_test(the_documented_program),
        cmocka_unit_test(the_deterministic_option),
        cmocka_unit_test(bad_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
