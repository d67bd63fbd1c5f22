/* Start and end, and the one device. */
#define _DEFAULT_SOURCE /* sysconf(_SC_PHYS_PAGES) */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"
#include "base/check.h"
#include "base/config.h"
#include "base/lock.h"
#include "runtime/context.h"
#include "runtime/device_memory.h"
#include "runtime/event.h"
#include "runtime/handle.h"

/* Guarded by AG_LOCK_RUNTIME. */
static uint64_t users;        /* aclInit calls that count */
static bool was_initialised;  /* ever */
static uint64_t device_users; /* aclrtSetDevice calls that count */

/* --- start ----------------------------------------------------------------------------------------------- */

static ag_status check_file(ag_status status, const char *path)
{
    if (path) {
        FILE *file = fopen(path, "re");
        if (!file) {
            return ag_fail(status, "configPath: cannot read \"%.200s\"", path);
        }
        fclose(file);
    }
    return AG_OK;
}

aclError aclInit(const char *configPath)
{
    ag_error_enter(__func__);
    AG_TRY(ag_config_check(AG_ACL_INVALID_PARAM));
    AG_TRY(check_file(AG_ACL_INVALID_FILE, configPath));
    ag_lock(AG_LOCK_RUNTIME);
    const uint64_t count = ++users;
    was_initialised = true;
    ag_unlock(AG_LOCK_RUNTIME);
    AG_REQUIRE(count == 1, ACL_REPEAT_INITIALIZE, "already initialised; this is reference %" PRIu64, count);
    return AG_OK;
}

aclnnStatus aclnnInit(const char *configPath)
{
    ag_error_enter(__func__);
    AG_TRY(ag_config_check(AG_INVALID));
    return check_file(AG_INVALID, configPath);
}

aclnnStatus aclnnFinalize(void)
{
    ag_error_enter(__func__);
    return AG_OK;
}

/* --- end ------------------------------------------------------------------------------------------------- */

/* ACLGRAD_DEBUG=1: what the program has not given back, in one line on stderr. */
static void report_leftovers(void)
{
    char text[512] = "";
    size_t used = 0;
    for (int kind = AG_HANDLE_NONE + 1; kind < AG_HANDLE_KINDS; ++kind) {
        int64_t count = ag_handle_count((enum ag_handle_kind)kind);
        if (kind == AG_HANDLE_STREAM) {
            for (const struct ag_context *c = ag_context_first(); c; c = c->next) {
                --count; /* default streams are not the program's to destroy */
            }
        } else if (kind == AG_HANDLE_CONTEXT) {
            for (const struct ag_context *c = ag_context_first(); c; c = c->next) {
                count -= c->is_default;
            }
        }
        if (count > 0 && used < sizeof text) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64 " x %s", used ? ", " : "", count,
                                     ag_handle_kind_name((enum ag_handle_kind)kind));
        }
    }
    uint64_t bytes;
    const int64_t blocks = ag_memory_live(&bytes);
    if (blocks > 0 && used < sizeof text) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64 " x allocation (%" PRIu64 " bytes)",
                                 used ? ", " : "", blocks, bytes);
    }
    if (used > 0) {
        fprintf(stderr, "aclgrad: aclFinalize: not given back: %s\n", text);
    }
}

/* Destroys what is left, quietly. */
static ag_status tear_down(void)
{
    ag_status status = AG_OK;
    if (ag_config_get().is_debug) {
        report_leftovers();
    }
    device_users = 0;
    for (struct ag_context *context = ag_context_first(); context; context = ag_context_first()) {
        if (ag_handle_remove(AG_HANDLE_CONTEXT, context->handle)) {
            const ag_status one = ag_context_close(context);
            status = status == AG_OK ? one : status;
        } else {
            ag_context_wait_for_others(); /* another thread is destroying it right now */
        }
    }
    ag_event_destroy_all();
    ag_context_clear_options();
    return status;
}

static ag_status finalize(void)
{
    AG_TRY(ag_context_check_not_inside(NULL));
    if (users == 0) {
        AG_REQUIRE(!was_initialised, ACL_REPEAT_FINALIZE, "already finalised");
    }
    users = 0;
    return tear_down();
}

