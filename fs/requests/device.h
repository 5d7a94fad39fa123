/*
 * Reads and writes of the FUSE descriptor, and the parameters that were negotiated in FUSE_INIT.
 */
#pragma once

#include <stdbool.h>

struct fuse_session;
struct inflight;

/*
 * Sets inflight->timeout_s, the longest time of a request, unless it is known. `replies`: FUSE_INIT
 * is not answered yet; otherwise an older version of pmcfs, which set no timeout, has answered it.
 */
void device_learn_timeout(struct inflight *inflight, bool replies);
/*
 * Makes the session use the descriptor inflight->fuse_fd, instead of fuse_session_mount(). The
 * session closes it when it is destroyed. Returns false on ENOMEM; the caller then keeps it.
 */
bool device_use(struct fuse_session *session, struct inflight *inflight);
