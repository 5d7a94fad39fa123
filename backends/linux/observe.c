/*
 * Checks whether an opener may observe a process, by reading /proc/PID/task/TID/ns/pid with the
 * opener's credentials: the kernel shows this link only to processes that pass its ptrace read
 * check. (/proc/PID/io also checks permission bits, which refuse a process with only
 * CAP_SYS_PTRACE, and maps is not correct for a process without memory.)
 */
#include "backends/helper.h"
#include "backends/linux/linux.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * ---- running a function with the opener's credentials ----
 *
 * All credential calls are raw, because glibc's wrappers change every thread. Real and saved ids
 * stay the daemon's, so that the opener cannot signal the process.
 */

struct capabilities {
    uint64_t effective, permitted, inheritable;
};

static int capabilities_get(struct capabilities *out)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    *out = (struct capabilities){0};
    if (syscall(SYS_capget, &head, data) < 0)
        return -errno;
    *out = (struct capabilities){
        .effective = (uint64_t)data[1].effective << 32 | data[0].effective,
        .permitted = (uint64_t)data[1].permitted << 32 | data[0].permitted,
        .inheritable = (uint64_t)data[1].inheritable << 32 | data[0].inheritable,
    };
    return 0;
}

static int capabilities_set(const struct capabilities *set)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {(uint32_t)set->effective, (uint32_t)set->permitted, (uint32_t)set->inheritable},
        {(uint32_t)(set->effective >> 32), (uint32_t)(set->permitted >> 32),
         (uint32_t)(set->inheritable >> 32)},
    };
    return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

static bool groups_take(const struct rights *rights)
{
    return syscall(SYS_setgroups, (size_t)rights->n_groups, rights->groups) == 0;
}

struct opener_call {
    const struct rights *rights;
    pid_t daemon;
    int fd;
    long (*first)(void *arg);
    long (*fn)(void *arg);
    void *arg;
};

/* Runs in a process of helper_call(), which keeps these credentials until it exits. */
static long run_with_rights(void *arg)
{
    const struct opener_call *call = arg;
    const struct rights *rights = call->rights;
    struct capabilities set = {0};
    const long rc = call->first ? call->first(call->arg) : 0;

    if (rc < 0)
        return rc;
    if (capabilities_get(&set) < 0 || !groups_take(rights))
        return -ENOTSUP;
    /* setfsuid() always returns the id before the call; the id -1 changes nothing. */
    syscall(SYS_setfsgid, (unsigned long)rights->gid);
    syscall(SYS_setfsuid, (unsigned long)rights->uid);
    if ((uid_t)syscall(SYS_setfsuid, -1L) != rights->uid ||
        (gid_t)syscall(SYS_setfsgid, -1L) != rights->gid)
        return -ENOTSUP;
    set.effective = rights->capabilities & set.permitted;
    if (capabilities_set(&set) < 0)
        return -ENOTSUP;
    return helper_bind(call->daemon) ? call->fn(call->arg) : -EAGAIN;
}

/*
 * Runs in the forked process: takes the opener's groups, effective ids, user namespace and
 * capabilities. Also the effective uid, because the owner of a user namespace has all capabilities
 * in it: with the daemon's uid every user would own root's containers. Returns 0 or -ENOTSUP.
 */
static int credentials_take(const struct rights *rights)
{
    struct capabilities set = {0};

    if (prctl(PR_SET_DUMPABLE, 0) < 0 || capabilities_get(&set) < 0)
        return -ENOTSUP;
    if (!groups_take(rights) || syscall(SYS_setresgid, -1L, (unsigned long)rights->gid, -1L) < 0 ||
        syscall(SYS_setresuid, -1L, (unsigned long)rights->uid, -1L) < 0)
        return -ENOTSUP;
    set.effective = set.permitted;
    if (capabilities_set(&set) < 0)
        return -ENOTSUP;
    if (rights->userns_fd >= 0 && syscall(SYS_setns, rights->userns_fd, CLONE_NEWUSER) < 0)
        return -ENOTSUP;
    if (capabilities_get(&set) < 0)
        return -ENOTSUP;
    set.effective = rights->capabilities & set.permitted;
    set.permitted = set.effective;
    set.inheritable = 0;
    return capabilities_set(&set) < 0 ? -ENOTSUP : 0;
}

/*
 * Closes all descriptors except the two given. The owner of the namespace may stop this process for
 * ever, and a descriptor of the mount would block all requests.
 */
static bool fds_close_except(int a, int b)
{
    const unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
    return (low == 0 || syscall(SYS_close_range, 0, low - 1, 0) == 0) &&
           (high - low < 2 || syscall(SYS_close_range, low + 1, high - 1, 0) == 0) &&
           syscall(SYS_close_range, high + 1, ~0U, 0) == 0;
}

