#include "answers.h"

#include "cli.h"

bool answers_compute(struct answers *answers, const struct call *call, const char *command, bool with_device)
{
    progress_begin(command, 0);
    const bool is_good = call_run(call, &answers->fast) &&
                         operation_of(call)->define(call, &answers->values, &answers->bounds) &&
                         (!with_device || operation_of(call)->imitate(call, &answers->device));
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
