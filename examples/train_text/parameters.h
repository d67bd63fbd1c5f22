/* What is learned: named matrices in one array, their gradients in another of the same order, and AdamW. */
#ifndef TRAIN_TEXT_PARAMETERS_H
#define TRAIN_TEXT_PARAMETERS_H

#include <stdbool.h>

#include "real.h"

enum { MOST_PARAMETERS = 256, MOST_NAME = 32 };

struct parameter {
    char name[MOST_NAME];
    int64_t begin, rows, columns; /* elements [begin, begin + rows * columns), row-major */
    double deviation;             /* of the normal start values; 0: all ones (the gains of norms) */
};

struct parameters {
    struct parameter table[MOST_PARAMETERS];
    int count;
    int64_t size;                                          /* elements in all */
    real *value, *gradient, *first_moment, *second_moment; /* [size] */
};

/* Declares one; returns its number in the table. All are declared before the storage is made. */
int parameters_declare(struct parameters *parameters, int64_t rows, int64_t columns, double deviation,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));
void parameters_create(struct parameters *parameters, uint64_t seed);
void parameters_destroy(struct parameters *parameters);

static inline real *parameter_value(const struct parameters *parameters, int number)
{
    return parameters->value + parameters->table[number].begin;
}
static inline real *parameter_gradient(const struct parameters *parameters, int number)
{
    return parameters->gradient + parameters->table[number].begin;
}

/* One step of AdamW (decay of matrices, not of gains) on gradients cut to the norm `most_norm`; then they are zero again.
 * `step` counts from 1. Returns the norm before the cut. */
struct adamw {
    double rate, first_decay, second_decay, weight_decay, most_norm;
};
double parameters_step(struct parameters *parameters, const struct adamw *adamw, int64_t step);

#endif
