#include "table.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { MOST_COLUMNS = 24 };

static json_t *document; /* JSON: what table_finish prints */
static bool has_csv_table;

const char *number_text(char text[32], double value)
{
    if (isnan(value)) {
        memcpy(text, "nan", sizeof "nan");
        return text;
    }
    snprintf(text, 32, "%.6g", value);
    return text;
}

static int split_columns(const char *columns, char copy[512], const char *names[MOST_COLUMNS])
{
    int count = 0;
    snprintf(copy, 512, "%s", columns);
    for (char *name = strtok(copy, " "); name && count < MOST_COLUMNS; name = strtok(NULL, " ")) {
        names[count++] = name;
    }
    return count;
}

void table_init(struct table *table, const char *name, const char *columns)
{
    *table = (struct table){name, columns, json_array()};
}

static json_t *json_number(double value)
{
    char text[32];
    return isfinite(value) ? json_real(value) : json_string(number_text(text, value));
}

void table_row(struct table *table, const char *types, ...)
{
    char copy[512];
    const char *names[MOST_COLUMNS];
    const int count = split_columns(table->columns, copy, names);
    json_t *row = json_object();
    va_list values;
    va_start(values, types);
    for (int i = 0; i < count && types[i]; ++i) {
        json_t *value = NULL;
        if (types[i] == 's') {
            const char *text = va_arg(values, const char *);
            value = text ? json_string(text) : json_null();
        } else if (types[i] == 'd') {
            value = json_integer(va_arg(values, int64_t));
        } else {
            value = json_number(va_arg(values, double));
        }
        json_object_set_new(row, names[i], value ? value : json_null());
    }
    va_end(values);
    json_array_append_new(table->rows, row);
}

/* --- text and CSV ---------------------------------------------------------------------------------------- */

static const char *cell_text(const json_t *row, const char *column, char text[32])
{
    const json_t *value = json_object_get(row, column);
    if (json_is_string(value)) {
        return json_string_value(value);
    }
    if (json_is_integer(value)) {
        snprintf(text, 32, "%lld", (long long)json_integer_value(value));
        return text;
    }
    return json_is_real(value) ? number_text(text, json_real_value(value)) : "";
}

static bool is_number(const json_t *row, const char *column)
{
    return json_is_number(json_object_get(row, column));
}

/* Columns the eye reads: characters, not bytes of UTF-8. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; ++text) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

static void print_cell(const char *text, int width, bool at_right, bool is_last)
{
    const int pad = width - width_of(text);
    if (at_right) {
        printf("%*s%s", pad, "", text);
    } else {
        printf("%s%*s", text, is_last ? 0 : pad, "");
    }
    fputs(is_last ? "\n" : "  ", stdout);
}

static void print_text(const struct table *table, const char *const *names, int count)
{
    int widths[MOST_COLUMNS];
    char text[32];
    size_t i;
    const json_t *row;
    for (int c = 0; c < count; ++c) {
        widths[c] = width_of(names[c]);
        json_array_foreach(table->rows, i, row)
        {
            const int width = width_of(cell_text(row, names[c], text));
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    for (int c = 0; c < count; ++c) {
        print_cell(names[c], widths[c], is_number(json_array_get(table->rows, 0), names[c]), c + 1 == count);
    }
    json_array_foreach(table->rows, i, row)
    {
        for (int c = 0; c < count; ++c) {
            print_cell(cell_text(row, names[c], text), widths[c], is_number(row, names[c]), c + 1 == count);
        }
    }
}

static void print_csv_cell(const char *text, bool is_last)
{
    if (strpbrk(text, ",\"\n\r")) {
        putchar('"');
        for (; *text; ++text) {
            printf(*text == '"' ? "\"\"" : "%c", *text);
        }
        putchar('"');
    } else {
        fputs(text, stdout);
    }
    putchar(is_last ? '\n' : ',');
}

static void print_csv(const struct table *table, const char *const *names, int count)
{
    size_t i;
    const json_t *row;
    char text[32];
    for (int c = 0; c < count; ++c) {
        print_csv_cell(names[c], c + 1 == count);
    }
    json_array_foreach(table->rows, i, row)
    {
        for (int c = 0; c < count; ++c) {
            print_csv_cell(cell_text(row, names[c], text), c + 1 == count);
        }
    }
}

/* --- all ------------------------------------------------------------------------------------------------- */

void table_print(struct table *table)
{
    char copy[512];
    const char *names[MOST_COLUMNS];
    const int count = split_columns(table->columns, copy, names);
    if (cli.format == CLI_JSON) {
        table_set(table->name, json_incref(table->rows));
    } else if (cli.format == CLI_CSV) {
        if (!has_csv_table) {
            print_csv(table, names, count);
        }
        has_csv_table = true;
    } else {
        print_text(table, names, count);
    }
    table_discard(table);
}

void table_discard(struct table *table)
{
    json_decref(table->rows);
    table->rows = NULL;
}

void table_line(const char *format, ...)
{
    if (cli.format == CLI_TEXT) {
        va_list arguments;
        va_start(arguments, format);
        vprintf(format, arguments);
        va_end(arguments);
        putchar('\n');
    }
}

/* A table of a name that is there already gets the new rows behind its own. */
void table_set(const char *name, json_t *value)
{
    if (cli.format != CLI_JSON) {
        json_decref(value);
        return;
    }
    document = document ? document : json_object();
    json_t *old = json_object_get(document, name);
    if (json_is_array(old) && json_is_array(value)) {
        json_array_extend(old, value);
        json_decref(value);
    } else {
        json_object_set_new(document, name, value);
    }
}

void table_finish(const char *command)
{
    if (cli.format == CLI_JSON) {
        table_set("command", json_string(command));
        json_dumpf(document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9) | JSON_SORT_KEYS);
        putchar('\n');
        json_decref(document);
        document = NULL;
    }
    fflush(stdout);
}
