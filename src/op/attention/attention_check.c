/* Arguments -> problem. The checks stand in the order in which the contract lists them, so that a call with several
 * faults always names the same one. Nothing here reads tensor data. */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "op/attention/attention.h"
#include "op/attention/attention_lengths.h"
#include "runtime/tensor.h"

enum { AXIS_ROW, AXIS_HEAD, AXIS_DIM, AXES };

enum { STATISTIC_LANES = 8, ROPE_DIM_MULTIPLE = 8 };

/* Phase 1 counts row tiles one by one: more rows than memory could hold must not keep it busy for minutes. */
#define MOST_ROWS ((int64_t)1 << 31)

/* What the documents refuse though the mathematics would allow it, and what ACLGRAD_LIMITS=extended makes of it. */
struct attention_limits {
    int64_t dim, heads; /* largest D and N1 */
    bool rope_is_bf16;  /* rope only in BF16 (else in the type of query) */
    bool rope_needs_mask;
    int64_t rope_dim_multiple; /* with rope D and Dr are multiples of it */
};

static const struct attention_limits limits_table[] = {
    [AG_LIMITS_DOCUMENTED] = {768, 256, true, true, ROPE_DIM_MULTIPLE},
    [AG_LIMITS_EXTENDED] = {INT64_MAX, INT64_MAX, false, false, 1},
};

struct checker {
    const struct attention_args *args;
    struct attention_problem *p;
    const struct attention_limits *limits;
    struct attention_lengths query_lengths, key_lengths;
};

/* --- 1-4: pointers, layout name, nothing to do ----------------------------------------------------------- */

static ag_status check_handles(const struct attention_args *a)
{
    AG_REQUIRE(a->executor, NULLPTR, "executor: got null, want a place for the executor");
    AG_REQUIRE(a->workspace_size, NULLPTR, "workspaceSize: got null, want a place for the size");
    AG_REQUIRE(a->input_layout, NULLPTR, "inputLayout: got null, want \"TND\"");
    AG_REQUIRE(a->input_layout[0], INVALID, "inputLayout is empty, expected TND");
    AG_REQUIRE(strcmp(a->input_layout, "TND") == 0, INVALID, "inputLayout: got \"%.32s\", want \"TND\"",
               a->input_layout);
    return AG_OK;
}

static ag_status read_required(const struct checker *c)
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
    return ag_tensor_view(a->dpse, "dpseOut", &p->dpse);
}

static bool is_nothing(const struct attention_problem *p)
{
    return ag_view_is_empty(&p->dq) && ag_view_is_empty(&p->dk) && ag_view_is_empty(&p->dv) &&
           (!p->dpse.present || ag_view_is_empty(&p->dpse));
}

/* An optional tensor of rank 0 counts as absent, and so does one without elements, unless it has none because the
 * pack has no rows. */
static ag_status read_optional(const aclTensor *tensor, const char *name, bool has_no_rows, struct ag_view *view)
{
    AG_TRY(ag_tensor_view(tensor, name, view));
    if (view->present && (view->rank == 0 || (ag_view_is_empty(view) && !has_no_rows))) {
        *view = (struct ag_view){0};
    }
    return AG_OK;
}

static int64_t rows_of(const struct ag_view *view)
{
    return view->rank > 0 ? view->dims[AXIS_ROW] : 0;
}

static ag_status read_optionals(const struct checker *c)
{
    const struct attention_args *a = c->args;
    struct attention_problem *p = c->p;
    const bool no_query = rows_of(&p->query) == 0;
    const bool no_key = rows_of(&p->key) == 0;
    AG_TRY(read_optional(a->query_rope, "queryRope", no_query, &p->query_rope));
    AG_TRY(read_optional(a->key_rope, "keyInRope", no_key, &p->key_rope));
    AG_TRY(read_optional(a->dq_rope, "dqRopeOut", no_query, &p->dq_rope));
    AG_TRY(read_optional(a->dk_rope, "dkRopeOut", no_key, &p->dk_rope));
    AG_TRY(read_optional(a->atten_mask, "attenMaskOptional", no_query || no_key, &p->mask));
    AG_TRY(read_optional(a->softmax_max, "softmaxMaxOptional", true, &p->softmax_max));
    AG_TRY(read_optional(a->softmax_sum, "softmaxSumOptional", true, &p->softmax_sum));
    AG_TRY(ag_tensor_view(a->padding_mask, "paddingMaskOptional", &p->padding_mask));
    return ag_tensor_view(a->softmax_in, "softmaxInOptional", &p->softmax_in);
}

