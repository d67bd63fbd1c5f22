/* labels: ci emulated */
/* Packing and multiplying, every kernel table and panel type, against plain loops: all sizes around the widths of
 * the table, any strides, zeros behind the edge, nothing read or written outside. */
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elem.h"
#include "kernel/kernel.h"

#define EPS 0x1p-24

enum { FILLER = 0xA5 };

/* The kernels under test, and what they are for a message. */
struct subject {
    enum ag_isa isa;
    enum ag_panel panel;
    const struct ag_panel_kernels *kernels;
};

static struct subject subject_of(enum ag_isa isa, int panel)
{
    return (struct subject){isa, (enum ag_panel)panel, &ag_kernels_for(isa)->panel[panel]};
}

static void multiply(const struct subject *s, const struct ag_multiply *m)
{
    const struct ag_kernels *table = ag_kernels_for(s->isa);
    table->begin_task();
    s->kernels->multiply(m);
    table->end_task();
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* --- matrices -------------------------------------------------------------------------------------------- */

enum layout { DENSE, PADDED_ROWS, STRIDED_COLS, TRANSPOSED, LAYOUTS };

/* A matrix of random elements that ends where its buffer ends. */
struct source {
    struct ag_matrix matrix;
    struct test_buffer buffer;
    enum ag_elem elem;
};

static struct source source_create(struct test_random *random, enum ag_elem elem, int64_t rows, int64_t cols,
                                   enum layout layout)
{
    struct ag_matrix m = {.rows = rows, .cols = cols, .row_stride = cols, .col_stride = 1};
    if (layout == PADDED_ROWS) {
        m.row_stride = cols + 3;
    } else if (layout == STRIDED_COLS) {
        m.row_stride = 2 * cols + 1;
        m.col_stride = 2;
    } else if (layout == TRANSPOSED) {
        m.row_stride = 1;
        m.col_stride = rows + 1;
    }
    const int64_t elems = rows && cols ? (rows - 1) * m.row_stride + (cols - 1) * m.col_stride + 1 : 0;
    struct source source = {.matrix = m, .elem = elem};
    source.buffer = test_buffer_create((size_t)elems * ag_elem_bytes(elem), ag_elem_bytes(elem));
    source.matrix.data = source.buffer.data;
    memset(source.buffer.data, 0xff, source.buffer.bytes); /* NaN between the elements */
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
            ag_elem_store(elem, m.rows ? source.matrix.data : NULL, r * m.row_stride + c * m.col_stride,
                          (float)test_random_normal(random));
        }
    }
    return source;
}

/* Element (r, c); 0 outside. */
static float element(const struct source *source, int64_t r, int64_t c)
{
    const struct ag_matrix *m = &source->matrix;
    const bool is_inside = r >= 0 && r < m->rows && c >= 0 && c < m->cols;
    return is_inside ? ag_elem_load(source->elem, m->data, r * m->row_stride + c * m->col_stride) : 0.0f;
}

/* The word of two elements (the second is not part of a float word). */
static uint32_t word_of(enum ag_panel panel, float first, float second)
{
    return panel == AG_PANEL_F32 ? ag_bits_of_float(first)
                                 : ag_f32_to_bf16(first) | (uint32_t)ag_f32_to_bf16(second) << 16;
}

/* Word w of row r, contraction along the row; and of column c, contraction along the rows. */
static uint32_t row_word(const struct subject *s, const struct source *from, int64_t r, int64_t w)
{
    const int64_t c = w * s->kernels->pair;
    return word_of(s->panel, element(from, r, c), element(from, r, c + 1));
}

static uint32_t depth_word(const struct subject *s, const struct source *from, int64_t w, int64_t c)
{
    const int64_t r = w * s->kernels->pair;
    return word_of(s->panel, element(from, r, c), element(from, r + 1, c));
}

/* --- packing --------------------------------------------------------------------------------------------- */

static struct test_buffer create_words(int64_t words)
{
    struct test_buffer buffer = test_buffer_create((size_t)words * sizeof(uint32_t), sizeof(uint32_t));
    memset(buffer.data, FILLER, buffer.bytes);
    return buffer;
}

static void check_word(const struct subject *s, const char *kernel, const struct source *from, int64_t at,
                       uint32_t got, uint32_t want)
{
    if (got != want) {
        fail_msg("%s %s, %s panel, element type %d, [%lld, %lld]: word %lld is %08x, want %08x", ag_isa_name(s->isa),
                 kernel, s->panel == AG_PANEL_F32 ? "f32" : "bf16", from->elem, (long long)from->matrix.rows,
                 (long long)from->matrix.cols, (long long)at, got, want);
    }
}

