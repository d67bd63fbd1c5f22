/* Bytes -> a call of permute, its gradient or unpermute: refused with a message, or as the definition says. */
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_moe_token_permute_with_ep.h"
#include "aclnnop/aclnn_moe_token_permute_with_ep_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep.h"
#include "fuzz_operand.h"
#include "op/moe/moe_permute.h"
#include "op/moe/moe_unpermute.h"

enum companion { PERMUTE, PERMUTE_GRAD, UNPERMUTE };

struct companion_case {
    struct fuzz_call call;
    enum companion op;
    struct fuzz_operand *in[3], *out[3]; /* in the order of the API */
    aclIntArray *range;
    int64_t number; /* numOutTokens, numTopk */
    bool padded_mode;
    uint64_t *workspace_size;
    aclOpExecutor **executor;
};

struct sizes {
    int token_type, probs_type;
    int64_t tokens, topk, hidden, slots, rows;
    bool has_probs;
};

static struct sizes take_sizes(struct companion_case *c)
{
    struct fuzz_input *input = c->call.input;
    struct sizes s = {.token_type = fuzz_take_float_type(input), .probs_type = fuzz_take_float_type(input)};
    s.tokens = fuzz_take(input, 0, 6);
    s.topk = fuzz_take(input, 0, 5);
    s.hidden = fuzz_take(input, 0, 80);
    s.has_probs = fuzz_take_bool(input);
    s.slots = s.tokens * s.topk;
    const int64_t window = fuzz_call_take_window(&c->call, s.slots, &c->range);
    s.rows = fuzz_take_once_in(input, 4) ? fuzz_take(input, 0, window) : window + fuzz_take(input, 0, 3);
    return s;
}

/* --- operands -------------------------------------------------------------------------------------------- */

static void add_permute(struct companion_case *c, const struct sizes *s)
{
    struct fuzz_call *call = &c->call;
    const int64_t by_token[2] = {s->tokens, s->hidden}, by_expert[2] = {s->tokens, s->topk};
    const int64_t by_row[2] = {s->rows, s->hidden};
    const int rank = s->topk == 1 && fuzz_take_bool(call->input) ? 1 : 2;
    c->in[0] = fuzz_call_add(call, false, false, s->token_type, 2, by_token);
    c->in[1] = fuzz_call_add(call, false, false, AG_INT32, rank, by_expert);
    fuzz_fill_indices(call, c->in[1], -1, 3, fuzz_take_once_in(call->input, 4));
    if (s->has_probs) {
        c->in[2] = fuzz_call_add(call, false, false, s->probs_type, 2, by_expert);
    }
    c->out[0] = fuzz_call_add(call, true, true, s->token_type, 2, by_row);
    c->out[1] = fuzz_call_add(call, true, true, AG_INT32, 1, &s->slots);
    c->out[2] = fuzz_call_add(call, true, true, s->probs_type, 1, by_row);
    c->number = fuzz_call_number(call, fuzz_take_bool(call->input) ? 0 : fuzz_take(call->input, 0, 40) - 20);
}

static void add_sum(struct companion_case *c, const struct sizes *s)
{
    struct fuzz_call *call = &c->call;
    const bool is_grad = c->op == PERMUTE_GRAD;
    const int64_t by_token[2] = {s->tokens, s->hidden}, by_expert[2] = {s->tokens, s->topk};
    const int64_t by_row[2] = {s->rows, s->hidden};
    c->in[0] = fuzz_call_add(call, false, false, s->token_type, 2, by_row);
    c->in[1] = fuzz_call_add(call, false, false, AG_INT32, 1, &s->slots);
    fuzz_fill_indices(call, c->in[1], 0, s->slots - 1, fuzz_take_once_in(call->input, 4));
    if (s->has_probs) {
        c->in[2] = fuzz_call_add(call, false, false, s->probs_type, is_grad ? 1 : 2, is_grad ? by_row : by_expert);
    }
    c->out[0] = fuzz_call_add(call, true, true, s->token_type, 2, by_token);
    if (is_grad) {
        c->out[1] = fuzz_call_add(call, true, true, s->probs_type, 2, by_expert);
    }
    c->number = fuzz_call_number(call, s->topk);
}

static void make_case(struct companion_case *c, struct fuzz_input *input)
{
    struct fuzz_call *call = &c->call;
    fuzz_call_begin(call, input);
    c->op = (enum companion)fuzz_take(input, 0, 2);
    const struct sizes sizes = take_sizes(c);
    (c->op == PERMUTE ? add_permute : add_sum)(c, &sizes);
    c->padded_mode = fuzz_call_spoils(call);
    c->workspace_size = fuzz_call_spoils(call) ? NULL : &call->workspace_bytes;
    c->executor = fuzz_call_spoils(call) ? NULL : &call->executor;
}

/* --- the call -------------------------------------------------------------------------------------------- */

static const aclTensor *handle(const struct fuzz_operand *operand)
{
    return operand ? operand->handle : NULL;
}

