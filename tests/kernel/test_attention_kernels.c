/* labels: smoke ci emulated */
/* Attention's kernels: every table and panel type against the double definition. All buffers end at a page that cannot
 * be touched, and have exactly the size that the contract names. */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "base/elem.h"
#include "kernel/kernel.h"

#define EPS 0x1p-24

/* --- scores to probabilities ---------------------------------------------------------------------------- */

enum { MOST_ROWS = 7, MOST_LANES = 64, SPARE = 2 }; /* SPARE vectors between the rows */

/* What the lanes of a case see. */
enum cover { COVER_ALL, COVER_RANGES, COVER_HIDDEN, COVER_BOTH, COVER_COUNT };

struct score_case {
    const struct ag_kernels *kernels;
    enum ag_panel panel;
    enum cover cover;
    int64_t rows, lanes;
    struct ag_score_block block;
    float score[MOST_ROWS][MOST_LANES], dprob[MOST_ROWS][MOST_LANES]; /* the operands: F32 panels work in place */
    float max[MOST_ROWS], inverse_sum[MOST_ROWS], delta[MOST_ROWS];
    struct ag_lane_range ranges[MOST_ROWS];
    struct test_buffer score_memory, dprob_memory, p_depth, ds_depth, ds_rows, hidden;
};

static bool is_visible(const struct score_case *c, int64_t r, int64_t l)
{
    const bool has_ranges = c->cover == COVER_RANGES || c->cover == COVER_BOTH;
    const bool has_hidden = c->cover == COVER_HIDDEN || c->cover == COVER_BOTH;
    const uint8_t *hidden = c->hidden.data;
    return (!has_ranges || (l >= c->ranges[r].begin && l < c->ranges[r].end)) &&
           (!has_hidden || hidden[r * c->block.hidden_stride + l] == 0);
}

/* Bytes of `rows` rows of `lanes` items, `stride` items apart. */
static size_t span_bytes(int64_t rows, int64_t stride, int64_t lanes, size_t item_bytes)
{
    return rows > 0 && lanes > 0 ? (size_t)((rows - 1) * stride + lanes) * item_bytes : 0;
}

static void create_memory(struct score_case *c)
{
    const int64_t stride = c->block.stride, pairs = (c->rows + 1) / 2;
    const size_t align = sizeof(float);
    const int64_t score_stride = c->block.score_stride;
    c->score_memory = test_buffer_create(span_bytes(c->rows, score_stride, c->lanes, sizeof(float)), align);
    c->dprob_memory = test_buffer_create(span_bytes(c->rows, score_stride, c->lanes, sizeof(float)), align);
    c->p_depth = test_buffer_create(span_bytes(pairs, stride, c->lanes, sizeof(uint32_t)), align);
    c->ds_depth = test_buffer_create(span_bytes(pairs, stride, c->lanes, sizeof(uint32_t)), align);
    c->ds_rows = test_buffer_create(span_bytes(c->rows, stride, c->lanes, sizeof(ag_bf16)), sizeof(ag_bf16));
    c->hidden = test_buffer_create(span_bytes(c->rows, c->block.hidden_stride, c->lanes, 1), 1);
    c->block.score = c->score_memory.data;
    c->block.dprob = c->dprob_memory.data;
    c->block.p_depth = c->p_depth.data;
    c->block.ds_depth = c->ds_depth.data;
    c->block.ds_rows = c->ds_rows.data;
}

static void destroy_memory(struct score_case *c)
{
    struct test_buffer *const buffers[] = {&c->score_memory, &c->dprob_memory, &c->p_depth,
                                           &c->ds_depth,     &c->ds_rows,      &c->hidden};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; ++i) {
        test_buffer_destroy(buffers[i]);
    }
}

