/* labels: smoke ci */
/* indexer_select against a sort that takes the best one after the other: every count, equal scores, both zeros, NaN,
 * infinities, subnormals; and that it reads and writes no more than it says. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/indexer/indexer_forward.h"
#include "support/support.h"

enum { MOST = 700 };

struct selecting {
    struct test_buffer scores, histogram, ranks, other_ranks, numbers, other_numbers;
    struct indexer_selection s;
};

static struct test_buffer elements(int64_t count)
{
    struct test_buffer buffer = test_buffer_create((size_t)count * 4, 4);
    memset(buffer.data, 0x5c, buffer.bytes);
    return buffer;
}

static void open(struct selecting *t, const float *scores, int64_t keys, int64_t count)
{
    t->scores = elements(keys);
    memcpy(t->scores.data, scores, (size_t)keys * sizeof *scores);
    t->histogram = elements(INDEXER_BINS);
    t->ranks = elements(count + 1);
    t->other_ranks = elements(count + 1);
    t->numbers = elements(count + 1);
    t->other_numbers = elements(count + 1);
    t->s = (struct indexer_selection){.histogram = t->histogram.data,
                                      .ranks = t->ranks.data,
                                      .other_ranks = t->other_ranks.data,
                                      .numbers = t->numbers.data,
                                      .other_numbers = t->other_numbers.data};
}

static void close(struct selecting *t)
{
    test_buffer_destroy(&t->scores);
    test_buffer_destroy(&t->histogram);
    test_buffer_destroy(&t->ranks);
    test_buffer_destroy(&t->other_ranks);
    test_buffer_destroy(&t->numbers);
    test_buffer_destroy(&t->other_numbers);
}

static bool is_better(const float *scores, int64_t a, int64_t b)
{
    if (isnan(scores[a]) || isnan(scores[b])) {
        return !isnan(scores[a]);
    }
    return scores[a] > scores[b];
}

static int64_t find_best(const float *scores, const bool *is_taken, int64_t keys)
{
    int64_t best = -1;
    for (int64_t t = 0; t < keys; ++t) {
        if (!is_taken[t] && (best < 0 || is_better(scores, t, best))) {
            best = t;
        }
    }
    return best;
}

static void check(const float *scores, int64_t keys, int64_t count)
{
    bool is_taken[MOST] = {false};
    struct selecting t;
    open(&t, scores, keys, count);
    indexer_select(&t.s, t.scores.data, keys, count);
    assert_memory_equal(t.scores.data, scores, (size_t)keys * sizeof *scores);
    for (int64_t j = 0; j < count; ++j) {
        const int64_t best = find_best(scores, is_taken, keys);
        const float score = indexer_score_of(t.s.ranks[j]);
        if (t.s.numbers[j] != best || !(score == scores[best] || (isnan(score) && isnan(scores[best])))) {
            fail_msg("%lld of %lld, place %lld: key %d of %g, want %lld of %g", (long long)count, (long long)keys,
                     (long long)j, (int)t.s.numbers[j], (double)score, (long long)best, (double)scores[best]);
        }
        is_taken[best] = true;
    }
    close(&t);
}

static const float odd[] = {0.0f,  -0.0f,   NAN,      INFINITY, -INFINITY, 0x1p-149f,     -0x1p-149f, 0x1p-126f,
                            -1.0f, 3.4e38f, -3.4e38f, 1.0f,     -NAN,      0x1.000002p0f, 2.0f,       0.5f};

static void test_every_count(void **state)
{
    float scores[64];
    struct test_random random = test_random_seed(1);
    (void)state;
    for (int round = 0; round < 20; ++round) {
        for (int t = 0; t < 64; ++t) {
            scores[t] = odd[test_random_below(&random, 16)];
        }
        for (int64_t keys = 1; keys <= 64; keys += 7) {
            for (int64_t count = 1; count <= keys; ++count) {
                check(scores, keys, count);
            }
        }
    }
}

/* Borders in each digit: scores that differ in high, middle or low bits alone, or not at all. */
static void test_digits(void **state)
{
    static const int shifts[] = {0, 5, 9, 10, 15, 20, 21, 26};
    float scores[MOST];
    struct test_random random = test_random_seed(2);
    (void)state;
    for (int i = 0; i < 8; ++i) {
        for (int t = 0; t < MOST; ++t) {
            const uint32_t bits = 0x3f800000u ^ (uint32_t)test_random_below(&random, 16) << shifts[i];
            memcpy(&scores[t], &bits, sizeof bits);
        }
        for (int64_t count = 1; count <= MOST; count += 33) {
            check(scores, MOST, count);
        }
        check(scores, MOST, MOST);
    }
    for (int t = 0; t < MOST; ++t) {
        scores[t] = -7;
    }
    check(scores, MOST, 300);
}

static void test_random_scores(void **state)
{
    float scores[MOST];
    struct test_random random = test_random_seed(3);
    (void)state;
    for (int t = 0; t < MOST; ++t) {
        scores[t] = (float)test_random_normal(&random);
    }
    for (int64_t count = 1; count <= MOST; count += 71) {
        check(scores, MOST, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_count),
        cmocka_unit_test(test_digits),
        cmocka_unit_test(test_random_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
