/* Bytes -> a call of aclnnFlashAttentionUnpaddingScoreGradV3: refused with a message, or as the definition says. */
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "fuzz_operand.h"
#include "op/attention/attention.h"

enum { MOST_SEQUENCES = 3, OUTPUTS = 5 };

struct attention_fuzz {
    struct fuzz_call call;
    int64_t sequences, query_rows, key_rows, query_heads, key_heads, dim, rope_dim, value_dim, most_query, most_key;
    int64_t query_ends[MOST_SEQUENCES], key_ends[MOST_SEQUENCES], prefixes[MOST_SEQUENCES];
    struct fuzz_operand *outputs[OUTPUTS]; /* dq, dqRope, dk, dkRope, dv */
    aclIntArray *query_list, *key_list, *prefix;
    struct attention_args args;
};

static void take_lengths(struct attention_fuzz *f)
{
    struct fuzz_input *input = f->call.input;
    int64_t q = 0, kv = 0;
    f->sequences = fuzz_take(input, 0, MOST_SEQUENCES);
    for (int64_t b = 0; b < f->sequences; ++b) {
        const int64_t sq = fuzz_take(input, 0, 9), skv = fuzz_take(input, 0, 12);
        q += sq;
        kv += skv;
        f->most_query = sq > f->most_query ? sq : f->most_query;
        f->most_key = skv > f->most_key ? skv : f->most_key;
        f->query_ends[b] = fuzz_call_number(&f->call, q);
        f->key_ends[b] = fuzz_call_number(&f->call, kv);
        f->prefixes[b] = fuzz_call_number(&f->call, fuzz_take(input, 0, skv));
    }
    f->query_rows = q + fuzz_take(input, 0, 1);
    f->key_rows = kv + fuzz_take(input, 0, 1);
}

static struct fuzz_operand *add(struct attention_fuzz *f, bool is_output, int dtype, bool is_key, int64_t dim)
{
    const int64_t dims[3] = {is_key ? f->key_rows : f->query_rows, is_key ? f->key_heads : f->query_heads, dim};
    return fuzz_call_add(&f->call, is_output, false, dtype, 3, dims);
}

static struct fuzz_operand *add_statistics(struct attention_fuzz *f)
{
    const bool is_swapped = fuzz_take_once_in(f->call.input, 4);
    const int64_t dims[3] = {is_swapped ? f->query_heads : f->query_rows, is_swapped ? f->query_rows : f->query_heads,
                             8};
    return fuzz_call_add(&f->call, false, false, AG_FLOAT, 3, dims);
}

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

/* A compressed mask is one byte that is everywhere; a mask of bytes has about a third of them set. */
static const aclTensor *add_mask(struct attention_fuzz *f, int64_t mode)
{
    struct fuzz_call *call = &f->call;
    if (mode > 1) {
        const int64_t dims[2] = {mode == 6 ? 3072 : 2048, 2048}, strides[2] = {0, 0};
        static const uint8_t byte;
        struct fuzz_operand *mask = fuzz_call_add(call, false, true, AG_UINT8, 2, (int64_t[]){1, 1});
        aclDestroyTensor(mask->owned);
        mask->owned = aclCreateTensor(dims, 2, ACL_UINT8, strides, 0, ACL_FORMAT_ND, &(int64_t){1}, 1,
                                      (void *)(uintptr_t)&byte);
        mask->handle = fuzz_call_spoils(call) ? NULL : mask->owned;
        return mask->handle;
    }
    const int64_t shape = fuzz_take(call->input, 0, 4); /* none, SS, 11SS, B1SS, BNSS */
    const int64_t extra = fuzz_take(call->input, 0, 1);
    const int64_t dims[4] = {shape > 2 ? f->sequences : 1, shape > 3 ? f->query_heads : 1, f->most_query + extra,
                             f->most_key + extra};
    if (shape == 0) {
        return NULL;
    }
    struct fuzz_operand *mask = fuzz_call_add(call, false, false, extra ? AG_BOOL : AG_UINT8, shape == 1 ? 2 : 4,
                                              shape == 1 ? dims + 2 : dims);
    for (size_t i = 0; i < mask->bytes && !mask->is_shared; ++i) {
        mask->memory[i] = test_random_below(&call->random, 3) == 0;
    }
    return mask->handle;
}

