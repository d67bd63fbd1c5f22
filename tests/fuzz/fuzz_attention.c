/* Bytes -> a call of aclnnFlashAttentionUnpaddingScoreGradV3: refused with a message, or as the definition says. */
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "fuzz_pack.h"

enum { OUTPUTS = 5 };

struct attention_fuzz {
    struct fuzz_pack pack;
    struct fuzz_operand *outputs[OUTPUTS]; /* dq, dqRope, dk, dkRope, dv */
};

/* Sums are not negative; about as many as there are keys. */
static void lift_sums(struct fuzz_operand *sum)
{
    for (size_t i = 0; sum->view.dtype == AG_FLOAT && i < sum->bytes / sizeof(float); ++i) {
        float value;
        memcpy(&value, sum->memory + i * sizeof value, sizeof value);
        value = value < 0 ? 1 - value : 1 + value;
        memcpy(sum->memory + i * sizeof value, &value, sizeof value);
    }
}

static void add_operands(struct attention_fuzz *f)
{
    struct fuzz_pack *p = &f->pack;
    struct attention_args *a = &p->args;
    a->query = fuzz_pack_add(p, false, p->dtype, false, p->dim)->handle;
    a->key = fuzz_pack_add(p, false, p->dtype, true, p->dim)->handle;
    a->value = fuzz_pack_add(p, false, p->dtype, true, p->value_dim)->handle;
    a->dy = fuzz_pack_add(p, false, p->dtype, false, p->value_dim)->handle;
    a->attention_in = fuzz_pack_add(p, false, p->dtype, false, p->value_dim)->handle;
    a->softmax_max = fuzz_pack_add_statistics(p, false)->handle;
    struct fuzz_operand *sum = fuzz_pack_add_statistics(p, false);
    lift_sums(sum);
    a->softmax_sum = sum->handle;
    f->outputs[0] = fuzz_pack_add(p, true, p->dtype, false, p->dim);
    f->outputs[2] = fuzz_pack_add(p, true, p->dtype, true, p->dim);
    f->outputs[4] = fuzz_pack_add(p, true, p->dtype, true, p->value_dim);
    if (p->rope_dim > 0) {
        a->query_rope = fuzz_pack_add(p, false, p->dtype, false, p->rope_dim)->handle;
        a->key_rope = fuzz_pack_add(p, false, p->dtype, true, p->rope_dim)->handle;
        f->outputs[1] = fuzz_pack_add(p, true, p->dtype, false, p->rope_dim);
        f->outputs[3] =
            fuzz_take_once_in(p->call.input, 8) ? NULL : fuzz_pack_add(p, true, p->dtype, true, p->rope_dim);
    }
    a->dq = f->outputs[0]->handle;
    a->dq_rope = f->outputs[1] ? f->outputs[1]->handle : NULL;
    a->dk = f->outputs[2]->handle;
    a->dk_rope = f->outputs[3] ? f->outputs[3]->handle : NULL;
    a->dv = f->outputs[4]->handle;
}

static aclnnStatus phase1(const struct attention_args *a)
{
    char *layout = a->input_layout ? strdup(a->input_layout) : NULL;
    const aclnnStatus status = aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
        a->query, a->query_rope, a->key, a->key_rope, a->value, a->dy, a->pse_shift, a->drop_mask, a->padding_mask,
        a->atten_mask, a->softmax_max, a->softmax_sum, a->softmax_in, a->attention_in, a->prefix, a->actual_seq_q,
        a->actual_seq_kv, a->q_start, a->kv_start, a->scale, a->keep_prob, a->pre_tokens, a->next_tokens, a->head_num,
        layout, a->inner_precise, a->sparse_mode, a->pse_type, a->dq, a->dq_rope, a->dk, a->dk_rope, a->dv, a->dpse,
        (uint64_t *)(uintptr_t)a->workspace_size, (aclOpExecutor **)(uintptr_t)a->executor);
    free(layout);
    return status;
}

/* In the order of struct attention_ref: value and bound of dq, dqRope, dk, dkRope, dv. */
static void make_definition(const struct attention_problem *p, bool is_defined, double *arrays[2 * OUTPUTS])
{
    const int64_t q = is_defined ? p->query_rows * p->query_heads : 0,
                  k = is_defined ? p->key_rows * p->key_heads : 0;
    const int64_t counts[OUTPUTS] = {q * p->dim, q * p->rope_dim, k * p->dim, k * p->rope_dim, k * p->value_dim};
    for (int i = 0; i < 2 * OUTPUTS; ++i) {
        arrays[i] = fuzz_doubles(counts[i / 2]);
    }
    if (is_defined) {
        const struct attention_ref ref = {arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5],
                                          arrays[6], arrays[7], arrays[8], arrays[9], NULL,      NULL};
        FUZZ_REQUIRE(attention_ref(p, attention_choose_layout(p), &ref) == AG_OK, "no definition: %s",
                     ag_error_peek());
    }
}

static void run_and_compare(struct attention_fuzz *f)
{
    static const char *const names[OUTPUTS] = {"dqOut", "dqRopeOut", "dkOut", "dkRopeOut", "dvOut"};
    struct attention_problem problem;
    double *arrays[2 * OUTPUTS];
    FUZZ_REQUIRE(attention_check(&f->pack.args, &problem) == AG_OK, "the check refuses what phase 1 took: %s",
                 ag_error_peek());
    const bool is_defined = fuzz_call_is_small(&f->pack.call) && fuzz_pack_is_definable(&f->pack, &problem);
    make_definition(&problem, is_defined, arrays);
    attention_release(&problem);
    if (fuzz_phase2_run(&f->pack.call, aclnnFlashAttentionUnpaddingScoreGradV3) && is_defined) {
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
    struct attention_fuzz f = {.outputs = {NULL}};
    fuzz_pack_begin(&f.pack, &input);
    add_operands(&f);
    fuzz_pack_set_scalars(&f.pack);
    fuzz_before_phase1(&f.pack.call);
    if (fuzz_after_phase1(&f.pack.call, phase1(&f.pack.args))) {
        run_and_compare(&f);
    }
    fuzz_pack_end(&f.pack);
    return 0;
}
