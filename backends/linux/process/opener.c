/*
 * Asking the kernel something as the opener. All credential calls are raw: glibc's wrappers would
 * change every thread. Real and saved ids stay the daemon's, so that the opener cannot signal it.
 */
#include "backends/linux/process/opener.h"

#include "backends/look.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* setfsuid() always answers with the id before it; the id -1 changes nothing. */
static bool fs_ids_take(const struct rights *rights)
{
    syscall(SYS_setfsgid, (unsigned long)rights->gid);
    syscall(SYS_setfsuid, (unsigned long)rights->uid);
    return (uid_t)syscall(SYS_setfsuid, -1L) == rights->uid &&
           (gid_t)syscall(SYS_setfsgid, -1L) == rights->gid;
}

struct asking {
    const struct rights *rights;
    pid_t daemon;
    int fd;
    long (*first)(void *arg);
    long (*fn)(void *arg);
    void *arg;
};

/* In a look's process, which keeps these credentials until it ends. */
static long ask_here(void *arg)
{
    const struct asking *asking = arg;
    struct capabilities set = {0};
    const long rc = asking->first ? asking->first(asking->arg) : 0;

    if (rc < 0)
        return rc;
    if (capabilities_get(&set) < 0)
        return -ENOTSUP;
    set.effective = asking->rights->capabilities & set.permitted;
    if (!groups_take(asking->rights) || !fs_ids_take(asking->rights) || capabilities_set(&set) < 0)
        return -ENOTSUP;
    return look_bind(asking->daemon) ? asking->fn(asking->arg) : -EAGAIN;
}

/*
 * Runs in the forked process. Also sets the effective uid, because the owner of a user namespace
 * has all capabilities in it: with the daemon's uid every user would own root's containers.
 */
static int helper_take(const struct rights *rights)
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
static bool helper_drop(int a, int b)
{
    const unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
    return (low == 0 || syscall(SYS_close_range, 0, low - 1, 0) == 0) &&
           (high - low < 2 || syscall(SYS_close_range, low + 1, high - 1, 0) == 0) &&
           syscall(SYS_close_range, high + 1, ~0U, 0) == 0;
}

static int helper_answer(const struct asking *asking)
{
    const int userns = asking->rights->userns_fd;
    if (!look_bind(asking->daemon) || !helper_drop(asking->fd, userns < 0 ? asking->fd : userns))
        return -ENOTSUP;
    const int rc = helper_take(asking->rights);
    if (rc < 0)
        return rc;
    if (!helper_drop(asking->fd, asking->fd))
        return -ENOTSUP;
    return look_bind(asking->daemon) ? (int)asking->fn(asking->arg) : -EAGAIN;
}

static int helper_run(void *arg)
{
    return -helper_answer(arg);
}

/* Uses clone(2) directly, because fork() runs handlers of libraries. */
static int ask_apart(struct asking *asking)
{
    const int status = look_process(0, helper_run, asking);
    if (status < 0)
        return status == -ETIME ? status : -EAGAIN;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EAGAIN;
}

int opener_do(const struct rights *rights, bool apart, int fd, long (*first)(void *arg),
              long (*fn)(void *arg), void *arg)
{
    struct asking asking = {rights, getpid(), fd, first, fn, arg};
    return apart || rights->userns_fd >= 0 ? ask_apart(&asking) : (int)look_at(ask_here, &asking);
}
