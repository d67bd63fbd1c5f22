/* Tensors on the device for the length of one call, and the two phases with a clock around them. */
#ifndef TRAIN_TEXT_DEVICE_H
#define TRAIN_TEXT_DEVICE_H

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "train_operators.h"

/* Ends the program with the library's message when a call failed. */
void device_check(int status, const char *call);
#define CHECK(call) device_check((call), #call)

/* A contiguous tensor in memory that the next device_release() takes back. Dims behind `rank` are ignored. */
enum { MOST_RANK = 4 };
struct dims {
    int rank;
    int64_t size[MOST_RANK];
};
aclTensor *device_input(real *values, struct dims dims); /* as bf16; values are rounded to it */
aclTensor *device_input_float(real *values, struct dims dims);
aclTensor *device_raw(aclDataType type, const void *values, struct dims dims); /* values NULL: an output */
aclTensor *device_mask(void); /* the [2048, 2048] mask of compressed sparse modes: ones above the diagonal */

/* An output, and where its values go when the call is done: of a bf16 tensor to reals (added, or put), else as they are. */
enum arrival { ARRIVAL_PUT, ARRIVAL_ADD };
aclTensor *device_output(real *values, struct dims dims, enum arrival arrival);
aclTensor *device_output_float(real *values, struct dims dims, enum arrival arrival);
aclTensor *device_output_raw(aclDataType type, void *values, struct dims dims);
aclIntArray *device_list(const int64_t *items, int64_t count);

/* Phase 2 with a workspace of `bytes`; then outputs arrive, tensors and lists are destroyed, memory is free again.
 * `began` is device_clock() before phase 1. */
typedef aclnnStatus phase2(void *workspace, uint64_t bytes, aclOpExecutor *executor, aclrtStream stream);
void device_run(enum operator_kind kind, phase2 *run, uint64_t bytes, aclOpExecutor *executor, double began);
double device_clock(void); /* seconds */

#endif
