/* labels: smoke ci */
/* The arena: what is measured is what is laid out, aligned and apart; sizes that do not fit are told. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { MOST_TAKES = 24 };

struct take {
    int64_t count;
    size_t elem_bytes;
    void *at;
};

struct carving {
    int takes;
    struct take take[MOST_TAKES];
};

static struct carving random_carving(struct test_random *random)
{
    static const size_t elem_bytes[] = {1, 2, 4, 8, 12, 64, 100};
    struct carving carving = {.takes = (int)test_random_between(random, 0, MOST_TAKES)};
    for (int i = 0; i < carving.takes; ++i) {
        carving.take[i].count = test_random_below(random, 4) ? test_random_below(random, 300) : 0;
        carving.take[i].elem_bytes = elem_bytes[test_random_below(random, 7)];
    }
    return carving;
}

static void carve(struct ag_arena *arena, struct carving *carving)
{
    for (int i = 0; i < carving->takes; ++i) {
        carving->take[i].at = ag_take(arena, carving->take[i].count, carving->take[i].elem_bytes);
    }
}

/* Every part inside [block, block + bytes), aligned, behind the part before; a count of 0 gives NULL. */
static void check_layout(const struct carving *carving, const char *block, uint64_t bytes)
{
    const char *free_from = block;
    for (int i = 0; i < carving->takes; ++i) {
        const struct take *take = &carving->take[i];
        if (take->count == 0) {
            assert_null(take->at);
            continue;
        }
        assert_non_null(take->at);
        assert_int_equal((uintptr_t)take->at % AG_ARENA_ALIGN, 0);
        assert_true((const char *)take->at >= free_from);
        free_from = (const char *)take->at + (size_t)take->count * take->elem_bytes;
        memset(take->at, i, (size_t)take->count * take->elem_bytes); /* the guard page behind is the judge */
    }
    assert_true(free_from <= block + bytes);
}

static void what_is_measured_is_enough_at_any_alignment(void **state)
{
    (void)state;
    struct test_random random = test_random_seed(1);
    for (int round = 0; round < 400; ++round) {
        struct carving carving = random_carving(&random);
        struct ag_arena arena = ag_arena_measure();
        carve(&arena, &carving);
        const uint64_t bytes = ag_arena_bytes(&arena);
        for (int i = 0; i < carving.takes; ++i) {
            assert_null(carving.take[i].at);
        }
        if (bytes == 0) {
            assert_int_equal(arena.used, 0);
            continue;
        }
        /* The buffer ends at a page that cannot be touched; shifting its start makes every misalignment. */
        const size_t shift = (size_t)(round % AG_ARENA_ALIGN);
        struct test_buffer buffer = test_buffer_create(bytes + shift, 1);
        char *block = (char *)buffer.data + shift;
        struct ag_arena over = ag_arena_over(block);
        carve(&over, &carving);
        check_layout(&carving, block, bytes);
        assert_int_equal(ag_arena_bytes(&over), bytes);
        ag_arena_close(block, bytes);
        memset(block, 0, bytes); /* all of it is the caller's again */
        test_buffer_destroy(&buffer);
    }
}

static void nothing_taken_needs_nothing(void **state)
{
    (void)state;
    struct ag_arena arena = ag_arena_measure();
    assert_int_equal(ag_arena_bytes(&arena), 0);
    assert_null(ag_take(&arena, 0, 8));
    assert_null(ag_take(&arena, 0, SIZE_MAX));
    assert_int_equal(ag_arena_bytes(&arena), 0);
}

static void one_byte_needs_at_most_two_lines(void **state)
{
    (void)state;
    struct ag_arena arena = ag_arena_measure();
    ag_take(&arena, 1, 1);
    assert_int_equal(arena.used % AG_ARENA_ALIGN, 0);
    assert_int_equal(ag_arena_bytes(&arena), arena.used + AG_ARENA_ALIGN - 1);
}

struct overflow_row {
    const char *name;
    int takes;
    int64_t count[3];
    size_t elem_bytes;
};

static const struct overflow_row overflow_rows[] = {
    {"product", 1, {INT64_MAX}, 4},
    {"product just over", 1, {INT64_C(1) << 62}, 4},
    {"rounding up", 1, {INT64_MAX}, 2},
    {"sum", 3, {INT64_MAX - 200, INT64_MAX - 200, 1000}, 1},
    {"aligning the whole", 2, {INT64_MAX - 63, INT64_MAX - 63}, 1},
    {"negative count", 1, {-1}, 1},
    {"most negative count", 1, {INT64_MIN}, 1},
};

static void overflow_is_told_and_kept(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof overflow_rows / sizeof *overflow_rows; ++i) {
        const struct overflow_row *row = &overflow_rows[i];
        struct ag_arena arena = ag_arena_measure();
        for (int k = 0; k < row->takes; ++k) {
            assert_null(ag_take(&arena, row->count[k], row->elem_bytes));
        }
        ag_take(&arena, 1, 1); /* a later small one does not make it forget */
        if (ag_arena_bytes(&arena) != UINT64_MAX) {
            fail_msg("%s: got %llu bytes, want UINT64_MAX", row->name, (unsigned long long)ag_arena_bytes(&arena));
        }
    }
}

static void large_but_possible_is_no_overflow(void **state)
{
    (void)state;
    struct ag_arena arena = ag_arena_measure();
    ag_take(&arena, INT64_MAX / 2, 2);
    assert_true(ag_arena_bytes(&arena) >= (uint64_t)INT64_MAX - 1);
    assert_true(ag_arena_bytes(&arena) < (uint64_t)INT64_MAX + 1024);
}

static void scratch_starts_as_nan_in_debug_builds(void **state)
{
    (void)state;
#ifdef NDEBUG
    skip();
#else
    uint32_t block[64] = {0};
    struct ag_arena arena = ag_arena_over(block);
    const uint32_t *words = ag_take(&arena, 8, 4);
    for (int i = 0; i < 8; ++i) {
        assert_int_equal(words[i], 0xffffffffu);
    }
    ag_arena_close(block, sizeof block);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_measured_is_enough_at_any_alignment),
        cmocka_unit_test(nothing_taken_needs_nothing),
        cmocka_unit_test(one_byte_needs_at_most_two_lines),
        cmocka_unit_test(overflow_is_told_and_kept),
        cmocka_unit_test(large_but_possible_is_no_overflow),
        cmocka_unit_test(scratch_starts_as_nan_in_debug_builds),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
