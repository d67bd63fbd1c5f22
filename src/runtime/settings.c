/* aclgrad.h: version and settings. */
#include "aclgrad/aclgrad.h"
#include "base/check.h"
#include "base/config.h"

const char *aclgrad_version(void)
{
    return ACLGRAD_VERSION_TEXT;
}

aclnnStatus aclgrad_set_threads(int threads)
{
    ag_error_enter(__func__);
    AG_REQUIRE(threads >= 1 && threads <= AG_MAX_THREADS, INVALID, "threads: got %d, want 1 to %d", threads,
               AG_MAX_THREADS);
    ag_config_set_threads(threads);
    return AG_OK;
}

int aclgrad_get_threads(void)
{
    return ag_config_get().threads;
}

aclnnStatus aclgrad_set_instruction_set(const char *name)
{
    ag_error_enter(__func__);
    AG_REQUIRE(name, NULLPTR, "name: null, want one of: %s", ag_cpu_isa_names());
    const enum ag_isa isa = ag_isa_by_name(name);
    AG_REQUIRE(isa != AG_ISA_COUNT && ag_cpu_has_isa(isa), INVALID,
               "name: got \"%.60s\", want one this CPU can run: %s", name, ag_cpu_isa_names());
    ag_config_set_isa(isa);
    return AG_OK;
}

const char *aclgrad_get_instruction_set(void)
{
    return ag_isa_name(ag_config_get().isa);
}

aclnnStatus aclgrad_set_limits(aclgradLimits limits)
{
    ag_error_enter(__func__);
    AG_REQUIRE(limits == ACLGRAD_LIMITS_DOCUMENTED || limits == ACLGRAD_LIMITS_EXTENDED, INVALID,
               "limits: got %d, want ACLGRAD_LIMITS_DOCUMENTED (0) or ACLGRAD_LIMITS_EXTENDED (1)", (int)limits);
    ag_config_set_limits(limits == ACLGRAD_LIMITS_EXTENDED ? AG_LIMITS_EXTENDED : AG_LIMITS_DOCUMENTED);
    return AG_OK;
}

aclgradLimits aclgrad_get_limits(void)
{
    return ag_config_get().limits == AG_LIMITS_EXTENDED ? ACLGRAD_LIMITS_EXTENDED : ACLGRAD_LIMITS_DOCUMENTED;
}
