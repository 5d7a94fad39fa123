/*
 * Control groups (v2) as a requester names them: beneath the root of its cgroup namespace, which is
 * found exactly or not at all.
 */
#include "backends/linux/cgroup.h"
#include "backends/linux/opener.h"

#include "core/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define ROOT_TRIES 4

/* Undo the \ooo of mountinfo, in place. */
static void mountinfo_unescape(char *text)
{
    char *to = text;
    for (const char *p = text; *p; to++) {
        unsigned c;
        if (*p == '\\' && sscanf(p + 1, "%3o", &c) == 1) {
            *to = (char)c;
            p += 4;
        } else {
            *to = *p++;
        }
    }
    *to = '\0';
}

/* The mountpoint of the whole v2 hierarchy (free), or NULL and errno (ENODEV: none). */
static char *mount_find(void)
{
    char *text = proc_text("/proc/self/mountinfo");
    char *found = NULL;
    char *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line && !found;
         line = strtok_r(NULL, "\n", &rest)) {
        char *root = NULL;
        char *point = NULL;
        if (strstr(line, " - cgroup2 ") &&
            sscanf(line, "%*s %*s %*s %ms %ms", &root, &point) == 2 && strcmp(root, "/") == 0) {
            mountinfo_unescape(point);
            found = point;
            point = NULL;
        }
        free(root);
        free(point);
    }
    if (text && !found)
        errno = ENODEV;
    free(text);
    return found;
}

/* "//a/./b/" becomes "/a/b"; false when it has a "..", which has no place in a name. */
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

/* The v2 cgroup of thread tid, from the root of the current thread's cgroup namespace (free). */
static char *cgroup_of(pid_t tid)
{
    char *text = proc_task_text(tid, "cgroup");
    char *path = NULL;
    char *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line && !path;
         line = strtok_r(NULL, "\n", &rest))
        if (strncmp(line, "0::/", 4) == 0)
            path = strdup(line + 3);
    free(text);
    return path;
}

/* The same as seen from tid's own namespace. A cgroup namespace is a thread's own affair. */
static char *cgroup_of_inside(pid_t tid)
{
    char *path = NULL;
    int own = open("/proc/thread-self/ns/cgroup", O_RDONLY | O_CLOEXEC);
    int theirs = ns_open(tid, "cgroup");
    if (own >= 0 && theirs >= 0 && setns(theirs, CLONE_NEWCGROUP) == 0) {
        path = cgroup_of(tid);
        if (setns(own, CLONE_NEWCGROUP) < 0)
            abort(); /* this thread would take one requester's root for everybody's */
    }
    if (own >= 0)
        close(own);
    if (theirs >= 0)
        close(theirs);
    return path;
}

/*
 * outside = root + inside, for a cgroup that lies beneath the root (cut in place). False: it does
 * not, or lies outside what we see.
 */
static bool root_cut(char *outside, const char *inside)
{
    size_t tail = strcmp(inside, "/") == 0 ? 0 : strlen(inside);
    size_t len = strcmp(outside, "/") == 0 ? 0 : strlen(outside);
    if (strncmp(inside, "/..", 3) == 0 || strncmp(outside, "/..", 3) == 0 || tail > len ||
        strncmp(outside + len - tail, inside, tail) != 0)
        return false;
    len -= tail;
    if (len == 0)
        outside[len++] = '/';
    outside[len] = '\0';
    return true;
}

/* The root of tid's cgroup namespace as a path from ours (free); NULL when it cannot be known. */
static char *root_of(const struct host_state *state, pid_t tid)
{
    struct ns_id ns;
    if (tid == 0 || ns_identify(tid, "cgroup", &ns) < 0)
        return NULL;
    if (ns_same(&ns, &state->cgroupns))
        return strdup("/");
    for (int i = 0; i < ROOT_TRIES; i++) {
        char *outside = cgroup_of(tid);
        char *inside = cgroup_of_inside(tid);
        char *again = cgroup_of(tid);
        /* Moved in between: the three speak of different cgroups. */
        bool stable = outside && again && strcmp(outside, again) == 0;
        bool known = stable && inside && root_cut(outside, inside);
        free(inside);
        free(again);
        if (known)
            return outside;
        free(outside);
        if (stable)
            break;
    }
    return NULL;
}

/* An absolute, normalised path beneath dirfd: no links, no other file system. */
static int beneath_open(int dirfd, const char *path)
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
    struct statfs fs;
    char *mount = mount_find();
    int fd = mount ? open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int rc = fd < 0 ? -errno : fd;
    free(mount);
    if (fd >= 0 && (fstatfs(fd, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)) {
        close(fd);
        rc = -ENODEV; /* something else is mounted over it */
    }
    return rc;
}

