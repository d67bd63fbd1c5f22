#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "cli.h"

bool problem_ends(const struct problem *problem, const char *lengths_key, const char *ends_key, int64_t **ends,
                  int64_t *count)
{
    const bool has_ends = problem_has(problem, ends_key);
    *ends = NULL;
    *count = 0;
    if (!has_ends && !problem_has(problem, lengths_key)) {
        return true;
    }
    const int64_t *list = problem_list(problem, has_ends ? ends_key : lengths_key, count);
    *ends = malloc((size_t)(*count + 1) * sizeof **ends);
    if (!*ends) {
        return cli_fail(CLI_USAGE, "%s: out of memory", lengths_key);
    }
    for (int64_t i = 0; i < *count; ++i) { /* lengths are at most 2^40, and at most 2^20 of them */
        (*ends)[i] = has_ends || i == 0 ? list[i] : (*ends)[i - 1] + list[i];
    }
    return true;
}

int64_t last_end(const int64_t *ends, int64_t count)
{
    int64_t last = 0;
    for (int64_t i = 0; i < count; ++i) {
        last = ends[i] > last ? ends[i] : last;
    }
    return last;
}

/* Lengths say the same: the ends never fall. */
static bool is_rising(const int64_t *ends, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        if (ends[i] < (i ? ends[i - 1] : 0)) {
            return false;
        }
    }
    return true;
}

bool problem_set_ends(struct problem *problem, const char *lengths_key, const char *ends_key, const int64_t *ends,
                      int64_t count)
{
    if (!is_rising(ends, count)) {
        return problem_set_list(problem, ends_key, ends, count);
    }
    int64_t *lengths = malloc((size_t)(count + 1) * sizeof *lengths);
    if (!lengths) {
        return cli_fail(CLI_USAGE, "%s: out of memory", lengths_key);
    }
    for (int64_t i = 0; i < count; ++i) {
        lengths[i] = ends[i] - (i ? ends[i - 1] : 0);
    }
    const bool is_good = problem_set_list(problem, lengths_key, lengths, count);
    free(lengths);
    return is_good;
}
