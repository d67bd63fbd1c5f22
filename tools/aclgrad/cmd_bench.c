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
#include "timing.h"

enum { KEY_SECONDS = 1000, KEY_NO_PEAK, KEY_ONLY };

/* Runs take turns with bursts of the peak: so long at least, then a burst. */
static const int64_t turn_ns = 4000000;

static struct {
    double seconds;
    bool has_no_peak;
    const char *only;
} given = {.seconds = 1};

static const struct argp_option options[] = {
    {"seconds", KEY_SECONDS, "N", 0, "Measure each problem for at least so long, like 0.5 (default 1)", 1},
    {"no-peak", KEY_NO_PEAK, 0, 0, "Do not measure the machine's peaks", 1},
    {"only", KEY_ONLY, "PATTERN", 0, "Only problems whose canonical string matches, like 'moe:*'", 1},
    {0}};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    char *end;
    (void)state;
    switch (key) {
    case KEY_SECONDS:
        given.seconds = strtod(text, &end);
        if (end == text || *end || !(given.seconds >= 0 && given.seconds <= 3600)) {
            cli_fail(CLI_USAGE, "--seconds: got '%s', want 0 to 3600", text);
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
    "second has passed. Between the runs, the machine's peak is measured in bursts that last as long as a run, with "
    "as many threads: products of the problem's type in the nearest cache, or copies of as many bytes past all "
    "caches.\v"
    "min_ms, median_ms, p90_ms  of the runs\n"
    "gflops, gbytes             1e9 operations, bytes a second: the fastest run; an operator that only moves bytes\n"
    "                           has 0 gflops\n"
    "percent_of_peak            that rate in the fastest burst's; 0 with --no-peak\n"
    "runs                       how many\n"
    "peak                       of what: products or copy\n"
    "problem                    in canonical form",
    NULL,
    NULL,
    NULL};

/* --- one problem ----------------------------------------------------------------------------------------- */

/* Runs until a turn is over. */
static bool take_turn(struct ready_call *ready, struct timing *times)
{
    const int64_t begin = ag_clock_ns();
    int64_t start = begin;
    do {
        if (!ready_call_run(ready)) {
            return false;
        }
        start = timing_add(times, start);
    } while (start - begin < turn_ns);
    return true;
}

/* `peak` becomes the fastest burst's rate. The bursts last as long as the runs: the best of short ones would show what the
 * machine can do for milliseconds, and no run that takes longer could reach it. */
static bool measure(struct ready_call *ready, struct peak_meter *meter, struct timing *times, double *peak)
{
    *peak = 0;
    do {
        if (!take_turn(ready, times)) {
            return false;
        }
        if (meter) {
            const double rate = peak_meter_burst(meter, (int64_t)(times->ms[times->count - 1] * 1e6));
            *peak = rate > *peak ? rate : *peak;
        }
    } while (!timing_is_enough(times));
    timing_sort(times);
    return true;
}

/* Below 8 operations per byte, bytes are what takes the time. */
static bool is_bound_by_bytes(double work, double bytes)
{
    return work < 8 * bytes;
}

static enum peak_kind peak_kind_of(const struct call *call, double work, double bytes)
{
    return is_bound_by_bytes(work, bytes) ? PEAK_COPY : call->inputs.items[0].dtype == AG_BF16 ? PEAK_BF16 : PEAK_FMA;
}

static bool moves_only; /* a problem multiplied and added nothing */

static void add_row(struct table *table, const struct call *call, const struct timing *t, double peak, double work,
                    double bytes)
{
    char *text = problem_print(&call->problem);
    const bool is_copy = is_bound_by_bytes(work, bytes);
    const double best = t->ms[0], gflops = work / best * 1e-6, gbytes = bytes / best * 1e-6;
    moves_only = moves_only || (work == 0 && bytes > 0);
    table_row(table, "ggggggdss", best, t->ms[t->count / 2], t->ms[t->count * 9 / 10], gflops, gbytes,
              peak > 0 ? 100 * (is_copy ? gbytes : gflops) / peak : 0.0, (int64_t)t->count,
              is_copy ? "copy" : "products", text);
    free(text);
}

/* Times a call that has been prepared. */
static bool bench_ready(const struct call *call, struct ready_call *ready, struct table *table)
{
    struct timing times = {0};
    struct peak_meter *meter = NULL;
    double work, bytes, peak;
    operation_of(call)->cost(call, &work, &bytes);
    bool is_good = true;
    if (!given.has_no_peak) {
        meter = peak_meter_create(peak_kind_of(call, work, bytes), ag_config_get().threads, bytes);
        is_good = meter != NULL;
    }
    is_good = is_good && ready_call_run(ready) && /* warm-up: pages, caches, threads */
              (timing_begin(&times, given.seconds) || cli_fail(CLI_USAGE, "out of memory"));
    if (is_good) {
        progress_begin("bench", 0);
        is_good = measure(ready, meter, &times, &peak);
        progress_end();
    }
    if (is_good) {
        add_row(table, call, &times, peak, work, bytes);
    }
    peak_meter_destroy(meter);
    timing_release(&times);
    return is_good;
}

static bool bench_one(struct problem *problem, struct table *table)
{
    struct call call = {0};
    struct tensor_set outputs = {0};
    struct ready_call ready = {0};
    const char *const operator_name = problem_table_of(problem)->name;
    const bool is_good = (call_generate(&call, problem, FIDELITY_SPEED) || cli_fail_in("%s", operator_name)) &&
                         operation_of(&call)->make_outputs(&call, &outputs) &&
                         operation_of(&call)->prepare(&call, &outputs, &ready) && bench_ready(&call, &ready, table);
    ready_call_release(&ready);
    tensor_set_destroy(&outputs);
    call_destroy(&call);
    return is_good;
}

/* --- all ------------------------------------------------------------------------------------------------- */

static bool bench_all(struct problem_list *list, struct table *table)
{
    bool is_good = list->count > 0 || cli_fail(CLI_CHECK_FAILED, "no problem matched");
    for (int i = 0; is_good && i < list->count; ++i) {
        is_good = bench_one(&list->items[i], table);
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
        if (moves_only) {
            table_line("0 gflops: nothing is multiplied or added, bytes are moved");
        }
        table_finish("bench");
    }
    table_discard(&table);
    problems_destroy(&list);
    free(operands);
    return cli_report();
}
