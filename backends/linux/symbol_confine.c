/*
 * The helper gives up every right before it looks at anything of an observed program: an empty
 * root, nobody's ids, no capability, small limits, and a filter that lets it compute, read what it
 * has, and answer; it cannot open, execute, connect or signal anything.
 */
#include "backends/linux/symbol.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* its shadow needs an address space without limit */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

/* A file system of its own with nothing in it, which cannot be written to. */
static bool root_leave(void)
{
    int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    int mount = -1;
    bool left;

    if (context >= 0 && fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mount =
            fsmount(context, FSMOUNT_CLOEXEC,
                    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    left = mount >= 0 && fchdir(mount) == 0 && chroot(".") == 0;
    if (mount >= 0)
        close(mount);
    if (context >= 0)
        close(context);
    return left;
}

static bool limit_set(__rlimit_resource_t what, rlim_t value)
{
    struct rlimit limit = {value, value};

    return setrlimit(what, &limit) == 0;
}

static bool limits_set(void)
{
    bool set = limit_set(RLIMIT_CORE, 0) && limit_set(RLIMIT_FSIZE, 0) &&
               limit_set(RLIMIT_MEMLOCK, 0) && limit_set(RLIMIT_NPROC, 0) &&
               limit_set(RLIMIT_MSGQUEUE, 0) && limit_set(RLIMIT_CPU, 20);

#ifndef SANITIZED
    set = set && limit_set(RLIMIT_AS, (rlim_t)512 << 20);
#endif
    return set;
}

static bool rights_drop(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0}, left[2];

    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return false;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capset, &head, none) < 0 || syscall(SYS_capget, &head, left) < 0 ||
        left[0].permitted || left[1].permitted || left[0].effective || left[1].effective)
        return false;
    return prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* What a process needs that computes with what it has. newfstatat is how libc asks fstat(). */
static const int allowed[] = {
    SCMP_SYS(read),          SCMP_SYS(pread64),   SCMP_SYS(write),        SCMP_SYS(lseek),
    SCMP_SYS(fstat),         SCMP_SYS(statx),     SCMP_SYS(newfstatat),   SCMP_SYS(close),
    SCMP_SYS(munmap),        SCMP_SYS(mremap),    SCMP_SYS(brk),          SCMP_SYS(madvise),
    SCMP_SYS(dup),           SCMP_SYS(futex),     SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall),
    SCMP_SYS(clock_gettime), SCMP_SYS(gettid),    SCMP_SYS(getpid),       SCMP_SYS(getrandom),
    SCMP_SYS(exit),          SCMP_SYS(exit_group)};

/* Everything else does not exist: libraries then do without, as on an old kernel. */
static bool filter_load(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    bool good = filter != NULL;

    for (size_t i = 0; good && i < sizeof allowed / sizeof *allowed; i++)
        good = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0) == 0;
    good = good &&
           seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                            SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0 &&
           seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
                            SCMP_A1(SCMP_CMP_EQ, F_GETFD, 0)) == 0 &&
           seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
                            SCMP_A1(SCMP_CMP_EQ, F_GETFL, 0)) == 0 &&
           seccomp_load(filter) == 0;
    if (filter)
        seccomp_release(filter);
    return good;
}

bool symbol_confine(void)
{
    return limits_set() && root_leave() && rights_drop() && filter_load();
}
