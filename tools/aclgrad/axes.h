/* What the indices of a tensor mean: "(batch 1, head 2, token 17, dim 5)". */
#ifndef ACLGRAD_AXES_H
#define ACLGRAD_AXES_H

#include "cli_tensor.h"

enum { AXIS_NAME = 16 };

struct axes {
    int rank;
    char names[AG_MAX_RANK][AXIS_NAME]; /* "token", "head", "dim"; unknown ones "i0", "i1", ... */
    int row_axis, head_axis;            /* -1: none */
    /* Rows in groups: sequences of a pack, experts of the sorted order. Group g holds the rows from where group g - 1
     * ends to group_ends[g]. */
    const char *group; /* "batch", "expert", or NULL: none */
    const int64_t *group_ends;
    int64_t group_count;
};

/* By the tensor's name (those of the operators' arguments) and rank; else i0, i1, .... */
struct axes axes_of_tensor(const struct tensor *tensor);

/* "token,head,dim" (--axes). CLI_USAGE when the number of names is not the rank. */
bool axes_parse(const char *text, const struct tensor *tensor, struct axes *axes);

/* The group that holds the row, and the row within it; -1 beyond the last. */
int64_t axes_group_of(const struct axes *axes, int64_t row, int64_t *row_in_group);

/* Index along each axis of element `at`. */
void axes_index(const struct tensor *tensor, int64_t at, int64_t index[AG_MAX_RANK]);

/* "(batch 1, head 2, token 17, dim 5)", and " = [117, 2, 5]" behind it where groups renumber the rows. */
enum { PLACE_TEXT = 256 };
const char *axes_place(const struct axes *axes, const struct tensor *tensor, int64_t at, char text[PLACE_TEXT]);

#endif
