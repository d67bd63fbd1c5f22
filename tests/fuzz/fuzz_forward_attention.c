/* Bytes -> a call of aclnnFlashAttentionVarLenScoreV5, V4 or V3: refused with a message, or as the definition says. */
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "fuzz_pack.h"
#include "op/attention/attention_forward.h"

enum { OUTPUTS = 3, LANES = 8 };

struct forward_fuzz {
    struct fuzz_pack pack;
    enum attention_forward_version version;
    struct fuzz_operand *outputs[OUTPUTS]; /* max, sum, attention */
};

static void add_operands(struct forward_fuzz *f)
{
    struct fuzz_pack *p = &f->pack;
    struct attention_args *a = &p->args;
    a->query = fuzz_pack_add(p, false, p->dtype, false, p->dim)->handle;
    a->key = fuzz_pack_add(p, false, p->dtype, true, p->dim)->handle;
    a->value = fuzz_pack_add(p, false, p->dtype, true, p->value_dim)->handle;
    f->outputs[0] = fuzz_pack_add_statistics(p, true);
    f->outputs[1] = fuzz_pack_add_statistics(p, true);
    f->outputs[2] = fuzz_pack_add(p, true, p->dtype, false, p->value_dim);
    if (p->rope_dim > 0 && f->version != ATTENTION_FORWARD_V4) {
        a->query_rope = fuzz_pack_add(p, false, p->dtype, false, p->rope_dim)->handle;
        a->key_rope = fuzz_pack_add(p, false, p->dtype, true, p->rope_dim)->handle;
    }
    if (f->version == ATTENTION_FORWARD_V5 && fuzz_take_bool(p->call.input)) {
        a->sink = fuzz_call_add(&p->call, false, false, AG_FLOAT, 1, &p->query_heads)->handle;
    }
    a->softmax_max = f->outputs[0]->handle;
    a->softmax_sum = f->outputs[1]->handle;
    a->attention_in = f->outputs[2]->handle;
}

static void set_layout(struct forward_fuzz *f)
{
    static const char *const layouts[] = {"", "same_as_input", NULL, "TND"};
    if (f->version != ATTENTION_FORWARD_V3) {
        const int64_t most = fuzz_call_spoils(&f->pack.call) ? 3 : 2;
        f->pack.args.softmax_layout = layouts[fuzz_take(f->pack.call.input, 0, most)];
    }
}

static aclnnStatus phase1(const struct attention_args *a, enum attention_forward_version version)
{
    char *layout = a->input_layout ? strdup(a->input_layout) : NULL;
    char *order = a->softmax_layout ? strdup(a->softmax_layout) : NULL;
    uint64_t *bytes = (uint64_t *)(uintptr_t)a->workspace_size;
    aclOpExecutor **executor = (aclOpExecutor **)(uintptr_t)a->executor;
    const aclnnStatus status =
        version == ATTENTION_FORWARD_V3
            ? aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize(
                  a->query, a->query_rope, a->key, a->key_rope, a->value, a->pse_shift, a->drop_mask, a->padding_mask,
                  a->atten_mask, a->prefix, a->actual_seq_q, a->actual_seq_kv, a->q_start, a->kv_start, a->scale,
                  a->keep_prob, a->pre_tokens, a->next_tokens, a->head_num, layout, a->inner_precise, a->sparse_mode,
                  a->pse_type, a->softmax_max, a->softmax_sum, NULL, a->attention_in, bytes, executor)
        : version == ATTENTION_FORWARD_V4
            ? aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize(
                  a->query, a->key, a->value, a->pse_shift, a->drop_mask, a->padding_mask, a->atten_mask, a->prefix,
                  a->actual_seq_q, a->actual_seq_kv, a->scale, a->keep_prob, a->pre_tokens, a->next_tokens,
                  a->head_num, layout, a->inner_precise, a->sparse_mode, order, a->softmax_max, a->softmax_sum, NULL,
                  a->attention_in, bytes, executor)
            : aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize(
                  a->query, a->query_rope, a->key, a->key_rope, a->value, a->pse_shift, a->drop_mask, a->padding_mask,
                  a->atten_mask, a->sink, a->prefix, a->actual_seq_q, a->actual_seq_kv, a->q_start, a->kv_start,
                  a->scale, a->keep_prob, a->pre_tokens, a->next_tokens, a->head_num, layout, a->inner_precise,
                  a->sparse_mode, a->pse_type, order, a->softmax_max, a->softmax_sum, NULL, a->attention_in, bytes,
                  executor);
    free(layout);
    free(order);
    return status;
}

