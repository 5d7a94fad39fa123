/*
 * Tells the kernel which names are gone. A thread of its own, because the kernel takes the
 * directory's lock for that: main must go on meanwhile, as the holder of that lock may be parked
 * and wait for main.
 */
#pragma once

#include "core/engine.h"

struct fuse_session;
struct notifier;

struct notifier *notifier_new(void);
/* Says what is left and ends. NULL is allowed. */
void notifier_free(struct notifier *notifier);
/* Names are dropped until there is a session, and after it is taken away (NULL). */
void notifier_session(struct notifier *notifier, struct fuse_session *session);
/* A copy is queued. Any thread, any lock. */
void notify_later(struct notifier *notifier, const struct effect *effect);
