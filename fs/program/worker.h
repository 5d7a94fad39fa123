/*
 * A worker: the process that serves a mount, below a supervisor or alone.
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