/* Range ends around the vector's width, and outside the row. */
static int64_t random_edge(const struct score_case *c, struct test_random *random)
{
    const int64_t vector = c->kernels->panel[c->panel].vector;
    const int64_t edges[] = {-70, -1, 0, 1, vector - 1, vector, vector + 1, c->lanes - 1, c->lanes, c->lanes + 70};
    return edges[test_random_below(random, sizeof edges / sizeof *edges)];
}

static void fill_case(struct score_case *c, struct test_random *random)
{
    static const float poisons[] = {NAN, INFINITY, -INFINITY};
    uint8_t *hidden = c->hidden.data;
    for (int64_t r = 0; r < c->rows; ++r) {
        c->max[r] = (float)test_random_normal(random) * 3;
        c->inverse_sum[r] = (float)exp(test_random_normal(random));
        c->delta[r] = (float)test_random_normal(random);
        c->ranges[r] = (struct ag_lane_range){random_edge(c, random), random_edge(c, random)};
        for (int64_t l = 0; l < c->lanes; ++l) {
            hidden[r * c->block.hidden_stride + l] = (uint8_t)(test_random_below(random, 3) ? 0 : 1 + l);
            const bool is_poisoned = !is_visible(c, r, l) && test_random_below(random, 2);
            c->score[r][l] = is_poisoned ? poisons[l % 3] : (float)test_random_normal(random) * 5;
            c->dprob[r][l] = is_poisoned ? poisons[l % 2] : (float)test_random_normal(random);
            c->block.score[r * c->block.score_stride + l] = c->score[r][l];
            c->block.dprob[r * c->block.score_stride + l] = c->dprob[r][l];
        }
    }
}

static void set_up_case(struct score_case *c, struct test_random *random)
{
    const int64_t vector = c->kernels->panel[c->panel].vector;
    c->block = (struct ag_score_block){.stride = c->lanes + SPARE * vector,
                                       .rows = c->rows,
                                       .lanes = c->lanes,
                                       .scale = 0.3f,
                                       .max = c->max,
                                       .inverse_sum = c->inverse_sum,
                                       .delta = c->delta,
                                       .hidden_stride = c->lanes + 3};
    c->block.stride += c->block.stride % 2; /* bf16 rows are whole words */
    c->block.score_stride = c->block.stride + (c->panel == AG_PANEL_BF16 ? vector : 0);
    create_memory(c);
    fill_case(c, random);
    c->block.lane_ranges = c->cover == COVER_RANGES || c->cover == COVER_BOTH ? c->ranges : NULL;
    c->block.hidden = c->cover == COVER_HIDDEN || c->cover == COVER_BOTH ? c->hidden.data : NULL;
}

/* The definition of element (r, l), and how far fp32 may be off before the rounding to bf16. */
static void define(const struct score_case *c, int64_t r, int64_t l, double want[2], double bound[2])
{
    const double scaled = (double)c->score[r][l] * c->block.scale, exponent = scaled - c->max[r];
    const double p = exp(exponent) * c->inverse_sum[r], factor = (double)c->dprob[r][l] - c->delta[r];
    want[0] = p;
    want[1] = p * factor;
    bound[0] = p * (expm1(2 * EPS * (fabs(scaled) + fabs(exponent))) + 8 * EPS) + 1e-37;
    bound[1] = (bound[0] + p * 2 * EPS) * (fabs(c->dprob[r][l]) + fabs(c->delta[r])) + 1e-37;
}

static void check_value(const struct score_case *c, const char *what, int64_t r, int64_t l, float got, int which)
{
    double want[2] = {0, 0}, bound[2] = {0, 0};
    if (is_visible(c, r, l)) {
        define(c, r, l, want, bound);
        if (c->panel == AG_PANEL_BF16) { /* subnormals may be flushed */
            bound[which] = bound[which] * 1.01 + ag_elem_half_ulp(AG_ELEM_BF16, want[which]) * 1.01 + 0x1p-126;
        }
    } else if (ag_bits_of_float(got) != 0) {
        fail_msg("%s: hidden %s(%lld, %lld) is %g, want +0", ag_isa_name(c->kernels->isa), what, (long long)r,
                 (long long)l, got);
    }
    if (!(fabs(got - want[which]) <= bound[which])) {
        fail_msg("%s, panel %d, cover %d, %lldx%lld: %s(%lld, %lld) is %.9g, want %.9g, bound %.3g",
                 ag_isa_name(c->kernels->isa), (int)c->panel, (int)c->cover, (long long)c->rows, (long long)c->lanes,
                 what, (long long)r, (long long)l, got, want[which], bound[which]);
    }
}

