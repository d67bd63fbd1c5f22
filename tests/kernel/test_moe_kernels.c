/* labels: smoke ci emulated */
/* The mixture-of-experts kernels: every table, element type, length around the steps of the sweep, group size, and
 * alignment of the output, against the scalar definition; every row ends at a page that cannot be touched. */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "base/elem.h"
#include "kernel/kernel.h"

enum { MOST_SLOTS = 19 };

static const int64_t lengths[] = {1,  2,  7,  15, 16, 17,  31,  32,  33,  47,  63,
                                  64, 65, 95, 96, 97, 127, 128, 129, 200, 1000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* The rows of one problem. Each row is a buffer of its own; the slots take their gradient from it in pairs, as two
 * experts of a token do. */
struct rows {
    int64_t count, hidden;
    enum ag_elem elem;
    struct test_buffer grad[MOST_SLOTS], tokens[MOST_SLOTS], out[MOST_SLOTS];
    struct ag_moe_slot slots[MOST_SLOTS];
};

static void fill_row(const struct test_buffer *buffer, enum ag_elem elem, int64_t hidden, struct test_random *random)
{
    for (int64_t h = 0; h < hidden; ++h) {
        ag_elem_store(elem, buffer->data, h, (float)test_random_normal(random));
    }
}

/* out_lead: bytes by which the outputs are moved down from the upper page. */
static struct rows make_rows(enum ag_elem elem, int64_t count, int64_t hidden, size_t out_lead)
{
    struct test_random random = test_random_seed(7);
    struct rows rows = {.count = count, .hidden = hidden, .elem = elem};
    const size_t bytes = (size_t)hidden * ag_elem_bytes(elem), align = ag_elem_bytes(elem);
    for (int64_t i = 0; i < count; ++i) {
        rows.grad[i] = test_buffer_create(bytes, align);
        rows.tokens[i] = test_buffer_create(bytes, align);
        rows.out[i] = test_buffer_create(bytes + out_lead * (size_t)(i % 3), align);
        fill_row(&rows.grad[i], elem, hidden, &random);
        fill_row(&rows.tokens[i], elem, hidden, &random);
        rows.slots[i] = (struct ag_moe_slot){.grad = rows.grad[i / 2 * 2].data,
                                             .tokens = rows.tokens[i].data,
                                             .grad_out = rows.out[i].data,
                                             .prob = (float)test_random_normal(&random)};
    }
    return rows;
}

static void destroy_rows(struct rows *rows)
{
    for (int64_t i = 0; i < rows->count; ++i) {
        test_buffer_destroy(&rows->grad[i]);
        test_buffer_destroy(&rows->tokens[i]);
        test_buffer_destroy(&rows->out[i]);
    }
}

/* (H/16 + 6) roundings of the products' magnitudes. */
static void check_dot(const struct rows *rows, const struct ag_moe_slot *slot)
{
    double dot = 0, magnitudes = 0;
    for (int64_t h = 0; h < rows->hidden; ++h) {
        const double product =
            (double)ag_elem_load(rows->elem, slot->tokens, h) * ag_elem_load(rows->elem, slot->grad, h);
        dot += product;
        magnitudes += fabs(product);
    }
    const double bound = ((double)rows->hidden / 16 + 6) * 0x1p-24 * magnitudes;
    if (!(fabs(slot->dot - dot) <= bound)) {
        fail_msg("dot of %lld elements: got %.9g, want %.9g, bound %.3g", (long long)rows->hidden, slot->dot, dot,
                 bound);
    }
}

static void check_scaled(const struct rows *rows, const struct ag_moe_slot *slot)
{
    for (int64_t h = 0; h < rows->hidden; ++h) {
        const float want = ag_elem_round(rows->elem, ag_elem_load(rows->elem, slot->grad, h) * slot->prob);
        const float got = ag_elem_load(rows->elem, slot->grad_out, h);
        if (ag_bits_of_float(got) != ag_bits_of_float(want)) {
            fail_msg("element %lld of %lld: got %.9g, want %.9g", (long long)h, (long long)rows->hidden, got, want);
        }
    }
}

static void check_problem(const struct ag_kernels *kernels, enum ag_elem elem, int64_t count, int64_t hidden)
{
    struct rows plain = make_rows(elem, count, hidden, 0);
    struct rows streamed = make_rows(elem, count, hidden, 2 * ag_elem_bytes(elem));
    kernels->moe.scale_dot[elem](plain.slots, count, hidden, false);
    kernels->moe.scale_dot[elem](streamed.slots, count, hidden, true);
    kernels->moe.fence();
    for (int64_t i = 0; i < count; ++i) {
        check_scaled(&plain, &plain.slots[i]);
        check_scaled(&streamed, &streamed.slots[i]);
        check_dot(&plain, &plain.slots[i]);
        assert_int_equal(ag_bits_of_float(plain.slots[i].dot), ag_bits_of_float(streamed.slots[i].dot));
    }
    destroy_rows(&plain);
    destroy_rows(&streamed);
}

static void scale_dot_equals_its_definition(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
            for (int i = 0; i < LENGTHS; ++i) {
                check_problem(ag_kernels_for(isa), (enum ag_elem)elem, 1, lengths[i]);
                check_problem(ag_kernels_for(isa), (enum ag_elem)elem, MOST_SLOTS, lengths[i]);
            }
        }
    }
}

