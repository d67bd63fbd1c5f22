/* Calls of an operator made of bytes: tensors in memory of exactly their size, damaged in one of many ways or not, both
 * phases, and what must hold whatever the bytes say. */
#ifndef AG_TESTS_FUZZ_OPERAND_H
#define AG_TESTS_FUZZ_OPERAND_H

#include "aclnn/acl_meta.h"
#include "acl/acl_rt.h"
#include "base/config.h"
#include "base/view.h"
#include "fuzz.h"
#include "support/support.h"

struct fuzz_operand {
    aclTensor *handle;    /* what is passed; not always a live tensor */
    aclTensor *owned;     /* the live tensor, to be destroyed, or NULL */
    aclIntArray *foreign; /* a handle of another kind that is passed in its place */
    struct ag_view view;
    unsigned char *memory; /* the whole storage, no byte more */
    unsigned char *before; /* a copy of it */
    size_t bytes;
    bool is_output;
    bool is_shared; /* its memory is another operand's, or another operand's is its own */
};

enum { FUZZ_MOST_OPERANDS = 24 };
struct fuzz_call {
    struct fuzz_input *input;
    struct test_random random;
    struct fuzz_operand operands[FUZZ_MOST_OPERANDS];
    int count;
    bool is_damaged; /* operands may be wrong */
    bool is_wild;    /* values are too large for error bounds, or no numbers */
    uint64_t workspace_bytes;
    aclOpExecutor *executor;
};

/* Takes damage or none, seed, kernel table, threads and limits. */
void fuzz_call_begin(struct fuzz_call *call, struct fuzz_input *input);
void fuzz_call_end(struct fuzz_call *call);

/* Whether a scalar argument is to be spoilt. */
bool fuzz_call_spoils(struct fuzz_call *call);

/* A number: `good`, or where the call spoils one from the edges of its type. */
int64_t fuzz_call_number(struct fuzz_call *call, int64_t good);

/* Fp32, bf16 or fp16. */
int fuzz_take_float_type(struct fuzz_input *input);

/* A window of the mixture-of-experts operators: [begin, end) within the slots, either as its distance from the end, or anything
 * where the call spoils it; *range stays NULL where there is none. Returns the window's rows. */
int64_t fuzz_call_take_window(struct fuzz_call *call, int64_t slots, aclIntArray **range);

/* An operand of these dims. Inputs of float types hold numbers, all others zeros, outputs 0xA5. `is_dense`: an
 * undamaged one is contiguous. The handle is never needed: NULL where the library refuses to make it. */
struct fuzz_operand *fuzz_call_add(struct fuzz_call *call, bool is_output, bool is_dense, int dtype, int rank,
                                   const int64_t *dims);

/* Fills an int32 operand: numbers of [lowest, highest], here and there one far away (`is_wild`). */
void fuzz_fill_indices(struct fuzz_call *call, struct fuzz_operand *operand, int64_t lowest, int64_t highest,
                       bool is_wild);

/* Element `at`, counted row-major; nothing where the operand has no such element. */
void fuzz_set_index(struct fuzz_operand *operand, int64_t at, int32_t value);

/* Every operand is small enough to be run, defined and compared. */
bool fuzz_call_is_small(const struct fuzz_call *call);

/* --- phases ---------------------------------------------------------------------------------------------------- */

/* Before phase 1, which writes to call->workspace_bytes and call->executor. */
void fuzz_before_phase1(struct fuzz_call *call);

/* A refusal has a message and writes nothing. Returns whether phase 1 has succeeded. */
bool fuzz_after_phase1(struct fuzz_call *call, aclnnStatus status);

/* Phase 2, called rightly, or wrongly, or never; the executor is gone afterwards. Returns whether the outputs are there. A
 * failure has a message and writes nothing; a success writes outputs alone. */
typedef aclnnStatus fuzz_phase2(void *workspace, uint64_t workspace_bytes, aclOpExecutor *executor,
                                aclrtStream stream);
bool fuzz_phase2_run(struct fuzz_call *call, fuzz_phase2 *phase2);

/* Every element within bound[i] of want[i]. Nothing where the operand is absent. */
void fuzz_compare(const struct fuzz_call *call, const char *name, const struct fuzz_operand *operand,
                  const double *want, const double *bound);

/* Elements of an operand that can be held against a definition: none where it is absent, where values have no bounds, and
 * where two elements lie at one place. */
int64_t fuzz_comparable(const struct fuzz_call *call, const struct fuzz_operand *operand);

/* count doubles (at least 1); the caller frees. */
double *fuzz_doubles(int64_t count);

#endif
