/*
 * FUSE operations on open files: open, read, write, poll, release.
 */
#pragma once

#include <fuse_lowlevel.h>

struct fs;
struct inflight_request;
struct op;

void io_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void io_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
/* Finds the end of a text, for SEEK_END: the only getattr with an open file. */
extern const struct op io_end;
/* SEEK_DATA and SEEK_HOLE. */
void io_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi);
void io_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
              struct fuse_file_info *fi);
void io_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
             struct fuse_pollhandle *poll);
/* Handles RELEASE without libfuse, which drops it on ENOMEM. */
void io_release(struct fs *fs, struct inflight_request *request, uint64_t fh);
