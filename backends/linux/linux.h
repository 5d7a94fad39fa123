/*
 * The state of the Linux host.
 */
#pragma once

#include "backends/proc.h"
#include "core/host.h"

#include <pthread.h>
#include <sys/queue.h>

/* machine/cpus.c */
struct host_cpus {
    struct cpus possible; /* fixed */
    /* Written by the main thread. A concurrent reader may see a part of a change; sink.cpu()
     * follows. */
    atomic_bool online[CPUS_MAX];
    int fd; /* watched netlink socket; -1 without a loop */
};

/* machine/cgroup_watch.c */
struct host_cgroups {
    pthread_mutex_t lock; /* a leaf: protects the list and the watches in it */
    int fd;               /* inotify, watched by the loop; -1 without a loop or after an error */
    LIST_HEAD(, cgroup_watch) watches;
};

struct host_state {
    const struct loop *loop; /* both exist until close(); loop may be NULL: nothing is watched */
    const struct sink *sink;
    pid_t self;         /* the daemon, which no user may observe, like its supervisor */
    struct ns_id pidns; /* the daemon's namespaces */
    struct ns_id userns;
    struct ns_id cgroupns; /* all 0 on a kernel without cgroups */
    struct host_cpus cpus;
    struct host_cgroups cgroups;
    uint64_t began_tsc, began_ns; /* start of the measurement of the cycle counter's rate */
};

static inline bool is_ours(const struct host_state *state, pid_t pid)
{
    return pid == state->self || (state->loop && pid && pid == state->loop->supervisor);
}
