#include "call_attention.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "cli.h"
#include "facts.h"
#include "op/attention/attention_plan.h"
#include "op/attention/attention_run.h"

static const char *const inputs[] = {"query",     "queryRope",  "keyIn",      "keyInRope",   "value", "dy",
                                     "attenMask", "softmaxMax", "softmaxSum", "attentionIn", NULL};
static const char *const outputs_of_attention[] = {"dq", "dqRope", "dk", "dkRope", "dv", NULL};

/* --- binding --------------------------------------------------------------------------------------------- */

static bool bind_lists(const struct call *call, struct handles *handles, struct attention_args *args)
{
    const struct problem *p = &call->problem;
    int64_t *ends, count;
    if (!problem_ends(p, "q", "qends", &ends, &count)) {
        return false;
    }
    args->actual_seq_q = handles_array(handles, ends, count);
    const bool has_keys = problem_has(p, "kv") || problem_has(p, "kvends");
    if (has_keys) {
        free(ends);
        if (!problem_ends(p, "kv", "kvends", &ends, &count)) {
            return false;
        }
    }
    args->actual_seq_kv = handles_array(handles, ends, count);
    free(ends);
    if (problem_has(p, "prefix")) {
        const int64_t *prefix = problem_list(p, "prefix", &count);
        args->prefix = handles_array(handles, prefix, count);
    }
    return true;
}

static const char *layout_text(const struct problem *problem)
{
    static const char *const words[][2] = {
        {"tnd", "TND"}, {"bsh", "BSH"}, {"sbh", "SBH"}, {"bsnd", "BSND"}, {"bnsd", "BNSD"}};
    int i = 0;
    while (i < 4 && !problem_is(problem, "layout", words[i][0])) {
        ++i;
    }
    return words[i][1];
}

static void bind_tensors(const struct call *call, const struct tensor_set *outputs, struct handles *handles,
                         struct attention_args *args)
{
    const struct {
        const aclTensor **to;
        const struct tensor_set *set;
        const char *name;
    } list[] = {{&args->query, &call->inputs, "query"},
                {&args->query_rope, &call->inputs, "queryRope"},
                {&args->key, &call->inputs, "keyIn"},
                {&args->key_rope, &call->inputs, "keyInRope"},
                {&args->value, &call->inputs, "value"},
                {&args->dy, &call->inputs, "dy"},
                {&args->atten_mask, &call->inputs, "attenMask"},
                {&args->softmax_max, &call->inputs, "softmaxMax"},
                {&args->softmax_sum, &call->inputs, "softmaxSum"},
                {&args->attention_in, &call->inputs, "attentionIn"},
                {&args->dq, outputs, "dq"},
                {&args->dq_rope, outputs, "dqRope"},
                {&args->dk, outputs, "dk"},
                {&args->dk_rope, outputs, "dkRope"},
                {&args->dv, outputs, "dv"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; ++i) {
        *list[i].to = handles_tensor(handles, tensor_set_find(list[i].set, list[i].name));
    }
}

bool bind_attention_scalars(const struct call *call, struct handles *handles, struct attention_args *args)
{
    const struct problem *p = &call->problem;
    const int64_t width = problem_integer(p, "d") + problem_integer(p, "dr");
    *args = (struct attention_args){.entry = problem_table_of(p)->entry,
                                    .scale = problem_real_or(p, "scale", width > 0 ? 1 / sqrt((double)width) : 1),
                                    .keep_prob = problem_real_or(p, "keepprob", 1),
                                    .pre_tokens = problem_integer(p, "pre"),
                                    .next_tokens = problem_integer(p, "next"),
                                    .head_num = problem_integer_or(p, "headnum", problem_integer(p, "n1")),
                                    .input_layout = layout_text(p),
                                    .sparse_mode = problem_integer(p, "mode"),
                                    .pse_type = problem_integer(p, "psetype")};
    return bind_lists(call, handles, args);
}

bool bind_attention(const struct call *call, const struct tensor_set *outputs, struct handles *handles,
                    struct attention_args *args)
{
    const bool is_good = bind_attention_scalars(call, handles, args);
    bind_tensors(call, outputs, handles, args);
    return is_good;
}

static bool make_outputs(const struct call *call, struct tensor_set *outputs)
{
    static const char *const like[] = {"query", "queryRope", "keyIn", "keyInRope", "value"};
    for (int i = 0; outputs_of_attention[i]; ++i) {
        const struct tensor *input = tensor_set_find(&call->inputs, like[i]);
        if (!add_output(outputs, outputs_of_attention[i], input ? input->dtype : AG_FLOAT, input)) {
            return false;
        }
    }
    return true;
}

/* --- the two phases -------------------------------------------------------------------------------------- */

static aclnnStatus phase1(const struct attention_args *a, uint64_t *workspace_bytes, aclOpExecutor **executor)
{
    return aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
        a->query, a->query_rope, a->key, a->key_rope, a->value, a->dy, NULL, NULL, NULL, a->atten_mask,
        a->softmax_max, a->softmax_sum, NULL, a->attention_in, a->prefix, a->actual_seq_q, a->actual_seq_kv, NULL,
        NULL, a->scale, a->keep_prob, a->pre_tokens, a->next_tokens, a->head_num, (char *)(uintptr_t)a->input_layout,
        0, a->sparse_mode, a->pse_type, a->dq, a->dq_rope, a->dk, a->dk_rope, a->dv, NULL, workspace_bytes, executor);
}

