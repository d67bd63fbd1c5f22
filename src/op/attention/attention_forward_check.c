/* The forward's arguments -> problem, in the gradient's order of checks. Nothing here reads tensor data. */
#include "op/attention/attention_forward.h"

#include <inttypes.h>

#include "base/check.h"
#include "op/attention/attention_rules.h"
#include "runtime/tensor.h"

static const struct attention_names names = {.key = "key",
                                             .key_rope = "keyRope",
                                             .pse = "realShiftOptional",
                                             .sink = "sinkOptional",
                                             .softmax_max = "softmaxMaxOut",
                                             .softmax_sum = "softmaxSumOut",
                                             .attention = "attentionOutOut"};

/* --- pointers, nothing to do ----------------------------------------------------------------------------- */

static ag_status read_required(const struct attention_checker *c)
{
    const struct attention_args *a = c->args;
    struct attention_problem *p = c->p;
    AG_TRY(ag_tensor_view_required(a->query, "query", &p->query));
    AG_TRY(ag_tensor_view_required(a->key, names.key, &p->key));
    AG_TRY(ag_tensor_view_required(a->value, "value", &p->value));
    AG_TRY(ag_tensor_view_required(a->softmax_max, names.softmax_max, &p->softmax_max));
    AG_TRY(ag_tensor_view_required(a->softmax_sum, names.softmax_sum, &p->softmax_sum));
    AG_TRY(ag_tensor_view_required(a->attention_in, names.attention, &p->attention_in));
    return ag_tensor_view(a->softmax_in, "softmaxOutOut", &p->softmax_in);
}

static bool is_nothing(const struct attention_problem *p)
{
    return ag_view_is_empty(&p->softmax_max) && ag_view_is_empty(&p->softmax_sum) &&
           ag_view_is_empty(&p->attention_in);
}

/* --- sizes ----------------------------------------------------------------------------------------------- */

static ag_status check_ranks(const struct attention_problem *p)
{
    AG_TRY(attention_check_rank(&p->query, "query"));
    AG_TRY(attention_check_rank(&p->key, names.key));
    AG_TRY(attention_check_rank(&p->value, "value"));
    return attention_check_rank(&p->attention_in, names.attention);
}

static ag_status check_shapes(const struct attention_checker *c)
{
    const struct attention_problem *p = c->p;
    const int64_t *query = p->query.dims, *value = p->value.dims;
    const int64_t out[ATTENTION_AXES] = {query[0], query[1], value[ATTENTION_AXIS_DIM]};
    AG_TRY(attention_check_rows_and_heads(&p->value, "value", &p->key));
    AG_TRY(attention_check_rope_shapes(c));
    AG_TRY(ag_require_shape(AG_INVALID, &p->attention_in, names.attention, ATTENTION_AXES, out));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->attention_in, names.attention, p->query.dtype, "that of query"));
    AG_TRY(attention_check_dims(c));
    AG_REQUIRE(value[ATTENTION_AXIS_DIM] > 0, INVALID, "value: last dim 0, want at least 1");
    return AG_OK;
}

/* Version 3 is documented for BF16 with rope. */
static ag_status check_version(const struct attention_checker *c, enum attention_forward_version version)
{
    const struct attention_problem *p = c->p;
    if (version != ATTENTION_FORWARD_V3 || !c->limits->rope_is_bf16) {
        return AG_OK;
    }
    AG_REQUIRE(p->query_rope.present, NULLPTR,
               "queryRope: got null, want a tensor (ACLGRAD_LIMITS=extended lifts this; version 4 has no rope)");
    AG_REQUIRE(p->query.dtype == AG_BF16, INVALID, "query: dtype %s, want BF16 (ACLGRAD_LIMITS=extended lifts this)",
               ag_dtype_name(p->query.dtype));
    return AG_OK;
}

