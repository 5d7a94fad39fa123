/*
 * The requester and its rights. The requesting thread waits for the reply, so its number cannot be
 * reused while it is inspected.
 */
#include "backends/helper.h"
#include "backends/linux/linux.h"
#include "core/base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif

#define SHARERS_MAX 64

/* Reads lines "inside outside count" of an id map and stores the outside ranges. */
static void ranges_read(pid_t tid, const char *map, struct id_range ranges[MAPPED_MAX])
{
    char *text = proc_task_text(tid, map), *rest = NULL;
    int n = 0;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line && n < MAPPED_MAX;
         line = strtok_r(NULL, "\n", &rest), n++)
        sscanf(line, "%*u %" SCNu32 " %" SCNu32, &ranges[n].first, &ranges[n].count);
    free(text);
}

/* Returns true if the fs id, which is the fourth id of the line `key`, is `id`. */
static bool fs_id_is(const char *status, const char *key, unsigned id)
{
    unsigned fs;
    const char *p = proc_field(status, key);
    return p && sscanf(p, "%*u %*u %*u %u", &fs) == 1 && fs == id;
}

/* Reads capabilities and groups from a text of status. Returns 0, -EIO or -ENOMEM. */
static int status_read(const char *status, struct rights *rights)
{
    const char *effective = proc_field(status, "CapEff"), *p = proc_field(status, "Groups");
    size_t size = 0;
    char *end;

    if (!effective || !p)
        return -EIO;
    rights->capabilities = strtoull(effective, NULL, 16);
    for (; *p >= '0' && *p <= '9'; p = *end == ' ' ? end + 1 : end) {
        if (vec_grow(&rights->groups, &size, rights->n_groups + 1, sizeof *rights->groups))
            return -ENOMEM;
        rights->groups[rights->n_groups++] = (gid_t)strtoul(p, &end, 10);
    }
    return 0;
}

static void rights_drop(struct rights *rights)
{
    rights->capabilities = 0;
    rights->n_groups = 0;
}

/*
 * Limits the rights of an io_uring worker. It has old credentials and works for any thread of the
 * process, so it gets the rights that all threads have now; none if there are more than SHARERS_MAX
 * threads, or if one cannot be read.
 */
static void rights_limit_to_threads(pid_t tgid, struct rights *rights)
{
    pid_t *tids;
    size_t n;
    if (proc_threads(tgid, &tids, &n) < 0 || n > SHARERS_MAX)
        rights_drop(rights);
    for (size_t i = 0; i < n && (rights->capabilities || rights->n_groups); i++) {
        struct rights other = {.groups = NULL};
        char *status = proc_task_text(tids[i], "status");
        if (status && status_read(status, &other) == 0) {
            unsigned n_common = 0;

            rights->capabilities &= other.capabilities;
            for (unsigned k = 0, o = 0; k < rights->n_groups; k++) { /* the kernel sorts groups */
                while (o < other.n_groups && other.groups[o] < rights->groups[k])
                    o++;
                if (o < other.n_groups && other.groups[o] == rights->groups[k])
                    rights->groups[n_common++] = rights->groups[k];
            }
            rights->n_groups = n_common;
        } else {
            rights_drop(rights);
        }
        free(other.groups);
        free(status);
    }
    free(tids);
}

/*
 * Removes capabilities and groups of threads that act for others: kernel threads, which have all
 * rights and no memory; and threads whose fs ids differ from the request's, which use credentials
 * that /proc does not show (a stacked file system, a personality of io_uring). Limits those of
 * io_uring workers.
 */
static void rights_limit(pid_t tid, const char *status, struct rights *rights)
{
    struct proc_stat stat;
    const char *field = proc_field(status, "Tgid");
    const pid_t tgid = field ? (pid_t)strtol(field, NULL, 10) : 0;
    if (!proc_field(status, "VmSize") || !fs_id_is(status, "Uid", rights->uid) ||
        !fs_id_is(status, "Gid", rights->gid))
        rights_drop(rights);
    rights->pid = tgid;
    if (tgid == tid || (!rights->capabilities && !rights->n_groups))
        return; /* the first thread of a process is never a worker */
    if (proc_stat_directly(tid, &stat) < 0)
        rights_drop(rights);
    else if (stat.io_worker)
        rights_limit_to_threads(tgid, rights);
}

