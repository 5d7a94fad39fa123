/*
 * Slow parts of a request. Before a slow part (opening counters, reading /proc) an operation drops
 * the engine's lock. If it may take more than about 100 µs, its thread also gives up its serving
 * slot, so that another thread accepts requests. In a slow part an operation uses only its own
 * objects. After it call->pmc and call->instance are looked up again and may be NULL.
 */
#pragma once

#include "core/call.h"

/* Functions of fs that drop and retake the lock; see engine_set_unlock(). */
struct unlock_ops {
    int (*admit)(struct call *call);
    void (*leave)(struct call *call, bool slow);
    void (*take)(struct call *call);
    bool (*interrupted)(struct call *call);
};

/*
 * Takes a slow slot for the request; their number is limited per user and in all. Returns 0: the
 * request has the slot until it is finished or waits. Returns CALL_WAIT: the operation must return
 * CALL_WAIT and runs again when a slot is free. Call before any change.
 */
int slow_admit(struct call *call);
/* Drops the lock; slow: also gives up the serving slot. slow_end() takes the lock again. */
void slow_begin(struct call *call, bool slow);
void slow_end(struct call *call);
/* Returns true if the caller no longer waits for the reply. May be called without the lock. */
bool slow_interrupted(struct call *call);
