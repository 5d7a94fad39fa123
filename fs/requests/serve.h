/*
 * The threads that read requests from the kernel and answer them, and run the engine's tasks.
 */
#pragma once

#include <stdbool.h>

struct fs;
struct serve;

/* Answers FUSE_INIT in this thread. Returns false if the session has ended. */
bool serve_init(struct fs *fs);
/* Sets fs->serve and starts the threads; n_slots threads serve at a time. Returns false on ENOMEM
 * or if no thread could be created. Stops the main loop when the mount is gone. */
bool serve_start(struct fs *fs, unsigned n_slots);
/* Waits until all threads have finished their requests. Needs fs->stopping. */
void serve_stop(struct fs *fs);

/* Needs the lock. Gives up this thread's serving slot, if it has one, before a slow operation. */
void serve_leave(struct serve *serve);
/* Needs the lock. Wakes a thread if there is work and this thread will not do it. */
void serve_more(struct serve *serve);
