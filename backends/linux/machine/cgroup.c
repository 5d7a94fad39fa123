/*
 * Control groups (v2) as a requester names them: beneath the root of its cgroup namespace, which is
 * opened without asking where the requester is.
 */
#include "backends/linux/machine/cgroup.h"
#include "backends/linux/process/caller.h"

#include "core/base/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Mounts of the v2 hierarchy: next to v1 hierarchies, and without them. */
static const char *const mounts[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};

#define FIRST_CGROUPNS                                                                             \
    0xEFFFFFFBU /* inode of the initial cgroup namespace (PROC_CGROUP_INIT_INO) */

/* Converts "//a/./b/" to "/a/b". Returns false for a path with "..". */
static bool path_normalise(const char *path, char **out)
{
    char *to = malloc(strlen(path) + 2);
    size_t len = 0;
    bool legal = true;
    *out = to;
    for (const char *p = path; to && *p;) {
        size_t n = strcspn(p, "/");
        legal = legal && !(n == 2 && strncmp(p, "..", 2) == 0);
        if (n > 0 && !(n == 1 && *p == '.')) {
            to[len++] = '/';
            memcpy(to + len, p, n);
            len += n;
        }
        p += n + (p[n] == '/');
    }
    if (to && len == 0)
        to[len++] = '/';
    if (to)
        to[len] = '\0';
    return legal;
}

int cgroup_beneath(int dirfd, const char *path)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS,
    };
    const char *below = path[1] ? path + 1 : ".";
    int fd = (int)syscall(SYS_openat2, dirfd, below, &how, sizeof how);
    return fd < 0 ? -errno : fd;
}

