/* Rules of both directions: see attention_rules.h. Nothing here reads tensor data. */
#include "op/attention/attention_rules.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "runtime/tensor.h"

/* Phase 1 counts row tiles one by one: more rows than memory could hold must not keep it busy for minutes. */
#define MOST_ROWS ((int64_t)1 << 31)

const struct attention_limits attention_limits_table[] = {
    [AG_LIMITS_DOCUMENTED] = {768, 256, true, true, ATTENTION_ROPE_DIM_MULTIPLE},
    [AG_LIMITS_EXTENDED] = {INT64_MAX, INT64_MAX, false, false, 1},
};

/* --- pointers -------------------------------------------------------------------------------------------- */

ag_status attention_check_handles(const struct attention_args *a)
{
    AG_REQUIRE(a->executor, NULLPTR, "executor: got null, want a place for the executor");
    AG_REQUIRE(a->workspace_size, NULLPTR, "workspaceSize: got null, want a place for the size");
    AG_REQUIRE(a->input_layout, NULLPTR, "inputLayout: got null, want \"TND\"");
    AG_REQUIRE(a->input_layout[0], INVALID, "inputLayout is empty, expected TND");
    AG_REQUIRE(strcmp(a->input_layout, "TND") == 0, INVALID, "inputLayout: got \"%.32s\", want \"TND\"",
               a->input_layout);
    return AG_OK;
}

ag_status attention_read_optional(const aclTensor *tensor, const char *name, bool has_no_rows, struct ag_view *view)
{
    AG_TRY(ag_tensor_view(tensor, name, view));
    if (view->present && (view->rank == 0 || (ag_view_is_empty(view) && !has_no_rows))) {
        *view = (struct ag_view){0};
    }
    return AG_OK;
}

int64_t attention_rows_of(const struct ag_view *view)
{
    return view->rank > 0 ? view->dims[ATTENTION_AXIS_ROW] : 0;
}

ag_status attention_read_shared_optionals(const struct attention_checker *c)
{
    const struct attention_args *a = c->args;
    struct attention_problem *p = c->p;
    const bool no_query = attention_rows_of(&p->query) == 0;
    const bool no_key = attention_rows_of(&p->key) == 0;
    AG_TRY(attention_read_optional(a->query_rope, "queryRope", no_query, &p->query_rope));
    AG_TRY(attention_read_optional(a->key_rope, c->names->key_rope, no_key, &p->key_rope));
    AG_TRY(attention_read_optional(a->atten_mask, "attenMaskOptional", no_query || no_key, &p->mask));
    AG_TRY(attention_read_optional(a->sink, c->names->sink, false, &p->sink));
    return ag_tensor_view(a->padding_mask, "paddingMaskOptional", &p->padding_mask);
}

/* --- types, shapes, sizes -------------------------------------------------------------------------------- */

ag_status attention_check_dtypes(const struct attention_checker *c)
{
    const struct attention_problem *p = c->p;
    const int dtype = p->query.dtype;
    AG_REQUIRE(ag_dtype_is_float(dtype), INVALID, "query: dtype %s, want FLOAT, FLOAT16 or BF16",
               ag_dtype_name(dtype));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->key, c->names->key, dtype, "that of query"));
    return ag_require_dtype(AG_INVALID, &p->value, "value", dtype, "that of query");
}

ag_status attention_check_rank(const struct ag_view *view, const char *name)
{
    char text[AG_SHAPE_TEXT];
    AG_REQUIRE(view->rank == ATTENTION_AXES, INVALID, "%s: rank %d, shape %s, want rank 3 [T, N, D]", name,
               view->rank, ag_shape_text(text, view->rank, view->dims));
    return AG_OK;
}

ag_status attention_check_rows_and_heads(const struct ag_view *view, const char *name, const struct ag_view *like)
{
    const int64_t want[ATTENTION_AXES] = {like->dims[ATTENTION_AXIS_ROW], like->dims[ATTENTION_AXIS_HEAD],
                                          view->dims[ATTENTION_AXIS_DIM]};
    return ag_require_shape(AG_INVALID, view, name, ATTENTION_AXES, want);
}

