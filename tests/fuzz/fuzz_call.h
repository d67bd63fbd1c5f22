/* Checks of a recorded call that a reader has taken. */
#ifndef AG_TESTS_FUZZ_CALL_H
#define AG_TESTS_FUZZ_CALL_H

#include "recorded.h"

/* Its problem can be written and read again; its inputs can be inspected, run and defined, or are refused with a
 * reason. Destroys the call. */
void fuzz_check_call(struct call *call);

#endif
