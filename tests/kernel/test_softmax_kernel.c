/* labels: smoke ci emulated */
/* One step of the softmax over blocks of keys: every table and panel type against the double definition, from any state of
 * max, sum and out. Buffers end at a page that cannot be touched, and have exactly the size that the contract names. */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "base/elem.h"
#include "kernel/kernel.h"

#define EPS 0x1p-24

enum { MOST_ROWS = 5, MOST_LANES = 64, OUT_COLS = 9, MOST_OUT = 32, SPARE = 2 };

/* What the lanes of a case see. */
enum cover { COVER_ALL, COVER_RANGES, COVER_BOTH, COVER_COUNT };

/* The state before. */
enum start { START_FIRST, START_LOWER, START_HIGHER, START_COUNT };

struct softmax_case {
    const struct ag_kernels *kernels;
    enum ag_panel panel;
    enum cover cover;
    enum start start;
    int64_t rows, lanes;
    struct ag_softmax_block block;
    float score[MOST_ROWS][MOST_LANES], out[MOST_ROWS][MOST_OUT];
    float max[MOST_ROWS], sum[MOST_ROWS], max_before[MOST_ROWS], sum_before[MOST_ROWS];
    struct ag_lane_range ranges[MOST_ROWS];
    struct test_buffer score_memory, p_memory, hidden, out_memory;
};

static bool is_visible(const struct softmax_case *c, int64_t r, int64_t l)
{
    const uint8_t *hidden = c->hidden.data;
    return (c->cover == COVER_ALL || (l >= c->ranges[r].begin && l < c->ranges[r].end)) &&
           (c->cover != COVER_BOTH || hidden[r * c->block.hidden_stride + l] == 0);
}

/* Bytes of `rows` rows of `lanes` items, `stride` items apart. */
static size_t span_bytes(int64_t rows, int64_t stride, int64_t lanes, size_t item_bytes)
{
    return rows > 0 && lanes > 0 ? (size_t)((rows - 1) * stride + lanes) * item_bytes : 0;
}

static void create_memory(struct softmax_case *c)
{
    struct ag_softmax_block *b = &c->block;
    const int64_t vector = c->kernels->panel[c->panel].vector;
    *b = (struct ag_softmax_block){.score_stride = c->lanes + SPARE * vector,
                                   .rows = c->rows,
                                   .lanes = c->lanes,
                                   .scale = 0.3f,
                                   .max = c->max,
                                   .sum = c->sum,
                                   .out_cols = OUT_COLS,
                                   .hidden_stride = c->lanes + 3,
                                   .p_stride = c->lanes / 2 + 3};
    b->out_stride = (OUT_COLS + vector - 1) / vector * vector + 1;
    c->score_memory =
        test_buffer_create(span_bytes(c->rows, b->score_stride, c->lanes, sizeof(float)), sizeof(float));
    c->p_memory =
        test_buffer_create(span_bytes(c->rows, 2 * b->p_stride, c->lanes, sizeof(ag_bf16)), sizeof(ag_bf16));
    c->hidden = test_buffer_create(span_bytes(c->rows, b->hidden_stride, c->lanes, 1), 1);
    c->out_memory =
        test_buffer_create(span_bytes(c->rows, b->out_stride, b->out_stride - 1, sizeof(float)), sizeof(float));
    b->score = c->score_memory.data;
    b->p_rows = c->p_memory.data;
    b->out = c->out_memory.data;
    b->lane_ranges = c->cover == COVER_ALL ? NULL : c->ranges;
    b->hidden = c->cover == COVER_BOTH ? c->hidden.data : NULL;
}

static void destroy_memory(struct softmax_case *c)
{
    test_buffer_destroy(&c->score_memory);
    test_buffer_destroy(&c->p_memory);
    test_buffer_destroy(&c->hidden);
    test_buffer_destroy(&c->out_memory);
}

/* Range ends around the vector's width, and outside the row. */
static int64_t random_edge(const struct softmax_case *c, struct test_random *random)
{
    const int64_t vector = c->kernels->panel[c->panel].vector;
    const int64_t edges[] = {-70, 0, 1, vector - 1, vector, vector + 1, c->lanes - 1, c->lanes, c->lanes + 70};
    return edges[test_random_below(random, sizeof edges / sizeof *edges)];
}

static void fill_case(struct softmax_case *c, struct test_random *random)
{
    static const float poisons[] = {NAN, INFINITY, -INFINITY};
    uint8_t *hidden = c->hidden.data;
    for (int64_t r = 0; r < c->rows; ++r) {
        c->max[r] = c->start == START_FIRST ? -INFINITY : c->start == START_LOWER ? -7.0f : 40.0f;
        c->sum[r] = c->start == START_FIRST ? 0.0f : 3.5f;
        c->ranges[r] = (struct ag_lane_range){random_edge(c, random), random_edge(c, random)};
        for (int64_t l = 0; l < c->lanes; ++l) {
            hidden[r * c->block.hidden_stride + l] = (uint8_t)(test_random_below(random, 3) ? 0 : 1 + l);
            const bool is_poisoned = !is_visible(c, r, l) && test_random_below(random, 2);
            c->score[r][l] = is_poisoned ? poisons[l % 3] : (float)test_random_normal(random) * 5;
            c->block.score[r * c->block.score_stride + l] = c->score[r][l];
        }
        for (int64_t e = 0; e < OUT_COLS; ++e) {
            c->out[r][e] = c->start == START_FIRST ? 0.0f : (float)test_random_normal(random);
            c->block.out[r * c->block.out_stride + e] = c->out[r][e];
        }
    }
    memcpy(c->max_before, c->max, sizeof c->max);
    memcpy(c->sum_before, c->sum, sizeof c->sum);
}

