#define _DEFAULT_SOURCE
#include "support/support.h"

#include <unistd.h>

#ifdef AG_TEST_COVERAGE
#    include <gcov.h>
#endif

void test_exit_child(int code)
{
#ifdef AG_TEST_COVERAGE
    __gcov_dump();
#endif
    _exit(code);
}
