/* labels: smoke ci */
/* Sparse modes as column intervals, against the predicate of the operator's page asked pair by pair. */
#include "support/attention_problem.h"

static bool interval_sees(const struct attention_sequence *s, int64_t i, int64_t j)
{
    const struct attention_columns columns = attention_visible_columns(s, i);
    return columns.begin <= j && j < columns.end;
}

/* Both ends never fall, stay inside, and rows-of-a-column is the inverse of columns-of-a-row. */
static void check_shape_of_intervals(const struct attention_sequence *s)
{
    struct attention_columns before = {0, 0};
    for (int64_t i = 0; i < s->query_len; ++i) {
        const struct attention_columns columns = attention_visible_columns(s, i);
        assert_true(0 <= columns.begin && columns.begin <= columns.end && columns.end <= s->key_len);
        assert_true(before.begin <= columns.begin && before.end <= columns.end);
        before = columns;
    }
    before = (struct attention_columns){0, 0};
    for (int64_t j = 0; j < s->key_len; ++j) {
        const struct attention_columns rows = attention_visible_rows(s, j);
        assert_true(0 <= rows.begin && rows.begin <= rows.end && rows.end <= s->query_len);
        assert_true(before.begin <= rows.begin && before.end <= rows.end);
        before = rows;
        for (int64_t i = 0; i < s->query_len; ++i) {
            assert_int_equal(rows.begin <= i && i < rows.end, interval_sees(s, i, j));
        }
    }
}

/* One pack, one setting: every pair of every sequence. */
static void check_pack(const struct attention_call *call)
{
    const struct attention_case *c = &call->c;
    struct attention_sequence sequences[TEST_MOST_SEQUENCES];
    for (int64_t b = 0; b < c->count; ++b) {
        const struct attention_rows q = attention_case_rows(c, c->q_ends, b),
                                    kv = attention_case_rows(c, c->kv_ends, b);
        sequences[b] = (struct attention_sequence){
            .batch = b, .query_begin = q.begin, .query_len = q.count, .key_begin = kv.begin, .key_len = kv.count};
    }
    attention_set_intervals(sequences, c->count, c->mode, c->pre, c->next, c->mode == 6 ? c->prefix : NULL,
                            c->mode == 6 ? c->count : 0);
    for (int64_t b = 0; b < c->count; ++b) {
        check_shape_of_intervals(&sequences[b]);
        for (int64_t i = 0; i < sequences[b].query_len; ++i) {
            for (int64_t j = 0; j < sequences[b].key_len; ++j) {
                if (attention_forward_sees(call, b, 0, i, j) != interval_sees(&sequences[b], i, j)) {
                    fail_msg("pair (%d, %d) of sequence %d\n%s", (int)i, (int)j, (int)b, attention_case_text(c));
                }
            }
        }
    }
}

/* Packs of three: the first and the last may be empty on either side. */
static void check_packs(struct attention_call *call)
{
    static const int64_t lengths[][3] = {{0, 3, 5}, {4, 5, 0}, {7, 0, 1}, {1, 2, 6}, {5, 5, 5}};
    enum { PACKS = sizeof lengths / sizeof *lengths };
    for (int q = 0; q < PACKS; ++q) {
        for (int kv = 0; kv < PACKS; ++kv) {
            call->c.count = 3;
            for (int b = 0; b < 3; ++b) {
                call->c.q_ends[b] = lengths[q][b] + (b ? call->c.q_ends[b - 1] : 0);
                call->c.kv_ends[b] = lengths[kv][b] + (b ? call->c.kv_ends[b - 1] : 0);
            }
            check_pack(call);
        }
    }
}

static struct attention_call call_of_mode(int64_t mode)
{
    struct attention_call call = {.c = {.dtype = AG_FLOAT, .mode = mode, .mask_shape = TEST_MASK_COMPRESSED}};
    if (mode <= 1) {
        static const int64_t dims[2] = {8, 8};
        call.c.mask_shape = TEST_MASK_SS;
        call.mask = test_tensor_create(AG_BOOL, 2, dims);
    }
    return call;
}

static void close_call(struct attention_call *call)
{
    if (call->mask.handle) {
        test_tensor_destroy(&call->mask);
    }
}

static void modes_without_tokens(void **state)
{
    static const int64_t modes[] = {1, 2, 3};
    (void)state;
    for (int m = 0; m < 3; ++m) {
        struct attention_call call = call_of_mode(modes[m]);
        check_packs(&call);
        close_call(&call);
    }
}

