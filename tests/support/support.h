/* What every test needs: repeatable random numbers, memory that catches stray accesses, tensors that are also
 * aclTensor handles, and one comparison that judges element by element. */
#ifndef AG_TESTS_SUPPORT_H
#define AG_TESTS_SUPPORT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <setjmp.h>

#include <cmocka.h>

#include "aclnn/acl_meta.h"
#include "base/config.h"
#include "base/dtype.h"
#include "base/view.h"

/* --- random numbers ------------------------------------------------------------------------------------ */

struct test_random {
    uint64_t state;
};

struct test_random test_random_seed(uint64_t seed);
uint64_t test_random_bits(struct test_random *random);
int64_t test_random_below(struct test_random *random, int64_t count); /* 0 .. count-1 */
int64_t test_random_between(struct test_random *random, int64_t lowest, int64_t highest);
double test_random_uniform(struct test_random *random); /* [-1, 1) */
double test_random_normal(struct test_random *random);  /* mean 0, variance 1 */

/* indices[0..count): a random permutation of 0..count-1 */
void test_random_permutation(struct test_random *random, int64_t count, int32_t *indices);

/* --- memory -------------------------------------------------------------------------------------------- */

/* A block between two pages that cannot be touched. The block ends at the upper one (up to its alignment), so that
 * reading or writing one element too far is a crash; the bytes below it are canaries. */
struct test_buffer {
    void *data;
    size_t bytes;
    void *pages; /* what was mapped */
    size_t page_bytes;
};

struct test_buffer test_buffer_create(size_t bytes, size_t align);
void test_buffer_check(const struct test_buffer *buffer); /* fails when a canary has changed */
void test_buffer_destroy(struct test_buffer *buffer);     /* checks, then unmaps */

/* --- tensors ------------------------------------------------------------------------------------------- */

struct test_tensor {
    struct ag_view view;       /* dims, strides, offset, dtype; data is the buffer's */
    struct test_buffer buffer; /* exactly as large as the view's last element needs */
    aclTensor *handle;
};

/* A dense tensor, elements 0. dims is [rank]. */
struct test_tensor test_tensor_create(int dtype, int rank, const int64_t *dims);

/* Any strides >= 0 and offset, in elements; the bytes between elements are 0xA5 (see test_tensor_check_gaps). */
struct test_tensor test_tensor_create_strided(int dtype, int rank, const int64_t *dims, const int64_t *strides,
                                              int64_t offset);

/* Checks the canaries and frees memory and handle. A tensor that is all zero bytes is fine. */
void test_tensor_destroy(struct test_tensor *tensor);

int64_t test_tensor_elems(const struct test_tensor *tensor);

/* The address of the element with this row-major number among the logical elements. */
void *test_tensor_at(const struct test_tensor *tensor, int64_t logical);
double test_tensor_get(const struct test_tensor *tensor, int64_t logical);
void test_tensor_set(struct test_tensor *tensor, int64_t logical, double value); /* rounds once, nearest even */

void test_tensor_fill_normal(struct test_tensor *tensor, struct test_random *random, double deviation);
void test_tensor_fill_value(struct test_tensor *tensor, double value);
void test_tensor_fill_bytes(struct test_tensor *tensor, int byte); /* every logical element's bytes; 0xff is NaN */
void test_tensor_copy_values(struct test_tensor *to, const struct test_tensor *from); /* same dims */

/* Logical elements in row-major order, as doubles; the caller frees with free(). */
double *test_tensor_to_doubles(const struct test_tensor *tensor);

/* The raw bytes of the logical elements in row-major order; the caller frees with free(). */
void *test_tensor_to_bytes(const struct test_tensor *tensor, size_t *bytes);

/* Fails unless a and b have the same logical bytes; tells the first difference with its coordinates. */
void test_assert_same_bits(const char *what, const struct test_tensor *a, const struct test_tensor *b);

/* Fails when a byte between the elements of a strided tensor is no longer 0xA5. */
void test_tensor_check_gaps(const struct test_tensor *tensor);

/* --- comparison ---------------------------------------------------------------------------------------- */

/* Every element of `got` must lie within bound[i] of want[i] (NaN equals NaN, infinities by sign). Fails with the
 * worst element's coordinates and `repro`; else returns the worst error as a fraction of its bound. */
double test_compare(const char *what, const struct test_tensor *got, const double *want, const double *bound,
                    const char *repro);

/* The thread's last error message contains each of the (NULL-terminated) texts; clears the message. */
void test_assert_message(const char *text, ...) __attribute__((sentinel));

/* What is written to stderr between the two: text, cut to bytes - 1. */
struct test_stderr {
    FILE *file;
    int descriptor; /* of the true stderr */
};
struct test_stderr test_stderr_begin(void);
void test_stderr_end(struct test_stderr kept, char *text, size_t bytes);

/* _exit for children of fork() that must not run the parent's exit handlers; the coverage counters are kept. */
_Noreturn void test_exit_child(int code);

/* --- configuration ------------------------------------------------------------------------------------- */

/* Sets what the environment would: for the tests that run every table and several thread counts. */
void test_configure(int threads, enum ag_isa isa, enum ag_limits limits);

/* for (enum ag_isa isa = ...): the tables that this CPU can run. */
#define TEST_EACH_ISA(isa)                                                                                           \
    for (enum ag_isa isa = AG_ISA_SCALAR; isa < AG_ISA_COUNT; isa = (enum ag_isa)(isa + 1))                          \
        if (ag_cpu_has_isa(isa))

#endif
