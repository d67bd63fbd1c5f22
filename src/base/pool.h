/* The threads behind base/parallel.h. Two implementations, one is linked: pool_pthreadpool.c, and pool_serial.c
 * for machines without the library (and for the memory sanitizer, which cannot see into it). */
#ifndef AG_BASE_POOL_H
#define AG_BASE_POOL_H

#include <stddef.h>

/* Calls lane(context, i) for i in [0, lanes), at the same time where threads allow, and waits for all. */
void ag_pool_run(int lanes, void (*lane)(void *context, size_t index), void *context);

#endif
