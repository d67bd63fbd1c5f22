/* A valid attention call, and tables of ways to spoil it: one row per rule, with the status and what the message must
 * hold. For the tests of arguments, of the gradient and of the forward. */
#ifndef AG_TESTS_SUPPORT_ATTENTION_FIXTURE_H
#define AG_TESTS_SUPPORT_ATTENTION_FIXTURE_H

#include "support/attention_problem.h"

enum { T1 = 8, T2 = 9, N1 = 4, N2 = 2, D = 16, DR = 8, DV = 8, MOST_EXTRAS = 32 };

/* A valid call, and the objects that a row replaces parts of it by. */
struct fixture {
    struct attention_call call;
    struct attention_args *a;
    const aclTensor *tensors[MOST_EXTRAS];
    const aclIntArray *arrays[MOST_EXTRAS];
    int tensor_count, array_count;
    char data[1 << 16];
};

/* Two sequences of BF16 with rope and a mask whose bytes count, sparse mode 0. */
void fixture_open(struct fixture *f);
void fixture_close(struct fixture *f);

/* Tensors and lists that live as long as the fixture. */
const aclTensor *fixture_tensor(struct fixture *f, int dtype, int rank, const int64_t *dims);
const aclTensor *fixture_tensor_past_storage(struct fixture *f, const int64_t *dims, const int64_t *strides);
const aclTensor *fixture_tensor_of_format(struct fixture *f, aclFormat format, const int64_t *dims);
const aclIntArray *fixture_list(struct fixture *f, uint64_t count, const int64_t *values);

#define TENSOR(dtype, rank, ...) fixture_tensor(f, dtype, rank, (const int64_t[]){__VA_ARGS__})
#define BF16(...)                TENSOR(AG_BF16, 3, __VA_ARGS__)
#define SCALAR(dtype)            TENSOR(dtype, 0, 0)
#define LIST(count, ...)         fixture_list(f, count, (const int64_t[]){__VA_ARGS__})

/* What a row needs of the call: one that drops the ropes, or one of them, cannot stand
 * together with one that needs them. */
enum need { FREE, NEEDS_ROPE, DROPS_ROPE, LONE_ROPE };

struct row {
    aclnnStatus status;
    enum need need;
    const char *texts[3];
};

enum { IS_NULL = 161001, IS_BAD = 161002 };

/* Applies row `number` to the fixture (NULL: only describes it). The rows are numbered by their place. */
#define ROW(change, status_, need_, ...)                                                                             \
    if (at++ == number) {                                                                                            \
        *row = (struct row){status_, need_, {__VA_ARGS__}};                                                          \
        if (f) {                                                                                                     \
            struct attention_args *a = f->a;                                                                         \
            (void)a;                                                                                                 \
            change;                                                                                                  \
        }                                                                                                            \
        return true;                                                                                                 \
    }

/* Rows in groups: fills *row with row `number` of the group and applies it to f (NULL: only describes it); false behind the
 * last. */
typedef bool fixture_group(struct fixture *f, int number, struct row *row);

/* Phase 1 refuses the call as the row says, names `function`, and leaves nothing behind. */
void fixture_expect_refusal(struct fixture *f, aclnnStatus (*phase1)(struct attention_call *call),
                            const char *function, int id, const struct row *row);

/* Sets in *a. */
void fixture_set_tokens(struct attention_args *a, int64_t pre, int64_t next);

#endif
