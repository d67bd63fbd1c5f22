/* acl: the run time. Start and end, device, contexts, streams, events, memory, options, callbacks.
 *
 * The device is the host. One device (id 0), one address space, and streams that run a task inside the call that
 * submits it; with ACLGRAD_ASYNC=1 every stream has a worker thread and submitting returns at once. Neither
 * aclInit nor a context is needed to run an operator: in a thread without context a null stream means "at once, in
 * this thread" (with ACLGRAD_DEBUG=1 every call that uses the device or a stream then gives 107002, as on the
 * device).
 *
 * Streams, events and contexts are handles of a checked table. What is null where a handle is needed gives 100000,
 * what is no live handle of the right kind gives 107017: also a destroyed one, a handle of another kind, or the
 * address of a variable that holds the handle. Nothing is touched then. A child process of fork() may go on using
 * everything: what was queued in workers at that moment is done by the parent alone.
 *
 * A function that waits for a stream gives 107000 when it is called by a task of that stream.
 *
 * All functions are thread-safe. The current context and the text of aclGetRecentErrMsg belong to the thread. */
#ifndef ACL_RT_H
#define ACL_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "acl/acl_rt_allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- constants ----------------------------------------------------------------------------------------- */

typedef enum { ACL_DEVICE = 0, ACL_HOST = 1 } aclrtRunMode;

typedef enum {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
    ACL_MEMCPY_DEFAULT = 4,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7
} aclrtMemcpyKind;

typedef enum {
    ACL_MEM_MALLOC_HUGE_FIRST = 0,
    ACL_MEM_MALLOC_HUGE_ONLY = 1,
    ACL_MEM_MALLOC_NORMAL_ONLY = 2,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
    ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
    ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x100,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000,
    ACL_MEM_ACCESS_USER_SPACE_READONLY = 0x100000
} aclrtMemMallocPolicy;

typedef enum {
    ACL_DDR_MEM = 0,
    ACL_HBM_MEM = 1,
    ACL_DDR_MEM_HUGE = 2,
    ACL_DDR_MEM_NORMAL = 3,
    ACL_HBM_MEM_HUGE = 4,
    ACL_HBM_MEM_NORMAL = 5,
    ACL_DDR_MEM_P2P_HUGE = 6,
    ACL_DDR_MEM_P2P_NORMAL = 7,
    ACL_HBM_MEM_P2P_HUGE = 8,
    ACL_HBM_MEM_P2P_NORMAL = 9,
    ACL_HBM_MEM_HUGE1G = 10,
    ACL_HBM_MEM_P2P_HUGE1G = 11,
    ACL_MEM_NORMAL = 12,
    ACL_MEM_HUGE = 13,
    ACL_MEM_HUGE1G = 14,
    ACL_MEM_P2P_NORMAL = 15,
    ACL_MEM_P2P_HUGE = 16,
    ACL_MEM_P2P_HUGE1G = 17
} aclrtMemAttr;

typedef enum { ACL_HOST_REGISTER_MAPPED = 0 } aclrtHostRegisterType;

typedef struct aclrtMallocConfig aclrtMallocConfig;

typedef enum {
    ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
    ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
    ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
    ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
    ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
    ACL_DEV_ATTR_IS_VIRTUAL = 501,
    ACL_DEV_ATTR_NPU_ARCH = 601
} aclrtDevAttr;

typedef enum {
    ACL_OPT_DETERMINISTIC = 0, /* 0 off, 1 deterministic, 2 strong consistency, 3 batch consistency */
    ACL_OPT_ENABLE_DEBUG_KERNEL = 1,
    ACL_OPT_STRONG_CONSISTENCY = 2
} aclSysParamOpt;

typedef enum {
    ACL_EVENT_STATUS_COMPLETE = 0,
    ACL_EVENT_STATUS_NOT_READY = 1,
    ACL_EVENT_STATUS_RESERVED = 2
} aclrtEventStatus;

