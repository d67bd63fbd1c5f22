/* A steady clock. */
#ifndef AG_BASE_CLOCK_H
#define AG_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since some fixed moment; never goes back. */
int64_t ag_clock_ns(void);

#endif
