#include "fuzz_call.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz_tensor.h"

static void check_problem(const struct problem *problem)
{
    struct problem again;
    char *text = problem_print(problem);
    FUZZ_REQUIRE(text && problem_parse(text, &again), "the problem is '%s', which is refused: %s", text,
                 cli_failure());
    problem_destroy(&again);
    free(text);
}

static void count_finding(void *count, enum severity severity, const char *tensor, const char *code, const char *text)
{
    FUZZ_REQUIRE(tensor && code[0] && text[0] && severity <= SEVERITY_ERROR, "a finding without a word");
    ++*(int *)count;
}

static void check_run(const struct call *call)
{
    struct tensor_set outputs = {NULL, 0}, values = {NULL, 0}, bounds = {NULL, 0};
    const bool is_run = call_run(call, &outputs);
    fuzz_check_verdict(is_run);
    fuzz_check_set(&outputs);
    fuzz_check_verdict(operation_of(call)->define(call, &values, &bounds));
    fuzz_check_set(&values);
    fuzz_check_set(&bounds);
    tensor_set_destroy(&outputs);
    tensor_set_destroy(&values);
    tensor_set_destroy(&bounds);
}

void fuzz_check_call(struct call *call)
{
    int count = 0;
    const struct findings findings = {count_finding, &count};
    fuzz_check_set(&call->inputs);
    fuzz_check_set(&call->recorded);
    check_problem(&call->problem);
    char *notes = recorded_notes(call);
    FUZZ_REQUIRE(notes, "no notes");
    free(notes);
    if (!call->damage[0]) {
        fuzz_check_verdict(operation_of(call)->inspect(call, &findings));
        check_run(call);
    }
    call_destroy(call);
}
