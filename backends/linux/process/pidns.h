/*
 * Process numbers between PID namespaces: what a requester writes, and what it would read.
 */
#pragma once

#include "backends/linux/linux.h"

/*
 * The thread that `number` means in the PID namespace of thread tid, in the daemon's numbers; it
 * need not exist when both share the namespace. 0, -ESRCH (none), -EPERM (tid cannot be looked at),
 * or what else went wrong (-EMFILE, -ENOMEM).
 */
int pidns_to_host(const struct host_state *state, pid_t tid, pid_t number, pid_t *out);
/* The same by searching /proc, for kernels without the ioctl: slow, with the same answers. */
int pidns_scan(pid_t tid, pid_t number, pid_t *out);

/*
 * The first process of the outermost PID namespace below the daemon's of those that thread tid is
 * in; 0 when tid is in the daemon's own. 0 or -errno, -EPERM: tid cannot be looked at.
 */
int pidns_first(const struct host_state *state, pid_t tid, pid_t *out);

/* The number by which thread tid knows the process pid of the daemon's namespace, or 0. */
pid_t pidns_from_host(const struct host_state *state, pid_t tid, pid_t pid);
/* The same without the ioctl. */
pid_t pidns_column(pid_t tid, pid_t pid);

/* How deep the PID namespace of a thread lies below /proc's own, that one counted; 0: unknown. */
unsigned pidns_depth(pid_t tid);
/* The number of a thread of the daemon's namespace in `ns`, which lies that deep; or 0. */
pid_t pidns_number(pid_t tid, const struct ns_id *ns, unsigned depth);
