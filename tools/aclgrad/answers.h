/* What check and replay hold against each other: the fast result, the definition with its bounds, and the result rounded as on
 * the device. */
#ifndef ACLGRAD_ANSWERS_H
#define ACLGRAD_ANSWERS_H

#include "call.h"

struct answers {
    struct tensor_set fast, values, bounds, device; /* device: empty unless it was asked for */
};

/* Computes them, with the command's name on the progress line. False after cli_fail; the answers are the caller's to
 * destroy either way. */
bool answers_compute(struct answers *answers, const struct call *call, const char *command, bool with_device);

void answers_destroy(struct answers *answers);

#endif
