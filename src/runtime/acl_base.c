/* acl_base.h and aclGetRecentErrMsg. */
#include <stdarg.h>
#include <stdio.h>

#include "acl/acl_rt.h"
#include "base/check.h"
#include "base/dtype.h"
#include "base/half.h"
#include "runtime/object.h"

const char *aclGetRecentErrMsg(void)
{
    return ag_error_take();
}

size_t aclDataTypeSize(aclDataType dataType)
{
    return ag_dtype_bytes((int)dataType);
}

aclFloat16 aclFloatToFloat16(float value)
{
    return ag_f32_to_f16(value);
}

float aclFloat16ToFloat(aclFloat16 value)
{
    return ag_f16_to_f32(value);
}

/* --- data buffers ---------------------------------------------------------------------------------------- */

struct data_buffer {
    void *data;
    size_t size;
};

aclDataBuffer *aclCreateDataBuffer(void *data, size_t size)
{
    struct data_buffer *buffer;
    ag_error_enter(__func__);
    aclDataBuffer *handle = ag_object_create(AG_HANDLE_DATA_BUFFER, sizeof *buffer, (void **)&buffer);
    if (handle) {
        *buffer = (struct data_buffer){data, size};
    }
    return handle;
}

aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer)
{
    ag_error_enter(__func__);
    AG_REQUIRE(dataBuffer, ACL_INVALID_PARAM, "dataBuffer: null");
    const ag_status status = ag_object_destroy(AG_HANDLE_DATA_BUFFER, dataBuffer, "dataBuffer");
    return status == AG_OK ? AG_OK : AG_ACL_INVALID_PARAM;
}

void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer)
{
    struct data_buffer *buffer;
    ag_error_enter(__func__);
    const ag_status status = ag_object_get(AG_HANDLE_DATA_BUFFER, dataBuffer, "dataBuffer", (void **)&buffer);
    return status == AG_OK ? buffer->data : NULL;
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer)
{
    struct data_buffer *buffer;
    ag_error_enter(__func__);
    const ag_status status = ag_object_get(AG_HANDLE_DATA_BUFFER, dataBuffer, "dataBuffer", (void **)&buffer);
    return status == AG_OK ? buffer->size : 0;
}

uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer)
{
    return (uint32_t)aclGetDataBufferSizeV2(dataBuffer);
}

/* --- the application's log ------------------------------------------------------------------------------- */

void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...)
{
    char text[1024];
    va_list arguments;
    if (logLevel < ACL_ERROR || !fmt) {
        return;
    }
    va_start(arguments, fmt);
    vsnprintf(text, sizeof text, fmt, arguments);
    va_end(arguments);
    fprintf(stderr, "[ERROR] %s:%u %s: %s\n", file ? file : "?", (unsigned)line, func ? func : "?", text);
}
