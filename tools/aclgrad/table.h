/* Results on stdout: tables, as aligned text, as JSON or as CSV.
 *
 *   text   tables as they come, with free lines between them
 *   JSON   one object at the end: {"command": "check", "results": [{...}, ...], "<other table>": [...], ...}
 *   CSV    the first table alone: a line of column names, then a line per row
 *
 * Column names are stable and listed in the manual. Numbers that JSON does not know are the strings "inf", "-inf", "nan". */
#ifndef ACLGRAD_TABLE_H
#define ACLGRAD_TABLE_H

#include <jansson.h>
#include <stdbool.h>

struct table {
    const char *name;
    const char *columns; /* names, separated by spaces */
    json_t *rows;        /* of objects */
};

void table_init(struct table *table, const char *name, const char *columns);

/* One value per column, as `types` says: s const char * (NULL: empty), d int64_t, g double. */
void table_row(struct table *table, const char *types, ...);

/* Text and CSV: prints it now. JSON: keeps it for table_finish. Frees. */
void table_print(struct table *table);

/* Frees without printing; harmless on a table that was printed. */
void table_discard(struct table *table);

/* Text only. */
void table_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* JSON only: a value beside the tables. */
void table_set(const char *name, json_t *value);

/* Ends a command's output. */
void table_finish(const char *command);

/* Six digits, "inf", "nan". */
const char *number_text(char text[32], double value);

#endif
