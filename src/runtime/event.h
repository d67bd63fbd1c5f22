#ifndef AG_RUNTIME_EVENT_H
#define AG_RUNTIME_EVENT_H

/* For aclFinalize. The caller holds AG_LOCK_RUNTIME. */
void ag_event_destroy_all(void);

#endif
