/* Goldens: calls with their gradients in double, made by an independent system (README.md). A test program of an
 * operator has one test per golden that index.txt lists, and tests that the list and the folder are whole.
 *
 * ACLGRAD_GOLDEN_DIR: another folder than the source's. */
#ifndef AG_TESTS_GOLDEN_H
#define AG_TESTS_GOLDEN_H

#include "call.h"
#include "support/support.h"

enum { GOLDEN_NAME_BYTES = 96, GOLDEN_MOST = 400 };

/* The names that index.txt lists, "moe/topk_64"; prefix: "moe/", or "" for all. Fails when there is none. */
struct golden_list {
    int count;
    char names[GOLDEN_MOST][GOLDEN_NAME_BYTES];
};
void golden_list_read(struct golden_list *list, const char *prefix);

const char *golden_folder(void);

/* The call; its gradients are call->recorded. Fails unless the file is whole and every output has its gradient.
 * Also sets the library's limits: "extended" for goldens that say so in their name. */
void golden_read(const char *name, struct call *call);
void golden_destroy(struct call *call);

/* Runs both phases with the kernel table; outputs are full of NaN before. The caller destroys the set. */
void golden_run(const struct call *call, enum ag_isa isa, struct tensor_set *outputs);

/* --- the program ----------------------------------------------------------------------------------------- */

/* What the contract says an output exactly is, given the golden value; such outputs have bounds of 0. */
typedef double golden_round(const struct tensor *output, double value);

/* Whether a golden belongs to a combination that there must be: "mode 3, bf16". */
struct golden_combination {
    const char *text;
    bool (*is_shown)(const struct call *call, int64_t a, int64_t b);
    int64_t a, b;
};

/* One test per golden, named as it: every output of every kernel table lies within the definition's bound of the golden
 * gradient, and the definition itself agrees with it to the last few digits of double. One test that files and list are
 * the same; one that all combinations are shown. */
struct golden_program {
    const char *operator;                                      /* "moe" */
    golden_round *round;                                       /* NULL: none */
    int (*list_combinations)(struct golden_combination *list); /* returns their number, at most GOLDEN_MOST */
};
int golden_main(const struct golden_program *program);

#endif
