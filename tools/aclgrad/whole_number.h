/* Whole numbers as text, more strictly than strtoll reads them. */
#ifndef ACLGRAD_WHOLE_NUMBER_H
#define ACLGRAD_WHOLE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `length` characters: digits, a minus before them or not, nothing else; false also when int64 does not hold them. */
bool whole_number(const char *text, size_t length, int64_t *value);

#endif
