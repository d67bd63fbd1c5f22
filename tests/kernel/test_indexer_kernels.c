/* labels: smoke ci emulated */
/* The indexer's kernels: every table, panel type and number of slots, heads and elements around the steps of the
 * tiles, against plain loops; every array ends at a page that cannot be touched. Values are small whole numbers, so
 * that every result is exact whatever the order of the additions. */
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernel/kernel.h"

enum { KEYS = 67, MOST_SLOTS = 81 };

static const int64_t slot_counts[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 29};
static const int64_t tile_slot_counts[] = {1, 31, 32, 33, MOST_SLOTS};
static const int64_t head_counts[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 130};
static const int64_t dims[] = {1, 2, 15, 16, 17, 33, 64, 65, 128};

/* One row's problem in floats, and in the words of a panel type. */
struct problem {
    const struct ag_panel_kernels *panel;
    const struct ag_indexer_kernels *kernels;
    bool is_bf16;
    int64_t slots, heads, dim, head_stride, key_words, dim_stride, dp_words;
    struct test_buffer query;   /* [heads, dim] floats */
    struct test_buffer keys;    /* [KEYS, dim] floats */
    struct test_buffer weights; /* [head_stride] floats */
    struct test_buffer dy, numbers;
    struct test_buffer packed_keys, query_lanes, query_depth, dp, dp_pairs, dweights, dk;
};

static int64_t round_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
}

static struct test_buffer whole_numbers(struct test_random *random, int64_t count, int64_t filled)
{
    struct test_buffer buffer = test_buffer_create((size_t)count * sizeof(float), sizeof(float));
    for (int64_t i = 0; i < count; ++i) {
        ((float *)buffer.data)[i] = i < filled ? (float)test_random_between(random, -2, 2) : 0.0f;
    }
    return buffer;
}

static struct test_buffer words(int64_t count)
{
    struct test_buffer buffer = test_buffer_create((size_t)count * sizeof(uint32_t), sizeof(uint32_t));
    memset(buffer.data, 0xff, buffer.bytes);
    return buffer;
}

static void pack(struct problem *p)
{
    const int64_t pair = p->panel->pair, lanes = p->panel->lanes;
    const int64_t dim_depth = round_up(p->dim, pair) / pair, head_depth = round_up(p->heads, pair) / pair;
    const struct ag_matrix query = {
        .data = p->query.data, .rows = p->heads, .cols = p->dim, .row_stride = p->dim, .col_stride = 1};
    const struct ag_matrix keys = {
        .data = p->keys.data, .rows = KEYS, .cols = p->dim, .row_stride = p->dim, .col_stride = 1};
    p->key_words = dim_depth; /* no slack: a kernel that reads a word too many is caught */
    p->packed_keys = words(KEYS * p->key_words);
    p->query_lanes = words(round_up(p->heads, lanes) * dim_depth);
    p->query_depth = words(round_up(p->dim, lanes) * head_depth);
    p->panel->pack_rows[AG_ELEM_F32](p->packed_keys.data, p->key_words, &keys);
    p->panel->pack_lanes[AG_ELEM_F32](p->query_lanes.data, &query);
    p->panel->pack_depth[AG_ELEM_F32](p->query_depth.data, head_depth * lanes, &query);
}

static struct problem create(enum ag_isa isa, enum ag_panel panel, int64_t slots, int64_t heads, int64_t dim)
{
    struct test_random random = test_random_seed((uint64_t)(slots * 1000 + heads * 10 + dim));
    struct problem p = {.panel = &ag_kernels_for(isa)->panel[panel],
                        .kernels = &ag_kernels_for(isa)->indexer[panel],
                        .is_bf16 = panel == AG_PANEL_BF16,
                        .slots = slots,
                        .heads = heads,
                        .dim = dim};
    p.head_stride = round_up(heads, p.panel->lanes / 2);
    p.dim_stride = round_up(dim, p.panel->lanes / 2);
    p.dp_words = p.head_stride / p.panel->pair;
    p.query = whole_numbers(&random, heads * dim, heads * dim);
    p.keys = whole_numbers(&random, KEYS * dim, KEYS * dim);
    p.weights = whole_numbers(&random, p.head_stride, heads);
    p.dweights = whole_numbers(&random, p.head_stride, heads);
    p.dk = whole_numbers(&random, KEYS * p.dim_stride, KEYS * p.dim_stride);
    p.dy = whole_numbers(&random, slots, slots);
    p.numbers = words(slots);
    for (int64_t s = 0; s < slots; ++s) {
        ((int32_t *)p.numbers.data)[s] = (int32_t)test_random_below(&random, KEYS);
    }
    p.dp = words(slots * p.dp_words);
    p.dp_pairs = words((slots + 1) / 2 * p.head_stride);
    pack(&p);
    return p;
}