aclError aclFinalize(void)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = finalize();
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

static ag_status finalize_reference(uint64_t *count)
{
    AG_TRY(ag_context_check_not_inside(NULL));
    AG_REQUIRE(users > 0, ACL_REPEAT_FINALIZE, "no reference is left");
    --users;
    if (count) {
        *count = users;
    }
    return users == 0 ? tear_down() : AG_OK;
}

aclError aclFinalizeReference(uint64_t *refCount)
{
    ag_error_enter(__func__);
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = finalize_reference(refCount);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

/* --- the device ------------------------------------------------------------------------------------------ */

static ag_status check_device(int32_t device)
{
    AG_REQUIRE(device == 0, RT_INVALID_DEVICE, "deviceId: got %d, want 0 (there is one device)", (int)device);
    return AG_OK;
}

static ag_status set_device(void)
{
    struct ag_context *context;
    AG_TRY(ag_context_default(&context));
    ag_context_bind(context);
    ++device_users;
    return AG_OK;
}

aclError aclrtSetDevice(int32_t deviceId)
{
    ag_error_enter(__func__);
    AG_TRY(check_device(deviceId));
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = set_device();
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

static ag_status reset_device(bool is_forced)
{
    struct ag_context *context = ag_context_default_if_any();
    if (device_users == 0 || !context) {
        return AG_OK;
    }
    if (device_users > 1 && !is_forced) {
        --device_users;
        return AG_OK;
    }
    AG_TRY(ag_context_check_not_inside(context));
    device_users = 0;
    return ag_handle_remove(AG_HANDLE_CONTEXT, context->handle) ? ag_context_close(context) : AG_OK;
}

aclError aclrtResetDevice(int32_t deviceId)
{
    ag_error_enter(__func__);
    AG_TRY(check_device(deviceId));
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = reset_device(false);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtResetDeviceForce(int32_t deviceId)
{
    ag_error_enter(__func__);
    AG_TRY(check_device(deviceId));
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = reset_device(true);
    ag_unlock(AG_LOCK_RUNTIME);
    return status;
}

aclError aclrtGetDevice(int32_t *deviceId)
{
    struct ag_context *context;
    ag_error_enter(__func__);
    AG_REQUIRE(deviceId, ACL_INVALID_PARAM, "deviceId: null");
    ag_lock(AG_LOCK_RUNTIME);
    const ag_status status = ag_context_require(&context);
    ag_unlock(AG_LOCK_RUNTIME);
    AG_TRY(status);
    *deviceId = 0;
    return AG_OK;
}

aclError aclrtGetDeviceCount(uint32_t *count)
{
    ag_error_enter(__func__);
    AG_REQUIRE(count, ACL_INVALID_PARAM, "count: null");
    *count = 1;
    return AG_OK;
}

aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
    ag_error_enter(__func__);
    AG_REQUIRE(runMode, ACL_INVALID_PARAM, "runMode: null");
    *runMode = ACL_HOST;
    return AG_OK;
}

const char *aclrtGetSocName(void)
{
    const char *name = getenv("ACLGRAD_SOC_NAME");
    return name && name[0] ? name : "Ascend910B1";
}

/* Memory that a new program could have; 0 when the system does not say. */
static size_t read_available_bytes(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return (size_t)kib * 1024;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free_bytes, size_t *total)
{
    ag_error_enter(__func__);
    AG_REQUIRE(free_bytes, ACL_INVALID_PARAM, "free: null");
    AG_REQUIRE(total, ACL_INVALID_PARAM, "total: null");
    AG_REQUIRE((int)attr >= 0 && (int)attr <= (int)ACL_MEM_P2P_HUGE1G, ACL_INVALID_PARAM,
               "attr: got %d, want 0 to %d", (int)attr, (int)ACL_MEM_P2P_HUGE1G);
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const size_t available = read_available_bytes();
    *total = (size_t)sysconf(_SC_PHYS_PAGES) * page_bytes;
    *free_bytes = available ? available : (size_t)sysconf(_SC_AVPHYS_PAGES) * page_bytes;
    return AG_OK;
}
