#include "judgement.h"

#include <stdio.h>

#include "call_attention.h"
#include "cli.h"

/* Within the bounds of the device's rounded values: rounding explains what the definition's bounds do not. */
static bool is_device_rounding(const struct comparison_sides *sides, const struct answers *a,
                               const struct standard *standard)
{
    struct comparison_sides rounded = *sides;
    struct comparison c;
    rounded.want = tensor_set_find(&a->device, sides->got->name);
    return compare_tensors(&rounded, standard, 1, &c) && c.is_passed;
}

static bool judge_output(struct call *call, const struct tensor *output, const struct answers *a,
                         struct verdict *verdict)
{
    struct standard standard;
    struct comparison c;
    struct comparison_sides sides = {.got = output,
                                     .want = tensor_set_find(&a->values, output->name),
                                     .bound = tensor_set_find(&a->bounds, output->name)};
    if (!sides.want) {
        verdict_missing(verdict, output->name, "the call does not write it");
        return true;
    }
    const struct axes axes = call_axes(call, output);
    char why[2 * AG_SHAPE_TEXT + 32];
    if (!standard_parse("bound", &standard)) {
        return false;
    }
    if (!sides_match(&sides, &standard, why, sizeof why)) {
        return verdict_compare(verdict, &sides, &standard, &axes);
    }
    if (!compare_tensors(&sides, &standard, 1, &c)) {
        return false;
    }
    if (!c.is_passed && is_device_rounding(&sides, a, &standard)) {
        verdict_note(verdict, output->name, "device-rounding",
                     "beyond the definition's bounds, within them of the device's rounding: no defect");
        sides.want = tensor_set_find(&a->device, output->name);
    }
    return verdict_compare(verdict, &sides, &standard, &axes);
}

/* --- hypotheses ------------------------------------------------------------------------------------------ */

/* All recorded outputs are within the bounds of these values. */
static bool explains(const struct call *call, const struct tensor_set *values, const struct tensor_set *bounds)
{
    struct standard standard;
    bool is_good = standard_parse("bound", &standard);
    for (int i = 0; is_good && i < call->recorded.count; ++i) {
        const struct tensor *got = &call->recorded.items[i], *want = tensor_set_find(values, got->name);
        struct comparison c;
        const struct comparison_sides sides = {.got = got, .want = want, .bound = tensor_set_find(bounds, got->name)};
        char why[2 * AG_SHAPE_TEXT + 32];
        is_good = want && sides_match(&sides, &standard, why, sizeof why) &&
                  compare_tensors(&sides, &standard, 1, &c) && c.is_passed;
    }
    cli_forgive();
    return is_good && call->recorded.count > 0;
}

/* Wrong attention outputs: were the statistics read in another order? */
static void try_orders(const struct call *call, struct verdict *verdict)
{
    static const enum ag_softmax_layout orders[] = {AG_SOFTMAX_CANN, AG_SOFTMAX_TND, AG_SOFTMAX_NTD};
    for (int i = 0; i < 3; ++i) {
        struct tensor_set values = {0}, bounds = {0};
        const bool is_it = define_attention_in(call, orders[i], &values, &bounds) && explains(call, &values, &bounds);
        cli_forgive();
        if (is_it) {
            char text[160];
            snprintf(text, sizeof text,
                     "the recorded outputs are right if softmaxMax and softmaxSum are read in the order %s",
                     attention_layout_name(orders[i]));
            verdict_note(verdict, NULL, "statistics-order", text);
        }
        tensor_set_destroy(&values);
        tensor_set_destroy(&bounds);
    }
}

/* Wrong statistics of the forward: were they written in the other order? */
static void try_other_order(struct call *call, struct verdict *verdict)
{
    const bool is_tnd = problem_is(&call->problem, "order", "tnd");
    struct tensor_set values = {0}, bounds = {0};
    const bool is_it = problem_set(&call->problem, "order", is_tnd ? "cann" : "tnd") &&
                       operation_of(call)->define(call, &values, &bounds) && explains(call, &values, &bounds);
    problem_set(&call->problem, "order", is_tnd ? "tnd" : "cann");
    cli_forgive();
    if (is_it) {
        char text[160];
        snprintf(text, sizeof text,
                 "softmaxMax and softmaxSum are right in the order %s, which softmaxOutLayout \"%s\" asks for",
                 attention_layout_name(is_tnd ? AG_SOFTMAX_CANN : AG_SOFTMAX_TND), is_tnd ? "" : "same_as_input");
        verdict_note(verdict, NULL, "statistics-order", text);
    }
    tensor_set_destroy(&values);
    tensor_set_destroy(&bounds);
}

