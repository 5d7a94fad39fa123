/*
 * The processes of a mount. A worker serves it, below a supervisor or alone. The supervisor keeps
 * the mount, the descriptor table that it shares with its worker, the memory of journal, logs and
 * requests, and the rings; it starts the next worker when one has died.
 */
#pragma once

#include "core/backend.h"
#include "core/host.h"
#include "fs/program/mount.h"
#include "fs/program/options.h"

struct inflight;

struct worker {
    struct options *options;
    struct mount_settings place;
    int ready_fd; /* the process that started pmcfs waits for a byte from it; -1: none */
    const struct host *host;
    const struct backend *backend;
};

/* Serves until the mount ends. Returns the exit status. hold_fd: socket to the supervisor, or -1.
 */
int worker_run(struct worker *worker, struct inflight *inflight, int hold_fd);

/* ---- the supervisor ---- */

/* Runs a worker in its own process. hold_fd: socket to the supervisor. Returns exit status 0 if the
 * mount shall end. */
typedef int (*worker_fn)(struct inflight *inflight, int hold_fd);

/* Runs workers until the mount is gone or a signal stops it. Returns the exit status. */
int supervise(struct inflight *inflight, int inflight_fd, const struct options *options,
              const struct mount_settings *place, worker_fn work);
/* --resume: the program was executed by the supervisor of a mount, in an upgrade. Performs every
 * step that can fail. Returns NULL after a message if nothing was taken over. */
struct inflight *supervisor_resume(const struct options *options,
                                   const struct mount_settings *place);
