/* The type the model computes in: float to train, double where a test compares gradients with differences. */
#ifndef TRAIN_TEXT_REAL_H
#define TRAIN_TEXT_REAL_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef TRAIN_TEXT_DOUBLE
typedef double real;
#    define real_exp  exp
#    define real_sqrt sqrt
#else
typedef float real;
#    define real_exp  expf
#    define real_sqrt sqrtf
#endif

/* Memory for `count` things, zeroed. Ends the program when there is none: an example has nothing better to do. */
void *zeroed(int64_t count, size_t size);
static inline real *reals(int64_t count)
{
    return zeroed(count, sizeof(real));
}

/* The `index`-th number of stream `stream` of a seed: the same on every machine, whatever was drawn before. */
uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index);
double random_uniform(uint64_t seed, uint64_t stream, uint64_t index); /* [0, 1) */
double random_normal(uint64_t seed, uint64_t stream, uint64_t index);

#endif
