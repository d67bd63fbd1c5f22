#include "base/check.h"

bool ag_product(int64_t *product, int count, const int64_t *factors)
{
    int64_t result = 1;
    bool fits = true;
    bool has_zero = false;
    for (int i = 0; i < count; ++i) {
        if (factors[i] < 0) {
            return false;
        }
        has_zero = has_zero || factors[i] == 0;
        fits = fits && !__builtin_mul_overflow(result, factors[i], &result);
    }
    *product = has_zero ? 0 : result;
    return has_zero || fits;
}
