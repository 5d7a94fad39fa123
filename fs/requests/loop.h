/*
 * The main thread: epoll for every descriptor but FUSE's, one timer, signals, and whatever other
 * threads leave for it (requests woken, pollers due).
 */
#pragma once

#include "core/host.h"

#include <stdbool.h>
#include <stdint.h>

struct fs;
struct loop_state;

/* To the supervisor, which answers with the same: map that, too; 0 bytes: no more. */
struct hold {
    int fd; /* -1: those of descriptors that are closed are no more */
    size_t bytes;
    bool held; /* the answer: it was mapped before */
    uint32_t number;
};

/* Blocks the signals it serves in this thread and all made later. hold_fd: to the supervisor, or
 * -1. NULL: errno says why. */
struct loop_state *loop_new(int hold_fd);
void loop_free(struct loop_state *loop);
/* Needed before the first callback. */
void loop_bind(struct loop_state *loop, struct fs *fs);
/* As host and backend see it. */
struct loop loop_interface(struct loop_state *loop);
/* Make main take a turn. Any thread, any lock. */
void loop_kick(struct loop_state *loop);
/* Turns, until SIGTERM or SIGINT or loop_end(). on_signal: another, without the lock. */
void loop_run(struct loop_state *loop, void (*on_signal)(struct fs *fs, int number));
/* Any thread. */
void loop_end(struct loop_state *loop);
/* Every request that waits is answered, every poller is told; needs fs->stopping. */
void loop_last_turn(struct loop_state *loop);
