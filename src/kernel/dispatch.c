#include "base/config.h"
#include "kernel/kernel.h"

extern const struct ag_kernels ag_kernels_scalar;
#if defined(__x86_64__)
extern const struct ag_kernels ag_kernels_avx2, ag_kernels_avx512, ag_kernels_avx512bf16, ag_kernels_amx;
#endif

static const struct ag_kernels *const tables[AG_ISA_COUNT] = {
    [AG_ISA_SCALAR] = &ag_kernels_scalar,
#if defined(__x86_64__)
    [AG_ISA_AVX2] = &ag_kernels_avx2,
    [AG_ISA_AVX512] = &ag_kernels_avx512,
    [AG_ISA_AVX512BF16] = &ag_kernels_avx512bf16,
    [AG_ISA_AMX] = &ag_kernels_amx,
#endif
};

const struct ag_kernels *ag_kernels_for(enum ag_isa isa)
{
    return ag_cpu_has_isa(isa) ? tables[isa] : NULL;
}

const struct ag_kernels *ag_kernels_current(void)
{
    return ag_kernels_for(ag_config_get().isa);
}