/* The other way round than aclrtEventStatus. */
typedef enum {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;

typedef enum {
    ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
    ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
    ACL_EVENT_WAIT_STATUS_RESERVED = 0xFFFF
} aclrtEventWaitStatus;

typedef enum {
    ACL_STREAM_STATUS_COMPLETE = 0,
    ACL_STREAM_STATUS_NOT_READY = 1,
    ACL_STREAM_STATUS_RESERVED = 0xFFFF
} aclrtStreamStatus;

typedef enum { ACL_CALLBACK_NO_BLOCK = 0, ACL_CALLBACK_BLOCK = 1 } aclrtCallbackBlockType;

typedef enum {
    ACL_RT_OVERFLOW_MODE_SATURATION = 0,
    ACL_RT_OVERFLOW_MODE_INFNAN = 1,
    ACL_RT_OVERFLOW_MODE_UNDEF = 2
} aclrtFloatOverflowMode;

typedef enum { ACL_RT_THREAD_LEVEL = 0 } aclrtLastErrLevel;

#define ACL_EVENT_SYNC                    0x00000001U
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002U
#define ACL_EVENT_TIME_LINE               0x00000008U
#define ACL_EVENT_DEVICE_USE_ONLY         0x00000010U
#define ACL_EVENT_EXTERNAL                0x00000020U
#define ACL_EVENT_IPC                     0x00000040U

#define ACL_STREAM_FAST_LAUNCH     0x00000001U
#define ACL_STREAM_FAST_SYNC       0x00000002U
#define ACL_STREAM_PERSISTENT      0x00000004U
#define ACL_STREAM_HUGE            0x00000008U
#define ACL_STREAM_CPU_SCHEDULE    0x00000010U
#define ACL_STREAM_DEVICE_USE_ONLY 0x00000020U

#define ACL_CONTINUE_ON_FAILURE 0x00000000U
#define ACL_STOP_ON_FAILURE     0x00000001U

typedef void (*aclrtCallback)(void *userData);
typedef void (*aclrtHostFunc)(void *args);

/* --- start and end ------------------------------------------------------------------------------------- */

/* Counts one user of the library. `configPath`: null, or a file that is tried for reading and otherwise ignored. 0
 * the first time; 100002 every later time, which adds a reference and may be ignored; 100003 the file cannot be
 * read; 100000 an ACLGRAD_* variable of the environment has a bad value. */
ACL_FUNC_VISIBILITY aclError aclInit(const char *configPath);

/* Ends all use, however often aclInit was called; streams that are left are waited for and released, and so are
 * contexts and events. Memory of aclrtMalloc, tensors and executors stay valid. aclInit may follow. Never delays.
 * With ACLGRAD_DEBUG=1 one line on stderr tells what the program has not given back. 0, also when aclInit was
 * never called; 100037 a second time without aclInit in between; 361001 a task had failed and nobody has
 * synchronised since (all is ended all the same). */
ACL_FUNC_VISIBILITY aclError aclFinalize(void);

/* Takes one reference back and, with the last one, finalises. *refCount (may be null) becomes the number left.
 * 0; 100037 there is none left; 361001 as aclFinalize. */
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t *refCount);

/* The text of this thread's last failure, or null; the call clears it. It starts with EZ1001, or EZ9999 for what
 * is not the caller's doing (out of memory, internal), and the function's name. Calls that succeed leave it alone.
 * Valid until the thread's next call into the library. */
ACL_FUNC_VISIBILITY const char *aclGetRecentErrMsg(void);

/* --- device -------------------------------------------------------------------------------------------- */

/* Makes the device's default context (once per process, with its default stream) and binds it to the thread. Counted:
 * as many aclrtResetDevice calls take it back. 0; 107001 deviceId is not 0; 207001 out of memory. */
ACL_FUNC_VISIBILITY aclError aclrtSetDevice(int32_t deviceId);

/* Takes one aclrtSetDevice back; the last one waits for the default context's streams and destroys them with it.
 * 0, also when there is nothing to take back; 107001 deviceId is not 0; 361001 a task on one of the streams had
 * failed. */
ACL_FUNC_VISIBILITY aclError aclrtResetDevice(int32_t deviceId);

/* As that many aclrtResetDevice calls as are needed. */
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceForce(int32_t deviceId);

/* The device of the current context. 0; 100000 null; 107002 the thread has no context. */
ACL_FUNC_VISIBILITY aclError aclrtGetDevice(int32_t *deviceId);

/* 1. 0; 100000 null. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCount(uint32_t *count);

/* Waits for all streams of the current context. 0; 107002 the thread has no context; 361001 a task had failed. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDevice(void);

/* The same for at most `timeout` milliseconds (-1: for ever; 0: look and return; below -1: 107000); 507046 when the
 * time is over. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

/* ACL_HOST: programs copy their data to the device and back, as on a real one. 0; 100000 null. */
ACL_FUNC_VISIBILITY aclError aclrtGetRunMode(aclrtRunMode *runMode);