static bool prepare(const struct call *call, const struct tensor_set *outputs, struct ready_call *ready)
{
    struct attention_args args;
    uint64_t bytes = 0;
    ready->phase2 = aclnnFlashAttentionUnpaddingScoreGradV3;
    if (!bind_attention(call, outputs, &ready->handles, &args)) {
        return false;
    }
    const aclnnStatus status = phase1(&args, &bytes, &ready->executor);
    return ready_call_finish(ready, "aclnnFlashAttentionUnpaddingScoreGradV3", status, bytes);
}

bool check_attention(const struct call *call, const struct tensor_set *outputs, struct checked_attention *checked)
{
    static const uint64_t workspace_size;
    static aclOpExecutor *executor;
    memset(checked, 0, sizeof *checked);
    if (!bind_attention(call, outputs, &checked->handles, &checked->args)) {
        return false;
    }
    checked->args.workspace_size = &workspace_size;
    checked->args.executor = &executor;
    ag_error_enter("aclnnFlashAttentionUnpaddingScoreGradV3");
    const ag_status status = attention_check(&checked->args, &checked->problem);
    checked->is_checked = status == AG_OK;
    return status == AG_OK || fail_rejected("aclnnFlashAttentionUnpaddingScoreGradV3", status);
}

void release_attention(struct checked_attention *checked)
{
    if (checked->is_checked) {
        attention_release(&checked->problem);
    }
    handles_destroy(&checked->handles);
}

/* --- the definition -------------------------------------------------------------------------------------- */

enum ag_softmax_layout layout_of(const struct attention_problem *problem)
{
    return problem->softmax_layout == AG_SOFTMAX_AUTO ? attention_choose_layout(problem) : problem->softmax_layout;
}

