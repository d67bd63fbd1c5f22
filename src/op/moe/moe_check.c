#include "op/moe/moe.h"

#include <inttypes.h>

#include "base/check.h"
#include "runtime/tensor.h"

/* K is cut by the documents, not by the mathematics; slots are counted in int32 either way. */
const struct moe_limits moe_limits_table[] = {
    [AG_LIMITS_DOCUMENTED] = {.topk = 512},
    [AG_LIMITS_EXTENDED] = {.topk = INT32_MAX},
};

/* --- the tensors, under the names the caller knows ------------------------------------------------------- */

struct named_view {
    const char *name;
    const struct ag_view *view;
};
enum { MOE_TENSORS = 6 };

static void list_tensors(const struct moe_problem *p, struct named_view list[MOE_TENSORS])
{
    const struct named_view all[MOE_TENSORS] = {
        {"unpermutedTokensGrad", &p->unpermuted_tokens_grad}, {"sortedIndices", &p->sorted_indices},
        {"permutedTokensOptional", &p->permuted_tokens},      {"probsOptional", &p->probs},
        {"permutedTokensGradOut", &p->permuted_tokens_grad},  {"probsGradOut", &p->probs_grad},
    };
    for (int i = 0; i < MOE_TENSORS; ++i) {
        list[i] = all[i];
    }
}

/* permuted_tokens with no row is what a rank without tokens has; any other tensor without elements counts as not
 * given. Without probs the rows are not read, so no row then means not given, too. */
static ag_status read_permuted_tokens(const struct moe_args *args, struct moe_problem *p)
{
    struct ag_view *view = &p->permuted_tokens;
    AG_TRY(ag_tensor_view(args->permuted_tokens, "permutedTokensOptional", view));
    const bool has_no_row = view->present && view->rank == 2 && view->dims[0] == 0 && view->dims[1] > 0;
    const bool has_no_elem = view->present && (view->rank == 0 || ag_view_is_empty(view));
    if (has_no_elem && !(has_no_row && p->probs.present)) {
        *view = (struct ag_view){.present = false};
    }
    return AG_OK;
}

static ag_status read_tensors(const struct moe_args *args, struct moe_problem *p)
{
    AG_TRY(ag_tensor_view_required(args->unpermuted_tokens_grad, "unpermutedTokensGrad", &p->unpermuted_tokens_grad));
    AG_TRY(ag_tensor_view_required(args->sorted_indices, "sortedIndices", &p->sorted_indices));
    AG_TRY(ag_tensor_view_required(args->permuted_tokens_grad, "permutedTokensGradOut", &p->permuted_tokens_grad));
    AG_TRY(ag_tensor_view_required(args->probs_grad, "probsGradOut", &p->probs_grad));
    AG_REQUIRE(args->workspace_size, NULLPTR, "workspaceSize: got null, want an address for the size");
    AG_REQUIRE(args->executor, NULLPTR, "executor: got null, want an address for the executor");
    AG_TRY(ag_tensor_view_optional(args->probs, "probsOptional", &p->probs));
    return read_permuted_tokens(args, p);
}

/* --- types, formats, memory ------------------------------------------------------------------------------ */

static ag_status require_float(const struct ag_view *view, const char *name)
{
    AG_REQUIRE(ag_dtype_is_float(view->dtype), INVALID, "%s: dtype %s (%d), want BF16, FLOAT16 or FLOAT", name,
               ag_dtype_name(view->dtype), view->dtype);
    return AG_OK;
}

static ag_status check_dtypes(struct moe_problem *p)
{
    const int token_dtype = p->unpermuted_tokens_grad.dtype;
    const char *const of_grad = "that of unpermutedTokensGrad";
    AG_TRY(require_float(&p->unpermuted_tokens_grad, "unpermutedTokensGrad"));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->sorted_indices, "sortedIndices", AG_INT32, ""));
    AG_TRY(ag_require_dtype(AG_INVALID, &p->permuted_tokens_grad, "permutedTokensGradOut", token_dtype, of_grad));
    AG_TRY(require_float(&p->probs_grad, "probsGradOut"));
    if (p->probs.present) {
        AG_TRY(require_float(&p->probs, "probsOptional"));
        AG_TRY(ag_require_dtype(AG_INVALID, &p->probs_grad, "probsGradOut", p->probs.dtype, "that of probsOptional"));
        p->probs_elem = ag_elem_of(p->probs.dtype);
    }
    if (p->permuted_tokens.present) {
        AG_TRY(ag_require_dtype(AG_TILING, &p->permuted_tokens, "permutedTokensOptional", token_dtype, of_grad));
    }
    p->token_elem = ag_elem_of(token_dtype);
    return AG_OK;
}

/* The formats that the device reads as plain rows: of the row-major ones (ag_require_row_major) not all. */
static bool is_plain_format(int format)
{
    return format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NHWC ||
           format == ACL_FORMAT_NCL || format == ACL_FORMAT_NCDHW;
}