static void expect(const struct softmax_case *c, const char *what, int64_t r, int64_t l, const double numbers[3])
{
    const double got = numbers[0], want = numbers[1], bound = numbers[2];
    if (got != want && !(fabs(got - want) <= bound)) {
        fail_msg("%s, panel %d, cover %d, start %d, %lldx%lld: %s(%lld, %lld) is %.9g, want %.9g, bound %.3g",
                 ag_isa_name(c->kernels->isa), (int)c->panel, (int)c->cover, (int)c->start, (long long)c->rows,
                 (long long)c->lanes, what, (long long)r, (long long)l, got, want, bound);
    }
}

static void check_row(const struct softmax_case *c, int64_t r)
{
    const struct ag_softmax_block *b = &c->block;
    double max = c->max_before[r], sum = 0;
    for (int64_t l = 0; l < c->lanes; ++l) {
        if (is_visible(c, r, l)) {
            max = fmax(max, (double)c->score[r][l] * b->scale);
        }
    }
    expect(c, "max", r, 0, (double[3]){c->max[r], max, EPS * fabs(max)});
    for (int64_t l = 0; l < c->lanes; ++l) {
        const double scaled = (double)c->score[r][l] * b->scale;
        const double p = is_visible(c, r, l) ? exp(scaled - max) : 0;
        double bound = p * (expm1(4 * EPS * (fabs(scaled) + fabs(max))) + 8 * EPS) + (p > 0 ? 1e-37 : 0);
        const ag_bf16 *p_rows = (const ag_bf16 *)b->p_rows;
        double got = b->score[r * b->score_stride + l];
        sum += p;
        if (c->panel == AG_PANEL_BF16) { /* subnormals may be flushed */
            got = ag_bf16_to_f32(p_rows[r * 2 * b->p_stride + l]);
            bound = p > 0 ? bound * 1.01 + ag_elem_half_ulp(AG_ELEM_BF16, p) * 1.01 + 0x1p-126 : 0;
        }
        expect(c, "P", r, l, (double[3]){got, p, bound});
    }
    const bool has_risen = max > c->max_before[r];
    const double factor = has_risen ? exp(c->max_before[r] - max) : 1;
    const double e_factor = factor * (expm1(4 * EPS * fabs(max)) + 12 * EPS) + 1e-37;
    expect(c, "sum", r, 0,
           (double[3]){c->sum[r], c->sum_before[r] * factor + sum,
                       (c->sum_before[r] * e_factor + sum * (expm1(8 * EPS * (fabs(max) + 40)) + 80 * EPS)) + 1e-36});
    for (int64_t e = 0; e < OUT_COLS; ++e) {
        expect(c, "out", r, e,
               (double[3]){b->out[r * b->out_stride + e], c->out[r][e] * factor,
                           has_risen ? fabs(c->out[r][e]) * e_factor : 0});
    }
}

static void steps_equal_their_definition(void **state)
{
    struct test_random random = test_random_seed(23);
    (void)state;
    TEST_EACH_ISA (isa) {
        static struct softmax_case c;
        c.kernels = ag_kernels_for(isa);
        for (int k = 0; k < AG_PANEL_COUNT * COVER_COUNT * START_COUNT; ++k) {
            c.panel = (enum ag_panel)(k / (COVER_COUNT * START_COUNT));
            c.cover = (enum cover)(k / START_COUNT % COVER_COUNT);
            c.start = (enum start)(k % START_COUNT);
            const int64_t vector = c.kernels->panel[c.panel].vector;
            for (c.rows = 0; c.rows <= MOST_ROWS; ++c.rows) {
                for (c.lanes = 0; c.lanes <= MOST_LANES && c.lanes <= 5 * vector; c.lanes += vector) {
                    create_memory(&c);
                    fill_case(&c, &random);
                    c.kernels->attention.softmax[c.panel](&c.block);
                    for (int64_t r = 0; r < c.rows; ++r) {
                        check_row(&c, r);
                    }
                    destroy_memory(&c);
                }
            }
        }
    }
}

/* One row of one vector, all of one score: what it leaves of max and sum. */
static void step(const struct ag_kernels *kernels, float score, float *max, float *sum)
{
    float scores[MOST_LANES], out[MOST_LANES] = {0};
    for (int l = 0; l < MOST_LANES; ++l) {
        scores[l] = score;
    }
    const struct ag_softmax_block block = {.score = scores,
                                           .score_stride = MOST_LANES,
                                           .rows = 1,
                                           .lanes = kernels->panel[AG_PANEL_F32].vector,
                                           .scale = 0.125f,
                                           .max = max,
                                           .sum = sum,
                                           .out = out,
                                           .out_stride = MOST_LANES,
                                           .out_cols = 1};
    kernels->attention.softmax[AG_PANEL_F32](&block);
}

static void extreme_scores(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        const struct ag_kernels *kernels = ag_kernels_for(isa);
        const float lanes = (float)kernels->panel[AG_PANEL_F32].vector;
        float max = -INFINITY, sum = 0;
        step(kernels, 6.4e7f, &max, &sum);
        assert_true(max == 8e6f && sum == lanes);
        step(kernels, -6.4e7f, &max, &sum); /* adds nothing */
        assert_true(max == 8e6f && sum == lanes);
        step(kernels, NAN, &max, &sum);
        assert_true(max == 8e6f && isnan(sum));
        max = -INFINITY, sum = 0;
        step(kernels, -INFINITY, &max, &sum); /* 0 / 0 of the definition */
        assert_true(max == -INFINITY && isnan(sum));
        max = 0, sum = 1;
        step(kernels, INFINITY, &max, &sum);
        assert_true(max == INFINITY && isnan(sum));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_equal_their_definition),
        cmocka_unit_test(extreme_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
