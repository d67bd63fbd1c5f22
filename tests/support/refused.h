/* For tests of the run time: one line per refusal, and the switches of the environment. A file that includes this
 * defines _DEFAULT_SOURCE first (putenv). */
#ifndef AG_TESTS_SUPPORT_REFUSED_H
#define AG_TESTS_SUPPORT_REFUSED_H

#include <stdlib.h>

#include "base/config.h"
#include "base/status.h"
#include "support/support.h"

/* The call returns `status`, and the message starts with a code and contains each of the texts. */
#define REFUSED(status, call, ...)                                                                                   \
    do {                                                                                                             \
        assert_int_equal((call), (status));                                                                          \
        test_assert_message("EZ", __VA_ARGS__, NULL);                                                                \
    } while (0)

/* A call that hands out an object gives none, and says why. */
#define NONE(call, ...)                                                                                              \
    do {                                                                                                             \
        assert_null(call);                                                                                           \
        test_assert_message("EZ", __VA_ARGS__, NULL);                                                                \
    } while (0)

#define DONE(call) assert_int_equal((call), 0)

/* Sets ACLGRAD_ASYNC and ACLGRAD_DEBUG as if the process had started with them. */
static inline void test_set_mode(bool is_async, bool is_debug)
{
    static char async_on[] = "ACLGRAD_ASYNC=1", async_off[] = "ACLGRAD_ASYNC=0";
    static char debug_on[] = "ACLGRAD_DEBUG=1", debug_off[] = "ACLGRAD_DEBUG=0";
    putenv(is_async ? async_on : async_off);
    putenv(is_debug ? debug_on : debug_off);
    ag_config_reload();
}

#endif
