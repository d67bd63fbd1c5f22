/* What must hold without any oracle: same bits for every number of threads, every neighbour in the pack, every view of
 * the same values; linear in dy; inputs untouched; outputs that lie on inputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/attention_problem.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int dtypes[] = {AG_FLOAT, AG_FLOAT16, AG_BF16};

/* One key head and few sequences: work is split within a sequence. Odd numbers of works, band and triangle. */
static const struct attention_case busy_cases[] = {
    {.dtype = AG_BF16,
     .n1 = 4,
     .n2 = 1,
     .d = 24,
     .q_ends = {300, 310, 1000},
     .mode = 3,
     .mask_shape = TEST_MASK_COMPRESSED},
    {.dtype = AG_FLOAT,
     .n1 = 3,
     .n2 = 1,
     .d = 16,
     .q_ends = {1, 40, 700},
     .kv_ends = {9, 50, 900},
     .mode = 4,
     .pre = 300,
     .next = 20,
     .mask_shape = TEST_MASK_COMPRESSED},
    {.dtype = AG_FLOAT16, .n1 = 1, .n2 = 1, .d = 40, .q_ends = {1200}, .mode = 2, .mask_shape = TEST_MASK_COMPRESSED},
    {.dtype = AG_BF16,
     .n1 = 9,
     .n2 = 3,
     .d = 16,
     .dr = 8,
     .dv = 8,
     .q_ends = {64, 65, 300},
     .mode = 0,
     .pre = 90,
     .next = 100,
     .mask_shape = TEST_MASK_SS,
     .mask_bytes = TEST_MASK_RANDOM},
};

/* --- threads --------------------------------------------------------------------------------------------- */

static void any_number_of_threads(void **state)
{
    static const int threads[] = {2, 3, 7};
    const struct ag_config before = ag_config_get();
    (void)state;
    for (size_t i = 0; i < COUNT(busy_cases); ++i) {
        struct attention_call one, many;
        attention_call_create(&one, &busy_cases[i]);
        attention_call_create(&many, &busy_cases[i]);
        TEST_EACH_ISA (isa) {
            ag_config_set_isa(isa);
            ag_config_set_threads(1);
            attention_call_run(&one);
            for (size_t t = 0; t < COUNT(threads); ++t) {
                ag_config_set_threads(threads[t]);
                attention_call_run(&many);
                attention_call_assert_same(&one, &many);
            }
        }
        attention_call_destroy(&one);
        attention_call_destroy(&many);
    }
    ag_config_set_isa(before.isa);
    ag_config_set_threads(before.threads);
}

static void run_after_run(void **state)
{
    const struct ag_config before = ag_config_get();
    (void)state;
    for (int64_t n1 = 1; n1 <= 4; ++n1) {
        const struct attention_case c = {.dtype = AG_BF16,
                                         .n1 = n1,
                                         .d = 16,
                                         .q_ends = {70, 71, 200},
                                         .mode = n1 % 2 ? 3 : 4,
                                         .pre = 60,
                                         .next = 2,
                                         .mask_shape = TEST_MASK_COMPRESSED};
        struct attention_call first, again;
        attention_call_create(&first, &c);
        attention_call_create(&again, &c);
        attention_call_run(&first);
        for (int run = 0; run < 30; ++run) {
            ag_config_set_threads(1 + run % 2);
            attention_call_run(&again);
            attention_call_assert_same(&first, &again);
        }
        attention_call_destroy(&first);
        attention_call_destroy(&again);
    }
    ag_config_set_threads(before.threads);
}

/* --- neighbours ------------------------------------------------------------------------------------------ */

/* Copies rows of one tensor to another, both [rows, heads, dim]. */
static void copy_rows(struct test_tensor *to, int64_t to_row, const struct test_tensor *from, int64_t from_row,
                      int64_t rows)
{
    if (!from->handle) {
        return;
    }
    const int64_t width = from->view.dims[1] * from->view.dims[2];
    for (int64_t i = 0; i < rows * width; ++i) {
        memcpy(test_tensor_at(to, to_row * width + i), test_tensor_at(from, from_row * width + i),
               ag_dtype_bytes(from->view.dtype));
    }
}

