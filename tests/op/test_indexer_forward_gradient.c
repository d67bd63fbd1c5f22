/* labels: smoke ci */
/* Forward, then backward: the keys that aclnnLightningIndexer selects go into aclnnLightningIndexerGrad, whose gradients
 * are central differences of the forward's scores, in every sparse mode and layout. Only the values that the forward
 * writes and the selection are used, so what the two operators take for a slot, a row's limit and a sequence is the
 * same. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/indexer_forward_problem.h"

/* A power of two, so that moved inputs are exact; scores are linear in each input unless a product changes its sign. */
static const double step = 0x1p-12;

struct pair {
    struct indexer_forward_call forward;
    struct indexer_call backward;
};

static void create_pair(struct pair *pair, const struct indexer_forward_case *c)
{
    struct indexer_case back = {.dtype = AG_FLOAT,
                                .is_packed = c->is_packed,
                                .has_counts = c->has_counts,
                                .q_slack = c->q_slack,
                                .kv_slack = c->kv_slack,
                                .heads = c->heads,
                                .dim = c->dim,
                                .topk = c->topk,
                                .mode = c->mode,
                                .seed = 7};
    memcpy(back.q_len, c->q_len, sizeof back.q_len);
    memcpy(back.kv_len, c->kv_len, sizeof back.kv_len);
    indexer_forward_call_create(&pair->forward, c);
    indexer_call_create(&pair->backward, &back);
}

/* The forward's slots to the backward: same slots, NaN as the gradient of those that are empty. */
static void hand_over(struct pair *pair)
{
    struct test_random random = test_random_seed(11);
    for (int64_t i = 0; i < test_tensor_elems(&pair->backward.indices); ++i) {
        const int32_t key = indexer_forward_index(&pair->forward, i / pair->forward.c.topk, i % pair->forward.c.topk);
        indexer_set_index(&pair->backward, i, key);
        test_tensor_set(&pair->backward.dy, i, key < 0 ? NAN : test_random_normal(&random));
    }
}

/* Sum of dy times the score of each slot's key, from the values that the forward writes now. Keys are found by number:
 * the order of the slots may change. */
static double loss(struct pair *pair)
{
    const struct indexer_forward_call *f = &pair->forward;
    double sum = 0;
    indexer_forward_call_run(&pair->forward);
    for (int64_t i = 0; i < test_tensor_elems(&pair->backward.indices); ++i) {
        const double key = test_tensor_get(&pair->backward.indices, i), first = (double)(i / f->c.topk * f->c.topk);
        for (int64_t j = 0; key >= 0 && j < f->c.topk; ++j) {
            if (test_tensor_get(&f->indices, (int64_t)first + j) == key) {
                sum += test_tensor_get(&pair->backward.dy, i) * test_tensor_get(&f->values, (int64_t)first + j);
            }
        }
    }
    return sum;
}

static void check_input(struct pair *pair, const char *what, struct test_tensor *input,
                        const struct test_tensor *gradient)
{
    int64_t checked = 0;
    for (int64_t i = 0; i < test_tensor_elems(input); ++i) {
        const double value = test_tensor_get(input, i);
        if (isnan(value)) {
            continue; /* padding */
        }
        test_tensor_set(input, i, value + step);
        const double above = loss(pair);
        test_tensor_set(input, i, value - step);
        const double difference = (above - loss(pair)) / (2 * step), got = test_tensor_get(gradient, i);
        test_tensor_set(input, i, value);
        if (!(fabs(difference - got) <= 2e-2 + 1e-3 * fabs(got))) { /* float values over steps of 1/4096 */
            fail_msg("%s[%" PRId64 "]: %g, differences say %g\n%s", what, i, got, difference,
                     indexer_forward_case_text(&pair->forward.c));
        }
        checked += got != 0;
    }
    assert_true(checked > 4);
}

/* Inputs on a grid of 1/256, so that steps are exact, and large enough that products seldom change their sign. */
static void put_on_grid(struct test_tensor *tensor)
{
    for (int64_t i = 0; i < test_tensor_elems(tensor); ++i) {
        const double value = test_tensor_get(tensor, i);
        test_tensor_set(tensor, i, isnan(value) ? value : rint(value * 256) / 256);
    }
}

static void check(const struct indexer_forward_case *c)
{
    struct pair pair;
    create_pair(&pair, c);
    put_on_grid(&pair.forward.query);
    put_on_grid(&pair.forward.key);
    put_on_grid(&pair.forward.weights);
    test_tensor_copy_values(&pair.backward.query, &pair.forward.query);
    test_tensor_copy_values(&pair.backward.key, &pair.forward.key);
    test_tensor_copy_values(&pair.backward.weights, &pair.forward.weights);
    indexer_forward_call_run(&pair.forward);
    hand_over(&pair);
    indexer_call_run(&pair.backward);
    check_input(&pair, "dq", &pair.forward.query, &pair.backward.dq);
    check_input(&pair, "dk", &pair.forward.key, &pair.backward.dk);
    check_input(&pair, "dweights", &pair.forward.weights, &pair.backward.dweights);
    indexer_forward_call_destroy(&pair.forward);
    indexer_call_destroy(&pair.backward);
}

/* K covers every key, so that a moved key stays among those selected. */
static void test_differences(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int i = 0; i < 4; ++i) {
            test_configure(1, isa, AG_LIMITS_EXTENDED);
            check(&(struct indexer_forward_case){.dtype = AG_FLOAT,
                                                 .has_values = true,
                                                 .is_packed = i & 1,
                                                 .has_counts = true,
                                                 .mode = i & 2 ? 3 : 0,
                                                 .q_len = {3, 0, 2},
                                                 .kv_len = {4, 2, 1},
                                                 .q_slack = 1,
                                                 .kv_slack = 2,
                                                 .heads = 2,
                                                 .dim = 3,
                                                 .topk = 5,
                                                 .seed = 3});
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
