/*
 * Finds tracefs. A private mount, which is not attached to the tree, comes first: it does not
 * depend on another mount and does not prevent one from being unmounted.
 */
#include "backends/perf/probe/pmu.h"
#include "backends/perf/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#define PLACE "/sys/kernel/tracing"

int tracefs_mount(const char *root)
{
    int fs, mount = -1;

    if (root[0])
        return -ENOENT;
    fs = fsopen("tracefs", FSOPEN_CLOEXEC);
    if (fs >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mount =
            fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (mount < 0)
        mount = -errno;
    if (fs >= 0)
        close(fs);
    return mount;
}

static int events_open(int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int tracefs_events(const struct backend_state *state)
{
    char path[512];
    int fd = state->pmus->tracefs >= 0 ? events_open(state->pmus->tracefs, "events") : -ENOENT;

    snprintf(path, sizeof(path), "%s" PLACE "/events", state->pmus->root);
    return fd >= 0 ? fd : events_open(AT_FDCWD, path);
}

bool tracefs_where(const struct backend_state *state, struct buf *out)
{
    const int events = tracefs_events(state), mount = state->pmus->tracefs;

    if (events >= 0)
        close(events);
    if (events >= 0)
        buf_str(out, mount >= 0 ? "yes, by a mount of pmcfs's own" : PLACE);
    else if (mount >= 0)
        buf_str(out, "tracefs has no events: this kernel was built without tracepoints, or it is "
                     "locked down (confidentiality)");
    else
        buf_printf(out,
                   "tracefs is not mounted, and a mount of pmcfs's own failed with %s: "
                   "mount -t tracefs tracefs " PLACE,
                   err_errno_name(-mount));
    return events >= 0;
}