static void check_pack_rows(const struct subject *s, const struct source *from)
{
    const int64_t rows = from->matrix.rows, words = ceil_div(from->matrix.cols, s->kernels->pair), stride = words + 2;
    struct test_buffer to = create_words(rows && words ? (rows - 1) * stride + words : 0);
    s->kernels->pack_rows[from->elem](to.data, stride, &from->matrix);
    for (int64_t i = 0; i < (int64_t)(to.bytes / sizeof(uint32_t)); ++i) {
        const int64_t r = i / stride, w = i % stride;
        check_word(s, "pack_rows", from, i, ((uint32_t *)to.data)[i],
                   w < words ? row_word(s, from, r, w) : FILLER * 0x01010101u);
    }
    test_buffer_destroy(&to);
}

static void check_pack_lanes(const struct subject *s, const struct source *from)
{
    const int64_t lanes = s->kernels->lanes, depth = ceil_div(from->matrix.cols, s->kernels->pair);
    struct test_buffer to = create_words(ceil_div(from->matrix.rows, lanes) * depth * lanes);
    s->kernels->pack_lanes[from->elem](to.data, &from->matrix);
    for (int64_t i = 0; i < (int64_t)(to.bytes / sizeof(uint32_t)); ++i) {
        const int64_t lane = i % lanes, w = i / lanes % depth, panel = i / lanes / depth;
        const bool is_left_alone = lane >= lanes / 2 && from->matrix.rows - panel * lanes <= lanes / 2;
        check_word(s, "pack_lanes", from, i, ((uint32_t *)to.data)[i],
                   is_left_alone ? FILLER * 0x01010101u : row_word(s, from, panel * lanes + lane, w));
    }
    test_buffer_destroy(&to);
}

static void check_pack_depth(const struct subject *s, const struct source *from)
{
    const int64_t lanes = s->kernels->lanes, depth = ceil_div(from->matrix.rows, s->kernels->pair);
    const int64_t panels = ceil_div(from->matrix.cols, lanes), stride = depth * lanes + 5;
    struct test_buffer to = create_words(panels ? (panels - 1) * stride + depth * lanes : 0);
    s->kernels->pack_depth[from->elem](to.data, stride, &from->matrix);
    for (int64_t i = 0; i < (int64_t)(to.bytes / sizeof(uint32_t)); ++i) {
        const int64_t panel = i / stride, w = i % stride / lanes, lane = i % stride % lanes;
        check_word(s, "pack_depth", from, i, ((uint32_t *)to.data)[i],
                   w < depth ? depth_word(s, from, w, panel * lanes + lane) : FILLER * 0x01010101u);
    }
    test_buffer_destroy(&to);
}

/* Sizes around a vector and around a panel. */
enum { SIZES = 13 };

static void list_sizes(const struct ag_panel_kernels *kernels, int64_t sizes[SIZES])
{
    const int64_t vector = kernels->vector, lanes = kernels->lanes;
    const int64_t all[SIZES] = {
        0,         1,         2,     3,         vector - 1,           vector, vector + 1, 2 * vector + 3,
        lanes / 2, lanes - 1, lanes, lanes + 1, lanes + lanes / 2 + 1};
    memcpy(sizes, all, sizeof all);
}

static void check_packing(const struct subject *s, enum ag_elem elem, enum layout layout)
{
    struct test_random random = test_random_seed(7);
    int64_t sizes[SIZES];
    list_sizes(s->kernels, sizes);
    for (int i = 0; i < SIZES * SIZES; ++i) {
        struct source from = source_create(&random, elem, sizes[i / SIZES], sizes[i % SIZES], layout);
        check_pack_rows(s, &from);
        check_pack_lanes(s, &from);
        check_pack_depth(s, &from);
        test_buffer_destroy(&from.buffer);
    }
}

static void packing_of_every_size_type_and_layout(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int i = 0; i < AG_PANEL_COUNT * AG_ELEM_COUNT * LAYOUTS; ++i) {
            const struct subject s = subject_of(isa, i % AG_PANEL_COUNT);
            check_packing(&s, (enum ag_elem)(i / AG_PANEL_COUNT % AG_ELEM_COUNT),
                          (enum layout)(i / AG_PANEL_COUNT / AG_ELEM_COUNT));
        }
    }
}

/* --- multiplying ----------------------------------------------------------------------------------------- */

