#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aclgrad/aclgrad.h"
#include "cli.h"
#include "options.h"
#include "problem.h"
#include "table.h"

static const struct argp help_argp = {
    NULL, NULL, "[OPERATOR]", "Lists the commands, or the keys of an operator's problem strings.", NULL, NULL, NULL};

static void print_commands(void)
{
    struct table table;
    table_line("Usage: aclgrad [OPTION...] COMMAND [ARGUMENT...]\n");
    table_init(&table, "commands", "command what");
    for (const struct command *command = commands; command->name; ++command) {
        table_row(&table, "ss", command->name, command->summary);
    }
    table_print(&table);
    table_line("\nA problem is operator:key=value,... :  attention:q=[100,28],n1=4,n2=2,d=64,mode=3");
    for (int i = 0; i < PROBLEM_OPERATORS; ++i) {
        table_line("  %-18s %s (%s)", problem_tables[i].name, problem_tables[i].help, problem_tables[i].entry);
    }
    table_line("`aclgrad help OPERATOR` lists its keys, `aclgrad COMMAND --help` the options.");
    table_line("Exit codes: 0 good, 1 check failed, 2 wrong usage, 3 rejected by the library, 4 files.");
}

static const char *kind_text(const struct problem_key *key)
{
    switch (key->kind) {
    case PROBLEM_INTEGER:
        return "integer";
    case PROBLEM_REAL:
        return "number";
    case PROBLEM_LIST:
        return "list";
    default:
        return key->words;
    }
}

static int print_keys(const char *name)
{
    struct problem problem;
    struct table table;
    if (!problem_parse(name, &problem)) {
        return cli_report();
    }
    const struct problem_table *keys = problem_table_of(&problem);
    table_line("%s: %s (%s)\n", keys->name, keys->help, keys->entry);
    table_init(&table, "keys", "key value default meaning");
    for (int i = 0; i < keys->key_count; ++i) {
        const struct problem_key *key = &keys->keys[i];
        table_row(&table, "ssss", key->name, kind_text(key), key->default_text, key->help);
    }
    table_print(&table);
    table_line("\nLists: [100,28] or [512x8] for eight times 512; a single number needs no brackets.");
    problem_destroy(&problem);
    return CLI_OK;
}

int command_help(int argc, char **argv)
{
    char **operands;
    options_parse(&help_argp, argc, argv, 0, 1, &operands);
    int code = CLI_OK;
    if (operands[0]) {
        code = print_keys(operands[0]);
    } else {
        print_commands();
    }
    free(operands);
    if (code == CLI_OK) {
        table_finish("help");
    }
    return code;
}

static const struct argp version_argp = {NULL, NULL, "", "Prints the version.", NULL, NULL, NULL};

int command_version(int argc, char **argv)
{
    char **operands;
    options_parse(&version_argp, argc, argv, 0, 0, &operands);
    table_line("aclgrad %s", aclgrad_version());
    if (cli.format != CLI_TEXT) {
        struct table table;
        table_init(&table, "results", "version");
        table_row(&table, "s", aclgrad_version());
        table_print(&table);
    }
    table_finish("version");
    free(operands);
    return CLI_OK;
}
