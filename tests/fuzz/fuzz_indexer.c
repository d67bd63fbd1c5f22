/* Bytes -> a call of aclnnLightningIndexerGrad: refused with a message, or as the definition says. */
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "fuzz_operand.h"
#include "op/indexer/indexer.h"

enum { MOST_SEQUENCES = 3 };

struct indexer_fuzz {
    struct fuzz_call call;
    bool is_packed, has_lengths;
    int64_t sequences, rows, keys, heads, dim, topk; /* rows, keys: the second dim of BSND, or the first of TND */
    int32_t query_lengths[MOST_SEQUENCES], key_lengths[MOST_SEQUENCES];
    struct fuzz_operand *dq, *dk, *dweights;
    struct indexer_args args;
    int64_t ignored[3]; /* headNum, preTokens, nextTokens */
};

static void take_lengths(struct indexer_fuzz *f)
{
    struct fuzz_input *input = f->call.input;
    int64_t rows = 0, keys = 0;
    for (int64_t b = 0; b < f->sequences; ++b) {
        const int64_t sq = fuzz_take(input, 0, 5), skv = fuzz_take(input, 0, 12);
        rows = f->is_packed ? rows + sq : sq > rows ? sq : rows;
        keys = f->is_packed ? keys + skv : skv > keys ? skv : keys;
        f->query_lengths[b] = (int32_t)fuzz_call_number(&f->call, f->is_packed ? rows : sq);
        f->key_lengths[b] = (int32_t)fuzz_call_number(&f->call, f->is_packed ? keys : skv);
    }
    f->rows = rows + fuzz_take(input, 0, 1);
    f->keys = keys + fuzz_take(input, 0, 1);
}

/* [B, S, a, b] or [T, a, b], without b where it is negative. */
static struct fuzz_operand *add_rows(struct indexer_fuzz *f, bool is_output, int dtype, int64_t rows,
                                     const int64_t behind[2])
{
    int64_t dims[4];
    int rank = 0;
    if (!f->is_packed) {
        dims[rank++] = f->sequences;
    }
    dims[rank++] = rows;
    dims[rank++] = behind[0];
    if (behind[1] >= 0) {
        dims[rank++] = behind[1];
    }
    return fuzz_call_add(&f->call, is_output, false, dtype, rank, dims);
}

static struct fuzz_operand *add_lengths(struct indexer_fuzz *f, const int32_t *lengths)
{
    struct fuzz_operand *operand = fuzz_call_add(&f->call, false, false, AG_INT32, 1, &f->sequences);
    for (int64_t b = 0; b < f->sequences; ++b) {
        fuzz_set_index(operand, b, lengths[b]);
    }
    return operand;
}

static void add_operands(struct indexer_fuzz *f, int dtype)
{
    struct fuzz_call *call = &f->call;
    struct indexer_args *a = &f->args;
    const bool has_rank4_slots = fuzz_take_bool(call->input);
    const int64_t slots[2] = {has_rank4_slots ? 1 : f->topk, has_rank4_slots ? f->topk : -1};
    a->query = add_rows(f, false, dtype, f->rows, (int64_t[]){f->heads, f->dim})->handle;
    a->key = add_rows(f, false, dtype, f->keys, (int64_t[]){1, f->dim})->handle;
    a->dy = add_rows(f, false, dtype, f->rows, slots)->handle;
    struct fuzz_operand *indices = add_rows(f, false, AG_INT32, f->rows, slots);
    fuzz_fill_indices(call, indices, fuzz_take_bool(call->input) ? 0 : -1, fuzz_take(call->input, 0, 14),
                      fuzz_take_bool(call->input));
    a->sparse_indices = indices->handle;
    a->weights = add_rows(f, false, dtype, f->rows, (int64_t[]){f->heads, -1})->handle;
    if (f->has_lengths) {
        a->actual_seq_q_len = add_lengths(f, f->query_lengths)->handle;
        a->actual_seq_kv_len = add_lengths(f, f->key_lengths)->handle;
    }
    f->dq = add_rows(f, true, dtype, f->rows, (int64_t[]){f->heads, f->dim});
    f->dk = add_rows(f, true, dtype, f->keys, (int64_t[]){1, f->dim});
    f->dweights = add_rows(f, true, dtype, f->rows, (int64_t[]){f->heads, -1});
    a->dq = f->dq->handle;
    a->dk = f->dk->handle;
    a->dweights = f->dweights->handle;
}

