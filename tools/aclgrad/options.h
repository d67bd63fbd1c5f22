/* Options that every command takes, before or after its name. */
#ifndef ACLGRAD_OPTIONS_H
#define ACLGRAD_OPTIONS_H

#include <argp.h>

#include "tensor_file.h"

/* To be the child of a command's own argp. */
extern const struct argp global_argp;

/* Parses a command's line: its own options by `argp` (its children are set here), then all operands into *operands,
 * NULL at the end, which live as long as argv. At least `least` and at most `most` operands (most < 0: any number).
 * Ends the program after --help, --usage or a wrong option: exit code 0 or CLI_USAGE. */
void options_parse(const struct argp *argp, int argc, char **argv, int least, int most, char ***operands);

/* "4096", "16M", "2G" */
bool parse_size(const char *text, uint64_t *bytes);
bool parse_count(const char *option, const char *text, int64_t lowest, int64_t highest, int64_t *value);

/* --call, which every command that reads a recorded call has: a row for its table, a parser to be its own or to end it
 * with, and what was given (NULL: nothing). */
enum { KEY_CALL = 2000 };
#define OPTION_CALL                                                                                                  \
    {                                                                                                                \
        "call", KEY_CALL, "TEXT", 0, "Of several calls in a dump, the one whose name holds TEXT", 1                  \
    }
error_t parse_call_option(int key, char *text, struct argp_state *state);
extern const char *given_call;

#endif
