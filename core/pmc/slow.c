/*
 * Slow parts: calls the functions of fs. Without them (unit tests) the lock is kept.
 */
#include "core/slow.h"

#include "core/pmc/parts.h"

int slow_admit(struct call *call)
{
    const struct unlock_ops *unlock = call->engine->unlock;

    return unlock ? unlock->admit(call) : 0;
}

void slow_begin(struct call *call, bool slow)
{
    if (call->engine->unlock)
        call->engine->unlock->leave(call, slow);
}

void slow_end(struct call *call)
{
    if (call->engine->unlock)
        call->engine->unlock->take(call);
}

bool slow_interrupted(struct call *call)
{
    return call->engine->unlock && call->engine->unlock->interrupted(call);
}
