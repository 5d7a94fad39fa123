/*
 * The threads of the mount: the main loop (loop.c), which waits for signals, one timer, and every
 * descriptor except FUSE's; and the threads that read requests from the kernel, answer them, and
 * run the engine's tasks (serve.c).
 */
#pragma once

#include "core/host.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct fs;
struct fuse_session;
struct inflight;
struct loop_state;
struct serve;

/* ---- the main loop ---- */

#define START_NOTIFIER (-2)

/* Message to the supervisor, which maps this memory of a ring as well, or unmaps it if `bytes` is
 * 0. For fd START_NOTIFIER the supervisor starts the process that sends notifications about names.
 * The reply is the same message with `done` set or cleared. */
struct supervisor_message {
    int fd; /* -1: unmap memory of closed descriptors. Reply to START_NOTIFIER: its socket, or -1 */
    size_t bytes;
    bool done;       /* reply: the memory was mapped before; the process was started */
    uint32_t number; /* the reply has the same */
};

/* Creates the loop and blocks its signals in this thread and all later ones. supervisor_fd: socket
 * to the supervisor, or -1. Returns NULL and sets errno on failure. */
struct loop_state *loop_new(struct fs *fs, int supervisor_fd);
/* Has the supervisor start the process that sends notifications about names. Returns its socket, or
 * -1. */
int loop_start_notifier(struct loop_state *loop);
void loop_free(struct loop_state *loop);
/* Returns the interface for host and backend. */
struct loop loop_interface(struct loop_state *loop);
/* Runs until SIGTERM, SIGINT or loop_end(). Other signals call on_signal, without the lock. */
void loop_run(struct loop_state *loop, void (*on_signal)(struct fs *fs, int number));
/* Stops the loop. Thread-safe. */
void loop_end(struct loop_state *loop);
/* Answers all waiting requests and notifies pollers that have a deadline. Needs fs->stopping. */
void loop_answer_all(struct loop_state *loop);

/* ---- the FUSE descriptor ---- */

/*
 * Sets inflight->timeout_s, the longest time of a request, unless it is known. `replies`: FUSE_INIT
 * is not answered yet; otherwise an older version of pmcfs, which set no timeout, has answered it.
 */
void device_learn_timeout(struct inflight *inflight, bool replies);
/*
 * Makes the session use the descriptor inflight->fuse_fd, instead of fuse_session_mount(). The
 * session closes it when it is destroyed. Returns false on ENOMEM; the caller then keeps it.
 */
bool device_use(struct fuse_session *session, struct inflight *inflight);

/* ---- serving threads ---- */

/* Sets fs->serve and starts the threads; at most n_slots serve at a time. Returns false on ENOMEM
 * or if no thread could be created. When the mount is gone, a thread stops the main loop. */
bool serve_start(struct fs *fs, unsigned n_slots);
/* Stops and joins all serving threads after their requests, and frees fs->serve. Needs
 * fs->stopping, so that no request waits. */
void serve_stop(struct fs *fs);

/* Needs the lock. Gives up this thread's serving slot, if it has one, before a slow operation. */
void serve_leave_slot(struct serve *serve);
/* Needs the lock. Wakes or starts a thread if there is work and this thread will not do it. */
void serve_wake_thread(struct serve *serve);
/* Needs the lock. Returns the condition to signal after the lock is dropped, or NULL. */
pthread_cond_t *serve_take_wake(struct serve *serve);
