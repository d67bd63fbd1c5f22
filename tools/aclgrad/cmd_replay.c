/* aclgrad replay: a recorded call run again, and its recorded outputs judged: within the bounds of the definition, or
 * explained by the device's rounding, or wrong, and then where and how. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "call_attention.h"
#include "cli.h"
#include "doctor.h"
#include "options.h"
#include "recorded.h"
#include "rounding.h"
#include "table.h"
#include "verdict.h"

enum { KEY_CALL = 1000, KEY_INSPECT, KEY_ROUNDING, KEY_WORST, KEY_SVG };

static struct {
    const char *which, *rounding;
    bool is_inspection;
    struct verdict_options verdict;
} given = {.verdict = {.worst = 5}};

static const struct argp_option options[] = {
    {"call", KEY_CALL, "TEXT", 0, "Of several calls in a dump, the one whose name holds TEXT", 1},
    {"inspect", KEY_INSPECT, 0, 0, "Only look at the inputs, as `aclgrad doctor` does", 1},
    {"rounding", KEY_ROUNDING, "device", 0, "Also say how each output compares with one rounded as on the device", 1},
    {"worst", KEY_WORST, "N", 0, "Worst elements to list of a tensor that fails (default 5, at most 100)", 1},
    {"svg", KEY_SVG, "FILE", 0, "Write the map of errors as a picture", 1},
    {0}};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    int64_t number;
    (void)state;
    switch (key) {
    case KEY_CALL:
        given.which = text;
        return 0;
    case KEY_INSPECT:
        given.is_inspection = true;
        return 0;
    case KEY_ROUNDING:
        given.rounding = text;
        return 0;
    case KEY_SVG:
        given.verdict.svg = text;
        return 0;
    case KEY_WORST:
        if (!parse_count("--worst", text, 0, MOST_WORST, &number)) {
            exit(cli_report());
        }
        given.verdict.worst = (int)number;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp replay_argp = {options,
                                        parse_option,
                                        "CALL",
                                        "Runs a recorded call again (a directory, .npz or .safetensors with the "
                                        "inputs, the outputs and a JSON of the scalar "
                                        "arguments, or an msprobe dump): with the fast kernels, by the definition, "
                                        "and rounded as on the device. Each recorded "
                                        "output must lie within the definition's bounds, or within them of the "
                                        "device's rounding. Exit code 1 when one does "
                                        "not, or when no output was recorded.",
                                        NULL,
                                        NULL,
                                        NULL};

/* --- judging --------------------------------------------------------------------------------------------- */

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
    if (!standard_parse("bound", &standard) || !compare_tensors(&sides, &standard, 1, &c)) {
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
        is_good = want && compare_tensors(&sides, &standard, 1, &c) && c.is_passed;
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

static void try_hypotheses(struct call *call, const struct answers *a, struct verdict *verdict)
{
    if (call->problem.op == PROBLEM_ATTENTION) {
        try_orders(call, verdict);
    } else if (call->problem.op == PROBLEM_MOE && has_rows_shifted_by_start(call, a)) {
        verdict_note(verdict, "permutedTokensGrad", "window-start",
                     "rows lie at their sorted position: the window's start was not subtracted");
    }
}

/* --- the whole ------------------------------------------------------------------------------------------- */

static bool judge_all(struct call *call, const struct answers *a, struct verdict *verdict,
                      struct rounding_report *rounding)
{
    bool is_good = true;
    for (int i = 0; is_good && i < call->recorded.count; ++i) {
        is_good = judge_output(call, &call->recorded.items[i], a, verdict);
    }
    if (is_good && verdict->failed > 0) {
        try_hypotheses(call, a, verdict);
    }
    if (is_good && given.rounding) {
        rounding_compare(rounding, &call->recorded, &a->device, &a->values, &a->bounds, "recorded");
        rounding_compare(rounding, &a->fast, &a->device, &a->values, &a->bounds, "fast");
        verdict->extra = &rounding->table;
    }
    return is_good;
}

static int inspect(struct call *call)
{
    bool has_errors = false;
    if (doctor_print(call, &has_errors)) {
        table_finish("replay");
    }
    const int code = cli_report();
    return code == CLI_OK && has_errors ? CLI_CHECK_FAILED : code;
}

static int replay(struct call *call)
{
    struct answers answers = {0};
    struct verdict verdict;
    struct rounding_report rounding;
    verdict_begin(&verdict, &given.verdict);
    rounding_begin(&rounding);
    const bool is_good =
        answers_compute(&answers, call, "replay", true) && judge_all(call, &answers, &verdict, &rounding);
    char *text = problem_print(&call->problem);
    table_line("%s\n", text ? text : "");
    free(text);
    const int code = is_good ? verdict_end(&verdict, "replay") : cli_report();
    if (!is_good) {
        verdict_discard(&verdict);
    }
    table_discard(&rounding.table);
    answers_destroy(&answers);
    return code;
}

int command_replay(int argc, char **argv)
{
    char **operands;
    struct call call = {0};
    options_parse(&replay_argp, argc, argv, 1, 1, &operands);
    bool is_good = !given.rounding || strcmp(given.rounding, "device") == 0 ||
                   cli_fail(CLI_USAGE, "--rounding: got '%s', want device", given.rounding);
    is_good = is_good && (given.is_inspection ? recorded_read(operands[0], given.which, &call)
                                              : recorded_read_whole(operands[0], given.which, &call));
    const int code = !is_good ? cli_report() : given.is_inspection ? inspect(&call) : replay(&call);
    call_destroy(&call);
    free(operands);
    return code;
}
