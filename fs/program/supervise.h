/*
 * The supervisor: keeps the mount, the descriptor table that it shares with its worker, the memory
 * of journal, logs and requests, and the rings. Starts the next worker when one has died.
 */
#pragma once

struct inflight;
struct mount_settings;
struct options;

/* Runs a worker in its own process. hold_fd: socket to the supervisor. Returns exit status 0 if the
 * mount shall end. */
typedef int (*worker_fn)(struct inflight *inflight, int hold_fd);

/* Runs workers until the mount is gone or a signal stops it. Returns the exit status. */
int supervise(struct inflight *inflight, int inflight_fd, const struct options *options,
              const struct mount_settings *place, worker_fn work);
/* --resume: the program was executed by the supervisor of a mount, in an upgrade. Performs every
 * step that can fail. Returns NULL after a message if nothing was taken over. */
struct inflight *supervisor_resume(const struct options *options, const struct mount_settings *place);