/* One product: the operands in guarded memory, words random. */
struct product {
    struct ag_multiply m;
    struct test_buffer a, b, c;
    int64_t written; /* columns of c: cols rounded up to a vector */
};

enum b_order { B_ROWS, B_COLUMNS, B_SAME_ROW, B_ORDERS };

static void fill_words(struct test_random *random, enum ag_panel panel, struct test_buffer *buffer)
{
    for (size_t i = 0; i < buffer->bytes / sizeof(uint32_t); ++i) {
        ((uint32_t *)buffer->data)[i] =
            word_of(panel, (float)test_random_normal(random), (float)test_random_normal(random));
    }
}

static struct product product_create(const struct subject *s, struct test_random *random, int64_t rows, int64_t cols,
                                     int64_t depth, enum b_order order, bool accumulate)
{
    const int64_t panels = ceil_div(cols, s->kernels->lanes), block = depth * s->kernels->lanes;
    struct product p = {.m = {.rows = rows, .cols = cols, .depth = depth, .accumulate = accumulate}};
    p.written = ceil_div(cols, s->kernels->vector) * s->kernels->vector;
    p.m.a_panel_stride = block + 3;
    p.m.b_row_stride = order == B_ROWS ? depth + 1 : order == B_COLUMNS ? 1 : 0;
    p.m.b_word_stride = order == B_COLUMNS ? rows + 2 : 1;
    p.m.c_row_stride = p.written + 5;
    p.a = create_words(panels ? (panels - 1) * p.m.a_panel_stride + block : 0);
    p.b = create_words(rows && depth ? (rows - 1) * p.m.b_row_stride + (depth - 1) * p.m.b_word_stride + 1 : 0);
    p.c = create_words(rows && cols ? (rows - 1) * p.m.c_row_stride + p.written : 0);
    fill_words(random, s->panel, &p.a);
    fill_words(random, s->panel, &p.b);
    for (int64_t i = 0; accumulate && i < (int64_t)(p.c.bytes / sizeof(float)); ++i) {
        if (i % p.m.c_row_stride < p.written) {
            ((float *)p.c.data)[i] = (float)test_random_normal(random);
        }
    }
    p.m.a = p.a.data;
    p.m.b = p.b.data;
    p.m.c = p.c.data;
    return p;
}

static void product_destroy(struct product *p)
{
    test_buffer_destroy(&p->a);
    test_buffer_destroy(&p->b);
    test_buffer_destroy(&p->c);
}

static double word_dot(enum ag_panel panel, uint32_t a, uint32_t b)
{
    if (panel == AG_PANEL_F32) {
        return (double)ag_float_of_bits(a) * ag_float_of_bits(b);
    }
    return (double)ag_float_of_bits(a << 16) * ag_float_of_bits(b << 16) +
           (double)ag_float_of_bits(a & 0xffff0000u) * ag_float_of_bits(b & 0xffff0000u);
}

/* The plain loop: what c[r][l] must become, and how far rounding may take it. */
static double expected(const struct subject *s, const struct ag_multiply *m, float before, int64_t r, int64_t l,
                       double *bound)
{
    const int64_t lanes = s->kernels->lanes;
    const uint32_t *a = m->a + l / lanes * m->a_panel_stride + l % lanes;
    double sum = m->accumulate ? before : 0, magnitude = fabs(sum);
    for (int64_t w = 0; w < m->depth; ++w) {
        const double term = word_dot(s->panel, a[w * lanes], m->b[r * m->b_row_stride + w * m->b_word_stride]);
        sum += term;
        magnitude +=
            fabs(term) + (s->panel == AG_PANEL_BF16 ? 16 : 0); /* a pair's terms may cancel; |x| stays below 4 */
    }
    *bound = (2.0 * (double)m->depth + 2) * EPS * magnitude;
    return sum;
}

static void check_product(const struct subject *s, struct product *p)
{
    const size_t words = p->c.bytes / sizeof(float);
    float *before = malloc(p->c.bytes + 1);
    memcpy(before, p->c.data, p->c.bytes);
    multiply(s, &p->m);
    for (int64_t i = 0; i < (int64_t)words; ++i) {
        const int64_t r = i / p->m.c_row_stride, l = i % p->m.c_row_stride;
        double bound = 0, want = before[i];
        if (l < p->written) {
            want = expected(s, &p->m, before[i], r, l, &bound);
        }
        if (!(fabs(p->m.c[i] - want) <= bound)) {
            fail_msg("%s, panel type %d: [%lld, %lld] x %lld words, accumulate %d: c[%lld][%lld] is %.9g, want %.9g",
                     ag_isa_name(s->isa), s->panel, (long long)p->m.rows, (long long)p->m.cols, (long long)p->m.depth,
                     p->m.accumulate, (long long)r, (long long)l, p->m.c[i], want);
        }
    }
    free(before);
}

