/* Bytes -> a call of aclnnLightningIndexer: refused with a message, or as the definition says. */
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_lightning_indexer.h"
#include "fuzz_operand.h"
#include "op/indexer/indexer_forward.h"

enum { MOST_SEQUENCES = 3 };

struct forward_fuzz {
    struct fuzz_call call;
    bool is_packed, is_paged, has_lengths;
    int64_t sequences, rows, keys, heads, dim, topk; /* rows, keys: the second dim of BSND, or the first of TND */
    int64_t block_size, blocks, width;               /* paged only: keys of a block, blocks, blocks of a sequence */
    int32_t query_lengths[MOST_SEQUENCES], key_lengths[MOST_SEQUENCES];
    struct fuzz_operand *indices, *values; /* NULL: not given */
    struct indexer_forward_args args;
};

static void take_lengths(struct forward_fuzz *f)
{
    struct fuzz_input *input = f->call.input;
    const bool has_sums = f->is_packed && !f->is_paged;
    int64_t rows = 0, keys = 0;
    for (int64_t b = 0; b < f->sequences; ++b) {
        const int64_t sq = fuzz_take(input, 0, 5), skv = fuzz_take(input, 0, 40);
        rows = f->is_packed ? rows + sq : sq > rows ? sq : rows;
        keys = has_sums ? keys + skv : skv > keys ? skv : keys;
        f->query_lengths[b] = (int32_t)fuzz_call_number(&f->call, f->is_packed ? rows : sq);
        f->key_lengths[b] = (int32_t)fuzz_call_number(&f->call, has_sums ? keys : skv);
    }
    f->rows = rows + fuzz_take(input, 0, 1);
    f->keys = keys + fuzz_take(input, 0, 1);
}

/* [B, S1, a, b] or [T1, a, b], without b where it is negative. */
static struct fuzz_operand *add_rows(struct forward_fuzz *f, bool is_output, int dtype, int64_t a, int64_t b)
{
    const int64_t dims[4] = {f->sequences, f->rows, a, b};
    return fuzz_call_add(&f->call, is_output, false, dtype, (b < 0 ? 3 : 4) - f->is_packed, dims + f->is_packed);
}

static const aclTensor *add_keys(struct forward_fuzz *f, int dtype)
{
    const int64_t whole[4] = {f->sequences, f->keys, 1, f->dim}, pages[4] = {f->blocks, f->block_size, 1, f->dim};
    const bool has_packed_keys = f->is_packed && !f->is_paged;
    return fuzz_call_add(&f->call, false, false, dtype, 4 - has_packed_keys,
                         f->is_paged ? pages : whole + has_packed_keys)
        ->handle;
}

static const aclTensor *add_lengths(struct forward_fuzz *f, const int32_t *lengths)
{
    struct fuzz_operand *operand = fuzz_call_add(&f->call, false, false, AG_INT32, 1, &f->sequences);
    for (int64_t b = 0; b < f->sequences; ++b) {
        fuzz_set_index(operand, b, lengths[b]);
    }
    return operand->handle;
}

static void add_table(struct forward_fuzz *f)
{
    const int64_t dims[2] = {f->sequences, f->width};
    struct fuzz_operand *table = fuzz_call_add(&f->call, false, false, AG_INT32, 2, dims);
    fuzz_fill_indices(&f->call, table, 0, f->blocks > 0 ? f->blocks - 1 : 0, fuzz_take(f->call.input, 0, 7) == 0);
    f->args.block_table = table->handle;
}

static void add_operands(struct forward_fuzz *f, int dtype)
{
    struct indexer_forward_args *a = &f->args;
    const bool has_float_weights = fuzz_take_bool(f->call.input);
    a->query = add_rows(f, false, dtype, f->heads, f->dim)->handle;
    a->key = add_keys(f, dtype);
    a->weights = add_rows(f, false, has_float_weights ? AG_FLOAT : dtype, f->heads, -1)->handle;
    if (f->has_lengths) {
        a->actual_seq_lengths_query = add_lengths(f, f->query_lengths);
    }
    if (f->has_lengths || f->is_paged) {
        a->actual_seq_lengths_key = add_lengths(f, f->key_lengths);
    }
    if (f->is_paged || fuzz_call_spoils(&f->call)) {
        add_table(f);
    }
    f->indices = add_rows(f, true, AG_INT32, 1, f->topk);
    a->sparse_indices = f->indices->handle;
    if (a->return_values) {
        f->values = add_rows(f, true, dtype, 1, f->topk);
        a->sparse_values = f->values->handle;
    }
}

