/* Calls of the forward: one that version 5 takes has no sink where the problem has none, and is then one of version 3. */
#include <string.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "call_attention.h"
#include "cli.h"
#include "facts.h"
#include "op/attention/attention_forward.h"
#include "op/attention/attention_forward_plan.h"

static const char entry[] = "aclnnFlashAttentionVarLenScoreV5";

enum { LANES = 8 };

static const char *const inputs[] = {"query", "queryRope", "key", "keyRope", "value", "attenMask", "sink", NULL};
static const char *const outputs_of_forward[] = {"softmaxMax", "softmaxSum", "attentionOut", NULL};

/* --- binding --------------------------------------------------------------------------------------------- */

static bool bind(const struct call *call, const struct tensor_set *outputs, struct handles *handles,
                 struct attention_args *args)
{
    const bool is_good = bind_attention_scalars(call, handles, args);
    const struct {
        const aclTensor **to;
        const struct tensor_set *set;
        const char *name;
    } list[] = {{&args->query, &call->inputs, "query"},      {&args->query_rope, &call->inputs, "queryRope"},
                {&args->key, &call->inputs, "key"},          {&args->key_rope, &call->inputs, "keyRope"},
                {&args->value, &call->inputs, "value"},      {&args->atten_mask, &call->inputs, "attenMask"},
                {&args->sink, &call->inputs, "sink"},        {&args->softmax_max, outputs, "softmaxMax"},
                {&args->softmax_sum, outputs, "softmaxSum"}, {&args->attention_in, outputs, "attentionOut"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; ++i) {
        *list[i].to = handles_tensor(handles, tensor_set_find(list[i].set, list[i].name));
    }
    args->softmax_layout = problem_is(&call->problem, "order", "tnd") ? "same_as_input" : "";
    return is_good;
}

static bool make_outputs(const struct call *call, struct tensor_set *outputs)
{
    const struct tensor *query = tensor_set_find(&call->inputs, "query");
    const struct tensor *value = tensor_set_find(&call->inputs, "value");
    if (!query || !value) {
        return true; /* the library will say so */
    }
    const int64_t rows = tensor_dim(query, 0), heads = tensor_dim(query, 1);
    const int64_t statistics[3] = {rows, heads, LANES}, attention[3] = {rows, heads, tensor_dim(value, 2)};
    return tensor_set_create(outputs, "softmaxMax", AG_FLOAT, 3, statistics) &&
           tensor_set_create(outputs, "softmaxSum", AG_FLOAT, 3, statistics) &&
           tensor_set_create(outputs, "attentionOut", query->dtype, 3, attention);
}

/* --- the two phases -------------------------------------------------------------------------------------- */

static bool prepare(const struct call *call, const struct tensor_set *outputs, struct ready_call *ready)
{
    struct attention_args a;
    uint64_t bytes = 0;
    ready->phase2 = aclnnFlashAttentionVarLenScoreV5;
    if (!bind(call, outputs, &ready->handles, &a)) {
        return false;
    }
    const aclnnStatus status = aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize(
        a.query, a.query_rope, a.key, a.key_rope, a.value, NULL, NULL, NULL, a.atten_mask, a.sink, a.prefix,
        a.actual_seq_q, a.actual_seq_kv, NULL, NULL, a.scale, a.keep_prob, a.pre_tokens, a.next_tokens, a.head_num,
        (char *)(uintptr_t)a.input_layout, 0, a.sparse_mode, a.pse_type, (char *)(uintptr_t)a.softmax_layout,
        a.softmax_max, a.softmax_sum, NULL, a.attention_in, &bytes, &ready->executor);
    return ready_call_finish(ready, entry, status, bytes);
}

bool check_attention_forward(const struct call *call, const struct tensor_set *outputs,
                             struct checked_attention *checked)
{
    static const uint64_t workspace_size;
    static aclOpExecutor *executor;
    memset(checked, 0, sizeof *checked);
    if (!bind(call, outputs, &checked->handles, &checked->args)) {
        return false;
    }
    checked->args.workspace_size = &workspace_size;
    checked->args.executor = &executor;
    ag_error_enter(entry);
    const ag_status status = attention_forward_check(&checked->args, ATTENTION_FORWARD_V5, &checked->problem);
    checked->is_checked = status == AG_OK;
    return status == AG_OK || fail_rejected(entry, status);
}

/* --- the definition -------------------------------------------------------------------------------------- */

/* One number per row becomes eight, from the last row on: they lie in the same memory. */
static void spread_lanes(struct tensor_set *set, const char *name)
{
    const struct tensor *tensor = tensor_set_find(set, name);
    double *data = tensor->data;
    for (int64_t at = tensor->elems - 1; at >= 0; --at) {
        data[at] = data[at / LANES];
    }
}

static bool define_checked(const struct attention_problem *problem, struct tensor_set *values,
                           struct tensor_set *bounds)
{
    const struct attention_forward_ref ref = {
        tensor_set_data(values, "attentionOut"), tensor_set_data(bounds, "attentionOut"),
        tensor_set_data(values, "softmaxMax"),   tensor_set_data(bounds, "softmaxMax"),
        tensor_set_data(values, "softmaxSum"),   tensor_set_data(bounds, "softmaxSum")};
    const ag_status status = attention_forward_ref(problem, &ref);
    if (status != AG_OK) {
        return fail_rejected("the definition", status);
    }
    for (int i = 0; i < 2; ++i) {
        spread_lanes(values, outputs_of_forward[i]);
        spread_lanes(bounds, outputs_of_forward[i]);
    }
    return true;
}

static bool define(const struct call *call, struct tensor_set *values, struct tensor_set *bounds)
{
    struct tensor_set outputs = {0};
    struct checked_attention checked = {0};
    bool is_good = make_outputs(call, &outputs) && check_attention_forward(call, &outputs, &checked) &&
                   add_doubles(&outputs, values) && add_doubles(&outputs, bounds);
    if (is_good && !checked.problem.is_nothing) {
        is_good = define_checked(&checked.problem, values, bounds);
    }
    release_attention(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

/* --- cost, explain --------------------------------------------------------------------------------------- */

static void cost(const struct call *call, double *work, double *bytes)
{
    struct tensor_set outputs = {0};
    struct checked_attention checked = {0};
    *work = *bytes = 0;
    if (make_outputs(call, &outputs) && check_attention_forward(call, &outputs, &checked) &&
        !checked.problem.is_nothing) {
        const struct attention_problem *p = &checked.problem;
        *work = attention_visible_pairs(p) * 2 * (double)(p->dim + p->rope_dim + p->value_dim);
        *bytes = attention_bytes(call, &outputs, p);
    }
    cli_forgive();
    release_attention(&checked);
    tensor_set_destroy(&outputs);
}

/* Lane 0 stands for all: they are alike. */
static void explain_workspace(const struct attention_forward_plan *plan, const struct facts *facts)
{
    void *memory = workspace_reserve(plan->base.workspace_bytes);
    struct ag_arena arena = ag_arena_over(memory);
    struct attention_forward_workspace w = {0};
    static const struct attention_forward_lane none;
    attention_forward_carve(&arena, plan, &w);
    const struct attention_forward_lane *lane = w.lanes ? w.lanes : &none;
    const struct workspace_part parts[] = {
        {"lane table", w.lanes},
        {"lane 0 query rows", lane->query_rows},
        {"lane 0 sums", lane->out},
        {"lane 0 keys", lane->key_lanes},
        {"lane 0 scores", lane->score},
        {"other lanes", w.lanes && plan->base.lanes > 1 ? w.lanes[1].query_rows : NULL},
        {"staged attention", w.staged[FORWARD_OUT_ATTENTION]},
        {"staged max", w.staged[FORWARD_OUT_MAX]},
        {"staged sum", w.staged[FORWARD_OUT_SUM]}};
    add_workspace_facts(facts, plan->base.workspace_bytes, parts, sizeof parts / sizeof *parts);
    workspace_release(memory, plan->base.workspace_bytes);
}

static bool explain(const struct call *call, const struct facts *facts)
{
    struct tensor_set outputs = {0};
    struct checked_attention checked = {0};
    struct attention_forward_plan plan;
    bool is_good = make_outputs(call, &outputs) && check_attention_forward(call, &outputs, &checked);
    if (is_good) {
        const ag_status status = attention_forward_make_plan(&checked.problem, &plan);
        is_good = status == AG_OK || fail_rejected(entry, status);
    }
    if (is_good) {
        char text[1024];
        attention_forward_describe_plan(&plan, text, sizeof text);
        if (!checked.problem.is_nothing) {
            explain_attention_columns(&checked.problem, facts);
        }
        add_plan_facts(facts, text);
        if (!checked.problem.is_nothing && plan.base.workspace_bytes > 0) {
            explain_workspace(&plan, facts);
        }
    }
    release_attention(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

/* --- what tensors say of the problem --------------------------------------------------------------------- */

static void describe_tensors(struct call *call)
{
    describe_attention(call, "key");
    problem_set(&call->problem, "sink", tensor_set_find(&call->inputs, "sink") ? "yes" : "no");
}

const struct operation attention_forward_operation = {.inputs = inputs,
                                                      .outputs = outputs_of_forward,
                                                      .generate = generate_attention_forward,
                                                      .make_outputs = make_outputs,
                                                      .prepare = prepare,
                                                      .define = define,
                                                      .imitate = imitate_attention_forward,
                                                      .cost = cost,
                                                      .explain = explain,
                                                      .inspect = inspect_attention_forward,
                                                      .describe_tensors = describe_tensors};
