/* aclgrad bench: time of phase 2, rate, and share of the machine's peak. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "cli.h"
#include "kernel/kernel.h"
#include "options.h"
#include "peaks.h"
#include "problem_source.h"
#include "table.h"

enum { KEY_SECONDS = 1000, KEY_NO_PEAK, KEY_ONLY, MOST_RUNS = 100000, LEAST_RUNS = 5 };

static struct {
    int64_t seconds;
    bool has_no_peak;
    const char *only;
} given = {.seconds = 1};

static const struct argp_option options[] = {
    {"seconds", KEY_SECONDS, "N", 0, "Measure each problem for at least so long (default 1)", 1},
    {"no-peak", KEY_NO_PEAK, 0, 0, "Do not measure the machine's peaks", 1},
    {"only", KEY_ONLY, "PATTERN", 0, "Only problems whose canonical string matches, like 'moe:*'", 1},
    {0}};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    (void)state;
    switch (key) {
    case KEY_SECONDS:
        if (!parse_count("--seconds", text, 0, 3600, &given.seconds)) {
            exit(cli_report());
        }
        return 0;
    case KEY_NO_PEAK:
        given.has_no_peak = true;
        return 0;
    case KEY_ONLY:
        given.only = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp bench_argp = {
    options,
    parse_option,
    "PROBLEM...",
    "Times phase 2 of each problem (a string, @FILE, or the name of a layer): after a warm-up, run after run until a "
    "second has passed. Peaks are measured first, with the kernels in cache and with copies.",
    NULL,
    NULL,
    NULL};

/* --- one problem ----------------------------------------------------------------------------------------- */

struct times {
    double *ms;
    int count;
};

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool measure(struct ready_call *ready, struct times *times)
{
    times->count = 0;
    if (!ready_call_run(ready)) { /* warm-up: pages, caches, threads */
        return false;
    }
    const int64_t begin = ag_clock_ns();
    do {
        const int64_t start = ag_clock_ns();
        if (!ready_call_run(ready)) {
            return false;
        }
        times->ms[times->count++] = (double)(ag_clock_ns() - start) * 1e-6;
    } while (times->count < MOST_RUNS &&
             (times->count < LEAST_RUNS || ag_clock_ns() - begin < given.seconds * INT64_C(1000000000)));
    qsort(times->ms, (size_t)times->count, sizeof *times->ms, compare_doubles);
    return true;
}

/* Against what a problem is measured: products of its type, or, where it does fewer than 8 operations per byte, copies. */
static double percent_of_peak(const struct call *call, const struct peaks *peaks, double ms, double work,
                              double bytes)
{
    const struct tensor *first = &call->inputs.items[0];
    const bool is_bf16 = first->dtype == AG_BF16;
    const double gflops = work / ms * 1e-6, gbytes = bytes / ms * 1e-6;
    return work < 8 * bytes ? 100 * gbytes / peaks->copy_gbytes
                            : 100 * gflops / (is_bf16 ? peaks->bf16_gflops : peaks->fma_gflops);
}

static void add_row(struct table *table, const struct call *call, const struct peaks *peaks, const struct times *t)
{
    double work, bytes;
    char *text = problem_print(&call->problem);
    operation_of(call)->cost(call, &work, &bytes);
    const double median = t->ms[t->count / 2];
    table_row(table, "ggggggdss", t->ms[0], median, t->ms[t->count * 9 / 10], work / median * 1e-6,
              bytes / median * 1e-6, peaks ? percent_of_peak(call, peaks, median, work, bytes) : 0.0,
              (int64_t)t->count, work < 8 * bytes ? "copy" : "products", text);
    free(text);
}

static bool bench_one(struct problem *problem, const struct peaks *peaks, struct table *table)
{
    struct call call = {0};
    struct tensor_set outputs = {0};
    struct ready_call ready = {0};
    struct times times = {malloc(MOST_RUNS * sizeof(double)), 0};
    bool is_good = times.ms && call_generate(&call, problem, FIDELITY_SPEED) &&
                   operation_of(&call)->make_outputs(&call, &outputs) &&
                   operation_of(&call)->prepare(&call, &outputs, &ready);
    if (is_good) {
        progress_begin("bench", 0);
        is_good = measure(&ready, &times);
        progress_end();
    }
    if (is_good) {
        add_row(table, &call, peaks, &times);
    }
    ready_call_release(&ready);
    tensor_set_destroy(&outputs);
    call_destroy(&call);
    free(times.ms);
    return is_good;
}

/* --- all ------------------------------------------------------------------------------------------------- */

static bool bench_all(struct problem_list *list, struct table *table)
{
    struct peaks peaks = {0};
    bool is_good = list->count > 0 || cli_fail(CLI_CHECK_FAILED, "no problem matched");
    is_good = is_good && (given.has_no_peak || peaks_measure(&peaks));
    for (int i = 0; is_good && i < list->count; ++i) {
        is_good = bench_one(&list->items[i], given.has_no_peak ? NULL : &peaks, table);
    }
    return is_good;
}

int command_bench(int argc, char **argv)
{
    char **operands;
    struct problem_list list = {NULL, 0};
    struct table table;
    options_parse(&bench_argp, argc, argv, 1, -1, &operands);
    table_init(&table, "results", "min_ms median_ms p90_ms gflops gbytes percent_of_peak runs peak problem");
    if (problems_read(operands, NULL, given.only, &list) && bench_all(&list, &table)) {
        table_line("%d threads, kernels %s", ag_config_get().threads, ag_isa_name(ag_kernels_current()->isa));
        table_set("threads", json_integer(ag_config_get().threads));
        table_set("kernels", json_string(ag_isa_name(ag_kernels_current()->isa)));
        table_print(&table);
        table_finish("bench");
    }
    table_discard(&table);
    problems_destroy(&list);
    free(operands);
    return cli_report();
}
