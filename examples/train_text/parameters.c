#include "parameters.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int parameters_declare(struct parameters *parameters, int64_t rows, int64_t columns, double deviation,
                       const char *format, ...)
{
    assert(parameters->count < MOST_PARAMETERS && !parameters->value);
    struct parameter *parameter = &parameters->table[parameters->count];
    *parameter =
        (struct parameter){.begin = parameters->size, .rows = rows, .columns = columns, .deviation = deviation};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(parameter->name, sizeof parameter->name, format, arguments);
    va_end(arguments);
    parameters->size += rows * columns;
    return parameters->count++;
}

void parameters_create(struct parameters *parameters, uint64_t seed)
{
    parameters->value = reals(parameters->size);
    parameters->gradient = reals(parameters->size);
    parameters->first_moment = reals(parameters->size);
    parameters->second_moment = reals(parameters->size);
    for (int number = 0; number < parameters->count; ++number) {
        const struct parameter *parameter = &parameters->table[number];
        real *value = parameter_value(parameters, number);
        for (int64_t i = 0; i < parameter->rows * parameter->columns; ++i) {
            const double drawn = random_normal(seed, (uint64_t)number, (uint64_t)i) * parameter->deviation;
            value[i] = parameter->deviation > 0 ? (real)drawn : 1;
        }
    }
}

void parameters_destroy(struct parameters *parameters)
{
    free(parameters->value);
    free(parameters->gradient);
    free(parameters->first_moment);
    free(parameters->second_moment);
}

static double gradient_norm(const struct parameters *parameters)
{
    double square = 0;
    for (int64_t i = 0; i < parameters->size; ++i) {
        square += (double)parameters->gradient[i] * (double)parameters->gradient[i];
    }
    return sqrt(square);
}

double parameters_step(struct parameters *parameters, const struct adamw *adamw, int64_t step)
{
    const double norm = gradient_norm(parameters);
    const real cut = (real)(norm > adamw->most_norm ? adamw->most_norm / norm : 1);
    const real b1 = (real)adamw->first_decay, b2 = (real)adamw->second_decay;
    const real unbias1 = (real)(1 / (1 - pow(adamw->first_decay, (double)step)));
    const real unbias2 = (real)(1 / (1 - pow(adamw->second_decay, (double)step)));
    for (int number = 0; number < parameters->count; ++number) {
        const struct parameter *parameter = &parameters->table[number];
        const real keep = (real)(1 - (parameter->deviation > 0 ? adamw->rate * adamw->weight_decay : 0));
        const int64_t end = parameter->begin + parameter->rows * parameter->columns;
        for (int64_t i = parameter->begin; i < end; ++i) {
            const real gradient = parameters->gradient[i] * cut;
            real *first = &parameters->first_moment[i], *second = &parameters->second_moment[i];
            *first = b1 * *first + (1 - b1) * gradient;
            *second = b2 * *second + (1 - b2) * gradient * gradient;
            const real change = *first * unbias1 / (real_sqrt(*second * unbias2) + (real)1e-8);
            parameters->value[i] = parameters->value[i] * keep - (real)adamw->rate * change;
        }
    }
    memset(parameters->gradient, 0, (size_t)parameters->size * sizeof(real));
    return norm;
}
