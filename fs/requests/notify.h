/*
 * Tells the kernel which names are gone. By a thread without a seat, one at a time, because the
 * kernel takes the directory's lock for that: all others must go on meanwhile, as the holder of
 * that lock may be parked and wait for them.
 */
#pragma once

#include "core/engine.h"

#include <sys/queue.h>

struct fs;

STAILQ_HEAD(errands, errand);

/* All with the engine's lock: a copy is queued; the first is done, without the lock meanwhile
 * (false: there is none); what is left is not. */
void notify_later(struct fs *fs, const struct effect *effect);
bool notify_next(struct fs *fs);
void notify_forget(struct fs *fs);