static void destroy(struct problem *p)
{
    struct test_buffer *const all[] = {&p->query,   &p->keys,        &p->weights,     &p->dy,
                                       &p->numbers, &p->packed_keys, &p->query_lanes, &p->query_depth,
                                       &p->dp,      &p->dp_pairs,    &p->dweights,    &p->dk};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        test_buffer_destroy(all[i]);
    }
}

/* --- reading results -------------------------------------------------------------------------------------------- */

static float float_at(const struct test_buffer *buffer, int64_t i)
{
    return ((const float *)buffer->data)[i];
}

static float dp_at(const struct problem *p, int64_t slot, int64_t head)
{
    const uint32_t *row = (const uint32_t *)p->dp.data + slot * p->dp_words;
    return p->is_bf16 ? ag_bf16_to_f32(((const ag_bf16 *)row)[head]) : ((const float *)row)[head];
}

static float pair_at(const struct problem *p, int64_t slot, int64_t head)
{
    const ag_bf16 *word = (const ag_bf16 *)((const uint32_t *)p->dp_pairs.data + slot / 2 * p->head_stride + head);
    return ag_bf16_to_f32(word[slot % 2]);
}

static int32_t key_of(const struct problem *p, int64_t slot)
{
    return ((const int32_t *)p->numbers.data)[slot];
}

static float score_of(const struct problem *p, int64_t slot, int64_t head)
{
    float sum = 0;
    for (int64_t d = 0; d < p->dim; ++d) {
        sum += float_at(&p->query, head * p->dim + d) * float_at(&p->keys, key_of(p, slot) * p->dim + d);
    }
    return sum;
}

static void expect(const struct problem *p, const char *what, int64_t row, int64_t column, float got, float want)
{
    if (got != want) {
        fail_msg("%s of %lld slots, %lld heads, dim %lld, %s panels of %d: [%lld, %lld] is %g, want %g", what,
                 (long long)p->slots, (long long)p->heads, (long long)p->dim, p->is_bf16 ? "bf16" : "f32",
                 p->panel->lanes, (long long)row, (long long)column, got, want);
    }
}

/* --- the kernels ------------------------------------------------------------------------------------------------ */

static void check_score(struct problem *p)
{
    float *before = malloc((size_t)p->heads * sizeof *before);
    assert_non_null(before);
    memcpy(before, p->dweights.data, (size_t)p->heads * sizeof *before);
    const struct ag_indexer_score score = {.query = p->query_lanes.data,
                                           .keys = p->packed_keys.data,
                                           .numbers = p->numbers.data,
                                           .dy = p->dy.data,
                                           .weights = p->weights.data,
                                           .dweights = p->dweights.data,
                                           .dp = p->dp.data,
                                           .dp_pairs = p->is_bf16 ? p->dp_pairs.data : NULL,
                                           .key_stride = p->key_words,
                                           .dp_stride = p->dp_words,
                                           .head_stride = p->head_stride,
                                           .heads = p->heads,
                                           .depth = p->key_words,
                                           .slots = p->slots};
    p->kernels->score(&score);
    for (int64_t h = 0; h < p->head_stride; ++h) {
        float sum = h < p->heads ? before[h] : 0;
        for (int64_t s = 0; s < p->slots; ++s) {
            const float product = h < p->heads ? score_of(p, s, h) : 0, dy = float_at(&p->dy, s);
            const float want = product > 0 ? float_at(&p->weights, h) * dy : 0;
            sum += product > 0 ? product * dy : 0;
            expect(p, "dp", s, h, dp_at(p, s, h), want);
            expect(p, "dp_pairs", s, h, p->is_bf16 ? pair_at(p, s, h) : want, want);
        }
        if (p->is_bf16 && p->slots % 2) {
            expect(p, "dp_pairs", p->slots, h, pair_at(p, p->slots, h), 0);
        }
        expect(p, "dweights", 0, h, float_at(&p->dweights, h), sum);
    }
    free(before);
}

