/*
 * Asking the kernel something as the opener: a piece of code run with the opener's credentials.
 */
#pragma once

#include "core/host.h"

#include <stdbool.h>

/*
 * Run fn with fs ids, groups and effective capabilities of the opener, in its user namespace: in a
 * process that look_at() makes, where `first` (or NULL) is called before, as the daemon. With
 * `apart`, or for another user namespace than the daemon's, it is a forked one without `first`,
 * which also takes the opener's effective uid.
 *
 * fn uses no descriptor but fd, which is all that the forked process keeps, and may use raw system
 * calls only (no heap, no locks, no stdio): other threads' locks are never released in it. It
 * returns 0 or -errno. Result: that of fn, or of `first` if that is negative; -ENOTSUP when the
 * daemon may not take these credentials; -ETIME when fn waited longer than LOOK_MS, or was stopped
 * for so long; -EAGAIN without a process.
 */
int opener_do(const struct rights *rights, bool apart, int fd, long (*first)(void *arg),
              long (*fn)(void *arg), void *arg);