static void assert_same_rows(const char *what, const struct test_tensor *a, int64_t a_row,
                             const struct test_tensor *b, int64_t b_row, int64_t rows)
{
    if (!a->handle) {
        return;
    }
    const int64_t width = a->view.dims[1] * a->view.dims[2];
    for (int64_t i = 0; i < rows * width; ++i) {
        if (memcmp(test_tensor_at(a, a_row * width + i), test_tensor_at(b, b_row * width + i),
                   ag_dtype_bytes(a->view.dtype)) != 0) {
            fail_msg("%s: element %d of row %d: %.9g and %.9g", what, (int)(i % width), (int)(i / width),
                     test_tensor_get(a, a_row * width + i), test_tensor_get(b, b_row * width + i));
        }
    }
}

/* Sequence b of `from` becomes sequence a of `to` (same lengths); statistics are in the order of blocks. */
static void copy_sequence(struct attention_call *to, int64_t a, const struct attention_call *from, int64_t b)
{
    const struct attention_rows q_to = attention_case_rows(&to->c, to->c.q_ends, a);
    const struct attention_rows q_from = attention_case_rows(&from->c, from->c.q_ends, b);
    const struct attention_rows k_to = attention_case_rows(&to->c, to->c.kv_ends, a);
    const struct attention_rows k_from = attention_case_rows(&from->c, from->c.kv_ends, b);
    copy_rows(&to->q, q_to.begin, &from->q, q_from.begin, q_from.count);
    copy_rows(&to->qr, q_to.begin, &from->qr, q_from.begin, q_from.count);
    copy_rows(&to->dy, q_to.begin, &from->dy, q_from.begin, q_from.count);
    copy_rows(&to->out, q_to.begin, &from->out, q_from.begin, q_from.count);
    copy_rows(&to->max, q_to.begin, &from->max, q_from.begin, q_from.count);
    copy_rows(&to->sum, q_to.begin, &from->sum, q_from.begin, q_from.count);
    copy_rows(&to->k, k_to.begin, &from->k, k_from.begin, k_from.count);
    copy_rows(&to->kr, k_to.begin, &from->kr, k_from.begin, k_from.count);
    copy_rows(&to->v, k_to.begin, &from->v, k_from.begin, k_from.count);
}

static void assert_same_sequence(const struct attention_call *x, int64_t a, const struct attention_call *y, int64_t b)
{
    const struct attention_rows q_x = attention_case_rows(&x->c, x->c.q_ends, a);
    const struct attention_rows q_y = attention_case_rows(&y->c, y->c.q_ends, b);
    const struct attention_rows k_x = attention_case_rows(&x->c, x->c.kv_ends, a);
    const struct attention_rows k_y = attention_case_rows(&y->c, y->c.kv_ends, b);
    assert_same_rows("dq", &x->dq, q_x.begin, &y->dq, q_y.begin, q_x.count);
    assert_same_rows("dqRope", &x->dqr, q_x.begin, &y->dqr, q_y.begin, q_x.count);
    assert_same_rows("dk", &x->dk, k_x.begin, &y->dk, k_y.begin, k_x.count);
    assert_same_rows("dkRope", &x->dkr, k_x.begin, &y->dkr, k_y.begin, k_x.count);
    assert_same_rows("dv", &x->dv, k_x.begin, &y->dv, k_y.begin, k_x.count);
}

#define PACK .q_ends = {37, 37, 340, 600, 601}, .kv_ends = {21, 30, 333, 333, 900}

static const struct attention_case packs[] = {
    {PACK, .n1 = 4, .n2 = 2, .d = 16, .mode = 3, .mask_shape = TEST_MASK_COMPRESSED},
    {PACK, .n1 = 3, .n2 = 1, .d = 24, .dv = 8, .mode = 4, .pre = 70, .next = 9, .mask_shape = TEST_MASK_COMPRESSED},
    {PACK, .n1 = 2, .n2 = 2, .d = 8, .mask_shape = TEST_MASK_NONE},
    {PACK, .n1 = 1, .n2 = 1, .d = 8, .mode = 2, .mask_shape = TEST_MASK_COMPRESSED},
};

