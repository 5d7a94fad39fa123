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
    struct mount_settings mount;
    int ready_fd; /* the process that started pmcfs waits for 'r' from it; -1: none */
    const struct host *host;
    const struct backend *backend;
};

/* Exit status of a worker that lacks memory or descriptors to load the state or to serve. */
#define EXIT_SHORTAGE 3

/* Serves until the mount ends. Returns the exit status. supervisor_fd: socket to the supervisor, or
 * -1. */
int worker_run(struct worker *worker, struct inflight *inflight, int supervisor_fd);

/* ---- the supervisor ---- */

/* Runs workers, each in its own process, until one exits with 0 (the mount is gone, or a signal
 * stops it) or, before any worker has served, with an error. Returns the exit status. */
int supervise(struct worker *worker, struct inflight *inflight, int inflight_fd);
/* --resume: the program was executed by the supervisor of a mount, in an upgrade. Performs every
 * step that can fail. Returns NULL after a message if nothing was taken over. */
struct inflight *supervisor_resume(struct worker *worker);
