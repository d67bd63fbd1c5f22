#include "problem.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "whole_number.h"

/* --- names ----------------------------------------------------------------------------------------------- */

/* Edits (insert, delete, replace) that make b of a; both at most MOST bytes. */
static int edit_distance(const char *a, const char *b)
{
    enum { MOST = 40 };
    const size_t columns = strlen(b);
    int row[MOST + 1];
    if (strlen(a) > MOST || columns > MOST) {
        return MOST;
    }
    for (size_t j = 0; j <= columns; ++j) {
        row[j] = (int)j;
    }
    for (size_t i = 1; a[i - 1]; ++i) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= columns; ++j) {
            const int replace = diagonal + (a[i - 1] != b[j - 1]);
            const int shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replace < shift ? replace : shift;
        }
    }
    return row[columns];
}

const char *nearest_name(const char *text, const char *const *names)
{
    const char *nearest = NULL;
    int least = 1 + (int)strlen(text) / 3; /* farther is no typing error */
    for (; *names; ++names) {
        const int distance = edit_distance(text, *names);
        const bool is_prefix = *text && strncmp(*names, text, strlen(text)) == 0;
        if ((is_prefix && least >= 0) || distance <= least) { /* of several that it starts the first */
            least = is_prefix ? -1 : distance - 1;
            nearest = *names;
        }
    }
    return nearest;
}

enum { NAMES_BYTES = 512 };

/* "a, b, c" into text, and " (nearest: b)" behind it. */
static const char *list_names(char text[NAMES_BYTES], const char *wrong, const char *const *names)
{
    int used = 0;
    for (const char *const *name = names; *name; ++name) {
        used += snprintf(text + used, (size_t)(NAMES_BYTES - used), "%s%s", used ? ", " : "", *name);
    }
    const char *nearest = nearest_name(wrong, names);
    if (nearest) {
        snprintf(text + used, (size_t)(NAMES_BYTES - used), " (nearest: %s)", nearest);
    }
    return text;
}

const struct problem_table *problem_table_of(const struct problem *problem)
{
    return &problem_tables[problem->op];
}

