/* labels: smoke ci */
/* Memory of aclrtMalloc, copies and fills. */
#define _DEFAULT_SOURCE
#include "support/refused.h"

#include <pthread.h>
#include <string.h>

#include "acl/acl.h"
#include "base/memory.h"
#include "runtime/device_memory.h"

static const size_t sizes[] = {
    1,      31,     32,      33,      63,      64,      65,      4095,    4096,           100000,
    262144, 262145, 1 << 20, 1048577, 2097151, 2097152, 2097153, 5000000, (size_t)1 << 24};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void *allocate(size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    assert_non_null(memory);
    return memory;
}

static bool is_zero(const char *bytes, size_t count)
{
    return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

/* Must run first: the table of allocations takes memory with its first entry. */
static void no_memory_for_the_account(void **state)
{
    (void)state;
    void *memory = &memory;
    uint64_t bytes;
    const int64_t blocks = ag_alloc_live();
    for (int large = 0; large < 2; ++large) {
        ag_alloc_fail_at(2);
        REFUSED(207001, aclrtMalloc(&memory, large ? 3000000 : 4, ACL_MEM_MALLOC_HUGE_FIRST),
                "size: no memory to keep account of");
        assert_true(ag_alloc_has_failed());
    }
    assert_ptr_equal(memory, &memory);
    assert_int_equal(ag_alloc_live(), blocks);
    assert_int_equal(ag_memory_live(&bytes), 0);
}

/* --- allocation ----------------------------------------------------------------------------------------- */

/* As much again as was asked for lies behind, readable and zero, also when the memory was full before. */
static void slack_reads_as_zeros(void **state)
{
    (void)state;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < SIZES; ++i) {
            char *memory = allocate(sizes[i]);
            assert_int_equal((uintptr_t)memory % 64, 0);
            assert_true(is_zero(memory, 2 * sizes[i]));
            memset(memory, 0xff, sizes[i]);
            assert_true(is_zero(memory + sizes[i], sizes[i]));
            assert_int_equal(aclrtFree(memory), 0);
        }
    }
}

static void slack_is_nobody_elses(void **state)
{
    (void)state;
    char *memory[SIZES];
    for (int i = 0; i < SIZES; ++i) {
        memory[i] = allocate(sizes[i]);
        memset(memory[i], i + 1, sizes[i]);
    }
    for (int i = 0; i < SIZES; ++i) {
        assert_true(is_zero(memory[i] + sizes[i], sizes[i]));
        for (size_t k = 0; k < sizes[i]; k += 61) {
            assert_int_equal(memory[i][k], i + 1);
        }
    }
    for (int i = 0; i < SIZES; ++i) {
        assert_int_equal(aclrtFree(memory[i]), 0);
    }
}

