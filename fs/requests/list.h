/*
 * FUSE operations on open directories.
 */
#pragma once

#include <fuse_lowlevel.h>

void list_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                  struct fuse_file_info *fi);
void list_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                      struct fuse_file_info *fi);
