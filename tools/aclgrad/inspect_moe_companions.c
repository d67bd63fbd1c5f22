/* Self-checks of the inputs of permute, its gradient and unpermute. */
#include <inttypes.h>
#include <stdlib.h>

#include "call_moe.h"
#include "call_moe_companions.h"
#include "cli.h"
#include "facts.h"
#include "inspect.h"

static int64_t row_of(const struct moe_unpermute_problem *p, const int32_t *indices, int64_t slot)
{
    const int64_t row = indices[slot] - p->window.begin;
    return row >= 0 && row < p->local_rows ? row : -1;
}

static void inspect_one(struct call *call, const char *name, const char *is_live, int64_t parts,
                        const struct findings *findings)
{
    const struct tensor *t = tensor_set_find(&call->inputs, name);
    if (t && t->elems > 0 && parts > 0) {
        const struct axes axes = call_axes(call, t);
        inspect_numbers(t, &axes, is_live, t->elems / parts, findings);
    }
}

/* Rows of the sorted order that no slot reads, and probs of slots that are not here, may hold anything. */
static bool inspect_unpermute(struct call *call, const struct moe_unpermute_problem *p,
                              const struct findings *findings)
{
    const char *const *inputs = operation_of(call)->inputs;
    const bool is_grad = call->problem.op == PROBLEM_MOE_PERMUTE_GRAD;
    const int64_t rows = p->permuted_tokens.dims[0];
    const struct sorted_map map = {.indices = tensor_set_find(&call->inputs, "sortedIndices")->data,
                                   .slots = p->slots,
                                   .topk = p->topk,
                                   .begin = p->window.begin,
                                   .end = p->window.end,
                                   .local_rows = p->local_rows,
                                   .rows = inputs[0],
                                   .of_duplicates = "both read the row"};
    char *rows_read = calloc((size_t)rows + 1, 1), *slots_read = calloc((size_t)p->slots + 1, 1);
    bool is_good = rows_read && slots_read && inspect_map(&map, findings);
    for (int64_t i = 0; is_good && i < p->slots; ++i) {
        const int64_t row = row_of(p, map.indices, i);
        if (row >= 0) {
            rows_read[row] = slots_read[i] = 1;
        }
    }
    if (is_good) {
        inspect_one(call, inputs[0], rows_read, rows, findings);
        inspect_one(call, inputs[2], is_grad ? rows_read : slots_read, is_grad ? rows : p->slots, findings);
    }
    free(rows_read);
    free(slots_read);
    return is_good || cli_fail(CLI_USAGE, "out of memory");
}

/* Any number orders slots, but experts are counted from 0: what is below is a mark of something. */
static void inspect_experts(const struct call *call, const struct findings *findings)
{
    const struct tensor *experts = tensor_set_find(&call->inputs, "indices");
    int64_t negative = 0, first = 0;
    char place[PLACE_TEXT];
    for (int64_t at = 0; at < experts->elems; ++at) {
        if (tensor_get(experts, at) < 0) {
            first = negative++ ? first : at;
        }
    }
    if (negative > 0) {
        const struct axes axes = axes_of_tensor(experts);
        add_finding(findings, SEVERITY_WARNING, "indices", "expert-range",
                    "%" PRId64
                    " %s negative, the first %.0f at %s: such slots are sorted before expert 0, not dropped",
                    negative, word_for(negative, "expert number is", "expert numbers are"),
                    tensor_get(experts, first), axes_place(&axes, experts, first, place));
    }
}

static void inspect_permute(struct call *call, const struct findings *findings)
{
    inspect_experts(call, findings);
    inspect_one(call, "tokens", NULL, 1, findings);
    inspect_one(call, "probs", NULL, 1, findings);
}

bool inspect_moe_companion(struct call *call, const struct findings *findings)
{
    const enum problem_operator op = call->problem.op;
    struct tensor_set outputs = {0};
    struct checked_companion checked = {0};
    bool is_good = operation_of(call)->make_outputs(call, &outputs);
    if (is_good && !check_companion(call, &outputs, &checked)) {
        add_finding(findings, SEVERITY_ERROR, "", "rejected", "%s", cli_failure());
        cli_forgive();
    } else if (is_good && op == PROBLEM_MOE_PERMUTE) {
        inspect_permute(call, findings);
        inspect_probs(call, findings);
    } else if (is_good && !checked.unpermute.is_empty) {
        is_good = inspect_unpermute(call, &checked.unpermute, findings);
        inspect_probs(call, findings);
    }
    release_companion(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}
