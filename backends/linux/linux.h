/*
 * What the parts of the Linux host share: the state behind core/host.h.
 */
#pragma once

#include "backends/proc.h"
#include "core/host.h"

/* machine/cpus.c */
struct host_cpus {
    struct cpus possible; /* fixed */
    /* Written by the main thread; a reader during a change has a part of it, and is told. */
    atomic_bool online[CPUS_MAX];
    int fd; /* netlink socket, watched; -1 without a loop */
};

struct host_state {
    const struct loop *loop; /* both live until close(); loop may be NULL: nothing is watched */
    const struct sink *sink;
    pid_t self; /* the daemon's own process, which no user may observe, nor its supervisor */
    struct ns_id pidns; /* the daemon's namespaces */
    struct ns_id userns;
    struct ns_id cgroupns; /* all 0 on a kernel without cgroups */
    struct host_cpus cpus;
    uint64_t began_tsc, began_ns; /* to measure the rate of the cycle counter from */
};

static inline bool is_ours(const struct host_state *state, pid_t pid)
{
    return pid == state->self || (state->loop && pid && pid == state->loop->supervisor);
}
