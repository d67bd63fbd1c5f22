/* Text -> problem string: what parses is printed canonically, and the print makes the same problem again. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "fuzz.h"
#include "problem.h"

static void check_same(const struct problem *a, const struct problem *b)
{
    FUZZ_REQUIRE(a->op == b->op, "another operator");
    for (int i = 0; i < problem_table_of(a)->key_count; ++i) {
        const struct problem_value *x = &a->values[i], *y = &b->values[i];
        const char *key = problem_table_of(a)->keys[i].name;
        FUZZ_REQUIRE(x->is_given == y->is_given && x->integer == y->integer && x->count == y->count, "%s differs",
                     key);
        FUZZ_REQUIRE(memcmp(&x->real, &y->real, sizeof x->real) == 0, "%s: %.17g and %.17g", key, x->real, y->real);
        FUZZ_REQUIRE(strcmp(x->word, y->word) == 0, "%s: '%s' and '%s'", key, x->word, y->word);
        FUZZ_REQUIRE(x->count == 0 || memcmp(x->list, y->list, (size_t)x->count * sizeof *x->list) == 0,
                     "%s: other items", key);
    }
}

static void check_print(const struct problem *problem)
{
    struct problem again, copy;
    char *text = problem_print(problem);
    FUZZ_REQUIRE(text, "no text");
    FUZZ_REQUIRE(problem_parse(text, &again), "printed '%s', which is refused: %s", text, cli_failure());
    FUZZ_REQUIRE(problem_copy(&copy, problem), "no copy");
    check_same(problem, &again);
    check_same(problem, &copy);
    char *second = problem_print(&again);
    FUZZ_REQUIRE(second && strcmp(text, second) == 0, "printed '%s', then '%s'", text, second);
    problem_destroy(&copy);
    problem_destroy(&again);
    free(second);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {data, data + bytes};
    struct problem problem;
    char *text = fuzz_take_text(&input);
    cli.is_quiet = true;
    if (problem_parse(text, &problem)) {
        FUZZ_REQUIRE(text[strcspn(text, " \t\n\v\f\r")] == 0, "spaces were taken");
        check_print(&problem);
        problem_destroy(&problem);
    } else {
        FUZZ_REQUIRE(cli_failure()[0], "refused without a word");
    }
    cli_forgive();
    free(text);
    return 0;
}
