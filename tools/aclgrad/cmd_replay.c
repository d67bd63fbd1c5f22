/* aclgrad replay: a recorded call run again, and its recorded outputs judged: within the bounds of the definition, or
 * explained by the device's rounding, or wrong, and then where and how. */
#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "cli.h"
#include "doctor.h"
#include "judgement.h"
#include "options.h"
#include "recorded.h"
#include "rounding.h"

enum { KEY_INSPECT = 1000, KEY_ROUNDING };

static struct {
    const char *rounding;
    bool is_inspection;
    struct verdict_options verdict;
} given = {.verdict = {.worst = 5}};

static const struct argp_option options[] = {
    OPTION_CALL,
    {"inspect", KEY_INSPECT, 0, 0, "Only look at the inputs, as `aclgrad doctor` does", 1},
    {"rounding", KEY_ROUNDING, "device", 0, "Also say how each output compares with one rounded as on the device", 1},
    OPTIONS_OF_VERDICT,
    {0}};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    switch (key) {
    case KEY_INSPECT:
        given.is_inspection = true;
        return 0;
    case KEY_ROUNDING:
        given.rounding = text;
        return 0;
    default:
        return parse_call_option(key, text, state) == 0 ? 0 : parse_verdict_option(key, text, &given.verdict);
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

/* --- the whole ------------------------------------------------------------------------------------------- */

static bool judge_all(struct call *call, const struct answers *a, struct verdict *verdict,
                      struct rounding_report *rounding)
{
    const bool is_good = judge_recorded(call, a, verdict);
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
    if (doctor_print(call, false, &has_errors)) {
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
    is_good = is_good && (given.is_inspection ? recorded_read(operands[0], given_call, &call)
                                              : recorded_read_whole(operands[0], given_call, &call));
    const int code = !is_good ? cli_report() : given.is_inspection ? inspect(&call) : replay(&call);
    call_destroy(&call);
    free(operands);
    return code;
}
