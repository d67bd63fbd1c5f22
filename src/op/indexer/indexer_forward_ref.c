/* The definition of the scores, in double, and beside each the bound that a right implementation keeps: one that
 * multiplies elements exactly and adds in fp32 in any order. Plain loops in the order of the formula.
 *
 *     P[h,t] = q[r,h] . k[t]
 *     I[r,t] = sum over h of  w[r,h] relu(P[h,t])
 *
 * relu does not increase an error, so that of P, D roundings of its terms' sizes, goes on weighted by |w|; the product
 * with w and the sum over heads add N + 1 more of the same sizes at most. */
#include <math.h>

#include "base/check.h"
#include "base/elem.h"
#include "base/memory.h"
#include "op/indexer/indexer_forward.h"

#define EPS   0x1p-24 /* unit roundoff of fp32 */
#define LARGE 0x1p126 /* far enough from fp32's end */

/* The row and the key at hand; what bf16 products may lose: instructions take subnormal operands for zero. */
struct reference_run {
    const struct indexer_forward_problem *p;
    double *query;   /* [N, D] */
    double *weights; /* [N] */
    double *key;     /* [D] */
    void *raw;       /* [D] of the tensor's type */
    double flush;    /* of one product, per unit of the other operand */
};

static void *allocate(struct reference_run *run)
{
    const int64_t heads = run->p->heads, dim = run->p->dim;
    double *block = ag_alloc_zeroed((size_t)(heads * dim + heads + 2 * dim) * sizeof *block);
    if (block) {
        run->query = block;
        run->weights = run->query + heads * dim;
        run->key = run->weights + heads;
        run->raw = run->key + dim;
    }
    return block;
}

static void read_row(struct reference_run *run, int64_t row)
{
    const struct indexer_forward_problem *p = run->p;
    for (int64_t i = 0; i < p->heads * p->dim; ++i) {
        run->query[i] = ag_elem_load(p->elem, indexer_element(&p->query, row * p->heads * p->dim + i), 0);
    }
    for (int64_t h = 0; h < p->heads; ++h) {
        run->weights[h] = ag_elem_load(p->weights_elem, indexer_element(&p->weights, row * p->heads + h), 0);
    }
}

static void score_key(const struct reference_run *run, double *score, double *bound)
{
    const int64_t heads = run->p->heads, dim = run->p->dim;
    double size = 0, lost = 0; /* of all terms: |w q k|, and what flushing costs */
    *score = 0;
    for (int64_t h = 0; h < heads; ++h) {
        double product = 0, terms = 0;
        for (int64_t d = 0; d < dim; ++d) {
            const double q = run->query[h * dim + d], k = run->key[d];
            product += q * k;
            terms += fabs(q * k);
            lost += fabs(run->weights[h]) * run->flush * (1 + fabs(q) + fabs(k));
        }
        *score += run->weights[h] * (product < 0 ? 0 : product); /* NaN stays */
        size += fabs(run->weights[h]) * terms;
    }
    *bound = (double)(dim + heads + 1) * EPS * size + lost + (double)heads * 0x1p-149;
    if (size > LARGE) { /* a part of the sum may overflow */
        *bound = INFINITY;
    }
}

ag_status indexer_forward_ref(const struct indexer_forward_problem *p, int64_t number, int64_t s, double *score,
                              double *bound)
{
    const struct indexer_tokens tokens = indexer_forward_tokens(p);
    const struct indexer_sequence sequence = indexer_tokens_sequence(&tokens, number);
    const int64_t limit = indexer_forward_limit(p, &sequence, s);
    struct reference_run run = {.p = p, .flush = p->elem == AG_ELEM_BF16 ? 0x1p-126 : 0x1p-149};
    void *block = allocate(&run);
    AG_REQUIRE(block, CREATE_EXECUTOR, "out of memory for the reference");
    if (limit > 0) {
        read_row(&run, sequence.row_begin + s);
    }
    for (int64_t t = 0; t < limit; ++t) {
        indexer_forward_gather_keys(p, run.raw, number, &sequence, t, 1);
        for (int64_t d = 0; d < p->dim; ++d) {
            run.key[d] = ag_elem_load(p->elem, run.raw, d);
        }
        score_key(&run, score + t, bound + t);
    }
    ag_free(block);
    return AG_OK;
}
