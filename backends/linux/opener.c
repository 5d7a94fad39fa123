/*
 * Asking the kernel something as the opener. All credential calls are raw: glibc's wrappers would
 * change every thread. Real and saved ids stay the daemon's, so that the opener cannot signal it.
 */
#include "backends/linux/opener.h"

#include "backends/look.h"
#include "core/spent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HELPER_LIMIT_MS 2000

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

struct capabilities {
    uint64_t effective, permitted, inheritable;
};

static int capabilities_get(struct capabilities *out)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
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

/* The id -1 changes nothing; the call always answers with the id before it. */
static uid_t fsuid_now(void)
{
    return (uid_t)syscall(SYS_setfsuid, -1L);
}

static gid_t fsgid_now(void)
{
    return (gid_t)syscall(SYS_setfsgid, -1L);
}

static bool fs_ids_set(uid_t uid, gid_t gid)
{
    syscall(SYS_setfsgid, (unsigned long)gid);
    syscall(SYS_setfsuid, (unsigned long)uid);
    return fsuid_now() == uid && fsgid_now() == gid;
}

/* Everything that taking other credentials changes in a thread. */
struct own {
    uid_t fsuid;
    gid_t fsgid;
    int n_groups;
    gid_t *groups;
    bool regroup;
    struct capabilities capabilities;
    int death_signal; /* a change of credentials clears it */
};

static int own_read(struct own *own, const struct rights *rights)
{
    *own = (struct own){.fsuid = fsuid_now(), .fsgid = fsgid_now()};
    if (prctl(PR_GET_PDEATHSIG, &own->death_signal) < 0 || capabilities_get(&own->capabilities) < 0)
        return -ENOTSUP;
    own->n_groups = getgroups(0, NULL);
    if (own->n_groups > 0) {
        own->groups = malloc((size_t)own->n_groups * sizeof *own->groups);
        if (!own->groups)
            return -ENOMEM;
        own->n_groups = getgroups(own->n_groups, own->groups);
    }
    if (own->n_groups < 0)
        return -ENOTSUP;
    own->regroup = (unsigned)own->n_groups != rights->n_groups ||
                   (rights->n_groups > 0 &&
                    memcmp(own->groups, rights->groups, rights->n_groups * sizeof(gid_t)) != 0);
    return 0;
}

static bool opener_take(const struct rights *rights, const struct own *own)
{
    struct capabilities set = own->capabilities;
    set.effective = rights->capabilities & set.permitted;
    if (own->regroup && syscall(SYS_setgroups, (size_t)rights->n_groups, rights->groups) < 0)
        return false;
    return fs_ids_set(rights->uid, rights->gid) && capabilities_set(&set) == 0;
}

/* Capabilities first, to be allowed the rest, and last, because a change of fsuid alters them. */
static bool own_restore(const struct own *own)
{
    struct capabilities now = {0};
    if (capabilities_set(&own->capabilities) < 0 || !fs_ids_set(own->fsuid, own->fsgid))
        return false;
    if (own->regroup && syscall(SYS_setgroups, (size_t)own->n_groups, own->groups) < 0)
        return false;
    if (capabilities_set(&own->capabilities) < 0 || capabilities_get(&now) < 0)
        return false;
    if (own->death_signal && prctl(PR_SET_PDEATHSIG, own->death_signal) < 0)
        return false;
    return now.effective == own->capabilities.effective &&
           now.permitted == own->capabilities.permitted &&
           now.inheritable == own->capabilities.inheritable;
}

static int do_here(const struct rights *rights, long (*fn)(void *arg), void *arg)
{
    struct own own;
    int rc = own_read(&own, rights);
    if (rc == 0) {
        rc = opener_take(rights, &own) ? (int)look_at(fn, arg) : -ENOTSUP;
        /* A thread left with somebody else's rights would serve the next request with them. */
        if (!own_restore(&own))
            abort();
    }
    free(own.groups);
    return rc;
}

/*
 * In the forked process. The effective uid counts besides the fs uid: the owner of a user namespace
 * holds every capability in it, and with the daemon's own, everybody would own root's containers.
 */
static int helper_take(const struct rights *rights)
{
    struct capabilities set;
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || capabilities_get(&set) < 0)
        return -ENOTSUP;
    if (syscall(SYS_setgroups, (size_t)rights->n_groups, rights->groups) < 0 ||
        syscall(SYS_setresgid, -1L, (unsigned long)rights->gid, -1L) < 0 ||
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

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool helper_ended(int pidfd)
{
    uint64_t deadline = now_ms() + HELPER_LIMIT_MS;
    struct pollfd wait = {.fd = pidfd, .events = POLLIN};
    for (;;) {
        uint64_t now = now_ms();
        int n = poll(&wait, 1, now < deadline ? (int)(deadline - now) : 0);
        if (n > 0 || (n == 0 && now >= deadline) || (n < 0 && errno != EINTR))
            return n > 0;
    }
}

static int helper_collect(pid_t pid, int pidfd)
{
    bool ended = helper_ended(pidfd);
    if (!ended)
        kill(pid, SIGKILL); /* our own child, not collected yet: the number is still its */
    close(pidfd);
    struct rusage usage;
    int status = 0;
    while (wait4(pid, &status, __WALL, &usage) < 0)
        if (errno != EINTR)
            return -EAGAIN;
    spent_add(&usage);
    if (!ended)
        return -ETIME;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EAGAIN;
}

/*
 * clone() with no exit signal instead of fork(): nobody else's wait() or SIGCHLD sees the helper,
 * no handlers of other libraries run. Signals are blocked, so that the daemon's handlers do not run
 * in it.
 */
static int do_apart(const struct rights *rights, long (*fn)(void *arg), void *arg)
{
    int pidfd = -1;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t pid = (pid_t)syscall(SYS_clone, (unsigned long)CLONE_PIDFD, NULL, &pidfd, NULL, NULL);
    if (pid == 0) {
        int rc = helper_take(rights);
        if (rc == 0)
            rc = (int)fn(arg);
        syscall(SYS_exit_group, (long)-rc);
        __builtin_unreachable();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid < 0 ? -EAGAIN : helper_collect(pid, pidfd);
}

int opener_do(const struct rights *rights, bool apart, long (*fn)(void *arg), void *arg)
{
    return apart || rights->userns_fd >= 0 ? do_apart(rights, fn, arg) : do_here(rights, fn, arg);
}
