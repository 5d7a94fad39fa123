/*
 * Mounting and unmounting, and the group `readers`.
 */
#pragma once

#include "core/base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct fs;
struct mount_settings;

/* Where and how. */
struct mount_settings {
    const char *source;     /* shown as the device */
    const char *mountpoint; /* absolute; or /dev/fd/N: mounted already, by mount.fuse3 */
    unsigned long flags;    /* MS_… beyond nosuid, nodev, noexec */
    const char *labels;     /* ",context=…", or "" */
};

/*
 * Can something be mounted there? A mountpoint left behind by a dead daemon is cleared, with a
 * message. False after having said why not.
 */
bool mount_prepare(const struct mount_settings *settings);
/* Opens /dev/fuse and mounts it: the descriptor, or -1 after having said why not. */
int mount_make(const struct mount_settings *settings);
/* It is mounted already, with that descriptor, by the program that this one has replaced. False: it
 * cannot be told from others. */
bool mount_adopt(const struct mount_settings *settings, int fd);
/* The minor number of the device that is mounted just there; asks the kernel alone. False: errno
 * says why not; ENODEV: there is none. */
bool mount_device(const char *mountpoint, unsigned *minor);
/* Unmounts, lazily, if the mount that mount_make() made is still the one on top. */
void mount_end(const struct mount_settings *settings);