/* --- 5-11: types and shapes ------------------------------------------------------------------------------ */

static ag_status check_dtypes(const struct checker *c)
{
    const struct attention_problem *p = c->p;
    const int dtype = p->query.dtype;
    AG_REQUIRE(ag_dtype_is_float(dtype), INVALID, "query: dtype %s, want FLOAT, FLOAT16 or BF16",
               ag_dtype_name(dtype));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->key, "keyIn", dtype, "that of query"));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->value, "value", dtype, "that of query"));
    return ag_require_dtype(AG_INVALID, &p->dy, "dy", dtype, "that of query");
}

static ag_status check_rank(const struct ag_view *view, const char *name)
{
    char text[AG_SHAPE_TEXT];
    AG_REQUIRE(view->rank == AXES, INVALID, "%s: rank %d, shape %s, want rank 3 [T, N, D]", name, view->rank,
               ag_shape_text(text, view->rank, view->dims));
    return AG_OK;
}

static ag_status check_ranks(const struct attention_problem *p)
{
    AG_TRY(check_rank(&p->query, "query"));
    AG_TRY(check_rank(&p->key, "keyIn"));
    AG_TRY(check_rank(&p->value, "value"));
    AG_TRY(check_rank(&p->dy, "dy"));
    AG_TRY(check_rank(&p->attention_in, "attentionInOptional"));
    AG_TRY(check_rank(&p->dq, "dqOut"));
    AG_TRY(check_rank(&p->dk, "dkOut"));
    return check_rank(&p->dv, "dvOut");
}

/* The view has the rows and heads of `like` and a last dim of its own. */
static ag_status check_rows_and_heads(const struct ag_view *view, const char *name, const struct ag_view *like)
{
    const int64_t want[AXES] = {like->dims[AXIS_ROW], like->dims[AXIS_HEAD], view->dims[AXIS_DIM]};
    return ag_require_shape(AG_INVALID, view, name, AXES, want);
}

static ag_status check_rope_shapes(const struct attention_problem *p)
{
    if (!p->query_rope.present || !p->key_rope.present) {
        return AG_OK; /* one without the other is refused later, in its turn */
    }
    AG_TRY(check_rank(&p->query_rope, "queryRope"));
    AG_TRY(check_rank(&p->key_rope, "keyInRope"));
    AG_TRY(check_rows_and_heads(&p->query_rope, "queryRope", &p->query));
    AG_TRY(check_rows_and_heads(&p->key_rope, "keyInRope", &p->key));
    const int64_t dim = p->query_rope.dims[AXIS_DIM];
    AG_REQUIRE(p->key_rope.dims[AXIS_DIM] == dim, INVALID,
               "keyInRope: last dim %" PRId64 ", want %" PRId64 " (that of queryRope)", p->key_rope.dims[AXIS_DIM],
               dim);
    AG_REQUIRE(dim <= p->query.dims[AXIS_DIM], INVALID, "queryRope: last dim %" PRId64 ", want at most D = %" PRId64,
               dim, p->query.dims[AXIS_DIM]);
    if (p->dq_rope.present) {
        AG_TRY(ag_require_shape(AG_INVALID, &p->dq_rope, "dqRopeOut", AXES, p->query_rope.dims));
    }
    if (p->dk_rope.present) {
        AG_TRY(ag_require_shape(AG_INVALID, &p->dk_rope, "dkRopeOut", AXES, p->key_rope.dims));
    }
    return AG_OK;
}

