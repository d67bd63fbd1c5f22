/* What the self-checks of the operators share. */
#ifndef ACLGRAD_INSPECT_H
#define ACLGRAD_INSPECT_H

#include "call.h"

/* NaN, infinities and the largest numbers of the type, with the place of the first. The tensor falls into parts of
 * part_elems elements; those whose is_live is 0 are never read and do not count. is_live NULL: all are read. */
void inspect_numbers(const struct tensor *tensor, const struct axes *axes, const char *is_live, int64_t part_elems,
                     const struct findings *findings);

#endif
