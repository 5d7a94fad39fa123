/*
 * The process that outlives those which serve: it holds the mount, the table of descriptors that it
 * shares with them, the memory of journal, logs and requests, and the rings; and starts the next
 * worker when one has died.
 */
#pragma once

struct hand;
struct mount_settings;
struct options;

/* A worker's life, in its own process; `hold_fd` leads to the supervisor. Its exit status is 0 when
 * the mount is to end. */
typedef int (*worker_fn)(struct hand *hand, int hold_fd);

/* Until the mount is gone or a signal ends it: the exit status. */
int supervise(struct hand *hand, int hand_fd, const struct options *options,
              const struct mount_settings *place, worker_fn work);
/* --resume: this program was executed in place of a mount's supervisor. All that can fail is done
 * here. NULL, after having said why: nothing was taken over. */
struct hand *supervisor_resume(const struct options *options, const struct mount_settings *place);
