/*
 * Running code with the opener's credentials.
 */
#pragma once

#include "core/host.h"

#include <stdbool.h>

/*
 * Runs fn with fs ids, groups and effective capabilities of the opener, in its user namespace. Uses
 * a helper process of look_at(), in which `first` (or NULL) runs before as the daemon. With
 * `apart`, or in another user namespace, uses a forked process without `first`, which also takes
 * the opener's effective uid.
 *
 * fn may use the descriptor fd, which is all that the forked process keeps, and raw system calls
 * only: no heap, locks or stdio. Returns the result of fn (0 or -errno), or of `first` if it is
 * negative; -ENOTSUP if the daemon may not take these credentials; -ETIME after LOOK_MS; -EAGAIN
 * without a process.
 */
int opener_do(const struct rights *rights, bool apart, int fd, long (*first)(void *arg),
              long (*fn)(void *arg), void *arg);
