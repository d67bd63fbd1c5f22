#include "runtime/stream.h"

ag_status ag_stream_submit(aclrtStream stream, struct ag_task task)
{
    (void)stream;
    const ag_status status = task.run(task.context);
    if (task.release) {
        task.release(task.context);
    }
    return status;
}