static ag_status check_formats(const struct moe_problem *p)
{
    struct named_view list[MOE_TENSORS];
    list_tensors(p, list);
    for (int i = 0; i < MOE_TENSORS; ++i) {
        AG_REQUIRE(!list[i].view->present || is_plain_format(list[i].view->format), INVALID,
                   "%s: format %s (%d), want ND, NCHW, NHWC, NCL or NCDHW", list[i].name,
                   ag_format_name(list[i].view->format), list[i].view->format);
    }
    return AG_OK;
}

static ag_status check_storage(const struct moe_problem *p)
{
    struct named_view list[MOE_TENSORS];
    list_tensors(p, list);
    for (int i = 0; i < MOE_TENSORS; ++i) {
        AG_TRY(ag_require_inside_storage(list[i].view, list[i].name));
    }
    return AG_OK;
}

static ag_status check_output_strides(const struct moe_problem *p)
{
    AG_REQUIRE(ag_view_is_contiguous(&p->permuted_tokens_grad), INVALID,
               "permutedTokensGradOut: got a strided view, want a contiguous tensor");
    AG_REQUIRE(ag_view_is_contiguous(&p->probs_grad), INVALID,
               "probsGradOut: got a strided view, want a contiguous tensor");
    return AG_OK;
}

/* --- shapes ---------------------------------------------------------------------------------------------- */

static ag_status require_rank(const struct ag_view *view, const char *name, int rank)
{
    AG_REQUIRE(!view->present || view->rank == rank, TILING, "%s: rank %d, want %d", name, view->rank, rank);
    return AG_OK;
}

static ag_status check_ranks(const struct moe_problem *p)
{
    AG_TRY(require_rank(&p->unpermuted_tokens_grad, "unpermutedTokensGrad", 2));
    AG_TRY(require_rank(&p->sorted_indices, "sortedIndices", 1));
    AG_TRY(require_rank(&p->permuted_tokens, "permutedTokensOptional", 2));
    AG_TRY(require_rank(&p->probs, "probsOptional", 2));
    AG_TRY(require_rank(&p->permuted_tokens_grad, "permutedTokensGradOut", 2));
    return p->probs.present ? require_rank(&p->probs_grad, "probsGradOut", 2) : AG_OK;
}

/* T, H, N and K. With probs their second dim is K and topkNum is ignored. */
static ag_status check_sizes(struct moe_problem *p, int64_t topk_num)
{
    const int64_t most_topk = moe_limits_table[ag_config_get().limits].topk;
    p->tokens = p->unpermuted_tokens_grad.dims[0];
    p->hidden = p->unpermuted_tokens_grad.dims[1];
    p->slots = p->sorted_indices.dims[0];
    p->topk = p->probs.present ? p->probs.dims[1] : topk_num;
    AG_REQUIRE(p->tokens > 0, TILING, "unpermutedTokensGrad: got 0 tokens (dim 0), want at least 1");
    AG_REQUIRE(p->hidden > 0, TILING, "unpermutedTokensGrad: got hidden size 0 (dim 1), want at least 1");
    AG_REQUIRE(p->topk >= 1 && p->topk <= most_topk, TILING,
               "%s: got %" PRId64 ", want 1 to %" PRId64 " (ACLGRAD_LIMITS=extended lifts this)",
               p->probs.present ? "probsOptional: dim 1 (experts per token)" : "topkNum", p->topk, most_topk);
    AG_REQUIRE(p->slots > 0, TILING, "sortedIndices: got 0 entries, want tokens * topk = %" PRId64 " * %" PRId64,
               p->tokens, p->topk);
    AG_REQUIRE(p->slots <= INT32_MAX, TILING,
               "sortedIndices: got %" PRId64 " entries, want at most %d: positions are int32", p->slots, INT32_MAX);
    return AG_OK;
}

static ag_status check_shapes(const struct moe_problem *p)
{
    int64_t slots;
    const int64_t want[2] = {p->tokens, p->topk};
    if (p->probs.present) { /* before the slots, which are counted with its K */
        AG_TRY(ag_require_shape(AG_TILING, &p->probs, "probsOptional", 2, want));
    }
    AG_REQUIRE(ag_product(&slots, 2, (int64_t[]){p->tokens, p->topk}) && slots == p->slots, TILING,
               "sortedIndices: got %" PRId64 " entries, want tokens * topk = %" PRId64 " * %" PRId64, p->slots,
               p->tokens, p->topk);
    if (p->probs.present) {
        AG_TRY(ag_require_shape(AG_TILING, &p->probs_grad, "probsGradOut", 2, want));
    }
    AG_REQUIRE(!p->permuted_tokens.present || p->permuted_tokens.dims[1] == p->hidden, TILING,
               "permutedTokensOptional: got hidden size %" PRId64 " (dim 1), want %" PRId64
               " (that of unpermutedTokensGrad)",
               p->permuted_tokens.dims[1], p->hidden);
    AG_REQUIRE(p->permuted_tokens_grad.dims[1] == p->hidden, TILING,
               "permutedTokensGradOut: got hidden size %" PRId64 " (dim 1), want %" PRId64
               " (that of unpermutedTokensGrad)",
               p->permuted_tokens_grad.dims[1], p->hidden);
    return AG_OK;
}

