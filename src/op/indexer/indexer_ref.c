/* The definition of the operator, in double, and beside every value the bound that a right implementation keeps: one
 * that multiplies elements exactly, adds in fp32 in any order, may round weights * dy to bf16 when that is the type,
 * and rounds each result once. Plain loops in the order of the formulas.
 *
 *     P[r,h,j]  = q[r,h] . k[t_j]                 t_j the key of live slot j
 *     dw[r,h]   = sum over j of  relu(P) dy[r,j]
 *     R[r,h,j]  = P > 0 ? w[r,h] dy[r,j] : 0
 *     dq[r,h]   = sum over j of  R k[t_j]
 *     dk[t]     = sum over r, j with t_j = t, and h, of  R q[r,h]
 *
 * Where |P| is so small that fp32 may find the other sign, R may be there or not: its terms go into the bounds. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/elem.h"
#include "base/memory.h"
#include "op/indexer/indexer.h"

#define EPS 0x1p-24 /* unit roundoff of fp32 */

/* What the arithmetic of an element type may do. */
struct rounding {
    double output;   /* relative, of the final rounding */
    double flow;     /* relative, of the rounding of weights * dy */
    double smallest; /* subnormal of the type */
    double flush;    /* what a product may lose in subnormal operands, per unit of the other operand */
};

static const struct rounding roundings[AG_ELEM_COUNT] = {
    [AG_ELEM_F32] = {.output = EPS, .flow = EPS, .smallest = 0x1p-149, .flush = 0x1p-149},
    [AG_ELEM_F16] = {.output = 0x1p-11, .flow = 0, .smallest = 0x1p-24, .flush = 0x1p-149},
    [AG_ELEM_BF16] = {.output = 0x1p-8, .flow = 0x1p-8, .smallest = 0x1p-133, .flush = 0x1p-126},
};

struct reference_run {
    const struct indexer_problem *p;
    const struct indexer_reference *out;
    struct rounding rounding;
    double largest;    /* of the operands seen so far: q, k, R */
    double *keys;      /* [keys, D] */
    double *key_size;  /* [keys, D]: sum of |R q| */
    double *key_terms; /* [keys]: number of terms of a key's sums */
    /* Of the row at hand: */
    double *query;   /* [N, D] */
    double *weights; /* [N] */
    double *dq_size; /* [N, D]: sum of |R k| */
    double *dw_size; /* [N]: sum over slots and d of |q k dy| */
    double dy_size;  /* sum of |dy| */
};

/* --- inputs as doubles -------------------------------------------------------------------------------------- */

static double read_element(const struct indexer_problem *p, const struct ag_view *view, int64_t flat)
{
    return ag_elem_load(p->elem, indexer_element(view, flat), 0);
}

static void read_elements(const struct indexer_problem *p, double *to, const struct ag_view *view, int64_t first,
                          int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        to[i] = read_element(p, view, first + i);
    }
}

/* Only keys that a sequence has: padding may hold anything. */
static void read_keys(struct reference_run *run)
{
    const struct indexer_problem *p = run->p;
    for (int64_t b = 0; b < indexer_sequence_count(p); ++b) {
        const struct indexer_sequence sequence = indexer_sequence_at(p, b);
        read_elements(p, run->keys + sequence.key_begin * p->dim, &p->key, sequence.key_begin * p->dim,
                      sequence.live_keys * p->dim);
    }
}

static void see_operands(struct reference_run *run, const double *values, int64_t count, double factor)
{
    for (int64_t i = 0; i < count; ++i) {
        run->largest = fmax(run->largest, fabs(values[i] * factor));
    }
}

/* What one product may lose because an operand, or it, is subnormal. */
static double flush(const struct reference_run *run)
{
    return run->rounding.flush * (1 + run->largest);
}

/* --- one slot ----------------------------------------------------------------------------------------------- */

struct slot {
    int64_t row, key; /* in the whole tensors */
    double dy;
};

/* P; *size is the sum of its terms' sizes. */
static double score(const struct reference_run *run, const double *query, const double *key, double *size)
{
    double product = 0;
    *size = 0;
    for (int64_t d = 0; d < run->p->dim; ++d) {
        product += query[d] * key[d];
        *size += fabs(query[d] * key[d]);
    }
    return product;
}

/* R flows into dq and dk; where its presence is in doubt, `doubt` = |R| may be missing or too much. */
static void add_flow(struct reference_run *run, const struct slot *slot, int64_t head, double flow, double doubt)
{
    const int64_t dim = run->p->dim, q_at = (slot->row * run->p->heads + head) * dim, k_at = slot->key * dim;
    const double *query = run->query + head * dim, *key = run->keys + k_at;
    for (int64_t d = 0; d < dim; ++d) {
        run->out->dq[q_at + d] += flow * key[d];
        run->out->dk[k_at + d] += flow * query[d];
        run->out->dq_bound[q_at + d] += doubt * fabs(key[d]);
        run->out->dk_bound[k_at + d] += doubt * fabs(query[d]);
        run->dq_size[head * dim + d] += fabs(flow * key[d]);
        run->key_size[k_at + d] += fabs(flow * query[d]);
    }
}

static void add_slot(struct reference_run *run, const struct slot *slot)
{
    const struct indexer_problem *p = run->p;
    for (int64_t h = 0; h < p->heads; ++h) {
        double size;
        const double product = score(run, run->query + h * p->dim, run->keys + slot->key * p->dim, &size);
        const bool is_doubtful = fabs(product) <= (double)p->dim * (EPS * size + flush(run));
        const double flow = run->weights[h] * slot->dy;
        run->out->dweights[slot->row * p->heads + h] += product > 0 ? product * slot->dy : 0;
        run->dw_size[h] += size * fabs(slot->dy);
        add_flow(run, slot, h, product > 0 ? flow : 0, is_doubtful ? fabs(flow) : 0);
    }
    see_operands(run, run->weights, p->heads, slot->dy);
    run->dy_size += fabs(slot->dy);
    run->key_terms[slot->key] += (double)p->heads;
}

