#include <assert.h>

#include "op/attention/attention.h"

#include "base/integer.h"

static int64_t cut(int64_t value, int64_t low, int64_t high)
{
    return ag_larger(low, ag_smaller(value, high));
}

/* --- sparse mode -> interval ----------------------------------------------------------------------------- */

/* Modes 7 and 8 give one sequence the band: the last, or the first, that has queries. -1 when none has. */
static int64_t find_band_sequence(const struct attention_sequence *sequences, int64_t count, int64_t sparse_mode)
{
    int64_t band = -1;
    for (int64_t b = 0; b < count; ++b) {
        const bool is_candidate = sequences[b].query_len > 0;
        if (is_candidate && (band < 0 || sparse_mode == ATTENTION_MODE_RIGHT_BAND_LAST)) {
            band = b;
        }
    }
    return band;
}

/* The mode whose rule the sequence follows. */
static int64_t rule_of(int64_t sparse_mode, bool is_band)
{
    if (sparse_mode != ATTENTION_MODE_RIGHT_BAND_LAST && sparse_mode != ATTENTION_MODE_LEFT_BAND_FIRST) {
        return sparse_mode;
    }
    return is_band                                         ? ATTENTION_MODE_BAND
           : sparse_mode == ATTENTION_MODE_RIGHT_BAND_LAST ? ATTENTION_MODE_CAUSAL_RIGHT
                                                           : ATTENTION_MODE_CAUSAL_LEFT;
}

static void set_interval(struct attention_sequence *sequence, int64_t rule, int64_t pre, int64_t next)
{
    const int64_t shift = sequence->key_len - sequence->query_len; /* the bottom-right corner is on the diagonal */
    sequence->diagonal_low = -2 * ATTENTION_FAR;
    sequence->diagonal_high = 2 * ATTENTION_FAR;
    sequence->prefix = 0;
    switch (rule) {
    case ATTENTION_MODE_DEFAULT:
        sequence->diagonal_low = -pre;
        sequence->diagonal_high = next;
        break;
    case ATTENTION_MODE_CAUSAL_LEFT:
        sequence->diagonal_high = 0;
        break;
    case ATTENTION_MODE_CAUSAL_RIGHT:
    case ATTENTION_MODE_PREFIX:
        sequence->diagonal_high = shift;
        break;
    case ATTENTION_MODE_BAND:
        sequence->diagonal_low = shift - pre;
        sequence->diagonal_high = shift + next;
        break;
    default:
        assert(rule == ATTENTION_MODE_ALL);
    }
}

void attention_set_intervals(struct attention_sequence *sequences, int64_t count, int64_t sparse_mode,
                             int64_t pre_tokens, int64_t next_tokens, const int64_t *prefix, int64_t prefix_count)
{
    const int64_t pre = cut(pre_tokens, -ATTENTION_FAR, ATTENTION_FAR);
    const int64_t next = cut(next_tokens, -ATTENTION_FAR, ATTENTION_FAR);
    const int64_t band = find_band_sequence(sequences, count, sparse_mode);
    for (int64_t b = 0; b < count; ++b) {
        set_interval(&sequences[b], rule_of(sparse_mode, b == band), pre, next);
        if (sparse_mode == ATTENTION_MODE_PREFIX && b < prefix_count) {
            sequences[b].prefix = prefix[b]; /* cut where it is used */
        }
    }
}

/* --- interval -> columns of a row, rows of a column ------------------------------------------------------ */

struct attention_columns attention_visible_columns(const struct attention_sequence *sequence, int64_t row)
{
    const int64_t past = ag_larger(row + sequence->diagonal_high + 1, sequence->prefix);
    struct attention_columns columns = {cut(row + sequence->diagonal_low, 0, sequence->key_len),
                                        cut(past, 0, sequence->key_len)};
    columns.end = ag_larger(columns.begin, columns.end);
    return columns;
}

struct attention_columns attention_visible_rows(const struct attention_sequence *sequence, int64_t column)
{
    const int64_t first = column < sequence->prefix ? 0 : column - sequence->diagonal_high;
    struct attention_columns rows = {cut(first, 0, sequence->query_len),
                                     cut(column - sequence->diagonal_low + 1, 0, sequence->query_len)};
    rows.end = ag_larger(rows.begin, rows.end);
    return rows;
}

/* --- mask bytes ------------------------------------------------------------------------------------------ */

struct attention_mask_row attention_mask_row(const struct attention_problem *problem,
                                             const struct attention_sequence *sequence, int64_t head, int64_t row)
{
    const struct ag_view *mask = &problem->mask;
    if (!problem->has_mask_bytes) {
        return (struct attention_mask_row){NULL, 0};
    }
    assert(mask->rank == 4 && row < mask->dims[2]);
    const int64_t offset = sequence->batch * mask->strides[0] + head * mask->strides[1] + row * mask->strides[2];
    return (struct attention_mask_row){(const uint8_t *)ag_view_origin(mask) + offset, mask->strides[3]};
}

struct attention_columns attention_columns_of_row(const struct attention_problem *problem,
                                                  const struct attention_sequence *sequence, int64_t head,
                                                  int64_t row)
{
    struct attention_columns columns = attention_visible_columns(sequence, row);
    const struct attention_mask_row mask = attention_mask_row(problem, sequence, head, row);
    if (mask.bytes) {
        int64_t column = columns.begin;
        while (column < columns.end && mask.bytes[column * mask.stride] != 0) {
            ++column;
        }
        columns.begin = column; /* the hidden ones in front need no work either */
    }
    return columns;
}
