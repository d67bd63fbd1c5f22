/* A recorded call's outputs against its answers, as replay and doctor judge them. */
#ifndef ACLGRAD_JUDGEMENT_H
#define ACLGRAD_JUDGEMENT_H

#include "answers.h"
#include "verdict.h"

/* Each recorded output must lie within the definition's bounds, or within them of the device's rounding. For what does
 * not the verdict gets findings: of the damaged tensor itself, and of readings of the inputs under which it is right. */
bool judge_recorded(struct call *call, const struct answers *answers, struct verdict *verdict);

#endif
