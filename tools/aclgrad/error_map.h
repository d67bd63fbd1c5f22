/* Where the errors are: a grid of a few cells for a whole tensor. Rows of the grid are heads, experts or sequences,
 * columns are stretches of tokens; a cell holds the worst error of its elements, as a share of the limit. */
#ifndef ACLGRAD_ERROR_MAP_H
#define ACLGRAD_ERROR_MAP_H

#include "axes.h"
#include "comparison.h"

enum { MAP_MOST_ROWS = 32, MAP_MOST_COLUMNS = 64 };

struct error_map {
    int rows, columns;
    char row_name[AXIS_NAME], column_name[AXIS_NAME];
    int64_t row_count, column_count;               /* of the tensor; a cell covers count / cells of them */
    double worst[MAP_MOST_ROWS][MAP_MOST_COLUMNS]; /* error / limit; INFINITY where NaN or inf meets another */
    bool has_limits;                               /* else errors as a share of the greatest */
};

/* result: what compare_tensors said of the same sides. */
void error_map_fill(const struct comparison_sides *sides, const struct standard *standard, const struct axes *axes,
                    const struct comparison *result, struct error_map *map);

/* Through table_line: one line per row of the map, and a legend. */
void error_map_print(const struct error_map *map);

/* The map as a picture. */
bool error_map_write_svg(const char *path, const char *title, const struct error_map *map);

#endif
