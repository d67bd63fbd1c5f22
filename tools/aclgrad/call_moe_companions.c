#include "call_moe_companions.h"

#include <inttypes.h>
#include <string.h>

#include "aclnnop/aclnn_moe_token_permute_with_ep.h"
#include "aclnnop/aclnn_moe_token_permute_with_ep_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep.h"
#include "call_moe.h"
#include "cli.h"
#include "facts.h"

static const char *entry_of(const struct call *call)
{
    return problem_table_of(&call->problem)->entry;
}

/* --- binding --------------------------------------------------------------------------------------------- */

static void bind_tensors(struct handles *handles, const struct tensor_set *set, const char *const *names,
                         const aclTensor *to[3])
{
    for (int i = 0; names[i]; ++i) {
        to[i] = handles_tensor(handles, tensor_set_find(set, names[i]));
    }
}

static void bind(const struct call *call, const struct tensor_set *outputs, struct handles *handles,
                 struct companion_args *args)
{
    const struct problem *p = &call->problem;
    int64_t count;
    const int64_t *range = problem_list(p, "range", &count);
    memset(args, 0, sizeof *args);
    bind_tensors(handles, &call->inputs, operation_of(call)->inputs, args->in);
    bind_tensors(handles, outputs, operation_of(call)->outputs, args->out);
    args->range = problem_has(p, "range") ? handles_array(handles, range, count) : NULL;
    args->number = problem_integer(p, p->op == PROBLEM_MOE_PERMUTE ? "cut" : "k");
    args->padded_mode = problem_is(p, "padded", "yes");
}

static aclnnStatus phase1(enum problem_operator op, const struct companion_args *a, uint64_t *bytes,
                          aclOpExecutor **executor)
{
    if (op == PROBLEM_MOE_PERMUTE) {
        return aclnnMoeTokenPermuteWithEpGetWorkspaceSize(a->in[0], a->in[1], a->in[2], a->range, a->number,
                                                          a->padded_mode, a->out[0], a->out[1], a->out[2], bytes,
                                                          executor);
    }
    if (op == PROBLEM_MOE_PERMUTE_GRAD) {
        return aclnnMoeTokenPermuteWithEpGradGetWorkspaceSize(a->in[0], a->in[1], a->in[2], a->number, a->range,
                                                              a->padded_mode, a->out[0], a->out[1], bytes, executor);
    }
    return aclnnMoeTokenUnpermuteWithEpGetWorkspaceSize(a->in[0], a->in[1], a->in[2], a->number, a->range,
                                                        a->padded_mode, NULL, a->out[0], bytes, executor);
}

static bool prepare(const struct call *call, const struct tensor_set *outputs, struct ready_call *ready)
{
    const enum problem_operator op = call->problem.op;
    struct companion_args args;
    uint64_t bytes = 0;
    bind(call, outputs, &ready->handles, &args);
    ready->phase2 = op == PROBLEM_MOE_PERMUTE        ? aclnnMoeTokenPermuteWithEp
                    : op == PROBLEM_MOE_PERMUTE_GRAD ? aclnnMoeTokenPermuteWithEpGrad
                                                     : aclnnMoeTokenUnpermuteWithEp;
    const aclnnStatus status = phase1(op, &args, &bytes, &ready->executor);
    return ready_call_finish(ready, entry_of(call), status, bytes);
}

static ag_status library_check(enum problem_operator op, struct checked_companion *checked)
{
    static const uint64_t workspace_size;
    static aclOpExecutor *executor;
    const struct companion_args *a = &checked->args;
    if (op == PROBLEM_MOE_PERMUTE) {
        const struct moe_permute_args args = {a->in[0],  a->in[1],        a->in[2],  a->range,
                                              a->number, a->padded_mode,  a->out[0], a->out[1],
                                              a->out[2], &workspace_size, &executor};
        return moe_permute_check(&args, &checked->permute);
    }
    if (op == PROBLEM_MOE_PERMUTE_GRAD) {
        const struct moe_permute_grad_args args = {a->in[0],       a->in[1],  a->in[2],  a->number,       a->range,
                                                   a->padded_mode, a->out[0], a->out[1], &workspace_size, &executor};
        return moe_permute_grad_check(&args, &checked->unpermute);
    }
    const struct moe_unpermute_args args = {a->in[0],       a->in[1], a->in[2],  a->number,       a->range,
                                            a->padded_mode, NULL,     a->out[0], &workspace_size, &executor};
    return moe_unpermute_check(&args, &checked->unpermute);
}

