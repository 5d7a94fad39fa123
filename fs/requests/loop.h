/*
 * The main loop: epoll for every descriptor except FUSE's, one timer, signals, and deadlines of
 * waiting requests and pollers.
 */
#pragma once

#include "core/host.h"

#include <stdbool.h>
#include <stdint.h>

struct fs;
struct loop_state;

/* Message to the supervisor, which replies with the same: map this memory as well. 0 bytes: unmap.
 */
struct hold {
    int fd; /* -1: unmap the memory of closed descriptors */
    size_t bytes;
    bool held; /* reply: it was already mapped */
    uint32_t number;
};

/* Creates the loop and blocks its signals in this thread and all later ones. hold_fd: socket to the
 * supervisor, or -1. Returns NULL and sets errno on failure. */
struct loop_state *loop_new(int hold_fd);
void loop_free(struct loop_state *loop);
/* Must be called before the first callback. */
void loop_bind(struct loop_state *loop, struct fs *fs);
/* Returns the interface for host and backend. */
struct loop loop_interface(struct loop_state *loop);
/* Wakes the main loop. Thread-safe, with any lock held. */
void loop_kick(struct loop_state *loop);
/* Runs until SIGTERM, SIGINT or loop_end(). Other signals call on_signal, without the lock. */
void loop_run(struct loop_state *loop, void (*on_signal)(struct fs *fs, int number));
/* Stops the loop. Thread-safe. */
void loop_end(struct loop_state *loop);
/* Answers all waiting requests and notifies all pollers. Needs fs->stopping. */
void loop_last_turn(struct loop_state *loop);
