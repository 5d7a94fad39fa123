/*
 * Control groups (v2) as a requester names them: beneath the root of its cgroup namespace, which is
 * opened by a descriptor of that namespace. With reattach=on, watches the directories above a
 * cgroup: inotify reports what is created and removed in them, and nothing for a removed cgroup
 * itself.
 */
#include "backends/linux/linux.h"
#include "core/base/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Mounts of the v2 hierarchy: next to v1 hierarchies, and without them. */
static const char *const mounts[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};

/* Inode of the initial cgroup namespace (PROC_CGROUP_INIT_INO). */
#define FIRST_CGROUPNS 0xEFFFFFFBU

#define CGROUP_DEPTH_MAX 32 /* parts of a name that reattach=on watches */
#define READS_MAX        16 /* per call from the loop; the rest causes another call */

struct cgroup_watch {
    LIST_ENTRY(cgroup_watch) entry;
    struct host_cgroups *cgroups;
    uint64_t tag;
    unsigned n;
    int wd[CGROUP_DEPTH_MAX]; /* of the directory in which part i of the name is looked up */
    char name[];
};

/* Converts "//a/./b/" to "/a/b". Returns false for a path with "..". *out: NULL on ENOMEM;
 * otherwise the caller frees it, also after false. */
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

/* Opens an absolute, normalised path beneath dirfd, without symbolic links and other file systems.
 * Returns a descriptor or -errno. */
static int cgroup_beneath(int dirfd, const char *path)
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
 * Opens the root of another cgroup namespace: moves this thread there, mounts the hierarchy, which
 * starts at that root, and moves back. Not for the initial namespace, where a mount would change
 * the options of all mounts. Returns a descriptor; -ENOMEM, -EMFILE or -ENFILE; or -EXDEV if the
 * root cannot be mounted.
 */
