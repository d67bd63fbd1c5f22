#include "layers.h"

#include <cblas.h>
#include <math.h>

#ifdef TRAIN_TEXT_DOUBLE
#    define PRODUCT cblas_dgemm
#else
#    define PRODUCT cblas_sgemm
#endif

static const double norm_epsilon = 1e-6, rotary_base = 10000;

void linear_use_one_thread(void)
{
    openblas_set_num_threads(1);
}

void linear_forward(real *y, const real *x, const real *w, int64_t rows, int64_t inputs, int64_t outputs)
{
    if (rows > 0) {
        PRODUCT(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)outputs, (int)inputs, 1, x, (int)inputs, w,
                (int)outputs, 0, y, (int)outputs);
    }
}

void linear_backward(real *dx, real *dw, const real *dy, const real *x, const real *w, int64_t rows, int64_t inputs,
                     int64_t outputs)
{
    if (rows <= 0) {
        return;
    }
    if (dx) {
        PRODUCT(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)inputs, (int)outputs, 1, dy, (int)outputs, w,
                (int)outputs, 1, dx, (int)inputs);
    }
    PRODUCT(CblasRowMajor, CblasTrans, CblasNoTrans, (int)inputs, (int)outputs, (int)rows, 1, x, (int)inputs, dy,
            (int)outputs, 1, dw, (int)outputs);
}

void norm_forward(real *y, real *inverse, const real *x, const real *gain, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
        real square = 0;
        for (int64_t i = 0; i < width; ++i) {
            square += x[i] * x[i];
        }
        inverse[r] = (real)(1 / sqrt((double)square / (double)width + norm_epsilon));
        for (int64_t i = 0; i < width; ++i) {
            y[i] = x[i] * inverse[r] * gain[i];
        }
    }
}

void norm_backward(real *dx, real *dgain, const real *dy, const real *x, const real *inverse, const real *gain,
                   int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; ++r, x += width, dx += width, dy += width) {
        const real inv = inverse[r];
        real along = 0; /* of the gradient along x: what growing x as a whole would change, and the norm takes away */
        for (int64_t i = 0; i < width; ++i) {
            dgain[i] += dy[i] * x[i] * inv;
            along += dy[i] * gain[i] * x[i];
        }
        along *= inv * inv * inv / (real)width;
        for (int64_t i = 0; i < width; ++i) {
            dx[i] += dy[i] * gain[i] * inv - x[i] * along;
        }
    }
}

static real sigmoid(real x)
{
    return 1 / (1 + real_exp(-x));
}

void gate_forward(real *hidden, const real *gate, const real *up, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        hidden[i] = gate[i] * sigmoid(gate[i]) * up[i];
    }
}

void gate_backward(real *dgate, real *dup, const real *dhidden, const real *gate, const real *up, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        const real s = sigmoid(gate[i]);
        dup[i] = dhidden[i] * gate[i] * s;
        dgate[i] = dhidden[i] * up[i] * s * (1 + gate[i] * (1 - s));
    }
}

void rotary_table(real *table, const int64_t *position, int64_t tokens, int64_t dim)
{
    for (int64_t d = 0; d < dim; d += 2) {
        const double step = pow(rotary_base, -(double)d / (double)dim);
        for (int64_t t = 0; t < tokens; ++t) {
            table[t * dim + d] = (real)cos((double)position[t] * step);
            table[t * dim + d + 1] = (real)sin((double)position[t] * step);
        }
    }
}

void rotary_turn(real *x, const real *table, int64_t tokens, int64_t heads, int64_t stride, int64_t dim,
                 int direction)
{
    for (int64_t t = 0; t < tokens; ++t, table += dim) {
        for (int64_t h = 0; h < heads; ++h, x += stride) {
            for (int64_t d = 0; d < dim; d += 2) {
                const real a = x[d], b = x[d + 1], c = table[d], s = (real)direction * table[d + 1];
                x[d] = a * c - b * s;
                x[d + 1] = a * s + b * c;
            }
        }
    }
}

void softmax(real *x, int64_t count)
{
    real largest = count > 0 ? x[0] : 0;
    double sum = 0;
    for (int64_t i = 1; i < count; ++i) {
        largest = x[i] > largest ? x[i] : largest;
    }
    for (int64_t i = 0; i < count; ++i) {
        x[i] = real_exp(x[i] - largest);
        sum += (double)x[i];
    }
    for (int64_t i = 0; i < count; ++i) {
        x[i] = (real)((double)x[i] / sum);
    }
}

double cross_entropy(real *logits, const uint8_t *target, int64_t rows, int64_t classes)
{
    double loss = 0;
    for (int64_t r = 0; r < rows; ++r, logits += classes) {
        const real wanted = logits[target[r]];
        real largest = wanted;
        double sum = 0;
        for (int64_t c = 0; c < classes; ++c) {
            largest = logits[c] > largest ? logits[c] : largest;
        }
        for (int64_t c = 0; c < classes; ++c) {
            logits[c] = real_exp(logits[c] - largest);
            sum += (double)logits[c];
        }
        loss += log(sum) - (double)(wanted - largest);
        for (int64_t c = 0; c < classes; ++c) {
            logits[c] = (real)((double)logits[c] / sum / (double)rows);
        }
        logits[target[r]] -= (real)(1.0 / (double)rows);
    }
    return loss / (double)rows;
}

void add(real *to, const real *from, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        to[i] += from[i];
    }
}