/* Every sequence of a pack gives the same bits alone. */
static void alone_as_in_a_pack(void **state)
{
    (void)state;
    for (size_t p = 0; p < COUNT(packs); ++p) {
        for (size_t t = 0; t < COUNT(dtypes); ++t) {
            struct attention_case c = packs[p];
            struct attention_call pack;
            c.dtype = dtypes[t];
            attention_call_create(&pack, &c);
            attention_call_run(&pack);
            for (int64_t b = 0; b < pack.c.count; ++b) {
                struct attention_call alone;
                struct attention_case single = c;
                memset(single.q_ends, 0, sizeof single.q_ends + sizeof single.kv_ends);
                single.q_ends[0] = attention_case_rows(&pack.c, pack.c.q_ends, b).count;
                single.kv_ends[0] = attention_case_rows(&pack.c, pack.c.kv_ends, b).count;
                if (single.q_ends[0] > 0 && single.kv_ends[0] > 0) {
                    attention_call_create(&alone, &single);
                    copy_sequence(&alone, 0, &pack, b);
                    attention_call_run(&alone);
                    assert_same_sequence(&alone, 0, &pack, b);
                    attention_call_destroy(&alone);
                }
            }
            attention_call_destroy(&pack);
        }
    }
}

/* The sequences in another order, with empty ones and slack between: the same bits in other places. */
static void permuted_packs(void **state)
{
    static const struct attention_case forward_order = {.n1 = 2,
                                                        .d = 16,
                                                        .q_ends = {30, 90, 101, 300},
                                                        .kv_ends = {40, 60, 300, 320},
                                                        .mode = 3,
                                                        .mask_shape = TEST_MASK_COMPRESSED};
    static const struct attention_case other_order = {.n1 = 2,
                                                      .d = 16,
                                                      .q_slack = 5,
                                                      .kv_slack = 1,
                                                      .count = 9,
                                                      .q_ends = {0, 199, 210, 210, 240, 240, 300, 0, 0},
                                                      .kv_ends = {0, 20, 260, 263, 303, 303, 323, 0, 0},
                                                      .mode = 3,
                                                      .mask_shape = TEST_MASK_COMPRESSED};
    static const int64_t places[4] = {4, 6, 2, 1};
    (void)state;
    for (size_t t = 0; t < COUNT(dtypes); ++t) {
        struct attention_case a = forward_order, b = other_order;
        struct attention_call x, y;
        a.dtype = b.dtype = dtypes[t];
        attention_call_create(&x, &a);
        attention_call_create(&y, &b);
        for (int64_t s = 0; s < 4; ++s) {
            copy_sequence(&y, places[s], &x, s);
        }
        attention_call_run(&x);
        attention_call_run(&y);
        for (int64_t s = 0; s < 4; ++s) {
            assert_same_sequence(&x, s, &y, places[s]);
        }
        attention_call_destroy(&x);
        attention_call_destroy(&y);
    }
}

/* --- views ----------------------------------------------------------------------------------------------- */

static void any_view_of_the_same_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(busy_cases); ++i) {
        struct attention_call dense;
        attention_call_create(&dense, &busy_cases[i]);
        attention_call_run(&dense);
        for (int views = TEST_VIEWS_PADDED; views <= TEST_VIEWS_SPREAD; ++views) {
            struct attention_case c = busy_cases[i];
            struct attention_call other;
            c.views = (enum test_views)views;
            attention_call_create(&other, &c);
            attention_call_run(&other);
            attention_call_assert_same(&dense, &other);
            attention_call_destroy(&other);
        }
        attention_call_destroy(&dense);
    }
}

/* dy of one element with strides {0, 0, 0}, as a sum's backward makes it. */
static void expanded_dy(void **state)
{
    (void)state;
    for (size_t t = 0; t < COUNT(dtypes); ++t) {
        const struct attention_case c = {
            .dtype = dtypes[t], .n1 = 2, .d = 16, .q_ends = {20, 50}, .mode = 3, .mask_shape = TEST_MASK_COMPRESSED};
        struct attention_call dense, expanded;
        attention_call_create(&dense, &c);
        attention_call_create(&expanded, &c);
        struct test_tensor one = test_tensor_create_strided(c.dtype, 3, dense.dy.view.dims, (int64_t[]){0, 0, 0}, 2);
        test_tensor_set(&one, 0, 1);
        test_tensor_fill_value(&dense.dy, 1);
        expanded.args.dy = one.handle;
        attention_call_run(&dense);
        attention_call_run(&expanded);
        attention_call_assert_same(&dense, &expanded);
        test_tensor_destroy(&one);
        attention_call_destroy(&dense);
        attention_call_destroy(&expanded);
    }
}