/* --- bounds ------------------------------------------------------------------------------------------------- */

/* Of a sum of `terms` products R x whose sizes add up to `size`, rounded to the type at the end. */
static double sum_bound(const struct reference_run *run, double value, double size, double terms)
{
    const struct rounding *r = &run->rounding;
    return r->output * fabs(value) + (r->flow + terms * EPS) * size + terms * flush(run) + r->smallest;
}

static void finish_row(struct reference_run *run, int64_t row, int64_t slots)
{
    const struct indexer_problem *p = run->p;
    const double roundings_per_score = (double)(slots + p->dim);
    for (int64_t h = 0; h < p->heads; ++h) {
        const int64_t w_at = row * p->heads + h;
        run->out->dweights_bound[w_at] =
            run->rounding.output * fabs(run->out->dweights[w_at]) +
            roundings_per_score * (EPS * run->dw_size[h] + flush(run) * (1 + run->dy_size)) + run->rounding.smallest;
        for (int64_t d = 0; d < p->dim; ++d) {
            const int64_t at = w_at * p->dim + d;
            run->out->dq_bound[at] += sum_bound(run, run->out->dq[at], run->dq_size[h * p->dim + d], (double)slots);
        }
    }
}

static void finish_keys(const struct reference_run *run)
{
    const int64_t dim = run->p->dim;
    for (int64_t key = 0; key < run->p->keys; ++key) {
        for (int64_t d = 0; d < dim && run->key_terms[key] > 0; ++d) {
            const int64_t at = key * dim + d;
            run->out->dk_bound[at] += sum_bound(run, run->out->dk[at], run->key_size[at], run->key_terms[key]);
        }
    }
}

/* --- all rows ----------------------------------------------------------------------------------------------- */

static void add_row(struct reference_run *run, const struct indexer_sequence *sequence, int64_t s)
{
    const struct indexer_problem *p = run->p;
    const int64_t row = sequence->row_begin + s, limit = indexer_slot_limit(p, sequence, s);
    int64_t slots = 0;
    if (limit == 0) {
        return;
    }
    read_elements(p, run->query, &p->query, row * p->heads * p->dim, p->heads * p->dim);
    read_elements(p, run->weights, &p->weights, row * p->heads, p->heads);
    see_operands(run, run->query, p->heads * p->dim, 1);
    memset(run->dq_size, 0, (size_t)(p->heads * p->dim) * sizeof *run->dq_size);
    memset(run->dw_size, 0, (size_t)p->heads * sizeof *run->dw_size);
    run->dy_size = 0;
    for (int64_t j = 0; j < limit; ++j) {
        int32_t key;
        memcpy(&key, indexer_element(&p->indices, row * p->topk + j), sizeof key);
        if (key < 0 || key >= sequence->live_keys) {
            continue;
        }
        const struct slot slot = {
            .row = row, .key = sequence->key_begin + key, .dy = read_element(p, &p->dy, row * p->topk + j)};
        add_slot(run, &slot);
        ++slots;
    }
    if (slots > 0) {
        finish_row(run, row, slots);
    }
}

static void zero_outputs(const struct indexer_problem *p, const struct indexer_reference *out)
{
    const size_t rows_bytes = (size_t)(p->rows * p->heads) * sizeof(double);
    const size_t keys_bytes = (size_t)(p->keys * p->dim) * sizeof(double);
    memset(out->dq, 0, rows_bytes * (size_t)p->dim);
    memset(out->dq_bound, 0, rows_bytes * (size_t)p->dim);
    memset(out->dk, 0, keys_bytes);
    memset(out->dk_bound, 0, keys_bytes);
    memset(out->dweights, 0, rows_bytes);
    memset(out->dweights_bound, 0, rows_bytes);
}

/* One block for all arrays, zeroed; the run's pointers lie in it. NULL when out of memory. */
static void *allocate(struct reference_run *run)
{
    const struct indexer_problem *p = run->p;
    const int64_t key_elems = p->keys * p->dim, row_elems = p->heads * p->dim;
    double *block = ag_alloc_zeroed((size_t)(2 * key_elems + p->keys + 2 * row_elems + 2 * p->heads) * sizeof *block);
    if (block) {
        run->keys = block;
        run->key_size = run->keys + key_elems;
        run->key_terms = run->key_size + key_elems;
        run->query = run->key_terms + p->keys;
        run->dq_size = run->query + row_elems;
        run->weights = run->dq_size + row_elems;
        run->dw_size = run->weights + p->heads;
    }
    return block;
}

ag_status indexer_ref(const struct indexer_problem *p, const struct indexer_reference *out)
{
    struct reference_run run = {.p = p, .out = out, .rounding = roundings[p->elem]};
    zero_outputs(p, out);
    if (p->is_nothing) {
        return AG_OK;
    }
    void *block = allocate(&run);
    AG_REQUIRE(block, CREATE_EXECUTOR, "out of memory for the reference");
    read_keys(&run);
    see_operands(&run, run.keys, p->keys * p->dim, 1);
    for (int64_t b = 0; b < indexer_sequence_count(p); ++b) {
        const struct indexer_sequence sequence = indexer_sequence_at(p, b);
        for (int64_t s = 0; s < sequence.rows; ++s) {
            add_row(&run, &sequence, s);
        }
    }
    finish_keys(&run);
    ag_free(block);
    return AG_OK;
}
