/* Kernels of the mixture-of-experts operators: rows of hidden-size vectors, scaled, dotted, copied, cleared.
 *
 * `streams` asks for stores that bypass the caches, for outputs too large to be read again from them; it does not
 * change any bit of the result. Rows may lie at any address that fits their element type. */
#ifndef AG_KERNEL_MOE_KERNELS_H
#define AG_KERNEL_MOE_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

/* One slot: an expert's share in one token. */
struct ag_moe_slot {
    const void *grad;   /* [H] gradient of the token */
    const void *tokens; /* [H] what the expert had returned for it */
    void *grad_out;     /* [H] gradient of that; overlaps nothing that is read */
    float prob;         /* weight of the expert */
    float dot;          /* result */
};

/* A weighted sum of rows. */
struct ag_moe_term {
    const void *row; /* [H] */
    float weight;
};
struct ag_moe_sum {
    const struct ag_moe_term *terms;
    int64_t count; /* of terms */
    void *out;     /* [H]; overlaps nothing that is read */
};

struct ag_moe_kernels {
    /* scale_dot is faster with `streams` where its outputs do not fit the caches. */
    bool streams_products;

    /* Indexed by the element type of the three rows. (The type of probs never enters an inner loop: a weight is widened
     * once per row by the caller.) Equals, with one rounding of the product to float and one to the element type,
     *
     *     for (int64_t s = 0; s < count; ++s) {
     *         for (int64_t h = 0; h < hidden; ++h) slots[s].grad_out[h] = slots[s].grad[h] * slots[s].prob;
     *         slots[s].dot = sum over h of slots[s].tokens[h] * slots[s].grad[h];
     *     }
     *
     * The sum runs in float in at least 16 partial sums and a tree, in an order that depends on `hidden` alone. */
    void (*scale_dot[AG_ELEM_COUNT])(struct ag_moe_slot *slots, int64_t count, int64_t hidden, bool streams);

    /* Indexed by the element type of the rows. Equals, with the products and sums in float and one rounding of the sum,
     *
     *     for (int64_t s = 0; s < count; ++s) {
     *         for (int64_t h = 0; h < hidden; ++h) {
     *             sums[s].out[h] = sum over c in order of sums[s].terms[c].row[h] * sums[s].terms[c].weight;
     *         }
     *     }
     *
     * A sum starts with its first product, so that one term with weight 1 comes out as it is; no term gives +0. */
    void (*sum_rows[AG_ELEM_COUNT])(const struct ag_moe_sum *sums, int64_t count, int64_t hidden, bool streams);

    /* The bytes of a row, unchanged; nothing overlaps. */
    void (*copy_row)(void *to, const void *from, int64_t bytes, bool streams);
    void (*zero_row)(void *to, int64_t bytes, bool streams);

    /* Ends a thread's streamed stores: what it does next comes after them. */
    void (*fence)(void);
};

#endif