ag_status attention_check_rope_shapes(const struct attention_checker *c)
{
    const struct attention_problem *p = c->p;
    const char *key_rope = c->names->key_rope;
    if (!p->query_rope.present || !p->key_rope.present) {
        return AG_OK; /* one without the other is refused later, in its turn */
    }
    AG_TRY(attention_check_rank(&p->query_rope, "queryRope"));
    AG_TRY(attention_check_rank(&p->key_rope, key_rope));
    AG_TRY(attention_check_rows_and_heads(&p->query_rope, "queryRope", &p->query));
    AG_TRY(attention_check_rows_and_heads(&p->key_rope, key_rope, &p->key));
    const int64_t dim = p->query_rope.dims[ATTENTION_AXIS_DIM];
    AG_REQUIRE(p->key_rope.dims[ATTENTION_AXIS_DIM] == dim, INVALID,
               "%s: last dim %" PRId64 ", want %" PRId64 " (that of queryRope)", key_rope,
               p->key_rope.dims[ATTENTION_AXIS_DIM], dim);
    AG_REQUIRE(dim <= p->query.dims[ATTENTION_AXIS_DIM], INVALID,
               "queryRope: last dim %" PRId64 ", want at most D = %" PRId64, dim, p->query.dims[ATTENTION_AXIS_DIM]);
    return AG_OK;
}

ag_status attention_check_dims(const struct attention_checker *c)
{
    const struct attention_problem *p = c->p;
    const int64_t dim = p->query.dims[ATTENTION_AXIS_DIM], value_dim = p->value.dims[ATTENTION_AXIS_DIM];
    AG_REQUIRE(p->key.dims[ATTENTION_AXIS_DIM] == dim, INVALID,
               "%s: last dim %" PRId64 ", want D = %" PRId64 " (that of query)", c->names->key,
               p->key.dims[ATTENTION_AXIS_DIM], dim);
    AG_REQUIRE(value_dim <= dim, INVALID, "value: last dim %" PRId64 ", want at most D = %" PRId64, value_dim, dim);
    return AG_OK;
}

void attention_fill_sizes(struct attention_problem *p)
{
    p->elem = ag_elem_of(p->query.dtype);
    p->query_rows = p->query.dims[ATTENTION_AXIS_ROW];
    p->key_rows = p->key.dims[ATTENTION_AXIS_ROW];
    p->query_heads = p->query.dims[ATTENTION_AXIS_HEAD];
    p->key_heads = p->key.dims[ATTENTION_AXIS_HEAD];
    p->dim = p->query.dims[ATTENTION_AXIS_DIM];
    p->value_dim = p->value.dims[ATTENTION_AXIS_DIM];
}

ag_status attention_check_lengths(struct attention_checker *c)
{
    AG_TRY(
        attention_read_lengths(c->args->actual_seq_q, "actualSeqQLenOptional", c->p->query_rows, &c->query_lengths));
    return attention_read_lengths(c->args->actual_seq_kv, "actualSeqKvLenOptional", c->p->key_rows, &c->key_lengths);
}

/* --- rope, heads, scalars -------------------------------------------------------------------------------- */

static ag_status check_absent(const aclTensor *tensor, const char *name, bool has_rope)
{
    struct ag_view view;
    AG_TRY(ag_tensor_view(tensor, name, &view));
    const bool counts_as_null = !view.present || ag_view_is_empty(&view) || (view.rank == 0 && !has_rope);
    AG_REQUIRE(counts_as_null, INVALID, "%s: got a tensor, want null (not supported by this version of the operator)",
               name);
    return AG_OK;
}

ag_status attention_check_keep_prob(const struct attention_args *a)
{
    AG_REQUIRE(a->keep_prob == 1.0, INVALID, "keepProb: got %g, want 1 (there is no dropout)", a->keep_prob);
    return AG_OK;
}

