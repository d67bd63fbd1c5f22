#include "peaks.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "cli.h"
#include "kernel/kernel.h"

/* Operands overlap: a word of `a` or row of `b` begins STRIDE words behind the one before. So a deep product fits the
 * nearest cache (42 KB where a panel has 64 lanes), and the sums are read and written rarely. */
enum { DEPTH = 384, ROWS = 48, STRIDE = 16 };
enum { COPY_ROW_BYTES = 16 << 10, COPY_ITEM_ROWS = 64 };
static const int64_t burst_ns = 4000000;
static const double least_bytes = 16e6, most_bytes = 2e9, seconds_per_figure = 0.15;

struct operands {
    uint32_t *a, *b;
    float *c;
};

struct peak_meter {
    const struct ag_kernels *kernels;
    const struct ag_panel_kernels *panel; /* NULL: copy */
    int threads;
    int64_t repeats;           /* of the product, in a burst */
    struct operands *operands; /* [threads] */
    int64_t copy_items;
    char *from, *to; /* [copy_items, COPY_ITEM_ROWS, COPY_ROW_BYTES] */
};

static void multiply_item(void *context, int64_t item, int lane)
{
    const struct peak_meter *meter = context;
    const struct ag_panel_kernels *panel = meter->panel;
    const struct operands *o = &meter->operands[item];
    const struct ag_multiply m = {.a = o->a,
                                  .a_word_stride = STRIDE,
                                  .b = o->b,
                                  .b_row_stride = STRIDE,
                                  .b_word_stride = 1,
                                  .c = o->c,
                                  .c_row_stride = panel->lanes,
                                  .rows = ROWS,
                                  .cols = panel->lanes,
                                  .depth = DEPTH,
                                  .accumulate = true};
    (void)lane;
    meter->kernels->begin_task();
    for (int64_t i = 0; i < meter->repeats; ++i) {
        panel->multiply(&m);
    }
    meter->kernels->end_task();
}

static void copy_item(void *context, int64_t item, int lane)
{
    const struct peak_meter *meter = context;
    (void)lane;
    for (int row = 0; row < COPY_ITEM_ROWS; ++row) {
        const int64_t at = (item * COPY_ITEM_ROWS + row) * COPY_ROW_BYTES;
        meter->kernels->moe.copy_row(meter->to + at, meter->from + at, COPY_ROW_BYTES, true);
    }
    meter->kernels->moe.fence();
}

/* Operations, or bytes read and written. */
static double work_once(struct peak_meter *meter)
{
    if (meter->panel) {
        ag_parallel_for(meter->threads, meter->threads, multiply_item, meter);
        return 2.0 * meter->panel->pair * meter->panel->lanes * DEPTH * ROWS *
               (double)(meter->repeats * meter->threads);
    }
    ag_parallel_for(meter->threads, meter->copy_items, copy_item, meter);
    return 2.0 * COPY_ITEM_ROWS * COPY_ROW_BYTES * (double)meter->copy_items;
}

double peak_meter_burst(struct peak_meter *meter, int64_t least_ns)
{
    const int64_t start = ag_clock_ns();
    int64_t now;
    double work = 0;
    do {
        work += work_once(meter);
        now = ag_clock_ns();
    } while (now - start < least_ns);
    return work / (double)(now - start);
}

/* --- making one ------------------------------------------------------------------------------------------ */

static bool make_operands(struct peak_meter *meter)
{
    bool is_good = (meter->operands = calloc((size_t)meter->threads, sizeof *meter->operands)) != NULL;
    for (int i = 0; is_good && i < meter->threads; ++i) {
        struct operands *o = &meter->operands[i];
        o->a = ag_alloc_zeroed(((size_t)DEPTH * STRIDE + (size_t)meter->panel->lanes) * sizeof *o->a);
        o->b = ag_alloc_zeroed(((size_t)ROWS * STRIDE + DEPTH) * sizeof *o->b);
        o->c = ag_alloc_zeroed((size_t)ROWS * (size_t)meter->panel->lanes * sizeof *o->c);
        is_good = o->a && o->b && o->c;
    }
    return is_good;
}

/* As many repeats as fill a burst; this also wakes the threads and the clock. The best of three: one alone may have been
 * interrupted. */
static void find_repeats(struct peak_meter *meter)
{
    int64_t fastest_ns;
    meter->repeats = 1;
    do {
        fastest_ns = INT64_MAX;
        meter->repeats *= 2;
        for (int i = 0; i < 3; ++i) {
            const int64_t start = ag_clock_ns();
            work_once(meter);
            const int64_t ns = ag_clock_ns() - start;
            fastest_ns = ns < fastest_ns ? ns : fastest_ns;
        }
    } while (fastest_ns < burst_ns);
}

static bool make_copy(struct peak_meter *meter, double bytes)
{
    const double wanted = bytes < least_bytes ? least_bytes : bytes > most_bytes ? most_bytes : bytes;
    meter->copy_items = (int64_t)(wanted / (2.0 * COPY_ITEM_ROWS * COPY_ROW_BYTES));
    const size_t size = (size_t)meter->copy_items * COPY_ITEM_ROWS * COPY_ROW_BYTES;
    meter->from = ag_alloc(size);
    meter->to = ag_alloc(size);
    if (meter->from && meter->to) {
        memset(meter->from, 1, size);
        memset(meter->to, 1, size);
    }
    return meter->from && meter->to;
}

struct peak_meter *peak_meter_create(enum peak_kind kind, int threads, double bytes)
{
    struct peak_meter *meter = calloc(1, sizeof *meter);
    if (meter) {
        meter->kernels = ag_kernels_current();
        meter->threads = threads;
        if (kind != PEAK_COPY) {
            const enum ag_panel panel = kind == PEAK_BF16 ? meter->kernels->panel_of[AG_ELEM_BF16] : AG_PANEL_F32;
            meter->panel = &meter->kernels->panel[panel];
        }
        if (meter->panel ? make_operands(meter) : make_copy(meter, bytes)) {
            meter->panel ? find_repeats(meter) : (void)work_once(meter);
            return meter;
        }
        peak_meter_destroy(meter);
    }
    cli_fail(CLI_USAGE, "out of memory");
    return NULL;
}

void peak_meter_destroy(struct peak_meter *meter)
{
    if (meter) {
        for (int i = 0; meter->operands && i < meter->threads; ++i) {
            ag_free(meter->operands[i].a);
            ag_free(meter->operands[i].b);
            ag_free(meter->operands[i].c);
        }
        free(meter->operands);
        ag_free(meter->from);
        ag_free(meter->to);
        free(meter);
    }
}

double peak_measure(enum peak_kind kind, int threads)
{
    struct peak_meter *meter = peak_meter_create(kind, threads, 256e6);
    double best = 0;
    const int64_t begin = ag_clock_ns();
    do {
        const double rate = meter ? peak_meter_burst(meter, 0) : 0;
        best = rate > best ? rate : best;
    } while (meter && (double)(ag_clock_ns() - begin) * 1e-9 < seconds_per_figure);
    peak_meter_destroy(meter);
    return best;
}
