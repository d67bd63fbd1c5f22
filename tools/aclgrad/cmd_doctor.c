/* aclgrad doctor: what is wrong with a recorded call, in plain words. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "doctor.h"
#include "facts.h"
#include "judgement.h"
#include "options.h"
#include "recorded.h"
#include "table.h"

static const struct argp_option options[] = {OPTION_CALL, {0}};
static const struct argp doctor_argp = {
    options,
    parse_call_option,
    "CALL",
    "Looks at the inputs of a recorded call (a directory, .npz or .safetensors, "
    "see `aclgrad gen`): statistics that do not "
    "normalise or lie in another order, lengths that fall, indices out of range "
    "or twice, a map that is no permutation, "
    "views that leave their storage, rows that see nothing, NaN and infinities, "
    "values at the edge of the type. When the inputs are in "
    "order and outputs were recorded, these are judged too, unless that takes long. "
    "Exit code 1 when something is wrong.",
    NULL,
    NULL,
    NULL};

struct collected {
    struct table table;
    int counts[3];
};

static void collect(void *context, enum severity severity, const char *tensor, const char *code, const char *text)
{
    static const char *const words[] = {"note", "warning", "ERROR"};
    struct collected *collected = context;
    table_row(&collected->table, "ssss", words[severity], tensor, code, text);
    ++collected->counts[severity];
}

/* --- outputs --------------------------------------------------------------------------------------------- */

static const char *cell(const json_t *row, const char *column)
{
    const char *text = json_string_value(json_object_get(row, column));
    return text ? text : "";
}

/* What a verdict found, as errors. */
static void collect_verdict(const struct verdict *verdict, const struct findings *findings)
{
    size_t i;
    const json_t *row;
    json_array_foreach(verdict->results.rows, i, row)
    {
        if (strcmp(cell(row, "verdict"), "FAILED") == 0 || strcmp(cell(row, "verdict"), "MISSING") == 0) {
            const char *place = cell(row, "worst_at");
            add_finding(findings, SEVERITY_ERROR, cell(row, "tensor"), "output", "%s%s%s", cell(row, "reason"),
                        *place ? ", the worst at " : "", place);
        }
    }
    json_array_foreach(verdict->findings.rows, i, row)
    {
        const bool is_rounding = strcmp(cell(row, "finding"), "device-rounding") == 0;
        add_finding(findings, is_rounding ? SEVERITY_NOTE : SEVERITY_ERROR, cell(row, "tensor"), cell(row, "finding"),
                    "%s", cell(row, "text"));
    }
}

/* The recorded outputs, when the definition is no long wait. */
static bool inspect_outputs(struct call *call, const struct findings *findings)
{
    const double budget = 2e8; /* operations: some seconds */
    static const struct verdict_options quiet = {.worst = 1};
    struct answers answers = {0};
    struct verdict verdict;
    double work, bytes;
    operation_of(call)->cost(call, &work, &bytes);
    if (work > budget) {
        add_finding(findings, SEVERITY_NOTE, "", "outputs",
                    "the recorded outputs were not judged: %.3g operations in double; `aclgrad replay` does it",
                    work);
        return true;
    }
    verdict_begin(&verdict, &quiet);
    const bool is_good = answers_compute(&answers, call, "doctor", true) && judge_recorded(call, &answers, &verdict);
    if (is_good) {
        collect_verdict(&verdict, findings);
    }
    verdict_discard(&verdict);
    answers_destroy(&answers);
    return is_good;
}

/* --- the whole ------------------------------------------------------------------------------------------- */

bool doctor_print(struct call *call, bool with_outputs, bool *has_errors)
{
    struct collected collected = {.counts = {0}};
    const struct findings findings = {collect, &collected};
    table_init(&collected.table, "results", "severity tensor finding text");
    if (call->damage[0]) {
        collect(&collected, SEVERITY_ERROR, "", "view", call->damage);
    }
    const int *n = collected.counts;
    bool is_good = call->damage[0] || operation_of(call)->inspect(call, &findings);
    if (with_outputs && is_good && call->recorded.count > 0 && n[SEVERITY_ERROR] == 0) { /* wrong inputs say enough */
        is_good = inspect_outputs(call, &findings);
    }
    if (!is_good) {
        table_discard(&collected.table);
        return false;
    }
    if (n[0] + n[1] + n[2] > 0 || cli.format != CLI_TEXT) {
        table_print(&collected.table);
    } else { /* no head of an empty table for people */
        table_discard(&collected.table);
    }
    table_line("%s%d error%s, %d warning%s, %d note%s", n[0] + n[1] + n[2] > 0 ? "\n" : "", n[SEVERITY_ERROR],
               plural(n[SEVERITY_ERROR]), n[SEVERITY_WARNING], plural(n[SEVERITY_WARNING]), n[SEVERITY_NOTE],
               plural(n[SEVERITY_NOTE]));
    *has_errors = n[SEVERITY_ERROR] > 0;
    return true;
}

int command_doctor(int argc, char **argv)
{
    char **operands;
    struct call call = {0};
    bool has_errors = false;
    options_parse(&doctor_argp, argc, argv, 1, 1, &operands);
    if (recorded_read(operands[0], given_call, &call) && doctor_print(&call, true, &has_errors)) {
        table_finish("doctor");
    }
    call_destroy(&call);
    free(operands);
    const int code = cli_report();
    return code == CLI_OK && has_errors ? CLI_CHECK_FAILED : code;
}
