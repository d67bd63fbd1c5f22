#include "axes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

/* Names of arguments and what their indices mean. The longest fitting entry wins; a tensor of another rank has no
 * names. */
static const struct known_tensor {
    const char *name;
    int rank;
    const char *axes;
} known_tensors[] = {{"dq", 3, "token,head,dim"},
                     {"dqRope", 3, "token,head,dim"},
                     {"dk", 3, "token,head,dim"},
                     {"dkRope", 3, "token,head,dim"},
                     {"dv", 3, "token,head,dim"},
                     {"query", 3, "token,head,dim"},
                     {"queryRope", 3, "token,head,dim"},
                     {"keyIn", 3, "token,head,dim"},
                     {"key", 3, "token,head,dim"},
                     {"keyInRope", 3, "token,head,dim"},
                     {"value", 3, "token,head,dim"},
                     {"attentionIn", 3, "token,head,dim"},
                     {"attentionOut", 3, "token,head,dim"},
                     {"keyRope", 3, "token,head,dim"},
                     {"sink", 1, "head"},
                     {"dq", 4, "batch,token,head,dim"},
                     {"dk", 4, "batch,token,head,dim"},
                     {"query", 4, "batch,token,head,dim"},
                     {"key", 4, "batch,token,head,dim"},
                     {"dweights", 3, "batch,token,head"},
                     {"dweights", 2, "token,head"},
                     {"weights", 3, "batch,token,head"},
                     {"weights", 2, "token,head"},
                     {"sparseIndices", 2, "token,slot"},
                     {"sparseIndices", 3, "batch,token,slot"}, /* [B, S, K]; see below for [T, 1, K] */
                     {"sparseIndices", 4, "batch,token,head,slot"},
                     {"sparseValues", 3, "token,head,slot"},
                     {"sparseValues", 4, "batch,token,head,slot"},
                     {"dy", 3, "token,head,dim"},
                     {"dy", 2, "token,slot"},
                     {"softmaxMax", 3, "token,head,lane"},
                     {"softmaxSum", 3, "token,head,lane"},
                     {"permutedTokensGrad", 2, "row,hidden"},
                     {"permutedTokens", 2, "row,hidden"},
                     {"probsGrad", 2, "token,slot"},
                     {"probs", 2, "token,slot"},
                     {"unpermutedTokensGrad", 2, "token,hidden"},
                     {"sortedIndices", 1, "slot"},
                     {"tokens", 2, "token,hidden"},
                     {"tokenGrad", 2, "token,hidden"},
                     {"out", 2, "token,hidden"},
                     {"indices", 2, "token,slot"},
                     {"indices", 1, "token"},
                     {"permuteTokens", 2, "row,hidden"},
                     {"permuteProbs", 1, "row"},
                     {"permutedTokensOutputGrad", 2, "row,hidden"},
                     {"permutedProbsOutputGrad", 1, "row"}};
enum { KNOWN_TENSORS = sizeof known_tensors / sizeof *known_tensors };

static void find_special_axes(struct axes *axes)
{
    axes->row_axis = axes->head_axis = -1;
    for (int axis = axes->rank - 1; axis >= 0; --axis) {
        const char *name = axes->names[axis];
        axes->row_axis = strcmp(name, "token") == 0 || strcmp(name, "row") == 0 ? axis : axes->row_axis;
        axes->head_axis = strcmp(name, "head") == 0 ? axis : axes->head_axis;
    }
}

static int split_names(const char *text, struct axes *axes)
{
    int count = 0;
    while (*text && count < AG_MAX_RANK) {
        const size_t length = strcspn(text, ",");
        snprintf(axes->names[count++], AXIS_NAME, "%.*s", length < AXIS_NAME ? (int)length : AXIS_NAME - 1, text);
        text += length + (text[length] == ',');
    }
    return count;
}

struct axes axes_of_tensor(const struct tensor *tensor)
{
    struct axes axes = {.rank = tensor->rank};
    for (int axis = 0; axis < tensor->rank; ++axis) {
        snprintf(axes.names[axis], AXIS_NAME, "i%d", axis);
    }
    if (tensor->rank == 3 && tensor->dims[1] == 1 && strcmp(tensor->name, "sparseIndices") == 0) {
        split_names("token,head,slot", &axes);
        find_special_axes(&axes);
        return axes;
    }
    for (int i = 0; i < KNOWN_TENSORS; ++i) {
        if (known_tensors[i].rank == tensor->rank && strcmp(known_tensors[i].name, tensor->name) == 0) {
            split_names(known_tensors[i].axes, &axes);
            break;
        }
    }
    find_special_axes(&axes);
    return axes;
}

bool axes_parse(const char *text, const struct tensor *tensor, struct axes *axes)
{
    *axes = (struct axes){.rank = tensor->rank};
    const int count = split_names(text, axes);
    if (count != tensor->rank) {
        return cli_fail(CLI_USAGE, "--axes: %d name%s, %s has %d dim%s", count, plural(count), tensor->name,
                        tensor->rank, plural(tensor->rank));
    }
    find_special_axes(axes);
    return true;
}

int64_t axes_group_of(const struct axes *axes, int64_t row, int64_t *row_in_group)
{
    int64_t begin = 0;
    for (int64_t g = 0; axes->group && g < axes->group_count; ++g) {
        if (row < axes->group_ends[g] && row >= begin) {
            *row_in_group = row - begin;
            return g;
        }
        begin = axes->group_ends[g] > begin ? axes->group_ends[g] : begin;
    }
    *row_in_group = row;
    return -1;
}

void axes_index(const struct tensor *tensor, int64_t at, int64_t index[AG_MAX_RANK])
{
    for (int axis = tensor->rank - 1; axis >= 0; --axis) {
        index[axis] = at % tensor->dims[axis];
        at /= tensor->dims[axis];
    }
}

static int append_numbers(char *text, size_t room, const int64_t *index, int rank)
{
    int used = snprintf(text, room, " = [");
    for (int axis = 0; axis < rank; ++axis) {
        used += snprintf(text + used, room - (size_t)used, "%s%" PRId64, axis ? ", " : "", index[axis]);
    }
    return used + snprintf(text + used, room - (size_t)used, "]");
}

const char *axes_place(const struct axes *axes, const struct tensor *tensor, int64_t at, char text[PLACE_TEXT])
{
    int64_t index[AG_MAX_RANK] = {0}, row = 0, group = -1;
    int used = 0;
    axes_index(tensor, at, index);
    if (axes->group && axes->row_axis >= 0) {
        group = axes_group_of(axes, index[axes->row_axis], &row);
    }
    if (group >= 0) {
        used = snprintf(text, PLACE_TEXT, "(%s %" PRId64, axes->group, group);
    }
    /* head before token, as the operators' pages have it */
    for (int step = 0; step < axes->rank; ++step) {
        const bool swaps = axes->head_axis >= 0 && axes->row_axis >= 0 && axes->head_axis == axes->row_axis + 1;
        const int axis = swaps && step == axes->row_axis    ? axes->head_axis
                         : swaps && step == axes->head_axis ? axes->row_axis
                                                            : step;
        const int64_t number = axis == axes->row_axis && group >= 0 ? row : index[axis];
        used += snprintf(text + used, PLACE_TEXT - (size_t)used, "%s%s %" PRId64, used ? ", " : "(",
                         axes->names[axis], number);
    }
    used += snprintf(text + used, PLACE_TEXT - (size_t)used, axes->rank || group >= 0 ? ")" : "(the one element)");
    if (group >= 0) {
        append_numbers(text + used, PLACE_TEXT - (size_t)used, index, axes->rank);
    }
    return text;
}
