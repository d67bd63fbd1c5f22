/* labels: smoke ci */
/* Views: counts, contiguity, byte ranges, overlap, storage, and the text of a shape. */
#include "support/support.h"

#include <string.h>

static char memory[4096];

/* A view of `dims` over memory + byte; rank from the number of dims given (up to 3, ended by -1). */
static struct ag_view view_at(int64_t byte, int dtype, int rank, const int64_t *dims, const int64_t *strides)
{
    struct ag_view view = {.data = memory + byte, .rank = rank, .dtype = dtype, .storage_elems = -1, .present = true};
    memcpy(view.dims, dims, (size_t)rank * sizeof *dims);
    memcpy(view.strides, strides, (size_t)rank * sizeof *strides);
    return view;
}

/* --- counts and contiguity ------------------------------------------------------------------------------ */

struct shape_row {
    const char *name;
    int rank;
    int64_t dims[4], strides[4];
    int64_t elems;
    int64_t span; /* elements from the first to behind the last */
    bool is_contiguous;
};

static const struct shape_row shape_rows[] = {
    {"rank 0", 0, {0}, {0}, 1, 1, true},
    {"dense", 3, {2, 3, 4}, {12, 4, 1}, 24, 24, true},
    {"padded rows", 3, {2, 3, 4}, {15, 5, 1}, 24, 15 + 10 + 3 + 1, false},
    {"dense rows, padded planes", 3, {2, 3, 4}, {13, 4, 1}, 24, 13 + 8 + 3 + 1, false},
    {"transposed", 2, {3, 4}, {1, 3}, 12, 12, false},
    {"a dim of 1 may have any stride", 3, {2, 1, 4}, {4, 99, 1}, 8, 8, true},
    {"last dim of 1 with a stride", 2, {5, 1}, {1, 7}, 5, 5, true},
    {"last dim strided", 1, {5}, {2}, 5, 9, false},
    {"all elements the same", 2, {3, 4}, {0, 0}, 12, 1, false},
    {"broadcast rows", 2, {3, 4}, {0, 1}, 12, 4, false},
    {"empty", 3, {2, 0, 4}, {100, 200, 300}, 0, 0, true},
    {"one element", 2, {1, 1}, {5, 5}, 1, 1, true},
};

static void shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shape_rows / sizeof *shape_rows; ++i) {
        const struct shape_row *row = &shape_rows[i];
        const struct ag_view view = view_at(0, AG_FLOAT16, row->rank, row->dims, row->strides);
        uintptr_t begin, end;
        ag_view_bytes(&view, &begin, &end);
        if (ag_view_elems(&view) != row->elems || ag_view_is_empty(&view) != (row->elems == 0) ||
            ag_view_is_contiguous(&view) != row->is_contiguous || begin != (uintptr_t)memory ||
            end - begin != (uintptr_t)row->span * 2) {
            fail_msg("%s: %lld elements, contiguous %d, %lld bytes", row->name, (long long)ag_view_elems(&view),
                     ag_view_is_contiguous(&view), (long long)(end - begin));
        }
    }
}

static void offset_counts_elements(void **state)
{
    (void)state;
    static const int dtypes[] = {AG_BOOL, AG_BF16, AG_FLOAT, AG_INT64};
    static const uintptr_t bytes[] = {1, 2, 4, 8};
    for (int i = 0; i < 4; ++i) {
        struct ag_view view = view_at(16, dtypes[i], 1, (int64_t[]){5}, (int64_t[]){3});
        uintptr_t begin, end;
        view.offset = 7;
        ag_view_bytes(&view, &begin, &end);
        assert_int_equal(begin - (uintptr_t)memory, 16 + 7 * bytes[i]);
        assert_int_equal(end - begin, (4 * 3 + 1) * bytes[i]);
        assert_ptr_equal(ag_view_origin(&view), memory + 16 + 7 * bytes[i]);
    }
}

/* --- overlap -------------------------------------------------------------------------------------------- */

struct overlap_row {
    const char *name;
    int64_t byte[2], elems[2], stride[2];
    bool overlaps, shares;
};

static const struct overlap_row overlap_rows[] = {
    {"the same", {0, 0}, {4, 4}, {1, 1}, true, true},
    {"side by side", {0, 16}, {4, 4}, {1, 1}, false, false},
    {"one byte shared", {0, 15}, {4, 4}, {1, 1}, true, true},
    {"one inside the other", {0, 8}, {100, 1}, {1, 1}, true, true},
    {"interleaved", {0, 4}, {4, 4}, {2, 2}, true, false},
    {"in the gap of a strided one", {0, 4}, {4, 1}, {2, 1}, true, false},
    {"strided, with one end", {0, 8}, {4, 2}, {2, 4}, true, true},
    {"the last element of a strided one", {0, 24}, {4, 4}, {2, 1}, true, true},
    {"behind the last element of a strided one", {0, 28}, {4, 4}, {2, 1}, false, false},
    {"empty inside", {0, 8}, {100, 0}, {1, 1}, false, false},
    {"both empty", {0, 0}, {0, 0}, {1, 1}, false, false},
};