/*
 * Finds the payer. All ids of a user namespace that an ordinary user created belong to that user,
 * so the payer is the owner of the outermost one below the daemon's. In a namespace that root
 * created (a container), or if the owner cannot be found, each id pays for itself.
 */
static uid_t userns_payer(const struct host_state *state, int userns_fd, uid_t uid)
{
    int fd = fcntl(userns_fd, F_DUPFD_CLOEXEC, 0), parent;
    uid_t owner = 0;

    while (fd >= 0 && (parent = ioctl(fd, NS_GET_PARENT)) >= 0) {
        struct ns_id above;

        if (ns_identify_fd(parent, &above) < 0 || ns_same(&above, &state->userns)) {
            close(parent);
            break;
        }
        close(fd);
        fd = parent;
    }
    if (fd < 0 || ioctl(fd, NS_GET_OWNER_UID, &owner) < 0)
        owner = 0;
    fd_close(fd);
    return owner ? owner : uid;
}

int linux_caller_rights(struct host_state *state, pid_t tid, uid_t uid, gid_t gid,
                        struct rights **out)
{
    struct rights *rights = calloc(1, sizeof *rights);
    struct ns_id ns = state->userns;
    int rc = 0;

    if (!rights)
        return -ENOMEM;
    rights->uid = rights->payer = uid;
    rights->gid = gid;
    rights->userns_fd = -1;
    if (tid && ns_identify(tid, "user", &ns) < 0)
        rc = is_shortage(-errno) ? -errno : -EIO;
    if (rc == 0 && !ns_same(&ns, &state->userns)) {
        rights->userns = ns.ino;
        rights->userns_fd = ns_open(tid, "user");
        if (rights->userns_fd < 0)
            rc = is_shortage(-errno) ? -errno : -EIO;
        else
            rights->payer = userns_payer(state, rights->userns_fd, uid);
    }
    if (rc < 0)
        rights_free(rights);
    else
        *out = rights;
    return rc;
}

int linux_caller_rights_rest(struct host_state *state, pid_t tid, struct rights *rights)
{
    const uint64_t super = 1ULL << CAP_PERFMON | 1ULL << CAP_SYS_ADMIN;
    char *status = tid ? proc_task_text(tid, "status") : NULL;
    (void)state;
    if (!status)
        return tid == 0 ? 0 : is_shortage(-errno) ? -errno : -EIO;
    int rc = status_read(status, rights);
    if (rc == 0)
        rights_limit(tid, status, rights);
    free(status);
    rights->superuser = rights->userns_fd < 0 && (rights->capabilities & super);
    if (rights->userns_fd >= 0) {
        ranges_read(tid, "uid_map", rights->uids);
        ranges_read(tid, "gid_map", rights->gids);
    }
    return rc;
}

/* The executed file of a process, from the kernel's cache without a request to its file system. */
struct program {
    pid_t pid;
    uint64_t dev, ino;
};

static long program_find(void *arg)
{
    struct program *program = arg;
    struct statx file;
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/exe", program->pid);
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_INO, &file) < 0)
        return -errno;
    program->dev = (uint64_t)file.stx_dev_major << 32 | file.stx_dev_minor;
    program->ino = file.stx_ino;
    return 0;
}

void linux_caller_opener(struct host_state *state, pid_t pid, struct opener *opener)
{
    struct program program = {.pid = pid};
    if (!pid || program_find(&program) < 0)
        return;
    opener->program_dev = program.dev;
    opener->program_ino = program.ino;
    opener->key = linux_caller_key(state, pid);
}

bool caller_is_opener(struct host_state *state, const struct opener *opener, pid_t pid)
{
    struct program now = {.pid = pid};
    return opener && opener->key && linux_pid_key(state, pid) == opener->key &&
           helper_call(program_find, &now) == 0 && now.dev == opener->program_dev &&
           now.ino == opener->program_ino;
}

/* The namespaces of an io_uring worker may be old, so the first thread of its process is used. */
pid_t caller_thread(pid_t tid)
{
    struct proc_stat stat;
    const pid_t tgid = tid ? proc_tgid(tid) : 0;
    if (tgid == tid)
        return tid;
    const int rc = tgid == 0 ? -errno : proc_stat_directly(tid, &stat);
    return rc < 0 ? rc : stat.io_worker ? tgid : tid;
}

pid_t linux_caller_pid(struct host_state *state, pid_t tid)
{
    (void)state;
    return tid ? proc_tgid(tid) : 0;
}
