/* All that training needs to go on as if it had never stopped, in one file:
 *
 *     magic, struct header (little-endian, no padding), values, first moments, second moments, biases, checksum of all that
 *
 * Written under a temporary name and renamed, so that a name always leads to a whole checkpoint. */
#ifndef TRAIN_TEXT_CHECKPOINT_H
#define TRAIN_TEXT_CHECKPOINT_H

#include <stdbool.h>

#include "model.h"

struct progress {
    int64_t step; /* steps done */
    uint64_t seed, text_checksum;
    double rate; /* the largest learning rate */
};

uint64_t checksum(uint64_t before, const void *bytes, size_t count); /* FNV-1a; before: 0 to begin */

/* Whether a checkpoint can be made there: better known before the training than behind it. */
bool checkpoint_try(const char *path);

/* false with a message on stderr when it cannot be written; what was there before is kept then. */
bool checkpoint_save(const char *path, const struct model *model, const struct progress *progress);

/* false with a message when the file is no checkpoint, is cut off or damaged, or belongs to another model, seed, rate
 * or text; the model is untouched then. Sets progress->step. */
bool checkpoint_load(const char *path, struct model *model, struct progress *progress);

#endif
