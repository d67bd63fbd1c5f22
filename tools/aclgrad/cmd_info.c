/* aclgrad info: what is installed here, and what the machine can do. */
#include <stdio.h>
#include <stdlib.h>

#include "aclgrad/aclgrad.h"
#include "base/config.h"
#include "cli.h"
#include "kernel/kernel.h"
#include "op/indexer/indexer.h"
#include "op/moe/moe.h"
#include "options.h"
#include "peaks.h"
#include "problem_source.h"
#include "table.h"

enum { KEY_MEASURE = 1000 };
static bool is_measured;

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    (void)text, (void)state;
    if (key == KEY_MEASURE) {
        is_measured = true;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static const struct argp_option options[] = {
    {"measure", KEY_MEASURE, 0, 0, "Also measure this machine's peaks (about a second)", 1}, {0}};
static const struct argp info_argp = {
    options, parse_option, "",  "Version, kernel tables, threads, operators, limits, layers known by name.",
    NULL,    NULL,         NULL};

static void add(struct table *table, const char *part, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void add(struct table *table, const char *part, const char *name, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    table_row(table, "sss", part, name, text);
}

static void add_kernels(struct table *table)
{
    const enum ag_isa current = ag_kernels_current()->isa;
    for (enum ag_isa isa = AG_ISA_SCALAR; isa < AG_ISA_COUNT; isa = (enum ag_isa)(isa + 1)) {
        const struct ag_kernels *kernels = ag_kernels_for(isa);
        add(table, "kernels", ag_isa_name(isa), "%s%s",
            !kernels         ? "not on this CPU"
            : isa == current ? "in use"
                             : "possible",
            kernels && kernels->panel_of[AG_ELEM_BF16] == AG_PANEL_BF16 ? ", bf16 products" : "");
    }
}

static void add_limits(struct table *table)
{
    const enum ag_limits limits = ag_config_get().limits;
    const struct indexer_limits *indexer = &indexer_limits[limits];
    add(table, "limits", "in force", "%s", limits == AG_LIMITS_EXTENDED ? "extended" : "documented");
    add(table, "limits", "attention", "%s",
        limits == AG_LIMITS_EXTENDED ? "any D, N; ropes of every type, without a mask too"
                                     : "D <= 768, N <= 256; ropes bf16, with a mask, D and Dr multiples of 8");
    add(table, "limits", "indexer", "D %lld to %lld, N <= %lld, top-k <= %lld%s", (long long)indexer->dim_min,
        (long long)indexer->dim_max, (long long)indexer->heads_max, (long long)indexer->topk_max,
        indexer->has_float32 ? ", float32" : "");
    add(table, "limits", "indexer_forward", "%s",
        limits == AG_LIMITS_EXTENDED
            ? "as indexer; any sparseCount and block size; values of paged keys"
            : "D and N as indexer; sparseCount <= 2048, or k * 1024 <= 8192; blocks of k * 16 <= 1024 keys");
    add(table, "limits", "moe", "top-k <= %lld", (long long)moe_limits_table[limits].topk);
}

static bool add_peaks(struct table *table)
{
    static const struct {
        enum peak_kind kind;
        const char *name, *unit;
    } list[] = {{PEAK_FMA, "fma", "GFLOP/s"}, {PEAK_BF16, "bf16 dot", "GFLOP/s"}, {PEAK_COPY, "copy", "GB/s"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; ++i) {
        const double all = peak_measure(list[i].kind, aclgrad_get_threads()), one = peak_measure(list[i].kind, 1);
        if (all == 0 || one == 0) {
            return false;
        }
        add(table, "peak", list[i].name, "%.1f %s (one thread %.1f)", all, list[i].unit, one);
    }
    return true;
}

int command_info(int argc, char **argv)
{
    char **operands;
    struct table table;
    options_parse(&info_argp, argc, argv, 0, 0, &operands);
    table_init(&table, "results", "part name value");
    add(&table, "aclgrad", "version", "%s", aclgrad_version());
    add(&table, "aclgrad", "threads", "%d of %d CPUs", aclgrad_get_threads(), ag_cpu_count());
    add_kernels(&table);
    for (int i = 0; i < PROBLEM_OPERATORS; ++i) {
        add(&table, "operator", problem_tables[i].name, "%s", problem_tables[i].entry);
    }
    add_limits(&table);
    for (const struct layer *layer = layers; layer->name; ++layer) {
        add(&table, "layer", layer->name, "%s", layer->problem);
    }
    if (!is_measured || add_peaks(&table)) {
        table_print(&table);
        table_finish("info");
    }
    table_discard(&table);
    free(operands);
    return cli_report();
}