static void modes_with_tokens(void **state)
{
    static const int64_t modes[] = {0, 4, 7, 8};
    static const int64_t tokens[] = {INT64_MIN, INT64_MIN + 1, -((int64_t)1 << 41), INT32_MIN, -6, -2, -1, 0, 1, 2, 3,
                                     7,         INT32_MAX,     (int64_t)1 << 41,    INT64_MAX};
    enum { TOKENS = sizeof tokens / sizeof *tokens };
    (void)state;
    for (int m = 0; m < 4; ++m) {
        struct attention_call call = call_of_mode(modes[m]);
        for (int pre = 0; pre < TOKENS; ++pre) {
            for (int next = 0; next < TOKENS; ++next) {
                call.c.pre = tokens[pre];
                call.c.next = tokens[next];
                check_packs(&call);
            }
        }
        close_call(&call);
    }
}

static void prefix_mode(void **state)
{
    struct attention_call call = call_of_mode(6);
    (void)state;
    for (int64_t prefix = -1; prefix <= 8; ++prefix) {
        for (int b = 0; b < 3; ++b) {
            call.c.prefix[b] = prefix + b; /* below 0 and past Skv are cut */
        }
        check_packs(&call);
    }
    close_call(&call);
}

/* 2049 sequences with one of 32 rows among empty ones: the band is found wherever it is. */
static void band_among_empty_sequences(void **state)
{
    static struct attention_sequence sequences[2049];
    (void)state;
    for (int64_t busy = 0; busy < 2049; busy += 512) {
        for (int64_t mode = 7; mode <= 8; ++mode) {
            for (int64_t b = 0; b < 2049; ++b) {
                const int64_t length = b == busy ? 32 : 0;
                sequences[b] = (struct attention_sequence){.batch = b, .query_len = length, .key_len = length};
            }
            attention_set_intervals(sequences, 2049, mode, 2, 1, NULL, 0);
            const struct attention_columns columns = attention_visible_columns(&sequences[busy], 10);
            assert_int_equal(columns.begin, 8);
            assert_int_equal(columns.end, 12);
        }
    }
}

/* The drawings of the sparse-mode page: a window below the diagonal, and a band in 13 x 16. */
static void drawn_examples(void **state)
{
    struct attention_sequence s = {.query_len = 12, .key_len = 12};
    (void)state;
    attention_set_intervals(&s, 1, 0, -3, 7, NULL, 0);
    assert_int_equal(attention_visible_columns(&s, 0).begin, 3);
    assert_int_equal(attention_visible_columns(&s, 0).end, 8);
    assert_int_equal(attention_visible_columns(&s, 11).begin, attention_visible_columns(&s, 11).end);
    s = (struct attention_sequence){.query_len = 13, .key_len = 16};
    attention_set_intervals(&s, 1, 4, 6, 4, NULL, 0);
    assert_int_equal(attention_visible_columns(&s, 0).begin, 0);
    assert_int_equal(attention_visible_columns(&s, 0).end, 8);
    assert_int_equal(attention_visible_columns(&s, 12).begin, 9);
    assert_int_equal(attention_visible_columns(&s, 12).end, 16);
}

/* Which byte belongs to (batch, head, row): rank 4 with and without leading dims. */
static void mask_rows(void **state)
{
    static uint8_t bytes[2 * 3 * 5 * 7];
    struct attention_problem p = {.has_mask_bytes = true};
    const struct attention_sequence s = {.batch = 1, .query_len = 5, .key_len = 7};
    (void)state;
    p.mask = (struct ag_view){.data = bytes,
                              .dims = {2, 3, 5, 7},
                              .strides = {105, 35, 7, 1},
                              .rank = 4,
                              .dtype = AG_UINT8,
                              .present = true};
    assert_ptr_equal(attention_mask_row(&p, &s, 2, 4).bytes, bytes + 105 + 70 + 28);
    assert_int_equal(attention_mask_row(&p, &s, 2, 4).stride, 1);
    p.mask.dims[0] = p.mask.dims[1] = 1;
    p.mask.strides[0] = p.mask.strides[1] = 0;
    p.mask.offset = 3;
    assert_ptr_equal(attention_mask_row(&p, &s, 2, 4).bytes, bytes + 31);
    p.has_mask_bytes = false;
    assert_null(attention_mask_row(&p, &s, 2, 4).bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_without_tokens), cmocka_unit_test(modes_with_tokens),
        cmocka_unit_test(prefix_mode),          cmocka_unit_test(band_among_empty_sequences),
        cmocka_unit_test(drawn_examples),       cmocka_unit_test(mask_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
