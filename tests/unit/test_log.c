/* labels: smoke ci threads */
/* ACLGRAD_VERBOSE: exact lines on stderr, only for events that are switched on, never torn. */
#define _DEFAULT_SOURCE /* setenv */
#include "support/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { MOST_TEXT = 1 << 20 };
static char text[MOST_TEXT + 1];

/* Runs `body` with stderr in a file; returns what it wrote. */
static const char *captured(void (*body)(void))
{
    const struct test_stderr kept = test_stderr_begin();
    body();
    test_stderr_end(kept, text, sizeof text);
    return text;
}

static void verbose(const char *events)
{
    setenv("ACLGRAD_VERBOSE", events, 1);
    ag_config_reload();
}

static void one_of_each(void)
{
    ag_verbose(AG_VERBOSE_CHECK, "moe", "rejected=%s", "topk");
    ag_verbose(AG_VERBOSE_PLAN, "moe", "tiles=%d lanes=%d", 3, 2);
    ag_verbose(AG_VERBOSE_RUN, "moe", "ms=%.3f", 1.5);
}

static void lines_by_event(void **state)
{
    (void)state;
    verbose("");
    assert_string_equal(captured(one_of_each), "");
    verbose("check");
    assert_string_equal(captured(one_of_each), "aclgrad,check,moe,rejected=topk\n");
    verbose("plan");
    assert_string_equal(captured(one_of_each), "aclgrad,plan,moe,tiles=3 lanes=2\n");
    verbose("run");
    assert_string_equal(captured(one_of_each), "aclgrad,run,moe,ms=1.500\n");
    verbose("check,plan,run");
    assert_string_equal(captured(one_of_each), "aclgrad,check,moe,rejected=topk\n"
                                               "aclgrad,plan,moe,tiles=3 lanes=2\n"
                                               "aclgrad,run,moe,ms=1.500\n");
}

static void is_verbose_agrees(void **state)
{
    (void)state;
    verbose("plan");
    assert_true(ag_is_verbose(AG_VERBOSE_PLAN));
    assert_false(ag_is_verbose(AG_VERBOSE_CHECK));
    assert_false(ag_is_verbose(AG_VERBOSE_RUN));
    assert_true(ag_is_verbose(AG_VERBOSE_PLAN | AG_VERBOSE_RUN)); /* any of the set */
}

static void report(void)
{
    ag_report("indexer", "index %d out of range", 7);
}

static void reports_need_no_switch(void **state)
{
    (void)state;
    verbose("");
    assert_string_equal(captured(report), "aclgrad,debug,indexer,index 7 out of range\n");
}

static void write_long_line(void)
{
    static char words[5000];
    memset(words, 'w', sizeof words - 1);
    ag_report("moe", "%s", words);
}

static void a_long_line_is_cut_and_ends(void **state)
{
    (void)state;
    const char *line = captured(write_long_line);
    assert_memory_equal(line, "aclgrad,debug,moe,www", 21);
    assert_true(strlen(line) > 1500);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

enum { WRITERS = 4, LINES = 500, WIDTH = 300 };

static void *write_lines(void *letter)
{
    char word[WIDTH + 1];
    memset(word, *(const char *)letter, WIDTH);
    word[WIDTH] = '\0';
    for (int i = 0; i < LINES; ++i) {
        ag_report("moe", "%s", word);
    }
    return NULL;
}

static void write_from_several_threads(void)
{
    static char letters[WRITERS] = {'a', 'b', 'c', 'd'};
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; ++i) {
        pthread_create(&threads[i], NULL, write_lines, &letters[i]);
    }
    for (int i = 0; i < WRITERS; ++i) {
        pthread_join(threads[i], NULL);
    }
}

static void lines_are_never_torn(void **state)
{
    (void)state;
    static const char start[] = "aclgrad,debug,moe,";
    const size_t width = sizeof start - 1 + WIDTH + 1;
    const char *lines = captured(write_from_several_threads);
    assert_int_equal(strlen(lines), WRITERS * LINES * width);
    for (const char *line = lines; *line; line += width) {
        const char *word = line + sizeof start - 1;
        assert_memory_equal(line, start, sizeof start - 1);
        for (int i = 1; i < WIDTH; ++i) {
            assert_int_equal(word[i], word[0]);
        }
        assert_int_equal(word[WIDTH], '\n');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_by_event),         cmocka_unit_test(is_verbose_agrees),
        cmocka_unit_test(reports_need_no_switch), cmocka_unit_test(a_long_line_is_cut_and_ends),
        cmocka_unit_test(lines_are_never_torn),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
