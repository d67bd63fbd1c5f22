/* labels: smoke ci threads */
/* Status names, and the thread's message: who writes it, who clears it, how long it may be. */
#include "support/support.h"

#include <pthread.h>
#include <string.h>

#include "base/status.h"

static void every_code_has_its_name(void **state)
{
    (void)state;
#define CHECK_NAME(name, number, text)                                                                               \
    assert_string_equal(ag_status_name(number), #name);                                                              \
    assert_int_equal(AG_##name, number);                                                                             \
    assert_true(strlen(text) > 0);
    AG_STATUS_LIST(CHECK_NAME)
#undef CHECK_NAME
    assert_null(ag_status_name(-1));
    assert_null(ag_status_name(161003));
}

static void codes_are_the_documented_ones(void **state)
{
    (void)state;
    assert_int_equal(AG_OK, 0);
    assert_int_equal(AG_NULLPTR, 161001);
    assert_int_equal(AG_INVALID, 161002);
    assert_int_equal(AG_RUNTIME, 361001);
    assert_int_equal(AG_TILING, 561002);
    assert_int_equal(AG_CREATE_EXECUTOR, 561101);
}

static void message_names_code_function_and_text(void **state)
{
    (void)state;
    ag_error_enter("aclnnThing");
    assert_int_equal(ag_fail(AG_INVALID, "topk: got %d, want %s", 7, "8"), AG_INVALID);
    assert_string_equal(ag_error_peek(), "EZ1001: aclnnThing: topk: got 7, want 8");
    ag_error_enter("aclnnOther");
    ag_fail(AG_NULLPTR, "x: null");
    assert_string_equal(ag_error_take(), "EZ1001: aclnnOther: x: null"); /* the last failure wins */
}

static void internal_failures_have_the_internal_code(void **state)
{
    (void)state;
    static const ag_status internal[] = {AG_INNER, AG_RUNTIME, AG_CREATE_EXECUTOR};
    static const ag_status callers_fault[] = {AG_NULLPTR, AG_INVALID, AG_TILING};
    for (int i = 0; i < 3; ++i) {
        ag_fail(internal[i], "x");
        assert_memory_equal(ag_error_take(), "EZ9999: ", 8);
        ag_fail(callers_fault[i], "x");
        assert_memory_equal(ag_error_take(), "EZ1001: ", 8);
    }
}

static void taking_clears_peeking_does_not(void **state)
{
    (void)state;
    ag_error_clear();
    assert_null(ag_error_peek());
    assert_null(ag_error_take());
    ag_fail(AG_INVALID, "x");
    assert_non_null(ag_error_peek());
    assert_non_null(ag_error_peek());
    const char *taken = ag_error_take();
    assert_non_null(strstr(taken, "x")); /* the text outlives the clearing */
    assert_null(ag_error_take());
    ag_fail(AG_INVALID, "y");
    ag_error_clear();
    assert_null(ag_error_take());
}

static void long_messages_are_cut_not_overrun(void **state)
{
    (void)state;
    char text[5000], name[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ag_error_enter("f");
    ag_fail(AG_INVALID, "%s", text);
    assert_int_equal(strlen(ag_error_take()), 1023);
    ag_error_enter(name);
    ag_fail(AG_INVALID, "%s", text);
    assert_int_equal(strlen(ag_error_take()), 1023);
    ag_error_enter("f");
    assert_int_equal(ag_fail_again(AG_RUNTIME, text), AG_RUNTIME);
    assert_int_equal(strlen(ag_error_take()), 1023);
}

static void kept_message_comes_back_as_it_was(void **state)
{
    (void)state;
    ag_error_enter("another");
    assert_int_equal(ag_fail_again(AG_RUNTIME, "EZ9999: aclnnX: 100% of it"), AG_RUNTIME);
    assert_string_equal(ag_error_take(), "EZ9999: aclnnX: 100% of it");
}

static void *fail_in_another_thread(void *unused)
{
    (void)unused;
    assert_null(ag_error_peek());
    ag_fail(AG_INVALID, "theirs");
    return NULL;
}

static void messages_are_per_thread(void **state)
{
    (void)state;
    pthread_t thread;
    ag_fail(AG_INVALID, "ours");
    assert_int_equal(pthread_create(&thread, NULL, fail_in_another_thread, NULL), 0);
    pthread_join(thread, NULL);
    test_assert_message("ours", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_name),
        cmocka_unit_test(codes_are_the_documented_ones),
        cmocka_unit_test(message_names_code_function_and_text),
        cmocka_unit_test(internal_failures_have_the_internal_code),
        cmocka_unit_test(taking_clears_peeking_does_not),
        cmocka_unit_test(long_messages_are_cut_not_overrun),
        cmocka_unit_test(kept_message_comes_back_as_it_was),
        cmocka_unit_test(messages_are_per_thread),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
