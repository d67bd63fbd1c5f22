#define _DEFAULT_SOURCE /* dup2, fileno */
#include "support/support.h"

#include <stdio.h>
#include <unistd.h>

struct test_stderr test_stderr_begin(void)
{
    struct test_stderr kept = {.file = tmpfile()};
    assert_non_null(kept.file);
    fflush(stderr);
    kept.descriptor = dup(STDERR_FILENO);
    assert_true(kept.descriptor >= 0 && dup2(fileno(kept.file), STDERR_FILENO) >= 0);
    return kept;
}

void test_stderr_end(struct test_stderr kept, char *text, size_t bytes)
{
    fflush(stderr);
    dup2(kept.descriptor, STDERR_FILENO);
    close(kept.descriptor);
    rewind(kept.file);
    text[fread(text, 1, bytes - 1, kept.file)] = '\0';
    fclose(kept.file);
}