ag_status attention_check_no_pse_no_dropout(const struct attention_checker *c, bool has_rope)
{
    AG_TRY(check_absent(c->args->pse_shift, c->names->pse, has_rope));
    return check_absent(c->args->drop_mask, "dropMaskOptional", has_rope);
}

static ag_status check_rope_pair(const struct attention_checker *c)
{
    const struct attention_problem *p = c->p;
    AG_REQUIRE(!p->query_rope.present || p->key_rope.present, NULLPTR,
               "%s: got null, want a tensor because queryRope is given", c->names->key_rope);
    AG_REQUIRE(!p->key_rope.present || p->query_rope.present, NULLPTR,
               "queryRope: got null, want a tensor because %s is given", c->names->key_rope);
    return AG_OK;
}

static ag_status check_given_rope(const struct attention_checker *c)
{
    const struct attention_problem *p = c->p;
    const int rope_dtype = c->limits->rope_is_bf16 ? AG_BF16 : p->query.dtype;
    const char *reason = c->limits->rope_is_bf16 ? "with rope" : "that of query";
    const int64_t multiple = c->limits->rope_dim_multiple;
    AG_TRY(ag_require_dtype(AG_INVALID, &p->query_rope, "queryRope", rope_dtype, reason));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->key_rope, c->names->key_rope, rope_dtype, reason));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->query, "query", rope_dtype, reason));
    AG_REQUIRE(c->args->sparse_mode != ATTENTION_MODE_PREFIX, INVALID,
               "sparseMode: got 6, want another one with rope");
    AG_REQUIRE(p->mask.present || !c->limits->rope_needs_mask, NULLPTR,
               "attenMaskOptional: got null, want a mask because queryRope is given");
    AG_TRY(attention_check_no_pse_no_dropout(c, true));
    AG_TRY(attention_check_keep_prob(c->args));
    AG_REQUIRE(p->dim % multiple == 0, INVALID,
               "query: last dim %" PRId64 ", want a multiple of %" PRId64 " with rope", p->dim, multiple);
    AG_REQUIRE(p->rope_dim % multiple == 0, INVALID, "queryRope: last dim %" PRId64 ", want a multiple of %" PRId64,
               p->rope_dim, multiple);
    return AG_OK;
}

ag_status attention_check_rope(const struct attention_checker *c)
{
    struct attention_problem *p = c->p;
    AG_TRY(check_rope_pair(c));
    p->has_rope = p->query_rope.present;
    p->rope_dim = p->has_rope ? p->query_rope.dims[ATTENTION_AXIS_DIM] : 0;
    return p->has_rope ? check_given_rope(c) : AG_OK;
}

ag_status attention_check_heads(const struct attention_checker *c)
{
    struct attention_problem *p = c->p;
    AG_REQUIRE(c->args->head_num == p->query_heads, INVALID,
               "headNum: got %" PRId64 ", want %" PRId64 " (N of query)", c->args->head_num, p->query_heads);
    AG_REQUIRE(c->query_lengths.count == c->key_lengths.count, INVALID,
               "actualSeqKvLenOptional: %" PRId64 " sequences, want %" PRId64 " (as many as actualSeqQLenOptional)",
               c->key_lengths.count, c->query_lengths.count);
    AG_REQUIRE(p->key_heads > 0, INVALID, "%s: 0 heads, want at least 1", c->names->key);
    AG_REQUIRE(p->query_heads % p->key_heads == 0, INVALID,
               "%s: %" PRId64 " heads, want a divisor of N = %" PRId64 " (that of query)", c->names->key,
               p->key_heads, p->query_heads);
    AG_REQUIRE(p->query_rows <= MOST_ROWS, INVALID, "query: %" PRId64 " rows, want at most %" PRId64, p->query_rows,
               MOST_ROWS);
    AG_REQUIRE(p->key_rows <= MOST_ROWS, INVALID, "%s: %" PRId64 " rows, want at most %" PRId64, c->names->key,
               p->key_rows, MOST_ROWS);
    AG_REQUIRE(p->dim <= c->limits->dim, INVALID,
               "query: last dim %" PRId64 ", want at most %" PRId64 " (ACLGRAD_LIMITS=extended lifts this)", p->dim,
               c->limits->dim);
    AG_REQUIRE(p->query_heads <= c->limits->heads, INVALID,
               "query: %" PRId64 " heads, want at most %" PRId64 " (ACLGRAD_LIMITS=extended lifts this)",
               p->query_heads, c->limits->heads);
    p->group = p->query_heads / p->key_heads;
    return AG_OK;
}

