/* How the rows and keys of a call fall into sequences, and where an element of a tensor lies: what the gradient and
 * the forward share. Lengths are data, so all of this but the addresses is phase 2's. */
#ifndef AG_OP_INDEXER_SEQUENCE_H
#define AG_OP_INDEXER_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/view.h"
#include "kernel/kernel.h"

/* Rows and keys are numbered through: r = b * S1 + s, or the packed token. Lengths are INT32 with `sequences` elements:
 * prefix sums, which must be given, or counts. */
struct indexer_tokens {
    const struct ag_view *query_lengths, *key_lengths;
    const char *query_lengths_name, *key_lengths_name; /* for messages */
    bool is_packed, has_packed_keys;                   /* prefix sums of rows, of keys */
    int64_t sequences, rows, keys;                     /* rows, keys: of all sequences and their padding */
};

/* Rows [row_begin, row_begin + rows) see keys [key_begin, key_begin + live_keys), the first live_rows of them; rows
 * and keys beyond the live ones are padding: their inputs are never read. */
struct indexer_sequence {
    int64_t row_begin, rows, live_rows;
    int64_t key_begin, keys, live_keys;
};

/* Prefix sums neither fall nor leave the tensor: 161002 names the first entry that does. Counts are cut to [0, S], so
 * nothing can be wrong with them. */
ag_status indexer_tokens_check(const struct indexer_tokens *tokens);

/* All sequences together own every row once, in order: behind packed rows the tail is one more, without live rows or
 * keys. */
int64_t indexer_tokens_count(const struct indexer_tokens *tokens);
struct indexer_sequence indexer_tokens_sequence(const struct indexer_tokens *tokens, int64_t number);

/* Keys that the sequence's row s sees in sparse mode 3, where both ends of the sequence are aligned; none in padding. */
int64_t indexer_visible_keys(const struct indexer_sequence *sequence, int64_t s);

/* --- elements -------------------------------------------------------------------------------------------- */

/* Address of element `flat` of the view, counted row-major over its dims. */
void *indexer_element(const struct ag_view *view, int64_t flat);

/* Elements [first, first + count) of a view that is no scalar, counted row-major, to dense memory, bytes unchanged. */
void indexer_gather(void *dense, const struct ag_view *view, int64_t first, int64_t count);

/* [N, D] of one row of a tensor as query. */
struct ag_matrix indexer_heads_of_row(const struct ag_view *view, int64_t row);

/* [1, C] of one row of a tensor whose last dim is C: [1, N] of weights. */
struct ag_matrix indexer_last_of_row(const struct ag_view *view, int64_t row);

/* [count, D] of a tensor as key: `count` keys of one sequence, or any keys of packed ones. */
struct ag_matrix indexer_some_keys(const struct ag_view *view, int64_t first, int64_t count);

#endif