static void overlap(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof overlap_rows / sizeof *overlap_rows; ++i) {
        const struct overlap_row *row = &overlap_rows[i];
        const struct ag_view a = view_at(row->byte[0], AG_FLOAT, 1, &row->elems[0], &row->stride[0]);
        const struct ag_view b = view_at(row->byte[1], AG_FLOAT, 1, &row->elems[1], &row->stride[1]);
        if (ag_views_overlap(&a, &b) != row->overlaps || ag_views_overlap(&b, &a) != row->overlaps) {
            fail_msg("%s: want %d", row->name, row->overlaps);
        }
        if (ag_views_share_bytes(&a, &b) != row->shares || ag_views_share_bytes(&b, &a) != row->shares) {
            fail_msg("%s: shares bytes: want %d", row->name, row->shares);
        }
    }
}

static void nothing_overlaps_what_has_no_memory(void **state)
{
    (void)state;
    const struct ag_view a = view_at(0, AG_FLOAT, 1, (int64_t[]){4}, (int64_t[]){1});
    struct ag_view absent = a, bare = a;
    absent.present = false;
    bare.data = NULL;
    assert_true(ag_views_overlap(&a, &a));
    assert_false(ag_views_overlap(&a, &absent));
    assert_false(ag_views_overlap(&absent, &a));
    assert_false(ag_views_overlap(&a, &bare));
    assert_false(ag_views_overlap(&bare, &bare));
}

static void overlap_respects_offsets(void **state)
{
    (void)state;
    struct ag_view a = view_at(0, AG_FLOAT, 1, (int64_t[]){4}, (int64_t[]){1}), b = a;
    b.offset = 4;
    assert_false(ag_views_overlap(&a, &b));
    b.offset = 3;
    assert_true(ag_views_overlap(&a, &b));
}

/* --- storage -------------------------------------------------------------------------------------------- */

struct storage_row {
    const char *name;
    int64_t offset, elems, stride, storage_elems;
    bool is_inside;
};

static const struct storage_row storage_rows[] = {
    {"fits exactly", 0, 10, 1, 10, true},          {"one short", 0, 10, 1, 9, false},
    {"offset pushes it out", 1, 10, 1, 10, false}, {"offset, fits", 3, 4, 2, 10, true},
    {"offset, one short", 3, 4, 2, 9, false},      {"stride 0 needs one element", 0, 10, 0, 1, true},
    {"unknown storage", 1000, 10, 100, -1, true},  {"empty needs nothing", 5, 0, 1, 0, true},
    {"negative offset", -1, 1, 1, 10, false},
};

static void storage(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof storage_rows / sizeof *storage_rows; ++i) {
        const struct storage_row *row = &storage_rows[i];
        struct ag_view view = view_at(0, AG_FLOAT, 1, &row->elems, &row->stride);
        view.offset = row->offset;
        view.storage_elems = row->storage_elems;
        if (ag_view_is_inside_storage(&view) != row->is_inside) {
            fail_msg("%s: want %d", row->name, row->is_inside);
        }
    }
}

/* --- text ----------------------------------------------------------------------------------------------- */

/* Steps along two dims that lead to one place. */
static void outputs_that_meet_themselves(void **state)
{
    static const struct {
        int64_t dims[3], strides[3];
        bool meets;
    } rows[] = {
        {{4, 2, 8}, {16, 8, 1}, false}, {{4, 2, 8}, {16, 1, 1}, true},
        {{6, 2, 8}, {16, 6, 1}, true},  {{6, 2, 6}, {16, 6, 1}, false},
        {{3, 1, 2}, {2, 0, 3}, false},  {{4, 1, 3}, {2, 0, 3}, true},
        {{2, 3, 1}, {0, 1, 1}, true},   {{1, 3, 1}, {0, 1, 0}, false},
        {{4, 0, 8}, {1, 1, 1}, false},  {{2, 2, 2}, {INT64_MAX / 64, 1, 2}, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const struct ag_view view = view_at(0, AG_FLOAT, 3, rows[i].dims, rows[i].strides);
        if (ag_view_meets_itself(&view) != rows[i].meets) {
            fail_msg("row %zu", i);
        }
    }
}

static void shape_text(void **state)
{
    (void)state;
    char text[AG_SHAPE_TEXT];
    assert_string_equal(ag_shape_text(text, 0, NULL), "[]");
    assert_string_equal(ag_shape_text(text, 1, (int64_t[]){7}), "[7]");
    assert_string_equal(ag_shape_text(text, 3, (int64_t[]){2, 0, 128}), "[2, 0, 128]");
}

static void longest_shape_text_is_whole(void **state)
{
    (void)state;
    char text[AG_SHAPE_TEXT];
    int64_t dims[AG_MAX_RANK];
    for (int d = 0; d < AG_MAX_RANK; ++d) {
        dims[d] = INT64_MIN;
    }
    ag_shape_text(text, AG_MAX_RANK, dims);
    assert_int_equal(strlen(text), 2 + AG_MAX_RANK * 20 + (AG_MAX_RANK - 1) * 2);
    assert_int_equal(text[strlen(text) - 1], ']');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(offset_counts_elements),
        cmocka_unit_test(overlap),
        cmocka_unit_test(nothing_overlaps_what_has_no_memory),
        cmocka_unit_test(overlap_respects_offsets),
        cmocka_unit_test(storage),
        cmocka_unit_test(outputs_that_meet_themselves),
        cmocka_unit_test(shape_text),
        cmocka_unit_test(longest_shape_text_is_whole),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