/* --- with sequences -------------------------------------------------------------------------------------- */

ag_status attention_make_sequences(const struct attention_checker *c)
{
    struct attention_problem *p = c->p;
    struct attention_sequence *sequences = ag_alloc_zeroed((size_t)c->query_lengths.count * sizeof *sequences);
    AG_REQUIRE(sequences, CREATE_EXECUTOR, "out of memory for %" PRId64 " sequences", c->query_lengths.count);
    attention_lay_out_sequences(&c->query_lengths, &c->key_lengths, sequences);
    for (int64_t b = 0; b < c->query_lengths.count; ++b) {
        p->max_query_len = sequences[b].query_len > p->max_query_len ? sequences[b].query_len : p->max_query_len;
        p->max_key_len = sequences[b].key_len > p->max_key_len ? sequences[b].key_len : p->max_key_len;
    }
    p->sequences = sequences;
    p->sequence_count = c->query_lengths.count;
    return AG_OK;
}

/* Sequences before the zero tail of either list: the others have no work. */
static int64_t live_sequences(const struct attention_checker *c)
{
    const int64_t query = c->query_lengths.live_count, key = c->key_lengths.live_count;
    return query < key ? query : key;
}

static ag_status check_mode(int64_t mode)
{
    AG_REQUIRE(mode >= 0 && mode <= ATTENTION_MODE_LAST && mode != ATTENTION_MODE_PREFIX_FULL, INVALID,
               "sparseMode: got %" PRId64 ", want 0, 1, 2, 3, 4, 6, 7 or 8", mode);
    return AG_OK;
}

static bool mask_leads_fit(const struct attention_checker *c)
{
    const struct ag_view *mask = &c->p->mask;
    if (mask->rank == 2) {
        return true;
    }
    const bool per_head = mask->dims[1] == c->p->query_heads;
    const bool per_batch = mask->dims[0] == c->p->sequence_count || mask->dims[0] == live_sequences(c);
    return mask->rank == 4 &&
           ((mask->dims[0] == 1 && mask->dims[1] == 1) || (per_batch && (per_head || mask->dims[1] == 1)));
}

static ag_status check_mask_bytes_shape(const struct attention_checker *c)
{
    const struct ag_view *mask = &c->p->mask;
    char text[AG_SHAPE_TEXT];
    const bool fits = mask_leads_fit(c) && mask->dims[mask->rank - 2] >= c->p->max_query_len &&
                      mask->dims[mask->rank - 1] >= c->p->max_key_len;
    AG_REQUIRE(fits, INVALID,
               "attenMaskOptional: shape %s, want [B, N, Sq, Skv], [B, 1, Sq, Skv], [1, 1, Sq, Skv] or "
               "[Sq, Skv] with B = %" PRId64 ", N = %" PRId64 ", Sq >= %" PRId64 ", Skv >= %" PRId64,
               ag_shape_text(text, mask->rank, mask->dims), c->p->sequence_count, c->p->query_heads,
               c->p->max_query_len, c->p->max_key_len);
    return AG_OK;
}

static ag_status check_compressed_mask_shape(const struct attention_checker *c)
{
    const struct ag_view *mask = &c->p->mask;
    const int64_t rows = c->p->sparse_mode == ATTENTION_MODE_PREFIX ? 3072 : 2048;
    char text[AG_SHAPE_TEXT];
    const bool fits = mask_leads_fit(c) && mask->dims[mask->rank - 2] == rows && mask->dims[mask->rank - 1] == 2048;
    AG_REQUIRE(fits, INVALID,
               "attenMaskOptional: shape %s, want [%" PRId64 ", 2048] for sparseMode %" PRId64
               ", alone or behind [B, N], [B, 1] or [1, 1]",
               ag_shape_text(text, mask->rank, mask->dims), rows, c->p->sparse_mode);
    return AG_OK;
}

