#include "call_moe.h"

#include <inttypes.h>
#include <string.h>

#include "aclnnop/aclnn_moe_token_unpermute_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "cli.h"
#include "facts.h"

static const char *const inputs[] = {"unpermutedTokensGrad", "sortedIndices", "permutedTokens", "probs", NULL};
static const char *const outputs_of_moe[] = {"permutedTokensGrad", "probsGrad", NULL};

static const char *entry_of(const struct call *call)
{
    return problem_table_of(&call->problem)->entry;
}

const int64_t *moe_range(const struct problem *problem, int64_t *count)
{
    *count = 0;
    return problem_knows(problem, "range") ? problem_list(problem, "range", count) : NULL;
}

/* --- binding --------------------------------------------------------------------------------------------- */

static void bind(const struct call *call, const struct tensor_set *outputs, struct handles *handles,
                 struct moe_args *args)
{
    const struct problem *p = &call->problem;
    int64_t count;
    const int64_t *range = moe_range(p, &count);
    *args = (struct moe_args){
        .unpermuted_tokens_grad = handles_tensor(handles, tensor_set_find(&call->inputs, "unpermutedTokensGrad")),
        .sorted_indices = handles_tensor(handles, tensor_set_find(&call->inputs, "sortedIndices")),
        .permuted_tokens = handles_tensor(handles, tensor_set_find(&call->inputs, "permutedTokens")),
        .probs = handles_tensor(handles, tensor_set_find(&call->inputs, "probs")),
        .padded_mode = problem_is(p, "padded", "yes"),
        .range = problem_knows(p, "range") && problem_has(p, "range") ? handles_array(handles, range, count) : NULL,
        .topk_num = problem_knows(p, "topknum") ? problem_integer_or(p, "topknum", problem_integer(p, "k"))
                                                : problem_integer(p, "k"),
        .permuted_tokens_grad = handles_tensor(handles, tensor_set_find(outputs, "permutedTokensGrad")),
        .probs_grad = handles_tensor(handles, tensor_set_find(outputs, "probsGrad"))};
}

/* Rows of permutedTokensGradOut: outrows, else those of permutedTokens, else the window's, else all. */
static int64_t output_rows(const struct call *call)
{
    const struct tensor *permuted = tensor_set_find(&call->inputs, "permutedTokens");
    const struct tensor *indices = tensor_set_find(&call->inputs, "sortedIndices");
    const struct tensor *recorded = tensor_set_find(&call->recorded, "permutedTokensGrad");
    int64_t count, slots = indices ? indices->elems : 0;
    const int64_t *range = moe_range(&call->problem, &count);
    if (problem_has(&call->problem, "outrows")) {
        return problem_integer(&call->problem, "outrows");
    }
    if (recorded && recorded->rank == 2) {
        return recorded->dims[0];
    }
    if (permuted && permuted->rank == 2) {
        return permuted->dims[0];
    }
    if (count == 2) {
        const int64_t begin = range[0] < 0 ? range[0] + slots : range[0],
                      end = range[1] < 0 ? range[1] + slots : range[1];
        const int64_t cut = end < slots ? end : slots;
        return cut > begin && begin >= 0 ? cut - begin : 0;
    }
    return slots;
}

static bool make_outputs(const struct call *call, struct tensor_set *outputs)
{
    const struct tensor *grad = tensor_set_find(&call->inputs, "unpermutedTokensGrad");
    const struct tensor *probs = tensor_set_find(&call->inputs, "probs");
    if (!grad) {
        return true; /* the library will say so */
    }
    const int64_t dims[2] = {output_rows(call), tensor_dim(grad, 1)}, none[2] = {0, 0};
    return tensor_set_create(outputs, "permutedTokensGrad", grad->dtype, 2, dims) &&
           (probs ? add_output(outputs, "probsGrad", probs->dtype, probs)
                  : tensor_set_create(outputs, "probsGrad", grad->dtype, 2, none) != NULL);
}

