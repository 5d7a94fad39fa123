/*
 * Translation of PIDs between PID namespaces.
 */
#pragma once

#include "backends/linux/linux.h"

struct pidns {
    struct ns_id id;
    unsigned depth; /* depth; /proc's namespace has 1 */
};

/* Finds the namespace of thread tid. Returns 1; 0 for the daemon's namespace; -EPERM if tid cannot
 * be inspected. */
int pidns_of(const struct host_state *state, pid_t tid, struct pidns *out);
/* Returns the number in ns of a process or thread of the daemon's namespace; 0: not in ns. */
pid_t pidns_number(const struct pidns *ns, pid_t pid);

/*
 * Translates a number of thread tid's namespace to the daemon's. In the same namespace the thread
 * need not exist. Returns 0, -ESRCH, -EPERM if tid cannot be inspected, -EMFILE or -ENOMEM.
 */
int pidns_to_host(const struct host_state *state, pid_t tid, pid_t number, pid_t *out);
/* Translates a number of the daemon's namespace to that of thread tid; 0: not visible. */
pid_t pidns_from_host(const struct host_state *state, pid_t tid, pid_t pid);

/*
 * Finds the first process of the outermost PID namespace between the daemon's and thread tid's; 0
 * if both are the same. Returns 0 or -errno; -EPERM if tid cannot be inspected.
 */
int pidns_first(const struct host_state *state, pid_t tid, pid_t *out);