/* A mask that is a view: every other column of every third row, over wider memory; and one spread by strides 0. */
static void mask_views(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT,
                                     .n1 = 2,
                                     .d = 8,
                                     .q_ends = {20, 50},
                                     .kv_ends = {35, 60},
                                     .mode = 1,
                                     .mask_shape = TEST_MASK_SS,
                                     .mask_bytes = TEST_MASK_RANDOM};
    const int64_t four[4] = {2, 2, 30, 35};
    struct attention_call dense, viewed;
    (void)state;
    attention_call_create(&dense, &c);
    attention_call_create(&viewed, &c);
    attention_call_run(&dense);
    struct test_tensor view = test_tensor_create_strided(AG_UINT8, 2, dense.mask.view.dims, (int64_t[]){300, 2}, 9);
    test_tensor_copy_values(&view, &dense.mask);
    viewed.args.atten_mask = view.handle;
    attention_call_run(&viewed);
    attention_call_assert_same(&dense, &viewed);
    struct test_tensor spread = test_tensor_create_strided(AG_BOOL, 4, four, (int64_t[]){0, 0, 40, 1}, 0);
    for (int64_t at = 0; at < 30 * 35; ++at) {
        test_tensor_set(&spread, at, test_tensor_get(&dense.mask, at));
    }
    viewed.args.atten_mask = spread.handle;
    attention_call_run(&viewed);
    attention_call_assert_same(&dense, &viewed);
    test_tensor_destroy(&view);
    test_tensor_destroy(&spread);
    attention_call_destroy(&dense);
    attention_call_destroy(&viewed);
}

/* --- linear in dy ---------------------------------------------------------------------------------------- */

static void assert_scaled(const char *what, const struct test_tensor *one, const struct test_tensor *two,
                          double factor)
{
    for (int64_t i = 0; one->handle && i < test_tensor_elems(one); ++i) {
        const double a = test_tensor_get(one, i), b = test_tensor_get(two, i);
        const bool is_tiny = one->view.dtype == AG_FLOAT16 && fabs(a) < 0x1p-13; /* halves below it may be rounded */
        if (is_tiny ? fabs(b - factor * a) > 0x1p-23 : b != factor * a) {
            fail_msg("%s[%d]: %.9g is not %g times %.9g", what, (int)i, b, factor, a);
        }
    }
}

static void scale_dy(struct attention_call *call, double factor)
{
    for (int64_t i = 0; i < test_tensor_elems(&call->dy); ++i) {
        test_tensor_set(&call->dy, i, factor * test_tensor_get(&call->dy, i));
    }
}

/* Twice dy is twice every gradient, bit for bit; dy = 0 is 0 everywhere. */
static void linear_in_dy(void **state)
{
    static const double factors[] = {2, 0.5, -1, 0};
    (void)state;
    for (size_t i = 0; i < COUNT(busy_cases); ++i) {
        struct attention_call one, other;
        attention_call_create(&one, &busy_cases[i]);
        attention_call_run(&one);
        for (size_t f = 0; f < COUNT(factors); ++f) {
            attention_call_create(&other, &busy_cases[i]);
            scale_dy(&other, factors[f]);
            attention_call_run(&other);
            assert_scaled("dq", &one.dq, &other.dq, factors[f]);
            assert_scaled("dqRope", &one.dqr, &other.dqr, factors[f]);
            assert_scaled("dk", &one.dk, &other.dk, factors[f]);
            assert_scaled("dkRope", &one.dkr, &other.dkr, factors[f]);
            assert_scaled("dv", &one.dv, &other.dv, factors[f]);
            attention_call_destroy(&other);
        }
        attention_call_destroy(&one);
    }
}

