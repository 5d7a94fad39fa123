/*
 * Mounting and unmounting, and the identity of the mount.
 */
#pragma once

#include <stdbool.h>

struct mount_settings {
    const char *source;     /* shown as the device */
    const char *mountpoint; /* absolute; or /dev/fd/N: already mounted by mount.fuse3 */
    unsigned long flags;    /* MS_… beyond nosuid, nodev, noexec */
    const char *labels;     /* ",context=…", or "" */
};

/*
 * Checks that the mountpoint can be used. Unmounts the mount of a dead daemon, with a message.
 * Returns false after a message with the reason.
 */
bool mount_prepare(const struct mount_settings *settings);
/* Mounts a new descriptor of /dev/fuse, or uses /dev/fd/N. Returns it, or -1 after a message. */
int mount_make(const struct mount_settings *settings);
/* In an upgrade: notes the identity of the existing mount, whose descriptor is fd. Returns false if
 * the mount cannot be identified. */
bool mount_adopt(const struct mount_settings *settings, int fd);
/* Sets *minor to the minor device number of a mountpoint, without a request to its daemon. Returns
 * false and sets errno on failure; ENODEV: nothing is mounted there. */
bool mount_device(const char *mountpoint, unsigned *minor);
/* Unmounts lazily, if the mount of mount_make() or mount_adopt() is still the topmost one. */
void mount_end(const struct mount_settings *settings);
