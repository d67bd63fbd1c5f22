#include "peaks.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "cli.h"
#include "kernel/kernel.h"

enum { DEPTH = 128, REPEATS = 1000, ROWS = 48 };
static const int64_t copy_bytes = 64 << 20; /* of each thread */
static const double seconds_per_figure = 0.15;

struct scratch {
    uint32_t *a, *b;
    float *c;
    char *from, *to;
};

struct load {
    const struct ag_panel_kernels *panel; /* NULL: copy */
    struct scratch *scratch;              /* [lanes] */
};

static void multiply(const struct ag_panel_kernels *panel, const struct scratch *s)
{
    const struct ag_multiply m = {.a = s->a,
                                  .a_panel_stride = (int64_t)DEPTH * panel->lanes,
                                  .b = s->b,
                                  .b_row_stride = DEPTH,
                                  .b_word_stride = 1,
                                  .c = s->c,
                                  .c_row_stride = panel->lanes,
                                  .rows = ROWS,
                                  .cols = panel->lanes,
                                  .depth = DEPTH,
                                  .accumulate = true};
    ag_kernels_current()->begin_task();
    for (int i = 0; i < REPEATS; ++i) {
        panel->multiply(&m);
    }
    ag_kernels_current()->end_task();
}

static void run_item(void *context, int64_t item, int lane)
{
    const struct load *load = context;
    (void)lane;
    if (load->panel) {
        multiply(load->panel, &load->scratch[item]);
    } else {
        memcpy(load->scratch[item].to, load->scratch[item].from, (size_t)copy_bytes);
    }
}

/* Work of one item: operations, or bytes read and written. */
static double item_work(const struct load *load)
{
    return load->panel ? 2.0 * load->panel->pair * load->panel->lanes * DEPTH * ROWS * REPEATS
                       : 2.0 * (double)copy_bytes;
}

/* The best rate of several tries, in units of 1e9 a second. */
static double measure(struct load *load, int threads)
{
    double best = 0;
    const int64_t begin = ag_clock_ns();
    do {
        const int64_t start = ag_clock_ns();
        ag_parallel_for(threads, threads, run_item, load);
        const double rate = item_work(load) * threads / (double)(ag_clock_ns() - start);
        best = rate > best ? rate : best;
    } while ((double)(ag_clock_ns() - begin) * 1e-9 < seconds_per_figure);
    return best;
}

static bool make_scratch(struct scratch *s, int lanes)
{
    s->a = ag_alloc_zeroed((size_t)DEPTH * (size_t)lanes * 4);
    s->b = ag_alloc_zeroed((size_t)DEPTH * ROWS * 4);
    s->c = ag_alloc_zeroed((size_t)lanes * ROWS * 4);
    s->from = ag_alloc((size_t)copy_bytes);
    s->to = ag_alloc((size_t)copy_bytes);
    if (s->from && s->to) {
        memset(s->from, 1, (size_t)copy_bytes);
        memset(s->to, 1, (size_t)copy_bytes);
    }
    return s->a && s->b && s->c && s->from && s->to;
}

bool peaks_measure(struct peaks *peaks)
{
    const struct ag_kernels *kernels = ag_kernels_current();
    const int threads = ag_config_get().threads;
    struct scratch *scratch = calloc((size_t)threads, sizeof *scratch);
    bool is_good = scratch != NULL;
    for (int i = 0; is_good && i < threads; ++i) {
        const int f32 = kernels->panel[AG_PANEL_F32].lanes, bf16 = kernels->panel[AG_PANEL_BF16].lanes;
        is_good = make_scratch(&scratch[i], f32 > bf16 ? f32 : bf16);
    }
    if (is_good) {
        struct load fma = {&kernels->panel[AG_PANEL_F32], scratch}, bf16 = {&kernels->panel[AG_PANEL_BF16], scratch};
        struct load copy = {NULL, scratch};
        const bool has_bf16 = kernels->panel_of[AG_ELEM_BF16] == AG_PANEL_BF16;
        peaks->fma_gflops = measure(&fma, threads);
        peaks->one_fma_gflops = measure(&fma, 1);
        peaks->bf16_gflops = has_bf16 ? measure(&bf16, threads) : peaks->fma_gflops;
        peaks->one_bf16_gflops = has_bf16 ? measure(&bf16, 1) : peaks->one_fma_gflops;
        peaks->copy_gbytes = measure(&copy, threads);
        peaks->one_copy_gbytes = measure(&copy, 1);
    }
    for (int i = 0; scratch && i < threads; ++i) {
        ag_free(scratch[i].a);
        ag_free(scratch[i].b);
        ag_free(scratch[i].c);
        ag_free(scratch[i].from);
        ag_free(scratch[i].to);
    }
    free(scratch);
    return is_good || cli_fail(CLI_USAGE, "out of memory");
}
