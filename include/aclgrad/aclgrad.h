/* aclgrad: what this library adds to the vendor's interface.
 *
 * The settings here are process-wide, win over the ACLGRAD_* environment variables, and hold for every phase 1 that
 * starts afterwards: an executor keeps the settings of its phase 1. All functions are thread-safe. Those that
 * return a status return 0 (ACLNN_SUCCESS), or 161001 (a null pointer) or 161002 (a bad value) with a text in
 * aclGetRecentErrMsg; nothing is changed then.
 *
 * The environment is read once, at the first use of the library:
 *     ACLGRAD_THREADS=N          ACLGRAD_ISA=NAME           ACLGRAD_LIMITS=documented|extended      as the functions below
 *     ACLGRAD_SOFTMAX_LAYOUT=auto|cann|tnd|ntd     order of softmaxMax and softmaxSum (attention)
 *     ACLGRAD_ASYNC=0|1          one worker per stream; phase 2 returns at once
 *     ACLGRAD_VERBOSE=LIST       of check, plan, run: one CSV line per event on stderr
 *     ACLGRAD_DEBUG=0|1          checked mode: see README.md
 * and, whenever it is asked for, ACLGRAD_SOC_NAME=TEXT: what aclrtGetSocName answers. */
#ifndef ACLGRAD_ACLGRAD_H
#define ACLGRAD_ACLGRAD_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0"; the text lives for ever. */
ACL_FUNC_VISIBILITY const char *aclgrad_version(void);

/* Threads that one operator may use: 1 to 1024. Default: ACLGRAD_THREADS, else OMP_NUM_THREADS, else the CPUs that
 * the process may use (container quotas respected). Results do not depend on it, bit for bit. */
ACL_FUNC_VISIBILITY aclnnStatus aclgrad_set_threads(int threads);
ACL_FUNC_VISIBILITY int aclgrad_get_threads(void);

/* Instruction set of the kernels: "scalar", "avx2", "avx512", "avx512bf16" or "amx", where the CPU has it (161002 else,
 * and the text lists the possible ones). Default: ACLGRAD_ISA, else the fastest. The name handed out lives for
 * ever. */
ACL_FUNC_VISIBILITY aclnnStatus aclgrad_set_instruction_set(const char *name);
ACL_FUNC_VISIBILITY const char *aclgrad_get_instruction_set(void);

/* DOCUMENTED refuses what the vendor's documents refuse, so that what runs here runs on the device; EXTENDED lifts
 * the limits that are not mathematical (each operator's header lists them). Default: ACLGRAD_LIMITS, else
 * DOCUMENTED. */
typedef enum { ACLGRAD_LIMITS_DOCUMENTED = 0, ACLGRAD_LIMITS_EXTENDED = 1 } aclgradLimits;

ACL_FUNC_VISIBILITY aclnnStatus aclgrad_set_limits(aclgradLimits limits);
ACL_FUNC_VISIBILITY aclgradLimits aclgrad_get_limits(void);

#ifdef __cplusplus
}
#endif

#endif
