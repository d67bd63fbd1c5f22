/* Self-checks of the inputs of permute, its gradient and unpermute. */
#include <stdlib.h>

#include "call_moe_companions.h"
#include "cli.h"
#include "facts.h"
#include "inspect.h"

/* The rows of the sorted order that a slot reads: others may hold anything. */
static char *find_live_rows(const struct moe_unpermute_problem *p, int64_t rows)
{
    const int32_t *indices = ag_view_origin(&p->sorted_indices);
    char *is_live = calloc((size_t)rows + 1, 1);
    for (int64_t i = 0; is_live && i < p->slots; ++i) {
        const int64_t row = indices[i * p->sorted_indices.strides[0]] - p->window.begin;
        if (row >= 0 && row < p->local_rows) {
            is_live[row] = 1;
        }
    }
    return is_live;
}

static bool inspect_values(struct call *call, const struct checked_companion *checked,
                           const struct findings *findings)
{
    const char *const *inputs = operation_of(call)->inputs;
    const struct tensor *rows = tensor_set_find(&call->inputs, inputs[0]);
    const bool is_permute = call->problem.op == PROBLEM_MOE_PERMUTE;
    char *is_live = is_permute ? NULL : find_live_rows(&checked->unpermute, rows->dims[0]);
    if (!is_permute && !is_live) {
        return cli_fail(CLI_USAGE, "out of memory");
    }
    const struct axes axes = axes_of_tensor(rows);
    if (rows->elems > 0) {
        inspect_numbers(rows, &axes, is_live, rows->dims[1], findings);
    }
    free(is_live);
    return true;
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
    } else if (is_good && !(op == PROBLEM_MOE_PERMUTE ? checked.permute.is_empty : checked.unpermute.is_empty)) {
        is_good = inspect_values(call, &checked, findings);
    }
    release_companion(&checked);
    tensor_set_destroy(&outputs);
    return is_good;
}
