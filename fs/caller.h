/*
 * Who makes a request: FUSE's context, and on demand what the host knows about that thread.
 */
#pragma once

#include "core/call.h"

#include <fuse_lowlevel.h>

struct fs;

/* uid, gid and thread of who waits for the answer to req. */
void caller_fill(struct call *call, fuse_req_t req);
/* Its process, which mkdir writes down. Looks at /proc, so without the lock. */
void caller_maker(struct fs *fs, struct call *call);
/*
 * What that thread may do; looks at /proc, so without the lock. 0, or a negative errno with a
 * sentence. *rights is the caller's (rights_free()).
 */
int caller_rights(struct fs *fs, struct call *call, struct rights **rights);
/* Only the payer, where the file asks for no rights: the user itself, where that cannot be known. */
void caller_payer(struct fs *fs, struct call *call);
