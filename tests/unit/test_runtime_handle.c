/* labels: smoke ci threads */
/* The handle table: what is live, and that nothing else ever passes for it. */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include "support/support.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/handle.h"

static int things[8];

/* Must run first: the table takes memory with its first handle. */
static void out_of_memory(void **state)
{
    (void)state;
    ag_alloc_fail_at(1);
    assert_null(ag_handle_create(AG_HANDLE_STREAM, &things[0]));
    assert_true(ag_alloc_has_failed());
    assert_int_equal(ag_handle_count(AG_HANDLE_STREAM), 0);
    assert_null(ag_handle_get(AG_HANDLE_STREAM, (void *)UINT64_C(0xa610000000000000)));
}

static void live_handle_gives_its_object(void **state)
{
    (void)state;
    void *a = ag_handle_create(AG_HANDLE_STREAM, &things[0]);
    void *b = ag_handle_create(AG_HANDLE_STREAM, &things[1]);
    assert_non_null(a);
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(ag_handle_get(AG_HANDLE_STREAM, a), &things[0]);
    assert_ptr_equal(ag_handle_get(AG_HANDLE_STREAM, b), &things[1]);
    assert_string_equal(ag_handle_describe(a), "a live stream");
    assert_ptr_equal(ag_handle_remove(AG_HANDLE_STREAM, a), &things[0]);
    assert_ptr_equal(ag_handle_remove(AG_HANDLE_STREAM, b), &things[1]);
}

static void stale_handle_gives_nothing(void **state)
{
    (void)state;
    void *old = ag_handle_create(AG_HANDLE_EVENT, &things[0]);
    assert_ptr_equal(ag_handle_remove(AG_HANDLE_EVENT, old), &things[0]);
    assert_null(ag_handle_get(AG_HANDLE_EVENT, old));
    assert_null(ag_handle_remove(AG_HANDLE_EVENT, old));
    assert_string_equal(ag_handle_describe(old), "a destroyed event");
    void *reused = ag_handle_create(AG_HANDLE_EVENT, &things[1]); /* the same slot, another generation */
    assert_ptr_not_equal(old, reused);
    assert_null(ag_handle_get(AG_HANDLE_EVENT, old));
    assert_ptr_equal(ag_handle_remove(AG_HANDLE_EVENT, reused), &things[1]);
}

static void every_kind_is_told_from_every_other(void **state)
{
    (void)state;
    for (int kind = AG_HANDLE_NONE + 1; kind < AG_HANDLE_KINDS; ++kind) {
        void *handle = ag_handle_create((enum ag_handle_kind)kind, &things[0]);
        for (int other = AG_HANDLE_NONE; other < AG_HANDLE_KINDS; ++other) {
            void *got = ag_handle_get((enum ag_handle_kind)other, handle);
            assert_ptr_equal(got, other == kind ? (void *)&things[0] : NULL);
        }
        assert_non_null(strstr(ag_handle_describe(handle), ag_handle_kind_name((enum ag_handle_kind)kind)));
        assert_int_equal(ag_handle_count((enum ag_handle_kind)kind), 1);
        ag_handle_remove((enum ag_handle_kind)kind, handle);
        assert_int_equal(ag_handle_count((enum ag_handle_kind)kind), 0);
        assert_non_null(strstr(ag_handle_describe(handle), ag_handle_kind_name((enum ag_handle_kind)kind)));
    }
}

static void stray_pointers_are_no_handles(void **state)
{
    (void)state;
    struct test_random random = test_random_seed(1);
    void *handle = ag_handle_create(AG_HANDLE_TENSOR, &things[0]);
    void *on_heap = test_malloc(64);
    const void *const strays[] = {NULL, &handle, on_heap, "text", (void *)1, (void *)UINTPTR_MAX, (char *)handle + 1};
    for (size_t i = 0; i < sizeof strays / sizeof *strays; ++i) {
        assert_null(ag_handle_get(AG_HANDLE_TENSOR, strays[i]));
        assert_null(ag_handle_remove(AG_HANDLE_TENSOR, strays[i]));
    }
    assert_string_equal(ag_handle_describe(NULL), "null");
    assert_string_equal(ag_handle_describe(&handle), "a pointer that is no handle of this library");
    for (int i = 0; i < 100000; ++i) {
        /* the true handle with some bits flipped, and numbers out of nowhere */
        const uint64_t bits = test_random_bits(&random);
        const uintptr_t near = (uintptr_t)handle ^ (UINT64_C(1) << (bits & 63)) ^ (UINT64_C(1) << (bits >> 58));
        assert_true(near == (uintptr_t)handle || !ag_handle_get(AG_HANDLE_TENSOR, (void *)near));
        assert_null(ag_handle_get(AG_HANDLE_TENSOR, (void *)(uintptr_t)test_random_bits(&random)));
        ag_handle_describe((void *)near);
    }
    test_free(on_heap);
    assert_ptr_equal(ag_handle_remove(AG_HANDLE_TENSOR, handle), &things[0]);
}