static ag_status check_mask(const struct attention_checker *c)
{
    const struct attention_problem *p = c->p;
    if (!p->has_mask || ag_view_is_empty(&p->mask)) {
        return AG_OK;
    }
    AG_REQUIRE(p->mask.dtype == AG_BOOL || p->mask.dtype == AG_UINT8, INVALID,
               "attenMaskOptional: dtype %s, want BOOL or UINT8", ag_dtype_name(p->mask.dtype));
    return p->has_mask_bytes ? check_mask_bytes_shape(c) : check_compressed_mask_shape(c);
}

static int64_t cut_tokens(int64_t tokens)
{
    return tokens < -ATTENTION_FAR ? -ATTENTION_FAR : tokens > ATTENTION_FAR ? ATTENTION_FAR : tokens;
}

/* The window is not empty as a band, and reaches into the [Sq, Skv] rectangle: pre >= -most_pre, next >= -most_next. */
static ag_status check_tokens_of(const struct attention_checker *c, int64_t batch, int64_t most_pre,
                                 int64_t most_next)
{
    const int64_t pre = c->args->pre_tokens, next = c->args->next_tokens;
    AG_REQUIRE(cut_tokens(pre) >= -most_pre, INVALID,
               "preTokens: got %" PRId64 ", want at least %" PRId64 " for sequence %" PRId64
               " in sparseMode %" PRId64,
               pre, -most_pre, batch, c->p->sparse_mode);
    AG_REQUIRE(cut_tokens(next) >= -most_next, INVALID,
               "nextTokens: got %" PRId64 ", want at least %" PRId64 " for sequence %" PRId64
               " in sparseMode %" PRId64,
               next, -most_next, batch, c->p->sparse_mode);
    AG_REQUIRE(cut_tokens(pre) + cut_tokens(next) > 0, INVALID,
               "preTokens, nextTokens: got %" PRId64 " and %" PRId64 ", want a sum above 0 in sparseMode %" PRId64,
               pre, next, c->p->sparse_mode);
    return AG_OK;
}

/* The sequences whose window the tokens set: all in modes 0 and 4, the band's one in modes 7 and 8. */
static bool tokens_rule(const struct attention_problem *p, int64_t batch, int64_t first, int64_t last)
{
    switch (p->sparse_mode) {
    case ATTENTION_MODE_DEFAULT:
    case ATTENTION_MODE_BAND:
        return true;
    case ATTENTION_MODE_RIGHT_BAND_LAST:
        return batch == last;
    case ATTENTION_MODE_LEFT_BAND_FIRST:
        return batch == first;
    default:
        return false;
    }
}

static ag_status check_tokens(const struct attention_checker *c)
{
    const struct attention_problem *p = c->p;
    int64_t first = -1, last = -1; /* with queries */
    if (!p->has_mask) {
        return AG_OK; /* everything is visible */
    }
    for (int64_t b = 0; b < p->sequence_count; ++b) {
        if (p->sequences[b].query_len > 0) {
            first = first < 0 ? b : first;
            last = b;
        }
    }
    for (int64_t b = 0; b < p->sequence_count; ++b) {
        const int64_t sq = p->sequences[b].query_len, skv = p->sequences[b].key_len;
        if (sq == 0 || skv == 0 || !tokens_rule(p, b, first, last)) {
            continue;
        }
        if (p->sparse_mode == ATTENTION_MODE_DEFAULT) {
            AG_TRY(check_tokens_of(c, b, skv, sq));
        } else {
            AG_TRY(check_tokens_of(c, b, sq, skv));
        }
    }
    return AG_OK;
}