/* --- the window ------------------------------------------------------------------------------------------ */

/* A negative position counts from the end; what lies outside [0, N] moves to its edge. */
static int64_t normalise_position(int64_t position, int64_t slots)
{
    position = position < 0 ? position + slots : position;
    return position < 0 ? 0 : position > slots ? slots : position;
}

/* No range: the whole order. (The device's generated wrapper makes an empty window of it, against its own document.) */
static ag_status check_range(const aclIntArray *range, struct moe_problem *p)
{
    const int64_t *values = NULL;
    int64_t count = 0;
    AG_TRY(ag_int_array_values(range, "rangeOptional", &values, &count));
    AG_REQUIRE(count == 0 || count == 2, TILING, "rangeOptional: got %" PRId64 " values, want 2 (start, end) or none",
               count);
    p->window_begin = count ? normalise_position(values[0], p->slots) : 0;
    p->window_end = count ? normalise_position(values[1], p->slots) : p->slots;
    AG_REQUIRE(p->window_begin <= p->window_end, TILING,
               "rangeOptional: got [%" PRId64 ", %" PRId64 "), which is [%" PRId64 ", %" PRId64 ") of %" PRId64
               " positions, want an end not before the start",
               values[0], values[1], p->window_begin, p->window_end, p->slots);
    return AG_OK;
}

/* Rows that the window needs: where permuted_tokens are given but fewer, the forward has dropped the rest. That no row
 * at all is given is refused unless no row is needed: it would silently drop every gradient. */
static ag_status check_rows(struct moe_problem *p)
{
    const int64_t window = p->window_end - p->window_begin;
    const int64_t given = p->permuted_tokens.present ? p->permuted_tokens.dims[0] : window;
    int64_t elems;
    AG_REQUIRE(given > 0 || window == 0, TILING,
               "permutedTokensOptional: got 0 rows, want at least 1, at most %" PRId64 " for the window [%" PRId64
               ", %" PRId64 ")",
               window, p->window_begin, p->window_end);
    p->local_rows = given < window ? given : window;
    p->out_rows = p->permuted_tokens_grad.dims[0];
    AG_REQUIRE(p->out_rows >= p->local_rows, TILING,
               "permutedTokensGradOut: got %" PRId64 " rows, want at least %" PRId64 " for the window [%" PRId64
               ", %" PRId64 ")",
               p->out_rows, p->local_rows, p->window_begin, p->window_end);
    AG_REQUIRE(ag_product(&elems, 3, (int64_t[]){p->out_rows, p->hidden, sizeof(float)}), TILING,
               "permutedTokensGradOut: got %" PRId64 " * %" PRId64 " elements, want a size that fits 64 bits",
               p->out_rows, p->hidden);
    return AG_OK;
}

/* --- overlap --------------------------------------------------------------------------------------------- */

static ag_status require_apart(const struct named_view *out, const struct named_view *other)
{
    AG_REQUIRE(!ag_views_overlap(out->view, other->view), INVALID,
               "%s: got memory that overlaps %s, want memory of its own", out->name, other->name);
    return AG_OK;
}

/* Inputs come first in the list, then the two outputs. Without probs the second is never written. */
ag_status moe_check_overlap(const struct moe_problem *problem)
{
    enum { FIRST_OUTPUT = 4 };
    struct named_view list[MOE_TENSORS];
    const int outputs_end = problem->probs.present ? MOE_TENSORS : MOE_TENSORS - 1;
    list_tensors(problem, list);
    for (int out = FIRST_OUTPUT; out < outputs_end; ++out) {
        for (int other = 0; other < out; ++other) {
            AG_TRY(require_apart(&list[out], &list[other]));
        }
    }
    return AG_OK;
}

/* --- all of it, in the order of the contract ------------------------------------------------------------- */

ag_status moe_check(const struct moe_args *args, struct moe_problem *problem)
{
    *problem = (struct moe_problem){.is_debug = ag_config_get().is_debug};
    AG_TRY(read_tensors(args, problem));
    AG_TRY(check_dtypes(problem));
    AG_TRY(check_formats(problem));
    AG_TRY(check_storage(problem));
    AG_REQUIRE(!problem->probs.present || problem->permuted_tokens.present, NULLPTR,
               "permutedTokensOptional: got %s, want one of [rows, hidden], hidden > 0: the gradient of "
               "probsOptional needs it",
               args->permuted_tokens ? "a tensor without elements, which counts as no tensor" : "no tensor");
    AG_REQUIRE(!args->padded_mode, INVALID, "paddedMode: got true, want false: padded mode is not supported");
    AG_TRY(check_output_strides(problem));
    if (ag_view_is_empty(&problem->permuted_tokens_grad) && ag_view_is_empty(&problem->probs_grad)) {
        problem->is_empty = true;
        return AG_OK;
    }
    AG_TRY(check_ranks(problem));
    AG_TRY(check_sizes(problem, args->topk_num));
    AG_TRY(check_shapes(problem));
    AG_TRY(check_range(args->range, problem));
    AG_TRY(check_rows(problem));
    return moe_check_overlap(problem);
}
