/*
 * Asking the kernel something as the opener. All credential calls are raw: glibc's wrappers would
 * change every thread. Real and saved ids stay the daemon's, so that the opener cannot signal it.
 */
#include "backends/linux/opener.h"

#include "backends/look.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

/*
 * Who owns the namespace may stop it there, or send it whatever else: so it holds no descriptor of
 * the daemon's (that of the mount would keep everybody waiting) but what it asks with.
 */
static bool helper_drop(int a, int b)
{
    const unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
    return (low == 0 || syscall(SYS_close_range, 0, low - 1, 0) == 0) &&
           (high - low < 2 || syscall(SYS_close_range, low + 1, high - 1, 0) == 0) &&
           syscall(SYS_close_range, high + 1, ~0U, 0) == 0;
}

/* It ends with the thread that waits for it; a change of credentials takes that back. */
static bool helper_bind(pid_t daemon)
{
    return syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
           syscall(SYS_getppid) == daemon;
}

struct helper {
    const struct rights *rights;
    pid_t daemon;
    int fd;
    long (*fn)(void *arg);
    void *arg;
};

static int helper_run(const struct helper *helper)
{
    const int userns = helper->rights->userns_fd;
    if (!helper_bind(helper->daemon) || !helper_drop(helper->fd, userns < 0 ? helper->fd : userns))
        return -ENOTSUP;
    const int rc = helper_take(helper->rights);
    if (rc < 0)
        return rc;
    if (!helper_drop(helper->fd, helper->fd))
        return -ENOTSUP;
    return helper_bind(helper->daemon) ? (int)helper->fn(helper->arg) : -EAGAIN;
}

/*
 * clone() with no exit signal instead of fork(): nobody else's wait() or SIGCHLD sees the helper,
 * no handlers of other libraries run. Signals are blocked, so that the daemon's handlers do not run
 * in it.
 */
static int do_apart(const struct helper *helper)
{
    int pidfd = -1, status;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t pid = (pid_t)syscall(SYS_clone, (unsigned long)CLONE_PIDFD, NULL, &pidfd, NULL, NULL);
    if (pid == 0) {
        syscall(SYS_exit_group, (long)-helper_run(helper));
        __builtin_unreachable();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return -EAGAIN;
    if (!look_collect(pid, pidfd, &status))
        return -ETIME;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EAGAIN;
}

int opener_do(const struct rights *rights, bool apart, int fd, long (*fn)(void *arg), void *arg)
{
    const struct helper helper = {rights, getpid(), fd, fn, arg};
    return apart || rights->userns_fd >= 0 ? do_apart(&helper) : do_here(rights, fn, arg);
}
