/* What this machine can do at best, measured with the library's own kernels on data that sit in the nearest cache, and
 * with plain copies. "Percent of peak" is a share of these. */
#ifndef ACLGRAD_PEAKS_H
#define ACLGRAD_PEAKS_H

#include <stdbool.h>

struct peaks {
    double fma_gflops;  /* float products and sums, all threads */
    double bf16_gflops; /* the same on pairs of bf16; equals fma_gflops where the table has none */
    double copy_gbytes; /* bytes read plus bytes written by a copy that no cache holds, all threads */
    double one_fma_gflops, one_bf16_gflops, one_copy_gbytes; /* one thread */
};

/* Takes about a second. False (CLI_USAGE) when out of memory. */
bool peaks_measure(struct peaks *peaks);

#endif
