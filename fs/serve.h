/*
 * The threads that read requests from the kernel and answer them.
 */
#pragma once

#include <stdbool.h>

struct fs;
struct serve;

/* Answers the kernel's INIT, in this thread. False: the session has ended. */
bool serve_init(struct fs *fs);
/* NULL: no memory, or no thread. When the mount is gone they end, and so does the loop. */
struct serve *serve_start(struct fs *fs, unsigned n_threads);
/* Needs fs->stopping. Threads finish the request in hand; waits for them. NULL is allowed. */
void serve_stop(struct serve *serve);
