/*
 * Process numbers between PID namespaces: what a requester writes, and what it would read.
 */
#pragma once

#include "backends/linux/linux.h"

struct pidns {
    struct ns_id id;
    unsigned depth; /* below /proc's own, that one counted */
};

/* The namespace of thread tid: 1; 0 when it is the daemon's own; -EPERM: tid cannot be looked at.
 */
int pidns_of(const struct host_state *state, pid_t tid, struct pidns *out);
/* The number there of a process or thread of the daemon's namespace; 0 when it is not in there. */
pid_t pidns_number(const struct pidns *ns, pid_t pid);

/*
 * The thread that `number` means in the PID namespace of thread tid, in the daemon's numbers; it
 * need not exist when both share the namespace. 0, -ESRCH (none), -EPERM (tid cannot be looked at),
 * or what else went wrong (-EMFILE, -ENOMEM).
 */
int pidns_to_host(const struct host_state *state, pid_t tid, pid_t number, pid_t *out);
/* The number by which thread tid knows the process or thread pid of the daemon's, or 0. */
pid_t pidns_from_host(const struct host_state *state, pid_t tid, pid_t pid);

/*
 * The first process of the outermost PID namespace below the daemon's of those that thread tid is
 * in; 0 when tid is in the daemon's own. 0 or -errno, -EPERM: tid cannot be looked at.
 */
int pidns_first(const struct host_state *state, pid_t tid, pid_t *out);
