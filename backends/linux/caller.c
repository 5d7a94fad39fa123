/*
 * Who makes a request: its rights and its process. The thread waits for our answer, so that its
 * number cannot come to mean another while we look.
 */
#include "backends/linux/caller.h"
#include "backends/linux/process.h"
#include "backends/look.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif

static int groups_read(const char *status, struct rights *rights)
{
    const char *p = proc_field(status, "Groups");
    size_t size = 0;
    while (p && *p >= '0' && *p <= '9') {
        char *end;
        if (rights->n_groups == size) {
            size = size ? 2 * size : 8;
            gid_t *larger = realloc(rights->groups, size * sizeof *larger);
            if (!larger)
                return -ENOMEM;
            rights->groups = larger;
        }
        rights->groups[rights->n_groups++] = (gid_t)strtoul(p, &end, 10);
        p = *end == ' ' ? end + 1 : end;
    }
    return p ? 0 : -EIO;
}

/* Lines of "inside outside count": what is outside, in our user namespace. */
static void ranges_read(pid_t tid, const char *map, struct id_range ranges[MAPPED_MAX])
{
    char *text = proc_task_text(tid, map), *rest = NULL;
    int n = 0;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line && n < MAPPED_MAX;
         line = strtok_r(NULL, "\n", &rest), n++)
        sscanf(line, "%*u %" SCNu32 " %" SCNu32, &ranges[n].first, &ranges[n].count);
    free(text);
}

static int rights_read(const struct host_state *state, pid_t tid, struct rights *rights)
{
    const uint64_t super = 1ULL << CAP_PERFMON | 1ULL << CAP_SYS_ADMIN;
    struct ns_id ns;
    char *status = proc_task_text(tid, "status");
    if (!status)
        return errno == ENOMEM ? -ENOMEM : -EIO;
    const char *effective = proc_field(status, "CapEff");
    int rc = groups_read(status, rights);
    if (effective)
        rights->capabilities = strtoull(effective, NULL, 16);
    free(status);
    if (rc < 0 || !effective || ns_identify(tid, "user", &ns) < 0)
        return rc < 0 ? rc : -EIO;
    if (ns_same(&ns, &state->userns)) {
        rights->superuser = (rights->capabilities & super) != 0;
        return 0;
    }
    ranges_read(tid, "uid_map", rights->uids);
    ranges_read(tid, "gid_map", rights->gids);
    rights->userns_fd = ns_open(tid, "user");
    return rights->userns_fd < 0 ? -EIO : 0;
}

int linux_caller_rights(struct host_state *state, pid_t tid, uid_t uid, gid_t gid,
                        struct rights **out)
{
    struct rights *rights = calloc(1, sizeof *rights);
    if (!rights)
        return -ENOMEM;
    rights->uid = uid;
    rights->gid = gid;
    rights->userns_fd = -1;
    int rc = tid ? rights_read(state, tid, rights) : 0;
    if (rc < 0) {
        rights_free(rights);
        return rc;
    }
    *out = rights;
    return 0;
}

/* The file that a process executes; what the kernel knows of it, without asking its file system. */
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

void linux_caller_opener(struct host_state *state, pid_t tid, struct rights *rights)
{
    struct program program = {.pid = linux_caller_pid(state, tid)};
    if (!program.pid || program_find(&program) < 0)
        return;
    rights->program_dev = program.dev;
    rights->program_ino = program.ino;
    rights->opener = linux_caller_key(state, program.pid);
}

bool caller_is_opener(struct host_state *state, const struct rights *rights, pid_t pid)
{
    struct program now = {.pid = pid};
    return rights->opener && linux_pid_key(state, pid) == rights->opener &&
           look_at(program_find, &now) == 0 && now.dev == rights->program_dev &&
           now.ino == rights->program_ino;
}

pid_t linux_caller_pid(struct host_state *state, pid_t tid)
{
    (void)state;
    return tid ? proc_tgid(tid) : 0;
}
