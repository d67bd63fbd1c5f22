/* What this machine can do at best, measured with the library's own kernels on data that sit in the nearest cache, and
 * with copies past all caches. "Percent of peak" is a share of these.
 *
 * Machines are noisy: clocks move, neighbours come and go. So a rate and its peak are measured in turns, over stretches of
 * the same length, and the best of each counts. */
#ifndef ACLGRAD_PEAKS_H
#define ACLGRAD_PEAKS_H

#include <stdbool.h>
#include <stdint.h>

enum peak_kind {
    PEAK_FMA, /* float products and sums */
    PEAK_BF16, /* the same on pairs of bf16, by tiles where the kernel table has them; as PEAK_FMA where it has neither */
    PEAK_COPY /* bytes read plus bytes written by a copy with stores that bypass the caches */
};

struct peak_meter;

/* A meter for `threads` threads; for PEAK_COPY, of bursts that move `bytes` (cut to 16 MB .. 2 GB), else of bursts of some
 * milliseconds. NULL (CLI_USAGE) when out of memory. */
struct peak_meter *peak_meter_create(enum peak_kind kind, int threads, double bytes);
void peak_meter_destroy(struct peak_meter *meter); /* NULL is fine */

/* A burst that lasts `least_ns` or a little longer: its rate, in 1e9 operations or bytes a second. */
double peak_meter_burst(struct peak_meter *meter, int64_t least_ns);

/* The best of bursts over about a sixth of a second; 0 (CLI_USAGE) when out of memory. */
double peak_measure(enum peak_kind kind, int threads);

#endif
