#include "base/lock.h"

static pthread_mutex_t locks[AG_LOCK_COUNT] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                               PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void take_all(void)
{
    for (int i = 0; i < AG_LOCK_COUNT; ++i) {
        pthread_mutex_lock(&locks[i]);
    }
}

static void release_all(void)
{
    for (int i = AG_LOCK_COUNT - 1; i >= 0; --i) {
        pthread_mutex_unlock(&locks[i]);
    }
}

static void register_fork_handlers(void)
{
    pthread_atfork(take_all, release_all, release_all);
}

void ag_lock(enum ag_lock_name name)
{
    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&locks[name]);
}

void ag_unlock(enum ag_lock_name name)
{
    pthread_mutex_unlock(&locks[name]);
}

pthread_mutex_t *ag_lock_mutex(enum ag_lock_name name)
{
    return &locks[name];
}
