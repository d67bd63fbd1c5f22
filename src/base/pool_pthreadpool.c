#include "base/pool.h"

#include <pthread.h>
#include <pthreadpool.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"

/* The thread sanitizer cannot see into pthreadpool: it is told when a job goes to the lanes and comes back. */
#if defined(__SANITIZE_THREAD__)
#    define AG_HAS_TSAN 1
#elif defined(__has_feature)
#    if __has_feature(thread_sanitizer)
#        define AG_HAS_TSAN 1
#    endif
#endif
#ifdef AG_HAS_TSAN
#    include <sanitizer/tsan_interface.h>
#    define AG_HAND_OVER(job) __tsan_release(job)
#    define AG_TAKE_OVER(job) __tsan_acquire(job)
#else
#    define AG_HAND_OVER(job) ((void)(job))
#    define AG_TAKE_OVER(job) ((void)(job))
#endif

/* One pool for the process, as large as the largest request so far: it only grows, and threads without a lane
 * sleep. The lock is held while a job runs, so callers take turns. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthreadpool_t pool;
static int pool_threads;
static uint32_t pool_flags;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* fork(): the child has none of the pool's threads, so it forgets the pool (its memory is lost, not freed: the
 * library would wait for threads that do not exist). The lock is taken across fork so that it is consistent. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    pool = NULL;
    pool_threads = 0;
    pthread_mutex_unlock(&lock);
}

static void register_fork_handlers(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void ensure_pool(int lanes)
{
    if (pool && pool_threads >= lanes) {
        return;
    }
    if (pool) {
        pthreadpool_destroy(pool);
    }
    pool = pthreadpool_create((size_t)lanes); /* NULL: pthreadpool then runs the lanes in this thread */
    pool_threads = pool ? lanes : 0;
    /* Idle threads spin for a while before they sleep. With more threads than CPUs they would keep the working ones
     * from a CPU: 7 threads on 2 CPUs took 10 ms an empty job, and 0.1 ms so. */
    pool_flags = lanes > ag_cpu_count() ? PTHREADPOOL_FLAG_YIELD_WORKERS : 0;
}

struct lane_job {
    void (*lane)(void *context, size_t index);
    void *context;
};

static void run_lane(void *job_pointer, size_t index)
{
    const struct lane_job *job = job_pointer;
    AG_TAKE_OVER(job_pointer);
    job->lane(job->context, index);
    AG_HAND_OVER(job_pointer);
}

void ag_pool_run(int lanes, void (*lane)(void *context, size_t index), void *context)
{
    struct lane_job job = {lane, context};
    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&lock);
    ensure_pool(lanes);
    AG_HAND_OVER(&job);
    pthreadpool_parallelize_1d(pool, run_lane, &job, (size_t)lanes, pool_flags);
    AG_TAKE_OVER(&job);
    pthread_mutex_unlock(&lock);
}

/* After the destructors without priority, which wait for tasks that still use the pool. A thread that runs a job
 * even now keeps it: waiting for it could last for ever. */
__attribute__((destructor(101))) static void destroy_pool(void)
{
    if (pthread_mutex_trylock(&lock) != 0) {
        return;
    }
    if (pool) {
        pthreadpool_destroy(pool);
        pool = NULL;
        pool_threads = 0;
    }
    pthread_mutex_unlock(&lock);
}