static ag_status check_outputs(const struct attention_problem *p)
{
    AG_TRY(ag_require_shape(AG_INVALID, &p->dq, "dqOut", AXES, p->query.dims));
    AG_TRY(ag_require_shape(AG_INVALID, &p->dk, "dkOut", AXES, p->key.dims));
    AG_TRY(ag_require_shape(AG_INVALID, &p->dv, "dvOut", AXES, p->value.dims));
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

static ag_status check_shapes(const struct checker *c)
{
    const struct attention_problem *p = c->p;
    const int64_t dim = p->query.dims[AXIS_DIM], value_dim = p->value.dims[AXIS_DIM];
    AG_TRY(check_rows_and_heads(&p->value, "value", &p->key));
    AG_TRY(check_rows_and_heads(&p->dy, "dy", &p->query));
    AG_TRY(ag_require_shape(AG_INVALID, &p->attention_in, "attentionInOptional", AXES, p->dy.dims));
    AG_TRY(check_rope_shapes(p));
    AG_TRY(check_outputs(p));
    AG_REQUIRE(p->key.dims[AXIS_DIM] == dim, INVALID,
               "keyIn: last dim %" PRId64 ", want D = %" PRId64 " (that of query)", p->key.dims[AXIS_DIM], dim);
    AG_REQUIRE(value_dim <= dim, INVALID, "value: last dim %" PRId64 ", want at most D = %" PRId64, value_dim, dim);
    AG_REQUIRE(p->dy.dims[AXIS_DIM] == value_dim, INVALID,
               "dy: last dim %" PRId64 ", want Dv = %" PRId64 " (that of value)", p->dy.dims[AXIS_DIM], value_dim);
    return AG_OK;
}

static void fill_sizes(struct attention_problem *p)
{
    p->elem = ag_elem_of(p->query.dtype);
    p->query_rows = p->query.dims[AXIS_ROW];
    p->key_rows = p->key.dims[AXIS_ROW];
    p->query_heads = p->query.dims[AXIS_HEAD];
    p->key_heads = p->key.dims[AXIS_HEAD];
    p->dim = p->query.dims[AXIS_DIM];
    p->value_dim = p->value.dims[AXIS_DIM];
}

/* --- 12-13: length lists --------------------------------------------------------------------------------- */

static ag_status check_lengths(struct checker *c)
{
    AG_TRY(
        attention_read_lengths(c->args->actual_seq_q, "actualSeqQLenOptional", c->p->query_rows, &c->query_lengths));
    return attention_read_lengths(c->args->actual_seq_kv, "actualSeqKvLenOptional", c->p->key_rows, &c->key_lengths);
}

/* --- 14-17: rope ----------------------------------------------------------------------------------------- */

/* pseShift and dropMask must be absent. With rope even a rank-0 tensor is refused. */
static ag_status check_absent(const aclTensor *tensor, const char *name, bool has_rope)
{
    struct ag_view view;
    AG_TRY(ag_tensor_view(tensor, name, &view));
    const bool counts_as_null = !view.present || ag_view_is_empty(&view) || (view.rank == 0 && !has_rope);
    AG_REQUIRE(counts_as_null, INVALID, "%s: got a tensor, want null (not supported by this version of the operator)",
               name);
    return AG_OK;
}

static ag_status check_keep_prob(const struct attention_args *a)
{
    AG_REQUIRE(a->keep_prob == 1.0, INVALID, "keepProb: got %g, want 1 (there is no dropout)", a->keep_prob);
    return AG_OK;
}

static ag_status check_rope_pair(const struct attention_problem *p)
{
    AG_REQUIRE(!p->query_rope.present || p->key_rope.present, NULLPTR,
               "keyInRope: got null, want a tensor because queryRope is given");
    AG_REQUIRE(!p->key_rope.present || p->query_rope.present, NULLPTR,
               "queryRope: got null, want a tensor because keyInRope is given");
    return AG_OK;
}

static ag_status check_rope(const struct checker *c)
{
    const struct attention_problem *p = c->p;
    const int rope_dtype = c->limits->rope_is_bf16 ? AG_BF16 : p->query.dtype;
    const char *reason = c->limits->rope_is_bf16 ? "with rope" : "that of query";
    const int64_t multiple = c->limits->rope_dim_multiple;
    AG_TRY(ag_require_dtype(AG_INVALID, &p->query_rope, "queryRope", rope_dtype, reason));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->key_rope, "keyInRope", rope_dtype, reason));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->query, "query", rope_dtype, reason));
    AG_REQUIRE(c->args->sparse_mode != ATTENTION_MODE_PREFIX, INVALID,
               "sparseMode: got 6, want another one with rope");
    AG_REQUIRE(p->mask.present || !c->limits->rope_needs_mask, NULLPTR,
               "attenMaskOptional: got null, want a mask because queryRope is given");
    AG_TRY(check_absent(c->args->pse_shift, "pseShiftOptional", true));
    AG_TRY(check_absent(c->args->drop_mask, "dropMaskOptional", true));
    AG_TRY(check_keep_prob(c->args));
    AG_REQUIRE(p->dim % multiple == 0, INVALID,
               "query: last dim %" PRId64 ", want a multiple of %" PRId64 " with rope", p->dim, multiple);
    AG_REQUIRE(p->rope_dim % multiple == 0, INVALID, "queryRope: last dim %" PRId64 ", want a multiple of %" PRId64,
               p->rope_dim, multiple);
    return AG_OK;
}

