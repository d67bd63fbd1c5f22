/* Runs of one problem: how long each took, and when they are enough. */
#ifndef ACLGRAD_TIMING_H
#define ACLGRAD_TIMING_H

#include <stdbool.h>
#include <stdint.h>

struct timing {
    double *ms; /* [count], ascending once sorted */
    int count;
    int64_t begin_ns;
    double seconds;
};

/* Measuring begins now and is to last so many seconds. False: out of memory. Whatever it returns, release it. */
bool timing_begin(struct timing *timing, double seconds);
void timing_release(struct timing *timing);

/* A run from start_ns until now; returns now. */
int64_t timing_add(struct timing *timing, int64_t start_ns);

/* The seconds are over, and there were 5 runs, or 2 where one takes longer than the seconds and these are not 0. */
bool timing_is_enough(const struct timing *timing);

void timing_sort(struct timing *timing);

#endif
