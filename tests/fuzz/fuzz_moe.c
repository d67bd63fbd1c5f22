/* Bytes -> a call of aclnnMoeTokenUnpermuteWithEpGrad: refused with a message, or as the definition says. */
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "fuzz_operand.h"
#include "op/moe/moe.h"

struct moe_case {
    struct fuzz_call call;
    struct fuzz_operand *grad, *indices, *permuted, *probs, *permuted_grad, *probs_grad;
    aclIntArray *range;
    struct moe_args args;
};

static void fill_sorted_indices(struct moe_case *c, int64_t slots)
{
    struct fuzz_call *call = &c->call;
    const int64_t kind = fuzz_take(call->input, 0, 2);
    fuzz_fill_indices(call, c->indices, 0, slots - 1, kind == 2);
    if (kind == 0 && slots > 0) {
        int32_t *order = malloc((size_t)slots * sizeof *order);
        FUZZ_REQUIRE(order, "out of memory");
        test_random_permutation(&call->random, slots, order);
        for (int64_t i = 0; i < slots; ++i) {
            fuzz_set_index(c->indices, i, order[i]);
        }
        free(order);
    }
}

static void make_case(struct moe_case *c, struct fuzz_input *input)
{
    struct fuzz_call *call = &c->call;
    fuzz_call_begin(call, input);
    const int token_type = fuzz_take_float_type(input), probs_type = fuzz_take_float_type(input);
    const int64_t tokens = fuzz_take(input, 0, 6), topk = fuzz_take(input, 0, 5), hidden = fuzz_take(input, 0, 80);
    const bool has_probs = fuzz_take_bool(input), has_permuted = has_probs || fuzz_take_bool(input);
    const int64_t slots = tokens * topk, window = fuzz_call_take_window(call, slots, &c->range);
    const int64_t rows = fuzz_take_once_in(input, 4) ? fuzz_take(input, 0, window) : window + fuzz_take(input, 0, 3);
    const int64_t out_rows = (has_permuted && rows < window ? rows : window) + fuzz_take(input, 0, 3);
    c->grad = fuzz_call_add(call, false, false, token_type, 2, (int64_t[]){tokens, hidden});
    c->indices = fuzz_call_add(call, false, false, AG_INT32, 1, &slots);
    fill_sorted_indices(c, slots);
    if (has_permuted) {
        c->permuted = fuzz_call_add(call, false, false, token_type, 2, (int64_t[]){rows, hidden});
    }
    if (has_probs) {
        c->probs = fuzz_call_add(call, false, false, probs_type, 2, (int64_t[]){tokens, topk});
    }
    c->permuted_grad = fuzz_call_add(call, true, true, token_type, 2, (int64_t[]){out_rows, hidden});
    c->probs_grad = fuzz_call_add(call, true, true, probs_type, 2, (int64_t[]){tokens, topk});
    c->args = (struct moe_args){.unpermuted_tokens_grad = c->grad->handle,
                                .sorted_indices = c->indices->handle,
                                .permuted_tokens = c->permuted ? c->permuted->handle : NULL,
                                .probs = c->probs ? c->probs->handle : NULL,
                                .padded_mode = fuzz_call_spoils(call),
                                .restore_shape = fuzz_call_spoils(call) ? c->range : NULL,
                                .range = c->range,
                                .topk_num = fuzz_call_number(call, topk),
                                .permuted_tokens_grad = c->permuted_grad->handle,
                                .probs_grad = c->probs_grad->handle,
                                .workspace_size = fuzz_call_spoils(call) ? NULL : &call->workspace_bytes,
                                .executor = fuzz_call_spoils(call) ? NULL : &call->executor};
}

static aclnnStatus phase1(const struct moe_args *a)
{
    return aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
        a->unpermuted_tokens_grad, a->sorted_indices, a->permuted_tokens, a->probs, a->padded_mode, a->restore_shape,
        a->range, a->topk_num, a->permuted_tokens_grad, a->probs_grad, (uint64_t *)(uintptr_t)a->workspace_size,
        (aclOpExecutor **)(uintptr_t)a->executor);
}

/* The definition is asked first: phase 2 may write on what was shared. */
static void run_and_compare(struct moe_case *c)
{
    struct fuzz_call *call = &c->call;
    struct moe_problem problem;
    FUZZ_REQUIRE(moe_check(&c->args, &problem) == AG_OK, "the check refuses what phase 1 took: %s", ag_error_peek());
    const bool is_defined = !problem.is_empty && fuzz_call_is_small(call) && problem.unpermuted_tokens_grad.data &&
                            problem.sorted_indices.data &&
                            (problem.permuted_tokens.data || ag_view_is_empty(&problem.permuted_tokens)) &&
                            (problem.probs.data || !problem.probs.present);
    const int64_t elems = is_defined ? problem.out_rows * problem.hidden : 0;
    const int64_t slots = is_defined ? problem.slots : 0;
    double *none = fuzz_doubles(elems);
    const struct moe_reference reference = {fuzz_doubles(elems), fuzz_doubles(slots), fuzz_doubles(slots)};
    if (is_defined) {
        moe_ref(&problem, &reference);
    }
    if (fuzz_phase2_run(call, aclnnMoeTokenUnpermuteWithEpGrad) && is_defined) {
        fuzz_compare(call, "permutedTokensGradOut", c->permuted_grad, reference.permuted_tokens_grad, none);
        if (problem.probs.present) {
            fuzz_compare(call, "probsGradOut", c->probs_grad, reference.probs_grad, reference.probs_grad_bound);
        }
    }
    free(reference.permuted_tokens_grad);
    free(reference.probs_grad);
    free(reference.probs_grad_bound);
    free(none);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, data + bytes};
    struct moe_case c = {.range = NULL};
    make_case(&c, &input);
    fuzz_before_phase1(&c.call);
    if (fuzz_after_phase1(&c.call, phase1(&c.args))) {
        run_and_compare(&c);
    }
    aclDestroyIntArray(c.range);
    fuzz_call_end(&c.call);
    return 0;
}
