/*
 * Asking the kernel something as the opener: a piece of code run with the opener's credentials.
 */
#pragma once

#include "core/host.h"

#include <stdbool.h>

/*
 * Run fn with fs ids, groups and effective capabilities of the opener, in its user namespace.
 * Without `apart` and with the daemon's user namespace that is done on the current thread, which is
 * given back exactly as it was; else in a forked process, which also takes the opener's effective
 * uid.
 *
 * fn may use raw system calls only (no heap, no locks, no stdio): in the forked process other
 * threads' locks are never released. It returns 0 or -errno. Result: that of fn; -ENOTSUP when the
 * daemon may not take these credentials; -ETIME when fn took longer than two seconds; -EAGAIN
 * without a process.
 */
int opener_do(const struct rights *rights, bool apart, int (*fn)(void *arg), void *arg);