/* With the same statistics the gradients of two masks that share the pairs between them add up to those of all. */
static void masks_add_up(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT,
                                     .n1 = 2,
                                     .d = 8,
                                     .q_ends = {40, 90},
                                     .mode = 1,
                                     .mask_shape = TEST_MASK_SS,
                                     .mask_bytes = TEST_MASK_ZEROS};
    struct attention_call all, some, rest;
    struct test_random random = test_random_seed(5);
    (void)state;
    attention_call_create(&all, &c);
    attention_call_create(&some, &c);
    attention_call_create(&rest, &c);
    for (int64_t i = 0; i < test_tensor_elems(&some.mask); ++i) {
        const bool is_hidden = test_random_below(&random, 2) == 0;
        test_tensor_set(&some.mask, i, is_hidden);
        test_tensor_set(&rest.mask, i, !is_hidden);
    }
    attention_call_run(&all);
    attention_call_run(&some);
    attention_call_run(&rest);
    struct test_tensor *const sums[][3] = {
        {&all.dq, &some.dq, &rest.dq}, {&all.dk, &some.dk, &rest.dk}, {&all.dv, &some.dv, &rest.dv}};
    for (size_t k = 0; k < COUNT(sums); ++k) {
        for (int64_t i = 0; i < test_tensor_elems(sums[k][0]); ++i) {
            const double sum = test_tensor_get(sums[k][1], i) + test_tensor_get(sums[k][2], i);
            assert_true(fabs(sum - test_tensor_get(sums[k][0], i)) < 2e-6);
        }
    }
    attention_call_destroy(&all);
    attention_call_destroy(&some);
    attention_call_destroy(&rest);
}

/* --- memory ---------------------------------------------------------------------------------------------- */

static void inputs_stay(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(busy_cases); ++i) {
        struct attention_call used, fresh;
        attention_call_create(&used, &busy_cases[i]);
        attention_call_create(&fresh, &busy_cases[i]);
        attention_call_run(&used);
        const struct test_tensor *const pairs[][2] = {
            {&used.q, &fresh.q},     {&used.k, &fresh.k},      {&used.v, &fresh.v},     {&used.dy, &fresh.dy},
            {&used.out, &fresh.out}, {&used.max, &fresh.max},  {&used.sum, &fresh.sum}, {&used.qr, &fresh.qr},
            {&used.kr, &fresh.kr},   {&used.mask, &fresh.mask}};
        for (size_t k = 0; k < COUNT(pairs); ++k) {
            if (pairs[k][0]->handle) {
                test_assert_same_bits("input", pairs[k][0], pairs[k][1]);
            }
        }
        attention_call_destroy(&used);
        attention_call_destroy(&fresh);
    }
}

/* Slack rows, and rows of sequences without a counterpart: exact zeros over NaN. */
static void zeros_where_nothing_is_computed(void **state)
{
    (void)state;
    for (size_t t = 0; t < COUNT(dtypes); ++t) {
        const struct attention_case c = {.dtype = dtypes[t],
                                         .n1 = 2,
                                         .d = 8,
                                         .count = 5,
                                         .q_ends = {0, 5, 9, 0, 0},
                                         .kv_ends = {4, 9, 9, 12, 20},
                                         .q_slack = 11,
                                         .kv_slack = 3};
        struct attention_call call;
        attention_call_create(&call, &c);
        attention_call_run(&call);
        for (int64_t i = 5 * 16; i < test_tensor_elems(&call.dq); ++i) {
            assert_memory_equal(test_tensor_at(&call.dq, i), &(float){0}, ag_dtype_bytes(c.dtype));
        }
        for (int64_t i = 0; i < test_tensor_elems(&call.dk); ++i) {
            if (i < 4 * 8 || i >= 9 * 8) {
                assert_memory_equal(test_tensor_at(&call.dk, i), &(float){0}, ag_dtype_bytes(c.dtype));
                assert_memory_equal(test_tensor_at(&call.dv, i), &(float){0}, ag_dtype_bytes(c.dtype));
            }
        }
        attention_call_destroy(&call);
    }
}

