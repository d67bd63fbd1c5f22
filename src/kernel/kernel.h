/* The kernel table: every inner loop of the library, compiled once per instruction set (kernel_isa.c).
 *
 * Kernels trust their caller: sizes and pointers were checked in phase 1. They read and write exactly what their
 * contract says, allocate nothing, and give the same bits for the same arguments. Two tables may differ in the
 * last bits: fused or separate rounding, subnormal operands of the bf16 dot product. */
#ifndef AG_KERNEL_KERNEL_H
#define AG_KERNEL_KERNEL_H

#include "base/cpu.h"
#include "base/dtype.h"
#include "kernel/attention_kernels.h"
#include "kernel/indexer_kernels.h"
#include "kernel/moe_kernels.h"
#include "kernel/panel_kernels.h"

struct ag_kernels {
    enum ag_isa isa;
    enum ag_panel panel_of[AG_ELEM_COUNT]; /* the panel type in which inputs of an element type are computed */
    struct ag_panel_kernels panel[AG_PANEL_COUNT];
    struct ag_row_kernels rows[AG_ELEM_COUNT];
    struct ag_moe_kernels moe;
    struct ag_indexer_kernels indexer[AG_PANEL_COUNT];
    void (*indexer_weigh)(const struct ag_indexer_weigh *weigh);
    struct ag_attention_kernels attention;

    /* Around a task's products of panels, on the thread that makes them: tile registers are set up and given back. */
    void (*begin_task)(void);
    void (*end_task)(void);

    /* rows x cols floats: to[i] = e^from[i]; for tests of simd_exp.h. In place is fine. */
    void (*exp)(float *to, const float *from, int64_t count);
};

/* The table of an instruction set; NULL when this build or this CPU has none. */
const struct ag_kernels *ag_kernels_for(enum ag_isa isa);

/* The table in force: the configured instruction set. Never NULL. */
const struct ag_kernels *ag_kernels_current(void);

#endif