ag_status attention_check_sparse_mode(const struct attention_checker *c)
{
    struct attention_problem *p = c->p;
    p->sparse_mode = c->args->sparse_mode;
    p->has_mask = p->mask.present;
    p->has_mask_bytes = p->has_mask &&
                        (p->sparse_mode == ATTENTION_MODE_DEFAULT || p->sparse_mode == ATTENTION_MODE_ALL) &&
                        !ag_view_is_empty(&p->mask);
    AG_TRY(check_mode(p->sparse_mode));
    AG_TRY(check_mask(c));
    return check_tokens(c);
}

static ag_status check_statistics_shape(const struct attention_problem *p, const struct ag_view *view,
                                        const char *name)
{
    const int64_t t = p->query_rows, n = p->query_heads;
    const int64_t *d = view->dims;
    char text[AG_SHAPE_TEXT];
    AG_REQUIRE(view->dtype == AG_FLOAT, INVALID, "%s: dtype %s, want FLOAT", name, ag_dtype_name(view->dtype));
    const bool fits = view->rank == ATTENTION_AXES && d[ATTENTION_AXIS_DIM] == ATTENTION_STATISTIC_LANES &&
                      ((d[0] == t && d[1] == n) || (d[0] == n && d[1] == t));
    AG_REQUIRE(fits, INVALID, "%s: shape %s, want [T, N, 8] = [%" PRId64 ", %" PRId64 ", 8] (or [N, T, 8])", name,
               ag_shape_text(text, view->rank, view->dims), t, n);
    return AG_OK;
}

ag_status attention_check_statistics(const struct attention_checker *c)
{
    AG_TRY(check_statistics_shape(c->p, &c->p->softmax_max, c->names->softmax_max));
    return check_statistics_shape(c->p, &c->p->softmax_sum, c->names->softmax_sum);
}

ag_status attention_check_per_head(const struct attention_problem *p, const struct ag_view *view, const char *name)
{
    if (!view->present) {
        return AG_OK;
    }
    AG_TRY(ag_require_dtype(AG_INVALID, view, name, AG_FLOAT, "one number per head"));
    return ag_require_shape(AG_INVALID, view, name, 1, &p->query_heads);
}

ag_status attention_check_pse_type(int64_t pse_type)
{
    AG_REQUIRE(pse_type == 0 || pse_type == 1, INVALID, "pseType: got %" PRId64 ", want 1 (or 0)", pse_type);
    return AG_OK;
}

ag_status attention_read_prefix(const struct attention_checker *c, const int64_t **prefix, int64_t *count)
{
    *prefix = NULL;
    *count = 0;
    if (c->p->sparse_mode != ATTENTION_MODE_PREFIX || !c->p->has_mask) {
        return AG_OK; /* given in another mode it is ignored */
    }
    AG_TRY(ag_int_array_values(c->args->prefix, "prefixOptional", prefix, count));
    AG_REQUIRE(*count > 0, NULLPTR,
               "prefixOptional: got null or a list of size 0, want one value per sequence for "
               "sparseMode 6");
    AG_REQUIRE(*count == c->p->sequence_count || *count == live_sequences(c), INVALID,
               "prefixOptional: %" PRId64 " values, want %" PRId64 " (one per sequence)", *count,
               c->p->sequence_count);
    return AG_OK;
}

/* --- memory ---------------------------------------------------------------------------------------------- */

/* Two elements of an output at one place could not both hold their value. */
static ag_status check_output_strides(const struct attention_named_view *output)
{
    const struct ag_view *view = output->view;
    for (int d = 0; d < view->rank; ++d) {
        AG_REQUIRE(view->dims[d] <= 1 || view->strides[d] != 0 || ag_view_is_empty(view), INVALID,
                   "%s: stride 0 in dim %d of %" PRId64 ", want an output whose elements do not share memory",
                   output->name, d, view->dims[d]);
    }
    AG_REQUIRE(!ag_view_meets_itself(view), INVALID,
               "%s: strides that lead two elements to one place, want an output whose elements do not share memory",
               output->name);
    return AG_OK;
}

