#include "error_map.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "table.h"
#include "tensor_file.h"

/* Which index of an element counts for one side of the map. */
struct side {
    int axis;        /* -1: all in one cell */
    bool is_grouped; /* rows by their group */
    int64_t count;
    int cells;
};

static struct side make_side(const struct axes *axes, const struct tensor *tensor, int axis, bool is_grouped,
                             int most)
{
    struct side side = {axis, is_grouped, 1, 1};
    side.count = axis < 0 ? 1 : is_grouped ? axes->group_count + 1 : tensor->dims[axis];
    side.cells = side.count < most ? (int)side.count : most;
    return side;
}

static int cell_of(const struct side *side, const struct axes *axes, const int64_t *index)
{
    int64_t number = side->axis < 0 ? 0 : index[side->axis], unused;
    if (side->is_grouped) {
        number = axes_group_of(axes, number, &unused);
        number = number < 0 ? axes->group_count : number; /* padding: behind the last group */
    }
    return (int)(number * side->cells / side->count);
}

/* Heads against tokens; without heads groups against tokens; else the first axis against the second. */
static void choose_sides(const struct axes *axes, const struct tensor *tensor, struct side *rows,
                         struct side *columns)
{
    int row_axis = axes->head_axis, column_axis = axes->row_axis;
    const bool is_grouped = row_axis < 0 && axes->group && column_axis >= 0;
    row_axis = is_grouped ? column_axis : row_axis;
    if (row_axis < 0 && tensor->rank > 1) {
        row_axis = column_axis == 0 ? 1 : 0;
    }
    if (column_axis < 0) {
        column_axis = row_axis == 0 && tensor->rank > 1 ? 1 : row_axis < 0 ? tensor->rank - 1 : 0;
    }
    if (row_axis == column_axis && !is_grouped) {
        row_axis = -1;
    }
    *rows = make_side(axes, tensor, row_axis, is_grouped, MAP_MOST_ROWS);
    *columns = make_side(axes, tensor, column_axis, false, MAP_MOST_COLUMNS);
}

static double badness_of(const struct comparison_sides *s, const struct standard *standard,
                         const struct comparison *result, int64_t at)
{
    const struct tensor *golden = s->trusted ? s->trusted : s->want;
    const double got = tensor_get(s->got, at), want = tensor_get(golden, at);
    const double error = standard->rule == STANDARD_BITS ? bits_error(s->got, golden, at)
                                                         : element_error(s->got->dtype, golden->dtype, got, want);
    const double limit = standard_limit(standard, s->got->dtype, want, s->bound ? tensor_get(s->bound, at) : NAN);
    return error == 0     ? 0
           : isinf(error) ? INFINITY
           : isnan(limit) ? error / result->max_error
           : limit > 0    ? error / limit
                          : INFINITY;
}

void error_map_fill(const struct comparison_sides *s, const struct standard *standard, const struct axes *axes,
                    const struct comparison *result, struct error_map *map)
{
    struct side rows, columns;
    memset(map, 0, sizeof *map);
    choose_sides(axes, s->got, &rows, &columns);
    map->rows = rows.cells;
    map->columns = columns.cells;
    map->row_count = rows.count;
    map->column_count = columns.count;
    map->has_limits = !isnan(standard_limit(standard, s->got->dtype, 1, 1));
    snprintf(map->row_name, AXIS_NAME, "%s",
             rows.is_grouped  ? axes->group
             : rows.axis >= 0 ? axes->names[rows.axis]
                              : "all");
    snprintf(map->column_name, AXIS_NAME, "%s", columns.axis >= 0 ? axes->names[columns.axis] : "all");
    const struct tensor *golden = s->trusted ? s->trusted : s->want;
    const int64_t elems = result->max_error > 0 ? s->got->elems : 0;
    for (int64_t at = 0; at < elems && (at = next_difference(s->got, golden, at)) < elems; ++at) {
        const double badness = badness_of(s, standard, result, at);
        if (badness > 0) {
            int64_t index[AG_MAX_RANK] = {0};
            axes_index(s->got, at, index);
            double *cell = &map->worst[cell_of(&rows, axes, index)][cell_of(&columns, axes, index)];
            *cell = badness > *cell ? badness : *cell;
        }
    }
}

