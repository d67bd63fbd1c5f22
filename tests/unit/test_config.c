/* labels: smoke ci */
/* Every ACLGRAD_* variable, good and bad; the rules for the thread count; what the setters override. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "support/support.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"

static const char *const variables[] = {"ACLGRAD_THREADS",        "ACLGRAD_ISA",    "ACLGRAD_LIMITS",
                                        "ACLGRAD_SOFTMAX_LAYOUT", "ACLGRAD_ASYNC",  "ACLGRAD_VERBOSE",
                                        "ACLGRAD_DEBUG",          "OMP_NUM_THREADS"};

static void clear_environment(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; ++i) {
        unsetenv(variables[i]);
    }
}

/* The configuration when only this variable is set. */
static struct ag_config config_with(const char *variable, const char *value)
{
    clear_environment();
    setenv(variable, value, 1);
    ag_config_reload();
    return ag_config_get();
}

static int clean(void **state)
{
    (void)state;
    clear_environment();
    ag_config_reload();
    return 0;
}

static void defaults(void **state)
{
    (void)state;
    const struct ag_config config = ag_config_get();
    assert_int_equal(ag_config_check(AG_INVALID), AG_OK);
    assert_int_equal(config.threads, ag_cpu_count());
    assert_int_equal(config.isa, ag_cpu_best_isa());
    assert_int_equal(config.limits, AG_LIMITS_DOCUMENTED);
    assert_int_equal(config.softmax_layout, AG_SOFTMAX_AUTO);
    assert_false(config.is_async);
    assert_false(config.is_debug);
    assert_int_equal(config.verbose, 0);
}

/* --- one variable at a time ----------------------------------------------------------------------------- */

static int get_limits(const struct ag_config *config)
{
    return (int)config->limits;
}
static int get_layout(const struct ag_config *config)
{
    return (int)config->softmax_layout;
}
static int get_async(const struct ag_config *config)
{
    return config->is_async;
}
static int get_debug(const struct ag_config *config)
{
    return config->is_debug;
}
static int get_verbose(const struct ag_config *config)
{
    return (int)config->verbose;
}
static int get_threads(const struct ag_config *config)
{
    return config->threads;
}

struct good_row {
    const char *variable, *value;
    int (*get)(const struct ag_config *config);
    int want;
};

static const struct good_row good_rows[] = {
    {"ACLGRAD_LIMITS", "documented", get_limits, AG_LIMITS_DOCUMENTED},
    {"ACLGRAD_LIMITS", "extended", get_limits, AG_LIMITS_EXTENDED},
    {"ACLGRAD_LIMITS", "", get_limits, AG_LIMITS_DOCUMENTED},
    {"ACLGRAD_SOFTMAX_LAYOUT", "auto", get_layout, AG_SOFTMAX_AUTO},
    {"ACLGRAD_SOFTMAX_LAYOUT", "cann", get_layout, AG_SOFTMAX_CANN},
    {"ACLGRAD_SOFTMAX_LAYOUT", "tnd", get_layout, AG_SOFTMAX_TND},
    {"ACLGRAD_SOFTMAX_LAYOUT", "ntd", get_layout, AG_SOFTMAX_NTD},
    {"ACLGRAD_ASYNC", "0", get_async, 0},
    {"ACLGRAD_ASYNC", "1", get_async, 1},
    {"ACLGRAD_DEBUG", "0", get_debug, 0},
    {"ACLGRAD_DEBUG", "1", get_debug, 1},
    {"ACLGRAD_VERBOSE", "", get_verbose, 0},
    {"ACLGRAD_VERBOSE", "check", get_verbose, AG_VERBOSE_CHECK},
    {"ACLGRAD_VERBOSE", "plan", get_verbose, AG_VERBOSE_PLAN},
    {"ACLGRAD_VERBOSE", "run", get_verbose, AG_VERBOSE_RUN},
    {"ACLGRAD_VERBOSE", "run,check", get_verbose, AG_VERBOSE_RUN | AG_VERBOSE_CHECK},
    {"ACLGRAD_VERBOSE", "check,plan,run", get_verbose, 7},
    {"ACLGRAD_THREADS", "1", get_threads, 1},
    {"ACLGRAD_THREADS", "3", get_threads, 3},
    {"ACLGRAD_THREADS", "1024", get_threads, 1024},
    {"OMP_NUM_THREADS", "5", get_threads, 5},
    {"OMP_NUM_THREADS", "4,2", get_threads, 4},
    {"OMP_NUM_THREADS", "1024,1,1", get_threads, 1024},
};

static void good_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good_rows / sizeof *good_rows; ++i) {
        const struct good_row *row = &good_rows[i];
        const struct ag_config config = config_with(row->variable, row->value);
        if (row->get(&config) != row->want || ag_config_check(AG_INVALID) != AG_OK) {
            fail_msg("%s=\"%s\": got %d, want %d", row->variable, row->value, row->get(&config), row->want);
        }
    }
}