ag_status attention_check_memory(const struct attention_named_view *inputs, int input_count,
                                 const struct attention_named_view *outputs, int output_count)
{
    for (int i = 0; i < input_count; ++i) {
        if (inputs[i].view->present) {
            AG_TRY(ag_require_row_major(inputs[i].view, inputs[i].name));
            AG_TRY(ag_require_inside_storage(inputs[i].view, inputs[i].name));
        }
    }
    for (int i = 0; i < output_count; ++i) {
        if (outputs[i].view->present) {
            AG_TRY(ag_require_row_major(outputs[i].view, outputs[i].name));
            AG_TRY(ag_require_inside_storage(outputs[i].view, outputs[i].name));
            AG_TRY(check_output_strides(&outputs[i]));
        }
    }
    return attention_check_outputs_apart(outputs, output_count);
}

ag_status attention_check_outputs_apart(const struct attention_named_view *outputs, int output_count)
{
    for (int out = 0; out < output_count; ++out) {
        for (int other = 0; other < out; ++other) {
            AG_REQUIRE(!ag_views_share_bytes(outputs[out].view, outputs[other].view), INVALID,
                       "%s: shares memory with %s, want an output with memory of its own", outputs[out].name,
                       outputs[other].name);
        }
    }
    return AG_OK;
}

bool attention_views_meet(const struct attention_problem *p, const struct attention_named_view *inputs,
                          int input_count, const struct attention_named_view *outputs, int output_count)
{
    for (int out = 0; out < output_count; ++out) {
        for (int in = 0; in < input_count; ++in) {
            const bool is_read = inputs[in].view != &p->mask || p->has_mask_bytes;
            if (is_read && ag_views_overlap(outputs[out].view, inputs[in].view)) {
                return true;
            }
        }
    }
    return false;
}

/* --- the end --------------------------------------------------------------------------------------------- */

void attention_hide(struct ag_view *view)
{
    if (view->present) {
        *view = (struct ag_view){.rank = 1, .dtype = view->dtype, .format = view->format, .present = true};
    }
}

/* Rank 4 with stride 0 where the mask is the same for all sequences or heads. */
static void spread_mask(struct ag_view *mask)
{
    if (mask->rank == 2) {
        memmove(mask->dims + 2, mask->dims, 2 * sizeof *mask->dims);
        memmove(mask->strides + 2, mask->strides, 2 * sizeof *mask->strides);
        mask->dims[0] = mask->dims[1] = 1;
        mask->rank = 4;
    }
    for (int d = 0; d < 2; ++d) {
        mask->strides[d] = mask->dims[d] == 1 ? 0 : mask->strides[d];
    }
}

ag_status attention_read_softmax_layout(const struct attention_checker *c, const char *name)
{
    const char *layout = c->args->softmax_layout ? c->args->softmax_layout : "";
    const bool is_as_input = strcmp(layout, "same_as_input") == 0;
    AG_REQUIRE(is_as_input || layout[0] == '\0', INVALID, "%s: got \"%.32s\", want \"\" or \"same_as_input\"", name,
               layout);
    c->p->softmax_layout = is_as_input ? AG_SOFTMAX_TND : ag_config_get().softmax_layout;
    return AG_OK;
}

void attention_finish(const struct attention_checker *c, const int64_t *prefix, int64_t prefix_count)
{
    struct attention_problem *p = c->p;
    attention_set_intervals((struct attention_sequence *)p->sequences, p->sequence_count,
                            p->has_mask ? p->sparse_mode : ATTENTION_MODE_ALL, c->args->pre_tokens,
                            c->args->next_tokens, prefix, prefix_count);
    if (p->has_mask_bytes) {
        spread_mask(&p->mask);
    }
    attention_hide(&p->padding_mask);
    attention_hide(&p->softmax_in);
    p->scale = (float)c->args->scale;
    p->is_debug = ag_config_get().is_debug;
    p->entry = c->args->entry;
}