/* 1 and then products of 2^-24, of which a float sum that holds the 1 loses every one: the worst case of the bound. */
static void small_products_are_not_lost(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
            for (int i = 0; i < LENGTHS; ++i) {
                struct rows rows = make_rows((enum ag_elem)elem, 1, lengths[i], 0);
                for (int64_t h = 0; h < lengths[i]; ++h) {
                    ag_elem_store((enum ag_elem)elem, rows.grad[0].data, h, h ? 0x1p-12f : 1);
                    ag_elem_store((enum ag_elem)elem, rows.tokens[0].data, h, h ? 0x1p-12f : 1);
                }
                ag_kernels_for(isa)->moe.scale_dot[elem](rows.slots, 1, lengths[i], false);
                check_dot(&rows, &rows.slots[0]);
                destroy_rows(&rows);
            }
        }
    }
}

/* A slot's bits do not depend on the group it is swept in. */
static void group_does_not_matter(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
            struct rows together = make_rows((enum ag_elem)elem, MOST_SLOTS, 333, 0);
            struct rows alone = make_rows((enum ag_elem)elem, MOST_SLOTS, 333, 0);
            ag_kernels_for(isa)->moe.scale_dot[elem](together.slots, MOST_SLOTS, 333, false);
            for (int i = 0; i < MOST_SLOTS; ++i) {
                ag_kernels_for(isa)->moe.scale_dot[elem](&alone.slots[i], 1, 333, true);
                assert_int_equal(ag_bits_of_float(together.slots[i].dot), ag_bits_of_float(alone.slots[i].dot));
                assert_memory_equal(together.out[i].data, alone.out[i].data, together.out[i].bytes);
            }
            destroy_rows(&together);
            destroy_rows(&alone);
        }
    }
}

/* Not a number, infinities, signed zeros and subnormals, through every table, in whole steps and in the tail. */
static void special_values_pass(void **state)
{
    static const float grads[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 0x1p-140f, 0x1p-24f, 1.0f};
    static const float probs[] = {NAN, INFINITY, 0.0f, -0.0f, 0x1p-10f, 0x1p120f, -1.0f};
    enum { HIDDEN = 77, PROBS = sizeof probs / sizeof *probs };
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
            for (int streams = 0; streams < 2; ++streams) {
                struct rows rows = make_rows((enum ag_elem)elem, PROBS, HIDDEN, 0);
                for (int i = 0; i < PROBS; ++i) {
                    rows.slots[i].prob = probs[i];
                    for (int h = 0; h < HIDDEN; ++h) {
                        ag_elem_store((enum ag_elem)elem, rows.grad[i].data, h, grads[(h + h / 8) % 8]);
                    }
                }
                ag_kernels_for(isa)->moe.scale_dot[elem](rows.slots, PROBS, HIDDEN, streams);
                for (int i = 0; i < PROBS; ++i) {
                    for (int h = 0; h < HIDDEN; ++h) {
                        const float grad = ag_elem_load((enum ag_elem)elem, rows.slots[i].grad, h);
                        const float want = ag_elem_round((enum ag_elem)elem, grad * probs[i]);
                        const float got = ag_elem_load((enum ag_elem)elem, rows.slots[i].grad_out, h);
                        assert_true(isnan(want) ? isnan(got) : ag_bits_of_float(got) == ag_bits_of_float(want));
                    }
                    assert_true(isnan(rows.slots[i].dot)); /* every gradient row holds a NaN */
                }
                destroy_rows(&rows);
            }
        }
    }
}

/* A row of `bytes` that ends `behind` bytes before a page that cannot be touched; those bytes stay as they are. */
static void check_row(const struct ag_moe_kernels *moe, size_t bytes, size_t behind, bool streams)
{
    static const unsigned char zeros[700];
    unsigned char untouched[64];
    struct test_random random = test_random_seed(bytes);
    struct test_buffer from = test_buffer_create(bytes, 2), to = test_buffer_create(bytes + behind, 2);
    memset(untouched, 0x5a, sizeof untouched);
    memset(to.data, 0x5a, to.bytes);
    for (size_t b = 0; b < bytes; ++b) {
        ((unsigned char *)from.data)[b] = (unsigned char)test_random_bits(&random);
    }
    moe->copy_row(to.data, from.data, (int64_t)bytes, streams);
    moe->fence();
    assert_memory_equal(to.data, from.data, bytes);
    moe->zero_row(to.data, (int64_t)bytes, streams);
    moe->fence();
    assert_memory_equal(to.data, zeros, bytes);
    assert_memory_equal((char *)to.data + bytes, untouched, behind);
    test_buffer_destroy(&from);
    test_buffer_destroy(&to);
}