static bool has_rows_shifted_by_start(struct call *call, const struct answers *a)
{
    int64_t count;
    const int64_t *range = problem_list(&call->problem, "range", &count);
    const struct tensor *got = tensor_set_find(&call->recorded, "permutedTokensGrad");
    const struct tensor *want = tensor_set_find(&a->values, "permutedTokensGrad");
    if (count != 2 || range[0] <= 0 || !got || !want || got->rank != 2) {
        return false;
    }
    const int64_t hidden = got->dims[1], rows = got->dims[0] - range[0];
    int64_t equal = 0;
    for (int64_t at = 0; rows > 0 && at < rows * hidden; ++at) {
        equal += tensor_get(got, at + range[0] * hidden) == tensor_get(want, at);
    }
    return rows > 0 && equal * 10 >= rows * hidden * 9;
}

/* Outputs of a call that reads permuted rows: are they those of rows read at their sorted position? Either as if the window
 * began at 0, or with the window's own slots. */
static bool are_rows_read_from_start(struct call *call, int64_t begin, int64_t end, bool has_own_slots)
{
    struct tensor *map = tensor_set_find(&call->inputs, "sortedIndices"), moved;
    struct tensor_set values = {0}, bounds = {0};
    if (!map || !tensor_create(&moved, map->name, map->dtype, map->rank, map->dims)) {
        return false;
    }
    for (int64_t at = 0; at < map->elems; ++at) {
        const double position = tensor_get(map, at);
        tensor_set(&moved, at,
                   has_own_slots && (position < (double)begin || position >= (double)end) ? -1 : position);
    }
    const struct tensor given = *map;
    *map = moved;
    const bool is_it = problem_set_list(&call->problem, "range", (int64_t[]){0, end - begin}, 2) &&
                       operation_of(call)->define(call, &values, &bounds) && explains(call, &values, &bounds);
    *map = given;
    problem_set_list(&call->problem, "range", (int64_t[]){begin, end}, 2);
    cli_forgive();
    tensor_destroy(&moved);
    tensor_set_destroy(&values);
    tensor_set_destroy(&bounds);
    return is_it;
}

static void try_window_start(struct call *call, struct verdict *verdict)
{
    int64_t count;
    const int64_t *range = problem_list(&call->problem, "range", &count);
    const int64_t begin = count == 2 ? range[0] : 0, end = count == 2 ? range[1] : 0;
    if (begin > 0 && end > begin &&
        (are_rows_read_from_start(call, begin, end, false) || are_rows_read_from_start(call, begin, end, true))) {
        verdict_note(verdict, operation_of(call)->outputs[0], "window-start",
                     "rows were read at their sorted position: the window's start was not subtracted");
    }
}

static void try_hypotheses(struct call *call, const struct answers *a, struct verdict *verdict)
{
    if (call->problem.op == PROBLEM_ATTENTION) {
        try_orders(call, verdict);
    } else if (call->problem.op == PROBLEM_ATTENTION_FORWARD) {
        try_other_order(call, verdict);
    } else if (call->problem.op == PROBLEM_MOE_PERMUTE_GRAD || call->problem.op == PROBLEM_MOE_UNPERMUTE) {
        try_window_start(call, verdict);
    } else if (call->problem.op == PROBLEM_MOE && has_rows_shifted_by_start(call, a)) {
        verdict_note(verdict, "permutedTokensGrad", "window-start",
                     "rows lie at their sorted position: the window's start was not subtracted");
    }
}

bool judge_recorded(struct call *call, const struct answers *a, struct verdict *verdict)
{
    bool is_good = true;
    for (int i = 0; is_good && i < call->recorded.count; ++i) {
        is_good = judge_output(call, &call->recorded.items[i], a, verdict);
    }
    if (is_good && verdict->failed > 0) {
        try_hypotheses(call, a, verdict);
    }
    return is_good;
}
