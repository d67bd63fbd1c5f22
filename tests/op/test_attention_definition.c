/* The operator against the definition, element by element within its bounds, in every kernel table that this CPU runs:
 * modes, types, ropes, groups, odd dims and odd lengths. */
#include "support/attention_problem.h"

static void verify(const struct attention_case *c)
{
    struct attention_call call;
    attention_call_create(&call, c);
    attention_call_verify_each_isa(&call);
    attention_call_destroy(&call);
}

static void verify_extended(const struct attention_case *c)
{
    struct attention_call call;
    ag_config_set_limits(AG_LIMITS_EXTENDED);
    attention_call_create(&call, c);
    attention_call_verify(&call);
    attention_call_destroy(&call);
    ag_config_set_limits(AG_LIMITS_DOCUMENTED);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int dtypes[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};

/* More keys, more queries, empty on either side, single rows; slack behind. */
#define PACK .q_ends = {37, 37, 70, 135, 136}, .kv_ends = {21, 30, 95, 95, 140}, .q_slack = 2, .kv_slack = 3

static const struct attention_case modes[] = {
    {PACK, .mask_shape = TEST_MASK_NONE},
    {PACK, .mode = 0, .mask_shape = TEST_MASK_SS, .pre = INT64_MAX, .next = INT32_MAX},
    {PACK, .mode = 0, .mask_shape = TEST_MASK_SS, .mask_bytes = TEST_MASK_RANDOM, .pre = 20, .next = 5},
    {PACK, .mode = 0, .mask_shape = TEST_MASK_11SS, .pre = -3, .next = 17},
    {PACK, .mode = 1, .mask_shape = TEST_MASK_BNSS, .mask_bytes = TEST_MASK_RANDOM, .mask_extra = 3},
    {PACK, .mode = 1, .mask_shape = TEST_MASK_B1SS, .mask_bytes = TEST_MASK_HOLES},
    {PACK, .mode = 2, .mask_shape = TEST_MASK_COMPRESSED},
    {PACK, .mode = 3, .mask_shape = TEST_MASK_COMPRESSED},
    {PACK, .mode = 4, .mask_shape = TEST_MASK_COMPRESSED, .pre = 11, .next = 4},
    {PACK, .mode = 4, .mask_shape = TEST_MASK_COMPRESSED, .pre = 30, .next = -1},
    {PACK, .mode = 6, .mask_shape = TEST_MASK_COMPRESSED, .prefix = {30, 5, 0, 9, 44}},
    {PACK, .mode = 7, .mask_shape = TEST_MASK_COMPRESSED, .pre = 50, .next = 0},
    {PACK, .mode = 8, .mask_shape = TEST_MASK_COMPRESSED, .pre = 9, .next = 3},
};

static void every_mode_and_type(void **state)
{
    (void)state;
    for (size_t m = 0; m < COUNT(modes); ++m) {
        for (size_t t = 0; t < COUNT(dtypes); ++t) {
            struct attention_case c = modes[m];
            c.dtype = dtypes[t];
            c.n1 = 4;
            c.n2 = 2;
            c.d = 24;
            c.dv = 16;
            c.seed = m * 3 + t;
            verify(&c);
        }
    }
}

static void rope_in_every_mode(void **state)
{
    (void)state;
    for (size_t m = 1; m < COUNT(modes); ++m) { /* with rope there is a mask */
        struct attention_case c = modes[m];
        c.dtype = AG_BF16;
        c.n1 = 6;
        c.n2 = 2;
        c.d = 40;
        c.dr = 16;
        c.seed = m;
        if (c.mode != 6) {
            verify(&c);
        }
    }
}

/* Dims around every vector width; D = 1; Dv below D; Dr = 8 and Dr = D. */
static void odd_dims(void **state)
{
    static const int64_t dims[][3] = {
        /* D, Dr, Dv */
        {1, 0, 1},     {2, 0, 1},   {3, 0, 2},   {7, 0, 5},    {8, 0, 8},      {15, 0, 15},    {16, 0, 9},
        {17, 0, 17},   {31, 0, 3},  {33, 0, 33}, {40, 0, 40},  {56, 0, 56},    {63, 0, 64},    {65, 0, 65},
        {72, 0, 40},   {80, 0, 80}, {88, 0, 88}, {96, 0, 96},  {104, 0, 104},  {120, 0, 120},  {127, 0, 1},
        {192, 0, 128}, {8, 8, 8},   {16, 8, 16}, {64, 64, 64}, {128, 64, 128}, {192, 64, 128}, {72, 24, 64}};
    (void)state;
    for (size_t i = 0; i < COUNT(dims); ++i) {
        for (size_t t = 0; t < COUNT(dtypes); ++t) {
            const struct attention_case c = {.dtype = dtypes[t],
                                             .n1 = 2,
                                             .d = dims[i][0],
                                             .dr = dims[i][1],
                                             .dv = dims[i][2] < dims[i][0] ? dims[i][2] : dims[i][0],
                                             .mode = 3,
                                             .mask_shape = TEST_MASK_COMPRESSED,
                                             .q_ends = {11, 20},
                                             .kv_ends = {13, 31},
                                             .seed = i};
            if (c.dr == 0 || c.dtype == AG_BF16) {
                verify(&c);
            }
        }
    }
}

/* Lengths around the tiles, alone and masked by a triangle; one table each, all in turn. */
static void odd_lengths(void **state)
{
    static const int64_t lengths[][2] = {{1, 1},     {1, 2},     {2, 1},    {1, 64},    {64, 1},
                                         {63, 65},   {65, 63},   {64, 64},  {127, 129}, {128, 128},
                                         {129, 127}, {1, 300},   {300, 1},  {191, 193}, {255, 257},
                                         {257, 255}, {256, 256}, {40, 520}, {520, 40},  {385, 130}};
    (void)state;
    for (size_t i = 0; i < COUNT(lengths); ++i) {
        for (size_t t = 0; t < COUNT(dtypes); ++t) {
            const struct attention_case c = {.dtype = dtypes[t],
                                             .n1 = 2,
                                             .n2 = 2,
                                             .d = 8,
                                             .mode = (int64_t)i % 2 ? 3 : 1,
                                             .mask_shape = i % 2 ? TEST_MASK_COMPRESSED : TEST_MASK_SS,
                                             .q_ends = {lengths[i][0]},
                                             .kv_ends = {lengths[i][1]},
                                             .seed = i};
            verify(&c);
        }
    }
}

/* Group sizes that are no squares, many heads, one key head. */
static void groups(void **state)
{
    static const int64_t heads[][2] = {{6, 2}, {14, 2}, {9, 3}, {16, 1}, {7, 7}, {1, 1}, {3, 1}, {4, 1}};
    (void)state;
    for (size_t i = 0; i < COUNT(heads); ++i) {
        for (size_t t = 0; t < COUNT(dtypes); ++t) {
            const struct attention_case c = {.dtype = dtypes[t],
                                             .n1 = heads[i][0],
                                             .n2 = heads[i][1],
                                             .d = 16,
                                             .mode = 3,
                                             .mask_shape = TEST_MASK_COMPRESSED,
                                             .q_ends = {9, 30},
                                             .kv_ends = {19, 40},
                                             .seed = i};
            verify(&c);
        }
    }
}

/* 14 heads over 2, 77 rows, and N == T: a swap of the axes cannot hide. */
static void shapes_that_once_failed(void **state)
{
    static const struct attention_case cases[] = {
        {.n1 = 14, .n2 = 2, .d = 64, .q_ends = {77}},
        {.n1 = 16, .n2 = 16, .d = 64, .q_ends = {16}},
        {.n1 = 8, .n2 = 8, .d = 72, .q_ends = {60}, .kv_ends = {64}},
        {.n1 = 2, .n2 = 2, .d = 40, .q_ends = {33}, .kv_ends = {65}},
        {.n1 = 9,
         .n2 = 3,
         .d = 64,
         .scale = 1,
         .q_ends = {0, 1, 1, 2},
         .kv_ends = {0, 3, 3, 8},
         .mode = 3,
         .mask_shape = TEST_MASK_COMPRESSED},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); ++i) {
        for (size_t t = 0; t < COUNT(dtypes); ++t) {
            struct attention_case c = cases[i];
            c.dtype = dtypes[t];
            verify(&c);
        }
    }
}

