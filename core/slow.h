/*
 * Slow parts of a request. Before a part that may take long (opening counters, /proc) an operation
 * lets go of the engine's lock; when the part may take longer than about 100 µs, also of its
 * thread's seat, so that another thread accepts requests in its place. Meanwhile it touches only
 * what it owns. Afterwards call->pmc and call->instance are what is there now, or NULL.
 */
#pragma once

#include "core/call.h"

/* How that is done: given by fs (engine_set_seat). */
struct unlock_ops {
    int (*admit)(struct call *call);
    void (*leave)(struct call *call, bool slow);
    void (*take)(struct call *call);
    bool (*interrupted)(struct call *call);
};

/*
 * Only so many requests of one user, and of all, may be slow at a time. 0: this one is among them
 * until it ends or waits; or CALL_WAIT: the operation answers that, and is run again when there is
 * room. Before anything was changed.
 */
int slow_admit(struct call *call);
/* slow: may take longer than about 100 µs. */
void slow_begin(struct call *call, bool slow);
void slow_end(struct call *call);
/* The caller waits for the answer no more. Without the lock as well. */
bool slow_interrupted(struct call *call);
