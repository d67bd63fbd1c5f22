/* Problem strings: one call of one operator, as text.
 *
 *     problem = operator ":" [ key "=" value { "," key "=" value } ]
 *     value   = integer | real | word | list
 *     list    = "[" [ item { "," item } ] "]"  |  item        ("q=7" is "q=[7]")
 *     item    = integer | integer "x" count                    ("[512x3]" is "[512,512,512]")
 *
 *     attention:q=[100,28],n1=4,n2=2,d=64,mode=3,dtype=f16
 *
 * No spaces. Keys in any order, each once. What is printed is canonical: keys in the order of the table, without those
 * that equal their default, so that equal problems have equal strings, and the string makes the problem again. */
#ifndef ACLGRAD_PROBLEM_H
#define ACLGRAD_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum problem_kind { PROBLEM_INTEGER, PROBLEM_REAL, PROBLEM_WORD, PROBLEM_LIST };

struct problem_key {
    const char *name;
    enum problem_kind kind;
    int64_t lowest, highest;  /* of an integer, and of each item of a list */
    const char *default_text; /* as a value is written; NULL: no default, the operator derives one */
    const char *words;        /* of a word: the allowed ones, "bf16 f16 f32" */
    const char *help;         /* one line of `aclgrad help <operator>` */
};

enum problem_operator {
    PROBLEM_ATTENTION,
    PROBLEM_INDEXER,
    PROBLEM_MOE,
    PROBLEM_ATTENTION_FORWARD,
    PROBLEM_INDEXER_FORWARD,
    PROBLEM_MOE_PERMUTE,
    PROBLEM_MOE_PERMUTE_GRAD,
    PROBLEM_MOE_UNPERMUTE,
    PROBLEM_MOE_UNPERMUTE_GRAD,
    PROBLEM_OPERATORS
};
enum { PROBLEM_MOST_KEYS = 32, PROBLEM_MOST_ITEMS = 1 << 20 };

struct problem_table {
    const char *name;  /* "attention" */
    const char *entry; /* the function of the API, without GetWorkspaceSize */
    const char *help;  /* what it is, one line */
    const struct problem_key *keys;
    int key_count; /* at most PROBLEM_MOST_KEYS */
};
extern const struct problem_table problem_tables[PROBLEM_OPERATORS];

struct problem_value {
    bool is_given; /* or has a default */
    int64_t integer;
    double real;
    char word[16];
    int64_t *list;
    int64_t count;
};

struct problem {
    enum problem_operator op;
    struct problem_value values[PROBLEM_MOST_KEYS]; /* by position in the operator's table */
};

/* On failure (CLI_USAGE) the message names the place, the valid names and the nearest one; nothing is owned then. */
bool problem_parse(const char *text, struct problem *problem);

/* As parse("<operator>:"). */
void problem_init(struct problem *problem, enum problem_operator op);
void problem_destroy(struct problem *problem);
bool problem_copy(struct problem *to, const struct problem *from);

/* The canonical string; the caller frees it. NULL when out of memory. */
char *problem_print(const struct problem *problem);

/* Sets one key from text, "mode", "3": as parse does, and replaces what was there. */
bool problem_set(struct problem *problem, const char *key, const char *text);
void problem_unset(struct problem *problem, const char *key); /* as if it had not been given */
bool problem_set_integer(struct problem *problem, const char *key, int64_t value);
bool problem_set_real(struct problem *problem, const char *key, double value);
bool problem_set_list(struct problem *problem, const char *key, const int64_t *items, int64_t count);

/* The operator is one of the mixture-of-experts family. */
bool problem_is_moe(const struct problem *problem);

/* The operator has such a key. */
bool problem_knows(const struct problem *problem, const char *key);

/* Values by key; the key must be one of the table's. */
bool problem_has(const struct problem *problem, const char *key);
int64_t problem_integer(const struct problem *problem, const char *key);
int64_t problem_integer_or(const struct problem *problem, const char *key, int64_t otherwise);
double problem_real_or(const struct problem *problem, const char *key, double otherwise);
const char *problem_word(const struct problem *problem, const char *key);
bool problem_is(const struct problem *problem, const char *key, const char *word);
const int64_t *problem_list(const struct problem *problem, const char *key, int64_t *count);

const struct problem_table *problem_table_of(const struct problem *problem);

/* Of `names` (ending with NULL) the one most like `text`, or NULL when none is near. */
const char *nearest_name(const char *text, const char *const *names);

#endif
