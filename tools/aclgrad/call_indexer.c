#include "call_indexer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "cli.h"
#include "facts.h"

static const char entry[] = "aclnnLightningIndexerGrad";
static const char *const inputs[] = {"query",          "key", "dy", "sparseIndices", "weights", "actualSeqQLen",
                                     "actualSeqKvLen", NULL};
static const char *const outputs_of_indexer[] = {"dq", "dk", "dweights", NULL};

/* --- binding --------------------------------------------------------------------------------------------- */

static void bind(const struct call *call, const struct tensor_set *outputs, struct handles *handles,
                 struct indexer_args *args)
{
    const struct {
        const aclTensor **to;
        const struct tensor_set *set;
        const char *name;
    } list[] = {{&args->query, &call->inputs, "query"},
                {&args->key, &call->inputs, "key"},
                {&args->dy, &call->inputs, "dy"},
                {&args->sparse_indices, &call->inputs, "sparseIndices"},
                {&args->weights, &call->inputs, "weights"},
                {&args->actual_seq_q_len, &call->inputs, "actualSeqQLen"},
                {&args->actual_seq_kv_len, &call->inputs, "actualSeqKvLen"},
                {&args->dq, outputs, "dq"},
                {&args->dk, outputs, "dk"},
                {&args->dweights, outputs, "dweights"}};
    memset(args, 0, sizeof *args);
    for (size_t i = 0; i < sizeof list / sizeof *list; ++i) {
        *list[i].to = handles_tensor(handles, tensor_set_find(list[i].set, list[i].name));
    }
    args->input_layout = problem_is(&call->problem, "layout", "tnd") ? "TND" : "BSND";
    args->sparse_mode = problem_integer(&call->problem, "mode");
}

static bool make_outputs(const struct call *call, struct tensor_set *outputs)
{
    static const char *const like[] = {"query", "key", "weights"};
    bool is_good = true;
    for (int i = 0; is_good && outputs_of_indexer[i]; ++i) {
        const struct tensor *input = tensor_set_find(&call->inputs, like[i]);
        is_good = add_output(outputs, outputs_of_indexer[i], input ? input->dtype : AG_FLOAT, input);
    }
    return is_good;
}

static bool prepare(const struct call *call, const struct tensor_set *outputs, struct ready_call *ready)
{
    struct indexer_args a;
    uint64_t bytes = 0;
    bind(call, outputs, &ready->handles, &a);
    ready->phase2 = aclnnLightningIndexerGrad;
    const aclnnStatus status = aclnnLightningIndexerGradGetWorkspaceSize(
        a.query, a.key, a.dy, a.sparse_indices, a.weights, a.actual_seq_q_len, a.actual_seq_kv_len,
        problem_integer(&call->problem, "n"), (char *)(uintptr_t)a.input_layout, a.sparse_mode, INT64_MAX, INT64_MAX,
        true, a.dq, a.dk, a.dweights, &bytes, &ready->executor);
    return ready_call_finish(ready, entry, status, bytes);
}

bool check_indexer(const struct call *call, const struct tensor_set *outputs, struct checked_indexer *checked)
{
    static const uint64_t workspace_size;
    static aclOpExecutor *executor;
    memset(checked, 0, sizeof *checked);
    bind(call, outputs, &checked->handles, &checked->args);
    checked->args.workspace_size = &workspace_size;
    checked->args.executor = &executor;
    ag_error_enter(entry);
    ag_status status = indexer_check(&checked->args, &checked->problem);
    if (status == AG_OK && !checked->problem.is_nothing) {
        status = indexer_check_lengths(&checked->problem);
    }
    return status == AG_OK || fail_rejected(entry, status);
}

void release_indexer(struct checked_indexer *checked)
{
    handles_destroy(&checked->handles);
}

/* --- definition, cost, explain --------------------------------------------------------------------------- */

