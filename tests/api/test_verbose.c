/* labels: smoke ci */
/* ACLGRAD_VERBOSE with every operator: what was refused, what was planned, what ran; nothing when nobody asks. */
#define _DEFAULT_SOURCE /* setenv */
#include "support/operators.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void verbose(const char *events)
{
    setenv("ACLGRAD_VERBOSE", events, 1);
    ag_config_reload();
}

/* What a call that is refused (`is_good`: one that is not) says. */
static const char *told_by(struct test_operators *all, enum test_operator op, bool is_good)
{
    static char text[8192];
    aclOpExecutor *executor;
    const struct test_stderr kept = test_stderr_begin();
    const aclnnStatus status =
        is_good ? test_operators_run(all, op, NULL) : test_operators_phase1(all, op, NULL, &executor);
    test_stderr_end(kept, text, sizeof text);
    assert_int_equal(status, is_good ? 0 : 161001);
    return text;
}

static void assert_told(enum test_operator op, const char *told, const char *event, const char *text)
{
    static const char *const names[] = {[TEST_MOE] = "aclnnMoeTokenUnpermuteWithEpGrad",
                                        [TEST_INDEXER] = "aclnnLightningIndexerGrad",
                                        [TEST_ATTENTION] = "aclnnFlashAttentionUnpaddingScoreGradV3"};
    char start[128];
    snprintf(start, sizeof start, "aclgrad,%s,%s,%s", event, names[op], text);
    if (!strstr(told, start)) {
        fail_msg("\"%s\" lacks \"%s\"", told, start);
    }
}

static void every_operator_tells_what_is_asked_for(void **state)
{
    struct test_operators all;
    (void)state;
    test_operators_create(&all, 1);
    for (int i = 0; i < TEST_OPERATORS; ++i) {
        const enum test_operator op = (enum test_operator)i;
        verbose("");
        assert_string_equal(told_by(&all, op, false), "");
        assert_string_equal(told_by(&all, op, true), "");
        verbose("check");
        assert_told(op, told_by(&all, op, false), "check", "status=161001 EZ1001: ");
        assert_non_null(strstr(told_by(&all, op, false), "GetWorkspaceSize: workspaceSize: got null"));
        assert_non_null(aclGetRecentErrMsg()); /* telling does not take it */
        assert_string_equal(told_by(&all, op, true), "");
        verbose("plan");
        assert_string_equal(told_by(&all, op, false), "");
        assert_told(op, told_by(&all, op, true), "plan", "");
        verbose("run");
        assert_told(op, told_by(&all, op, true), "run", "status=0 ms=");
        aclGetRecentErrMsg();
    }
    verbose("");
    test_operators_destroy(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_operator_tells_what_is_asked_for)};
    return cmocka_run_group_tests_name("verbose", tests, NULL, NULL);
}
