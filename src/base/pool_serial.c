#include "base/pool.h"

void ag_pool_run(int lanes, void (*lane)(void *context, size_t index), void *context)
{
    for (int i = 0; i < lanes; ++i) {
        lane(context, (size_t)i);
    }
}
