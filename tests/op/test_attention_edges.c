/* Where the mask's edge crosses a block, and where a sequence is cut into splits: against the definition, in every kernel table
 * that this CPU runs. The workspace is full of NaN (attention_call_run), and so are keys that no row sees. */
#include <math.h>

#include "support/attention_problem.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int dtypes[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};

static void verify(const struct attention_case *c)
{
    struct attention_call call;
    attention_call_create(&call, c);
    attention_call_verify_each_isa(&call);
    attention_call_destroy(&call);
}

/* --- edges ------------------------------------------------------------------------------------------------ */

/* Around vectors, halves of strips, strips and blocks of keys. */
static const int64_t lengths[] = {1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 128, 129};

static const struct attention_case edges[] = {
    {.mode = 2},
    {.mode = 3},
    {.mode = 4, .pre = 20, .next = 3},
    {.mode = 4, .pre = 45, .next = -7}, /* rows that see nothing, keys that nothing sees */
    {.mode = 6, .prefix = {24}},
};

/* A band of these tokens, which may not end before the first row of a sequence of this length. */
static int64_t smallest_next(int64_t next, int64_t length)
{
    return next < -length ? -length : next;
}

/* As many keys as queries, and a few more, or fewer. */
static void lengths_around_the_edges(void **state)
{
    static const int64_t more[] = {0, 5, -3};
    (void)state;
    for (size_t i = 0; i < COUNT(lengths) * COUNT(edges) * COUNT(dtypes); ++i) {
        const int64_t length = lengths[i / COUNT(dtypes) / COUNT(edges)];
        struct attention_case c = edges[i / COUNT(dtypes) % COUNT(edges)];
        c.dtype = dtypes[i % COUNT(dtypes)];
        c.n1 = 2;
        c.d = 8;
        c.q_ends[0] = length;
        c.kv_ends[0] = length + more[length > 3 ? i % COUNT(more) : 0];
        c.prefix[0] = c.kv_ends[0] < c.prefix[0] ? c.kv_ends[0] : c.prefix[0];
        c.next = smallest_next(c.next, length);
        c.mask_shape = TEST_MASK_COMPRESSED;
        c.seed = i;
        verify(&c);
    }
}

/* Of sequences in one pack, whose blocks have the strides of the longest. */
static void edges_in_a_pack(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(edges) * COUNT(dtypes); ++i) {
        struct attention_case c = edges[i / COUNT(dtypes)];
        int64_t end = 0;
        c.dtype = dtypes[i % COUNT(dtypes)];
        c.n1 = 2;
        c.n2 = c.mode == 3 ? 2 : 1;
        c.d = 16;
        c.next = smallest_next(c.next, 1);
        c.mask_shape = TEST_MASK_COMPRESSED;
        for (size_t b = 0; b < COUNT(lengths); ++b) {
            end += lengths[b];
            c.q_ends[b] = end;
            c.prefix[b] = lengths[b] * 2 / 3;
        }
        verify(&c);
    }
}

static bool is_seen(const struct attention_call *call, int64_t key)
{
    for (int64_t row = 0; row < call->t1; ++row) {
        if (attention_forward_sees(call, 0, 0, row, key)) {
            return true;
        }
    }
    return false;
}

static int64_t poison_unseen_keys(struct attention_call *call)
{
    const int64_t d = call->c.d;
    int64_t count = 0;
    for (int64_t key = 0; key < call->t2; ++key) {
        if (is_seen(call, key)) {
            continue;
        }
        ++count;
        for (int64_t at = key * d; at < (key + 1) * d; ++at) {
            test_tensor_set(&call->k, at, at % 2 ? INFINITY : NAN);
            test_tensor_set(&call->v, at, at % 3 ? -INFINITY : NAN);
        }
    }
    return count;
}

/* Infinite and NaN keys behind the edge, in the same vector, panel or strip as the last that is seen. */
static void poison_behind_the_edge(void **state)
{
    static const struct attention_case cases[] = {
        {.mode = 2, .kv_ends = {3}}, {.mode = 2, .kv_ends = {40}}, {.mode = 4, .pre = 45, .next = -7}};
    const struct ag_config before = ag_config_get();
    (void)state;
    for (size_t i = 0; i < COUNT(lengths) * COUNT(cases) * COUNT(dtypes); ++i) {
        struct attention_case c = cases[i / COUNT(dtypes) % COUNT(cases)];
        struct attention_call call, clean;
        c.dtype = dtypes[i % COUNT(dtypes)];
        c.d = 8;
        c.q_ends[0] = lengths[i / COUNT(dtypes) / COUNT(cases)];
        c.kv_ends[0] += c.q_ends[0];
        c.next = smallest_next(c.next, c.q_ends[0]);
        c.mask_shape = TEST_MASK_COMPRESSED;
        attention_call_create(&call, &c);
        attention_call_create(&clean, &c);
        assert_true(poison_unseen_keys(&call) > 0);
        TEST_EACH_ISA (isa) {
            ag_config_set_isa(isa);
            attention_call_run(&call);
            attention_call_run(&clean);
            attention_call_assert_same(&call, &clean);
        }
        attention_call_destroy(&call);
        attention_call_destroy(&clean);
    }
    ag_config_set_isa(before.isa);
}

/* --- splits ----------------------------------------------------------------------------------------------- */

/* One key head: a narrow band's splits see different keys, and a split of several heads all keys of both. The keys behind
 * those of the first split are sums of the others alone. */
static const struct attention_case splits[] = {
    {.n1 = 1, .q_ends = {2050}, .mode = 4, .pre = 40, .next = 0},
    {.n1 = 1, .q_ends = {2300}, .kv_ends = {2337}, .mode = 4, .pre = 9, .next = 70},
    {.n1 = 5, .q_ends = {1270}, .mode = 4, .pre = 30, .next = 2},
    {.n1 = 5, .q_ends = {1100}, .kv_ends = {1190}, .mode = 4, .pre = 5, .next = -2},
    {.n1 = 4, .n2 = 2, .q_ends = {100, 1500}, .kv_ends = {100, 1439}, .mode = 4, .pre = 17, .next = 17},
};

static void sums_of_splits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(splits) * 2; ++i) {
        struct attention_case c = splits[i / 2];
        c.dtype = i % 2 ? AG_BF16 : AG_FLOAT; /* FLOAT16 goes the way of FLOAT */
        c.d = 8;
        c.mask_shape = TEST_MASK_COMPRESSED;
        c.invent_statistics = true;
        c.seed = i;
        verify(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_around_the_edges),
        cmocka_unit_test(edges_in_a_pack),
        cmocka_unit_test(poison_behind_the_edge),
        cmocka_unit_test(sums_of_splits),
    };
    ag_config_set_threads(1); /* so many small calls: others would only wait */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
