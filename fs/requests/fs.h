/*
 * The state of the mount: the engine with its lock, host and backend, open files, waiting requests
 * and threads. There is one; requests find it by fuse_req_userdata().
 */
#pragma once

#include "core/engine.h"
#include "fs/requests/handle.h"
#include "fs/requests/inflight.h"
#include "fs/requests/wait.h"
#include "fs/tree/node.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WRITE_MAX (128u << 10) /* the longest command */

struct loop_state;
struct serve;

struct fs {
    pthread_mutex_t lock;   /* the engine's lock; protects all members unless noted */
    pthread_cond_t changed; /* `away` became 0, or `reloading` false */
    struct tree tree;
    unsigned away;  /* unfinished requests that have dropped the lock */
    bool reloading; /* no request may start */
    struct slow_requests slow;
    struct handle *handles;
    struct kept kept;
    bool answered; /* the next publication validates an answer */
    struct wait_queues queues;
    uint64_t armed_ns;     /* next time at which the main loop wakes */
    uint64_t trim_ns;      /* time at which it gives free memory back; UINT64_MAX: none */
    bool attributes_stale; /* the main loop shall invalidate all attributes */
    bool conf_stale;       /* a thread that does not serve shall read the configuration */

    /* set before the first thread starts */
    const struct host *host;
    struct host_state *host_state;
    const struct backend *backend;
    struct backend_state *backend_state;
    struct sink sink; /* passed to host and backend */
    struct loop_state *loop;
    void (*conf_again)(struct fs *fs); /* without the lock: look-ups of groups may be slow */
    struct serve *serve;
    const char *mountpoint;
    struct inflight *inflight;

    atomic_bool stopping; /* requests must not wait */
    atomic_bool initialised;
    atomic_bool had_readers; /* the kernel may have cached mode bits for readers */
};
