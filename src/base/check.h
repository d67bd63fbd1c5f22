/* One line per check: condition, status, then a message that names the argument, what it got, what it wanted. */
#ifndef AG_BASE_CHECK_H
#define AG_BASE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* AG_REQUIRE(p->dim == 128, INVALID, "query: head dim %lld, want 128", (long long)p->dim); */
#define AG_REQUIRE(condition, status, ...)                                                                           \
    do {                                                                                                             \
        if (!(condition)) {                                                                                          \
            ag_fail(AG_##status, __VA_ARGS__);                                                                       \
            return AG_##status; /* a constant, so that compilers see that this is not AG_OK */                       \
        }                                                                                                            \
    } while (0)

/* Forwards a failure; the callee has written the message. */
#define AG_TRY(call)                                                                                                 \
    do {                                                                                                             \
        const ag_status ag_try_status = (call);                                                                      \
        if (ag_try_status != AG_OK) {                                                                                \
            return ag_try_status;                                                                                    \
        }                                                                                                            \
    } while (0)

/* *product = factors[0] * ... * factors[count-1]; false when it does not fit int64 or a factor is negative.
 * A zero factor gives 0 even if the others alone would overflow. */
bool ag_product(int64_t *product, int count, const int64_t *factors);

#endif
