/*
 * Tells the kernel which names are gone. A thread of its own, because the kernel takes the
 * directory's lock for that: all others must go on meanwhile, as the holder of that lock may be
 * parked and wait for them.
 */
#pragma once

#include "core/engine.h"

#include <pthread.h>
#include <sys/queue.h>

struct fs;

STAILQ_HEAD(errands, errand);

/* With the engine's lock. */
struct notifier {
    pthread_t thread;
    pthread_cond_t given;
    struct errands errands;
    bool runs;
};

/* Needs fs->session. */
bool notify_start(struct fs *fs);
/* Says what is left and ends. */
void notify_stop(struct fs *fs);
/* With the lock: a copy is queued; nothing while the thread does not run. */
void notify_later(struct fs *fs, const struct effect *effect);