/* Outputs may lie on inputs: dq on query, dk on key, dv on value, the ropes likewise, and dq on dy. */
static void outputs_on_inputs(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(busy_cases); ++i) {
        struct attention_call apart, joined;
        attention_call_create(&apart, &busy_cases[i]);
        attention_call_create(&joined, &busy_cases[i]);
        attention_call_run(&apart);
        joined.args.dq = joined.q.handle;
        joined.args.dk = joined.k.handle;
        joined.args.dv = joined.v.handle;
        joined.args.dq_rope = joined.qr.handle;
        joined.args.dk_rope = joined.kr.handle;
        attention_call_run(&joined);
        test_assert_same_bits("dq", &apart.dq, &joined.q);
        test_assert_same_bits("dk", &apart.dk, &joined.k);
        test_assert_same_bits("dv", &apart.dv, &joined.v);
        if (apart.dqr.handle) {
            test_assert_same_bits("dqRope", &apart.dqr, &joined.qr);
            test_assert_same_bits("dkRope", &apart.dkr, &joined.kr);
        }
        attention_call_destroy(&apart);
        attention_call_destroy(&joined);
    }
}

static void dq_on_dy(void **state)
{
    (void)state;
    struct attention_call apart, joined;
    attention_call_create(&apart, &busy_cases[0]);
    attention_call_create(&joined, &busy_cases[0]);
    attention_call_run(&apart);
    joined.args.dq = joined.dy.handle;
    joined.args.dk = joined.v.handle;
    joined.args.dv = joined.k.handle;
    attention_call_run(&joined);
    test_assert_same_bits("dq", &apart.dq, &joined.dy);
    test_assert_same_bits("dk", &apart.dk, &joined.v);
    test_assert_same_bits("dv", &apart.dv, &joined.k);
    attention_call_destroy(&apart);
    attention_call_destroy(&joined);
}

/* dq in the memory of a mask whose bytes count: the first head's rows would be written where the others still read. */
static void dq_on_the_mask(void **state)
{
    const struct attention_case c = {.dtype = AG_FLOAT,
                                     .n1 = 4,
                                     .d = 8,
                                     .mode = 1,
                                     .q_ends = {400},
                                     .mask_shape = TEST_MASK_SS,
                                     .mask_bytes = TEST_MASK_RANDOM};
    struct attention_call apart, joined;
    (void)state;
    attention_call_create(&apart, &c);
    attention_call_create(&joined, &c);
    attention_call_run(&apart);
    aclTensor *dq = aclCreateTensor(joined.dq.view.dims, 3, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, joined.dq.view.dims, 3,
                                    joined.mask.view.data);
    assert_non_null(dq);
    joined.args.dq = dq;
    attention_call_run(&joined);
    assert_memory_equal(joined.mask.view.data, apart.dq.view.data, apart.dq.buffer.bytes);
    test_assert_same_bits("dk", &apart.dk, &joined.dk);
    test_assert_same_bits("dv", &apart.dv, &joined.dv);
    aclDestroyTensor(dq);
    attention_call_destroy(&apart);
    attention_call_destroy(&joined);
}

/* A rope output that nobody wants is skipped; the others do not change. */
static void rope_outputs_may_be_absent(void **state)
{
    struct attention_call both, none;
    (void)state;
    attention_call_create(&both, &busy_cases[3]);
    attention_call_create(&none, &busy_cases[3]);
    attention_call_run(&both);
    none.args.dq_rope = none.args.dk_rope = NULL;
    attention_call_run(&none);
    test_assert_same_bits("dq", &both.dq, &none.dq);
    test_assert_same_bits("dk", &both.dk, &none.dk);
    test_assert_same_bits("dv", &both.dv, &none.dv);
    assert_true(isnan(test_tensor_get(&none.dqr, 0)));
    attention_call_destroy(&both);
    attention_call_destroy(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(run_after_run),
        cmocka_unit_test(alone_as_in_a_pack),
        cmocka_unit_test(permuted_packs),
        cmocka_unit_test(any_view_of_the_same_values),
        cmocka_unit_test(expanded_dy),
        cmocka_unit_test(mask_views),
        cmocka_unit_test(linear_in_dy),
        cmocka_unit_test(masks_add_up),
        cmocka_unit_test(inputs_stay),
        cmocka_unit_test(zeros_where_nothing_is_computed),
        cmocka_unit_test(outputs_on_inputs),
        cmocka_unit_test(dq_on_dy),
        cmocka_unit_test(dq_on_the_mask),
        cmocka_unit_test(rope_outputs_may_be_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
