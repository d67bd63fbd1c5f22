/* labels: smoke ci emulated */
/* Float rows to and from tensors, every kernel table: all 16-bit values, all rounding boundaries, any strides and
 * lengths, nothing outside. */
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elem.h"
#include "kernel/kernel.h"

enum { VALUES = 0x10000 };

/* Row lengths around the widths of all tables. */
static const int64_t lengths[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 50};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* --- every value ----------------------------------------------------------------------------------------- */

/* All 65,536 values as rows of `cols`: each value stands at a different position of a vector or tail. */
static void check_load(const struct ag_row_kernels *kernels, enum ag_elem elem, int64_t cols)
{
    const int64_t rows = (VALUES + cols - 1) / cols;
    uint16_t *from = malloc((size_t)(rows * cols) * sizeof *from);
    float *to = malloc((size_t)(rows * cols) * sizeof *to);
    for (int64_t i = 0; i < rows * cols; ++i) {
        from[i] = (uint16_t)i;
    }
    const struct ag_matrix matrix = {.data = from, .rows = rows, .cols = cols, .row_stride = cols, .col_stride = 1};
    kernels->load(to, cols, &matrix);
    for (int64_t i = 0; i < rows * cols; ++i) {
        const float want = ag_elem_load(elem, from, i);
        if (!same_float(to[i], want)) {
            fail_msg("element type %d, %lld columns: 0x%04x loads as %.9g, want %.9g", elem, (long long)cols, from[i],
                     to[i], want);
        }
    }
    free(from);
    free(to);
}

static void all_16_bit_values_load(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        const struct ag_kernels *kernels = ag_kernels_for(isa);
        for (int i = 1; i < LENGTHS; ++i) {
            check_load(&kernels->rows[AG_ELEM_F16], AG_ELEM_F16, lengths[i]);
            check_load(&kernels->rows[AG_ELEM_BF16], AG_ELEM_BF16, lengths[i]);
        }
    }
}

/* For each 16-bit number: itself, the middle to the next larger one and both neighbours of that; both signs. */
static int64_t fill_boundaries(enum ag_elem elem, float *values)
{
    int64_t count = 0;
    for (unsigned bits = 0; bits < 0x7fff; ++bits) {
        const uint16_t pair[2] = {(uint16_t)bits, (uint16_t)(bits + 1)};
        const float low = ag_elem_load(elem, pair, 0), high = ag_elem_load(elem, pair, 1);
        const float middle = isinf(high) ? low + (low - ag_elem_load(elem, (uint16_t[]){(uint16_t)(bits - 1)}, 0)) / 2
                                         : (float)(((double)low + high) / 2);
        for (int sign = 0; sign < 2; ++sign) {
            values[count++] = sign ? -low : low;
            values[count++] = sign ? -middle : middle;
            values[count++] = sign ? -nextafterf(middle, 0) : nextafterf(middle, 0);
            values[count++] = sign ? -nextafterf(middle, INFINITY) : nextafterf(middle, INFINITY);
        }
    }
    static const float extremes[] = {3.4e38f, -3.4e38f, 1e-45f, -1e-45f, 65520, 65519.996f, INFINITY, -INFINITY};
    memcpy(values + count, extremes, sizeof extremes);
    return count + (int64_t)(sizeof extremes / sizeof *extremes);
}

static void check_store(const struct ag_row_kernels *kernels, enum ag_elem elem, const float *values, int64_t count,
                        int64_t cols, float scale)
{
    const int64_t rows = count / cols;
    char *to = malloc((size_t)(rows * cols) * ag_elem_bytes(elem));
    const struct ag_matrix matrix = {.data = to, .rows = rows, .cols = cols, .row_stride = cols, .col_stride = 1};
    kernels->store(&matrix, values, cols, scale);
    for (int64_t i = 0; i < rows * cols; ++i) {
        const volatile float product = values[i] * scale; /* a float: that is where the product rounds */
        uint32_t want = 0;
        ag_elem_store(elem, &want, 0, product);
        if (memcmp(to + i * (int64_t)ag_elem_bytes(elem), &want, ag_elem_bytes(elem)) != 0) {
            fail_msg("element type %d, %lld columns: %.9g * %.9g is stored wrong", elem, (long long)cols, values[i],
                     scale);
        }
    }
    free(to);
}

