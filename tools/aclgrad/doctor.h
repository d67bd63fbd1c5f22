/* The self-checks of a call's inputs, as doctor and `replay --inspect` print them. */
#ifndef ACLGRAD_DOCTOR_H
#define ACLGRAD_DOCTOR_H

#include "call.h"

/* Prints the findings; *has_errors: one of them is an error. */
bool doctor_print(struct call *call, bool *has_errors);

#endif
