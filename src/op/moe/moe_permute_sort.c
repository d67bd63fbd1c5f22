#include "op/moe/moe_permute.h"

#include <string.h>

static int64_t expert_of_slot(const struct moe_permute_problem *p, int64_t token, int64_t k)
{
    const struct ag_view *indices = &p->indices;
    const int64_t at = token * indices->strides[0] + (indices->rank == 2 ? k * indices->strides[1] : 0);
    const void *data = ag_view_origin(indices);
    return indices->dtype == AG_INT64 ? ((const int64_t *)data)[at] : ((const int32_t *)data)[at];
}

/* Experts as distances from the smallest one, which always fit. Returns the largest distance. */
static uint64_t make_keys(const struct moe_permute_problem *p, uint64_t *keys)
{
    int64_t lowest = INT64_MAX, highest = INT64_MIN;
    for (int64_t token = 0, slot = 0; token < p->tokens_count; ++token) {
        for (int64_t k = 0; k < p->topk; ++k, ++slot) {
            const int64_t expert = expert_of_slot(p, token, k);
            lowest = expert < lowest ? expert : lowest;
            highest = expert > highest ? expert : highest;
            keys[slot] = (uint64_t)expert;
        }
    }
    for (int64_t slot = 0; slot < p->slots; ++slot) {
        keys[slot] -= (uint64_t)lowest;
    }
    return (uint64_t)highest - (uint64_t)lowest;
}

static uint64_t digit_of(uint64_t key, int shift)
{
    return key >> shift & (MOE_SORT_DIGITS - 1);
}

/* starts[d] = number of keys with a smaller digit. */
static void count_digits(const uint64_t *keys, int64_t count, int shift, int32_t *starts)
{
    int32_t start = 0;
    memset(starts, 0, MOE_SORT_DIGITS * sizeof *starts);
    for (int64_t slot = 0; slot < count; ++slot) {
        ++starts[digit_of(keys[slot], shift)];
    }
    for (int d = 0; d < MOE_SORT_DIGITS; ++d) {
        const int32_t keys_of_digit = starts[d];
        starts[d] = start;
        start += keys_of_digit;
    }
}

void moe_permute_sort(const struct moe_permute_problem *p, const struct moe_sort_scratch *scratch)
{
    int32_t *positions = ag_view_origin(&p->sorted_indices);
    int32_t *order = scratch->order, *next = scratch->next;
    const uint64_t span = make_keys(p, scratch->keys);
    int shift = 0;
    for (int64_t slot = 0; slot < p->slots; ++slot) {
        order[slot] = (int32_t)slot;
    }
    for (; span >> shift >= MOE_SORT_DIGITS; shift += MOE_SORT_BITS) { /* the digit at `shift` is not the last */
        count_digits(scratch->keys, p->slots, shift, scratch->starts);
        for (int64_t i = 0; i < p->slots; ++i) {
            next[scratch->starts[digit_of(scratch->keys[order[i]], shift)]++] = order[i];
        }
        int32_t *const previous = order;
        order = next;
        next = previous;
    }
    count_digits(scratch->keys, p->slots, shift, scratch->starts);
    for (int64_t i = 0; i < p->slots; ++i) {
        positions[order[i]] = scratch->starts[digit_of(scratch->keys[order[i]], shift)]++;
    }
}
