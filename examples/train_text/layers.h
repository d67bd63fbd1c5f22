/* The plain layers: each forward with its backward. Matrices are row-major; a weight is [inputs, outputs].
 * Backward functions add to the gradients of parameters, and to those of inputs. */
#ifndef TRAIN_TEXT_LAYERS_H
#define TRAIN_TEXT_LAYERS_H

#include "real.h"

/* y[r, o] = sum over i of x[r, i] w[i, o]. Through CBLAS. */
void linear_forward(real *y, const real *x, const real *w, int64_t rows, int64_t inputs, int64_t outputs);
/* dx += dy w^T (unless NULL), dw += x^T dy. */
void linear_backward(real *dx, real *dw, const real *dy, const real *x, const real *w, int64_t rows, int64_t inputs,
                     int64_t outputs);
/* One thread for products, whatever the environment says: their bits would depend on the number. */
void linear_use_one_thread(void);

/* y[r, i] = x[r, i] gain[i] / root mean square of row r. Keeps the inverse roots, [rows]. */
void norm_forward(real *y, real *inverse, const real *x, const real *gain, int64_t rows, int64_t width);
void norm_backward(real *dx, real *dgain, const real *dy, const real *x, const real *inverse, const real *gain,
                   int64_t rows, int64_t width);

/* hidden = silu(gate) * up. */
void gate_forward(real *hidden, const real *gate, const real *up, int64_t count);
void gate_backward(real *dgate, real *dup, const real *dhidden, const real *gate, const real *up, int64_t count);

/* Rotary embedding: pairs of neighbours among the first `dim` of each stride of x [tokens, heads, stride] turn by angles
 * that grow with the position. The table, [tokens, dim / 2, 2], holds cosines and sines. Direction -1 turns back, which is
 * the backward of 1. */
void rotary_table(real *table, const int64_t *position, int64_t tokens, int64_t dim);
void rotary_turn(real *x, const real *table, int64_t tokens, int64_t heads, int64_t stride, int64_t dim,
                 int direction);

/* Mean over rows of -log softmax(logits)[target], in nats; logits [rows, classes] become its gradient. */
double cross_entropy(real *logits, const uint8_t *target, int64_t rows, int64_t classes);

/* In place. */
void softmax(real *x, int64_t count);

/* to += from */
void add(real *to, const real *from, int64_t count);

#endif
