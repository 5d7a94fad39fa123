/*
 * Asking the kernel something as the opener: a piece of code run with the opener's credentials.
 */
#pragma once

#include "core/host.h"

#include <stdbool.h>

/*
 * Run fn with fs ids, groups and effective capabilities of the opener, in its user namespace.
 * Without `apart` and with the daemon's user namespace the current thread takes them, looks
 * (look.h), and is given back exactly as it was; else a forked process does, which also takes the
 * opener's effective uid.
 *
 * fn uses no descriptor but fd, which is all that the forked process keeps, and may use raw system calls only (no heap, no locks, no stdio): in the forked process other
 * threads' locks are never released. It returns 0 or -errno. Result: that of fn; -ENOTSUP when the
 * daemon may not take these credentials; -ETIME when fn waited longer than LOOK_MS, or was
 * stopped for so long; -EAGAIN without a process.
 */
int opener_do(const struct rights *rights, bool apart, int fd, long (*fn)(void *arg), void *arg);
