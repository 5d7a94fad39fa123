/*
 * The bytes of the configuration file.
 */
#pragma once

#include "core/base/buf.h"

/*
 * Appends them to out. Waits for nobody: what is no regular file is refused, be it a pipe, a device
 * or a directory, and what is too long to be one. 0, or -errno and why, a constant text.
 */
int conf_load(const char *path, struct buf *out, const char **why);