static void take_scalars(struct forward_fuzz *f)
{
    static const char *const odd_layouts[] = {NULL, "", "tnd", "PA_BSND", "BSND "};
    struct fuzz_call *call = &f->call;
    f->args.layout_query = f->is_packed ? "TND" : "BSND";
    f->args.layout_key = f->is_paged ? "PA_BSND" : f->args.layout_query;
    if (fuzz_call_spoils(call)) {
        f->args.layout_query = odd_layouts[fuzz_take(call->input, 0, 4)];
    }
    if (fuzz_call_spoils(call)) {
        f->args.layout_key = odd_layouts[fuzz_take(call->input, 0, 4)];
    }
    f->args.sparse_count = fuzz_call_number(call, f->topk);
    f->args.sparse_mode = fuzz_call_number(call, fuzz_take_bool(call->input) ? 3 : 0);
    f->args.pre_tokens = fuzz_call_number(call, INT64_MAX);
    f->args.next_tokens = fuzz_call_number(call, INT64_MAX);
    f->args.workspace_size = fuzz_call_spoils(call) ? NULL : &call->workspace_bytes;
    f->args.executor = fuzz_call_spoils(call) ? NULL : &call->executor;
}

static void make_case(struct forward_fuzz *f, struct fuzz_input *input)
{
    static const int types[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};
    fuzz_call_begin(&f->call, input);
    const bool is_extended = ag_config_get().limits == AG_LIMITS_EXTENDED;
    f->is_packed = fuzz_take_bool(input);
    f->is_paged = fuzz_take(input, 0, 2) == 0;
    f->has_lengths = f->is_packed || fuzz_take_bool(input);
    f->sequences = fuzz_take(input, 0, MOST_SEQUENCES);
    take_lengths(f);
    f->heads = fuzz_take(input, 0, 1) ? fuzz_take(input, 0, 20) : 2;
    f->dim = is_extended ? fuzz_take(input, 0, 40) : 128;
    f->topk = fuzz_take(input, 1, 50);
    f->block_size = is_extended ? fuzz_take(input, 1, 20) : 16;
    f->width = (f->keys + f->block_size - 1) / f->block_size;
    f->blocks = f->sequences * f->width + fuzz_take(input, 0, 2);
    f->args.return_values = fuzz_take_bool(input) && (!f->is_paged || is_extended);
    add_operands(f, types[fuzz_take(input, 0, is_extended ? 2 : 1)]);
    take_scalars(f);
}

/* The layouts are text that phase 1 does not keep: it is gone afterwards. */
static aclnnStatus phase1(const struct forward_fuzz *f)
{
    const struct indexer_forward_args *a = &f->args;
    char *query_layout = a->layout_query ? strdup(a->layout_query) : NULL;
    char *key_layout = a->layout_key ? strdup(a->layout_key) : NULL;
    const aclnnStatus status = aclnnLightningIndexerGetWorkspaceSize(
        a->query, a->key, a->weights, a->actual_seq_lengths_query, a->actual_seq_lengths_key, a->block_table,
        query_layout, key_layout, a->sparse_count, a->sparse_mode, a->pre_tokens, a->next_tokens, a->return_values,
        a->sparse_indices, a->sparse_values, (uint64_t *)(uintptr_t)a->workspace_size,
        (aclOpExecutor **)(uintptr_t)a->executor);
    free(query_layout);
    free(key_layout);
    return status;
}

static bool has_memory(const struct ag_view *view)
{
    return !view->present || view->data || ag_view_is_empty(view);
}

/* The definition reads what is there and no more than it can. */
static bool is_definable(const struct forward_fuzz *f, const struct indexer_forward_problem *p)
{
    const struct ag_view *inputs[] = {&p->query,         &p->key,         &p->weights,
                                      &p->query_lengths, &p->key_lengths, &p->block_table};
    bool is_good = fuzz_call_is_small(&f->call);
    for (int i = 0; i < 6; ++i) {
        is_good = is_good && has_memory(inputs[i]);
    }
    return is_good && indexer_forward_check_data(p) == AG_OK;
}

static void run_and_judge(struct forward_fuzz *f)
{
    struct indexer_forward_problem problem;
    FUZZ_REQUIRE(indexer_forward_check(&f->args, &problem) == AG_OK, "the check refuses what phase 1 took: %s",
                 ag_error_peek());
    const bool is_defined = is_definable(f, &problem);
    ag_error_clear();
    if (fuzz_phase2_run(&f->call, aclnnLightningIndexer)) {
        char text[512] = "";
        bool is_right = false;
        FUZZ_REQUIRE(is_defined, "a success without a definition");
        FUZZ_REQUIRE(indexer_forward_judge(&problem, &is_right, text, sizeof text) == AG_OK, "no definition: %s",
                     ag_error_peek());
        const int64_t indices = fuzz_comparable(&f->call, f->indices), values = fuzz_comparable(&f->call, f->values);
        const bool is_whole = indices > 0 && (!f->values || values > 0);
        FUZZ_REQUIRE(is_right || !is_whole, "%s", text);
        fuzz_compared_elements += is_whole ? indices + values : 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, data + bytes};
    struct forward_fuzz f = {.rows = 0};
    make_case(&f, &input);
    fuzz_before_phase1(&f.call);
    if (fuzz_after_phase1(&f.call, phase1(&f))) {
        run_and_judge(&f);
    }
    fuzz_call_end(&f.call);
    return 0;
}
