/* The gradient's arguments -> problem. The checks stand in the order in which the contract lists them, so that a call
 * with several faults always names the same one. Nothing here reads tensor data. */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "op/attention/attention_rules.h"
#include "runtime/tensor.h"

static const struct attention_names names = {.key = "keyIn",
                                             .key_rope = "keyInRope",
                                             .pse = "pseShiftOptional",
                                             .sink = "sinkInOptional",
                                             .softmax_max = "softmaxMaxOptional",
                                             .softmax_sum = "softmaxSumOptional",
                                             .attention = "attentionInOptional"};

/* --- pointers, nothing to do ----------------------------------------------------------- */

static ag_status read_required(const struct attention_checker *c)
{
    const struct attention_args *a = c->args;
    struct attention_problem *p = c->p;
    AG_TRY(ag_tensor_view_required(a->query, "query", &p->query));
    AG_TRY(ag_tensor_view_required(a->key, "keyIn", &p->key));
    AG_TRY(ag_tensor_view_required(a->value, "value", &p->value));
    AG_TRY(ag_tensor_view_required(a->dy, "dy", &p->dy));
    AG_TRY(ag_tensor_view_required(a->attention_in, "attentionInOptional", &p->attention_in));
    AG_TRY(ag_tensor_view_required(a->dq, "dqOut", &p->dq));
    AG_TRY(ag_tensor_view_required(a->dk, "dkOut", &p->dk));
    AG_TRY(ag_tensor_view_required(a->dv, "dvOut", &p->dv));
    AG_TRY(attention_read_optional(a->dsink, "dsinkOut", false, &p->dsink));
    return ag_tensor_view(a->dpse, "dpseOut", &p->dpse);
}

static bool is_nothing(const struct attention_problem *p)
{
    return ag_view_is_empty(&p->dq) && ag_view_is_empty(&p->dk) && ag_view_is_empty(&p->dv) &&
           (!p->dpse.present || ag_view_is_empty(&p->dpse)) && !p->dsink.present;
}

static ag_status read_optionals(const struct attention_checker *c)
{
    const struct attention_args *a = c->args;
    struct attention_problem *p = c->p;
    const bool no_query = attention_rows_of(&p->query) == 0, no_key = attention_rows_of(&p->key) == 0;
    AG_TRY(attention_read_shared_optionals(c));
    AG_TRY(attention_read_optional(a->dq_rope, "dqRopeOut", no_query, &p->dq_rope));
    AG_TRY(attention_read_optional(a->dk_rope, "dkRopeOut", no_key, &p->dk_rope));
    AG_TRY(attention_read_optional(a->softmax_max, names.softmax_max, true, &p->softmax_max));
    AG_TRY(attention_read_optional(a->softmax_sum, names.softmax_sum, true, &p->softmax_sum));
    return ag_tensor_view(a->softmax_in, "softmaxInOptional", &p->softmax_in);
}

/* --- types and shapes ------------------------------------------------------------------------------ */

static ag_status check_ranks(const struct attention_problem *p)
{
    AG_TRY(attention_check_rank(&p->query, "query"));
    AG_TRY(attention_check_rank(&p->key, "keyIn"));
    AG_TRY(attention_check_rank(&p->value, "value"));
    AG_TRY(attention_check_rank(&p->dy, "dy"));
    AG_TRY(attention_check_rank(&p->attention_in, "attentionInOptional"));
    AG_TRY(attention_check_rank(&p->dq, "dqOut"));
    AG_TRY(attention_check_rank(&p->dk, "dkOut"));
    return attention_check_rank(&p->dv, "dvOut");
}

static ag_status check_rope_outputs(const struct attention_problem *p)
{
    if (!p->query_rope.present || !p->key_rope.present) {
        return AG_OK; /* refused later, in its turn */
    }
    if (p->dq_rope.present) {
        AG_TRY(ag_require_shape(AG_INVALID, &p->dq_rope, "dqRopeOut", ATTENTION_AXES, p->query_rope.dims));
    }
    if (p->dk_rope.present) {
        AG_TRY(ag_require_shape(AG_INVALID, &p->dk_rope, "dkRopeOut", ATTENTION_AXES, p->key_rope.dims));
    }
    return AG_OK;
}

