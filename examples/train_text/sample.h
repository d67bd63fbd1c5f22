/* Text that the model writes. */
#ifndef TRAIN_TEXT_SAMPLE_H
#define TRAIN_TEXT_SAMPLE_H

#include "model.h"

/* Prints the prompt and `count` more bytes, each drawn from what the model expects behind the last `context` bytes. Bytes that
 * a terminal would not show are printed as '?'. */
void sample_print(const struct model *model, const char *prompt, int64_t count, uint64_t seed);

#endif
