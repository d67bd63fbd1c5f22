/* aclnn: tensors, scalars, arrays, lists and executors.
 *
 * Objects are handles of a checked table: a null, stale or foreign pointer is answered with a status code, never
 * with a crash. Creation copies every value and descriptor it is given; data memory stays the caller's and is never
 * freed here. Creating and destroying are thread-safe; one object belongs to one thread at a time. */
#ifndef ACLNN_ACL_META_H
#define ACLNN_ACL_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Programs that declare these types themselves do it under the same guard. */
#ifndef ACLNN_META
#    define ACLNN_META
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;
typedef struct aclOpExecutor aclOpExecutor;
typedef int32_t aclnnStatus;
#    ifdef __cplusplus
constexpr aclnnStatus OK = 0;
#    endif
#endif

/* --- tensors ------------------------------------------------------------------------------------------- */

/* Describes a view of a block of memory. Element (i0, i1, ...) of the view lies at
 *
 *     tensorData + (offset + i0 * stride[0] + i1 * stride[1] + ...) * aclDataTypeSize(dataType)
 *
 *     viewDims, viewDimsNum        shape; rank 0 (a scalar) to 8; a dim may be 0, never negative
 *     stride                       elements, one per dim, 0 or positive; null: row-major contiguous
 *     offset                       elements, 0 or positive
 *     storageDims, storageDimsNum  the block of memory: operators refuse a view that leaves it (161002); rank 0:
 *                                  unknown
 *     tensorData                   may be null and set later (aclSetRawTensorAddr, aclSetInputTensorAddr, ...)
 *
 * Returns null, with a text in aclGetRecentErrMsg, when a rank is positive and its dims are null, a rank is above 8,
 * a dim, stride or the offset is negative, the sizes do not fit 64 bits, or memory runs out.
 * The caller destroys the tensor with aclDestroyTensor, as early as phase 2 of its operator has returned. */
ACL_FUNC_VISIBILITY aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                               const int64_t *stride, int64_t offset, aclFormat format,
                                               const int64_t *storageDims, uint64_t storageDimsNum, void *tensorData);

/* Describes the tensor anew, as aclCreateTensor would. On failure the tensor keeps its old description.
 * 0; 161001 tensor null; 161002 not a live tensor, or a description that aclCreateTensor refuses. */
ACL_FUNC_VISIBILITY aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum,
                                              aclDataType dataType, const int64_t *stride, int64_t offset,
                                              aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                                              void *tensorDataAddr);

/* 0 (null included: nothing to do); 161002 what is no live tensor, also one that a tensor list has taken over. */
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyTensor(const aclTensor *tensor);

/* The three below hand out a new array that the caller frees with delete[]. It comes from the process's operator
 * new[] where there is one, else from malloc: so a C program frees it with free (under an address sanitizer, which
 * brings an operator new[], with alloc_dealloc_mismatch=0). Rank 0 gives an array of no elements. 0; 161001 an
 * argument is null; 161002 not a live tensor; 561101 out of memory. */
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum);
ACL_FUNC_VISIBILITY aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims,
                                                   uint64_t *storageDimsNum);
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue,
                                                  uint64_t *stridesNum);

/* 0; 161001 an argument is null; 161002 not a live tensor. */
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset);
ACL_FUNC_VISIBILITY aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format);
ACL_FUNC_VISIBILITY aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType);

/* The address of the memory block, without offset. 0; 161001 an argument is null (addr itself may be null when it is
 * set: memory to come later); 161002 not a live tensor. Executors that exist keep the address they were made with. */
ACL_FUNC_VISIBILITY aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr);
ACL_FUNC_VISIBILITY aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **addr);

/* --- scalars and arrays -------------------------------------------------------------------------------- */

/* Copies aclDataTypeSize(dataType) bytes from value. Null when value is null, the type has no whole bytes, or memory
 * runs out. */
ACL_FUNC_VISIBILITY aclScalar *aclCreateScalar(void *value, aclDataType dataType);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyScalar(const aclScalar *scalar);

/* Copies `size` values; size 0 is legal (value may then be null) and counts as an absent array where operators
 * allow one. Null when value is null with size > 0, or memory runs out. */
