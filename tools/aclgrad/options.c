#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclgrad/aclgrad.h"
#include "cli.h"
#include "whole_number.h"

struct cli_options cli = {.seed = 1, .max_bytes = UINT64_C(8) << 30};

enum { KEY_JSON = 256, KEY_CSV, KEY_SEED, KEY_THREADS, KEY_ISA, KEY_LIMITS, KEY_MAX_BYTES };

static const struct argp_option global_options[] = {
    {"json", KEY_JSON, 0, 0, "Results as one JSON object", 10},
    {"csv", KEY_CSV, 0, 0, "The main table as CSV", 10},
    {"seed", KEY_SEED, "N", 0, "Seed of all random numbers (default 1)", 10},
    {"threads", KEY_THREADS, "N", 0, "Threads that an operator may use", 10},
    {"isa", KEY_ISA, "NAME", 0, "Kernel table: scalar, avx2, avx512, avx512bf16 or amx", 10},
    {"limits", KEY_LIMITS, "NAME", 0, "documented (default) or extended", 10},
    {"max-bytes", KEY_MAX_BYTES, "SIZE", 0, "The most that a packed tensor file may unpack to (default 8G)", 10},
    {"quiet", 'q', 0, 0, "No notes and no progress bar", 10},
    {0}};

bool parse_count(const char *option, const char *text, int64_t lowest, int64_t highest, int64_t *value)
{
    return (whole_number(text, strlen(text), value) && *value >= lowest && *value <= highest) ||
           cli_fail(CLI_USAGE, "%s: got '%s', want %" PRId64 " to %" PRId64, option, text, lowest, highest);
}

bool parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    *bytes = number << shift;
    return (isdigit((unsigned char)*text) && !errno && (!*end || (unit && !end[1])) && *bytes >> shift == number) ||
           cli_fail(CLI_USAGE, "--max-bytes: got '%s', want a size like 4096, 16M or 2G", text);
}

/* The library's own settings; what it says becomes the failure. */
static bool set_library(aclnnStatus status, const char *option)
{
    const char *text = status == 0 ? NULL : aclGetRecentErrMsg();
    return status == 0 || cli_fail(CLI_USAGE, "%s: %s", option, text ? text : "refused");
}

static bool set_format(enum cli_format format)
{
    if (cli.format != CLI_TEXT && cli.format != format) {
        return cli_fail(CLI_USAGE, "--json and --csv: want one of them");
    }
    cli.format = format;
    return true;
}

static bool set_global(int key, const char *text)
{
    int64_t number;
    char *end;
    switch (key) {
    case KEY_JSON:
        return set_format(CLI_JSON);
    case KEY_CSV:
        return set_format(CLI_CSV);
    case KEY_SEED:
        errno = 0;
        cli.seed = strtoull(text, &end, 10);
        return (isdigit((unsigned char)*text) && !*end && !errno) ||
               cli_fail(CLI_USAGE, "--seed: got '%s', want a number from 0 to 2^64 - 1", text);
    case KEY_THREADS:
        return parse_count("--threads", text, 1, 1024, &number) &&
               set_library(aclgrad_set_threads((int)number), "--threads");
    case KEY_ISA:
        return set_library(aclgrad_set_instruction_set(text), "--isa");
    case KEY_LIMITS:
        if (strcmp(text, "documented") != 0 && strcmp(text, "extended") != 0) {
            return cli_fail(CLI_USAGE, "--limits: got '%s', want documented or extended", text);
        }
        return set_library(aclgrad_set_limits(*text == 'e' ? ACLGRAD_LIMITS_EXTENDED : ACLGRAD_LIMITS_DOCUMENTED),
                           "--limits");
    case KEY_MAX_BYTES:
        return parse_size(text, &cli.max_bytes);
    case 'q':
        cli.is_quiet = true;
        return true;
    default:
        return false;
    }
}

static error_t parse_global(int key, char *text, struct argp_state *state)
{
    (void)state;
    const bool is_ours = (key >= KEY_JSON && key <= KEY_MAX_BYTES) || key == 'q';
    if (!is_ours) {
        return ARGP_ERR_UNKNOWN;
    }
    if (!set_global(key, text)) {
        exit(cli_report());
    }
    return 0;
}

const struct argp global_argp = {global_options, parse_global, NULL, NULL, NULL, NULL, NULL};

/* --- shared by some commands ----------------------------------------------------------------------------- */

const char *given_call;

error_t parse_call_option(int key, char *text, struct argp_state *state)
{
    (void)state;
    if (key != KEY_CALL) {
        return ARGP_ERR_UNKNOWN;
    }
    given_call = text;
    return 0;
}

/* --- one command's line ---------------------------------------------------------------------------------- */

struct operands {
    const struct argp *argp;
    char **items;
    int count;
};

static error_t collect(int key, char *text, struct argp_state *state)
{
    struct operands *operands = state->input;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = NULL;
        state->child_inputs[1] = NULL;
        return 0;
    }
    if (key == ARGP_KEY_ARG) {
        operands->items[operands->count++] = text;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static void fail_count(const struct argp *argp, const char *command, int count, int least, int most)
{
    const char *names = argp->args_doc ? argp->args_doc : "";
    const int want = count < least ? least : most;
    const char *quantity = least == most ? "" : count < least ? "at least " : "at most ";
    cli_fail(CLI_USAGE, "%s%s%s: got %d operand%s, want %s%d; see %s --help", command + strlen("aclgrad "),
             *names ? " " : "", names, count, plural(count), quantity, want, command);
}

void options_parse(const struct argp *argp, int argc, char **argv, int least, int most, char ***operands)
{
    /* The command's own options first, then the global ones; operands are collected here. */
    const struct argp own = {argp->options, argp->parser, NULL, NULL, NULL, NULL, NULL};
    const struct argp_child children[] = {{&own, 0, NULL, 0}, {&global_argp, 0, "Options of all commands:", 10}, {0}};
    const struct argp whole = {NULL, collect, argp->args_doc, argp->doc, children, NULL, NULL};
    struct operands all = {argp, calloc((size_t)argc + 1, sizeof(char *)), 0};
    if (!all.items) {
        cli_fail(CLI_USAGE, "out of memory");
        exit(cli_report());
    }
    argp_err_exit_status = CLI_USAGE;
    if (argp_parse(&whole, argc, argv, 0, NULL, &all) != 0) {
        exit(CLI_USAGE);
    }
    if (all.count < least || (most >= 0 && all.count > most)) {
        fail_count(argp, argv[0], all.count, least, most);
        exit(cli_report());
    }
    *operands = all.items;
}
