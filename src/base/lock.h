/* The process-wide locks. They survive fork(): a child finds them free and what they guard consistent. */
#ifndef AG_BASE_LOCK_H
#define AG_BASE_LOCK_H

#include <pthread.h>

/* In the order in which a thread may take one while it holds another. */
enum ag_lock_name { AG_LOCK_RUNTIME, AG_LOCK_HANDLES, AG_LOCK_MEMORY, AG_LOCK_CONFIG, AG_LOCK_COUNT };

void ag_lock(enum ag_lock_name name);
void ag_unlock(enum ag_lock_name name);

/* For a condition variable to wait with. */
pthread_mutex_t *ag_lock_mutex(enum ag_lock_name name);

#endif
