#include "timing.h"

#include <stdlib.h>

#include "base/clock.h"

enum { MOST_RUNS = 100000, LEAST_RUNS = 5, LEAST_LONG_RUNS = 2 };

bool timing_begin(struct timing *timing, double seconds)
{
    *timing =
        (struct timing){.ms = malloc(MOST_RUNS * sizeof(double)), .begin_ns = ag_clock_ns(), .seconds = seconds};
    return timing->ms != NULL;
}

void timing_release(struct timing *timing)
{
    free(timing->ms);
    timing->ms = NULL;
}

int64_t timing_add(struct timing *timing, int64_t start_ns)
{
    const int64_t now = ag_clock_ns();
    if (timing->count < MOST_RUNS) {
        timing->ms[timing->count++] = (double)(now - start_ns) * 1e-6;
    }
    return now;
}

bool timing_is_enough(const struct timing *timing)
{
    if (timing->count == 0 || timing->count == MOST_RUNS) {
        return timing->count > 0;
    }
    const bool is_long = timing->seconds > 0 && timing->ms[timing->count - 1] * 1e-3 > timing->seconds;
    const int least = is_long ? LEAST_LONG_RUNS : LEAST_RUNS;
    return timing->count >= least && (double)(ag_clock_ns() - timing->begin_ns) * 1e-9 >= timing->seconds;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void timing_sort(struct timing *timing)
{
    qsort(timing->ms, (size_t)timing->count, sizeof *timing->ms, compare_doubles);
}
