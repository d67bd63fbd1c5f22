/* aclgrad explain: what a call would do, before it does it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/config.h"
#include "cli.h"
#include "options.h"
#include "problem_source.h"
#include "recorded.h"
#include "table.h"

static const struct argp_option options[] = {OPTION_CALL, {0}};
static const struct argp explain_argp = {options,
                                         parse_call_option,
                                         "CALL",
                                         "Says what a problem string, or a recorded call, would do: shapes, plan, "
                                         "workspace, kernels chosen and rejected, reading of the softmax statistics.",
                                         NULL,
                                         NULL,
                                         NULL};

static void add_row(void *context, const char *part, const char *name, const char *value)
{
    table_row(context, "sss", part, name, value);
}

/* Which kernel tables there are, and why each was taken or not. */
static void explain_kernels(const struct facts *facts)
{
    const enum ag_isa chosen = ag_config_get().isa, best = ag_cpu_best_isa();
    for (enum ag_isa isa = AG_ISA_SCALAR; isa < AG_ISA_COUNT; isa = (enum ag_isa)(isa + 1)) {
        const char *why = isa == chosen          ? (chosen == best ? "chosen: the fastest that this CPU has"
                                                                   : "chosen: asked for by --isa or ACLGRAD_ISA")
                          : !ag_cpu_has_isa(isa) ? "rejected: this CPU has not got it"
                          : isa < chosen         ? "rejected: a faster one is there"
                          : chosen == best
                              ? "rejected: its bf16 products are the slower ones on this CPU; --isa takes it"
                              : "rejected: another was asked for";
        facts->add(facts->context, "kernels", ag_isa_name(isa), why);
    }
}

static void explain_tensors(const struct call *call, const struct facts *facts)
{
    char text[AG_SHAPE_TEXT + 16], shape[AG_SHAPE_TEXT];
    for (int i = 0; i < call->inputs.count; ++i) {
        const struct tensor *t = &call->inputs.items[i];
        snprintf(text, sizeof text, "%s %s", ag_dtype_name(t->dtype), tensor_shape(t, shape));
        facts->add(facts->context, "inputs", t->name, text);
    }
}

static bool read_call(char **operands, struct call *call)
{
    return is_problem_text(operands[0]) ? call_generate_one(operands, NULL, call)
                                        : recorded_read_whole(operands[0], given_call, call);
}

int command_explain(int argc, char **argv)
{
    char **operands;
    struct call call = {0};
    struct table table;
    options_parse(&explain_argp, argc, argv, 1, 1, &operands);
    table_init(&table, "results", "part name value");
    const struct facts facts = {add_row, &table};
    if (read_call(operands, &call)) {
        char *text = problem_print(&call.problem);
        facts.add(facts.context, "problem", "string", text ? text : "");
        free(text);
        explain_tensors(&call, &facts);
        if (operation_of(&call)->explain(&call, &facts)) {
            explain_kernels(&facts);
            table_print(&table);
            table_finish("explain");
        }
    }
    table_discard(&table);
    call_destroy(&call);
    free(operands);
    return cli_report();
}