static void check_products(const struct subject *s, int64_t rows, int64_t cols)
{
    enum { DEPTHS = 8 };
    static const int64_t depths[DEPTHS] = {0, 1, 2, 3, 16, 17, 33, 150};
    struct test_random random = test_random_seed((uint64_t)(rows * 1000 + cols));
    for (int i = 0; i < DEPTHS * 2; ++i) {
        const enum b_order order = (enum b_order)((rows + cols + i) % B_ORDERS); /* each meets each number of rows */
        struct product p = product_create(s, &random, rows, cols, depths[i % DEPTHS], order, i / DEPTHS);
        check_product(s, &p);
        product_destroy(&p);
    }
}

static void products_of_every_size_and_order(void **state)
{
    (void)state;
    enum { ROWS = 19, COLS = 8 };
    static const int64_t rows[ROWS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 16, 17, 32, 33, 49};
    TEST_EACH_ISA (isa) {
        for (int panel = 0; panel < AG_PANEL_COUNT; ++panel) {
            const struct subject s = subject_of(isa, panel);
            const int64_t vector = s.kernels->vector, lanes = s.kernels->lanes;
            const int64_t cols[COLS] = {0, 1, vector + 1, 3 * vector, lanes - 1, lanes, lanes + 1, 2 * lanes};
            for (int i = 0; i < ROWS * COLS; ++i) {
                check_products(&s, rows[i / COLS], cols[i % COLS]);
            }
        }
    }
}

/* Columns of one vector take rows by other numbers than wider ones: alone, behind half a panel, behind a panel and a half. */
static void products_of_one_vector_and_any_rows(void **state)
{
    (void)state;
    enum { COLS = 3, DEPTH = 5, MOST_ROWS = 30 };
    struct test_random random = test_random_seed(6);
    TEST_EACH_ISA (isa) {
        for (int i = 0; i < AG_PANEL_COUNT * COLS * MOST_ROWS; ++i) {
            const struct subject s = subject_of(isa, i % AG_PANEL_COUNT);
            const int64_t vector = s.kernels->vector, half = s.kernels->lanes / 2;
            const int64_t cols[COLS] = {vector, half + vector, s.kernels->lanes + half + vector};
            const int64_t rows = 1 + i / AG_PANEL_COUNT / COLS;
            for (int order = 0; order < B_ORDERS; ++order) {
                struct product p = product_create(&s, &random, rows, cols[i / AG_PANEL_COUNT % COLS], DEPTH,
                                                  (enum b_order)order, (rows + order) % 2);
                check_product(&s, &p);
                product_destroy(&p);
            }
        }
    }
}

/* --- bits ------------------------------------------------------------------------------------------------ */

/* How a product is cut into calls changes no bit: by rows, by columns, along the contraction. */
static void check_cuts(const struct subject *s, int64_t rows, int64_t cols, int64_t depth)
{
    struct test_random random = test_random_seed(3);
    struct product p = product_create(s, &random, rows, cols, depth, B_ROWS, true);
    struct test_buffer cut = create_words((int64_t)(p.c.bytes / sizeof(float)));
    memcpy(cut.data, p.c.data, p.c.bytes);
    multiply(s, &p.m);
    for (int64_t r = 0; r < rows; ++r) { /* one row, one panel, a few words at a time */
        for (int64_t col = 0; col < cols; col += s->kernels->lanes) {
            for (int64_t w = 0; w < depth; w += 1 + r % 3) {
                struct ag_multiply m = p.m;
                m.rows = 1;
                m.cols = cols - col < s->kernels->lanes ? cols - col : s->kernels->lanes;
                m.depth = depth - w < 1 + r % 3 ? depth - w : 1 + r % 3;
                m.a += col / s->kernels->lanes * m.a_panel_stride + w * s->kernels->lanes;
                m.b += r * m.b_row_stride + w * m.b_word_stride;
                m.c = (float *)cut.data + r * m.c_row_stride + col;
                multiply(s, &m);
            }
        }
    }
    assert_memory_equal(cut.data, p.c.data, p.c.bytes);
    test_buffer_destroy(&cut);
    product_destroy(&p);
}

