/* aclgrad_peers: times a peer on problems, as `aclgrad bench` times the product. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "cli.h"
#include "options.h"
#include "peer.h"
#include "problem_source.h"
#include "table.h"
#include "timing.h"

enum { KEY_PEER = 1000, KEY_SECONDS };

static struct {
    const char *peer;
    double seconds;
} given = {"onednn", 1};

static const struct argp_option options[] = {
    {"peer", KEY_PEER, "NAME", 0, "onednn, openblas (attention, indexer) or loop (moe)", 1},
    {"seconds", KEY_SECONDS, "N", 0, "Measure each problem for at least so long (default 1)", 1},
    {0}};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    (void)state;
    switch (key) {
    case KEY_PEER:
        given.peer = text;
        return 0;
    case KEY_SECONDS:
        given.seconds = atof(text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp peers_argp = {options,
                                       parse_option,
                                       "PROBLEM...",
                                       "Times other libraries on the product's work, after their results were held "
                                       "against it. Problems that a peer cannot "
                                       "do give no row.",
                                       NULL,
                                       NULL,
                                       NULL};

/* One thread in each library: the peers run heads, rows and tokens in parallel themselves, which is faster, with as many
 * threads as the product would have had. And a core type for OpenBLAS, which takes a CPU that it does not know for one
 * without AVX-512; on one that has none it may choose itself. All are read when the libraries start. */
static void restart_with_environment(char **argv)
{
    if (!getenv("OPENBLAS_NUM_THREADS")) {
        char threads[16];
        snprintf(threads, sizeof threads, "%d", ag_config_get().threads);
        setenv("ACLGRAD_THREADS", threads, 1);
        setenv("OMP_NUM_THREADS", "1", 1);
        setenv("OPENBLAS_NUM_THREADS", "1", 1);
        if (__builtin_cpu_supports("avx512bw")) {
            setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
        }
        execv("/proc/self/exe", argv);
    }
}

/* --- right ----------------------------------------------------------------------------------------------- */

/* |peer - product| as a share of |product|, over a tensor; NaN and infinity never pass. */
static double difference(const struct tensor *peer, const struct tensor *product)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < product->elems; ++i) {
        const double a = tensor_get(peer, i), b = tensor_get(product, i);
        error += (a - b) * (a - b);
        size += b * b;
    }
    return size > 0 ? sqrt(error / size) : sqrt(error);
}

static bool is_same(const struct tensor_set *peer, const struct tensor_set *product)
{
    for (int i = 0; i < product->count; ++i) {
        const struct tensor *tensor = &product->items[i];
        const double limit = tensor->dtype == AG_BF16 ? 0.02 : 0.001, got = difference(&peer->items[i], tensor);
        if (!(got < limit)) {
            return cli_fail(CLI_CHECK_FAILED, "%s: %s differs from the product's by %g of its norm, want %g",
                            given.peer, tensor->name, got, limit);
        }
    }
    return true;
}

/* --- fast ------------------------------------------------------------------------------------------------ */

static bool time_work(struct peer_work *work, struct table *table, const struct problem *problem)
{
    struct timing times;
    const bool is_good = timing_begin(&times, given.seconds) || cli_fail(CLI_USAGE, "out of memory");
    while (is_good && !timing_is_enough(&times)) {
        const int64_t start = ag_clock_ns();
        work->run(work->state);
        timing_add(&times, start);
    }
    if (is_good) {
        char *text = problem_print(problem);
        timing_sort(&times);
        table_row(table, "ggdss", times.ms[0], times.ms[times.count / 2], (int64_t)times.count, given.peer, text);
        free(text);
    }
    timing_release(&times);
    return is_good;
}

static bool measure(const struct call *call, struct tensor_set *product, struct tensor_set *peer, struct table *table)
{
    /* An operator without one no peer can do: no row. */
    static bool (*const open[PROBLEM_OPERATORS])(struct peer_work *, const struct call *, struct tensor_set *,
                                                 const struct backend *) = {open_attention, open_indexer, open_moe};
    const struct backend *backend = strcmp(given.peer, "onednn") == 0     ? &onednn_backend
                                    : strcmp(given.peer, "openblas") == 0 ? &openblas_backend
                                                                          : NULL;
    struct peer_work work;
    bool is_good = operation_of(call)->make_outputs(call, peer);
    if (is_good && open[call->problem.op] && open[call->problem.op](&work, call, peer, backend)) {
        work.run(work.state); /* also the warm-up */
        is_good = call_run(call, product) && is_same(peer, product) && time_work(&work, table, &call->problem);
        work.close(work.state);
    }
    return is_good;
}

static bool bench_one(struct problem *problem, struct table *table)
{
    struct call call = {0};
    struct tensor_set product = {0}, peer = {0};
    const char *const operator_name = problem_table_of(problem)->name;
    const bool is_good = (call_generate(&call, problem, FIDELITY_SPEED) || cli_fail_in("%s", operator_name)) &&
                         measure(&call, &product, &peer, table);
    tensor_set_destroy(&product);
    tensor_set_destroy(&peer);
    call_destroy(&call);
    return is_good;
}

int main(int argc, char **argv)
{
    char **operands;
    struct problem_list list = {NULL, 0};
    struct table table;
    restart_with_environment(argv);
    options_parse(&peers_argp, argc, argv, 1, -1, &operands);
    table_init(&table, "results", "min_ms median_ms runs peer problem");
    bool is_good = problems_read(operands, NULL, NULL, &list);
    for (int i = 0; is_good && i < list.count; ++i) {
        is_good = bench_one(&list.items[i], &table);
    }
    if (is_good) {
        table_print(&table);
    }
    table_discard(&table);
    problems_destroy(&list);
    free(operands);
    return cli_report();
}