static bool prepare(const struct call *call, const struct tensor_set *outputs, struct ready_call *ready)
{
    struct moe_args a;
    uint64_t bytes = 0;
    bind(call, outputs, &ready->handles, &a);
    ready->phase2 = aclnnMoeTokenUnpermuteWithEpGrad;
    const aclnnStatus status = aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
        a.unpermuted_tokens_grad, a.sorted_indices, a.permuted_tokens, a.probs, a.padded_mode, NULL, a.range,
        a.topk_num, a.permuted_tokens_grad, a.probs_grad, &bytes, &ready->executor);
    return ready_call_finish(ready, entry_of(call), status, bytes);
}

/* The entry that has no window takes its outputs as handles that are not const. */
static bool prepare_without_window(const struct call *call, const struct tensor_set *outputs,
                                   struct ready_call *ready)
{
    struct moe_args a;
    uint64_t bytes = 0;
    bind(call, outputs, &ready->handles, &a);
    const int count = ready->handles.tensor_count; /* the outputs come last */
    ready->phase2 = aclnnMoeTokenUnpermuteGrad;
    const aclnnStatus status = aclnnMoeTokenUnpermuteGradGetWorkspaceSize(
        a.permuted_tokens, a.unpermuted_tokens_grad, a.sorted_indices, a.probs, a.padded_mode, NULL,
        ready->handles.tensors[count - 2], ready->handles.tensors[count - 1], &bytes, &ready->executor);
    return ready_call_finish(ready, entry_of(call), status, bytes);
}

bool check_moe(const struct call *call, const struct tensor_set *outputs, struct checked_moe *checked)
{
    static const uint64_t workspace_size;
    static aclOpExecutor *executor;
    memset(checked, 0, sizeof *checked);
    bind(call, outputs, &checked->handles, &checked->args);
    checked->args.workspace_size = &workspace_size;
    checked->args.executor = &executor;
    ag_error_enter(entry_of(call));
    const ag_status status = moe_check(&checked->args, &checked->problem);
    return status == AG_OK || fail_rejected(entry_of(call), status);
}

void release_moe(struct checked_moe *checked)
{
    handles_destroy(&checked->handles);
}

/* --- definition, cost, explain --------------------------------------------------------------------------- */

