#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_lightning_indexer.h"
#include "call_indexer.h"
#include "cli.h"
#include "facts.h"

static const char entry[] = "aclnnLightningIndexer";
static const char *const inputs[] = {"query",      "key", "weights", "actualSeqLengthsQuery", "actualSeqLengthsKey",
                                     "blockTable", NULL};
static const char *const outputs_of_forward[] = {"sparseIndices", "sparseValues", NULL};

/* --- binding --------------------------------------------------------------------------------------------- */

/* The documented limits refuse values of paged keys, so those must be asked for. */
static bool has_values(const struct call *call)
{
    const bool is_paged = problem_integer(&call->problem, "page") > 0;
    return problem_is(&call->problem, "values", "yes") || (problem_is(&call->problem, "values", "auto") && !is_paged);
}

static void bind(const struct call *call, const struct tensor_set *outputs, struct handles *handles,
                 struct indexer_forward_args *args)
{
    const struct {
        const aclTensor **to;
        const struct tensor_set *set;
        const char *name;
    } list[] = {{&args->query, &call->inputs, "query"},
                {&args->key, &call->inputs, "key"},
                {&args->weights, &call->inputs, "weights"},
                {&args->actual_seq_lengths_query, &call->inputs, "actualSeqLengthsQuery"},
                {&args->actual_seq_lengths_key, &call->inputs, "actualSeqLengthsKey"},
                {&args->block_table, &call->inputs, "blockTable"},
                {&args->sparse_indices, outputs, "sparseIndices"},
                {&args->sparse_values, outputs, "sparseValues"}};
    const struct problem *p = &call->problem;
    memset(args, 0, sizeof *args);
    for (size_t i = 0; i < sizeof list / sizeof *list; ++i) {
        *list[i].to = handles_tensor(handles, tensor_set_find(list[i].set, list[i].name));
    }
    args->layout_query = problem_is(p, "layout", "tnd") ? "TND" : "BSND";
    args->layout_key = problem_integer(p, "page") > 0 ? "PA_BSND" : args->layout_query;
    args->sparse_count = problem_integer(p, "k");
    args->sparse_mode = problem_integer(p, "mode");
    args->pre_tokens = args->next_tokens = INT64_MAX;
    args->return_values = has_values(call);
}

static bool make_outputs(const struct call *call, struct tensor_set *outputs)
{
    const struct tensor *query = tensor_set_find(&call->inputs, "query");
    struct tensor like;
    if (!query || query->rank < 2) {
        return true; /* the library will say so */
    }
    like = *query;
    like.dims[query->rank - 2] = 1;
    like.dims[query->rank - 1] = problem_integer(&call->problem, "k");
    return add_output(outputs, "sparseIndices", AG_INT32, &like) &&
           (!has_values(call) || add_output(outputs, "sparseValues", query->dtype, &like));
}

static bool prepare(const struct call *call, const struct tensor_set *outputs, struct ready_call *ready)
{
    struct indexer_forward_args a;
    uint64_t bytes = 0;
    bind(call, outputs, &ready->handles, &a);
    ready->phase2 = aclnnLightningIndexer;
    const aclnnStatus status = aclnnLightningIndexerGetWorkspaceSize(
        a.query, a.key, a.weights, a.actual_seq_lengths_query, a.actual_seq_lengths_key, a.block_table,
        (char *)(uintptr_t)a.layout_query, (char *)(uintptr_t)a.layout_key, a.sparse_count, a.sparse_mode,
        a.pre_tokens, a.next_tokens, a.return_values, a.sparse_indices, a.sparse_values, &bytes, &ready->executor);
    return ready_call_finish(ready, entry, status, bytes);
}

/* A call as the library's inner files see it, with outputs of its own. */
struct checked_forward {
    struct tensor_set outputs;
    struct handles handles;
    struct indexer_forward_problem problem;
};

static void release(struct checked_forward *checked)
{
    handles_destroy(&checked->handles);
    tensor_set_destroy(&checked->outputs);
}

/* The values of lengths and table included; release in every case. */
static bool check(const struct call *call, struct checked_forward *checked)
{
    static const uint64_t workspace_size;
    static aclOpExecutor *executor;
    struct indexer_forward_args args;
    memset(checked, 0, sizeof *checked);
    if (!make_outputs(call, &checked->outputs)) {
        return false;
    }
    bind(call, &checked->outputs, &checked->handles, &args);
    args.workspace_size = &workspace_size;
    args.executor = &executor;
    ag_error_enter(entry);
    ag_status status = indexer_forward_check(&args, &checked->problem);
    if (status == AG_OK) {
        status = indexer_forward_check_data(&checked->problem);
    }
    return status == AG_OK || fail_rejected(entry, status);
}

/* --- definition ------------------------------------------------------------------------------------------ */