/* Row r of a matrix of words along the contraction over rows. */
static float depth_value(const uint32_t *words, int64_t stride, int64_t r, int64_t l)
{
    const uint32_t word = words[r / 2 * stride + l];
    return ag_bf16_to_f32((ag_bf16)(r % 2 == 0 ? word : word >> 16));
}

static void check_case(const struct score_case *c)
{
    const int64_t stride = c->block.stride;
    for (int64_t l = 0; l < c->lanes; ++l) {
        for (int64_t r = 0; r < c->rows; ++r) {
            if (c->panel == AG_PANEL_F32) {
                check_value(c, "P", r, l, c->block.score[r * stride + l], 0);
                check_value(c, "dS", r, l, c->block.dprob[r * stride + l], 1);
                continue;
            }
            check_value(c, "P by row", r, l, depth_value(c->block.p_depth, stride, r, l), 0);
            check_value(c, "dS by row", r, l, depth_value(c->block.ds_depth, stride, r, l), 1);
            const ag_bf16 *ds_rows = (const ag_bf16 *)c->block.ds_rows;
            check_value(c, "dS by lane", r, l, ag_bf16_to_f32(ds_rows[r * stride + l]), 1);
        }
        if (c->panel == AG_PANEL_BF16 && c->rows % 2 == 1) { /* the missing row of the last pair */
            assert_int_equal(c->block.p_depth[c->rows / 2 * stride + l] >> 16, 0);
            assert_int_equal(c->block.ds_depth[c->rows / 2 * stride + l] >> 16, 0);
        }
    }
}

static void probabilities_equal_their_definition(void **state)
{
    struct test_random random = test_random_seed(11);
    (void)state;
    TEST_EACH_ISA (isa) {
        static struct score_case c;
        c.kernels = ag_kernels_for(isa);
        for (int panel = 0; panel < AG_PANEL_COUNT; ++panel) {
            const int64_t vector = c.kernels->panel[panel].vector;
            c.panel = (enum ag_panel)panel;
            for (int cover = 0; cover < COVER_COUNT; ++cover) {
                for (c.rows = 0, c.cover = (enum cover)cover; c.rows <= MOST_ROWS; ++c.rows) {
                    for (c.lanes = 0; c.lanes <= MOST_LANES && c.lanes <= 5 * vector; c.lanes += vector) {
                        set_up_case(&c, &random);
                        c.kernels->attention.probabilities[panel](&c.block);
                        check_case(&c);
                        destroy_memory(&c);
                    }
                }
            }
        }
    }
}

/* One visible lane of an F32 block of one vector. */
static float probability_of(const struct ag_kernels *kernels, float score, float max, float inverse_sum)
{
    float scores[MOST_LANES], dprobs[MOST_LANES] = {0};
    const float delta = 0;
    for (int l = 0; l < MOST_LANES; ++l) {
        scores[l] = score;
    }
    const struct ag_score_block block = {.score = scores,
                                         .dprob = dprobs,
                                         .score_stride = MOST_LANES,
                                         .stride = MOST_LANES,
                                         .rows = 1,
                                         .lanes = kernels->panel[AG_PANEL_F32].vector,
                                         .scale = 0.125f,
                                         .max = &max,
                                         .inverse_sum = &inverse_sum,
                                         .delta = &delta};
    kernels->attention.probabilities[AG_PANEL_F32](&block);
    return scores[0];
}

