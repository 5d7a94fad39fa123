/*
 * Control groups that do not exist yet, or may be removed: inotify reports what is created and
 * removed in each directory above them. The kernel reports nothing for a removed cgroup itself.
 */
#include "backends/linux/machine/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#define READS_MAX 16 /* per call from the loop; the rest causes another call */

struct cgroup_watch {
    LIST_ENTRY(cgroup_watch) entry;
    struct host_cgroups *cgroups;
    uint64_t tag;
    unsigned n;
    int wd[CGROUP_DEPTH_MAX]; /* of the directory in which part i of the name is looked up */
    char name[];
};

/* Part i of "/a/b/c". */
static const char *name_part(const char *name, unsigned i, size_t *len)
{
    for (; i > 0; i--)
        name += 1 + strcspn(name + 1, "/");
    *len = strcspn(name + 1, "/");
    return name + 1;
}

/* ---- events ---- */

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

/* On the main thread, with the engine's lock. */
static void host_cgroups_news(void *arg, uint64_t unused)
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
                    state->sink->cgroup(state->sink->ctx, watch->tag);
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
        loop->watch(loop->ctx, cgroups->fd, EPOLLIN, host_cgroups_news, state, 0) == 0)
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

/* Adds the directory in which the next part of the name is looked up. */
static int watch_add(struct cgroup_watch *watch, int dir)
{
    struct host_cgroups *cgroups = watch->cgroups;
    char path[32];
    int rc;

    if (watch->n == CGROUP_DEPTH_MAX)
        return -ENAMETOOLONG;
    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    pthread_mutex_lock(&cgroups->lock); /* so that no other watch removes this descriptor first */
    rc = inotify_add_watch(cgroups->fd, path, IN_CREATE | IN_DELETE | IN_ONLYDIR);
    if (rc >= 0)
        watch->wd[watch->n++] = rc;
    else
        rc = -errno;
    pthread_mutex_unlock(&cgroups->lock);
    return rc < 0 ? rc : 0;
}

/* Each directory is watched before the next part is looked up in it. The descriptor of the cgroup,
 * or -errno. */
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

static int watch_failed(struct err *err, int rc, const char *name)
{
    if (rc == -ENAMETOOLONG)
        return err_set(err, P14, "reattach=on: a cgroup path may have up to %d parts",
                       CGROUP_DEPTH_MAX);
    if (rc == -EBADF)
        return err_set(err, P14, "reattach=on: cgroups cannot be watched here (inotify)");
    if (rc == -ENOSPC)
        return err_set(err, P14,
                       "reattach=on: no inotify watch is left for cgroup \"%s\": raise "
                       "fs.inotify.max_user_watches",
                       text_shown(name));
    return cgroup_failed(err, rc, name);
}

int linux_cgroup_watch(struct host_state *state, int root, const char *name, uint64_t tag,
                       struct cgroup_watch **out, int *fd, struct err *err)
{
    struct cgroup_watch *watch = calloc(1, sizeof *watch + strlen(name) + 1);

    *out = NULL;
    *fd = -1;
    if (!watch)
        return err_set(err, E32, "no memory for cgroup \"%s\"", text_shown(name));
    watch->cgroups = &state->cgroups;
    watch->tag = tag;
    strcpy(watch->name, name);
    pthread_mutex_lock(&state->cgroups.lock);
    LIST_INSERT_HEAD(&state->cgroups.watches, watch, entry);
    pthread_mutex_unlock(&state->cgroups.lock);

    int rc = watch_walk(watch, root);
    if (rc >= 0) {
        *fd = rc;
    } else if ((rc != -ENOENT && rc != -EXDEV && rc != -ENODEV) || cgroup_behind_mount(name)) {
        linux_cgroup_unwatch(watch);
        return watch_failed(err, rc, name);
    }
    *out = watch;
    return 0;
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