/* Address space is plentiful: only touched pages cost memory. */
static void large_and_untouched_is_cheap(void **state)
{
    (void)state;
    void *memory[8];
    for (int i = 0; i < 8; ++i) {
        memory[i] = allocate((size_t)1 << 30);
    }
    for (int i = 0; i < 8; ++i) {
        ((char *)memory[i])[0] = 1;
        assert_int_equal(((char *)memory[i])[((size_t)1 << 31) - 1], 0);
        assert_int_equal(aclrtFree(memory[i]), 0);
    }
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    void *memory = &memory;
    REFUSED(100000, aclrtMalloc(NULL, 4, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc", "devPtr: null");
    REFUSED(100000, aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST), "size: got 0, want 1 or more");
    REFUSED(207001, aclrtMalloc(&memory, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST), "size: no memory for");
    REFUSED(207001, aclrtMalloc(&memory, PTRDIFF_MAX / 8, ACL_MEM_MALLOC_HUGE_FIRST), "size: no memory for");
    REFUSED(100000, aclrtMallocHost(NULL, 4), "aclrtMallocHost", "hostPtr: null");
    REFUSED(100000, aclrtMallocHost(&memory, 0), "size: got 0");
    ag_alloc_fail_at(1);
    REFUSED(207001, aclrtMalloc(&memory, 4, ACL_MEM_MALLOC_HUGE_FIRST), "size: no memory for 4 bytes");
    assert_ptr_equal(memory, &memory);
    assert_int_equal(aclrtMalloc(&memory, 4, (aclrtMemMallocPolicy)12345), 0); /* any policy */
    assert_int_equal(aclrtFree(memory), 0);
}

static void only_live_starts_are_freed(void **state)
{
    (void)state;
    int local;
    char *memory = allocate(100);
    REFUSED(100000, aclrtFree(NULL), "aclrtFree", "devPtr: null");
    REFUSED(100000, aclrtFreeHost(NULL), "aclrtFreeHost", "hostPtr: null");
    REFUSED(107000, aclrtFree(&local), "not the start of a live allocation");
    REFUSED(107000, aclrtFree(memory + 1), "not the start of a live allocation");
    assert_int_equal(aclrtFree(memory), 0);
    REFUSED(107000, aclrtFree(memory), "not the start of a live allocation");
}

static void host_memory(void **state)
{
    (void)state;
    void *memory;
    for (int i = 0; i < SIZES; ++i) {
        assert_int_equal(aclrtMallocHost(&memory, sizes[i]), 0);
        assert_int_equal((uintptr_t)memory % 64, 0);
        assert_true(is_zero(memory, 2 * sizes[i]));
        assert_int_equal(aclrtFreeHost(memory), 0);
    }
}

static void account_is_kept(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    static void *memory[MANY];
    struct ag_memory_block block;
    struct test_random random = test_random_seed(3);
    uint64_t bytes;
    static int32_t order[MANY];
    aclrtFree(allocate(1)); /* the table is one block, however often it grows */
    const int64_t blocks = ag_alloc_live();
    for (int i = 0; i < MANY; ++i) {
        memory[i] = allocate(100);
    }
    assert_int_equal(ag_memory_live(&bytes), MANY);
    assert_int_equal(bytes, 100 * MANY);
    test_random_permutation(&random, MANY, order);
    for (int i = 0; i < MANY; ++i) {
        char *start = memory[order[i]];
        assert_true(ag_memory_find(start + 99, &block));
        assert_int_equal(block.begin, (uintptr_t)start);
        assert_int_equal(block.end, (uintptr_t)start + 100);
        assert_int_equal(aclrtFree(start), 0);
        assert_false(ag_memory_find(start, &block));
    }
    assert_int_equal(ag_memory_live(&bytes), 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(ag_alloc_live(), blocks);
}

static void *allocate_and_free(void *seed)
{
    intptr_t errors = 0;
    struct test_random random = test_random_seed((uint64_t)(uintptr_t)seed);
    for (int i = 0; i < 500; ++i) {
        char *memory = NULL;
        const size_t bytes = (size_t)test_random_between(&random, 1, i % 50 ? 5000 : 3000000);
        errors += aclrtMalloc((void **)&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != 0;
        errors += !is_zero(memory, 2 * bytes);
        memset(memory, 1, bytes);
        errors += aclrtFree(memory) != 0;
    }
    return (void *)errors;
}

static void threads_allocate_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; ++i) {
        pthread_create(&threads[i], NULL, allocate_and_free, (void *)i);
    }
    for (int i = 0; i < 4; ++i) {
        void *errors;
        pthread_join(threads[i], &errors);
        assert_null(errors);
    }
}

/* --- copies ---------------------------------------------------------------------------------------------- */

static void copies_of_every_kind(void **state)
{
    (void)state;
    char from[100], to[100];
    char *device = allocate(100);
    for (int kind = ACL_MEMCPY_HOST_TO_HOST; kind <= ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE; ++kind) {
        memset(from, kind + 1, sizeof from);
        memset(to, 0, sizeof to);
        assert_int_equal(aclrtMemcpy(device, 100, from, 100, (aclrtMemcpyKind)kind), 0);
        assert_int_equal(aclrtMemcpyAsync(to, 100, device, 99, (aclrtMemcpyKind)kind, NULL), 0);
        assert_memory_equal(to, from, 99);
        assert_int_equal(to[99], 0);
    }
    memcpy(from, "abcdef", 6);
    assert_int_equal(aclrtMemcpy(from + 2, 4, from, 4, ACL_MEMCPY_DEFAULT), 0); /* ranges may overlap */
    assert_memory_equal(from, "ababcd", 6);
    assert_int_equal(aclrtFree(device), 0);
}

static void bad_copies_are_refused(void **state)
{
    (void)state;
    char from[8] = "source", to[8] = "target";
    aclrtStream stray = (aclrtStream)from;
    const aclrtMemcpyKind kind = ACL_MEMCPY_HOST_TO_DEVICE;
    assert_int_equal(aclrtMemcpy(NULL, 0, NULL, 0, kind), 0); /* nothing to copy */
    assert_int_equal(aclrtMemcpyAsync(NULL, 0, NULL, 0, kind, NULL), 0);
    REFUSED(100000, aclrtMemcpy(NULL, 8, from, 8, kind), "aclrtMemcpy", "dst: null");
    REFUSED(100000, aclrtMemcpy(to, 8, NULL, 8, kind), "src: null");
    REFUSED(100000, aclrtMemcpy(to, 8, from, 8, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE), "kind: got 6, want 0 to 5");
    REFUSED(100000, aclrtMemcpy(to, 8, from, 8, (aclrtMemcpyKind)-1), "kind: got -1");
    REFUSED(107000, aclrtMemcpy(to, 7, from, 8, kind), "count: got 8, destMax is 7");
    REFUSED(100000, aclrtMemcpyAsync(NULL, 8, from, 8, kind, NULL), "aclrtMemcpyAsync", "dst: null");
    REFUSED(107000, aclrtMemcpyAsync(to, 7, from, 8, kind, NULL), "count: got 8, destMax is 7");
    REFUSED(107017, aclrtMemcpyAsync(to, 8, from, 8, kind, stray), "stream: got a pointer that is no handle");
    REFUSED(107017, aclrtMemcpyAsync(to, 8, from, 0, kind, stray), "stream: got a pointer that is no handle");
    REFUSED(107017, aclrtMemsetAsync(to, 8, 1, 0, stray), "aclrtMemsetAsync",
            "stream: got a pointer that is no handle");
    assert_string_equal(to, "target");
}

/* Copying `n * sizeof(float)` bytes out of a buffer of n halves: works, as on the device. Much more: refused. */
static void reading_past_the_end_of_an_allocation(void **state)
{
    (void)state;
    for (int i = 0; i < SIZES; ++i) {
        const size_t bytes = sizes[i];
        struct ag_memory_block block;
        char *device = allocate(bytes), *host = test_malloc(2 * bytes);
        memset(device, 7, bytes);
        memset(host, 1, 2 * bytes);
        assert_int_equal(aclrtMemcpy(host, 2 * bytes, device, 2 * bytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
        assert_memory_equal(host, device, bytes);
        assert_true(is_zero(host + bytes, bytes));
        REFUSED(107000, aclrtMemcpy(host, SIZE_MAX, device, (size_t)1 << 40, ACL_MEMCPY_DEVICE_TO_HOST),
                "src: 1099511627776 bytes from here leave the allocation of");
        REFUSED(107000, aclrtMemcpy(device, SIZE_MAX, host, (size_t)1 << 40, ACL_MEMCPY_HOST_TO_DEVICE),
                "dst: 1099511627776 bytes from here leave the allocation of");
        /* starting in the slack, which is for reading */
        assert_int_equal(aclrtMemcpy(host, bytes, device + bytes, bytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
        assert_true(ag_memory_find(device, &block));
        if (block.readable > block.writable) {
            REFUSED(107000, aclrtMemcpy((char *)block.readable - 1, 1, host, 1, ACL_MEMCPY_HOST_TO_DEVICE),
                    "dst: 1 bytes from here leave the allocation of");
        }
        test_free(host);
        assert_int_equal(aclrtFree(device), 0);
    }
}

static void fills(void **state)
{
    (void)state;
    char bytes[10] = {0};
    aclrtStream stray = (aclrtStream)bytes;
    assert_int_equal(aclrtMemset(bytes, 10, 0x155, 9), 0);
    assert_int_equal(bytes[8], 0x55);
    assert_int_equal(bytes[9], 0);
    assert_int_equal(aclrtMemsetAsync(bytes, 10, 1, 10, NULL), 0);
    assert_int_equal(bytes[9], 1);
    assert_int_equal(aclrtMemset(NULL, 0, 1, 0), 0);
    assert_int_equal(aclrtMemsetAsync(NULL, 0, 1, 0, NULL), 0);
    REFUSED(100000, aclrtMemset(NULL, 8, 1, 8), "aclrtMemset", "devPtr: null");
    REFUSED(107000, aclrtMemset(bytes, 9, 2, 10), "count: got 10, maxCount is 9");
    REFUSED(100000, aclrtMemsetAsync(NULL, 8, 1, 8, NULL), "aclrtMemsetAsync", "devPtr: null");
    REFUSED(107000, aclrtMemsetAsync(bytes, 9, 2, 10, NULL), "count: got 10");
    REFUSED(107017, aclrtMemsetAsync(bytes, 10, 2, 10, stray), "stream: got a pointer that is no handle");
    assert_int_equal(bytes[0], 1);
    char *device = allocate(8);
    REFUSED(107000, aclrtMemset(device, SIZE_MAX, 1, 1 << 20),
            "devPtr: 1048576 bytes from here leave the allocation");
    assert_int_equal(aclrtFree(device), 0);
}

static void ten_thousand_leave_nothing(void **state)
{
    (void)state;
    uint64_t bytes;
    aclrtFree(allocate(8)); /* the table */
    const int64_t blocks = ag_alloc_live();
    for (int i = 0; i < 10000; ++i) {
        assert_int_equal(aclrtFree(allocate((size_t)(i % 10 ? 100 : 300000))), 0);
    }
    assert_int_equal(ag_alloc_live(), blocks);
    assert_int_equal(ag_memory_live(&bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_memory_for_the_account),
        cmocka_unit_test(slack_reads_as_zeros),
        cmocka_unit_test(slack_is_nobody_elses),
        cmocka_unit_test(large_and_untouched_is_cheap),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(only_live_starts_are_freed),
        cmocka_unit_test(host_memory),
        cmocka_unit_test(account_is_kept),
        cmocka_unit_test(threads_allocate_at_once),
        cmocka_unit_test(copies_of_every_kind),
        cmocka_unit_test(bad_copies_are_refused),
        cmocka_unit_test(reading_past_the_end_of_an_allocation),
        cmocka_unit_test(fills),
        cmocka_unit_test(ten_thousand_leave_nothing),
    };
    return cmocka_run_group_tests_name("acl_memory", tests, NULL, NULL);
}