static int root_mount(int ns)
{
    int own = open("/proc/thread-self/ns/cgroup", O_RDONLY | O_CLOEXEC);
    int mount = -1, fd = -errno;
    if (own >= 0 && setns(ns, CLONE_NEWCGROUP) == 0) {
        int context = fsopen("cgroup2", FSOPEN_CLOEXEC);
        if (context >= 0 && fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
            mount = fsmount(context, FSMOUNT_CLOEXEC,
                            MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        fd = mount < 0 ? -errno : cgroup_beneath(mount, "/");
        fd_close(mount);
        fd_close(context);
        if (setns(own, CLONE_NEWCGROUP) < 0)
            abort(); /* the thread would use the wrong root for all requesters */
    }
    fd_close(own);
    return fd >= 0 || is_shortage(fd) ? fd : -EXDEV;
}

/* Opens the directory at which paths of thread tid start. Returns a descriptor or -errno; -EXDEV if
 * the daemon cannot see it. */
static int root_open(const struct host_state *state, pid_t tid)
{
    struct stat st;
    int top = hierarchy_open();
    if (top < 0)
        return top;
    const pid_t thread = caller_thread(tid);
    int ns = thread > 0 ? ns_open(thread, "cgroup") : thread < 0 ? thread : -EXDEV;
    int fd = is_shortage(ns) ? ns : -EXDEV;
    if (ns >= 0 && fstat(ns, &st) == 0) {
        if (ns_same(&(struct ns_id){.dev = st.st_dev, .ino = st.st_ino}, &state->cgroupns))
            return close(ns), top;
        if (st.st_ino != FIRST_CGROUPNS)
            fd = root_mount(ns);
    }
    fd_close(ns);
    close(top);
    return fd;
}

/* Returns the part of the path after the mount point of cgroup v2, or NULL if it is not below one.
 */
static const char *path_below_cgroup_mount(const char *path)
{
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
        const size_t len = strlen(mounts[i]);
        if (strncmp(path, mounts[i], len) == 0 && (path[len] == '/' || path[len] == '\0'))
            return path[len] ? path + len : "/";
    }
    return NULL;
}

/* Sets the error for a result rc of root_open(), cgroup_beneath() or watch_walk(), or for -ENOMEM.
 * Returns the -errno of its id. */
static int cgroup_failed(struct err *err, int rc, const char *path)
{
    const char *shown = text_shown(path), *below = path_below_cgroup_mount(path);

    switch (rc) {
    case -EXDEV:
        return err_set(err, P15,
                       "pmcfs cannot see your cgroup root, so it cannot find \"%s\": run pmcfs in "
                       "the host's cgroup namespace",
                       shown);
    case -ENODEV:
        return err_set(err, P09,
                       "cgroup targets need cgroup v2, and it is not mounted on /sys/fs/cgroup: "
                       "mount it there");
    case -ENOMEM:
    case -EMFILE:
    case -ENFILE:
        return err_shortage(err, rc);
    case -ENOTDIR:
        return err_set(err, P33, "\"%s\" is a file, not a cgroup: write the path of its directory",
                       shown);
    }
    if (below)
        return err_set(err, P33, "no cgroup \"%s\": leave out the mount point and write cgroup:%s",
                       shown, text_shown(below));
    return err_set(err, P33,
                   "no cgroup \"%s\": write the path that /proc/PID/cgroup shows (v2, from the "
                   "root of your cgroup namespace); reattach=on waits for it",
                   shown);
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

/* Opens the root that the name starts from: one ".." for each part of the name, without leaving the
 * mount. A removed directory keeps its parents as long as it is open. */
int linux_cgroup_reopen_root(int fd, const char *name)
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

/* ---- events of watches ---- */

/* Returns part i of "/a/b/c". */
static const char *name_part(const char *name, unsigned i, size_t *len)
{
    for (; i > 0; i--)
        name += 1 + strcspn(name + 1, "/");
    *len = strcspn(name + 1, "/");
    return name + 1;
}

static bool watch_has(const struct cgroup_watch *watch, const struct inotify_event *event)
{
    if (event->mask & IN_Q_OVERFLOW)
        return true;
    for (unsigned i = 0; i < watch->n && event->len > 0; i++) {
        size_t len;
        const char *part = name_part(watch->name, i, &len);

        if (watch->wd[i] == event->wd && strncmp(event->name, part, len) == 0 && !event->name[len])
            return true;
    }
    return false;
}

/* Reads inotify events and reports the watches whose names they contain. Called on the main thread,
 * with the engine's lock. */
static void host_cgroups_take_events(void *arg, uint64_t unused)
{
    struct host_state *state = arg;
    struct host_cgroups *cgroups = &state->cgroups;
    alignas(struct inotify_event) char room[4096];
    const struct inotify_event *event;
    struct cgroup_watch *watch;

    (void)unused;
    for (int i = 0; i < READS_MAX; i++) {
        const ssize_t n = read(cgroups->fd, room, sizeof room);

        if (n <= 0)
            return;
        pthread_mutex_lock(&cgroups->lock);
        for (const char *p = room; p < room + n; p += sizeof *event + event->len) {
            event = (const struct inotify_event *)(const void *)p;
            LIST_FOREACH (watch, &cgroups->watches, entry)
                if (watch_has(watch, event))
                    state->sink->cgroup_changed(state->sink->ctx, watch->tag);
        }
        pthread_mutex_unlock(&cgroups->lock);
    }
}

void host_cgroups_open(struct host_state *state)
{
    struct host_cgroups *cgroups = &state->cgroups;
    const struct loop *loop = state->loop;

    pthread_mutex_init(&cgroups->lock, NULL);
    LIST_INIT(&cgroups->watches);
    cgroups->fd = loop ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : -1;
    if (cgroups->fd < 0 ||
        loop->watch(loop->ctx, cgroups->fd, EPOLLIN, host_cgroups_take_events, state, 0) == 0)
        return;
    close(cgroups->fd);
    cgroups->fd = -1;
}

void host_cgroups_close(struct host_state *state)
{
    struct host_cgroups *cgroups = &state->cgroups;

    if (cgroups->fd >= 0) {
        state->loop->unwatch(state->loop->ctx, cgroups->fd);
        close(cgroups->fd);
    }
    pthread_mutex_destroy(&cgroups->lock);
}

/* ---- watches ---- */

/* Adds the directory in which the next part of the name is looked up. Returns 0 or -errno. */
static int watch_add(struct cgroup_watch *watch, int dir)
{
    struct host_cgroups *cgroups = watch->cgroups;
    char path[32];

    if (watch->n == CGROUP_DEPTH_MAX)
        return -ENAMETOOLONG;
    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    pthread_mutex_lock(&cgroups->lock); /* so that no other watch removes this descriptor first */
    int rc = inotify_add_watch(cgroups->fd, path, IN_CREATE | IN_DELETE | IN_ONLYDIR);
    if (rc >= 0)
        watch->wd[watch->n++] = rc;
    else
        rc = -errno;
    pthread_mutex_unlock(&cgroups->lock);
    return rc < 0 ? rc : 0;
}

/* Watches each directory before it looks up the next part there. Returns the descriptor of the
 * cgroup, or -errno. */
static int watch_walk(struct cgroup_watch *watch, int root)
{
    char part[NAME_MAX + 2] = "/";
    int at = root;

    for (unsigned i = 0;; i++) {
        size_t len;
        const char *next = name_part(watch->name, i, &len);

        int rc = watch_add(watch, at);
        if (rc == 0 && len > NAME_MAX)
            rc = -ENOENT;
        if (rc == 0) {
            memcpy(part + 1, next, len);
            part[len + 1] = '\0';
            rc = cgroup_beneath(at, part);
        }
        if (at != root)
            close(at);
        if (rc < 0 || !next[len])
            return rc;
        at = rc;
    }
}

int linux_cgroup_watch(struct host_state *state, int root, const char *name, uint64_t tag,
                       struct cgroup_watch **out, int *fd, struct err *err)
{
    struct cgroup_watch *watch = calloc(1, sizeof *watch + strlen(name) + 1);

    *out = NULL;
    *fd = -1;
    if (!watch)
        return err_nomem(err);
    watch->cgroups = &state->cgroups;
    watch->tag = tag;
    strcpy(watch->name, name);
    pthread_mutex_lock(&state->cgroups.lock);
    LIST_INSERT_HEAD(&state->cgroups.watches, watch, entry);
    pthread_mutex_unlock(&state->cgroups.lock);

    int rc = watch_walk(watch, root);
    if (rc >= 0) {
        *fd = rc;
        *out = watch;
        return 0;
    }
    if ((rc == -ENOENT || rc == -EXDEV || rc == -ENODEV) && !path_below_cgroup_mount(name)) {
        *out = watch; /* the cgroup does not exist yet */
        return 0;
    }
    linux_cgroup_unwatch(watch);
    if (rc == -ENAMETOOLONG)
        return err_set(
            err, P14,
            "reattach=on: a cgroup path may have up to %d parts: write reattach=off to config",
            CGROUP_DEPTH_MAX);
    if (rc == -EBADF)
        return err_set(
            err, P14,
            "reattach=on: cgroups cannot be watched here (inotify): write reattach=off to config");
    if (rc == -ENOSPC)
        return err_set(err, P14,
                       "reattach=on: no inotify watch is left for cgroup \"%s\": raise "
                       "fs.inotify.max_user_watches",
                       text_shown(name));
    return cgroup_failed(err, rc, name);
}

void linux_cgroup_unwatch(struct cgroup_watch *watch)
{
    struct host_cgroups *cgroups = watch->cgroups;
    const struct cgroup_watch *other;

    pthread_mutex_lock(&cgroups->lock);
    LIST_REMOVE(watch, entry);
    for (unsigned i = 0; i < watch->n; i++) {
        bool used = false;

        LIST_FOREACH (other, &cgroups->watches, entry)
            for (unsigned k = 0; k < other->n; k++)
                used |= other->wd[k] == watch->wd[i];
        if (!used)
            inotify_rm_watch(cgroups->fd, watch->wd[i]);
    }
    pthread_mutex_unlock(&cgroups->lock);
    free(watch);
}