static int hierarchy_open(void)
{
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
        struct statfs fs;
        int fd = open(mounts[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
            return fd;
        if (fd >= 0)
            close(fd);
        else if (errno != ENOENT)
            return -errno;
    }
    return -ENODEV;
}

/*
 * Opens the root of this thread's cgroup namespace, by a mount of the hierarchy, which starts
 * there. Not for the initial namespace, where a mount would change the options of all mounts.
 */
static int root_mount(void)
{
    int context = fsopen("cgroup2", FSOPEN_CLOEXEC);
    int mount = -1;
    if (context >= 0 && fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mount = fsmount(context, FSMOUNT_CLOEXEC,
                        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    int fd = mount >= 0 ? cgroup_beneath(mount, "/") : -EXDEV;
    if (mount >= 0)
        close(mount);
    if (context >= 0)
        close(context);
    return fd;
}

/* Opens the root of another namespace by moving this thread there and back. */
static int root_mount_in(int ns)
{
    int own = open("/proc/thread-self/ns/cgroup", O_RDONLY | O_CLOEXEC);
    int fd = -EXDEV;
    if (own >= 0 && setns(ns, CLONE_NEWCGROUP) == 0) {
        fd = root_mount();
        if (setns(own, CLONE_NEWCGROUP) < 0)
            abort(); /* the thread would use the wrong root for all requesters */
    }
    if (own >= 0)
        close(own);
    return fd;
}

/* Opens the directory at which paths of thread tid start. -EXDEV: unknown. */
static int root_open(const struct host_state *state, pid_t tid)
{
    struct stat st;
    int top = hierarchy_open();
    if (top < 0)
        return top;
    const pid_t thread = caller_thread(tid);
    int ns = thread ? ns_open(thread, "cgroup") : -EXDEV;
    int fd = -EXDEV;
    if (ns >= 0 && fstat(ns, &st) == 0) {
        if (ns_same(&(struct ns_id){.dev = st.st_dev, .ino = st.st_ino}, &state->cgroupns))
            return close(ns), top;
        if (st.st_ino != FIRST_CGROUPNS)
            fd = root_mount_in(ns);
    }
    if (ns >= 0)
        close(ns);
    close(top);
    return fd;
}

/* Behind the mountpoint, as in the path of a cgroup's directory; NULL: it is none. */
const char *cgroup_behind_mount(const char *path)
{
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
        const size_t len = strlen(mounts[i]);
        if (strncmp(path, mounts[i], len) == 0 && (path[len] == '/' || path[len] == '\0'))
            return path[len] ? path + len : "/";
    }
    return NULL;
}

static int no_cgroup(struct err *err, const char *path)
{
    const char *behind = cgroup_behind_mount(path);

    if (behind)
        return err_set(err, P33, "no cgroup \"%s\": leave out the mount point and write cgroup:%s",
                       text_shown(path), text_shown(behind));
    return err_set(err, P33,
                   "no cgroup \"%s\": write the path that /proc/PID/cgroup shows (v2, from the "
                   "root of your cgroup namespace); reattach=on waits for it",
                   text_shown(path));
}

int cgroup_failed(struct err *err, int rc, const char *path)
{
    const char *shown = text_shown(path);

    switch (rc) {
    case -EXDEV:
        return err_set(err, P15, "pmcfs cannot see your cgroup root, so it cannot find \"%s\"",
                       shown);
    case -ENODEV:
        return err_set(err, P09,
                       "cgroup targets need cgroup v2, and it is not mounted on /sys/fs/cgroup");
    case -EMFILE:
    case -ENFILE:
        return err_set(
            err, P10,
            "no file descriptor left for cgroup \"%s\": raise LimitNOFILE= of pmcfs.service",
            shown);
    case -ENOMEM:
        return err_set(err, E32, "no memory for cgroup \"%s\"", shown);
    case -ENOTDIR:
        return err_set(err, P33, "\"%s\" is a file, not a cgroup", shown);
    }
    return no_cgroup(err, path);
}

int linux_cgroup_root(struct host_state *state, pid_t tid, const char *path, int *root, char **name,
                      struct err *err)
{
    char *normal;
    bool legal = path_normalise(path, &normal);
    if (!normal)
        return cgroup_failed(err, -ENOMEM, path);
    if (!legal) {
        free(normal);
        return err_set(
            err, P33,
            "cgroup \"%s\": '..' is not possible: write the path that /proc/PID/cgroup shows",
            text_shown(path));
    }
    int rc = root_open(state, tid);
    if (rc < 0) {
        rc = cgroup_failed(err, rc, normal);
        free(normal);
        return rc;
    }
    *root = rc;
    *name = normal;
    return 0;
}

int linux_cgroup_open(struct host_state *state, pid_t tid, const char *path, int *fd, char **name,
                      struct err *err)
{
    int root, rc = linux_cgroup_root(state, tid, path, &root, name, err);
    if (rc < 0)
        return rc;
    *fd = cgroup_beneath(root, *name);
    close(root);
    if (*fd >= 0)
        return 0;
    rc = cgroup_failed(err, *fd == -EXDEV ? -ENOENT : *fd, *name);
    *fd = -1;
    free(*name);
    *name = NULL;
    return rc;
}

/* One ".." for each part of the name, not out of the mount. The parents of a removed directory stay
 * known as long as it is open. */
int linux_cgroup_above(int fd, const char *name)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS,
    };
    char up[2 + 3 * CGROUP_DEPTH_MAX] = ".";
    unsigned depth = 0;
    for (const char *p = name; *p; p++)
        depth += *p == '/' && p[1] != '\0';
    if (depth > CGROUP_DEPTH_MAX)
        return -ENAMETOOLONG;
    for (unsigned i = 0; i < depth; i++)
        strcat(up, "/..");
    fd = (int)syscall(SYS_openat2, fd, up, &how, sizeof how);
    return fd < 0 ? -errno : fd;
}

/* The inode of a v2 cgroup is its id, which is not reused until a reboot. */
uint64_t linux_cgroup_key(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/* Lookups in a removed directory fail. */
bool linux_cgroup_alive(int fd)
{
    return faccessat(fd, "cgroup.procs", F_OK, 0) == 0;
}