static ag_status check_outputs(const struct attention_problem *p)
{
    AG_TRY(ag_require_shape(AG_INVALID, &p->dq, "dqOut", ATTENTION_AXES, p->query.dims));
    AG_TRY(ag_require_shape(AG_INVALID, &p->dk, "dkOut", ATTENTION_AXES, p->key.dims));
    AG_TRY(ag_require_shape(AG_INVALID, &p->dv, "dvOut", ATTENTION_AXES, p->value.dims));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->dq, "dqOut", p->query.dtype, "that of query"));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->dk, "dkOut", p->query.dtype, "that of query"));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->dv, "dvOut", p->query.dtype, "that of query"));
    if (p->dq_rope.present && p->query_rope.present) {
        AG_TRY(ag_require_dtype(AG_INVALID, &p->dq_rope, "dqRopeOut", p->query_rope.dtype, "that of queryRope"));
    }
    if (p->dk_rope.present && p->key_rope.present) {
        AG_TRY(ag_require_dtype(AG_INVALID, &p->dk_rope, "dkRopeOut", p->key_rope.dtype, "that of keyInRope"));
    }
    return AG_OK;
}

static ag_status check_shapes(const struct attention_checker *c)
{
    const struct attention_problem *p = c->p;
    AG_TRY(attention_check_rows_and_heads(&p->value, "value", &p->key));
    AG_TRY(attention_check_rows_and_heads(&p->dy, "dy", &p->query));
    AG_TRY(ag_require_shape(AG_INVALID, &p->attention_in, names.attention, ATTENTION_AXES, p->dy.dims));
    AG_TRY(attention_check_rope_shapes(c));
    AG_TRY(check_rope_outputs(p));
    AG_TRY(check_outputs(p));
    AG_TRY(attention_check_dims(c));
    const int64_t value_dim = p->value.dims[ATTENTION_AXIS_DIM];
    AG_REQUIRE(p->dy.dims[ATTENTION_AXIS_DIM] == value_dim, INVALID,
               "dy: last dim %" PRId64 ", want Dv = %" PRId64 " (that of value)", p->dy.dims[ATTENTION_AXIS_DIM],
               value_dim);
    return AG_OK;
}

/* --- statistics ----------------------------------------------------- */

static ag_status check_statistics_given(const struct attention_problem *p)
{
    AG_REQUIRE(p->softmax_max.present, NULLPTR, "softmaxMaxOptional: got null, want the forward's row maxima");
    AG_REQUIRE(p->softmax_sum.present, NULLPTR, "softmaxSumOptional: got null, want the forward's row sums");
    return AG_OK;
}

/* --- what is left --------------------------------------------------------------------------------- */

static ag_status check_sink(const struct attention_problem *p)
{
    AG_REQUIRE(p->sink.present || !p->dsink.present, INVALID,
               "dsinkOut: got a tensor with elements, want null or an empty one without sinkInOptional");
    AG_REQUIRE(!p->sink.present || p->dsink.present, NULLPTR,
               "dsinkOut: got null, want a tensor because sinkInOptional is given");
    AG_TRY(attention_check_per_head(p, &p->sink, names.sink));
    return attention_check_per_head(p, &p->dsink, "dsinkOut");
}

static ag_status check_unused(const struct attention_checker *c)
{
    const struct attention_problem *p = c->p;
    AG_REQUIRE(!p->dpse.present || ag_view_is_empty(&p->dpse), INVALID,
               "dpseOut: got a tensor with elements, want null or an empty one (pseShift is absent)");
    AG_REQUIRE(p->has_rope || !p->dq_rope.present, INVALID,
               "dqRopeOut: got a tensor with elements, want null or an empty one without queryRope");
    AG_REQUIRE(p->has_rope || !p->dk_rope.present, INVALID,
               "dkRopeOut: got a tensor with elements, want null or an empty one without keyInRope");
    AG_TRY(check_sink(p));
    return attention_check_no_pse_no_dropout(c, p->has_rope);
}

/* --- memory ---------------------------------------------------------------------------------------------- */

enum { READ_VIEWS = 11, WRITTEN_VIEWS = 6 };

static void list_read_views(const struct attention_problem *p, struct attention_named_view views[READ_VIEWS])
{
    const struct attention_named_view list[READ_VIEWS] = {{"query", &p->query},
                                                          {"queryRope", &p->query_rope},
                                                          {"keyIn", &p->key},
                                                          {"keyInRope", &p->key_rope},
                                                          {"value", &p->value},
                                                          {"dy", &p->dy},
                                                          {"attenMaskOptional", &p->mask},
                                                          {"softmaxMaxOptional", &p->softmax_max},
                                                          {"softmaxSumOptional", &p->softmax_sum},
                                                          {"attentionInOptional", &p->attention_in},
                                                          {"sinkInOptional", &p->sink}};
    memcpy(views, list, sizeof list);
}