static void all_boundaries_store_to_nearest_even(void **state)
{
    (void)state;
    static const float scales[] = {1.0f, -1.0f, 0.08838834764f, 0.0f, 3.0f};
    float *values = malloc((8 * 0x8000 + 64) * sizeof *values);
    TEST_EACH_ISA (isa) {
        for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
            const int64_t count = fill_boundaries(elem == AG_ELEM_F32 ? AG_ELEM_BF16 : (enum ag_elem)elem, values);
            for (int i = 1; i < LENGTHS; ++i) {
                const float scale = i < 8 ? 1.0f : scales[i % 5];
                check_store(&ag_kernels_for(isa)->rows[elem], (enum ag_elem)elem, values, count, lengths[i], scale);
            }
        }
    }
    free(values);
}

/* Whatever its payload: rounding up the all-ones one would carry into the sign and leave a zero. */
static void a_nan_stays_one(void **state)
{
    (void)state;
    static const uint32_t payloads[] = {0x7fc00000, 0x7fffffff, 0xffffffff, 0x7f800001, 0x7fff8000, 0xff80ffff};
    enum { COUNT = sizeof payloads / sizeof *payloads, COLS = 33 };
    TEST_EACH_ISA (isa) {
        for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
            float values[COUNT * COLS];
            uint32_t to[COUNT * COLS];
            const struct ag_matrix matrix = {
                .data = to, .rows = COUNT, .cols = COLS, .row_stride = COLS, .col_stride = 1};
            for (int i = 0; i < COUNT * COLS; ++i) {
                memcpy(&values[i], &payloads[i % COUNT], sizeof values[i]);
            }
            ag_kernels_for(isa)->rows[elem].store(&matrix, values, COLS, 1.0f);
            for (int i = 0; i < COUNT * COLS; ++i) {
                if (!isnan(ag_elem_load((enum ag_elem)elem, to, i))) {
                    fail_msg("%s, element type %d: NaN 0x%08x is stored as a number", ag_isa_name(isa), elem,
                             payloads[i % COUNT]);
                }
            }
        }
    }
}

/* --- any strides ----------------------------------------------------------------------------------------- */

struct stride_row {
    int64_t row_gap;    /* elements between the rows */
    int64_t col_stride; /* 0: the matrix is transposed, col_stride = rows + row_gap and row_stride = 1 */
};

static const struct stride_row stride_rows[] = {{0, 1}, {3, 1}, {0, 2}, {5, 3}, {0, 0}, {2, 0}};
enum { STRIDES = sizeof stride_rows / sizeof *stride_rows };

/* A matrix that ends where its buffer ends; the bytes between the elements are 0xA5. */
struct guarded {
    struct ag_matrix matrix;
    struct test_buffer buffer;
    enum ag_elem elem;
};

static struct guarded guarded_create(enum ag_elem elem, int64_t rows, int64_t cols, const struct stride_row *strides)
{
    struct ag_matrix m = {.rows = rows,
                          .cols = cols,
                          .row_stride = cols * strides->col_stride + strides->row_gap,
                          .col_stride = strides->col_stride};
    if (strides->col_stride == 0) {
        m.row_stride = 1;
        m.col_stride = rows + strides->row_gap;
    }
    const int64_t elems = rows && cols ? (rows - 1) * m.row_stride + (cols - 1) * m.col_stride + 1 : 0;
    struct guarded guarded = {.matrix = m, .elem = elem};
    guarded.buffer = test_buffer_create((size_t)elems * ag_elem_bytes(elem), ag_elem_bytes(elem));
    guarded.matrix.data = guarded.buffer.data;
    memset(guarded.buffer.data, 0xA5, guarded.buffer.bytes);
    return guarded;
}

static int64_t position(const struct guarded *g, int64_t r, int64_t c)
{
    return r * g->matrix.row_stride + c * g->matrix.col_stride;
}