/* --- 18-22: heads, lists against each other, scalars ----------------------------------------------------- */

static ag_status check_heads(const struct checker *c)
{
    const struct attention_problem *p = c->p;
    AG_REQUIRE(c->args->head_num == p->query_heads, INVALID,
               "headNum: got %" PRId64 ", want %" PRId64 " (N of query)", c->args->head_num, p->query_heads);
    AG_REQUIRE(c->query_lengths.count == c->key_lengths.count, INVALID,
               "actualSeqKvLenOptional: %" PRId64 " sequences, want %" PRId64 " (as many as actualSeqQLenOptional)",
               c->key_lengths.count, c->query_lengths.count);
    AG_REQUIRE(p->key_heads > 0, INVALID, "keyIn: 0 heads, want at least 1");
    AG_REQUIRE(p->query_heads % p->key_heads == 0, INVALID,
               "keyIn: %" PRId64 " heads, want a divisor of N = %" PRId64 " (that of query)", p->key_heads,
               p->query_heads);
    AG_REQUIRE(p->query_rows <= MOST_ROWS, INVALID, "query: %" PRId64 " rows, want at most %" PRId64, p->query_rows,
               MOST_ROWS);
    AG_REQUIRE(p->key_rows <= MOST_ROWS, INVALID, "keyIn: %" PRId64 " rows, want at most %" PRId64, p->key_rows,
               MOST_ROWS);
    AG_REQUIRE(p->dim <= c->limits->dim, INVALID,
               "query: last dim %" PRId64 ", want at most %" PRId64 " (ACLGRAD_LIMITS=extended lifts this)", p->dim,
               c->limits->dim);
    AG_REQUIRE(p->query_heads <= c->limits->heads, INVALID,
               "query: %" PRId64 " heads, want at most %" PRId64 " (ACLGRAD_LIMITS=extended lifts this)",
               p->query_heads, c->limits->heads);
    return AG_OK;
}

static ag_status check_statistics_given(const struct attention_problem *p)
{
    AG_REQUIRE(p->softmax_max.present, NULLPTR, "softmaxMaxOptional: got null, want the forward's row maxima");
    AG_REQUIRE(p->softmax_sum.present, NULLPTR, "softmaxSumOptional: got null, want the forward's row sums");
    return AG_OK;
}

/* --- sequences (their memory), needed by the checks that follow ------------------------------------------ */