static bool define(const struct call *call, struct tensor_set *values, struct tensor_set *bounds)
{
    struct tensor_set outputs = {0};
    struct checked_moe checked = {0};
    const bool is_good = make_outputs(call, &outputs) && check_moe(call, &outputs, &checked) &&
                         add_doubles(&outputs, values) && add_doubles(&outputs, bounds);
    if (is_good && !checked.problem.is_empty) {
        const struct moe_reference ref = {tensor_set_data(values, "permutedTokensGrad"),
                                          tensor_set_data(values, "probsGrad"), tensor_set_data(bounds, "probsGrad")};
        moe_ref(&checked.problem, &ref); /* permutedTokensGrad is exact: its bounds stay 0 */
    }
    release_moe(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

/* Slots with a row on this rank. */
static int64_t local_slots(const struct moe_problem *p)
{
    const char *data = ag_view_origin(&p->sorted_indices);
    int64_t local = 0;
    for (int64_t i = 0; i < p->slots; ++i) {
        const int64_t position = ((const int32_t *)(const void *)data)[i * p->sorted_indices.strides[0]];
        local +=
            position >= p->window_begin && position < p->window_end && position - p->window_begin < p->local_rows;
    }
    return local;
}

static void cost(const struct call *call, double *work, double *bytes)
{
    struct tensor_set outputs = {0};
    struct checked_moe checked = {0};
    *work = *bytes = 0;
    if (make_outputs(call, &outputs) && check_moe(call, &outputs, &checked) && !checked.problem.is_empty) {
        const struct moe_problem *p = &checked.problem;
        const double row_bytes = (double)p->hidden * (double)ag_elem_bytes(p->token_elem);
        const double local = (double)local_slots(p);
        *work = (p->probs.present ? 3.0 : 0.0) * local * (double)p->hidden;
        *bytes = row_bytes * ((double)p->tokens + (p->probs.present ? local : 0) + (double)p->out_rows);
    }
    cli_forgive();
    release_moe(&checked);
    tensor_set_destroy(&outputs);
}

static void explain_workspace(const struct moe_plan *plan, const struct facts *facts)
{
    void *memory = workspace_reserve(plan->workspace_bytes);
    struct ag_arena arena = ag_arena_over(memory);
    struct moe_workspace w;
    moe_carve(&arena, plan, &w);
    const struct workspace_part parts[] = {{"row owners", w.owner},
                                           {"local slots", w.local_slots},
                                           {"spare rows", w.spare_row},
                                           {"gradient rows", w.grad_rows},
                                           {"token rows", w.token_rows}};
    add_workspace_facts(facts, plan->workspace_bytes, parts, sizeof parts / sizeof *parts);
    workspace_release(memory, plan->workspace_bytes);
}

static bool explain(const struct call *call, const struct facts *facts)
{
    struct tensor_set outputs = {0};
    struct checked_moe checked = {0};
    struct moe_plan plan;
    bool is_good = make_outputs(call, &outputs) && check_moe(call, &outputs, &checked);
    if (is_good) {
        const ag_status status = moe_make_plan(&checked.problem, &plan);
        is_good = status == AG_OK || fail_rejected(entry_of(call), status);
    }
    if (is_good) {
        char text[1024];
        const struct moe_problem *p = &checked.problem;
        if (!p->is_empty) {
            add_fact(facts, "problem", "window", "[%" PRId64 ", %" PRId64 ") of %" PRId64 " sorted positions",
                     p->window_begin, p->window_end, p->slots);
            add_fact(facts, "problem", "local slots", "%" PRId64 " of %" PRId64, local_slots(p), p->slots);
        }
        moe_describe(&plan, text, sizeof text);
        add_plan_facts(facts, text);
        if (!p->is_empty) {
            explain_workspace(&plan, facts);
        }
    }
    release_moe(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

/* --- what tensors say of the problem --------------------------------------------------------------------- */

/* Without probs, topkNum says how many slots a token has; where it was not recorded, the map does. */
static void describe_slots(struct call *call)
{
    const struct tensor *indices = tensor_set_find(&call->inputs, "sortedIndices");
    const int64_t tokens = problem_integer(&call->problem, "t");
    if (problem_knows(&call->problem, "topknum") && problem_has(&call->problem, "topknum")) {
        problem_set_integer(&call->problem, "k", problem_integer(&call->problem, "topknum"));
    } else if (indices && tokens > 0) {
        problem_set_integer(&call->problem, "k", indices->elems / tokens);
    }
}

static void describe_tensors(struct call *call)
{
    const struct tensor *grad = tensor_set_find(&call->inputs, "unpermutedTokensGrad");
    const struct tensor *probs = tensor_set_find(&call->inputs, "probs");
    const struct tensor *permuted = tensor_set_find(&call->inputs, "permutedTokens");
    describe_dim(call, "t", "unpermutedTokensGrad", 0);
    describe_dim(call, "h", "unpermutedTokensGrad", 1);
    if (probs) {
        describe_dim(call, "k", "probs", 1);
    } else {
        describe_slots(call);
    }
    if (permuted) {
        describe_dim(call, "rows", "permutedTokens", 0);
    }
    if (grad) {
        problem_set(&call->problem, "dtype", dtype_word(grad->dtype));
    }
    problem_set(&call->problem, "probs", probs ? dtype_word(probs->dtype) : "none");
    problem_set(&call->problem, "permuted", permuted ? "yes" : "no");
    cli_forgive(); /* a type that the operator has not: the library will say so */
    if (problem_knows(&call->problem, "topknum") &&
        problem_integer(&call->problem, "topknum") == problem_integer(&call->problem, "k")) {
        problem_unset(&call->problem, "topknum");
    }
    if (problem_is(&call->problem, "probs", problem_word(&call->problem, "dtype"))) {
        problem_set(&call->problem, "probs", "same");
    }
}

#define MOE(prepare_)                                                                                                \
    {                                                                                                                \
        .inputs = inputs, .outputs = outputs_of_moe, .generate = generate_moe, .make_outputs = make_outputs,         \
        .prepare = prepare_, .define = define, .imitate = imitate_moe, .cost = cost, .explain = explain,             \
        .inspect = inspect_moe, .describe_tensors = describe_tensors                                                 \
    }
const struct operation moe_operation = MOE(prepare);
const struct operation moe_unpermute_grad_operation = MOE(prepare_without_window);
