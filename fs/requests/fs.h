/*
 * What one mount consists of: the engine with its lock, what it stands on, open files, parked
 * requests, threads. There is one; requests find it through fuse_req_userdata().
 */
#pragma once

#include "core/engine.h"
#include "fs/requests/hand.h"
#include "fs/requests/handle.h"
#include "fs/requests/notify.h"
#include "fs/requests/park.h"
#include "fs/requests/slow.h"
#include "fs/tree/node.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WRITE_MAX (128u << 10) /* the longest command */

struct loop_state;
struct serve;

struct fs {
    pthread_mutex_t lock;   /* the engine's lock; guards all that follows unless said */
    pthread_cond_t changed; /* `away` reached 0, or `reloading` ended */
    struct tree tree;
    unsigned away;        /* requests that let go of the lock and are not over */
    bool reloading;       /* no request is admitted */
    struct slow_list slow;
    struct handle *handles;
    struct kept kept;
    bool answered; /* an answer is true with what is put there with the next unlocking */
    struct park park;
    struct errands errands; /* of notify.h */
    uint64_t armed_ns; /* when main wakes by itself */
    uint64_t trim_ns;  /* when it gives free memory back; UINT64_MAX: nothing has changed since */
    bool attributes_stale; /* main tells the kernel to ask again for all attributes */
    bool conf_stale;       /* a thread without a seat reads the configuration again */

    /* fixed before the first thread */
    const struct host *host;
    struct host_state *host_state;
    const struct backend *backend;
    struct backend_state *backend_state;
    struct sink sink; /* given to host and backend: of the present engine */
    struct loop_state *loop;
    void (*conf_again)(struct fs *fs); /* without the lock: groups may be far away, so may files */
    struct serve *serve;
    const char *mountpoint;
    struct hand *hand;

    atomic_bool stopping; /* requests do not wait any more */
    atomic_bool initialised;
    atomic_bool had_readers; /* bits that were shown for them may still be remembered */
};
