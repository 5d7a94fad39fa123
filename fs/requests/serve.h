/*
 * The threads that read requests from the kernel and answer them, and do the engine's own tasks.
 */
#pragma once

#include <stdbool.h>

struct fs;
struct serve;

/* Answers the kernel's INIT, in this thread. False: the session has ended. */
bool serve_init(struct fs *fs);
/* Sets fs->serve. False: no memory, or no thread. When the mount is gone the loop ends. */
bool serve_start(struct fs *fs, unsigned n_seats);
/* Needs fs->stopping. Threads finish the request in hand; waits for them. */
void serve_stop(struct fs *fs);

/* With the lock. This thread gives up its seat, if it has one: what follows may take long. */
void serve_leave(struct serve *serve);
/* With the lock. Sees to it that a thread does what there is to do, unless this one is about to. */
void serve_more(struct serve *serve);
