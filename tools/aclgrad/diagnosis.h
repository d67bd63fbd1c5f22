/* From wrong elements to a sentence: what kind of damage, and where. A finding is a guess that was tested against the
 * numbers; without one the worst elements and the map must do. */
#ifndef ACLGRAD_DIAGNOSIS_H
#define ACLGRAD_DIAGNOSIS_H

#include "axes.h"
#include "comparison.h"

enum { DIAGNOSIS_TEXT = 320, MOST_FINDINGS = 8 };

struct diagnosis {
    int count;
    struct finding {
        const char *code; /* "scaled", "swapped", "shifted", "confined", "reordered", "not-finite", "zero" */
        char text[DIAGNOSIS_TEXT];
    } findings[MOST_FINDINGS];
};

/* Looks at a comparison that failed. */
void diagnose(const struct comparison_sides *sides, const struct standard *standard, const struct axes *axes,
              struct diagnosis *diagnosis);

#endif
