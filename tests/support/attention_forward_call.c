#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "support/attention_problem.h"

enum { LANES = 8 };

/* --- the call -------------------------------------------------------------------------------------------- */

static aclnnStatus phase1_v3(const struct attention_args *a)
{
    return aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize(
        a->query, a->query_rope, a->key, a->key_rope, a->value, a->pse_shift, a->drop_mask, a->padding_mask,
        a->atten_mask, a->prefix, a->actual_seq_q, a->actual_seq_kv, a->q_start, a->kv_start, a->scale, a->keep_prob,
        a->pre_tokens, a->next_tokens, a->head_num, (char *)a->input_layout, a->inner_precise, a->sparse_mode,
        a->pse_type, a->softmax_max, a->softmax_sum, a->softmax_in, a->attention_in, (uint64_t *)a->workspace_size,
        (aclOpExecutor **)a->executor);
}

static aclnnStatus phase1_v4(const struct attention_args *a)
{
    return aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize(
        a->query, a->key, a->value, a->pse_shift, a->drop_mask, a->padding_mask, a->atten_mask, a->prefix,
        a->actual_seq_q, a->actual_seq_kv, a->scale, a->keep_prob, a->pre_tokens, a->next_tokens, a->head_num,
        (char *)a->input_layout, a->inner_precise, a->sparse_mode, (char *)a->softmax_layout, a->softmax_max,
        a->softmax_sum, a->softmax_in, a->attention_in, (uint64_t *)a->workspace_size, (aclOpExecutor **)a->executor);
}

static aclnnStatus phase1_v5(const struct attention_args *a)
{
    return aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize(
        a->query, a->query_rope, a->key, a->key_rope, a->value, a->pse_shift, a->drop_mask, a->padding_mask,
        a->atten_mask, a->sink, a->prefix, a->actual_seq_q, a->actual_seq_kv, a->q_start, a->kv_start, a->scale,
        a->keep_prob, a->pre_tokens, a->next_tokens, a->head_num, (char *)a->input_layout, a->inner_precise,
        a->sparse_mode, a->pse_type, (char *)a->softmax_layout, a->softmax_max, a->softmax_sum, a->softmax_in,
        a->attention_in, (uint64_t *)a->workspace_size, (aclOpExecutor **)a->executor);
}

aclnnStatus attention_forward_phase1(struct attention_call *call)
{
    return call->c.version == 4   ? phase1_v4(&call->args)
           : call->c.version == 5 ? phase1_v5(&call->args)
                                  : phase1_v3(&call->args);
}

static aclnnStatus phase2(const struct attention_call *call, void *workspace)
{
    return call->c.version == 4
               ? aclnnFlashAttentionVarLenScoreV4(workspace, call->workspace_size, call->executor, NULL)
           : call->c.version == 5
               ? aclnnFlashAttentionVarLenScoreV5(workspace, call->workspace_size, call->executor, NULL)
               : aclnnFlashAttentionVarLenScoreV3(workspace, call->workspace_size, call->executor, NULL);
}

void attention_forward_run(struct attention_call *call)
{
    test_tensor_fill_bytes(&call->max, 0xff);
    test_tensor_fill_bytes(&call->sum, 0xff);
    test_tensor_fill_bytes(&call->out, 0xff);
    aclnnStatus status = attention_forward_phase1(call);
    if (status != 0) {
        fail_msg("phase 1: %d %s\n%s", status, ag_error_take(), attention_case_text(&call->c));
    }
    struct test_buffer workspace = test_buffer_create(call->workspace_size, 1);
    memset(workspace.data, 0xff, workspace.bytes);
    status = phase2(call, workspace.data);
    if (status != 0) {
        fail_msg("phase 2: %d %s\n%s", status, ag_error_take(), attention_case_text(&call->c));
    }
    test_buffer_destroy(&workspace);
}

/* --- the comparison -------------------------------------------------------------------------------------- */

static double *doubles(int64_t count)
{
    double *values = malloc((size_t)(count + 1) * sizeof *values);
    assert_non_null(values);
    return values;
}

struct attention_forward_ref attention_forward_call_ref(struct attention_call *call)
{
    const struct attention_case *c = &call->c;
    const int64_t rows = call->t1 * c->n1;
    const struct attention_forward_ref ref = {doubles(rows * c->dv), doubles(rows * c->dv), doubles(rows),
                                              doubles(rows),         doubles(rows),         doubles(rows)};
    struct attention_problem problem;
    if (attention_forward_check(&call->args, ATTENTION_FORWARD_V5, &problem) != AG_OK) {
        fail_msg("check: %s\n%s", ag_error_take(), attention_case_text(&call->c));
    }
    assert_int_equal(attention_forward_ref(&problem, &ref), AG_OK);
    attention_release(&problem);
    return ref;
}

void attention_forward_call_ref_free(struct attention_forward_ref *ref)
{
    double *all[] = {ref->attention, ref->attention_bound, ref->max, ref->max_bound, ref->sum, ref->sum_bound};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        free(all[i]);
    }
}

/* Eight lanes of each row. */
static double compare_statistics(const struct attention_call *call, const char *name, const struct test_tensor *got,
                                 const double *want, const double *bound)
{
    const int64_t count = test_tensor_elems(got);
    double *all = doubles(count), *bounds = doubles(count);
    for (int64_t at = 0; at < count; ++at) {
        all[at] = want[at / LANES];
        bounds[at] = bound[at / LANES];
    }
    const double worst = test_compare(name, got, all, bounds, attention_case_text(&call->c));
    free(all);
    free(bounds);
    return worst;
}

double attention_forward_compare_with(const struct attention_call *call, const struct attention_forward_ref *ref)
{
    const double max = compare_statistics(call, "softmaxMax", &call->max, ref->max, ref->max_bound);
    const double sum = compare_statistics(call, "softmaxSum", &call->sum, ref->sum, ref->sum_bound);
    const double out =
        test_compare("attentionOut", &call->out, ref->attention, ref->attention_bound, attention_case_text(&call->c));
    return out > max && out > sum ? out : max > sum ? max : sum;
}

double attention_forward_verify(struct attention_call *call)
{
    struct attention_forward_ref ref = attention_forward_call_ref(call);
    attention_forward_run(call);
    const double worst = attention_forward_compare_with(call, &ref);
    attention_forward_call_ref_free(&ref);
    return worst;
}

void attention_forward_verify_each_isa(struct attention_call *call)
{
    struct attention_forward_ref ref = attention_forward_call_ref(call);
    const struct ag_config before = ag_config_get();
    TEST_EACH_ISA (isa) {
        ag_config_set_isa(isa);
        attention_forward_run(call);
        attention_forward_compare_with(call, &ref);
    }
    ag_config_set_isa(before.isa);
    attention_forward_call_ref_free(&ref);
}

void attention_forward_assert_same(const struct attention_call *a, const struct attention_call *b)
{
    test_assert_same_bits("attentionOut", &a->out, &b->out);
    test_assert_same_bits("softmaxMax", &a->max, &b->max);
    test_assert_same_bits("softmaxSum", &a->sum, &b->sum);
}
