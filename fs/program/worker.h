/*
 * The process that serves a mount: by itself, or until the next one takes its place.
 */
#pragma once

#include "core/backend.h"
#include "core/host.h"
#include "fs/program/mount.h"
#include "fs/program/options.h"

struct hand;

struct worker {
    struct options *options;
    struct mount_settings place;
    int ready_fd; /* what started pmcfs waits for a byte there; -1: nothing does */
    const struct host *host;
    const struct backend *backend;
};

/* Its exit status; hold_fd: to the supervisor, or -1. */
int worker_run(struct worker *worker, struct hand *hand, int hold_fd);