static ag_status make_sequences(const struct checker *c)
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
static int64_t live_sequences(const struct checker *c)
{
    const int64_t query = c->query_lengths.live_count, key = c->key_lengths.live_count;
    return query < key ? query : key;
}

/* --- 23-24: sparse mode and mask ------------------------------------------------------------------------- */

static ag_status check_sparse_mode(int64_t mode)
{
    AG_REQUIRE(mode >= 0 && mode <= ATTENTION_MODE_LAST && mode != ATTENTION_MODE_PREFIX_FULL, INVALID,
               "sparseMode: got %" PRId64 ", want 0, 1, 2, 3, 4, 6, 7 or 8", mode);
    return AG_OK;
}

static bool mask_leads_fit(const struct checker *c)
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

static ag_status check_mask_bytes_shape(const struct checker *c)
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

static ag_status check_compressed_mask_shape(const struct checker *c)
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

static ag_status check_mask(const struct checker *c)
{
    const struct attention_problem *p = c->p;
    if (!p->has_mask || ag_view_is_empty(&p->mask)) {
        return AG_OK;
    }
    AG_REQUIRE(p->mask.dtype == AG_BOOL || p->mask.dtype == AG_UINT8, INVALID,
               "attenMaskOptional: dtype %s, want BOOL or UINT8", ag_dtype_name(p->mask.dtype));
    return p->has_mask_bytes ? check_mask_bytes_shape(c) : check_compressed_mask_shape(c);
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

/* --- 25: token rules ------------------------------------------------------------------------------------- */

static int64_t cut_tokens(int64_t tokens)
{
    return tokens < -ATTENTION_FAR ? -ATTENTION_FAR : tokens > ATTENTION_FAR ? ATTENTION_FAR : tokens;
}

/* The window is not empty as a band, and reaches into the [Sq, Skv] rectangle: pre >= -most_pre, next >= -most_next. */
static ag_status check_tokens_of(const struct checker *c, int64_t batch, int64_t most_pre, int64_t most_next)
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

static ag_status check_tokens(const struct checker *c)
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

/* --- 26-31: what is left --------------------------------------------------------------------------------- */

static ag_status check_statistics_shape(const struct attention_problem *p, const struct ag_view *view,
                                        const char *name)
{
    const int64_t t = p->query_rows, n = p->query_heads;
    const int64_t *d = view->dims;
    char text[AG_SHAPE_TEXT];
    AG_REQUIRE(view->dtype == AG_FLOAT, INVALID, "%s: dtype %s, want FLOAT", name, ag_dtype_name(view->dtype));
    const bool fits = view->rank == AXES && d[AXIS_DIM] == STATISTIC_LANES &&
                      ((d[0] == t && d[1] == n) || (d[0] == n && d[1] == t));
    AG_REQUIRE(fits, INVALID, "%s: shape %s, want [T, N, 8] = [%" PRId64 ", %" PRId64 ", 8] (or [N, T, 8])", name,
               ag_shape_text(text, view->rank, view->dims), t, n);
    return AG_OK;
}

static ag_status check_statistics(const struct attention_problem *p)
{
    AG_TRY(check_statistics_shape(p, &p->softmax_max, "softmaxMaxOptional"));
    AG_TRY(check_statistics_shape(p, &p->softmax_sum, "softmaxSumOptional"));
    return ag_require_dtype(AG_INVALID, &p->attention_in, "attentionInOptional", p->query.dtype, "that of query");
}

static ag_status check_pse_type(int64_t pse_type)
{
    AG_REQUIRE(pse_type == 0 || pse_type == 1, INVALID, "pseType: got %" PRId64 ", want 1 (or 0)", pse_type);
    return AG_OK;
}

static ag_status read_prefix(const struct checker *c, const int64_t **prefix, int64_t *count)
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

static ag_status check_unused(const struct checker *c)
{
    const struct attention_problem *p = c->p;
    AG_REQUIRE(!p->dpse.present || ag_view_is_empty(&p->dpse), INVALID,
               "dpseOut: got a tensor with elements, want null or an empty one (pseShift is absent)");
    AG_REQUIRE(p->has_rope || !p->dq_rope.present, INVALID,
               "dqRopeOut: got a tensor with elements, want null or an empty one without queryRope");
    AG_REQUIRE(p->has_rope || !p->dk_rope.present, INVALID,
               "dkRopeOut: got a tensor with elements, want null or an empty one without keyInRope");
    AG_TRY(check_absent(c->args->pse_shift, "pseShiftOptional", p->has_rope));
    return check_absent(c->args->drop_mask, "dropMaskOptional", p->has_rope);
}

/* --- memory ---------------------------------------------------------------------------------------------- */

struct named_view {
    const char *name;
    const struct ag_view *view;
};

enum { READ_VIEWS = 10, WRITTEN_VIEWS = 5 };

static void list_read_views(const struct attention_problem *p, struct named_view views[READ_VIEWS])
{
    const struct named_view list[READ_VIEWS] = {{"query", &p->query},
                                                {"queryRope", &p->query_rope},
                                                {"keyIn", &p->key},
                                                {"keyInRope", &p->key_rope},
                                                {"value", &p->value},
                                                {"dy", &p->dy},
                                                {"attenMaskOptional", &p->mask},
                                                {"softmaxMaxOptional", &p->softmax_max},
                                                {"softmaxSumOptional", &p->softmax_sum},
                                                {"attentionInOptional", &p->attention_in}};
    memcpy(views, list, sizeof list);
}

static void list_written_views(const struct attention_problem *p, struct named_view views[WRITTEN_VIEWS])
{
    const struct named_view list[WRITTEN_VIEWS] = {{"dqOut", &p->dq},
                                                   {"dqRopeOut", &p->dq_rope},
                                                   {"dkOut", &p->dk},
                                                   {"dkRopeOut", &p->dk_rope},
                                                   {"dvOut", &p->dv}};
    memcpy(views, list, sizeof list);
}

/* Two elements of an output at one place could not both hold their value. */
static ag_status check_output_strides(const struct named_view *output)
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

static ag_status check_memory(const struct attention_problem *p)
{
    struct named_view inputs[READ_VIEWS], outputs[WRITTEN_VIEWS];
    list_read_views(p, inputs);
    list_written_views(p, outputs);
    for (int i = 0; i < READ_VIEWS; ++i) {
        if (inputs[i].view->present) {
            AG_TRY(ag_require_row_major(inputs[i].view, inputs[i].name));
            AG_TRY(ag_require_inside_storage(inputs[i].view, inputs[i].name));
        }
    }
    for (int i = 0; i < WRITTEN_VIEWS; ++i) {
        if (outputs[i].view->present) {
            AG_TRY(ag_require_row_major(outputs[i].view, outputs[i].name));
            AG_TRY(ag_require_inside_storage(outputs[i].view, outputs[i].name));
            AG_TRY(check_output_strides(&outputs[i]));
        }
    }
    return AG_OK;
}

bool attention_outputs_overlap_inputs(const struct attention_problem *p)
{
    struct named_view inputs[READ_VIEWS], outputs[WRITTEN_VIEWS];
    list_read_views(p, inputs);
    list_written_views(p, outputs);
    for (int out = 0; out < WRITTEN_VIEWS; ++out) {
        for (int in = 0; in < READ_VIEWS; ++in) {
            const bool is_read = inputs[in].view != &p->mask || p->has_mask_bytes;
            if (is_read && ag_views_overlap(outputs[out].view, inputs[in].view)) {
                return true;
            }
        }
    }
    return false;
}

/* --- the whole ------------------------------------------------------------------------------------------- */

/* Before there are sequences: rows 5 to 22 of the contract's list. */
static ag_status check_sizes(struct checker *c)
{
    struct attention_problem *p = c->p;
    AG_REQUIRE(c->args->head_num > 0, INVALID, "headNum: got %" PRId64 ", want N of query, above 0",
               c->args->head_num);
    AG_TRY(check_dtypes(c));
    AG_TRY(check_ranks(p));
    AG_TRY(read_optionals(c));
    AG_TRY(check_shapes(c));
    fill_sizes(p);
    AG_TRY(check_lengths(c));
    AG_TRY(check_rope_pair(p));
    p->has_rope = p->query_rope.present;
    p->rope_dim = p->has_rope ? p->query_rope.dims[AXIS_DIM] : 0;
    if (p->has_rope) {
        AG_TRY(check_rope(c));
    }
    AG_TRY(check_statistics_given(p));
    AG_TRY(check_heads(c));
    p->group = p->query_heads / p->key_heads;
    return check_keep_prob(c->args);
}

/* With p->sequences: rows 23 to 31, and memory. */
static ag_status check_rules(const struct checker *c, const int64_t **prefix, int64_t *prefix_count)
{
    struct attention_problem *p = c->p;
    p->sparse_mode = c->args->sparse_mode;
    p->has_mask = p->mask.present;
    p->has_mask_bytes = p->has_mask &&
                        (p->sparse_mode == ATTENTION_MODE_DEFAULT || p->sparse_mode == ATTENTION_MODE_ALL) &&
                        !ag_view_is_empty(&p->mask);
    AG_TRY(check_sparse_mode(p->sparse_mode));
    AG_TRY(check_mask(c));
    AG_TRY(check_tokens(c));
    AG_TRY(check_pse_type(c->args->pse_type));
    AG_TRY(check_statistics(p));
    AG_TRY(read_prefix(c, prefix, prefix_count));
    AG_TRY(check_unused(c));
    return check_memory(p);
}

/* Views of arguments that nobody touches look empty, so that phase 2 asks no memory of them. */
static void hide(struct ag_view *view)
{
    if (view->present) {
        *view = (struct ag_view){.rank = 1, .dtype = view->dtype, .format = view->format, .present = true};
    }
}

static void finish(const struct checker *c, const struct ag_config *config, const int64_t *prefix,
                   int64_t prefix_count)
{
    struct attention_problem *p = c->p;
    attention_set_intervals((struct attention_sequence *)p->sequences, p->sequence_count,
                            p->has_mask ? p->sparse_mode : ATTENTION_MODE_ALL, c->args->pre_tokens,
                            c->args->next_tokens, prefix, prefix_count);
    if (p->has_mask_bytes) {
        spread_mask(&p->mask);
    }
    hide(&p->padding_mask);
    hide(&p->softmax_in);
    hide(&p->dpse);
    if (p->value_dim == 0) {
        p->sequence_count = 0; /* dvOut is empty: what is left is filled with zeros, as slack rows are */
    }
    p->scale = (float)c->args->scale;
    p->has_overlap = attention_outputs_overlap_inputs(p);
    p->is_debug = config->is_debug;
    p->softmax_layout = config->softmax_layout;
    if (p->softmax_layout == AG_SOFTMAX_AUTO && p->query_heads == 1) {
        p->softmax_layout = AG_SOFTMAX_CANN; /* the three orders are one */
    }
}

ag_status attention_check(const struct attention_args *args, struct attention_problem *problem)
{
    const struct ag_config config = ag_config_get();
    struct checker c = {.args = args, .p = problem, .limits = &limits_table[config.limits]};
    const int64_t *prefix;
    int64_t prefix_count;
    *problem = (struct attention_problem){0};
    AG_TRY(check_handles(args));
    AG_TRY(read_required(&c));
    if (is_nothing(problem)) {
        *problem = (struct attention_problem){.is_nothing = true};
        return AG_OK;
    }
    AG_TRY(check_sizes(&c));
    AG_TRY(make_sequences(&c));
    const ag_status status = check_rules(&c, &prefix, &prefix_count);
    if (status != AG_OK) {
        attention_release(problem);
        return status;
    }
    finish(&c, &config, prefix, prefix_count);
    return AG_OK;
}

void attention_release(struct attention_problem *problem)
{
    ag_free((void *)problem->sequences);
    problem->sequences = NULL;
}
