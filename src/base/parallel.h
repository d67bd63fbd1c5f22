/* The one way to use several threads: a process-wide pool (Debian's libpthreadpool), lanes and items.
 *
 * ag_parallel_for(lanes, items, body, context) equals
 *
 *     for (int64_t item = 0; item < items; ++item) body(context, item, lane);
 *
 * with items in any order, spread over `lanes` lanes in [0, lanes): a lane runs one item at a time, so scratch
 * indexed by lane needs no lock. Which lane gets an item is not repeatable: results may depend on the item only.
 * Items are handed out in ascending order, so put the longest first. The call returns when all are done.
 *
 * Every item runs with round-to-nearest and without flush-to-zero, whatever the caller's floating-point control
 * word is; it is restored afterwards. Several threads may call at once (they take turns). A child process of
 * fork() gets a fresh pool. lanes == 1 runs in the calling thread, and is the only call that an item may make itself.
 * Never fails: without memory for a pool the lanes run one after the other. */
#ifndef AG_BASE_PARALLEL_H
#define AG_BASE_PARALLEL_H

#include <stdint.h>

typedef void ag_parallel_body(void *context, int64_t item, int lane);

void ag_parallel_for(int lanes, int64_t items, ag_parallel_body *body, void *context);

/* The part-th of `parts` nearly equal consecutive ranges of [0, total). */
struct ag_range {
    int64_t begin, end;
};
struct ag_range ag_share(int64_t total, int64_t part, int64_t parts);

#endif
