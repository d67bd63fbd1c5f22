/* A gate that a stream's task waits at until the test opens it: makes "not finished yet" a certain state. */
#ifndef AG_TESTS_SUPPORT_GATE_H
#define AG_TESTS_SUPPORT_GATE_H

#include <pthread.h>
#include <stdbool.h>

#include "acl/acl.h"
#include "support/support.h"

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_open;
    bool is_reached; /* a task waits at it */
};

static inline struct gate gate_closed(void)
{
    return (struct gate){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
}

static inline void gate_pass(void *gate_pointer)
{
    struct gate *gate = gate_pointer;
    pthread_mutex_lock(&gate->lock);
    gate->is_reached = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->is_open) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
}

static inline void gate_wait_until_reached(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (!gate->is_reached) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
}

static inline void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

/* The stream's next task waits at the gate. */
static inline void gate_block(struct gate *gate, aclrtStream stream)
{
    assert_int_equal(aclrtLaunchHostFunc(stream, gate_pass, gate), 0);
}

#endif