static void add_operands(struct attention_fuzz *f, int dtype)
{
    struct attention_args *a = &f->args;
    a->query = add(f, false, dtype, false, f->dim)->handle;
    a->key = add(f, false, dtype, true, f->dim)->handle;
    a->value = add(f, false, dtype, true, f->value_dim)->handle;
    a->dy = add(f, false, dtype, false, f->value_dim)->handle;
    a->attention_in = add(f, false, dtype, false, f->value_dim)->handle;
    a->softmax_max = add_statistics(f)->handle;
    struct fuzz_operand *sum = add_statistics(f);
    lift_sums(sum);
    a->softmax_sum = sum->handle;
    f->outputs[0] = add(f, true, dtype, false, f->dim);
    f->outputs[2] = add(f, true, dtype, true, f->dim);
    f->outputs[4] = add(f, true, dtype, true, f->value_dim);
    if (f->rope_dim > 0) {
        a->query_rope = add(f, false, dtype, false, f->rope_dim)->handle;
        a->key_rope = add(f, false, dtype, true, f->rope_dim)->handle;
        f->outputs[1] = add(f, true, dtype, false, f->rope_dim);
        f->outputs[3] = fuzz_take_once_in(f->call.input, 8) ? NULL : add(f, true, dtype, true, f->rope_dim);
    }
    a->dq = f->outputs[0]->handle;
    a->dq_rope = f->outputs[1] ? f->outputs[1]->handle : NULL;
    a->dk = f->outputs[2]->handle;
    a->dk_rope = f->outputs[3] ? f->outputs[3]->handle : NULL;
    a->dv = f->outputs[4]->handle;
}

/* Windows around the diagonal, and the numbers that mean "all". */
static int64_t take_tokens(struct attention_fuzz *f)
{
    const int64_t tokens = fuzz_take(f->call.input, 0, 31);
    return fuzz_call_number(&f->call, tokens < 4 ? INT32_MAX : tokens - 14);
}

static void set_scalars(struct attention_fuzz *f, int64_t mode)
{
    static const char *const odd_layouts[] = {NULL, "", "tnd", "BSH", "TNDX"};
    struct fuzz_call *call = &f->call;
    struct attention_args *a = &f->args;
    a->atten_mask = add_mask(f, mode);
    a->actual_seq_q = f->query_list = aclCreateIntArray(f->query_ends, (uint64_t)f->sequences);
    a->actual_seq_kv = f->key_list =
        aclCreateIntArray(f->key_ends, (uint64_t)(f->sequences - (fuzz_call_spoils(call) && f->sequences > 0)));
    if (mode == 6 || fuzz_call_spoils(call)) {
        f->prefix = aclCreateIntArray(f->prefixes, (uint64_t)f->sequences);
    }
    a->prefix = f->prefix;
    a->scale = fuzz_take_bool(call->input) ? 0.25 : (double)fuzz_take(call->input, -8, 8) / 8;
    a->keep_prob = fuzz_call_spoils(call) ? (double)fuzz_take(call->input, -1, 2) / 2 : 1;
    a->pre_tokens = take_tokens(f);
    a->next_tokens = take_tokens(f);
    a->head_num = fuzz_call_number(call, f->query_heads);
    a->input_layout = fuzz_call_spoils(call) ? odd_layouts[fuzz_take(call->input, 0, 4)] : "TND";
    a->inner_precise = fuzz_call_number(call, 0);
    a->sparse_mode = fuzz_call_number(call, mode);
    a->pse_type = fuzz_call_number(call, 1);
    a->pse_shift = fuzz_call_spoils(call) ? a->query : NULL;
    a->drop_mask = fuzz_call_spoils(call) ? a->atten_mask : NULL;
    a->padding_mask = fuzz_call_spoils(call) ? a->query : NULL;
    a->softmax_in = fuzz_call_spoils(call) ? a->softmax_max : NULL;
    a->q_start = fuzz_call_spoils(call) ? a->prefix : NULL;
    a->kv_start = fuzz_call_spoils(call) ? a->actual_seq_q : NULL;
    a->dpse = fuzz_call_spoils(call) ? a->query : NULL;
    a->workspace_size = fuzz_call_spoils(call) ? NULL : &call->workspace_bytes;
    a->executor = fuzz_call_spoils(call) ? NULL : &call->executor;
}

