/* The verdict over several tensors, as compare, check and replay print it: a table with one row per tensor, then for
 * each that failed the worst elements, the map and what may be behind it, then one line that sums up. */
#ifndef ACLGRAD_VERDICT_H
#define ACLGRAD_VERDICT_H

#include <argp.h>

#include "axes.h"
#include "comparison.h"
#include "table.h"

struct verdict_options {
    int worst;         /* elements listed per tensor */
    bool has_problems; /* rows name the problem they belong to */
    const char *svg;   /* path or NULL */
};

/* --worst and --svg, which set them: rows for a command's table, and a parser to end its own with. */
enum { KEY_WORST = 2100, KEY_SVG };
#define OPTIONS_OF_VERDICT                                                                                           \
    {"worst", KEY_WORST, "N", 0, "Worst elements to list of a tensor that fails (default 5, at most 100)", 1},       \
    {                                                                                                                \
        "svg", KEY_SVG, "FILE", 0,                                                                                   \
            "Write the map of errors as a picture (of the first tensor that fails, or the first)", 1                 \
    }
error_t parse_verdict_option(int key, char *text, struct verdict_options *options);

struct verdict {
    const struct verdict_options *options;
    struct table results, worst, findings;
    const char *problem;                              /* set by the caller before verdict_compare */
    struct table *extra;                              /* printed after the results; NULL: none */
    int compared, failed, mistrusted, missing, empty; /* empty: has no elements; neither passed nor failed */
    bool has_svg, has_failed_svg;
    char passed[512]; /* names of tensors that passed and failed, spaces around each */
    char wrong[512];
};

void verdict_begin(struct verdict *verdict, const struct verdict_options *options);

/* Compares and notes. False only where the sides cannot be compared at all. */
bool verdict_compare(struct verdict *verdict, const struct comparison_sides *sides, const struct standard *standard,
                     const struct axes *axes);

/* A tensor without its counterpart: fails. */
void verdict_missing(struct verdict *verdict, const char *name, const char *why);

/* One more finding; tensor may be NULL. */
void verdict_note(struct verdict *verdict, const char *tensor, const char *code, const char *text);

/* Frees all without printing; the failure's report is the caller's. */
void verdict_discard(struct verdict *verdict);

/* Prints all and returns CLI_OK or CLI_CHECK_FAILED; nothing compared is a failure. */
int verdict_end(struct verdict *verdict, const char *command);

#endif
