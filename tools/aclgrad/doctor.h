/* The self-checks of a call, as doctor and, for the inputs alone, `replay --inspect` print them. */
#ifndef ACLGRAD_DOCTOR_H
#define ACLGRAD_DOCTOR_H

#include "call.h"

/* Prints the findings; *has_errors: one of them is an error. */
bool doctor_print(struct call *call, bool with_outputs, bool *has_errors);

#endif