static void make_case(struct indexer_fuzz *f, struct fuzz_input *input)
{
    static const int types[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};
    static const char *const odd_layouts[] = {NULL, "", "tnd", "BSND ", "SBH"};
    struct fuzz_call *call = &f->call;
    fuzz_call_begin(call, input);
    const bool is_extended = ag_config_get().limits == AG_LIMITS_EXTENDED;
    f->is_packed = fuzz_take_bool(input);
    f->has_lengths = f->is_packed || fuzz_take_bool(input);
    f->sequences = fuzz_take(input, 0, MOST_SEQUENCES);
    take_lengths(f);
    f->heads = fuzz_take(input, 0, 1) ? fuzz_take(input, 0, 20) : 2;
    f->dim = is_extended ? fuzz_take(input, 0, 40) : 128;
    f->topk = fuzz_take(input, 0, 20);
    add_operands(f, types[fuzz_take(input, 0, is_extended ? 2 : 1)]);
    f->args.input_layout = f->is_packed ? "TND" : "BSND";
    if (fuzz_call_spoils(call)) {
        f->args.input_layout = odd_layouts[fuzz_take(input, 0, 4)];
    }
    f->args.sparse_mode = fuzz_call_number(call, fuzz_take_bool(input) ? 3 : 0);
    f->args.workspace_size = fuzz_call_spoils(call) ? NULL : &call->workspace_bytes;
    f->args.executor = fuzz_call_spoils(call) ? NULL : &call->executor;
    for (int i = 0; i < 3; ++i) {
        f->ignored[i] = fuzz_call_number(call, INT64_MAX);
    }
}

/* The layout is text that phase 1 does not keep: it is gone afterwards. */
static aclnnStatus phase1(struct indexer_fuzz *f)
{
    const struct indexer_args *a = &f->args;
    char *layout = a->input_layout ? strdup(a->input_layout) : NULL;
    const aclnnStatus status = aclnnLightningIndexerGradGetWorkspaceSize(
        a->query, a->key, a->dy, a->sparse_indices, a->weights, a->actual_seq_q_len, a->actual_seq_kv_len,
        f->ignored[0], layout, a->sparse_mode, f->ignored[1], f->ignored[2], f->ignored[0] < 0, a->dq, a->dk,
        a->dweights, (uint64_t *)(uintptr_t)a->workspace_size, (aclOpExecutor **)(uintptr_t)a->executor);
    free(layout);
    return status;
}

static bool has_memory(const struct ag_view *view)
{
    return !view->present || view->data || ag_view_is_empty(view);
}

static bool is_definable(const struct indexer_fuzz *f, const struct indexer_problem *p)
{
    const struct ag_view *inputs[] = {&p->query,   &p->key,           &p->dy,         &p->indices,
                                      &p->weights, &p->query_lengths, &p->key_lengths};
    bool is_good = fuzz_call_is_small(&f->call);
    for (int i = 0; i < 7; ++i) {
        is_good = is_good && has_memory(inputs[i]);
    }
    return is_good && (p->is_nothing || indexer_check_lengths(p) == AG_OK);
}

static void run_and_compare(struct indexer_fuzz *f)
{
    struct fuzz_call *call = &f->call;
    struct indexer_problem problem;
    FUZZ_REQUIRE(indexer_check(&f->args, &problem) == AG_OK, "the check refuses what phase 1 took: %s",
                 ag_error_peek());
    const bool is_defined = is_definable(f, &problem);
    const int64_t q = is_defined ? problem.rows * problem.heads * problem.dim : 0;
    const int64_t k = is_defined ? problem.keys * problem.dim : 0, w = is_defined ? problem.rows * problem.heads : 0;
    const struct indexer_reference r = {fuzz_doubles(q), fuzz_doubles(q), fuzz_doubles(k),
                                        fuzz_doubles(k), fuzz_doubles(w), fuzz_doubles(w)};
    if (is_defined) {
        FUZZ_REQUIRE(indexer_ref(&problem, &r) == AG_OK, "no definition: %s", ag_error_peek());
    }
    ag_error_clear();
    if (fuzz_phase2_run(call, aclnnLightningIndexerGrad)) {
        FUZZ_REQUIRE(is_defined, "a success without a definition");
        fuzz_compare(call, "dqOut", f->dq, r.dq, r.dq_bound);
        fuzz_compare(call, "dkOut", f->dk, r.dk, r.dk_bound);
        fuzz_compare(call, "dweightsOut", f->dweights, r.dweights, r.dweights_bound);
    }
    free(r.dq), free(r.dq_bound), free(r.dk), free(r.dk_bound), free(r.dweights), free(r.dweights_bound);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, data + bytes};
    struct indexer_fuzz f = {.rows = 0};
    make_case(&f, &input);
    fuzz_before_phase1(&f.call);
    if (fuzz_after_phase1(&f.call, phase1(&f))) {
        run_and_compare(&f);
    }
    fuzz_call_end(&f.call);
    return 0;
}
