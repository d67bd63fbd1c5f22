/* Which instruction sets this CPU (and its operating system) can run. */
#ifndef AG_BASE_CPU_H
#define AG_BASE_CPU_H

#include <stdbool.h>

#include "base/isa_list.h"

enum ag_isa {
#define AG_ISA_ENUM(NAME, name, text) AG_ISA_##NAME,
    AG_ISA_LIST(AG_ISA_ENUM)
#undef AG_ISA_ENUM
        AG_ISA_COUNT
};

/* "avx2" */
const char *ag_isa_name(enum ag_isa isa);

/* AG_ISA_COUNT for a name that is none of the list. */
enum ag_isa ag_isa_by_name(const char *name);

bool ag_cpu_has_isa(enum ag_isa isa);

/* The one used when nobody chooses. */
enum ag_isa ag_cpu_best_isa(void);

/* "scalar, avx2" : those this CPU has; text lives for ever. */
const char *ag_cpu_isa_names(void);

#endif
