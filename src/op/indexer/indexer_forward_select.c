/* The best scores of a row, in order, in time linear in their number: bits that order as the scores do are counted
 * digit by digit until the last one kept is known, and those kept are sorted digit by digit. Both are stable. */
#include <stdbool.h>
#include <string.h>

#include "base/half.h"
#include "op/indexer/indexer_forward.h"

#define SIGN 0x80000000u

/* Unsigned numbers in the order of the scores, NaN below all. Without branches: signs are as good as random. */
static inline uint32_t rank_of(float score)
{
    const uint32_t bits = ag_bits_of_float(score + 0.0f); /* -0 becomes 0: they are equal */
    const uint32_t rank = bits ^ ((0u - bits / SIGN) | SIGN);
    const uint32_t is_number = score == score;
    return rank & (0u - is_number);
}

float indexer_score_of(uint32_t rank)
{
    return ag_float_of_bits(rank & SIGN ? rank & ~SIGN : ~rank); /* ~0 is a NaN */
}

/* --- which are kept ----------------------------------------------------------------------------------------- */

/* Kept are ranks whose leading digits are above `digits`, and the first `equal` of those that have them. */
struct border {
    uint32_t digits, mask;
    int64_t equal;
};

/* The digit at `shift` of those that share the border's digits: where, counted from the top, the border lies. */
static void count_digit(uint32_t *histogram, const float *scores, int64_t keys, int shift, uint32_t digit_mask,
                        struct border *border)
{
    memset(histogram, 0, INDEXER_BINS * sizeof *histogram);
    for (int64_t t = 0; t < keys; ++t) {
        const uint32_t rank = rank_of(scores[t]);
        histogram[rank >> shift & digit_mask] += (rank & border->mask) == border->digits;
    }
    uint32_t digit = digit_mask;
    for (; histogram[digit] < border->equal; --digit) {
        border->equal -= histogram[digit];
    }
    border->digits |= digit << shift;
    border->mask |= digit_mask << shift;
}

static struct border find_border(uint32_t *histogram, const float *scores, int64_t keys, int64_t count)
{
    static const struct {
        int shift;
        uint32_t mask;
    } digits[] = {{21, 0x7ff}, {10, 0x7ff}, {0, 0x3ff}};
    struct border border = {.equal = count};
    for (int i = 0; i < 3 && count < keys; ++i) {
        count_digit(histogram, scores, keys, digits[i].shift, digits[i].mask, &border);
    }
    return border;
}

/* In the order of the keys. Without a mask all ranks are equal to the border, so all are kept. */
static void keep(const struct indexer_selection *s, const float *scores, int64_t keys, struct border border)
{
    int64_t kept = 0;
    for (int64_t t = 0; t < keys; ++t) {
        const uint32_t rank = rank_of(scores[t]), digits = rank & border.mask;
        const bool is_equal = digits == border.digits && border.equal > 0;
        s->ranks[kept] = rank; /* one place more than is kept */
        s->numbers[kept] = (int32_t)t;
        border.equal -= is_equal;
        kept += is_equal || digits > border.digits;
    }
}

/* --- in order ----------------------------------------------------------------------------------------------- */

enum { DIGIT = 8, VALUES = 1 << DIGIT };

/* Highest digit first. */
static uint32_t digit_at(uint32_t rank, int shift)
{
    return VALUES - 1 - (rank >> shift & (VALUES - 1));
}

static void sort_by_digit(struct indexer_selection *s, int64_t count, int shift)
{
    memset(s->histogram, 0, VALUES * sizeof *s->histogram);
    for (int64_t j = 0; j < count; ++j) {
        ++s->histogram[digit_at(s->ranks[j], shift)];
    }
    uint32_t place = 0;
    for (int digit = 0; digit < VALUES; ++digit) {
        const uint32_t here = s->histogram[digit];
        s->histogram[digit] = place;
        place += here;
    }
    for (int64_t j = 0; j < count; ++j) {
        const uint32_t to = s->histogram[digit_at(s->ranks[j], shift)]++;
        s->other_ranks[to] = s->ranks[j];
        s->other_numbers[to] = s->numbers[j];
    }
}

/* An even number of digits: the result is where it began. */
static void sort(const struct indexer_selection *selection, int64_t count)
{
    struct indexer_selection s = *selection;
    for (int shift = 0; shift < 32; shift += DIGIT) {
        sort_by_digit(&s, count, shift);
        uint32_t *const ranks = s.ranks;
        int32_t *const numbers = s.numbers;
        s.ranks = s.other_ranks;
        s.numbers = s.other_numbers;
        s.other_ranks = ranks;
        s.other_numbers = numbers;
    }
}

void indexer_select(const struct indexer_selection *s, const float *scores, int64_t keys, int64_t count)
{
    keep(s, scores, keys, find_border(s->histogram, scores, keys, count));
    sort(s, count);
}