static fuzz_phase2 *phase2_of(enum attention_forward_version version)
{
    return version == ATTENTION_FORWARD_V3   ? aclnnFlashAttentionVarLenScoreV3
           : version == ATTENTION_FORWARD_V4 ? aclnnFlashAttentionVarLenScoreV4
                                             : aclnnFlashAttentionVarLenScoreV5;
}

/* In the order of the outputs: value and bound of max, sum, attention. */
static void make_definition(const struct attention_problem *p, bool is_defined, double *arrays[2 * OUTPUTS])
{
    const int64_t rows = is_defined ? p->query_rows * p->query_heads : 0;
    for (int i = 0; i < 2 * OUTPUTS; ++i) {
        arrays[i] = fuzz_doubles(rows * (i < 4 ? LANES : p->value_dim));
    }
    if (!is_defined) {
        return;
    }
    const struct attention_forward_ref ref = {arrays[4], arrays[5], arrays[0], arrays[1], arrays[2], arrays[3]};
    FUZZ_REQUIRE(attention_forward_ref(p, &ref) == AG_OK, "no definition: %s", ag_error_peek());
    for (int64_t at = rows * LANES - 1; at >= 0; --at) { /* one number per row becomes eight */
        for (int i = 0; i < 4; ++i) {
            arrays[i][at] = arrays[i][at / LANES];
        }
    }
}

static void run_and_compare(struct forward_fuzz *f)
{
    static const char *const names[OUTPUTS] = {"softmaxMaxOut", "softmaxSumOut", "attentionOutOut"};
    struct attention_problem problem;
    double *arrays[2 * OUTPUTS];
    FUZZ_REQUIRE(attention_forward_check(&f->pack.args, f->version, &problem) == AG_OK,
                 "the check refuses what phase 1 took: %s", ag_error_peek());
    const bool is_defined = fuzz_call_is_small(&f->pack.call) && fuzz_pack_is_definable(&f->pack, &problem);
    make_definition(&problem, is_defined, arrays);
    attention_release(&problem);
    if (fuzz_phase2_run(&f->pack.call, phase2_of(f->version)) && is_defined) {
        for (int i = 0; i < OUTPUTS; ++i) {
            fuzz_compare(&f->pack.call, names[i], f->outputs[i], arrays[2 * i], arrays[2 * i + 1]);
        }
    }
    for (int i = 0; i < 2 * OUTPUTS; ++i) {
        free(arrays[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, data + bytes};
    struct forward_fuzz f = {.outputs = {NULL}};
    fuzz_pack_begin(&f.pack, &input);
    f.version = (enum attention_forward_version)fuzz_take(&input, ATTENTION_FORWARD_V3, ATTENTION_FORWARD_V5);
    add_operands(&f);
    set_layout(&f);
    fuzz_pack_set_scalars(&f.pack);
    f.pack.args.softmax_in = f.pack.args.dpse = NULL;
    if (f.version == ATTENTION_FORWARD_V4) { /* what it has not */
        f.pack.args.pse_type = 1;
    }
    fuzz_before_phase1(&f.pack.call);
    if (fuzz_after_phase1(&f.pack.call, phase1(&f.pack.args, f.version))) {
        run_and_compare(&f);
    }
    fuzz_pack_end(&f.pack);
    return 0;
}
