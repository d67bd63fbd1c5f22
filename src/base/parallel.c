#include "base/parallel.h"

#include <fenv.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/pool.h"

struct job {
    ag_parallel_body *body;
    void *context;
    int64_t items;
    _Atomic int64_t next;
};

/* One lane: takes items until none is left. */
static void run_lane(void *job_pointer, size_t lane)
{
    struct job *job = job_pointer;
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV); /* nearest, no flush-to-zero: bits must not depend on the host program */
    for (;;) {
        const int64_t item = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        if (item >= job->items) {
            break;
        }
        job->body(job->context, item, (int)lane);
    }
    fesetenv(&callers);
}

void ag_parallel_for(int lanes, int64_t items, ag_parallel_body *body, void *context)
{
    struct job job = {.body = body, .context = context, .items = items};
    atomic_init(&job.next, 0);
    if (items < lanes) {
        lanes = items < 1 ? 1 : (int)items;
    }
    if (lanes == 1) {
        run_lane(&job, 0);
    } else {
        ag_pool_run(lanes, run_lane, &job);
    }
}

struct ag_range ag_share(int64_t total, int64_t part, int64_t parts)
{
    const int64_t size = total / parts, rest = total % parts;
    const int64_t begin = part * size + (part < rest ? part : rest);
    return (struct ag_range){.begin = begin, .end = begin + size + (part < rest)};
}