bool check_companion(const struct call *call, const struct tensor_set *outputs, struct checked_companion *checked)
{
    memset(checked, 0, sizeof *checked);
    bind(call, outputs, &checked->handles, &checked->args);
    ag_error_enter(entry_of(call));
    const ag_status status = library_check(call->problem.op, checked);
    return status == AG_OK || fail_rejected(entry_of(call), status);
}

void release_companion(struct checked_companion *checked)
{
    handles_destroy(&checked->handles);
}

/* --- outputs --------------------------------------------------------------------------------------------- */

/* Rows of permuteTokensOut: rows, else those recorded, else those of the window that numOutTokens leaves. */
static int64_t permuted_rows(const struct call *call, int64_t slots)
{
    const struct problem *p = &call->problem;
    const struct tensor *recorded = tensor_set_find(&call->recorded, "permuteTokens");
    int64_t count;
    const int64_t *range = problem_list(p, "range", &count), number = problem_integer(p, "cut");
    const int64_t cut = number > 0 ? number : slots + (number < -slots ? -slots : number);
    const int64_t begin = count == 2 ? range[0] : 0, end = count == 2 ? range[1] : slots;
    const int64_t last = cut < end ? cut : end;
    if (problem_has(p, "rows")) {
        return problem_integer(p, "rows");
    }
    if (recorded && recorded->rank == 2) {
        return recorded->dims[0];
    }
    return last > begin ? (last < slots ? last : slots) - begin : 0;
}

static bool make_permute_outputs(const struct call *call, struct tensor_set *outputs)
{
    const struct tensor *tokens = tensor_set_find(&call->inputs, "tokens");
    const struct tensor *indices = tensor_set_find(&call->inputs, "indices");
    const struct tensor *probs = tensor_set_find(&call->inputs, "probs");
    if (!tokens || !indices) {
        return true; /* the library will say so */
    }
    const int64_t rows = permuted_rows(call, indices->elems);
    const int64_t dims[2] = {rows > 0 ? rows : 0, tensor_dim(tokens, 1)};
    return tensor_set_create(outputs, "permuteTokens", tokens->dtype, 2, dims) &&
           tensor_set_create(outputs, "sortedIndices", AG_INT32, 1, &indices->elems) &&
           (!probs || tensor_set_create(outputs, "permuteProbs", probs->dtype, 1, dims));
}

static bool make_token_outputs(const struct call *call, struct tensor_set *outputs)
{
    const bool is_grad = call->problem.op == PROBLEM_MOE_PERMUTE_GRAD;
    const struct operation *op = operation_of(call);
    const struct tensor *permuted = tensor_set_find(&call->inputs, op->inputs[0]);
    const struct tensor *probs = tensor_set_find(&call->inputs, op->inputs[2]);
    if (!permuted) {
        return true; /* the library will say so */
    }
    const int64_t tokens = problem_integer(&call->problem, "t");
    const int64_t dims[2] = {tokens, tensor_dim(permuted, 1)},
                  by_expert[2] = {tokens, problem_integer(&call->problem, "k")};
    return tensor_set_create(outputs, op->outputs[0], permuted->dtype, 2, dims) &&
           (!is_grad || !probs || tensor_set_create(outputs, op->outputs[1], probs->dtype, 2, by_expert));
}

static bool make_outputs(const struct call *call, struct tensor_set *outputs)
{
    return (call->problem.op == PROBLEM_MOE_PERMUTE ? make_permute_outputs : make_token_outputs)(call, outputs);
}

/* --- definition, cost, explain --------------------------------------------------------------------------- */

static bool is_empty(const struct call *call, const struct checked_companion *checked)
{
    return call->problem.op == PROBLEM_MOE_PERMUTE ? checked->permute.is_empty : checked->unpermute.is_empty;
}

