#include "real.h"

#include <math.h>
#include <stdio.h>

void *zeroed(int64_t count, size_t size)
{
    void *memory = calloc(count > 0 ? (size_t)count : 1, size);
    if (!memory) {
        fprintf(stderr, "train_text: no memory for %lld times %zu bytes\n", (long long)count, size);
        exit(1);
    }
    return memory;
}

/* A bijection of 64 bits without visible order: xor-shifts and odd multipliers. */
static uint64_t scramble(uint64_t bits)
{
    bits ^= bits >> 32;
    bits *= UINT64_C(0xd6e8feb86659fd93);
    bits ^= bits >> 32;
    bits *= UINT64_C(0xd6e8feb86659fd93);
    return bits ^ bits >> 32;
}

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio: spreads neighbours */
    return scramble(scramble(scramble(seed + odd) + stream * odd) + index * odd);
}

double random_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(random_bits(seed, stream, index) >> 11) * 0x1p-53;
}

double random_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    const double radius = sqrt(-2 * log(1 - random_uniform(seed, stream, 2 * index)));
    return radius * cos(6.283185307179586 * random_uniform(seed, stream, 2 * index + 1));
}
