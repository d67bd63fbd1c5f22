#include "base/pool.h"

#include <pthread.h>
#include <pthreadpool.h>

/* One pool for the process, as large as the largest request so far: it only grows, and threads without a lane
 * sleep. The lock is held while a job runs, so callers take turns. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthreadpool_t pool;
static int pool_threads;
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
}

void ag_pool_run(int lanes, void (*lane)(void *context, size_t index), void *context)
{
    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&lock);
    ensure_pool(lanes);
    pthreadpool_parallelize_1d(pool, lane, context, (size_t)lanes, 0);
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void destroy_pool(void)
{
    if (pool) {
        pthreadpool_destroy(pool);
        pool = NULL;
    }
}