/* "Ascend910B1", so that programs that look at it take the path of the products that have these operators; the
 * variable ACLGRAD_SOC_NAME, where it is set, says otherwise. Valid until that variable changes. */
ACL_FUNC_VISIBILITY const char *aclrtGetSocName(void);

/* The host's memory, whatever attr says. 0; 100000 a pointer is null or attr is unknown. */
ACL_FUNC_VISIBILITY aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);

/* Not supported on a host: 200006 always. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value);

/* Not supported (deprecated by the vendor): 200006 always. See ACL_MAJOR_VERSION and aclgrad_version. */
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion);

/* --- contexts ------------------------------------------------------------------------------------------ */

/* A context with its own default stream; it becomes the thread's current one. Destroy with aclrtDestroyContext.
 * 0; 100000 context null; 107001 deviceId is not 0; 207001 out of memory. */
ACL_FUNC_VISIBILITY aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);

/* Waits for the context's streams and destroys them with it. Threads that have it current have none afterwards.
 * 0; 100000 null; 107017 not a live context; 107000 the default context; 361001 a task had failed (the
 * context is destroyed all the same). */
ACL_FUNC_VISIBILITY aclError aclrtDestroyContext(aclrtContext context);

/* For this thread. 0; 100000 null; 107017 not a live context. */
ACL_FUNC_VISIBILITY aclError aclrtSetCurrentContext(aclrtContext context);

/* 0; 100000 null; 107002 the thread has no context. */
ACL_FUNC_VISIBILITY aclError aclrtGetCurrentContext(aclrtContext *context);

/* --- streams ------------------------------------------------------------------------------------------- */

/* A stream of the current context; without one, of the device's default context, which is then made. Tasks of one
 * stream run in order. 0; 100000 null; 207001 out of memory. With ACLGRAD_ASYNC=1 the stream's thread starts with
 * its first task, whose submission gives 207008 when there is none to be had. */
ACL_FUNC_VISIBILITY aclError aclrtCreateStream(aclrtStream *stream);

/* The same; any priority is accepted and ignored. 107000 a flag that is none of ACL_STREAM_*. */
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);

/* Waits for queued work, then frees. 0; 100000 null; 107017 not a live stream; 107003 the thread's current context
 * is another one than the stream's; 107000 a context's default stream; 361001 a task had failed (the stream is
 * gone all the same). */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStream(aclrtStream stream);

/* The same, but work that has not begun is dropped. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamForce(aclrtStream stream);

/* Whether all is done that was submitted. 0; 100000 status null; 107017 not a live stream. Null: the current
 * context's default stream, as in all functions below. */
ACL_FUNC_VISIBILITY aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);

/* Drops the work that has not begun, waits for the task that runs. */
ACL_FUNC_VISIBILITY aclError aclrtStreamAbort(aclrtStream stream);

/* Waits until all that was submitted before is done. 0; 107017 not a live stream; 361001 a task failed since the last
 * synchronisation, with its text in aclGetRecentErrMsg (a synchronous stream's task tells its failure at once,
 * to whom submits it). */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStream(aclrtStream stream);

/* The same for at most `timeout` milliseconds (-1: for ever; 0: look and return; below -1: 107000); 507046 when the
 * time is over. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

/* Not supported on a host: 200006 always. A failed task never stops those behind it. */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

/* --- memory -------------------------------------------------------------------------------------------- */

/* Memory whose content reads as zeros until written, 64-byte aligned. As on the device, as many bytes again can be
 * read behind it (they read as zeros as long as nobody writes there), which some programs rely on. 0; 100000
 * devPtr null or size 0; 207001 out of memory. Any policy is accepted. Never waits. Free with aclrtFree. */
ACL_FUNC_VISIBILITY aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/* At once, without waiting for streams: synchronise first. 0; 100000 null; 107000 not the start of live
 * memory of aclrtMalloc or aclrtMallocHost. */
ACL_FUNC_VISIBILITY aclError aclrtFree(void *devPtr);

/* As aclrtMalloc and aclrtFree. */
ACL_FUNC_VISIBILITY aclError aclrtMallocHost(void **hostPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtFreeHost(void *hostPtr);

/* Not supported on a host: 200006 always. */
ACL_FUNC_VISIBILITY aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
ACL_FUNC_VISIBILITY aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
ACL_FUNC_VISIBILITY aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                                                aclrtMallocConfig *cfg);
ACL_FUNC_VISIBILITY aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr);