static void rows_are_copied_and_cleared(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        for (size_t bytes = 2; bytes < 700; bytes += bytes < 200 ? 2 : 26) {
            for (size_t behind = 0; behind < 64; behind += 10) {
                check_row(&ag_kernels_for(isa)->moe, bytes, behind, false);
                check_row(&ag_kernels_for(isa)->moe, bytes, behind, true);
            }
        }
    }
}

/* --- sums of rows ---------------------------------------------------------------------------------------- */

/* `count` products and sums, each rounded once, on the way; then the rounding to the type. */
static void check_sum(const struct rows *rows, const struct ag_moe_term *terms, int64_t count, const void *out)
{
    for (int64_t h = 0; h < rows->hidden; ++h) {
        double sum = 0, magnitudes = 0;
        for (int64_t c = 0; c < count; ++c) {
            const double product = (double)ag_elem_load(rows->elem, terms[c].row, h) * terms[c].weight;
            sum += product;
            magnitudes += fabs(product);
        }
        const double bound = (double)(count + 1) * 0x1p-24 * magnitudes + ag_elem_half_ulp(rows->elem, sum);
        const double got = ag_elem_load(rows->elem, out, h);
        if (!(fabs(got - sum) <= (count ? bound : 0))) {
            fail_msg("element %lld of %lld, %lld rows: got %.9g, want %.9g", (long long)h, (long long)rows->hidden,
                     (long long)count, got, sum);
        }
    }
}

static void check_sums(const struct ag_kernels *kernels, enum ag_elem elem, int64_t count, int64_t hidden)
{
    struct rows rows = make_rows(elem, count + 1, hidden, 2 * ag_elem_bytes(elem));
    struct ag_moe_term terms[MOST_SLOTS];
    const size_t bytes = (size_t)hidden * ag_elem_bytes(elem);
    for (int64_t c = 0; c < count; ++c) {
        terms[c] = (struct ag_moe_term){.row = rows.tokens[c].data, .weight = rows.slots[c].prob};
    }
    for (int64_t i = 0; i <= count; ++i) { /* outputs at different places in a line */
        memset(rows.out[i].data, 0xff, rows.out[i].bytes);
        const struct ag_moe_sum sum = {.terms = terms, .count = count, .out = rows.out[i].data};
        kernels->moe.sum_rows[elem](&sum, 1, hidden, i > 0);
        kernels->moe.fence();
        assert_memory_equal(rows.out[i].data, rows.out[0].data, bytes);
        for (size_t b = bytes; b < rows.out[i].bytes; ++b) { /* what lies behind is not touched */
            assert_int_equal(((unsigned char *)rows.out[i].data)[b], 0xff);
        }
    }
    check_sum(&rows, terms, count, rows.out[0].data);
    destroy_rows(&rows);
}

static void sum_rows_equals_its_definition(void **state)
{
    static const int64_t counts[] = {0, 1, 2, 3, 8};
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
            for (int i = 0; i < 5 * LENGTHS; ++i) {
                check_sums(ag_kernels_for(isa), (enum ag_elem)elem, counts[i / LENGTHS], lengths[i % LENGTHS]);
            }
        }
    }
}

/* A row alone with weight 1 comes out bit by bit: -0 too. */
static void one_row_comes_out_as_it_is(void **state)
{
    (void)state;
    TEST_EACH_ISA (isa) {
        for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
            struct rows rows = make_rows((enum ag_elem)elem, 1, 200, 0);
            const struct ag_moe_term term = {.row = rows.tokens[0].data, .weight = 1};
            ag_elem_store((enum ag_elem)elem, rows.tokens[0].data, 3, -0.0f);
            ag_elem_store((enum ag_elem)elem, rows.tokens[0].data, 199, -0.0f);
            const struct ag_moe_sum sum = {.terms = &term, .count = 1, .out = rows.out[0].data};
            ag_kernels_for(isa)->moe.sum_rows[elem](&sum, 1, 200, false);
            assert_memory_equal(rows.out[0].data, rows.tokens[0].data, rows.out[0].bytes);
            destroy_rows(&rows);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_rows_equals_its_definition),  cmocka_unit_test(one_row_comes_out_as_it_is),
        cmocka_unit_test(scale_dot_equals_its_definition), cmocka_unit_test(small_products_are_not_lost),
        cmocka_unit_test(group_does_not_matter),           cmocka_unit_test(special_values_pass),
        cmocka_unit_test(rows_are_copied_and_cleared),
    };
    return cmocka_run_group_tests_name("moe kernels", tests, NULL, NULL);
}