/* The gathered panels are those that packing the gathered rows makes. */
static void check_gather(const struct problem *p)
{
    const int64_t pair = p->panel->pair, lanes = p->panel->lanes, slot_words = (p->slots + pair - 1) / pair;
    const int64_t panels = round_up(p->dim, lanes) / lanes;
    struct test_buffer rows = test_buffer_create((size_t)(p->slots * p->dim) * sizeof(float), sizeof(float));
    struct test_buffer got = words(panels * slot_words * lanes), want = words(panels * slot_words * lanes);
    for (int64_t s = 0; s < p->slots; ++s) {
        memcpy((float *)rows.data + s * p->dim, (const float *)p->keys.data + key_of(p, s) * p->dim,
               (size_t)p->dim * sizeof(float));
    }
    const struct ag_matrix matrix = {
        .data = rows.data, .rows = p->slots, .cols = p->dim, .row_stride = p->dim, .col_stride = 1};
    const struct ag_indexer_gather gather = {.to = got.data,
                                             .keys = p->packed_keys.data,
                                             .numbers = p->numbers.data,
                                             .panel_stride = slot_words * lanes,
                                             .key_stride = p->key_words,
                                             .slots = p->slots,
                                             .dim = p->dim};
    p->panel->pack_depth[AG_ELEM_F32](want.data, slot_words * lanes, &matrix);
    p->kernels->gather(&gather);
    for (int64_t i = 0; i < panels * slot_words * lanes; ++i) { /* lanes behind the last vector stay as they were */
        const int64_t lane = i % lanes + i / (slot_words * lanes) * lanes;
        if (lane < round_up(p->dim, p->panel->vector) && ((uint32_t *)got.data)[i] != ((uint32_t *)want.data)[i]) {
            fail_msg("gather of %lld slots, dim %lld: word %lld is %08x, want %08x", (long long)p->slots,
                     (long long)p->dim, (long long)i, ((uint32_t *)got.data)[i], ((uint32_t *)want.data)[i]);
        }
    }
    test_buffer_destroy(&rows);
    test_buffer_destroy(&got);
    test_buffer_destroy(&want);
}

/* Slots of different keys only: what a group may hold. */
static int64_t choose_entries(const struct problem *p, int32_t *entries)
{
    bool is_taken[KEYS] = {false};
    int64_t count = 0;
    for (int64_t s = p->slots - 1; s >= 0; --s) { /* any order */
        if (!is_taken[key_of(p, s)]) {
            is_taken[key_of(p, s)] = true;
            entries[count++] = (int32_t)s;
        }
    }
    return count;
}

static void check_scatter(struct problem *p)
{
    int32_t chosen[MOST_SLOTS];
    const int64_t count = choose_entries(p, chosen), floats = KEYS * p->dim_stride;
    struct test_buffer entries = words(count);
    float *want = malloc((size_t)floats * sizeof *want);
    assert_non_null(want);
    memcpy(want, p->dk.data, (size_t)floats * sizeof *want);
    if (count > 0) {
        memcpy(entries.data, chosen, (size_t)count * sizeof *chosen);
    }
    for (int64_t i = 0; i < count; ++i) {
        for (int64_t d = 0; d < p->dim; ++d) {
            for (int64_t h = 0; h < p->heads; ++h) {
                want[key_of(p, chosen[i]) * p->dim_stride + d] +=
                    dp_at(p, chosen[i], h) * float_at(&p->query, h * p->dim + d);
            }
        }
    }
    const struct ag_indexer_scatter scatter = {.query = p->query_depth.data,
                                               .dp = p->dp.data,
                                               .entries = entries.data,
                                               .numbers = p->numbers.data,
                                               .dk = p->dk.data,
                                               .dp_stride = p->dp_words,
                                               .dk_stride = p->dim_stride,
                                               .depth = (p->heads + p->panel->pair - 1) / p->panel->pair,
                                               .dim = p->dim,
                                               .count = count};
    p->kernels->scatter(&scatter);
    for (int64_t i = 0; i < floats; ++i) {
        if (i % p->dim_stride < p->dim) {
            expect(p, "dk", i / p->dim_stride, i % p->dim_stride, float_at(&p->dk, i), want[i]);
        }
    }
    free(want);
    test_buffer_destroy(&entries);
}

static void check(enum ag_isa isa, enum ag_panel panel, int64_t slots, int64_t heads, int64_t dim)
{
    struct problem p = create(isa, panel, slots, heads, dim);
    ag_kernels_for(isa)->begin_task();
    check_score(&p);
    check_gather(&p);
    check_scatter(&p);
    ag_kernels_for(isa)->end_task();
    destroy(&p);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void check_panel(enum ag_isa isa, enum ag_panel panel)
{
    for (size_t s = 0; s < COUNT(slot_counts); ++s) {
        check(isa, panel, slot_counts[s], 9, 20);
    }
    for (size_t h = 0; h < COUNT(head_counts); ++h) {
        check(isa, panel, 7, head_counts[h], 18);
    }
    for (size_t d = 0; d < COUNT(dims); ++d) {
        check(isa, panel, 13, 5, dims[d]);
    }
    for (size_t s = 0; s < COUNT(tile_slot_counts); ++s) { /* whole tiles, and blocks of them */
        check(isa, panel, tile_slot_counts[s], 63, 128);
        check(isa, panel, tile_slot_counts[s], 96, 32);
    }
}

static void test_against_loops(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        check_panel(isa, AG_PANEL_F32);
        check_panel(isa, AG_PANEL_BF16);
    }
}

