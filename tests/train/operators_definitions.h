/* examples/train_text/train_operators.h by the operators' definitions in double, in place of the API. */
#ifndef AG_TESTS_OPERATORS_DEFINITIONS_H
#define AG_TESTS_OPERATORS_DEFINITIONS_H

#include <stdbool.h>

#include "train_operators.h"

/* The indexer scores the keys that its index names already, instead of selecting. */
extern bool definitions_keep_selection;

#endif
