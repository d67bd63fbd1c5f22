/* Random numbers that are the same on every machine: integers and exact floating-point arithmetic only. */
#ifndef ACLGRAD_RANDOM_STREAM_H
#define ACLGRAD_RANDOM_STREAM_H

#include <stdint.h>

#include "cli_tensor.h"

struct random_stream {
    uint64_t state;
};

/* A stream of its own for each name, so that a tensor does not depend on the others of a call. */
struct random_stream random_stream_for(uint64_t seed, const char *name);
uint64_t random_bits(struct random_stream *stream);
int64_t random_below(struct random_stream *stream, int64_t count); /* 0 .. count - 1 */

/* Mean 0, variance 1, between -3.47 and 3.47: a sum of four uniform numbers, near enough to a normal distribution. */
double random_normal(struct random_stream *stream);

/* Fills with deviation * random_normal from the stream of the tensor's own name. */
void fill_normal(struct tensor *tensor, uint64_t seed, double deviation);

/* Makes some numbers much larger than the others: the last index below 4 times 50, the first index below 4 times 8. */
void add_outliers(struct tensor *tensor);

/* Every element becomes -|x| or |x|, times factor. */
void make_one_sided(struct tensor *tensor, double factor);

/* Every slice along the first axis becomes a copy of the first one. */
void repeat_first_row(struct tensor *tensor);

/* Slice `row` along the first axis becomes NaN. */
void poison_row(struct tensor *tensor, int64_t row);

#endif