/* Where a row of the definition goes; NULL: that is not wanted. */
struct definition {
    const struct indexer_forward_problem *p;
    const int32_t *got; /* [rows, K] results at hand, or NULL */
    double *indices, *values, *value_bounds;
    struct indexer_forward_row row; /* [K] each */
};

static void write_row(const struct definition *d, int64_t row)
{
    const int dtype = d->p->query.dtype;
    for (int64_t j = 0; j < d->p->topk; ++j) {
        const int64_t at = row * d->p->topk + j;
        const double value = d->row.values[j], bound = d->row.bounds[j];
        d->indices[at] = d->row.keys[j];
        if (d->values) {
            d->values[at] = value;
        }
        if (d->value_bounds) { /* a rounded neighbour is half a step away from the farthest score */
            d->value_bounds[at] = isfinite(value) ? bound + ulp_of_dtype(dtype, fabs(value) + bound) / 2 : 0;
        }
    }
}

static ag_status define_rows(const struct definition *d)
{
    const struct indexer_tokens tokens = indexer_forward_tokens(d->p);
    for (int64_t b = 0; b < indexer_tokens_count(&tokens); ++b) {
        const struct indexer_sequence sequence = indexer_tokens_sequence(&tokens, b);
        for (int64_t s = 0; s < sequence.rows; ++s) {
            const int64_t row = sequence.row_begin + s;
            const int32_t *got = d->got ? d->got + row * d->p->topk : NULL;
            const ag_status status = indexer_forward_settle(d->p, b, s, got, &d->row);
            if (status != AG_OK) {
                return status;
            }
            write_row(d, row);
        }
    }
    return AG_OK;
}

static bool define_into(const struct indexer_forward_problem *p, const struct tensor *got, struct tensor_set *values,
                        struct tensor_set *bounds)
{
    struct definition d = {.p = p,
                           .got = got ? got->data : NULL,
                           .indices = tensor_set_data(values, "sparseIndices"),
                           .values = tensor_set_data(values, "sparseValues"),
                           .value_bounds = bounds ? tensor_set_data(bounds, "sparseValues") : NULL};
    double *block = malloc((size_t)p->topk * 3 * sizeof *block);
    if (!block) {
        return cli_fail(CLI_USAGE, "out of memory");
    }
    d.row.values = block;
    d.row.bounds = block + p->topk;
    d.row.keys = (int32_t *)(void *)(block + 2 * p->topk);
    const ag_status status = p->is_nothing ? AG_OK : define_rows(&d);
    free(block);
    return status == AG_OK || fail_rejected("the definition", status);
}

static bool define(const struct call *call, struct tensor_set *values, struct tensor_set *bounds)
{
    struct checked_forward checked;
    const bool is_good = check(call, &checked) && add_doubles(&checked.outputs, values) &&
                         add_doubles(&checked.outputs, bounds) && define_into(&checked.problem, NULL, values, bounds);
    release(&checked);
    return is_good;
}

/* Only indices that are whole and lie as the definition's are at hand; else NULL. */
static const struct tensor *indices_at_hand(const struct tensor_set *outputs, const struct tensor_set *values)
{
    const struct tensor *got = tensor_set_find(outputs, "sparseIndices");
    const struct tensor *want = tensor_set_find(values, "sparseIndices");
    return got && want && got->dtype == AG_INT32 && got->elems == want->elems ? got : NULL;
}

static bool settle(const struct call *call, const struct tensor_set *outputs, struct tensor_set *values,
                   struct tensor_set *bounds)
{
    const struct tensor *got = indices_at_hand(outputs, values);
    struct checked_forward checked = {0};
    const bool is_good = !got || (check(call, &checked) && define_into(&checked.problem, got, values, bounds));
    release(&checked);
    return is_good;
}

/* The device casts the score with ties away from zero, and leaves equal scores in any order. The values are those of the
 * keys that were recorded, as the definition's are: else the rounding would excuse values of other keys. */
static bool imitate(const struct call *call, struct tensor_set *values)
{
    struct checked_forward checked;
    const bool is_good = check(call, &checked) && add_doubles(&checked.outputs, values) &&
                         define_into(&checked.problem, indices_at_hand(&call->recorded, values), values, NULL);
    struct tensor *scores = is_good ? tensor_set_find(values, "sparseValues") : NULL;
    for (int64_t at = 0; scores && at < scores->elems; ++at) {
        double *score = (double *)scores->data + at;
        *score = isfinite(*score) ? round_to_dtype_away(checked.problem.query.dtype, (float)*score) : *score;
    }
    release(&checked);
    return is_good;
}

/* --- cost, explain --------------------------------------------------------------------------------------- */

/* Pairs of a row and a key that it sees. */
static double visible_pairs(const struct indexer_forward_problem *p)
{
    const struct indexer_tokens tokens = indexer_forward_tokens(p);
    double pairs = 0;
    for (int64_t b = 0; !p->is_nothing && b < indexer_tokens_count(&tokens); ++b) {
        const struct indexer_sequence sequence = indexer_tokens_sequence(&tokens, b);
        for (int64_t s = 0; s < sequence.live_rows; ++s) {
            pairs += (double)indexer_forward_limit(p, &sequence, s);
        }
    }
    return pairs;
}

