/* What the user sees: a line that lives, a table at the end, and the curve as CSV. */
#ifndef TRAIN_TEXT_REPORT_H
#define TRAIN_TEXT_REPORT_H

#include <stdio.h>

#include "model.h"

struct report {
    FILE *curve; /* NULL: none */
    bool is_terminal;
    double unigram;                  /* loss of guessing by frequency alone */
    double began, told;              /* device_clock() */
    int64_t steps, tokens;           /* of this run */
    double first_loss, first_recall; /* means of the first steps */
    double loss, recall, divergence; /* running means */
};

/* false when the curve's file cannot be made. */
bool report_begin(struct report *report, const char *curve, const struct text *text, const struct model *model);
void report_step(struct report *report, int64_t step, const struct model *model);

/* The table; held_out: loss on text that was not trained on. false when the curve was not written. */
bool report_end(struct report *report, int64_t step, double held_out);

#endif
