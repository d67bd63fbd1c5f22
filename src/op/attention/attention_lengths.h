/* The length lists of a pack: cumulative ends, one per sequence.
 *
 *     [2, 5, 9]         three sequences of 2, 3 and 4 rows
 *     [2, 4, 4, 6]      the third is empty
 *     [2, 5, 9, 0, 0]   a zero tail: once a 0 follows a positive end, all others must be 0, and are empty
 *     [0, 0, 3]         not a tail: two empty sequences, then one of 3 rows
 */
#ifndef AG_OP_ATTENTION_LENGTHS_H
#define AG_OP_ATTENTION_LENGTHS_H

#include "op/attention/attention.h"

struct attention_lengths {
    const char *name;    /* the argument, for messages */
    const int64_t *ends; /* lives as long as the caller's array */
    int64_t count;
    int64_t live_count; /* sequences before the zero tail */
    int64_t sum;        /* the last end before the zero tail */
};

/* Reads and checks one list against the rows of its tensors: 161001 when absent or of size 0, 161002 when it falls
 * or ends past `rows`. */
ag_status attention_read_lengths(const aclIntArray *array, const char *name, int64_t rows,
                                 struct attention_lengths *lengths);

/* Lays the sequences out: begins and lengths. Both lists have `count` entries. */
void attention_lay_out_sequences(const struct attention_lengths *query, const struct attention_lengths *key,
                                 struct attention_sequence *sequences);

#endif