static double set_bytes(const struct tensor_set *set)
{
    double bytes = 0;
    for (int i = 0; i < set->count; ++i) {
        bytes += (double)tensor_bytes(&set->items[i]);
    }
    return bytes;
}

static void cost(const struct call *call, double *work, double *bytes)
{
    struct checked_forward checked;
    *work = *bytes = 0;
    if (check(call, &checked)) {
        const struct indexer_forward_problem *p = &checked.problem;
        *work = visible_pairs(p) * 2.0 * (double)p->heads * (double)p->dim;
        *bytes = set_bytes(&call->inputs) + set_bytes(&checked.outputs);
    }
    cli_forgive();
    release(&checked);
}

static void explain_workspace(const struct indexer_forward_plan *plan, const struct facts *facts)
{
    void *memory = workspace_reserve(plan->workspace_bytes);
    struct ag_arena arena = ag_arena_over(memory);
    struct indexer_forward_workspace w;
    indexer_forward_carve(&arena, plan, &w);
    const struct workspace_part parts[] = {
        {"wave keys", w.panels}, {"batch scores", w.scores}, {"batch groups", w.groups}, {"lanes", w.lanes}};
    add_workspace_facts(facts, plan->workspace_bytes, parts, sizeof parts / sizeof *parts);
    workspace_release(memory, plan->workspace_bytes);
}

static bool explain(const struct call *call, const struct facts *facts)
{
    struct checked_forward checked;
    struct indexer_forward_plan plan;
    const struct indexer_forward_problem *p = &checked.problem;
    bool is_good = check(call, &checked);
    if (is_good) {
        const ag_status status = indexer_forward_make_plan(p, &plan);
        is_good = status == AG_OK || fail_rejected(entry, status);
    }
    if (is_good) {
        char text[1024];
        indexer_forward_describe(&plan, text, sizeof text);
        if (!p->is_nothing) {
            const double all = (double)p->rows * (double)(p->has_packed_keys ? p->keys : p->keys / p->sequences);
            const double pairs = visible_pairs(p);
            add_fact(facts, "problem", "visible pairs", "%.6g of %.6g (%.1f %%)", pairs, all,
                     all > 0 ? 100 * pairs / all : 0);
            add_fact(facts, "problem", "rows, keys", "%" PRId64 ", %" PRId64, p->rows, p->keys);
        }
        add_plan_facts(facts, text);
        if (!p->is_nothing) {
            explain_workspace(&plan, facts);
        }
    }
    release(&checked);
    return is_good;
}

/* --- doctor ---------------------------------------------------------------------------------------------- */

static bool inspect(struct call *call, const struct findings *findings)
{
    struct checked_forward checked;
    bool is_good = true;
    if (!check(call, &checked)) {
        add_finding(findings, SEVERITY_ERROR, "", "rejected", "%s", cli_failure());
        cli_forgive();
    } else if (!checked.problem.is_nothing && visible_pairs(&checked.problem) == 0) {
        add_finding(findings, SEVERITY_NOTE, "", "blind-rows", "no row sees a key: every slot is -1");
    } else if (!checked.problem.is_nothing) {
        is_good = inspect_forward_numbers(call, &checked.problem, findings);
    }
    release(&checked);
    return is_good;
}

/* --- what tensors say of the problem --------------------------------------------------------------------- */

static void describe_tensors(struct call *call)
{
    const struct tensor *table = tensor_set_find(&call->inputs, "blockTable");
    const struct tensor *weights = tensor_set_find(&call->inputs, "weights");
    const struct tensor *indices = tensor_set_find(&call->recorded, "sparseIndices");
    if (table) {
        describe_dim(call, "page", "key", 1);
    }
    describe_indexer_tokens(call, "actualSeqLengthsQuery", "actualSeqLengthsKey", table != NULL);
    if (indices && indices->rank > 0) {
        problem_set_integer(&call->problem, "k", indices->dims[indices->rank - 1]);
    }
    if (weights && weights->dtype == AG_FLOAT && !problem_is(&call->problem, "dtype", "f32")) {
        problem_set(&call->problem, "weights", "f32");
    }
}

const struct operation indexer_forward_operation = {.inputs = inputs,
                                                    .outputs = outputs_of_forward,
                                                    .generate = generate_indexer_forward,
                                                    .make_outputs = make_outputs,
                                                    .prepare = prepare,
                                                    .define = define,
                                                    .settle = settle,
                                                    .imitate = imitate,
                                                    .cost = cost,
                                                    .explain = explain,
                                                    .inspect = inspect,
                                                    .describe_tensors = describe_tensors};
