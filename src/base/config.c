#define _GNU_SOURCE /* sched_getaffinity, CPU_COUNT_S */
#include "base/config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"

static bool is_loaded;
static struct ag_config current;
static char problem[256]; /* what is wrong with the environment; empty when nothing is */
static double least_shared_work = 4e6;

/* --- the default thread count ------------------------------------------------------------------------- */

/* Reads up to two numbers; how many there were, 0 also where there is no such file. */
static int read_numbers(const char *folder, const char *name, double *first, double *second)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    const int count = file ? fscanf(file, "%lf %lf", first, second) : 0;
    if (file) {
        fclose(file);
    }
    return count;
}

int ag_cpu_quota(const char *root)
{
    double quota = 0, period = 0, unused;
    if (read_numbers(root, "cpu.max", &quota, &period) < 2 && /* "max 100000", or no such file */
        (read_numbers(root, "cpu/cpu.cfs_quota_us", &quota, &unused) < 1 ||
         read_numbers(root, "cpu/cpu.cfs_period_us", &period, &unused) < 1)) {
        return 0;
    }
    const double cpus = quota > 0 && period > 0 ? (quota + period - 1) / period : 0;
    return cpus < AG_MAX_THREADS ? (int)cpus : 0;
}

int ag_cpu_count(void)
{
    enum { MOST_CPUS = 8192 };
    int count = 1;
    cpu_set_t *set = CPU_ALLOC(MOST_CPUS);
    if (set && sched_getaffinity(0, CPU_ALLOC_SIZE(MOST_CPUS), set) == 0) {
        count = CPU_COUNT_S(CPU_ALLOC_SIZE(MOST_CPUS), set);
    }
    CPU_FREE(set);
    const int quota = ag_cpu_quota("/sys/fs/cgroup");
    if (quota > 0 && quota < count) {
        count = quota;
    }
    return count < 1 ? 1 : count > AG_MAX_THREADS ? AG_MAX_THREADS : count;
}

/* --- reading one variable ----------------------------------------------------------------------------- */

static void complain(const char *variable, const char *value, const char *want)
{
    if (!problem[0]) { /* the first problem is the one to tell */
        snprintf(problem, sizeof problem, "%s: got \"%.60s\", want %s", variable, value, want);
    }
}

/* Reads a whole number in [1, AG_MAX_THREADS]; 0 when the text is none. OMP_NUM_THREADS may be a list "4,2". */
static int parse_threads(const char *text, bool may_be_list)
{
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    const bool is_whole = end != text && (*end == '\0' || (may_be_list && *end == ','));
    return errno == 0 && is_whole && value >= 1 && value <= AG_MAX_THREADS ? (int)value : 0;
}

static int read_threads(void)
{
    const char *ours = getenv("ACLGRAD_THREADS");
    const char *openmp = getenv("OMP_NUM_THREADS");
    if (ours && ours[0]) {
        const int threads = parse_threads(ours, false);
        if (threads > 0) {
            return threads;
        }
        complain("ACLGRAD_THREADS", ours, "a whole number from 1 to 1024");
    } else if (openmp && parse_threads(openmp, true) > 0) {
        return parse_threads(openmp, true);
    }
    return ag_cpu_count();
}

/* The position of the variable's value among `names`; `fallback` when unset, empty or none of them. */
static int read_choice(const char *variable, int count, const char *const *names, int fallback, const char *want)
{
    const char *value = getenv(variable);
    if (!value || !value[0]) {
        return fallback;
    }
    for (int i = 0; i < count; ++i) {
        if (strcmp(value, names[i]) == 0) {
            return i;
        }
    }
    complain(variable, value, want);
    return fallback;
}

static enum ag_isa read_isa(void)
{
    const char *value = getenv("ACLGRAD_ISA");
    if (!value || !value[0]) {
        return ag_cpu_best_isa();
    }
    const enum ag_isa isa = ag_isa_by_name(value);
    if (isa == AG_ISA_COUNT || !ag_cpu_has_isa(isa)) {
        char want[96];
        snprintf(want, sizeof want, "one this CPU can run: %s", ag_cpu_isa_names());
        complain("ACLGRAD_ISA", value, want);
        return ag_cpu_best_isa();
    }
    return isa;
}

static unsigned read_verbose(void)
{
    static const char *const names[] = {"check", "plan", "run"};
    const char *value = getenv("ACLGRAD_VERBOSE");
    unsigned set = 0;
    for (const char *word = value ? value : ""; *word;) {
        const size_t length = strcspn(word, ",");
        unsigned bit = 0;
        for (int i = 0; i < 3; ++i) {
            if (strlen(names[i]) == length && strncmp(word, names[i], length) == 0) {
                bit = 1u << i;
            }
        }
        if (!bit) {
            complain("ACLGRAD_VERBOSE", value, "a list of check, plan, run");
        }
        set |= bit;
        word += length + (word[length] == ',');
    }
    return set;
}

static void load(void)
{
    static const char *const switches[] = {"0", "1"};
    static const char *const limits[] = {"documented", "extended"};
    static const char *const layouts[] = {"auto", "cann", "tnd", "ntd"};
    problem[0] = '\0';
    current.threads = read_threads();
    current.isa = read_isa();
    current.limits = (enum ag_limits)read_choice("ACLGRAD_LIMITS", 2, limits, 0, "documented or extended");
    current.softmax_layout =
        (enum ag_softmax_layout)read_choice("ACLGRAD_SOFTMAX_LAYOUT", 4, layouts, 0, "auto, cann, tnd or ntd");
    current.is_async = read_choice("ACLGRAD_ASYNC", 2, switches, 0, "0 or 1");
    current.is_debug = read_choice("ACLGRAD_DEBUG", 2, switches, 0, "0 or 1");
    current.verbose = read_verbose();
    is_loaded = true;
}

/* --- access ------------------------------------------------------------------------------------------- */

static void lock_loaded(void)
{
    ag_lock(AG_LOCK_CONFIG);
    if (!is_loaded) {
        load();
    }
}

struct ag_config ag_config_get(void)
{
    lock_loaded();
    const struct ag_config config = current;
    ag_unlock(AG_LOCK_CONFIG);
    return config;
}

ag_status ag_config_check(ag_status status)
{
    lock_loaded();
    if (problem[0]) {
        ag_fail(status, "%s", problem);
    } else {
        status = AG_OK;
    }
    ag_unlock(AG_LOCK_CONFIG);
    return status;
}

void ag_config_set_threads(int threads)
{
    lock_loaded();
    current.threads = threads;
    ag_unlock(AG_LOCK_CONFIG);
}

void ag_config_set_isa(enum ag_isa isa)
{
    lock_loaded();
    current.isa = isa;
    ag_unlock(AG_LOCK_CONFIG);
}

void ag_config_set_limits(enum ag_limits limits)
{
    lock_loaded();
    current.limits = limits;
    ag_unlock(AG_LOCK_CONFIG);
}

int ag_config_lanes(const struct ag_config *config, double work)
{
    return work < least_shared_work ? 1 : config->threads;
}

const char *ag_config_lanes_reason(double work)
{
    return work < least_shared_work ? "little-work" : "threads";
}

void ag_config_set_least_shared_work(double work)
{
    least_shared_work = work;
}

void ag_config_reload(void)
{
    ag_lock(AG_LOCK_CONFIG);
    load();
    ag_unlock(AG_LOCK_CONFIG);
}
