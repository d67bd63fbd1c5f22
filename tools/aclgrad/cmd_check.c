/* aclgrad check: the fast result against the definition. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "base/config.h"
#include "cli.h"
#include "options.h"
#include "problem_source.h"
#include "rounding.h"
#include "table.h"
#include "verdict.h"

enum { KEY_KIND = 1000, KEY_ONLY, KEY_ROUNDING, KEY_STRICT };

static const struct argp_option options[] = {
    {"kind", KEY_KIND, "KIND", 0, "normal, outliers, negative, equal, skewed or poison: replaces each problem's kind",
     1},
    {"only", KEY_ONLY, "PATTERN", 0, "Only problems whose canonical string matches, like 'moe:*'", 1},
    {"rounding", KEY_ROUNDING, "device", 0, "Also say how a result rounded as on the device compares", 1},
    {"strict", KEY_STRICT, 0, 0, "MISTRUSTED is a failure too", 1},
    OPTIONS_OF_VERDICT,
    {0}};

static struct {
    const char *kind, *only, *rounding;
    bool is_strict;
    struct verdict_options verdict;
} given = {.verdict = {.worst = 5, .has_problems = true}};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    (void)state;
    switch (key) {
    case KEY_KIND:
        given.kind = text;
        return 0;
    case KEY_ONLY:
        given.only = text;
        return 0;
    case KEY_ROUNDING:
        given.rounding = text;
        return 0;
    case KEY_STRICT:
        given.is_strict = true;
        return 0;
    default:
        return parse_verdict_option(key, text, &given.verdict);
    }
}

static const struct argp check_argp = {options,
                                       parse_option,
                                       "PROBLEM...",
                                       "Runs each problem (a string, @FILE with one per line, or the name of a "
                                       "layer) and compares every element with the "
                                       "definition in double under that element's own bound. Exit code 0 when all "
                                       "hold, 1 when one does not, or when there "
                                       "was nothing to check.",
                                       NULL,
                                       NULL,
                                       NULL};

/* --- one problem ----------------------------------------------------------------------------------------- */

static void note_repro(struct verdict *verdict, const char *text)
{
    const struct ag_config config = ag_config_get();
    char repro[1024];
    snprintf(repro, sizeof repro, "REPRO: aclgrad --seed %" PRIu64 " --isa %s%s check '%s'", cli.seed,
             ag_isa_name(config.isa), config.limits == AG_LIMITS_EXTENDED ? " --limits extended" : "", text);
    verdict_note(verdict, NULL, "repro", repro);
}

static bool judge(struct call *call, const struct answers *r, struct verdict *verdict)
{
    struct standard standard;
    const int failed = verdict->failed, mistrusted = verdict->mistrusted;
    bool is_good = standard_parse("bound", &standard);
    for (int i = 0; is_good && i < r->fast.count; ++i) {
        const struct comparison_sides sides = {
            .got = &r->fast.items[i], .want = &r->values.items[i], .bound = &r->bounds.items[i]};
        const struct axes axes = call_axes(call, sides.got);
        is_good = verdict_compare(verdict, &sides, &standard, &axes);
    }
    if (verdict->failed > failed || (given.is_strict && verdict->mistrusted > mistrusted)) {
        note_repro(verdict, verdict->problem);
    }
    return is_good;
}

static bool check_one(struct problem *problem, struct verdict *verdict, struct rounding_report *rounding)
{
    struct call call = {0};
    struct answers results = {0};
    char *text = problem_print(problem);
    verdict->problem = text;
    const bool is_good = text && call_generate(&call, problem, FIDELITY_EXACT) &&
                         answers_compute(&results, &call, "check", given.rounding != NULL) &&
                         judge(&call, &results, verdict);
    if (is_good && given.rounding) {
        rounding_compare(rounding, &results.fast, &results.device, &results.values, &results.bounds, text);
    }
    if (!is_good) {
        fail_in_problem(text ? text : "problem");
    }
    answers_destroy(&results);
    call_destroy(&call);
    free(text);
    return is_good;
}

/* --- all ------------------------------------------------------------------------------------------------- */

int command_check(int argc, char **argv)
{
    char **operands;
    struct problem_list list = {NULL, 0};
    struct verdict verdict;
    struct rounding_report rounding;
    options_parse(&check_argp, argc, argv, 1, -1, &operands);
    verdict_begin(&verdict, &given.verdict);
    rounding_begin(&rounding);
    bool is_good = !given.rounding || strcmp(given.rounding, "device") == 0 ||
                   cli_fail(CLI_USAGE, "--rounding: got '%s', want device", given.rounding);
    is_good = is_good && problems_read(operands, given.kind, given.only, &list);
    for (int i = 0; is_good && i < list.count; ++i) {
        is_good = check_one(&list.items[i], &verdict, &rounding);
    }
    int code;
    if (is_good) {
        verdict.failed += given.is_strict ? verdict.mistrusted : 0;
        verdict.extra = given.rounding ? &rounding.table : NULL;
        code = verdict_end(&verdict, "check");
    } else {
        verdict_discard(&verdict);
        code = cli_report();
    }
    table_discard(&rounding.table);
    problems_destroy(&list);
    free(operands);
    return code;
}