static bool define(const struct call *call, struct tensor_set *values, struct tensor_set *bounds)
{
    struct tensor_set outputs = {0};
    struct checked_indexer checked = {0};
    bool is_good = make_outputs(call, &outputs) && check_indexer(call, &outputs, &checked) &&
                   add_doubles(&outputs, values) && add_doubles(&outputs, bounds);
    if (is_good && !checked.problem.is_nothing) {
        const struct indexer_reference ref = {
            tensor_set_data(values, "dq"), tensor_set_data(bounds, "dq"),       tensor_set_data(values, "dk"),
            tensor_set_data(bounds, "dk"), tensor_set_data(values, "dweights"), tensor_set_data(bounds, "dweights")};
        const ag_status status = indexer_ref(&checked.problem, &ref);
        is_good = status == AG_OK || fail_rejected("the definition", status);
    }
    release_indexer(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

/* Slots that are live: within the row's limit, with a key that the sequence has. */
static double live_slots(const struct indexer_problem *p)
{
    double live = 0;
    for (int64_t number = 0; number < indexer_sequence_count(p); ++number) {
        const struct indexer_sequence s = indexer_sequence_at(p, number);
        for (int64_t row = 0; row < s.live_rows; ++row) {
            const int64_t limit = indexer_slot_limit(p, &s, row), first = (s.row_begin + row) * p->topk;
            for (int64_t j = 0; j < limit; ++j) {
                const int32_t index = *(const int32_t *)indexer_element(&p->indices, first + j);
                live += index >= 0 && index < s.live_keys;
            }
        }
    }
    return live;
}

static void cost(const struct call *call, double *work, double *bytes)
{
    struct tensor_set outputs = {0};
    struct checked_indexer checked = {0};
    *work = *bytes = 0;
    if (make_outputs(call, &outputs) && check_indexer(call, &outputs, &checked) && !checked.problem.is_nothing) {
        *work = live_slots(&checked.problem) * 6.0 * (double)checked.problem.heads * (double)checked.problem.dim;
        for (int i = 0; i < call->inputs.count; ++i) {
            *bytes += (double)tensor_bytes(&call->inputs.items[i]);
        }
        for (int i = 0; i < outputs.count; ++i) {
            *bytes += (double)tensor_bytes(&outputs.items[i]);
        }
    }
    cli_forgive();
    release_indexer(&checked);
    tensor_set_destroy(&outputs);
}

static void explain_workspace(const struct indexer_plan *plan, const struct facts *facts)
{
    void *memory = workspace_reserve(plan->workspace_bytes);
    struct ag_arena arena = ag_arena_over(memory);
    struct indexer_workspace w;
    indexer_carve(&arena, plan, &w);
    const struct workspace_part parts[] = {{"wave keys", w.keys},
                                           {"wave dk sums", w.dk},
                                           {"batch rows", w.rows},
                                           {"batch dp", w.dp},
                                           {"batch queries", w.queries},
                                           {"slot keys", w.numbers},
                                           {"slots by owner", w.entries},
                                           {"owner starts", w.starts},
                                           {"lanes", w.lanes}};
    add_workspace_facts(facts, plan->workspace_bytes, parts, sizeof parts / sizeof *parts);
    workspace_release(memory, plan->workspace_bytes);
}

static bool explain(const struct call *call, const struct facts *facts)
{
    struct tensor_set outputs = {0};
    struct checked_indexer checked = {0};
    struct indexer_plan plan;
    bool is_good = make_outputs(call, &outputs) && check_indexer(call, &outputs, &checked);
    if (is_good) {
        const ag_status status = indexer_make_plan(&checked.problem, &plan);
        is_good = status == AG_OK || fail_rejected(entry, status);
    }
    if (is_good) {
        char text[1024];
        const struct indexer_problem *p = &checked.problem;
        if (!p->is_nothing) {
            const double slots = (double)p->rows * (double)p->topk, live = live_slots(p);
            add_fact(facts, "problem", "live slots", "%.6g of %.6g (%.1f %%)", live, slots,
                     slots > 0 ? 100 * live / slots : 0);
            add_fact(facts, "problem", "rows, keys", "%" PRId64 ", %" PRId64, p->rows, p->keys);
        }
        indexer_describe(&plan, text, sizeof text);
        add_plan_facts(facts, text);
        if (!p->is_nothing) {
            explain_workspace(&plan, facts);
        }
    }
    release_indexer(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

/* --- what tensors say of the problem --------------------------------------------------------------------- */

/* Values of a length tensor, as the problem's lengths. Counts (BSND) are lengths, prefix sums (TND) are ends. A tensor of
 * another type says nothing: the library will refuse it. */
static void describe_lengths(struct call *call, const char *tensor, const char *lengths, const char *ends,
                             bool is_sums)
{
    const struct tensor *t = tensor_set_find(&call->inputs, tensor);
    const bool is_list = t && t->dtype == AG_INT32 && t->elems <= PROBLEM_MOST_ITEMS;
    int64_t *list = is_list ? malloc((size_t)(t->elems + 1) * sizeof *list) : NULL;
    for (int64_t i = 0; list && i < t->elems; ++i) {
        list[i] = ((const int32_t *)t->data)[i];
    }
    if (list && is_sums) {
        problem_set_ends(&call->problem, lengths, ends, list, t->elems);
    } else if (list) {
        problem_set_list(&call->problem, ends, list, t->elems);
    }
    free(list);
}

/* BSND without length tensors: every sequence is as long as the tensor. */
static void describe_full_lengths(struct call *call, const char *tensor, const char *lengths)
{
    const struct tensor *t = tensor_set_find(&call->inputs, tensor);
    if (t && t->rank == 4 && t->dims[0] <= PROBLEM_MOST_ITEMS) {
        int64_t *list = malloc((size_t)(t->dims[0] + 1) * sizeof *list);
        for (int64_t b = 0; list && b < t->dims[0]; ++b) {
            list[b] = t->dims[1];
        }
        if (list) {
            problem_set_list(&call->problem, lengths, list, t->dims[0]);
        }
        free(list);
    }
}

/* What a problem string would derive by itself need not stand in it. */
static void drop_derived(struct problem *p)
{
    int64_t count, longest = 0, sum = 0;
    static const char *const rows[][2] = {{"t1", "q"}, {"t2", "kv"}};
    for (int side = 0; side < 2; ++side) {
        const int64_t *lengths = problem_list(p, rows[side][1], &count);
        longest = sum = 0;
        for (int64_t b = 0; b < count; ++b) {
            longest = lengths[b] > longest ? lengths[b] : longest;
            sum += lengths[b];
        }
        if (problem_integer(p, rows[side][0]) == (problem_is(p, "layout", "tnd") ? sum : longest)) {
            problem_unset(p, rows[side][0]);
        }
    }
}

void describe_indexer_tokens(struct call *call, const char *query_lengths, const char *key_lengths, bool is_paged)
{
    const bool is_packed = problem_is(&call->problem, "layout", "tnd");
    const struct tensor *query = tensor_set_find(&call->inputs, "query");
    if (!is_packed) {
        describe_full_lengths(call, "query", "q");
    }
    if (!is_packed && !is_paged) {
        describe_full_lengths(call, "key", "kv");
    }
    describe_lengths(call, query_lengths, "q", "qends", is_packed);
    describe_lengths(call, key_lengths, "kv", "kvends", is_packed && !is_paged);
    describe_dim(call, "n", "query", is_packed ? 1 : 2);
    describe_dim(call, "d", "query", is_packed ? 2 : 3);
    describe_dim(call, "t1", "query", is_packed ? 0 : 1);
    if (!is_paged) {
        describe_dim(call, "t2", "key", is_packed ? 0 : 1);
    }
    if (query) {
        problem_set(&call->problem, "dtype", dtype_word(query->dtype));
        cli_forgive();
    }
    drop_derived(&call->problem);
}

static void describe_tensors(struct call *call)
{
    const struct tensor *dy = tensor_set_find(&call->inputs, "dy");
    if (dy && dy->rank > 0) {
        problem_set_integer(&call->problem, "k", dy->dims[dy->rank - 1]);
    }
    describe_indexer_tokens(call, "actualSeqQLen", "actualSeqKvLen", false);
}

const struct operation indexer_operation = {.inputs = inputs,
                                            .outputs = outputs_of_indexer,
                                            .generate = generate_indexer,
                                            .make_outputs = make_outputs,
                                            .prepare = prepare,
                                            .define = define,
                                            .imitate = imitate_indexer,
                                            .cost = cost,
                                            .explain = explain,
                                            .inspect = inspect_indexer,
                                            .describe_tensors = describe_tensors};
