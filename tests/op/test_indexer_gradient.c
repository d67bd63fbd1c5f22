/* labels: smoke ci */
/* The definition, and the operator, against oracles that share nothing with them:
 *   - central differences of the forward score, written down here in double;
 *   - a dense backward pass over all keys, where the slots select all of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/indexer_problem.h"

/* A small problem of plain arrays. The loss is the sum of dy times the selected scores. */
enum { ROWS = 5, KEYS = 6, HEADS = 3, DIM = 4, SLOTS = 7 };

struct problem {
    double q[ROWS][HEADS][DIM], k[KEYS][DIM], w[ROWS][HEADS], dy[ROWS][SLOTS];
    int32_t slots[ROWS][SLOTS];
    int64_t mode;
};

/* I[r, t] = sum over heads of w max(0, q . k) */
static double score(const struct problem *p, int r, int t)
{
    double sum = 0;
    for (int h = 0; h < HEADS; ++h) {
        double dot = 0;
        for (int d = 0; d < DIM; ++d) {
            dot += p->q[r][h][d] * p->k[t][d];
        }
        sum += dot > 0 ? p->w[r][h] * dot : 0;
    }
    return sum;
}

/* Row r of ROWS sees keys 0 .. KEYS - ROWS + r, and in sparse mode 3 has as many slots. */
static double loss(const struct problem *p)
{
    double sum = 0;
    for (int r = 0; r < ROWS; ++r) {
        const int visible = KEYS - ROWS + r + 1, slots = p->mode == 3 && visible < SLOTS ? visible : SLOTS;
        for (int j = 0; j < slots; ++j) {
            if (p->slots[r][j] >= 0 && p->slots[r][j] < KEYS) {
                sum += p->dy[r][j] * score(p, r, p->slots[r][j]);
            }
        }
    }
    return sum;
}

/* Numbers that FLOAT holds exactly, so that the operator differentiates the same function. */
static double exact(struct test_random *random)
{
    return (double)(float)test_random_normal(random);
}

static void fill(struct problem *p, uint64_t seed, int64_t mode)
{
    struct test_random random = test_random_seed(seed);
    double *const q = &p->q[0][0][0], *const k = &p->k[0][0], *const w = &p->w[0][0], *const dy = &p->dy[0][0];
    p->mode = mode;
    for (int i = 0; i < ROWS * HEADS * DIM; ++i) {
        q[i] = exact(&random);
    }
    for (int i = 0; i < KEYS * DIM; ++i) {
        k[i] = exact(&random);
    }
    for (int i = 0; i < ROWS * HEADS; ++i) {
        w[i] = exact(&random);
    }
    for (int i = 0; i < ROWS * SLOTS; ++i) {
        dy[i] = exact(&random);
        (&p->slots[0][0])[i] = (int32_t)test_random_between(&random, -1, KEYS); /* also one too large */
    }
}

static void load(struct indexer_call *call, const struct problem *p)
{
    const double *const from[] = {&p->q[0][0][0], &p->k[0][0], &p->w[0][0], &p->dy[0][0]};
    struct test_tensor *const to[] = {&call->query, &call->key, &call->weights, &call->dy};
    for (int i = 0; i < 4; ++i) {
        for (int64_t at = 0; at < test_tensor_elems(to[i]); ++at) {
            test_tensor_set(to[i], at, from[i][at]);
        }
    }
    for (int64_t at = 0; at < ROWS * SLOTS; ++at) {
        memcpy(test_tensor_at(&call->indices, at), &p->slots[0][0] + at, sizeof(int32_t));
    }
}

/* The loss is piecewise bilinear in each single value, so the difference quotient is exact up to rounding, unless the
 * step crosses a kink: then both one-sided slopes are different, and the value says nothing. */
static bool slope(const struct problem *at, double *value, double *result)
{
    const double step = 0x1p-20, middle = *value;
    double side[3];
    for (int i = 0; i < 3; ++i) {
        *value = middle + (i - 1) * step;
        side[i] = loss(at);
    }
    *value = middle;
    *result = (side[2] - side[0]) / (2 * step);
    return fabs(side[2] - 2 * side[1] + side[0]) < 1e-12; /* rounding: about 1e-14 */
}

static int compare_slopes(struct problem *p, const char *what, double *values, const struct test_tensor *got)
{
    int compared = 0;
    for (int64_t i = 0; i < test_tensor_elems(got); ++i) {
        double want;
        if (!slope(p, &values[i], &want)) {
            continue;
        }
        ++compared;
        if (!(fabs(test_tensor_get(got, i) - want) <= 2e-5 * (1 + fabs(want)))) {
            fail_msg("%s: element %lld is %.9g, the differences say %.9g", what, (long long)i,
                     test_tensor_get(got, i), want);
        }
    }
    return compared;
}