/* From the mountpoint to the requester's root, and from there to the path. */
static int cgroup_walk(const char *root, const char *path)
{
    int top = hierarchy_open();
    if (top < 0)
        return top;
    int base = beneath_open(top, root);
    close(top);
    if (base < 0)
        return base;
    int fd = beneath_open(base, path);
    close(base);
    return fd;
}

static int walk_failed(struct err *err, int rc, const char *path)
{
    switch (rc) {
    case -ENODEV:
        return err_set(err, P09,
                       "no cgroup v2 hierarchy is mounted here, so that there are no cgroup "
                       "targets");
    case -ENOSYS:
        return err_set(err, P09, "cgroup targets need openat2, Linux 5.6 or later");
    case -EMFILE:
    case -ENFILE:
        return err_set(err, P10, "no file descriptor left for cgroup %s", text_shown(path));
    case -ENOMEM:
        return err_set(err, E32, "no memory for cgroup %s", text_shown(path));
    case -ENOTDIR:
        return err_set(err, P33, "%s is a file, not a cgroup", text_shown(path));
    }
    return err_set(err, P33, "no cgroup %s, read from the root of your cgroup namespace (v2)",
                   text_shown(path));
}

int linux_cgroup_open(struct host_state *state, pid_t tid, const char *path, int *fd, char **name,
                      struct err *err)
{
    char *normal;
    bool legal = path_normalise(path, &normal);
    if (!normal)
        return walk_failed(err, -ENOMEM, path);
    if (!legal) {
        free(normal);
        return err_set(err, P33,
                       "cgroup %s: '..' is not taken; name it from the root, as in "
                       "/proc/PID/cgroup",
                       text_shown(path));
    }
    char *root = root_of(state, tid);
    if (!root) {
        free(normal);
        return err_set(err, P15,
                       "your cgroup root cannot be seen from where pmcfs runs, so that %s "
                       "has no meaning to it",
                       text_shown(path));
    }
    int rc = cgroup_walk(root, normal);
    free(root);
    if (rc < 0) {
        rc = walk_failed(err, rc, normal);
        free(normal);
        return rc;
    }
    *fd = rc;
    *name = normal;
    return 0;
}

/* With the opener's credentials, raw system calls only. */
static long procs_open(void *arg)
{
    const int *fd = arg;
    long procs = syscall(SYS_openat, *fd, "cgroup.procs", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (procs < 0)
        return -EPERM;
    syscall(SYS_close, (int)procs);
    return 0;
}

int linux_cgroup_may_move(struct host_state *state, const struct rights *rights, int fd)
{
    (void)state;
    return opener_do(rights, false, procs_open, &fd) == 0 ? 0 : -EPERM;
}

static bool passes_as_root(const struct rights *rights)
{
    return rights->uid == 0 ||
           (rights->userns_fd < 0 && (rights->capabilities & UINT64_C(1) << CAP_DAC_OVERRIDE));
}

/*
 * Everybody can make a cgroup namespace in a user namespace made for it, and its root is then the
 * cgroup that one is in, whoever else is in it. One that belongs to the daemon's user namespace
 * was made by who administers the machine.
 */
static bool is_of_our_userns(const struct host_state *state, pid_t tid)
{
    struct stat st;
    int ns = ns_open(tid, "cgroup");
    int owner = ns >= 0 ? ioctl(ns, NS_GET_USERNS) : -1;
    bool known = owner >= 0 && fstat(owner, &st) == 0;
    if (ns >= 0)
        close(ns);
    if (owner >= 0)
        close(owner);
    return known && ns_same(&(struct ns_id){.dev = st.st_dev, .ino = st.st_ino}, &state->userns);
}

bool linux_cgroup_is_home(const struct host_state *state, pid_t tid, const struct rights *rights)
{
    struct ns_id ns;
    if (tid == 0 || ns_identify(tid, "cgroup", &ns) < 0 || ns_same(&ns, &state->cgroupns))
        return true;
    return passes_as_root(rights) && !is_of_our_userns(state, tid);
}

/* The inode of a v2 cgroup is its id, which is not used again while the machine runs. */
uint64_t linux_cgroup_key(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/* Nothing can be looked up in a removed directory. */
bool linux_cgroup_alive(int fd)
{
    return faccessat(fd, "cgroup.procs", F_OK, 0) == 0;
}