struct bad_row {
    const char *variable, *value, *want;
};

static const struct bad_row bad_rows[] = {
    {"ACLGRAD_LIMITS", "Extended", "want documented or extended"},
    {"ACLGRAD_LIMITS", "extended ", "want documented or extended"},
    {"ACLGRAD_LIMITS", "none", "want documented or extended"},
    {"ACLGRAD_SOFTMAX_LAYOUT", "bsnd", "want auto, cann, tnd or ntd"},
    {"ACLGRAD_ASYNC", "yes", "want 0 or 1"},
    {"ACLGRAD_ASYNC", "2", "want 0 or 1"},
    {"ACLGRAD_DEBUG", "on", "want 0 or 1"},
    {"ACLGRAD_VERBOSE", "1", "want a list of check, plan, run"},
    {"ACLGRAD_VERBOSE", "plan,walk", "want a list of check, plan, run"},
    {"ACLGRAD_VERBOSE", "plan;run", "want a list of check, plan, run"},
    {"ACLGRAD_VERBOSE", "pla", "want a list of check, plan, run"},
    {"ACLGRAD_THREADS", "0", "want a whole number from 1 to 1024"},
    {"ACLGRAD_THREADS", "-1", "want a whole number from 1 to 1024"},
    {"ACLGRAD_THREADS", "1025", "want a whole number from 1 to 1024"},
    {"ACLGRAD_THREADS", "four", "want a whole number from 1 to 1024"},
    {"ACLGRAD_THREADS", "4x", "want a whole number from 1 to 1024"},
    {"ACLGRAD_THREADS", "4,2", "want a whole number from 1 to 1024"},
    {"ACLGRAD_THREADS", "2.5", "want a whole number from 1 to 1024"},
    {"ACLGRAD_THREADS", "99999999999999999999", "want a whole number from 1 to 1024"},
    {"ACLGRAD_ISA", "sse", "want one this CPU can run: scalar"},
    {"ACLGRAD_ISA", "AVX2", "want one this CPU can run: scalar"},
};

static void bad_values_are_named_with_the_valid_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_rows / sizeof *bad_rows; ++i) {
        const struct bad_row *row = &bad_rows[i];
        char got[128];
        snprintf(got, sizeof got, "%s: got \"%s\"", row->variable, row->value);
        const struct ag_config config = config_with(row->variable, row->value);
        if (ag_config_check(AG_INVALID) != AG_INVALID) {
            fail_msg("%s=\"%s\" is not refused", row->variable, row->value);
        }
        test_assert_message(got, row->want, NULL);
        assert_int_equal(ag_config_check(AG_ACL_INVALID_PARAM), AG_ACL_INVALID_PARAM); /* told every time */
        test_assert_message(got, NULL);
        assert_true(config.threads >= 1 && ag_cpu_has_isa(config.isa)); /* still usable */
    }
}

static void every_instruction_set_of_the_cpu(void **state)
{
    (void)state;
    for (int isa = 0; isa < AG_ISA_COUNT; ++isa) {
        const bool has = ag_cpu_has_isa((enum ag_isa)isa);
        const struct ag_config config = config_with("ACLGRAD_ISA", ag_isa_name((enum ag_isa)isa));
        assert_int_equal(ag_config_check(AG_INVALID), has ? AG_OK : AG_INVALID);
        assert_int_equal(config.isa, has ? (enum ag_isa)isa : ag_cpu_best_isa());
        ag_error_clear();
    }
    config_with("ACLGRAD_ISA", "nonsense");
    ag_config_check(AG_INVALID);
    test_assert_message("ACLGRAD_ISA: got \"nonsense\"", ag_cpu_isa_names(), NULL);
}

static void the_first_problem_is_told(void **state)
{
    (void)state;
    setenv("ACLGRAD_LIMITS", "bad", 1);
    setenv("ACLGRAD_DEBUG", "bad", 1);
    ag_config_reload();
    assert_int_equal(ag_config_check(AG_INVALID), AG_INVALID);
    test_assert_message("ACLGRAD_LIMITS", NULL);
}

static void a_long_value_is_cut(void **state)
{
    (void)state;
    char value[2000];
    for (size_t i = 0; i < sizeof value - 1; ++i) {
        value[i] = 'z';
    }
    value[sizeof value - 1] = '\0';
    for (size_t i = 0; i < 7; ++i) {
        config_with(variables[i], value);
        assert_int_equal(ag_config_check(AG_INVALID), AG_INVALID);
        test_assert_message(variables[i], "zzzzzzzz\", want ", NULL);
    }
}

/* --- the thread count ----------------------------------------------------------------------------------- */