static void check_differences(uint64_t seed, int64_t mode, bool is_packed)
{
    struct problem p;
    struct indexer_call call;
    fill(&p, seed, mode);
    indexer_call_create(&call, &(struct indexer_case){.dtype = AG_FLOAT,
                                                      .is_packed = is_packed,
                                                      .q_len = {ROWS},
                                                      .kv_len = {KEYS},
                                                      .heads = HEADS,
                                                      .dim = DIM,
                                                      .topk = SLOTS,
                                                      .mode = mode});
    load(&call, &p);
    indexer_call_verify(&call);
    int compared = compare_slopes(&p, "dq", &p.q[0][0][0], &call.dq);
    compared += compare_slopes(&p, "dk", &p.k[0][0], &call.dk);
    compared += compare_slopes(&p, "dweights", &p.w[0][0], &call.dweights);
    assert_true(compared >= (ROWS * HEADS * DIM + KEYS * DIM + ROWS * HEADS) * 9 / 10);
    indexer_call_destroy(&call);
}

static void test_differences(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        test_configure(1, isa, AG_LIMITS_EXTENDED);
        for (uint64_t seed = 0; seed < 10; ++seed) {
            check_differences(seed, seed % 2 ? 3 : 0, seed % 4 < 2);
        }
    }
}

/* --- dense ------------------------------------------------------------------------------------------------------ */

enum { LENGTH = 32, WIDTH = 128, MANY = 5 };

/* Backward of dense causal ReLU attention: every key up to the row's own, in double. */
static void dense(const struct indexer_call *call, double *dq, double *dk, double *dw)
{
    for (int64_t r = 0; r < LENGTH; ++r) {
        for (int64_t h = 0; h < MANY; ++h) {
            const int64_t q_at = (r * MANY + h) * WIDTH;
            for (int64_t t = 0; t <= r; ++t) {
                const double dy = test_tensor_get(&call->dy, r * LENGTH + t);
                double dot = 0;
                for (int64_t d = 0; d < WIDTH; ++d) {
                    dot += test_tensor_get(&call->query, q_at + d) * test_tensor_get(&call->key, t * WIDTH + d);
                }
                const double flow = dot > 0 ? test_tensor_get(&call->weights, r * MANY + h) * dy : 0;
                dw[r * MANY + h] += dot > 0 ? dot * dy : 0;
                for (int64_t d = 0; d < WIDTH; ++d) {
                    dq[q_at + d] += flow * test_tensor_get(&call->key, t * WIDTH + d);
                    dk[t * WIDTH + d] += flow * test_tensor_get(&call->query, q_at + d);
                }
            }
        }
    }
}

/* Slots that select every visible key, in order, then -1. */
static void test_all_keys(void **state)
{
    struct indexer_call call;
    static double dq[LENGTH * MANY * WIDTH], dk[LENGTH * WIDTH], dw[LENGTH * MANY];
    static double bound[LENGTH * MANY * WIDTH];
    (void)state;
    indexer_call_create(
        &call,
        &(struct indexer_case){
            .dtype = AG_FLOAT, .q_len = {LENGTH}, .kv_len = {LENGTH}, .heads = MANY, .topk = LENGTH, .mode = 3});
    for (int64_t r = 0; r < LENGTH; ++r) {
        for (int32_t j = 0; j < LENGTH; ++j) {
            const int32_t index = j <= r ? j : -1;
            memcpy(test_tensor_at(&call.indices, r * LENGTH + j), &index, sizeof index);
        }
    }
    dense(&call, dq, dk, dw);
    for (int i = 0; i < LENGTH * MANY * WIDTH; ++i) {
        bound[i] = 1e-3; /* sums of a few hundred terms of size up to 100, in fp32 */
    }
    TEST_EACH_ISA (isa) {
        for (int mode = 0; mode <= 3; mode += 3) { /* -1 makes both modes the same */
            test_configure(2, isa, AG_LIMITS_EXTENDED);
            call.args.sparse_mode = mode;
            indexer_call_run(&call);
            test_compare("dq", &call.dq, dq, bound, "dense");
            test_compare("dk", &call.dk, dk, bound, "dense");
            test_compare("dweights", &call.dweights, dw, bound, "dense");
        }
    }
    indexer_call_destroy(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_all_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
