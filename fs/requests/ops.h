/*
 * FUSE operations: on the tree in ops.c, on open files in open.c and io.c.
 */
#pragma once

#include <fuse_lowlevel.h>

struct fs;
struct inflight_request;
struct op;
struct request;

extern const struct fuse_lowlevel_ops fs_ops;

/* Creates a request on a node. Returns NULL after replying with an error. */
struct request *op_begin(const struct op *op, fuse_req_t req, fuse_ino_t ino);

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
/* Handles RELEASE without libfuse, which drops it on ENOMEM. */
void file_release(struct fs *fs, struct inflight_request *request, uint64_t fh);
void op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
             struct fuse_pollhandle *poll);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
/* getattr of an open file. The size is the end of its text, for lseek(2) with SEEK_END. */
extern const struct op file_attr_op;
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
              struct fuse_file_info *fi);
