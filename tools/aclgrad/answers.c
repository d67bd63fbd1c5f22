#include "answers.h"

#include "cli.h"

/* A recording is what is judged, where there is one. */
static bool settle(struct answers *answers, const struct call *call)
{
    const struct operation *operation = operation_of(call);
    const struct tensor_set *outputs = call->recorded.count > 0 ? &call->recorded : &answers->fast;
    return !operation->settle || operation->settle(call, outputs, &answers->values, &answers->bounds);
}

bool answers_compute(struct answers *answers, const struct call *call, const char *command, bool with_device)
{
    progress_begin(command, 0);
    const bool is_good =
        call_run(call, &answers->fast) && operation_of(call)->define(call, &answers->values, &answers->bounds) &&
        settle(answers, call) && (!with_device || operation_of(call)->imitate(call, &answers->device));
    progress_end();
    return is_good;
}

void answers_destroy(struct answers *answers)
{
    tensor_set_destroy(&answers->fast);
    tensor_set_destroy(&answers->values);
    tensor_set_destroy(&answers->bounds);
    tensor_set_destroy(&answers->device);
}