/* --- text ------------------------------------------------------------------------------------------------ */

static char symbol_of(const struct error_map *map, double badness)
{
    if (!map->has_limits) { /* ninths of the greatest error */
        return badness <= 0 ? '.' : isinf(badness) || isnan(badness) ? '#' : "0123456789"[(int)(badness * 9.0)];
    }
    return badness <= 0 ? '.' : badness <= 1 ? '-' : badness <= 2 ? '+' : badness <= 10 ? '*' : '#';
}

void error_map_print(const struct error_map *map)
{
    table_line("map: %s down (%" PRId64 "), %s across (%" PRId64 ")", map->row_name, map->row_count, map->column_name,
               map->column_count);
    for (int row = 0; row < map->rows; ++row) {
        char line[MAP_MOST_COLUMNS + 1] = {0};
        for (int column = 0; column < map->columns; ++column) {
            line[column] = symbol_of(map, map->worst[row][column]);
        }
        table_line("%8" PRId64 " %s", row * map->row_count / map->rows, line);
    }
    table_line(map->has_limits
                   ? "  . exact  - within the limit  + up to 2x  * up to 10x  # beyond, or NaN or infinity"
                   : "  . exact  0 to 9 share of the greatest error  # NaN or infinity");
}

/* --- SVG ------------------------------------------------------------------------------------------------- */

static const char *colour_of(const struct error_map *map, double badness)
{
    switch (symbol_of(map, badness)) {
    case '.':
        return "#eef2f5";
    case '-':
    case '0':
    case '1':
    case '2':
        return "#9ecae1";
    case '+':
    case '3':
    case '4':
    case '5':
        return "#fdd0a2";
    case '*':
    case '6':
    case '7':
    case '8':
        return "#f16913";
    default:
        return "#a50f15";
    }
}

/* Text that is safe inside an element. */
static void print_escaped(FILE *out, const char *text)
{
    for (; *text; ++text) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

static void print_svg(FILE *out, const char *title, const struct error_map *map)
{
    enum { CELL = 14, LEFT = 90, TOP = 50 };
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<text x=\"10\" y=\"20\">",
            LEFT + map->columns * CELL + 20, TOP + map->rows * CELL + 40);
    print_escaped(out, title);
    fprintf(out, "</text>\n<text x=\"%d\" y=\"42\">", LEFT);
    print_escaped(out, map->column_name);
    fprintf(out, " 0 to %" PRId64 "</text>\n", map->column_count - 1);
    for (int row = 0; row < map->rows; ++row) {
        fprintf(out, "<text x=\"10\" y=\"%d\">", TOP + row * CELL + 11);
        print_escaped(out, map->row_name);
        fprintf(out, " %" PRId64 "</text>\n", row * map->row_count / map->rows);
        for (int column = 0; column < map->columns; ++column) {
            const double badness = map->worst[row][column];
            fprintf(out,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"><title>%.4g</title></rect>\n",
                    LEFT + column * CELL, TOP + row * CELL, CELL - 1, CELL - 1, colour_of(map, badness), badness);
        }
    }
    fprintf(out, "<text x=\"10\" y=\"%d\">%s</text>\n</svg>\n", TOP + map->rows * CELL + 24,
            map->has_limits
                ? "grey exact, blue within the limit, light orange to 2x, orange to 10x, red beyond or NaN"
                : "grey exact; blue, light orange, orange, red: share of the greatest error");
}

bool error_map_write_svg(const char *path, const char *title, const struct error_map *map)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) {
        return cli_fail(CLI_IO, "%s: out of memory", path);
    }
    print_svg(out, title, map);
    const bool is_good = fclose(out) == 0 && output_text(path, text);
    free(text);
    return is_good;
}
