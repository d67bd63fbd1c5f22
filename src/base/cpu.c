#define _GNU_SOURCE /* syscall */
#include "base/cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#    include <cpuid.h>
#    include <sys/syscall.h>
#    include <unistd.h>
#endif

static const char *const isa_names[AG_ISA_COUNT] = {
#define AG_ISA_NAME(NAME, name, text) #name,
    AG_ISA_LIST(AG_ISA_NAME)
#undef AG_ISA_NAME
};

const char *ag_isa_name(enum ag_isa isa)
{
    return isa_names[isa];
}

enum ag_isa ag_isa_by_name(const char *name)
{
    int isa = 0;
    while (isa < AG_ISA_COUNT && strcmp(name, isa_names[isa]) != 0) {
        ++isa;
    }
    return (enum ag_isa)isa;
}

#if defined(__x86_64__)
static bool is_f16c_there;

static void ask_for_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    is_f16c_there = __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

/* clang 14's __builtin_cpu_supports does not know this name. Asked for together with AVX2 only, which says that the
 * operating system keeps the registers. Asked once: in a virtual machine the instruction takes microseconds. */
static bool has_f16c(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_for_f16c);
    return is_f16c_there;
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

/* The memory sanitizer does not see what tile instructions write. */
#    if defined(__has_feature)
#        if __has_feature(memory_sanitizer)
#            define TILES_ARE_SEEN false
#        endif
#    endif
#    ifndef TILES_ARE_SEEN
#        define TILES_ARE_SEEN true
#    endif

static bool may_use_tiles;

/* The tile registers are large, so Linux keeps them only for a process that has asked. */
static void ask_for_tiles(void)
{
    enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18, TILE_BF16 = 1 << 22, TILES = 1 << 24 };
    unsigned eax, ebx, ecx, edx;
    may_use_tiles = TILES_ARE_SEEN && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & TILE_BF16) &&
                    (edx & TILES) && syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
}

static bool has_amx(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_for_tiles);
    return may_use_tiles;
}

bool ag_cpu_has_isa(enum ag_isa isa)
{
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    switch (isa) {
    case AG_ISA_SCALAR:
        return true;
    case AG_ISA_AVX2:
        return has_avx2;
    case AG_ISA_AVX512:
        return has_avx2 && has_avx512();
    case AG_ISA_AVX512BF16:
        return has_avx2 && has_avx512() && __builtin_cpu_supports("avx512bf16");
    case AG_ISA_AMX:
        return ag_cpu_has_isa(AG_ISA_AVX512BF16) && has_amx();
    default:
        return false;
    }
}
#else
bool ag_cpu_has_isa(enum ag_isa isa)
{
    return isa == AG_ISA_SCALAR;
}
#endif

/* Intel's VDPBF16PS runs at half the rate of its FMA (measured on family 6 model 143 and 207: 86 against 175
 * GFLOP/s of one core), so there the widened table is the faster one; AMD's runs at twice the FMA rate. */
static bool has_slow_bf16_dot(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

enum ag_isa ag_cpu_best_isa(void)
{
    int isa = AG_ISA_COUNT - 1;
    while (isa > AG_ISA_SCALAR &&
           (!ag_cpu_has_isa((enum ag_isa)isa) || (isa == AG_ISA_AVX512BF16 && has_slow_bf16_dot()))) {
        --isa;
    }
    return (enum ag_isa)isa;
}

static char possible_names[64];

static void list_possible(void)
{
    size_t used = 0;
    for (int isa = 0; isa < AG_ISA_COUNT; ++isa) {
        if (ag_cpu_has_isa((enum ag_isa)isa)) {
            used += (size_t)snprintf(possible_names + used, sizeof possible_names - used, used ? ", %s" : "%s",
                                     isa_names[isa]);
        }
    }
}

const char *ag_cpu_isa_names(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, list_possible);
    return possible_names;
}