static void extreme_scores(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        const struct ag_kernels *kernels = ag_kernels_for(isa);
        assert_true(probability_of(kernels, 0, 0, 1) == 1.0f);
        assert_true(probability_of(kernels, 6.4e7f, 8e6f, 1) == 1.0f); /* the subtraction comes first */
        assert_true(probability_of(kernels, -8e6f, 8e6f, 1) == 0.0f);
        assert_true(probability_of(kernels, -INFINITY, 0, 1) == 0.0f);
        assert_true(isinf(probability_of(kernels, 8e6f, -8e6f, 1))); /* statistics from elsewhere: P > 1 is legal */
        assert_true(isnan(probability_of(kernels, NAN, 0, 1)));
        assert_true(isnan(probability_of(kernels, 0, NAN, 1)));
    }
}

/* --- dot products of rows ------------------------------------------------------------------------------- */

static struct ag_matrix create_matrix(struct test_buffer *buffer, enum ag_elem elem, int64_t rows, int64_t cols,
                                      int64_t col_stride)
{
    struct ag_matrix matrix = {.rows = rows, .cols = cols, .col_stride = col_stride};
    matrix.row_stride = cols * col_stride + 3;
    const int64_t last = (cols - 1) * col_stride + 1;
    *buffer = test_buffer_create(span_bytes(rows, matrix.row_stride, cols > 0 ? last : 0, ag_elem_bytes(elem)),
                                 ag_elem_bytes(elem));
    matrix.data = buffer->data;
    return matrix;
}

static void fill_matrix(const struct ag_matrix *m, enum ag_elem elem, struct test_random *random)
{
    for (int64_t r = 0; r < m->rows; ++r) {
        for (int64_t c = 0; c < m->cols; ++c) {
            ag_elem_store(elem, m->data, r * m->row_stride + c * m->col_stride, (float)test_random_normal(random));
        }
    }
}

static void check_dots(const struct ag_kernels *kernels, enum ag_elem elem, int64_t cols, int64_t col_stride)
{
    enum { ROWS = 3 };
    struct test_random random = test_random_seed((uint64_t)cols);
    struct test_buffer a_buffer, b_buffer;
    const struct ag_matrix a = create_matrix(&a_buffer, elem, ROWS, cols, col_stride);
    const struct ag_matrix b = create_matrix(&b_buffer, elem, ROWS, cols, 1);
    float dots[ROWS];
    fill_matrix(&a, elem, &random);
    fill_matrix(&b, elem, &random);
    kernels->attention.row_dots[elem](dots, &a, &b);
    for (int64_t r = 0; r < ROWS; ++r) {
        double dot = 0, magnitudes = 0;
        for (int64_t c = 0; c < cols; ++c) {
            const double product = (double)ag_elem_load(elem, a.data, r * a.row_stride + c * a.col_stride) *
                                   ag_elem_load(elem, b.data, r * b.row_stride + c);
            dot += product;
            magnitudes += fabs(product);
        }
        const double bound = (double)(cols + 2) * EPS * magnitudes;
        if (!(fabs(dots[r] - dot) <= bound)) {
            fail_msg("%s, elem %d, %lld cols: dot %.9g, want %.9g, bound %.3g", ag_isa_name(kernels->isa), (int)elem,
                     (long long)cols, dots[r], dot, bound);
        }
    }
    test_buffer_destroy(&a_buffer);
    test_buffer_destroy(&b_buffer);
}

static void row_dots_equal_their_definition(void **state)
{
    static const int64_t lengths[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 200};
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
                check_dots(ag_kernels_for(isa), (enum ag_elem)elem, lengths[i], 1);
                check_dots(ag_kernels_for(isa), (enum ag_elem)elem, lengths[i], 2);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probabilities_equal_their_definition),
        cmocka_unit_test(extreme_scores),
        cmocka_unit_test(row_dots_equal_their_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