static aclnnStatus phase1(const struct companion_case *c)
{
    const aclTensor *const a = handle(c->in[0]), *const b = handle(c->in[1]), *const p = handle(c->in[2]);
    const aclTensor *const x = handle(c->out[0]), *const y = handle(c->out[1]), *const z = handle(c->out[2]);
    switch (c->op) {
    case PERMUTE:
        return aclnnMoeTokenPermuteWithEpGetWorkspaceSize(a, b, p, c->range, c->number, c->padded_mode, x, y, z,
                                                          c->workspace_size, c->executor);
    case PERMUTE_GRAD:
        return aclnnMoeTokenPermuteWithEpGradGetWorkspaceSize(a, b, p, c->number, c->range, c->padded_mode, x, y,
                                                              c->workspace_size, c->executor);
    default:
        return aclnnMoeTokenUnpermuteWithEpGetWorkspaceSize(a, b, p, c->number, c->range, c->padded_mode, c->range, x,
                                                            c->workspace_size, c->executor);
    }
}

static bool has_memory(const struct ag_view *view)
{
    return !view->present || view->data || ag_view_is_empty(view);
}

/* The definition is asked first: phase 2 may write on what was shared. */
static void run_permute(struct companion_case *c)
{
    struct fuzz_call *call = &c->call;
    struct moe_permute_problem p;
    const struct moe_permute_args args = {handle(c->in[0]),  handle(c->in[1]),  handle(c->in[2]),  c->range,
                                          c->number,         c->padded_mode,    handle(c->out[0]), handle(c->out[1]),
                                          handle(c->out[2]), c->workspace_size, c->executor};
    FUZZ_REQUIRE(moe_permute_check(&args, &p) == AG_OK, "the check refuses what phase 1 took: %s", ag_error_peek());
    const bool is_defined = !p.is_empty && fuzz_call_is_small(call) && has_memory(&p.tokens) &&
                            has_memory(&p.indices) && has_memory(&p.probs);
    const int64_t rows = is_defined ? p.permuted_tokens.dims[0] : 0, slots = is_defined ? p.slots : 0;
    const int64_t elems = is_defined ? rows * p.hidden : 0;
    const int64_t probs = is_defined && p.probs.present ? p.permuted_probs.dims[0] : 0;
    double *none = fuzz_doubles(elems + slots + probs);
    const struct moe_permute_reference want = {fuzz_doubles(elems), fuzz_doubles(slots), fuzz_doubles(probs)};
    if (is_defined) {
        moe_permute_ref(&p, &want);
    }
    if (fuzz_phase2_run(call, aclnnMoeTokenPermuteWithEp) && is_defined) {
        fuzz_compare(call, "permuteTokensOut", c->out[0], want.permuted_tokens, none);
        fuzz_compare(call, "sortedIndicesOut", c->out[1], want.sorted_indices, none);
        if (p.probs.present) {
            fuzz_compare(call, "permuteProbsOut", c->out[2], want.permuted_probs, none);
        }
    }
    free(want.permuted_tokens);
    free(want.sorted_indices);
    free(want.permuted_probs);
    free(none);
}

static ag_status check_sum(const struct companion_case *c, struct moe_unpermute_problem *p)
{
    const struct moe_permute_grad_args grad = {
        handle(c->in[0]), handle(c->in[1]),  handle(c->in[2]),  c->number,         c->range,
        c->padded_mode,   handle(c->out[0]), handle(c->out[1]), c->workspace_size, c->executor};
    const struct moe_unpermute_args args = {handle(c->in[0]),  handle(c->in[1]), handle(c->in[2]), c->number,
                                            c->range,          c->padded_mode,   c->range,         handle(c->out[0]),
                                            c->workspace_size, c->executor};
    return c->op == PERMUTE_GRAD ? moe_permute_grad_check(&grad, p) : moe_unpermute_check(&args, p);
}

static void run_sum(struct companion_case *c)
{
    struct fuzz_call *call = &c->call;
    struct moe_unpermute_problem p;
    FUZZ_REQUIRE(check_sum(c, &p) == AG_OK, "the check refuses what phase 1 took: %s", ag_error_peek());
    const bool is_defined = !p.is_empty && fuzz_call_is_small(call) && has_memory(&p.permuted_tokens) &&
                            has_memory(&p.sorted_indices) && has_memory(&p.probs) && has_memory(&p.permuted_probs);
    const int64_t elems = is_defined ? p.tokens_count * p.hidden : 0, slots = is_defined ? p.slots : 0;
    double *none = fuzz_doubles(slots);
    const struct moe_unpermute_reference want = {fuzz_doubles(elems), fuzz_doubles(elems), fuzz_doubles(slots)};
    if (is_defined) {
        moe_unpermute_ref(&p, &want);
    }
    if (fuzz_phase2_run(call,
                        c->op == PERMUTE_GRAD ? aclnnMoeTokenPermuteWithEpGrad : aclnnMoeTokenUnpermuteWithEp) &&
        is_defined) {
        fuzz_compare(call, "the sums of tokens", c->out[0], want.tokens, want.tokens_bound);
        if (p.permuted_probs.present) {
            fuzz_compare(call, "probsGradOut", c->out[1], want.probs_out, none);
        }
    }
    free(want.tokens);
    free(want.tokens_bound);
    free(want.probs_out);
    free(none);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, data + bytes};
    struct companion_case c = {.range = NULL};
    make_case(&c, &input);
    fuzz_before_phase1(&c.call);
    if (fuzz_after_phase1(&c.call, phase1(&c))) {
        (c.op == PERMUTE ? run_permute : run_sum)(&c);
    }
    aclDestroyIntArray(c.range);
    fuzz_call_end(&c.call);
    return 0;
}