/* Copies now, without waiting for streams; the ranges may overlap. `kind` has no effect beyond its check.
 * 0, also for count 0; 100000 dst or src null, or kind none of 0..5; 107000 count above destMax, or so large that the
 * copy would leave memory of aclrtMalloc and what lies behind it. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                                         aclrtMemcpyKind kind);

/* The same in order on a stream (null: the current context's default stream). Memory of aclrtMalloc and
 * aclrtMallocHost must live until the stream is synchronised; with any other memory the copy is over when the call
 * returns. Also 107017 not a live stream, for count 0 too; 207001 out of memory (ACLGRAD_ASYNC=1). */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                                              aclrtMemcpyKind kind, aclrtStream stream);

/* Sets `count` bytes to the low 8 bits of value: now, or in order on a stream. 0, also for count 0; 100000 devPtr
 * null; 107000 count above maxCount, or leaving the allocation; Async also 107017 not a live stream, 207001 out of
 * memory. */
ACL_FUNC_VISIBILITY aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);
ACL_FUNC_VISIBILITY aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                                              aclrtStream stream);

/* Not supported: 200006 always. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                           size_t height, aclrtMemcpyKind kind);
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                                size_t width, size_t height, aclrtMemcpyKind kind,
                                                aclrtStream stream);

/* --- events -------------------------------------------------------------------------------------------- */

/* An event remembers one point of one stream: aclrtRecordEvent sets it to all that was submitted to the stream so
 * far, with the time at which that is done. Recording again moves it. Flags: ACL_EVENT_*; without one of TIME_LINE
 * or aclrtCreateEvent there is no time stamp. 0; 100000 event null; 107000 an unknown flag; 207001 out of memory.
 * Destroy with aclrtDestroyEvent. */
ACL_FUNC_VISIBILITY aclError aclrtCreateEvent(aclrtEvent *event);
ACL_FUNC_VISIBILITY aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);

/* Allowed before completion: waits that are queued still see it. 0; 100000 null; 107017 not a live event. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyEvent(aclrtEvent event);

/* 0; 100000 event null; 107017 not a live event or stream; 207001 out of memory. */
ACL_FUNC_VISIBILITY aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

/* Back to never recorded; what was submitted before, and waits for it, is not disturbed. Codes as
 * aclrtRecordEvent. */
ACL_FUNC_VISIBILITY aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);

/* What is submitted to the stream afterwards waits for the event's point as it is now; nothing to wait for where
 * it was never recorded. Codes as aclrtRecordEvent. */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

/* Waits in the calling thread. 0, also for an event that was never recorded; 100000 null; 107017 not a live event. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEvent(aclrtEvent event);

/* The same for at most `timeout` milliseconds (-1: for ever; 0: look and return; below -1: 107000); 507047 when the
 * time is over. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);

/* Whether the point is reached; NOT_READY for an event that was never recorded. 0; 100000 a pointer is null;
 * 107017 not a live event. */
ACL_FUNC_VISIBILITY aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);
ACL_FUNC_VISIBILITY aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);

/* Whether all aclrtStreamWaitEvent on it are over. Codes as above. */
ACL_FUNC_VISIBILITY aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);

/* Milliseconds from one event to another. 0; 100000 a pointer is null; 107017 not live events; 107006 one was made
 * without time stamp, never recorded, not reached yet, or dropped with its stream's work; 107007 endEvent lies
 * before startEvent. */
ACL_FUNC_VISIBILITY aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent);

/* Microseconds of a steady clock. Codes as aclrtEventElapsedTime. */
ACL_FUNC_VISIBILITY aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);

/* --- options ------------------------------------------------------------------------------------------- */

/* Stored and handed out, nothing else: the kernels are always deterministic. Per context (the current one).
 * 0; 100000 opt unknown or value null; 107002 the thread has no context; 107021 (Get) never set. */
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/* The same for the process; 0 when never set. 0; 100000 opt unknown or value null. */
ACL_FUNC_VISIBILITY aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/* --- callbacks ----------------------------------------------------------------------------------------- */

/* Calls fn(args) in order on the stream. fn must not wait for streams.
 * 0; 100000 fn null; 107017 not a live stream; 207001 out of memory, 207008 no thread (ACLGRAD_ASYNC=1). */
ACL_FUNC_VISIBILITY aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);

/* Not supported: 200006 always; use aclrtLaunchHostFunc. */
ACL_FUNC_VISIBILITY aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType,
                                                 aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtProcessReport(int32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
