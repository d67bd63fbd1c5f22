#include "support/support.h"

#include <math.h>

struct test_random test_random_seed(uint64_t seed)
{
    return (struct test_random){.state = seed};
}

/* splitmix64: a counter through a mixing function, so any seed is a good seed. */
uint64_t test_random_bits(struct test_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t test_random_below(struct test_random *random, int64_t count)
{
    return (int64_t)(test_random_bits(random) % (uint64_t)count);
}

int64_t test_random_between(struct test_random *random, int64_t lowest, int64_t highest)
{
    return lowest + test_random_below(random, highest - lowest + 1);
}

double test_random_uniform(struct test_random *random)
{
    return (double)(test_random_bits(random) >> 11) * 0x1p-52 - 1.0;
}

double test_random_normal(struct test_random *random)
{
    double u, v, s;
    do { /* the polar method: a point in the unit disc */
        u = test_random_uniform(random);
        v = test_random_uniform(random);
        s = u * u + v * v;
    } while (s >= 1.0 || s == 0.0);
    return u * sqrt(-2.0 * log(s) / s);
}

void test_random_permutation(struct test_random *random, int64_t count, int32_t *indices)
{
    for (int64_t i = 0; i < count; ++i) {
        indices[i] = (int32_t)i;
    }
    for (int64_t i = count - 1; i > 0; --i) {
        const int64_t j = test_random_below(random, i + 1);
        const int32_t swapped = indices[i];
        indices[i] = indices[j];
        indices[j] = swapped;
    }
}
