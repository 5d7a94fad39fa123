/*
 * Finding tracefs. An own mount without a place in the tree comes first: it needs nobody's, and
 * keeps nobody from unmounting theirs; what is in it is the same.
 */
#include "backends/perf/probe/tracefs.h"

#include "backends/perf/probe/pmu.h"
#include "backends/perf/probe/why.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define PLACE "/sys/kernel/tracing"

struct tracefs {
    int events;      /* the directory "events", or -1 */
    char where[256]; /* the mount, or why there is none */
};

static int open_dir(int at, const char *path)
{
    return openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void try_usual_place(struct tracefs *tracefs, const char *root)
{
    char path[512];

    if ((size_t)snprintf(path, sizeof(path), "%s" PLACE "/events", root) >= sizeof(path))
        return;
    tracefs->events = open_dir(AT_FDCWD, path);
    if (tracefs->events >= 0)
        snprintf(tracefs->where, sizeof(tracefs->where), PLACE);
}

/* Under lockdown the kernel mounts it, and makes no files in it. */
static void say_empty(struct tracefs *tracefs)
{
    char text[LOCKDOWN_BYTES];
    const char *lockdown = why_lockdown(text);

    if (strcmp(lockdown, "confidentiality") == 0)
        snprintf(tracefs->where, sizeof(tracefs->where),
                 "tracefs is empty: the kernel is locked down (confidentiality)");
    else
        snprintf(tracefs->where, sizeof(tracefs->where),
                 "tracefs has no events: this kernel was built without tracepoints");
}

static bool try_own_mount(struct tracefs *tracefs)
{
    int error = 0, mount = -1;
    int fs = fsopen("tracefs", FSOPEN_CLOEXEC);

    if (fs >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mount =
            fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (mount >= 0)
        tracefs->events = open_dir(mount, "events");
    error = errno;
    if (mount >= 0)
        close(mount);
    if (fs >= 0)
        close(fs);
    if (tracefs->events >= 0)
        snprintf(tracefs->where, sizeof(tracefs->where), "yes, by a mount of pmcfs's own");
    else if (mount >= 0)
        say_empty(tracefs);
    else
        snprintf(tracefs->where, sizeof(tracefs->where),
                 "tracefs is not mounted, and a mount of pmcfs's own failed with %s: "
                 "mount -t tracefs tracefs " PLACE,
                 err_errno_name(error));
    return tracefs->events >= 0;
}

static void tracefs_find(struct tracefs *tracefs, const char *root)
{
    if (root[0])
        snprintf(tracefs->where, sizeof(tracefs->where), "there is no tracefs below %.200s", root);
    else if (try_own_mount(tracefs))
        return;
    try_usual_place(tracefs, root);
}

int tracefs_events(struct backend_state *state, const char **where)
{
    static _Thread_local char said[sizeof(((struct tracefs *)0)->where)];
    struct pmus *pmus = state->pmus;
    int events = -1;

    snprintf(said, sizeof(said), "there was no memory to look for tracefs");
    pthread_mutex_lock(&pmus->lock);
    if (!pmus->tracefs) {
        pmus->tracefs = calloc(1, sizeof(*pmus->tracefs));
        if (pmus->tracefs)
            pmus->tracefs->events = -1;
    }
    if (pmus->tracefs) {
        if (pmus->tracefs->events < 0)
            tracefs_find(pmus->tracefs, pmus->root);
        events = pmus->tracefs->events;
        memcpy(said, pmus->tracefs->where, sizeof(said));
    }
    pthread_mutex_unlock(&pmus->lock);
    *where = said;
    return events;
}

const char *tracefs_where(struct backend_state *state, bool *found)
{
    const char *where;

    *found = tracefs_events(state, &where) >= 0;
    return where;
}

void tracefs_free(struct tracefs *tracefs)
{
    if (!tracefs)
        return;
    if (tracefs->events >= 0)
        close(tracefs->events);
    free(tracefs);
}