static void many_live_and_flat(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    static void *handles[MANY];
    static int objects[MANY];
    for (int round = 0; round < 3; ++round) {
        const int64_t blocks = ag_alloc_live();
        for (int i = 0; i < MANY; ++i) {
            handles[i] = ag_handle_create(AG_HANDLE_SCALAR, &objects[i]);
        }
        for (int i = 0; i < MANY; ++i) {
            assert_ptr_equal(ag_handle_get(AG_HANDLE_SCALAR, handles[i]), &objects[i]);
        }
        assert_int_equal(ag_handle_count(AG_HANDLE_SCALAR), MANY);
        for (int i = MANY - 1; i >= 0; --i) {
            assert_ptr_equal(ag_handle_remove(AG_HANDLE_SCALAR, handles[i]), &objects[i]);
        }
        assert_true(round == 0 || ag_alloc_live() == blocks); /* the table keeps its size */
    }
}

static void count_visited(void *handle, void *object, void *context)
{
    int *count = context;
    assert_ptr_equal(object, ag_handle_get(AG_HANDLE_CONTEXT, handle));
    ++*count;
}

static void each_visits_the_live_of_one_kind(void **state)
{
    (void)state;
    int count = 0;
    void *a = ag_handle_create(AG_HANDLE_CONTEXT, &things[0]);
    void *b = ag_handle_create(AG_HANDLE_CONTEXT, &things[1]);
    void *c = ag_handle_create(AG_HANDLE_STREAM, &things[2]);
    ag_handle_remove(AG_HANDLE_CONTEXT, a);
    ag_handle_each(AG_HANDLE_CONTEXT, count_visited, &count);
    assert_int_equal(count, 1);
    ag_handle_remove(AG_HANDLE_CONTEXT, b);
    ag_handle_remove(AG_HANDLE_STREAM, c);
}

/* --- threads -------------------------------------------------------------------------------------------- */

enum { RACES = 2000 };
static void *raced[RACES];
static pthread_barrier_t start;

static void *remove_all(void *unused)
{
    intptr_t won = 0;
    (void)unused;
    pthread_barrier_wait(&start);
    for (int i = 0; i < RACES; ++i) {
        won += ag_handle_remove(AG_HANDLE_SCALAR, raced[i]) != NULL;
    }
    return (void *)won;
}

static void one_of_two_removers_wins(void **state)
{
    (void)state;
    pthread_t threads[2];
    intptr_t won = 0;
    pthread_barrier_init(&start, NULL, 2);
    for (int i = 0; i < RACES; ++i) {
        raced[i] = ag_handle_create(AG_HANDLE_SCALAR, &things[0]);
    }
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, remove_all, NULL), 0);
    }
    for (int i = 0; i < 2; ++i) {
        void *result;
        pthread_join(threads[i], &result);
        won += (intptr_t)result;
    }
    pthread_barrier_destroy(&start);
    assert_int_equal(won, RACES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(live_handle_gives_its_object),
        cmocka_unit_test(stale_handle_gives_nothing),
        cmocka_unit_test(every_kind_is_told_from_every_other),
        cmocka_unit_test(stray_pointers_are_no_handles),
        cmocka_unit_test(many_live_and_flat),
        cmocka_unit_test(each_visits_the_live_of_one_kind),
        cmocka_unit_test(one_of_two_removers_wins),
    };
    return cmocka_run_group_tests_name("handle", tests, NULL, NULL);
}