static void ours_wins_over_openmp(void **state)
{
    (void)state;
    setenv("ACLGRAD_THREADS", "3", 1);
    setenv("OMP_NUM_THREADS", "5", 1);
    ag_config_reload();
    assert_int_equal(ag_config_get().threads, 3);
    setenv("ACLGRAD_THREADS", "", 1); /* empty counts as not set */
    ag_config_reload();
    assert_int_equal(ag_config_get().threads, 5);
}

static void a_strange_openmp_value_is_not_our_business(void **state)
{
    (void)state;
    static const char *const values[] = {"", "0", "-4", "many", ",2", "4;2", "2000"};
    for (size_t i = 0; i < sizeof values / sizeof *values; ++i) {
        const struct ag_config config = config_with("OMP_NUM_THREADS", values[i]);
        assert_int_equal(config.threads, ag_cpu_count());
        assert_int_equal(ag_config_check(AG_INVALID), AG_OK);
    }
}

static void the_affinity_mask_limits_the_default(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
        }
    }
    assert_true(ag_cpu_count() >= 1 && ag_cpu_count() <= CPU_COUNT(&all));
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    ag_config_reload();
    const int threads = ag_config_get().threads;
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(threads, 1);
}

/* --- a container's quota -------------------------------------------------------------------------------- */

struct quota_row {
    const char *v2, *v1_quota, *v1_period; /* texts of the files; NULL: not there */
    int want;
};

static const struct quota_row quota_rows[] = {
    {NULL, NULL, NULL, 0},
    {"max 100000\n", NULL, NULL, 0},
    {"200000 100000\n", NULL, NULL, 2},
    {"150000 100000\n", NULL, NULL, 2}, /* part of a CPU is a thread */
    {"1000 100000\n", NULL, NULL, 1},
    {"0 100000\n", NULL, NULL, 0},
    {"100000 0\n", NULL, NULL, 0},
    {"", NULL, NULL, 0},
    {"1e300 1\n", NULL, NULL, 0},
    {"300000 100000\n", "100000\n", "100000\n", 3}, /* v2 wins */
    {NULL, "-1\n", "100000\n", 0},
    {NULL, "250000\n", "100000\n", 3},
    {NULL, "100000\n", NULL, 0},
    {NULL, NULL, "100000\n", 0},
    {NULL, "text\n", "100000\n", 0},
    {"max 100000\n", "100000\n", "100000\n", 1},
};

static void write_file(const char *root, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    remove(path);
    if (text) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
    }
}

static void quotas_of_both_kinds(void **state)
{
    static const char *const names[] = {"cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"};
    char root[] = "/tmp/aclgrad-quota-XXXXXX", folder[64];
    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/cpu", root);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (size_t i = 0; i < sizeof quota_rows / sizeof *quota_rows; ++i) {
        const struct quota_row *row = &quota_rows[i];
        write_file(root, names[0], row->v2);
        write_file(root, names[1], row->v1_quota);
        write_file(root, names[2], row->v1_period);
        if (ag_cpu_quota(root) != row->want) {
            fail_msg("row %zu: got %d, want %d", i, ag_cpu_quota(root), row->want);
        }
    }
    for (int i = 0; i < 3; ++i) {
        write_file(root, names[i], NULL);
    }
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rmdir(root), 0);
}

/* --- setters -------------------------------------------------------------------------------------------- */

static void setters_win_until_reload(void **state)
{
    (void)state;
    config_with("ACLGRAD_THREADS", "3");
    ag_config_set_threads(9);
    ag_config_set_isa(AG_ISA_SCALAR);
    ag_config_set_limits(AG_LIMITS_EXTENDED);
    assert_int_equal(ag_config_get().threads, 9);
    assert_int_equal(ag_config_get().isa, AG_ISA_SCALAR);
    assert_int_equal(ag_config_get().limits, AG_LIMITS_EXTENDED);
    ag_config_reload();
    assert_int_equal(ag_config_get().threads, 3);
    assert_int_equal(ag_config_get().isa, ag_cpu_best_isa());
    assert_int_equal(ag_config_get().limits, AG_LIMITS_DOCUMENTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults, clean),
        cmocka_unit_test_setup(good_values, clean),
        cmocka_unit_test_setup(bad_values_are_named_with_the_valid_ones, clean),
        cmocka_unit_test_setup(every_instruction_set_of_the_cpu, clean),
        cmocka_unit_test_setup(the_first_problem_is_told, clean),
        cmocka_unit_test_setup(a_long_value_is_cut, clean),
        cmocka_unit_test_setup(ours_wins_over_openmp, clean),
        cmocka_unit_test_setup(a_strange_openmp_value_is_not_our_business, clean),
        cmocka_unit_test_setup(the_affinity_mask_limits_the_default, clean),
        cmocka_unit_test(quotas_of_both_kinds),
        cmocka_unit_test_setup(setters_win_until_reload, clean),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