/* The forked process. Returns 0 or a positive errno, as an exit status. */
static int run_apart(void *arg)
{
    const struct opener_call *call = arg;
    const int userns = call->rights->userns_fd;
    if (!helper_bind(call->daemon) || !fds_close_except(call->fd, userns < 0 ? call->fd : userns))
        return ENOTSUP;
    const int rc = credentials_take(call->rights);
    if (rc < 0)
        return -rc;
    if (!fds_close_except(call->fd, call->fd))
        return ENOTSUP;
    return helper_bind(call->daemon) ? (int)-call->fn(call->arg) : EAGAIN;
}

int run_as_opener(const struct rights *rights, bool apart, int fd, long (*first)(void *arg),
                  long (*fn)(void *arg), void *arg)
{
    struct opener_call call = {rights, getpid(), fd, first, fn, arg};

    if (!apart && rights->userns_fd < 0)
        return (int)helper_call(run_with_rights, &call);
    /* clone(2) is used directly, because fork() runs handlers of libraries. */
    const int status = helper_process(0, run_apart, &call);
    if (status < 0)
        return status == -ETIME ? status : -EAGAIN;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EAGAIN;
}

/* ---- the check ---- */

struct check {
    int dirfd;         /* /proc/PID of this process, never of a later one */
    char (*paths)[32]; /* task/TID/ns/pid */
    size_t n;
    size_t leader;       /* index of the first thread's path; SIZE_MAX: none */
    struct ns_id userns; /* of the process, read with the daemon's credentials; 0: unknown */
};

/*
 * Results that depend on the first thread: only it passed, or only it was refused.
 * leader_decides() skips it if it has exited, because it has then lost its memory and with it some
 * protection.
 */
enum {
    ONLY_LEADER_PASSED = -250, /* fits into an exit status, and is not an errno */
    ONLY_LEADER_REFUSED = -251
};

