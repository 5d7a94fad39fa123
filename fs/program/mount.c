/*
 * Mounting and unmounting by mount(2) instead of fusermount3, so that errors have exact sentences
 * and the supervisor owns the descriptor of the FUSE device.
 */
#include "fs/program/mount.h"

#include "fs/program/confine.h"
#include "fs/requests/message.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <syslog.h>
#include <unistd.h>

#define FUSE_MAGIC 0x65735546

static struct {
    bool made;
    int fd;      /* of the FUSE device */
    uint64_t id; /* of the mount */
    uint32_t dev_major, dev_minor;
} mounted;

static bool is_inherited(const struct mount_settings *settings, int *fd)
{
    char end;

    return sscanf(settings->mountpoint, "/dev/fd/%d%c", fd, &end) == 1;
}

/* Returns true if a pmcfs serves the path: reads info/version. */
static bool mount_is_pmcfs(const char *path)
{
    char name[4096 + 16], text[6] = "";

    snprintf(name, sizeof name, "%s/info/version", path);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (read(fd, text, sizeof text - 1) < 0)
        text[0] = '\0';
    close(fd);
    return strcmp(text, "pmcfs") == 0;
}

static int mount_refused(const struct mount_settings *settings, int code)
{
    const char *path = settings->mountpoint;

    if (code == EPERM)
        message_log(LOG_ERR, "cannot mount on \"%s\": only the superuser can (CAP_SYS_ADMIN)",
                    path);
    else if (code == ENODEV)
        message_log(LOG_ERR, "cannot mount on \"%s\": this kernel has no FUSE (modprobe fuse)",
                    path);
    else if (code == EINVAL && settings->labels[0])
        message_log(
            LOG_ERR,
            "cannot mount on \"%s\": the kernel refuses %s, which needs SELinux and a label of its "
            "policy",
            path, settings->labels + 1);
    else
        message_log(LOG_ERR, "cannot mount on \"%s\": %s", path, strerror(code));
    return -1;
}

bool mount_prepare(const struct mount_settings *settings)
{
    const char *path = settings->mountpoint;
    struct statfs statfs_now;
    struct stat status;
    int fd;

    if (is_inherited(settings, &fd))
        return true;
    if (!capability_held(CAP_SYS_ADMIN)) /* before any message about another mount */
        return mount_refused(settings, EPERM) == 0;
    /* statfs is a request to the daemon each time; the kernel may answer stat from its cache. */
    while (statfs(path, &statfs_now) < 0 || stat(path, &status) < 0) {
        if (errno != ENOTCONN) {
            message_log(LOG_ERR, "cannot mount on \"%s\": %s", path, strerror(errno));
            return false;
        }
        message_log(LOG_NOTICE,
                    "\"%s\" is still mounted by a daemon that has exited: unmounting it", path);
        if (umount2(path, MNT_DETACH) < 0) {
            message_log(LOG_ERR, "cannot unmount the old mount on \"%s\": %s", path,
                        strerror(errno));
            return false;
        }
    }
    if (!S_ISDIR(status.st_mode)) {
        message_log(LOG_ERR, "cannot mount on \"%s\": it is not a directory", path);
        return false;
    }
    if (statfs_now.f_type == FUSE_MAGIC && mount_is_pmcfs(path)) {
        message_log(
            LOG_ERR,
            "pmcfs is mounted on \"%s\" already; unmount it first, or use another directory", path);
        return false;
    }
    return true;
}

/* Identifies the topmost mount of the path without a request to its daemon. */
static bool mount_identify(const char *path, struct statx *status)
{
    return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_MNT_ID,
                 status) == 0;
}

bool mount_adopt(const struct mount_settings *settings, int fd)
{
    struct statx status;

    if (!mount_identify(settings->mountpoint, &status))
        return false;
    mounted.made = true;
    mounted.fd = fd;
    mounted.id = status.stx_mnt_id;
    mounted.dev_major = status.stx_dev_major;
    mounted.dev_minor = status.stx_dev_minor;
    return true;
}

bool mount_device(const char *mountpoint, unsigned *minor)
{
    struct statx status;

    if (!mount_identify(mountpoint, &status))
        return false;
    *minor = status.stx_dev_minor;
    errno = ENODEV;
    return (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

int mount_make(const struct mount_settings *settings)
{
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | settings->flags;
    char options[4096]; /* the kernel takes a page */
    int fd;

    if (is_inherited(settings, &fd))
        return fd;
    fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        message_log(LOG_ERR, "cannot open /dev/fuse: %s%s", strerror(errno),
                    errno == ENOENT || errno == ENODEV ? " (modprobe fuse)" : "");
        return -1;
    }
    snprintf(options, sizeof options,
             "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions%s", fd,
             settings->labels);
    const bool made =
        mount(settings->source, settings->mountpoint, "fuse.pmcfs", flags, options) == 0;
    if (made && mount_adopt(settings, fd))
        return fd;
    const int code = errno;
    if (made) /* most likely the new mount */
        umount2(settings->mountpoint, MNT_DETACH);
    close(fd);
    return mount_refused(settings, code);
}

/* The kernel reuses the numbers of a mount soon. Once the connection is broken (unmounted, or
 * umount -f), a mount with these numbers is ours only if no daemon answers there. */
void mount_end(const struct mount_settings *settings)
{
    struct pollfd device = {.fd = mounted.fd};
    struct statfs statfs_now;
    struct statx status;

    if (mounted.made && poll(&device, 1, 0) > 0 && (device.revents & (POLLERR | POLLNVAL)) &&
        (statfs(settings->mountpoint, &statfs_now) == 0 || errno != ENOTCONN))
        return;
    if (!mounted.made || !mount_identify(settings->mountpoint, &status) ||
        status.stx_mnt_id != mounted.id || status.stx_dev_major != mounted.dev_major ||
        status.stx_dev_minor != mounted.dev_minor)
        return; /* unmounted by someone else, or covered by another mount */
    umount2(settings->mountpoint, MNT_DETACH);
    mounted.made = false;
}
