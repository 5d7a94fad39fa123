/*
 * The FUSE descriptor as libfuse uses it, and what was agreed with the kernel as it was mounted.
 */
#pragma once

#include <stdbool.h>

struct fuse_session;
struct hand;

/*
 * Finds out how long a request may take (hand->timeout_s), unless that is known. `replies`: the
 * kernel's INIT is not answered yet; else the mount was made by a version of pmcfs that did not
 * set a timeout.
 */
void device_learn_timeout(struct hand *hand, bool replies);
/*
 * Instead of fuse_session_mount(): the session reads and writes the descriptor hand->fuse_fd, and
 * closes it at its end. False: no memory, and the descriptor stays the caller's.
 */
bool device_use(struct fuse_session *session, struct hand *hand);