static void beyond_the_documented_limits(void **state)
{
    static const struct attention_case cases[] = {
        {.dtype = AG_BF16, .d = 800, .q_ends = {9}},
        {.dtype = AG_FLOAT, .n1 = 300, .n2 = 100, .d = 8, .q_ends = {5}},
        {.dtype = AG_FLOAT16, .n1 = 2, .d = 24, .dr = 16, .q_ends = {33}}, /* no mask, rope not in BF16 */
        {.dtype = AG_FLOAT, .n1 = 2, .d = 24, .dr = 16, .q_ends = {33}},
        {.dtype = AG_BF16, .n1 = 2, .d = 13, .dr = 5, .q_ends = {33}, .mode = 3, .mask_shape = TEST_MASK_COMPRESSED},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); ++i) {
        struct attention_call call;
        attention_call_create(&call, &cases[i]);
        assert_true(attention_call_phase1(&call) != 0); /* documented limits */
        attention_call_destroy(&call);
        verify_extended(&cases[i]);
    }
}

/* Large scores, a small and a negative scale: exp underflows, rows have one winner. */
static void hard_scores(void **state)
{
    static const double settings[][2] = {{4, 1}, {1, -0.5}, {30, 0.1}, {1, 1e-4}}; /* deviation, scale */
    (void)state;
    for (size_t i = 0; i < COUNT(settings); ++i) {
        for (size_t t = 0; t < COUNT(dtypes); ++t) {
            const struct attention_case c = {.dtype = dtypes[t],
                                             .n1 = 2,
                                             .d = 32,
                                             .deviation = settings[i][0],
                                             .scale = settings[i][1],
                                             .q_ends = {50},
                                             .kv_ends = {70},
                                             .mode = 3,
                                             .mask_shape = TEST_MASK_COMPRESSED,
                                             .seed = i};
            verify(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_and_type),
        cmocka_unit_test(rope_in_every_mode),
        cmocka_unit_test(odd_dims),
        cmocka_unit_test(odd_lengths),
        cmocka_unit_test(groups),
        cmocka_unit_test(shapes_that_once_failed),
        cmocka_unit_test(beyond_the_documented_limits),
        cmocka_unit_test(hard_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