static int find_key(const struct problem *problem, const char *name)
{
    const struct problem_table *table = problem_table_of(problem);
    for (int i = 0; i < table->key_count; ++i) {
        if (strcmp(table->keys[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool fail_unknown_key(const struct problem *problem, const char *name)
{
    const struct problem_table *table = problem_table_of(problem);
    const char *names[PROBLEM_MOST_KEYS + 1] = {NULL};
    char text[NAMES_BYTES];
    for (int i = 0; i < table->key_count; ++i) {
        names[i] = table->keys[i].name;
    }
    return cli_fail(CLI_USAGE, "%s: unknown key '%s'; valid: %s", table->name, name, list_names(text, name, names));
}

/* --- values ---------------------------------------------------------------------------------------------- */

static bool parse_integer(const struct problem_key *key, const char *text, size_t length, int64_t *value)
{
    int64_t number;
    if (!whole_number(text, length, &number)) {
        return cli_fail(CLI_USAGE, "%s: got '%.*s', want an integer", key->name, (int)length, text);
    }
    if (number < key->lowest || number > key->highest) {
        return cli_fail(CLI_USAGE, "%s: got %" PRId64 ", want %" PRId64 " to %" PRId64, key->name, number,
                        key->lowest, key->highest);
    }
    *value = number;
    return true;
}

static bool parse_real(const struct problem_key *key, const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text) || !isfinite(*value)) {
        return cli_fail(CLI_USAGE, "%s: got '%s', want a finite number", key->name, text);
    }
    return true;
}

static bool parse_word(const struct problem_key *key, const char *text, struct problem_value *value)
{
    char words[128];
    const char *names[16] = {NULL};
    int count = 0;
    snprintf(words, sizeof words, "%s", key->words);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        names[count++] = word;
        if (strcmp(word, text) == 0) {
            snprintf(value->word, sizeof value->word, "%s", text);
            return true;
        }
    }
    char valid[NAMES_BYTES];
    return cli_fail(CLI_USAGE, "%s: got '%s', valid: %s", key->name, text, list_names(valid, text, names));
}

static bool append_items(const struct problem_key *key, struct problem_value *value, int64_t item, int64_t repeat)
{
    if (repeat > PROBLEM_MOST_ITEMS - value->count) {
        return cli_fail(CLI_USAGE, "%s: more than %d items", key->name, PROBLEM_MOST_ITEMS);
    }
    int64_t *list = realloc(value->list, (size_t)(value->count + repeat + 1) * sizeof *list);
    if (!list) {
        return cli_fail(CLI_USAGE, "%s: out of memory", key->name);
    }
    value->list = list;
    for (int64_t i = 0; i < repeat; ++i) {
        list[value->count++] = item;
    }
    return true;
}

static bool parse_item(const struct problem_key *key, const char *text, size_t length, struct problem_value *value)
{
    static const struct problem_key count_key = {"count", PROBLEM_INTEGER, 0, PROBLEM_MOST_ITEMS, NULL, NULL, NULL};
    const char *times = memchr(text, 'x', length);
    const size_t item_length = times ? (size_t)(times - text) : length;
    int64_t item, repeat = 1;
    return parse_integer(key, text, item_length, &item) &&
           (!times || parse_integer(&count_key, times + 1, length - item_length - 1, &repeat)) &&
           append_items(key, value, item, repeat);
}

static bool parse_list(const struct problem_key *key, const char *text, struct problem_value *value)
{
    const size_t length = strlen(text);
    value->count = 0;
    if (!append_items(key, value, 0, 0)) {
        return false;
    }
    if (text[0] != '[') {
        return parse_item(key, text, length, value);
    }
    if (length < 2 || text[length - 1] != ']') {
        return cli_fail(CLI_USAGE, "%s: '%s' has no closing ]", key->name, text);
    }
    const char *item = text + 1, *end = text + length - 1;
    while (item < end) {
        const char *comma = memchr(item, ',', (size_t)(end - item));
        const char *item_end = comma ? comma : end;
        if (!parse_item(key, item, (size_t)(item_end - item), value)) {
            return false;
        }
        item = item_end + 1;
        if (comma && item == end) {
            return cli_fail(CLI_USAGE, "%s: '%s' ends with a comma", key->name, text);
        }
    }
    return true;
}

static bool parse_value(const struct problem_key *key, const char *text, struct problem_value *value)
{
    bool is_good = false;
    switch (key->kind) {
    case PROBLEM_INTEGER:
        is_good = parse_integer(key, text, strlen(text), &value->integer);
        break;
    case PROBLEM_REAL:
        is_good = parse_real(key, text, &value->real);
        break;
    case PROBLEM_WORD:
        is_good = parse_word(key, text, value);
        break;
    case PROBLEM_LIST:
        is_good = parse_list(key, text, value);
        break;
    }
    value->is_given = is_good;
    return is_good;
}

/* --- problems -------------------------------------------------------------------------------------------- */

void problem_init(struct problem *problem, enum problem_operator op)
{
    memset(problem, 0, sizeof *problem);
    problem->op = op;
    const struct problem_table *table = problem_table_of(problem);
    for (int i = 0; i < table->key_count; ++i) {
        if (table->keys[i].default_text) {
            parse_value(&table->keys[i], table->keys[i].default_text, &problem->values[i]);
        }
    }
}

void problem_destroy(struct problem *problem)
{
    for (int i = 0; i < PROBLEM_MOST_KEYS; ++i) {
        free(problem->values[i].list);
    }
    memset(problem, 0, sizeof *problem);
}

bool problem_copy(struct problem *to, const struct problem *from)
{
    *to = *from;
    bool is_whole = true;
    for (int i = 0; i < PROBLEM_MOST_KEYS; ++i) {
        if (from->values[i].list) {
            const size_t bytes = (size_t)(from->values[i].count + 1) * sizeof(int64_t);
            to->values[i].list = malloc(bytes);
            is_whole = is_whole && to->values[i].list;
            if (to->values[i].list) {
                memcpy(to->values[i].list, from->values[i].list, (size_t)from->values[i].count * sizeof(int64_t));
            }
        }
    }
    return is_whole || (problem_destroy(to), cli_fail(CLI_USAGE, "out of memory"));
}

bool problem_set(struct problem *problem, const char *key, const char *text)
{
    const int at = find_key(problem, key);
    return at < 0 ? fail_unknown_key(problem, key)
                  : parse_value(&problem_table_of(problem)->keys[at], text, &problem->values[at]);
}

/* The end of the value that starts here: a comma outside brackets, or the end of the text. */
static char *find_value_end(char *value)
{
    int depth = 0;
    for (; *value && (depth > 0 || *value != ','); ++value) {
        depth += (*value == '[') - (*value == ']');
    }
    return value;
}

static bool parse_pairs(struct problem *problem, char *text)
{
    bool is_seen[PROBLEM_MOST_KEYS] = {false};
    while (*text) {
        char *key = text, *equals = strchr(text, '=');
        if (!equals || find_value_end(text) < equals) {
            *find_value_end(text) = 0;
            return cli_fail(CLI_USAGE, "%s: '%s' is not key=value", problem_table_of(problem)->name, text);
        }
        *equals = 0;
        char *end = find_value_end(equals + 1);
        const bool is_last = !*end;
        *end = 0;
        const int at = find_key(problem, key);
        if (at >= 0 && is_seen[at]) {
            return cli_fail(CLI_USAGE, "%s: key '%s' appears twice", problem_table_of(problem)->name, key);
        }
        if (!problem_set(problem, key, equals + 1)) {
            return false;
        }
        is_seen[at] = true;
        text = is_last ? end : end + 1;
        if (!is_last && !*text) {
            return cli_fail(CLI_USAGE, "%s: ends with a comma", problem_table_of(problem)->name);
        }
    }
    return true;
}

static bool find_operator(const char *name, enum problem_operator *op)
{
    const char *names[PROBLEM_OPERATORS + 1] = {NULL};
    char valid[NAMES_BYTES];
    for (int i = 0; i < PROBLEM_OPERATORS; ++i) {
        names[i] = problem_tables[i].name;
        if (strcmp(name, names[i]) == 0 || strcmp(name, problem_tables[i].entry) == 0) {
            *op = (enum problem_operator)i;
            return true;
        }
    }
    return cli_fail(CLI_USAGE, "unknown operator '%s'; valid: %s", name, list_names(valid, name, names));
}

bool problem_parse(const char *text, struct problem *problem)
{
    char *copy = strdup(text);
    enum problem_operator op = PROBLEM_ATTENTION;
    if (!copy) {
        return cli_fail(CLI_USAGE, "problem string: out of memory");
    }
    char *colon = strchr(copy, ':');
    if (colon) {
        *colon = 0;
    }
    bool is_good = find_operator(copy, &op);
    if (is_good) {
        problem_init(problem, op);
        is_good = !colon || parse_pairs(problem, colon + 1);
        if (!is_good) {
            problem_destroy(problem);
        }
    }
    free(copy);
    return is_good;
}

/* --- printing -------------------------------------------------------------------------------------------- */

static void print_list(FILE *out, const struct problem_value *value)
{
    fputc('[', out);
    for (int64_t i = 0; i < value->count;) {
        int64_t repeat = 1;
        while (i + repeat < value->count && value->list[i + repeat] == value->list[i]) {
            ++repeat;
        }
        repeat = repeat < 3 ? 1 : repeat; /* [7,7] stays; [7,7,7] becomes [7x3] */
        fprintf(out, "%s%" PRId64, i ? "," : "", value->list[i]);
        if (repeat > 1) {
            fprintf(out, "x%" PRId64, repeat);
        }
        i += repeat;
    }
    fputc(']', out);
}

/* The fewest digits that read back as the same number. */
static void print_real(FILE *out, double value)
{
    char text[40];
    int digits = 1;
    do {
        snprintf(text, sizeof text, "%.*g", digits, value);
    } while (strtod(text, NULL) != value && ++digits <= 17);
    fputs(text, out);
}

static void print_value(FILE *out, enum problem_kind kind, const struct problem_value *value)
{
    switch (kind) {
    case PROBLEM_INTEGER:
        fprintf(out, "%" PRId64, value->integer);
        break;
    case PROBLEM_REAL:
        print_real(out, value->real);
        break;
    case PROBLEM_WORD:
        fputs(value->word, out);
        break;
    case PROBLEM_LIST:
        print_list(out, value);
        break;
    }
}

static char *value_text(enum problem_kind kind, const struct problem_value *value)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out) {
        print_value(out, kind, value);
        if (fclose(out) != 0) {
            free(text);
            text = NULL;
        }
    }
    return text;
}