/* Returns 1 if the check passed, 0 if the thread is gone, -1 if refused. */
static int path_check(const struct check *check, const char *path)
{
    char target[64];
    struct stat st;
    if (syscall(SYS_readlinkat, check->dirfd, path, target, sizeof target) >= 0)
        return 1;
    if (errno == ENOENT || errno == ESRCH)
        return 0;
    /* A thread that exits just now is refused too; then the link is gone. */
    if (syscall(SYS_newfstatat, check->dirfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
        (errno == ENOENT || errno == ESRCH))
        return 0;
    return -1;
}

/* Runs as the daemon: reads the user namespace of the process. */
static long userns_read(void *arg)
{
    struct check *check = arg;
    struct stat st;
    if (syscall(SYS_newfstatat, check->dirfd, "ns/user", &st, 0) == 0)
        check->userns = (struct ns_id){.dev = st.st_dev, .ino = st.st_ino};
    return 0;
}

/* Makes raw system calls with the opener's credentials. Returns 0, -EPERM, -ESRCH,
 * ONLY_LEADER_PASSED or ONLY_LEADER_REFUSED. */
static long check_run(void *arg)
{
    const struct check *check = arg;
    int leader = 0, others = 0;
    for (size_t i = 0; i < check->n; i++) {
        const int passed = path_check(check, check->paths[i]);
        if (i == check->leader)
            leader = passed;
        else if (passed < 0)
            return -EPERM;
        else
            others |= passed;
    }
    if (leader < 0)
        return others ? ONLY_LEADER_REFUSED : -EPERM;
    return others ? 0 : leader ? ONLY_LEADER_PASSED : -ESRCH;
}

static int check_init(struct check *check, pid_t pid, pid_t tid)
{
    char path[32];
    pid_t *tids = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%d", pid);
    *check =
        (struct check){.dirfd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), .leader = SIZE_MAX};
    if (check->dirfd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    int rc = proc_list_numbers(check->dirfd, "task", &tids, &n);
    if (rc < 0)
        return rc == -ENOENT ? -ESRCH : rc;
    check->paths = malloc((n + 1) * sizeof *check->paths);
    for (size_t i = 0; check->paths && i < n; i++) {
        if (tid && tids[i] != tid)
            continue;
        if (tids[i] == pid)
            check->leader = check->n;
        snprintf(check->paths[check->n++], sizeof *check->paths, "task/%d/ns/pid", tids[i]);
    }
    free(tids);
    if (!check->paths)
        return -ENOMEM;
    return check->n > 0 ? 0 : -ESRCH;
}

/* Returns true if real, effective and saved id of the status line `key` are all `id`. Sets *mixed
 * if these three differ. */
static bool ids_are(const char *status, const char *key, unsigned id, bool *mixed)
{
    unsigned real, effective, saved;
    const char *p = proc_field(status, key);
    if (!p || sscanf(p, "%u %u %u", &real, &effective, &saved) != 3)
        return false;
    *mixed = real != effective || real != saved;
    return real == id && effective == id && saved == id;
}

/*
 * Returns true if the process is the opener itself, which the kernel always allows. Not true for a
 * descriptor from another process, or from before an exec or a change of rights: all three ids of
 * each thread must be the opener's, and no thread may have further capabilities.
 */
static bool process_is_opener(struct host_state *state, const struct rights *rights,
                              const struct opener *opener, pid_t pid)
{
    pid_t *tids;
    size_t n;
    if (!caller_is_opener(state, opener, pid) || proc_threads(pid, &tids, &n) < 0)
        return false;
    bool same = n > 0, mixed;
    for (size_t i = 0; same && i < n; i++) {
        char *status = proc_task_text(tids[i], "status");
        const char *permitted = status ? proc_field(status, "CapPrm") : NULL;

        same = permitted && ids_are(status, "Uid", rights->uid, &mixed) &&
               ids_are(status, "Gid", rights->gid, &mixed) &&
               !(strtoull(permitted, NULL, 16) & ~rights->capabilities);
        free(status);
    }
    free(tids);
    return same;
}

/* Replaces a result that depends on the first thread by 0, -EPERM or -ESRCH. */
static int leader_decides(const struct check *check, int rc)
{
    if (rc != ONLY_LEADER_PASSED && rc != ONLY_LEADER_REFUSED)
        return rc;
    char *status = proc_text_at(check->dirfd, "status");
    const bool dead = !status || proc_status_dead(status);
    free(status);
    if (rc == ONLY_LEADER_PASSED)
        return dead ? -ESRCH : 0;
    return dead ? 0 : -EPERM;
}

int observe_check(struct host_state *state, const struct rights *rights,
                  const struct opener *opener, pid_t pid, pid_t tid)
{
    const bool apart = rights->userns_fd >= 0;
    struct check check;

    if (is_ours(state, pid))
        return -EPERM;
    int rc = check_init(&check, pid, tid);
    if (rc == 0) {
        const int fd = check.dirfd;

        rc = run_as_opener(rights, apart, fd, apart ? NULL : userns_read, check_run, &check);
        /* A helper of helper_call() keeps the daemon's effective uid, which owns the user
         * namespaces that root created. So a process in another user namespace is checked again
         * from a forked process. */
        if (!apart && rc != -ETIME && !ns_same(&check.userns, &state->userns))
            rc = run_as_opener(rights, true, fd, NULL, check_run, &check);
        rc = leader_decides(&check, rc);
    }
    /* The opener may not even see the directory (hidepid); an exiting process looks refused. */
    if ((rc == -ESRCH || rc == -EPERM) && !tid) {
        rc = proc_alive(pid);
        rc = rc < 0 ? rc : rc ? -EPERM : -ESRCH;
    }
    fd_close(check.dirfd);
    free(check.paths);
    return rc == -EPERM && process_is_opener(state, rights, opener, pid) ? 0 : rc;
}

const char *observe_reason(const struct host_state *state, const struct rights *rights, pid_t pid,
                           int rc)
{
    if (is_ours(state, pid))
        return "it is pmcfs itself";
    if (rc == -ENOTSUP)
        return "pmcfs lacks the capabilities to check your rights";
    if (rc != -EPERM)
        return "pmcfs could not check your rights";
    char *status = proc_task_text(pid, "status");
    if (!status)
        return "its status could not be read";
    const char *permitted = proc_field(status, "CapPrm"), *reason;
    const uint64_t capabilities = permitted ? strtoull(permitted, NULL, 16) : 0;
    bool mixed = false;
    if (!ids_are(status, "Uid", rights->uid, &mixed))
        reason = mixed ? "it runs a set-user-ID program or has changed its user"
                       : "it runs as another user";
    else if (!ids_are(status, "Gid", rights->gid, &mixed))
        reason = mixed ? "it runs a set-group-ID program or has changed its group"
                       : "it runs with another group id";
    else if (rights->userns_fd >= 0 || (capabilities & ~rights->capabilities))
        reason = "it has capabilities that you lack, or runs in another user namespace";
    else
        reason = "it is not dumpable: it has changed its user, runs a program that you may not "
                 "read, or has set PR_SET_DUMPABLE to 0; or it has capabilities that pmcfs has "
                 "dropped";
    free(status);
    return reason;
}