bool define_attention_in(const struct call *call, enum ag_softmax_layout layout, struct tensor_set *values,
                         struct tensor_set *bounds)
{
    struct tensor_set outputs = {0};
    struct checked_attention checked = {0};
    bool is_good = make_outputs(call, &outputs) && check_attention(call, &outputs, &checked) &&
                   add_doubles(&outputs, values) && add_doubles(&outputs, bounds);
    if (is_good && !checked.problem.is_nothing) {
        const struct attention_ref ref = {tensor_set_data(values, "dq"),
                                          tensor_set_data(bounds, "dq"),
                                          tensor_set_data(values, "dqRope"),
                                          tensor_set_data(bounds, "dqRope"),
                                          tensor_set_data(values, "dk"),
                                          tensor_set_data(bounds, "dk"),
                                          tensor_set_data(values, "dkRope"),
                                          tensor_set_data(bounds, "dkRope"),
                                          tensor_set_data(values, "dv"),
                                          tensor_set_data(bounds, "dv"),
                                          NULL,
                                          NULL};
        const enum ag_softmax_layout order = layout == AG_SOFTMAX_AUTO ? layout_of(&checked.problem) : layout;
        const ag_status status = attention_ref(&checked.problem, order, &ref);
        is_good = status == AG_OK || fail_rejected("the definition", status);
    }
    release_attention(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

static bool define(const struct call *call, struct tensor_set *values, struct tensor_set *bounds)
{
    return define_attention_in(call, AG_SOFTMAX_AUTO, values, bounds);
}

/* --- cost, explain --------------------------------------------------------------------------------------- */

double attention_visible_pairs(const struct attention_problem *p)
{
    double pairs = 0;
    for (int64_t b = 0; b < p->sequence_count; ++b) {
        for (int64_t i = 0; i < p->sequences[b].query_len; ++i) {
            const struct attention_columns columns = attention_visible_columns(&p->sequences[b], i);
            pairs += (double)(columns.end - columns.begin);
        }
    }
    return pairs * (double)p->query_heads;
}

double attention_bytes(const struct call *call, const struct tensor_set *outputs, const struct attention_problem *p)
{
    double bytes = 0;
    for (int i = 0; i < call->inputs.count; ++i) {
        const bool is_mask = strcmp(call->inputs.items[i].name, "attenMask") == 0;
        bytes += is_mask && !p->has_mask_bytes ? 0 : (double)tensor_bytes(&call->inputs.items[i]);
    }
    for (int i = 0; i < outputs->count; ++i) {
        bytes += (double)tensor_bytes(&outputs->items[i]);
    }
    return bytes;
}

static void cost(const struct call *call, double *work, double *bytes)
{
    struct tensor_set outputs = {0};
    struct checked_attention checked = {0};
    *work = *bytes = 0;
    if (make_outputs(call, &outputs) && check_attention(call, &outputs, &checked) && !checked.problem.is_nothing) {
        const struct attention_problem *p = &checked.problem;
        *work = attention_visible_pairs(p) * (6.0 * (double)(p->dim + p->rope_dim) + 4.0 * (double)p->value_dim);
        *bytes = attention_bytes(call, &outputs, p);
    }
    cli_forgive();
    release_attention(&checked);
    tensor_set_destroy(&outputs);
}

/* Why this order: the rule, and what the data say. */
static void explain_layout(const struct attention_problem *p, const struct facts *facts)
{
    const bool is_open = p->softmax_layout == AG_SOFTMAX_AUTO;
    const enum ag_softmax_layout chosen = layout_of(p);
    add_fact(facts, "statistics", "order", "%s", attention_layout_name(chosen));
    add_fact(facts, "statistics", "why", "%s",
             ag_config_get().softmax_layout != AG_SOFTMAX_AUTO ? "set by ACLGRAD_SOFTMAX_LAYOUT"
             : !is_open                                        ? "one head: all orders are the same"
             : chosen == AG_SOFTMAX_CANN
                 ? "what the forward operator writes; no other order alone matches the sampled rows"
                 : "sampled rows normalise under this order and not under cann");
}

void explain_attention_columns(const struct attention_problem *p, const struct facts *facts)
{
    double full = 0;
    for (int64_t b = 0; b < p->sequence_count; ++b) {
        full += (double)p->sequences[b].query_len * (double)p->sequences[b].key_len * (double)p->query_heads;
    }
    const double visible = attention_visible_pairs(p);
    add_fact(facts, "problem", "sequences", "%" PRId64 ", longest %" PRId64 " x %" PRId64, p->sequence_count,
             p->max_query_len, p->max_key_len);
    add_fact(facts, "problem", "visible pairs", "%.6g of %.6g (%.1f %%)", visible, full,
             full > 0 ? 100 * visible / full : 0);
    add_fact(facts, "problem", "mask", "%s",
             !p->has_mask        ? "none: everything is visible"
             : p->has_mask_bytes ? "its bytes take part"
                                 : "its bytes are not read, the mode says all");
}

/* Lane 0 stands for all: they are alike. */
static void explain_workspace(const struct attention_plan *plan, const struct facts *facts)
{
    void *memory = workspace_reserve(plan->workspace_bytes);
    struct ag_arena arena = ag_arena_over(memory);
    struct attention_workspace w = {0};
    static const struct attention_lane none;
    attention_carve(&arena, plan, &w);
    const struct attention_lane *lane = w.lanes ? w.lanes : &none;
    const struct workspace_part parts[] = {{"lane table", w.lanes},
                                           {"lane 0 dk sums", lane->dkey},
                                           {"lane 0 dv sums", lane->dvalue},
                                           {"lane 0 query rows", lane->query_rows},
                                           {"lane 0 keys", lane->key_lanes},
                                           {"lane 0 scores", lane->score},
                                           {"other lanes", w.lanes && plan->lanes > 1 ? w.lanes[1].dkey : NULL},
                                           {"wave sums", w.partial},
                                           {"staged dq", w.staged[OUT_DQ]},
                                           {"staged dq rope", w.staged[OUT_DQ_ROPE]},
                                           {"staged dk", w.staged[OUT_DK]},
                                           {"staged dk rope", w.staged[OUT_DK_ROPE]},
                                           {"staged dv", w.staged[OUT_DV]}};
    add_workspace_facts(facts, plan->workspace_bytes, parts, sizeof parts / sizeof *parts);
    workspace_release(memory, plan->workspace_bytes);
}

static bool explain(const struct call *call, const struct facts *facts)
{
    struct tensor_set outputs = {0};
    struct checked_attention checked = {0};
    struct attention_plan plan;
    bool is_good = make_outputs(call, &outputs) && check_attention(call, &outputs, &checked);
    if (is_good) {
        const ag_status status = attention_make_plan(&checked.problem, &plan);
        is_good = status == AG_OK || fail_rejected("aclnnFlashAttentionUnpaddingScoreGradV3", status);
    }
    if (is_good) {
        char text[1024];
        attention_describe_plan(&plan, text, sizeof text);
        if (!checked.problem.is_nothing) {
            explain_attention_columns(&checked.problem, facts);
            explain_layout(&checked.problem, facts);
        }
        add_plan_facts(facts, text);
        if (!checked.problem.is_nothing && plan.workspace_bytes > 0) {
            explain_workspace(&plan, facts);
        }
    }
    release_attention(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}

/* --- what tensors say of the problem --------------------------------------------------------------------- */

/* Rows behind the last end are part of the problem too. */
static void set_rows(struct call *call, const char *key, const char *tensor, const char *lengths, const char *list)
{
    const struct tensor *t = tensor_set_find(&call->inputs, tensor);
    int64_t *ends, count;
    if (t && t->rank > 0 && problem_ends(&call->problem, lengths, list, &ends, &count)) {
        if (t->dims[0] != last_end(ends, count)) {
            problem_set_integer(&call->problem, key, t->dims[0]);
        }
        free(ends);
    }
}

/* What a problem string would derive by itself need not stand in it. */
static void drop_derived(struct problem *p)
{
    static const char *const derived[][2] = {{"n2", "n1"}, {"dv", "d"}, {"headnum", "n1"}};
    const double width = (double)(problem_integer(p, "d") + problem_integer(p, "dr"));
    int64_t q_count, kv_count;
    for (int i = 0; i < 3; ++i) {
        if (problem_integer(p, derived[i][0]) == problem_integer(p, derived[i][1])) {
            problem_unset(p, derived[i][0]);
        }
    }
    if (width > 0 && problem_real_or(p, "scale", 0) == 1 / sqrt(width)) {
        problem_unset(p, "scale");
    }
    const int64_t *q = problem_list(p, "q", &q_count), *kv = problem_list(p, "kv", &kv_count);
    if (q_count > 0 && q_count == kv_count && memcmp(q, kv, (size_t)q_count * sizeof *q) == 0) {
        problem_unset(p, "kv");
    }
    const int64_t mode = problem_integer(p, "mode");
    const char *usual = mode >= 2 && mode <= 8 ? "compressed" : problem_integer(p, "dr") > 0 ? "ss" : "none";
    if (problem_is(p, "mask", usual)) {
        problem_set(p, "mask", "auto");
    }
}

void describe_attention(struct call *call, const char *key)
{
    const struct tensor *query = tensor_set_find(&call->inputs, "query");
    const struct tensor *mask = tensor_set_find(&call->inputs, "attenMask");
    const bool has_keys = problem_has(&call->problem, "kv") || problem_has(&call->problem, "kvends");
    describe_dim(call, "n1", "query", 1);
    describe_dim(call, "d", "query", 2);
    describe_dim(call, "n2", key, 1);
    describe_dim(call, "dr", "queryRope", 2);
    describe_dim(call, "dv", "value", 2);
    set_rows(call, "t1", "query", "q", "qends");
    set_rows(call, "t2", key, has_keys ? "kv" : "q", has_keys ? "kvends" : "qends");
    if (query) {
        problem_set(&call->problem, "dtype", dtype_word(query->dtype));
        cli_forgive(); /* a type that the operator has not: the library will say so */
    }
    const bool is_compressed =
        mask && mask->rank > 1 && mask->dims[mask->rank - 1] == 2048 && problem_integer(&call->problem, "mode") > 1;
    problem_set(&call->problem, "mask",
                !mask             ? "none"
                : is_compressed   ? "compressed"
                : mask->rank == 2 ? "ss"
                                  : "11ss");
    drop_derived(&call->problem);
}

static void describe_tensors(struct call *call)
{
    describe_attention(call, "keyIn");
}

const struct operation attention_operation = {.inputs = inputs,
                                              .outputs = outputs_of_attention,
                                              .generate = generate_attention,
                                              .make_outputs = make_outputs,
                                              .prepare = prepare,
                                              .define = define,
                                              .imitate = imitate_attention,
                                              .cost = cost,
                                              .explain = explain,
                                              .inspect = inspect_attention,
                                              .describe_tensors = describe_tensors};
