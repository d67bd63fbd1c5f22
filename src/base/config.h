/* What the user chose: the ACLGRAD_* environment (read once) and the aclgrad_set_* functions (which win).
 * A plan copies what it needs in phase 1; nothing reads the configuration in phase 2 except ag_verbose. */
#ifndef AG_BASE_CONFIG_H
#define AG_BASE_CONFIG_H

#include <stdbool.h>

#include "base/cpu.h"
#include "base/status.h"

enum ag_limits { AG_LIMITS_DOCUMENTED, AG_LIMITS_EXTENDED };
enum ag_softmax_layout { AG_SOFTMAX_AUTO, AG_SOFTMAX_CANN, AG_SOFTMAX_TND, AG_SOFTMAX_NTD };
enum { AG_VERBOSE_CHECK = 1, AG_VERBOSE_PLAN = 2, AG_VERBOSE_RUN = 4 }; /* a set */

struct ag_config {
    int threads; /* lanes of the pool, >= 1 */
    enum ag_isa isa;
    enum ag_limits limits;
    enum ag_softmax_layout softmax_layout;
    bool is_async;
    bool is_debug;
    unsigned verbose;
};

enum { AG_MAX_THREADS = 1024 };

/* The current choice, by value. Thread-safe. */
struct ag_config ag_config_get(void);

/* AG_OK, or the failure to report for a bad ACLGRAD_* value: `status` with a message that names the variable,
 * its value and the valid ones. Called by aclInit and by every phase 1. */
ag_status ag_config_check(ag_status status);

/* Overrides of the environment; the caller has validated the value. */
void ag_config_set_threads(int threads);
void ag_config_set_isa(enum ag_isa isa);
void ag_config_set_limits(enum ag_limits limits);

/* The lanes for so many floating-point operations: all threads, or one for a problem so small (some 50 microseconds) that
 * waking the others takes longer, on a busy machine much longer. It is a constant, so the choice hangs on the problem alone.
 * Work that moves memory counts AG_WORK_PER_BYTE operations a byte. */
enum { AG_WORK_PER_BYTE = 8 };
int ag_config_lanes(const struct ag_config *config, double work);

/* The name of the reason for `lanes`, as plans are printed. */
const char *ag_config_lanes_reason(double work);

/* Problems of less work are for one thread. For tests only, which share out the smallest: 0. */
void ag_config_set_least_shared_work(double work);

/* Forgets the overrides and reads the environment again: for tests only. */
void ag_config_reload(void);

/* A container may use quota / period CPUs, rounded up (`root`/cpu.max of cgroup v2, else v1's files); 0 when there is no
 * such limit, or one beyond AG_MAX_THREADS. `root` is where the control groups are mounted. */
int ag_cpu_quota(const char *root);

/* The CPUs this process may use: its affinity mask, cut by the container's CPU quota, at least 1. */
int ag_cpu_count(void);

#endif