static void list_written_views(const struct attention_problem *p, struct attention_named_view views[WRITTEN_VIEWS])
{
    const struct attention_named_view list[WRITTEN_VIEWS] = {{"dqOut", &p->dq}, {"dqRopeOut", &p->dq_rope},
                                                             {"dkOut", &p->dk}, {"dkRopeOut", &p->dk_rope},
                                                             {"dvOut", &p->dv}, {"dsinkOut", &p->dsink}};
    memcpy(views, list, sizeof list);
}

static ag_status check_memory(const struct attention_problem *p)
{
    struct attention_named_view inputs[READ_VIEWS], outputs[WRITTEN_VIEWS];
    list_read_views(p, inputs);
    list_written_views(p, outputs);
    return attention_check_memory(inputs, READ_VIEWS, outputs, WRITTEN_VIEWS);
}

bool attention_outputs_overlap_inputs(const struct attention_problem *p)
{
    struct attention_named_view inputs[READ_VIEWS], outputs[WRITTEN_VIEWS];
    list_read_views(p, inputs);
    list_written_views(p, outputs);
    return attention_views_meet(p, inputs, READ_VIEWS, outputs, WRITTEN_VIEWS);
}

ag_status attention_check_outputs(const struct attention_problem *p)
{
    struct attention_named_view outputs[WRITTEN_VIEWS];
    list_written_views(p, outputs);
    return attention_check_outputs_apart(outputs, WRITTEN_VIEWS);
}

/* --- the whole ------------------------------------------------------------------------------------------- */

/* Before there are sequences: rows 5 to 22 of the contract's list. */
static ag_status check_sizes(struct attention_checker *c)
{
    struct attention_problem *p = c->p;
    AG_REQUIRE(c->args->head_num > 0, INVALID, "headNum: got %" PRId64 ", want N of query, above 0",
               c->args->head_num);
    AG_TRY(attention_check_dtypes(c));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->dy, "dy", p->query.dtype, "that of query"));
    AG_TRY(check_ranks(p));
    AG_TRY(read_optionals(c));
    AG_TRY(check_shapes(c));
    attention_fill_sizes(p);
    AG_TRY(attention_check_lengths(c));
    AG_TRY(attention_check_rope(c));
    AG_TRY(check_statistics_given(p));
    AG_TRY(attention_check_heads(c));
    return attention_check_keep_prob(c->args);
}

/* With p->sequences: rows 23 to 31, and memory. */
static ag_status check_rules(const struct attention_checker *c, const int64_t **prefix, int64_t *prefix_count)
{
    const struct attention_problem *p = c->p;
    AG_TRY(attention_check_sparse_mode(c));
    AG_TRY(attention_check_pse_type(c->args->pse_type));
    AG_TRY(attention_check_statistics(c));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->attention_in, names.attention, p->query.dtype, "that of query"));
    AG_TRY(attention_read_prefix(c, prefix, prefix_count));
    AG_TRY(check_unused(c));
    AG_TRY(attention_read_softmax_layout(c, "softmaxInLayout"));
    return check_memory(p);
}

static void finish(const struct attention_checker *c, const int64_t *prefix, int64_t prefix_count)
{
    struct attention_problem *p = c->p;
    attention_finish(c, prefix, prefix_count);
    attention_hide(&p->dpse);
    if (p->value_dim == 0) {
        p->sequence_count = 0; /* dvOut is empty: what is left is filled with zeros, as slack rows are */
    }
    p->has_overlap = attention_outputs_overlap_inputs(p);
    if (p->softmax_layout == AG_SOFTMAX_AUTO && p->query_heads == 1) {
        p->softmax_layout = AG_SOFTMAX_CANN; /* the three orders are one */
    }
}

ag_status attention_check(const struct attention_args *args, struct attention_problem *problem)
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
    AG_TRY(check_sizes(&c));
    AG_TRY(attention_make_sequences(&c));
    const ag_status status = check_rules(&c, &prefix, &prefix_count);
    if (status != AG_OK) {
        attention_release(problem);
        return status;
    }
    finish(&c, prefix, prefix_count);
    return AG_OK;
}

void attention_release(struct attention_problem *problem)
{
    ag_free((void *)problem->sequences);
    problem->sequences = NULL;
}
