#include "fuzz_pack.h"

static void take_lengths(struct fuzz_pack *f)
{
    struct fuzz_input *input = f->call.input;
    int64_t q = 0, kv = 0;
    f->sequences = fuzz_take(input, 0, FUZZ_MOST_SEQUENCES);
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

struct fuzz_operand *fuzz_pack_add(struct fuzz_pack *f, bool is_output, int dtype, bool is_key, int64_t dim)
{
    const int64_t dims[3] = {is_key ? f->key_rows : f->query_rows, is_key ? f->key_heads : f->query_heads, dim};
    return fuzz_call_add(&f->call, is_output, false, dtype, 3, dims);
}

struct fuzz_operand *fuzz_pack_add_statistics(struct fuzz_pack *f, bool is_output)
{
    const bool is_swapped = fuzz_take_once_in(f->call.input, 4);
    const int64_t dims[3] = {is_swapped ? f->query_heads : f->query_rows, is_swapped ? f->query_rows : f->query_heads,
                             8};
    return fuzz_call_add(&f->call, is_output, false, AG_FLOAT, 3, dims);
}

/* A compressed mask is one byte that is everywhere; a mask of bytes has about a third of them set. */
static const aclTensor *add_mask(struct fuzz_pack *f, int64_t mode)
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

/* Windows around the diagonal, and the numbers that mean "all". */
static int64_t take_tokens(struct fuzz_pack *f)
{
    const int64_t tokens = fuzz_take(f->call.input, 0, 31);
    return fuzz_call_number(&f->call, tokens < 4 ? INT32_MAX : tokens - 14);
}

void fuzz_pack_set_scalars(struct fuzz_pack *f)
{
    static const char *const odd_layouts[] = {NULL, "", "tnd", "BSH", "TNDX"};
    struct fuzz_call *call = &f->call;
    struct attention_args *a = &f->args;
    a->atten_mask = add_mask(f, f->mode);
    a->actual_seq_q = f->query_list = aclCreateIntArray(f->query_ends, (uint64_t)f->sequences);
    a->actual_seq_kv = f->key_list =
        aclCreateIntArray(f->key_ends, (uint64_t)(f->sequences - (fuzz_call_spoils(call) && f->sequences > 0)));
    if (f->mode == 6 || fuzz_call_spoils(call)) {
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
    a->sparse_mode = fuzz_call_number(call, f->mode);
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

void fuzz_pack_begin(struct fuzz_pack *f, struct fuzz_input *input)
{
    static const int types[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};
    fuzz_call_begin(&f->call, input);
    f->mode = fuzz_take(input, 0, 8);
    f->dtype = types[fuzz_take(input, 0, 2)];
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
}

void fuzz_pack_end(struct fuzz_pack *f)
{
    aclDestroyIntArray(f->query_list);
    aclDestroyIntArray(f->key_list);
    aclDestroyIntArray(f->prefix);
    fuzz_call_end(&f->call);
}

bool fuzz_pack_is_definable(const struct fuzz_pack *f, const struct attention_problem *p)
{
    const struct ag_view *inputs[] = {&p->query,       &p->query_rope, &p->key,          &p->key_rope,
                                      &p->value,       &p->dy,         &p->attention_in, &p->softmax_max,
                                      &p->softmax_sum, &p->mask,       &p->sink};
    bool is_good = !p->is_nothing;
    for (int i = 0; i < 11; ++i) {
        is_good = is_good && (!inputs[i]->present || inputs[i]->data || ag_view_is_empty(inputs[i]));
    }
    for (int i = 0; i < f->call.count; ++i) { /* a compressed mask is large and not read */
        const struct fuzz_operand *o = &f->call.operands[i];
        is_good = is_good && (o->handle == NULL || ag_view_elems(&o->view) < (1 << 20));
    }
    return is_good;
}
