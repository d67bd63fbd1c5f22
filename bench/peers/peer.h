/* The peers: the product's work, done through other libraries' matrix products, each in the best form found. One program,
 * `aclgrad_peers --peer NAME PROBLEM...`; it holds each result against the product's before it measures it. */
#ifndef ACLGRAD_PEER_H
#define ACLGRAD_PEER_H

#include "call.h"

/* C[rows][cols] (+)= A B, row-major, sums in float. A is [rows][depth] or, turned, [depth][rows]; B is [depth][cols] or,
 * turned, [cols][depth]. Strides from row to row in elements. */
struct product {
    int64_t rows, cols, depth;
    int64_t a_stride, b_stride, c_stride;
    bool is_a_turned, is_b_turned;
    bool accumulates;
    bool is_bf16; /* A and B; else float */
};

/* A library of matrix products. A lane is what one thread needs; products of one thread, on that thread. */
struct backend {
    const char *name;
    bool (*has_bf16)(void); /* on this CPU; else, and where it is NULL, the work is done in float */
    void *(*open_lane)(void);
    void (*close_lane)(void *lane);
    void (*multiply)(void *lane, const struct product *product, const void *a, const void *b, float *c);
};
extern const struct backend onednn_backend, openblas_backend;

/* One operator's work, ready to run any number of times. */
struct peer_work {
    void *state;
    void (*run)(void *state);
    void (*close)(void *state);
};

/* False: this peer cannot do it. `outputs` are as the operation makes them; backend is NULL for the plain loop. */
bool open_attention(struct peer_work *work, const struct call *call, struct tensor_set *outputs,
                    const struct backend *);
bool open_indexer(struct peer_work *work, const struct call *call, struct tensor_set *outputs,
                  const struct backend *);
bool open_moe(struct peer_work *work, const struct call *call, struct tensor_set *outputs, const struct backend *);

/* Zeroed memory of one lane; take ends the program when there is none. */
struct blocks {
    void *items[24];
    int count;
};
void *take(struct blocks *blocks, int64_t elems); /* of 4 bytes */
void release(struct blocks *blocks);

/* --- elements: loops that compilers turn into vectors (memory.c) ---------------------------------------- */

/* count floats from an array of a tensor's type, and back, rounded to nearest even. */
void widen(float *to, int dtype, const void *from, int64_t at, int64_t count);
void narrow(int dtype, void *to, int64_t at, const float *from, int64_t count);

/* Rows of a tensor's slice, at[row * stride], to dense rows: of bf16 as they are (is_bf16), else of floats. */
void pack(void *to, int64_t to_stride, bool is_bf16, const struct tensor *from, int64_t at, int64_t from_stride,
          int64_t rows, int64_t cols);

#endif