static bool define(const struct call *call, struct tensor_set *values, struct tensor_set *bounds)
{
    const char *const *names = operation_of(call)->outputs;
    struct tensor_set outputs = {0};
    struct checked_companion checked = {0};
    const bool is_good = make_outputs(call, &outputs) && check_companion(call, &outputs, &checked) &&
                         add_doubles(&outputs, values) && add_doubles(&outputs, bounds);
    if (is_good && !is_empty(call, &checked)) { /* what is only moved is exact: its bounds stay 0 */
        double *const first = tensor_set_data(values, names[0]);
        double *const second = names[1] ? tensor_set_data(values, names[1]) : NULL;
        if (call->problem.op == PROBLEM_MOE_PERMUTE) {
            moe_permute_ref(&checked.permute,
                            &(struct moe_permute_reference){first, second, tensor_set_data(values, names[2])});
        } else {
            moe_unpermute_ref(&checked.unpermute,
                              &(struct moe_unpermute_reference){first, tensor_set_data(bounds, names[0]), second});
        }
    }
    release_companion(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

/* Slots with a row on this rank; of a permute all rows of the window have one. */
static int64_t local_slots(const struct moe_unpermute_problem *p)
{
    int64_t local = 0;
    for (int64_t i = 0; i < p->slots; ++i) {
        const int32_t *indices = ag_view_origin(&p->sorted_indices);
        const int64_t row = indices[i * p->sorted_indices.strides[0]] - p->window.begin;
        local += row >= 0 && row < p->local_rows;
    }
    return local;
}

static void cost(const struct call *call, double *work, double *bytes)
{
    struct tensor_set outputs = {0};
    struct checked_companion checked = {0};
    *work = *bytes = 0;
    if (make_outputs(call, &outputs) && check_companion(call, &outputs, &checked) && !is_empty(call, &checked)) {
        const bool is_permute = call->problem.op == PROBLEM_MOE_PERMUTE;
        const struct moe_permute_problem *p = &checked.permute;
        const struct moe_unpermute_problem *u = &checked.unpermute;
        const double local = is_permute ? 0 : (double)local_slots(u);
        const double rows =
            is_permute ? (double)(p->tokens_count + p->permuted_tokens.dims[0]) : local + (double)u->tokens_count;
        *work = is_permute ? 0 : 2 * local * (double)u->hidden;
        *bytes = rows * (double)(is_permute ? p->hidden : u->hidden) *
                 (double)ag_elem_bytes(is_permute ? p->token_elem : u->token_elem);
    }
    cli_forgive();
    release_companion(&checked);
    tensor_set_destroy(&outputs);
}

static bool explain_permute(const struct moe_permute_problem *p, const struct facts *facts)
{
    char text[1024];
    struct moe_permute_plan plan;
    if (moe_permute_make_plan(p, &plan) != AG_OK) {
        return false;
    }
    moe_permute_describe(&plan, text, sizeof text);
    add_plan_facts(facts, text);
    if (!p->is_empty) {
        struct moe_permute_workspace w;
        void *memory = workspace_reserve(plan.workspace_bytes);
        struct ag_arena arena = ag_arena_over(memory);
        moe_permute_carve(&arena, &plan, &w);
        const struct workspace_part parts[] = {{"experts", w.sort.keys},
                                               {"slots in order", w.sort.order},
                                               {"slots in the next order", w.sort.next},
                                               {"starts of digits", w.sort.starts},
                                               {"row owners", w.scatter.owner},
                                               {"local slots", w.scatter.local_slots},
                                               {"token rows", w.scatter.grad_rows}};
        add_workspace_facts(facts, plan.workspace_bytes, parts, sizeof parts / sizeof *parts);
        workspace_release(memory, plan.workspace_bytes);
    }
    return true;
}

static bool explain_unpermute(const struct moe_unpermute_problem *p, const struct facts *facts)
{
    char text[1024];
    struct moe_unpermute_plan plan;
    if (moe_unpermute_make_plan(p, &plan) != AG_OK) {
        return false;
    }
    if (!p->is_empty) {
        add_fact(facts, "problem", "window", "[%" PRId64 ", %" PRId64 ") of %" PRId64 " sorted positions",
                 p->window.begin, p->window.end, p->slots);
        add_fact(facts, "problem", "local slots", "%" PRId64 " of %" PRId64, local_slots(p), p->slots);
    }
    moe_unpermute_describe(&plan, text, sizeof text);
    add_plan_facts(facts, text);
    if (!p->is_empty) {
        struct moe_unpermute_workspace w;
        void *memory = workspace_reserve(plan.workspace_bytes);
        struct ag_arena arena = ag_arena_over(memory);
        moe_unpermute_carve(&arena, &plan, &w);
        const struct workspace_part parts[] = {
            {"rows to sum", w.terms}, {"gathered rows to sum", w.dense}, {"gathered rows", w.gathered}};
        add_workspace_facts(facts, plan.workspace_bytes, parts, sizeof parts / sizeof *parts);
        workspace_release(memory, plan.workspace_bytes);
    }
    return true;
}

static bool explain(const struct call *call, const struct facts *facts)
{
    struct tensor_set outputs = {0};
    struct checked_companion checked = {0};
    bool is_good = make_outputs(call, &outputs) && check_companion(call, &outputs, &checked);
    if (is_good) {
        is_good = call->problem.op == PROBLEM_MOE_PERMUTE ? explain_permute(&checked.permute, facts)
                                                          : explain_unpermute(&checked.unpermute, facts);
        is_good = is_good || fail_rejected(entry_of(call), AG_TILING);
    }
    release_companion(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

/* --- what tensors say of the problem --------------------------------------------------------------------- */

/* Where numTopk was not recorded, the tokens say how many slots each has, or else probs do; without either it is 1. */
static void describe_slots(struct call *call, const struct tensor *slots, const struct tensor *probs)
{
    const struct tensor *tokens = tensor_set_find(&call->recorded, operation_of(call)->outputs[0]);
    if (problem_has(&call->problem, "k")) {
        return;
    }
    const bool has_tokens = slots && tokens && tokens->rank == 2 && tokens->dims[0] > 0;
    problem_set_integer(&call->problem, "k",
                        has_tokens                  ? slots->elems / tokens->dims[0]
                        : probs && probs->rank == 2 ? probs->dims[1]
                                                    : 1);
}

static void describe_tensors(struct call *call)
{
    const bool is_permute = call->problem.op == PROBLEM_MOE_PERMUTE;
    const char *const *inputs = operation_of(call)->inputs;
    const struct tensor *rows = tensor_set_find(&call->inputs, inputs[0]);
    const struct tensor *slots = tensor_set_find(&call->inputs, inputs[1]);
    const struct tensor *probs = tensor_set_find(&call->inputs, inputs[2]);
    describe_dim(call, "h", inputs[0], 1);
    if (is_permute) {
        describe_dim(call, "t", inputs[0], 0);
        problem_set_integer(&call->problem, "k", slots && slots->rank == 2 ? slots->dims[1] : 1);
        problem_set(&call->problem, "index", slots ? dtype_word(slots->dtype) : "i32");
    } else {
        describe_slots(call, slots, probs);
        const int64_t topk = problem_integer(&call->problem, "k");
        describe_dim(call, "rows", inputs[0], 0);
        problem_set_integer(&call->problem, "t", slots && topk > 0 ? slots->elems / topk : 0);
    }
    if (rows) {
        problem_set(&call->problem, "dtype", dtype_word(rows->dtype));
    }
    problem_set(&call->problem, "probs", probs ? dtype_word(probs->dtype) : "none");
    cli_forgive(); /* a type that the operator has not: the library will say so */
    if (problem_is(&call->problem, "probs", problem_word(&call->problem, "dtype"))) {
        problem_set(&call->problem, "probs", "same");
    }
}

/* --- the operations -------------------------------------------------------------------------------------- */

#define COMPANION(in, out)                                                                                           \
    {                                                                                                                \
        .inputs = in, .outputs = out, .generate = generate_moe_companion, .make_outputs = make_outputs,              \
        .prepare = prepare, .define = define, .imitate = imitate_moe_companion, .cost = cost, .explain = explain,    \
        .inspect = inspect_moe_companion, .describe_tensors = describe_tensors                                       \
    }

static const char *const permute_inputs[] = {"tokens", "indices", "probs", NULL};
static const char *const permute_outputs[] = {"permuteTokens", "sortedIndices", "permuteProbs", NULL};
static const char *const permute_grad_inputs[] = {"permutedTokensOutputGrad", "sortedIndices",
                                                  "permutedProbsOutputGrad", NULL};
static const char *const permute_grad_outputs[] = {"tokenGrad", "probsGrad", NULL};
static const char *const unpermute_inputs[] = {"permutedTokens", "sortedIndices", "probs", NULL};
static const char *const unpermute_outputs[] = {"out", NULL};

const struct operation moe_permute_operation = COMPANION(permute_inputs, permute_outputs);
const struct operation moe_permute_grad_operation = COMPANION(permute_grad_inputs, permute_grad_outputs);
const struct operation moe_unpermute_operation = COMPANION(unpermute_inputs, unpermute_outputs);
