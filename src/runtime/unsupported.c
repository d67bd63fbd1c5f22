/* What a host does not offer: a defined code, never a silent success. */
#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "base/status.h"

static ag_status refuse(const char *function)
{
    ag_error_enter(function);
    return ag_fail(AG_ACL_UNSUPPORTED, "not supported on a host");
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value)
{
    (void)deviceId, (void)attr, (void)value;
    return refuse(__func__);
}

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion)
{
    (void)majorVersion, (void)minorVersion, (void)patchVersion;
    return refuse(__func__);
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode)
{
    (void)stream, (void)mode;
    return refuse(__func__);
}

aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)devPtr, (void)size, (void)policy;
    return refuse(__func__);
}

aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)devPtr, (void)size, (void)policy;
    return refuse(__func__);
}

aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg)
{
    (void)devPtr, (void)size, (void)policy, (void)cfg;
    return refuse(__func__);
}

aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr)
{
    (void)ptr, (void)size, (void)type, (void)devPtr;
    return refuse(__func__);
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind)
{
    (void)dst, (void)dpitch, (void)src, (void)spitch, (void)width, (void)height, (void)kind;
    return refuse(__func__);
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream)
{
    (void)dst, (void)dpitch, (void)src, (void)spitch, (void)width, (void)height, (void)kind, (void)stream;
    return refuse(__func__);
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream)
{
    (void)fn, (void)userData, (void)blockType, (void)stream;
    return refuse(__func__);
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    (void)threadId, (void)stream;
    return refuse(__func__);
}

aclError aclrtProcessReport(int32_t timeout)
{
    (void)timeout;
    return refuse(__func__);
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    (void)threadId, (void)stream;
    return refuse(__func__);
}

aclnnStatus aclDumpOpTensors(const char *opType, const char *opName, aclTensor **tensors, size_t inputTensorNum,
                             size_t outputTensorNum, aclrtStream stream)
{
    (void)opType, (void)opName, (void)tensors, (void)inputTensorNum, (void)outputTensorNum, (void)stream;
    return refuse(__func__);
}