static void cutting_a_product_changes_no_bit(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int panel = 0; panel < AG_PANEL_COUNT; ++panel) {
            const struct subject s = subject_of(isa, panel);
            for (int64_t rows = 1; rows <= 14; ++rows) {
                check_cuts(&s, rows, s.kernels->lanes + s.kernels->vector + 1, 17);
                check_cuts(&s, rows, s.kernels->vector, 17);
            }
        }
    }
}

/* Panels whose words lie side by side, row after row, as a row-major matrix has them (a_word_stride). */
static void check_row_major_a(const struct subject *s, int64_t rows, int64_t cols, int64_t depth)
{
    struct test_random random = test_random_seed(4);
    struct product p = product_create(s, &random, rows, cols, depth, B_COLUMNS, true);
    const int64_t lanes = s->kernels->lanes, stride = p.written + 3;
    struct test_buffer row_major = create_words((depth - 1) * stride + p.written);
    struct test_buffer result = create_words((int64_t)(p.c.bytes / sizeof(float)));
    memcpy(result.data, p.c.data, p.c.bytes);
    for (int64_t w = 0; w < depth; ++w) {
        for (int64_t l = 0; l < p.written; ++l) {
            ((uint32_t *)row_major.data)[w * stride + l] =
                p.m.a[l / lanes * p.m.a_panel_stride + w * lanes + l % lanes];
        }
    }
    struct ag_multiply m = p.m;
    m.a = row_major.data;
    m.a_panel_stride = lanes;
    m.a_word_stride = stride;
    m.c = result.data;
    multiply(s, &p.m);
    multiply(s, &m);
    assert_memory_equal(result.data, p.c.data, p.c.bytes);
    test_buffer_destroy(&row_major);
    test_buffer_destroy(&result);
    product_destroy(&p);
}

static void row_major_panels_give_the_same_bits(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int panel = 0; panel < AG_PANEL_COUNT; ++panel) {
            const struct subject s = subject_of(isa, panel);
            for (int64_t rows = 1; rows <= 14; ++rows) {
                check_row_major_a(&s, rows, s.kernels->lanes * (1 + rows % 2) + rows, 5);
            }
        }
    }
}

/* --- special values --------------------------------------------------------------------------------------- */

/* An infinity or a NaN reaches its own row and column of C and no other. */
static void special_values_stay_in_their_row_and_column(void **state)
{
    (void)state;
    static const float specials[] = {INFINITY, -INFINITY, NAN};
    TEST_EACH_ISA (isa) {
        for (int i = 0; i < AG_PANEL_COUNT * 3; ++i) {
            const struct subject s = subject_of(isa, i % AG_PANEL_COUNT);
            struct test_random random = test_random_seed(5);
            struct product p = product_create(&s, &random, 7, s.kernels->lanes, 5, B_ROWS, false);
            const uint32_t word = word_of(s.panel, specials[i / AG_PANEL_COUNT], 1.0f);
            ((uint32_t *)p.a.data)[2 * s.kernels->lanes + 1] = word;
            ((uint32_t *)p.b.data)[4 * p.m.b_row_stride + 3] = word;
            multiply(&s, &p.m);
            for (int64_t k = 0; k < p.m.rows * p.m.cols; ++k) {
                const int64_t r = k / p.m.cols, l = k % p.m.cols;
                assert_int_equal(!isfinite(p.m.c[r * p.m.c_row_stride + l]), r == 4 || l == 1);
            }
            product_destroy(&p);
        }
    }
}

static void tables_describe_themselves(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int panel = 0; panel < AG_PANEL_COUNT; ++panel) {
            const struct ag_panel_kernels *kernels = subject_of(isa, panel).kernels;
            assert_int_equal(kernels->pair, panel == AG_PANEL_F32 ? 1 : 2);
            assert_int_equal(kernels->lanes % kernels->vector, 0);
            assert_true(kernels->vector >= 1 && kernels->rows >= 1);
        }
        assert_int_equal(ag_kernels_for(isa)->panel_of[AG_ELEM_F32], AG_PANEL_F32); /* bf16 pairs would lose bits */
        assert_int_equal(ag_kernels_for(isa)->panel_of[AG_ELEM_F16], AG_PANEL_F32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing_of_every_size_type_and_layout),
        cmocka_unit_test(products_of_every_size_and_order),
        cmocka_unit_test(products_of_one_vector_and_any_rows),
        cmocka_unit_test(cutting_a_product_changes_no_bit),
        cmocka_unit_test(row_major_panels_give_the_same_bits),
        cmocka_unit_test(special_values_stay_in_their_row_and_column),
        cmocka_unit_test(tables_describe_themselves),
    };
    return cmocka_run_group_tests_name("panel kernels", tests, NULL, NULL);
}