char *problem_print(const struct problem *problem)
{
    const struct problem_table *table = problem_table_of(problem);
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    const char *between = ":";
    if (!out) {
        return NULL;
    }
    fputs(table->name, out);
    for (int i = 0; i < table->key_count; ++i) {
        const struct problem_key *key = &table->keys[i];
        char *value = problem->values[i].is_given ? value_text(key->kind, &problem->values[i]) : NULL;
        if (value && !(key->default_text && strcmp(value, key->default_text) == 0)) {
            fprintf(out, "%s%s=%s", between, key->name, value);
            between = ",";
        }
        free(value);
    }
    if (*between == ':') {
        fputc(':', out);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* --- access ---------------------------------------------------------------------------------------------- */

static const struct problem_value *value_of(const struct problem *problem, const char *key)
{
    const int at = find_key(problem, key);
    assert(at >= 0);
    return &problem->values[at];
}

bool problem_is_moe(const struct problem *problem)
{
    return problem->op == PROBLEM_MOE ||
           (problem->op >= PROBLEM_MOE_PERMUTE && problem->op <= PROBLEM_MOE_UNPERMUTE_GRAD);
}

bool problem_knows(const struct problem *problem, const char *key)
{
    return find_key(problem, key) >= 0;
}

bool problem_has(const struct problem *problem, const char *key)
{
    return value_of(problem, key)->is_given;
}

int64_t problem_integer(const struct problem *problem, const char *key)
{
    return value_of(problem, key)->integer;
}

int64_t problem_integer_or(const struct problem *problem, const char *key, int64_t otherwise)
{
    return problem_has(problem, key) ? value_of(problem, key)->integer : otherwise;
}

double problem_real_or(const struct problem *problem, const char *key, double otherwise)
{
    return problem_has(problem, key) ? value_of(problem, key)->real : otherwise;
}

const char *problem_word(const struct problem *problem, const char *key)
{
    return value_of(problem, key)->word;
}

bool problem_is(const struct problem *problem, const char *key, const char *word)
{
    return strcmp(problem_word(problem, key), word) == 0;
}

const int64_t *problem_list(const struct problem *problem, const char *key, int64_t *count)
{
    *count = value_of(problem, key)->is_given ? value_of(problem, key)->count : 0;
    return value_of(problem, key)->list;
}

static struct problem_value *value_to_set(struct problem *problem, const char *key)
{
    struct problem_value *value = &problem->values[find_key(problem, key)];
    value->is_given = true;
    return value;
}

void problem_unset(struct problem *problem, const char *key)
{
    struct problem_value *value = &problem->values[find_key(problem, key)];
    value->is_given = false;
    value->count = 0;
}

bool problem_set_integer(struct problem *problem, const char *key, int64_t value)
{
    value_to_set(problem, key)->integer = value;
    return true;
}

bool problem_set_real(struct problem *problem, const char *key, double value)
{
    value_to_set(problem, key)->real = value;
    return true;
}

bool problem_set_list(struct problem *problem, const char *key, const int64_t *items, int64_t count)
{
    struct problem_value *value = value_to_set(problem, key);
    int64_t *list = realloc(value->list, (size_t)(count + 1) * sizeof *list);
    if (!list) {
        return cli_fail(CLI_IO, "%s: out of memory", key);
    }
    memcpy(list, items, (size_t)count * sizeof *list);
    value->list = list;
    value->count = count;
    return true;
}