ACL_FUNC_VISIBILITY aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size);
ACL_FUNC_VISIBILITY aclFloatArray *aclCreateFloatArray(const float *value, uint64_t size);
ACL_FUNC_VISIBILITY aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t size);

/* All destroy functions: 0 (null included); 161002 what is no live object of that kind. */
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyIntArray(const aclIntArray *array);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyFloatArray(const aclFloatArray *array);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyBoolArray(const aclBoolArray *array);

/* Number of values. 0; 161001 an argument is null; 161002 not a live object of that kind. */
ACL_FUNC_VISIBILITY aclnnStatus aclGetIntArraySize(const aclIntArray *array, uint64_t *size);
ACL_FUNC_VISIBILITY aclnnStatus aclGetFloatArraySize(const aclFloatArray *array, uint64_t *size);
ACL_FUNC_VISIBILITY aclnnStatus aclGetBoolArraySize(const aclBoolArray *array, uint64_t *size);

/* --- lists --------------------------------------------------------------------------------------------- */

/* Copies the handles and takes the objects over: destroying the list destroys them, so do not destroy them again.
 * Null entries are kept. Null when value is null with size > 0, an entry is neither null nor a live object, one
 * object stands twice or is in another list, or memory runs out; then nothing is taken over. */
ACL_FUNC_VISIBILITY aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t size);
ACL_FUNC_VISIBILITY aclScalarList *aclCreateScalarList(const aclScalar *const *value, uint64_t size);

ACL_FUNC_VISIBILITY aclnnStatus aclDestroyTensorList(const aclTensorList *array);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyScalarList(const aclScalarList *array);

ACL_FUNC_VISIBILITY aclnnStatus aclGetTensorListSize(const aclTensorList *tensorList, uint64_t *size);
ACL_FUNC_VISIBILITY aclnnStatus aclGetScalarListSize(const aclScalarList *scalarList, uint64_t *size);

/* --- executors ----------------------------------------------------------------------------------------- */

/* Phase 1 of an operator (aclnnXGetWorkspaceSize) checks everything, copies descriptors and attributes, and makes an
 * executor; phase 2 (aclnnX) runs it and consumes it, whatever phase 2 returns. One executor belongs to one thread
 * at a time. */

/* Lets phase 2 run any number of times without consuming; call right after phase 1, and aclDestroyAclOpExecutor at
 * the end. 0; 561103 executor null; 161002 not a live executor. */
ACL_FUNC_VISIBILITY aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor);

/* For repeatable executors, and for those that never reach phase 2. A queued task keeps what it needs.
 * 0; 561103 executor null; 161002 not a live executor. */
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor);

/* Moves one tensor of an executor to other memory (`addr`, without the offset) for the next phase 2. `index`
 * counts the operator's tensor parameters in the order of its phase 1: inputs, or outputs, or (aclSetTensorAddr)
 * inputs and then outputs. `tensor` is the tensor of phase 1, or any other live or destroyed one: it is not looked
 * at beyond null. 0; 561103 executor, tensor or addr null; 161002 not a live executor, index out of range, or a
 * tensor that was null in phase 1. */
ACL_FUNC_VISIBILITY aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                                      void *addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                                       void *addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                                 void *addr);

/* The same for parameters that are tensor lists. The operators of this library have none, so:
 * 561103 executor, tensors or addr null; else 161002. */
ACL_FUNC_VISIBILITY aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                                             const size_t relativeIndex, aclTensorList *tensors,
                                                             void *addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                                              const size_t relativeIndex, aclTensorList *tensors,
                                                              void *addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                                        const size_t relativeIndex, aclTensorList *tensors,
                                                        void *addr);

/* Other names of the six functions above. */
ACL_FUNC_VISIBILITY aclnnStatus AclSetInputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                                      void *addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                                       void *addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                                 void *addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                                             const size_t relativeIndex, aclTensorList *tensors,
                                                             void *addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                                              const size_t relativeIndex, aclTensorList *tensors,
                                                              void *addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetDynamicTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                                        const size_t relativeIndex, aclTensorList *tensors,
                                                        void *addr);

/* Not supported on a host: 200006 always. */
ACL_FUNC_VISIBILITY aclnnStatus aclDumpOpTensors(const char *opType, const char *opName, aclTensor **tensors,
                                                 size_t inputTensorNum, size_t outputTensorNum, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
