/*
 * The FUSE descriptor as libfuse uses it.
 */
#pragma once

#include <stdbool.h>

struct fuse_session;

/*
 * Instead of fuse_session_mount(): the session reads and writes this descriptor, and closes it at
 * its end. False: no memory, and the descriptor stays the caller's.
 */
bool device_use(struct fuse_session *session, int fd);
