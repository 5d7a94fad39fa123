/*
 * The FUSE operations: of the tree here, of open files in io.h.
 */
#pragma once

#include <fuse_lowlevel.h>

extern const struct fuse_lowlevel_ops fs_ops;

/* What the operations have in common. */
struct op;
struct request;
/* A request on a node, or NULL after having answered why not. */
struct request *op_begin(const struct op *op, fuse_req_t req, fuse_ino_t ino);
/* The replies of operations that answer with the attributes of rq->entry, or rq->slice. */
int attr_reply(struct request *rq);
int slice_reply(struct request *rq);
/* With the lock: rq->entry describes rq->found. 0 or -ESTALE. */
int op_entry(struct request *rq);
