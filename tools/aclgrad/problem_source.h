/* Where a command's problems come from: operands, files of problem strings, names of layers. */
#ifndef ACLGRAD_PROBLEM_SOURCE_H
#define ACLGRAD_PROBLEM_SOURCE_H

#include "call.h"

struct problem_list {
    struct problem *items;
    int count;
};

/* An operand is a problem string, "@FILE" (one problem or layer per line, # starts a comment) or a layer's name.
 * `kind`, when not NULL, replaces each problem's kind; `only`, when not NULL, keeps the problems whose canonical
 * string matches the pattern. An empty list is not an error here: commands end with "nothing matched". */
bool problems_read(char **operands, const char *kind, const char *only, struct problem_list *list);
void problems_destroy(struct problem_list *list);

/* Real layers, by name. */
struct layer {
    const char *name, *problem, *what;
};
extern const struct layer layers[]; /* ends with a null name */

/* A command that takes a problem or a recording: this is a problem (it has a colon, names a file of
 * problems by @, or a layer). */
bool is_problem_text(const char *text);

/* cli_fail_in a problem's canonical form; of one without keys in the operator alone, "moe: e = ...". False. */
bool fail_in_problem(const char *text);

/* Generates: call->problem takes the problem over. The failure does not say whose it is. */
bool call_generate(struct call *call, struct problem *problem, enum fidelity fidelity);

/* The call of the one problem that the operands stand for. */
bool call_generate_one(char **operands, const char *kind, struct call *call);

#endif