/* Every byte that is no element is still 0xA5. */
static void check_gaps(const struct guarded *g)
{
    const size_t bytes = ag_elem_bytes(g->elem);
    char *is_element = calloc(g->buffer.bytes + 1, 1);
    for (int64_t r = 0; r < g->matrix.rows; ++r) {
        for (int64_t c = 0; c < g->matrix.cols; ++c) {
            memset(is_element + position(g, r, c) * (int64_t)bytes, 1, bytes);
        }
    }
    for (size_t i = 0; i < g->buffer.bytes; ++i) {
        assert_true(is_element[i] || ((unsigned char *)g->buffer.data)[i] == 0xA5);
    }
    free(is_element);
}

static float value_at(int64_t r, int64_t c)
{
    return (float)(r * 64 + c) * 0.37f - 11.0f;
}

static void check_strided_load(enum ag_isa isa, enum ag_elem elem, int64_t rows, int64_t cols,
                               const struct stride_row *strides)
{
    struct guarded from = guarded_create(elem, rows, cols, strides);
    const int64_t to_stride = cols + 2;
    const size_t words = rows && cols ? (size_t)((rows - 1) * to_stride + cols) : 0;
    struct test_buffer to = test_buffer_create(words * sizeof(float), sizeof(float));
    memset(to.data, 0xA5, to.bytes);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
            ag_elem_store(elem, from.matrix.data, position(&from, r, c), value_at(r, c));
        }
    }
    ag_kernels_for(isa)->rows[elem].load(to.data, to_stride, &from.matrix);
    for (size_t i = 0; i < words; ++i) {
        const int64_t r = (int64_t)i / to_stride, c = (int64_t)i % to_stride;
        const float want = c < cols ? ag_elem_round(elem, value_at(r, c)) : ag_float_of_bits(0xA5A5A5A5u);
        assert_true(same_float(((float *)to.data)[i], want));
    }
    check_gaps(&from);
    test_buffer_destroy(&from.buffer);
    test_buffer_destroy(&to);
}

static void check_strided_store(enum ag_isa isa, enum ag_elem elem, int64_t rows, int64_t cols,
                                const struct stride_row *strides)
{
    struct guarded to = guarded_create(elem, rows, cols, strides);
    const int64_t from_stride = cols + 3;
    const size_t words = rows && cols ? (size_t)((rows - 1) * from_stride + cols) : 0;
    struct test_buffer from = test_buffer_create(words * sizeof(float), sizeof(float));
    for (size_t i = 0; i < words; ++i) {
        ((float *)from.data)[i] = value_at((int64_t)i / from_stride, (int64_t)i % from_stride);
    }
    ag_kernels_for(isa)->rows[elem].store(&to.matrix, from.data, from_stride, 0.5f);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
            const float got = ag_elem_load(elem, to.matrix.data, position(&to, r, c));
            assert_true(same_float(got, ag_elem_round(elem, value_at(r, c) * 0.5f)));
        }
    }
    check_gaps(&to);
    ag_kernels_for(isa)->rows[elem].zero(&to.matrix);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
            assert_true(same_float(ag_elem_load(elem, to.matrix.data, position(&to, r, c)), 0.0f));
        }
    }
    check_gaps(&to);
    test_buffer_destroy(&from);
    test_buffer_destroy(&to.buffer);
}

static void any_strides_and_lengths(void **state)
{
    (void)state;
    static const int64_t row_counts[] = {0, 1, 3};
    TEST_EACH_ISA (isa) {
        for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
            for (int i = 0; i < LENGTHS * STRIDES * 3; ++i) {
                const int64_t rows = row_counts[i % 3], cols = lengths[i / 3 % LENGTHS];
                const struct stride_row *strides = &stride_rows[i / 3 / LENGTHS];
                check_strided_load(isa, (enum ag_elem)elem, rows, cols, strides);
                check_strided_store(isa, (enum ag_elem)elem, rows, cols, strides);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_16_bit_values_load),
        cmocka_unit_test(all_boundaries_store_to_nearest_even),
        cmocka_unit_test(a_nan_stays_one),
        cmocka_unit_test(any_strides_and_lengths),
    };
    return cmocka_run_group_tests_name("row kernels", tests, NULL, NULL);
}