static void make_case(struct attention_fuzz *f, struct fuzz_input *input)
{
    static const int types[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};
    fuzz_call_begin(&f->call, input);
    const int64_t mode = fuzz_take(input, 0, 8);
    const int dtype = types[fuzz_take(input, 0, 2)];
    take_lengths(f);
    f->key_heads = fuzz_take(input, 0, 3);
    f->query_heads = f->key_heads * fuzz_take(input, 1, 3);
    f->dim = fuzz_take(input, 0, 40);
    f->value_dim = fuzz_take_bool(input) ? fuzz_take(input, 0, f->dim) : f->dim;
    f->rope_dim = fuzz_take_once_in(input, 3) ? fuzz_take(input, 0, f->dim) : 0;
    if (ag_config_get().limits == AG_LIMITS_DOCUMENTED && f->rope_dim > 0) {
        f->dim = (f->dim + 7) / 8 * 8;
        f->rope_dim = (f->rope_dim + 7) / 8 * 8;
    }
    add_operands(f, dtype);
    set_scalars(f, mode);
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

static bool is_definable(const struct attention_fuzz *f, const struct attention_problem *p)
{
    const struct ag_view *inputs[] = {&p->query, &p->query_rope,   &p->key,         &p->key_rope,    &p->value,
                                      &p->dy,    &p->attention_in, &p->softmax_max, &p->softmax_sum, &p->mask};
    bool is_good = !p->is_nothing;
    for (int i = 0; i < 10; ++i) {
        is_good = is_good && (!inputs[i]->present || inputs[i]->data || ag_view_is_empty(inputs[i]));
    }
    for (int i = 0; i < f->call.count; ++i) { /* a compressed mask is large and not read */
        const struct fuzz_operand *o = &f->call.operands[i];
        is_good = is_good && (o->handle == NULL || ag_view_elems(&o->view) < (1 << 20));
    }
    return is_good;
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
    FUZZ_REQUIRE(attention_check(&f->args, &problem) == AG_OK, "the check refuses what phase 1 took: %s",
                 ag_error_peek());
    const bool is_defined = fuzz_call_is_small(&f->call) && is_definable(f, &problem);
    make_definition(&problem, is_defined, arrays);
    attention_release(&problem);
    if (fuzz_phase2_run(&f->call, aclnnFlashAttentionUnpaddingScoreGradV3) && is_defined) {
        for (int i = 0; i < OUTPUTS; ++i) {
            fuzz_compare(&f->call, names[i], f->outputs[i], arrays[2 * i], arrays[2 * i + 1]);
        }
    }
    for (int i = 0; i < 2 * OUTPUTS; ++i) {
        free(arrays[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, data + bytes};
    struct attention_fuzz f = {.sequences = 0};
    make_case(&f, &input);
    fuzz_before_phase1(&f.call);
    if (fuzz_after_phase1(&f.call, phase1(&f.args))) {
        run_and_compare(&f);
    }
    aclDestroyIntArray(f.query_list);
    aclDestroyIntArray(f.key_list);
    aclDestroyIntArray(f.prefix);
    fuzz_call_end(&f.call);
    return 0;
}