/* Before there are sequences. */
static ag_status check_sizes(struct attention_checker *c, enum attention_forward_version version)
{
    struct attention_problem *p = c->p;
    AG_REQUIRE(c->args->head_num > 0, INVALID, "headNum: got %" PRId64 ", want N of query, above 0",
               c->args->head_num);
    AG_TRY(attention_check_dtypes(c));
    AG_TRY(check_ranks(p));
    AG_TRY(attention_read_shared_optionals(c));
    AG_TRY(check_shapes(c));
    attention_fill_sizes(p);
    AG_TRY(attention_check_lengths(c));
    AG_TRY(attention_check_rope(c));
    AG_TRY(check_version(c, version));
    AG_TRY(attention_check_heads(c));
    return attention_check_keep_prob(c->args);
}

/* --- memory ---------------------------------------------------------------------------------------------- */

enum { READ_VIEWS = 7, WRITTEN_VIEWS = 3 };

/* What is read, then what is written. */
static void list_views(const struct attention_problem *p,
                       struct attention_named_view views[READ_VIEWS + WRITTEN_VIEWS])
{
    const struct attention_named_view list[READ_VIEWS + WRITTEN_VIEWS] = {{"query", &p->query},
                                                                          {"queryRope", &p->query_rope},
                                                                          {names.key, &p->key},
                                                                          {names.key_rope, &p->key_rope},
                                                                          {"value", &p->value},
                                                                          {"attenMaskOptional", &p->mask},
                                                                          {names.sink, &p->sink},
                                                                          {names.softmax_max, &p->softmax_max},
                                                                          {names.softmax_sum, &p->softmax_sum},
                                                                          {names.attention, &p->attention_in}};
    for (int i = 0; i < READ_VIEWS + WRITTEN_VIEWS; ++i) {
        views[i] = list[i];
    }
}

bool attention_forward_outputs_overlap_inputs(const struct attention_problem *p)
{
    struct attention_named_view views[READ_VIEWS + WRITTEN_VIEWS];
    list_views(p, views);
    return attention_views_meet(p, views, READ_VIEWS, views + READ_VIEWS, WRITTEN_VIEWS);
}

ag_status attention_forward_check_outputs(const struct attention_problem *p)
{
    struct attention_named_view views[READ_VIEWS + WRITTEN_VIEWS];
    list_views(p, views);
    return attention_check_outputs_apart(views + READ_VIEWS, WRITTEN_VIEWS);
}

/* --- the whole ------------------------------------------------------------------------------------------- */

/* With p->sequences. */
static ag_status check_rules(const struct attention_checker *c, const int64_t **prefix, int64_t *prefix_count)
{
    struct attention_named_view views[READ_VIEWS + WRITTEN_VIEWS];
    AG_TRY(attention_check_sparse_mode(c));
    AG_TRY(attention_check_pse_type(c->args->pse_type));
    AG_TRY(attention_check_statistics(c));
    AG_TRY(attention_check_per_head(c->p, &c->p->sink, names.sink));
    AG_TRY(attention_read_prefix(c, prefix, prefix_count));
    AG_TRY(attention_check_no_pse_no_dropout(c, c->p->has_rope));
    AG_TRY(attention_read_softmax_layout(c, "softmaxOutLayout"));
    list_views(c->p, views);
    return attention_check_memory(views, READ_VIEWS, views + READ_VIEWS, WRITTEN_VIEWS);
}

ag_status attention_forward_check(const struct attention_args *args, enum attention_forward_version version,
                                  struct attention_problem *problem)
{
    struct attention_checker c = {
        .args = args, .p = problem, .names = &names, .limits = &attention_limits_table[ag_config_get().limits]};
    const int64_t *prefix;
    int64_t prefix_count;
    *problem = (struct attention_problem){0};
    AG_TRY(attention_check_handles(args));
    AG_TRY(read_required(&c));
    if (is_nothing(problem)) {
        *problem = (struct attention_problem){.entry = args->entry, .is_nothing = true};
        return AG_OK;
    }
    AG_TRY(check_sizes(&c, version));
    AG_TRY(attention_make_sequences(&c));
    const ag_status status = check_rules(&c, &prefix, &prefix_count);
    if (status != AG_OK) {
        attention_release(problem);
        return status;
    }
    attention_finish(&c, prefix, prefix_count);
    problem->has_overlap = attention_forward_outputs_overlap_inputs(problem);
    if (problem->softmax_layout == AG_SOFTMAX_AUTO) {
        problem->softmax_layout = AG_SOFTMAX_CANN;
    }
    return AG_OK;
}