/* weights * dy rounds to bf16 where asked, exactly as the definition of rounding says. */
static void test_rounding(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        struct problem p = create(isa, AG_PANEL_F32, 6, 3, 4);
        for (int rounded = 0; rounded < 2; ++rounded) {
            struct ag_indexer_score score = {.query = p.query_lanes.data,
                                             .keys = p.packed_keys.data,
                                             .numbers = p.numbers.data,
                                             .dy = p.dy.data,
                                             .weights = p.weights.data,
                                             .dweights = p.dweights.data,
                                             .dp = p.dp.data,
                                             .key_stride = p.key_words,
                                             .dp_stride = p.dp_words,
                                             .head_stride = p.head_stride,
                                             .heads = p.heads,
                                             .depth = p.key_words,
                                             .slots = p.slots,
                                             .is_rounded = rounded};
            for (int64_t h = 0; h < p.heads; ++h) {
                ((float *)p.weights.data)[h] = 1.0f + 0x1p-9f * (float)(h + 1);
            }
            p.kernels->score(&score);
            for (int64_t s = 0; s < p.slots; ++s) {
                for (int64_t h = 0; h < p.heads; ++h) {
                    const float flow = score_of(&p, s, h) > 0 ? float_at(&p.weights, h) * float_at(&p.dy, s) : 0;
                    expect(&p, "dp", s, h, dp_at(&p, s, h), rounded ? ag_bf16_to_f32(ag_f32_to_bf16(flow)) : flow);
                }
            }
        }
        destroy(&p);
    }
}

/* The forward's scores: heads and keys around the steps, products up to a whole vector and no further. */
static void check_weigh(const struct ag_kernels *kernels, struct test_random *random, int64_t heads, int64_t keys)
{
    const int64_t vector = kernels->panel[AG_PANEL_F32].vector, whole = round_up(keys, vector);
    const int64_t stride = whole + 3, last = (heads - 1) * stride + whole;
    struct test_buffer products = whole_numbers(random, heads ? last : 0, last);
    struct test_buffer weights = whole_numbers(random, heads, heads), scores = words(whole);
    const struct ag_indexer_weigh weigh = {.products = products.data,
                                           .weights = weights.data,
                                           .scores = scores.data,
                                           .product_stride = stride,
                                           .heads = heads,
                                           .keys = keys};
    kernels->indexer_weigh(&weigh);
    for (int64_t t = 0; t < keys; ++t) {
        float sum = 0;
        for (int64_t h = 0; h < heads; ++h) {
            const float product = float_at(&products, h * stride + t);
            sum += float_at(&weights, h) * (product > 0 ? product : 0);
        }
        if (float_at(&scores, t) != sum) {
            fail_msg("%s: %lld heads, key %lld of %lld: %g, want %g", ag_isa_name(kernels->isa), (long long)heads,
                     (long long)t, (long long)keys, (double)float_at(&scores, t), (double)sum);
        }
    }
    test_buffer_destroy(&products);
    test_buffer_destroy(&weights);
    test_buffer_destroy(&scores);
}

static void test_weigh(void **state)
{
    static const int64_t key_counts[] = {0, 1, 7, 8, 9, 15, 16, 31, 33, 63, 64, 65, 127, 129, 200};
    struct test_random random = test_random_seed(5);
    (void)state;
    TEST_EACH_ISA (isa) {
        for (size_t k = 0; k < sizeof key_counts / sizeof *key_counts; ++k) {
            for (size_t h = 0; h < sizeof head_counts / sizeof *head_counts; ++h) {
                check_weigh(ag_kernels_for(isa), &random, head_counts[h], key_counts[k]);
            }
        }
    }
}

/* A NaN product is a NaN score, of its key alone; infinity goes where IEEE arithmetic takes it. */
static void test_weigh_specials(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        float products[2][64] = {{0}}, weights[2] = {1, -1}, scores[64];
        products[0][3] = (float)NAN;
        products[1][20] = (float)INFINITY;
        products[0][20] = 5;
        products[0][21] = -(float)INFINITY;
        const struct ag_indexer_weigh weigh = {.products = products[0],
                                               .weights = weights,
                                               .scores = scores,
                                               .product_stride = 64,
                                               .heads = 2,
                                               .keys = 64};
        ag_kernels_for(isa)->indexer_weigh(&weigh);
        for (int t = 0; t < 64; ++t) {
            assert_true(t == 3 ? isnan(scores[t]) : t == 20 ? scores[t] == -INFINITY : scores[t] == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_loops),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_weigh),
        cmocka_unit_test(test_weigh_specials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
