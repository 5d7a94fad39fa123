/*
 * The filter of system calls. What is not on the list does not exist (ENOSYS): the libraries then
 * do without, as on an older kernel, and a call that a newer one tries first costs nobody the tree.
 * What only an intruder would call ends the process. Helpers inherit all of it, so what they do
 * before they confine themselves is here as well.
 */
#include "fs/confine.h"

#include "fs/say.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <syslog.h>

/* By what they are for; several of a kind are one call in different libraries and machines. */
static const int allowed[] = {
    /* memory */
    SCMP_SYS(brk), SCMP_SYS(madvise), SCMP_SYS(mmap), SCMP_SYS(mmap2), SCMP_SYS(mprotect),
    SCMP_SYS(mremap), SCMP_SYS(msync), SCMP_SYS(munmap),
    /* files */
    SCMP_SYS(access), SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(dup), SCMP_SYS(dup2),
    SCMP_SYS(dup3), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(fadvise64), SCMP_SYS(fcntl),
    SCMP_SYS(fcntl64), SCMP_SYS(fstat), SCMP_SYS(fstat64), SCMP_SYS(fstatat64), SCMP_SYS(fstatfs),
    SCMP_SYS(fstatfs64), SCMP_SYS(getcwd), SCMP_SYS(getdents), SCMP_SYS(getdents64),
    SCMP_SYS(ioctl), SCMP_SYS(_llseek), SCMP_SYS(lseek), SCMP_SYS(lstat), SCMP_SYS(newfstatat),
    SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(pread64), SCMP_SYS(preadv),
    SCMP_SYS(pwrite64), SCMP_SYS(pwritev), SCMP_SYS(read), SCMP_SYS(readlink), SCMP_SYS(readlinkat),
    SCMP_SYS(readv), SCMP_SYS(stat), SCMP_SYS(stat64), SCMP_SYS(statfs), SCMP_SYS(statfs64),
    SCMP_SYS(statx), SCMP_SYS(write), SCMP_SYS(writev),
    /* waiting, pipes, libfuse's buffers */
    SCMP_SYS(epoll_create), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_pwait2), SCMP_SYS(epoll_wait), SCMP_SYS(eventfd2), SCMP_SYS(pipe),
    SCMP_SYS(pipe2), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(ppoll_time64), SCMP_SYS(pselect6),
    SCMP_SYS(pselect6_time64), SCMP_SYS(select), SCMP_SYS(signalfd4), SCMP_SYS(splice),
    SCMP_SYS(tee), SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_gettime), SCMP_SYS(timerfd_settime),
    SCMP_SYS(timerfd_settime64), SCMP_SYS(vmsplice),
    /* sockets: syslog, the system's lists of users and groups, helpers; see also below */
    SCMP_SYS(bind), SCMP_SYS(connect), SCMP_SYS(getpeername), SCMP_SYS(getsockname),
    SCMP_SYS(getsockopt), SCMP_SYS(recvfrom), SCMP_SYS(recvmsg), SCMP_SYS(sendmmsg),
    SCMP_SYS(sendmsg), SCMP_SYS(sendto), SCMP_SYS(setsockopt), SCMP_SYS(shutdown),
    SCMP_SYS(socketpair),
    /* threads and time */
    SCMP_SYS(arch_prctl), SCMP_SYS(clock_getres), SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_gettime64), SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_nanosleep_time64),
    SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(futex), SCMP_SYS(futex_time64),
    SCMP_SYS(get_robust_list), SCMP_SYS(getcpu), SCMP_SYS(getrandom), SCMP_SYS(gettid),
    SCMP_SYS(gettimeofday), SCMP_SYS(membarrier), SCMP_SYS(nanosleep), SCMP_SYS(prctl),
    SCMP_SYS(restart_syscall), SCMP_SYS(rseq), SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_setaffinity),
    SCMP_SYS(sched_yield), SCMP_SYS(set_robust_list), SCMP_SYS(set_thread_area),
    SCMP_SYS(set_tid_address), SCMP_SYS(set_tls), SCMP_SYS(sysinfo), SCMP_SYS(time),
    SCMP_SYS(timer_create), SCMP_SYS(timer_settime), SCMP_SYS(timer_settime64), SCMP_SYS(times),
    SCMP_SYS(uname),
    /* processes and signals */
    SCMP_SYS(execve), SCMP_SYS(fork), SCMP_SYS(getpgrp), SCMP_SYS(getpid), SCMP_SYS(getppid),
    SCMP_SYS(kill), SCMP_SYS(pidfd_open), SCMP_SYS(pidfd_send_signal), SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigpending), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigsuspend), SCMP_SYS(rt_sigtimedwait), SCMP_SYS(sigaltstack), SCMP_SYS(sigreturn),
    SCMP_SYS(tgkill), SCMP_SYS(vfork), SCMP_SYS(wait4), SCMP_SYS(waitid),
    /* asking as the opener */
    SCMP_SYS(capget), SCMP_SYS(capset), SCMP_SYS(getegid), SCMP_SYS(geteuid), SCMP_SYS(getgid),
    SCMP_SYS(getgroups), SCMP_SYS(getresgid), SCMP_SYS(getresuid), SCMP_SYS(getuid),
    SCMP_SYS(setfsgid), SCMP_SYS(setfsgid32), SCMP_SYS(setfsuid), SCMP_SYS(setfsuid32),
    SCMP_SYS(setgroups), SCMP_SYS(setgroups32), SCMP_SYS(setresgid), SCMP_SYS(setresgid32),
    SCMP_SYS(setresuid), SCMP_SYS(setresuid32),
    /* limits, counters, the end of the mount */
    SCMP_SYS(getrlimit), SCMP_SYS(getrusage), SCMP_SYS(perf_event_open), SCMP_SYS(setrlimit),
    SCMP_SYS(ugetrlimit), SCMP_SYS(umount2),
    /* the helper's way into an empty root and behind its own filter; it attaches no mount */
    SCMP_SYS(chroot), SCMP_SYS(fchdir), SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(fsopen),
    SCMP_SYS(seccomp)};

/* No part of pmcfs or of a library of it has a use for these. */
static const int hostile[] = {SCMP_SYS(acct),
                              SCMP_SYS(add_key),
                              SCMP_SYS(bpf),
                              SCMP_SYS(delete_module),
                              SCMP_SYS(execveat),
                              SCMP_SYS(finit_module),
                              SCMP_SYS(init_module),
                              SCMP_SYS(ioperm),
                              SCMP_SYS(iopl),
                              SCMP_SYS(kexec_file_load),
                              SCMP_SYS(kexec_load),
                              SCMP_SYS(keyctl),
                              SCMP_SYS(mount),
                              SCMP_SYS(move_mount),
                              SCMP_SYS(open_by_handle_at),
                              SCMP_SYS(open_tree),
                              SCMP_SYS(pidfd_getfd),
                              SCMP_SYS(pivot_root),
                              SCMP_SYS(process_vm_readv),
                              SCMP_SYS(process_vm_writev),
                              SCMP_SYS(ptrace),
                              SCMP_SYS(reboot),
                              SCMP_SYS(request_key),
                              SCMP_SYS(swapon),
                              SCMP_SYS(swapoff),
                              SCMP_SYS(unshare),
                              SCMP_SYS(userfaultfd)};

#define NEW_NAMESPACES                                                                             \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)

/* With such arguments alone. Of clone3 they cannot be seen: the library falls back to clone. */
static const struct {
    int call;
    struct scmp_arg_cmp argument;
} limited[] = {
    {SCMP_SYS(clone), {0, SCMP_CMP_MASKED_EQ, NEW_NAMESPACES, 0}},
    {SCMP_SYS(setns), {1, SCMP_CMP_EQ, CLONE_NEWUSER, 0}},
    {SCMP_SYS(setns), {1, SCMP_CMP_EQ, CLONE_NEWCGROUP, 0}},
    {SCMP_SYS(socket), {0, SCMP_CMP_EQ, AF_UNIX, 0}},
    {SCMP_SYS(socket), {0, SCMP_CMP_EQ, AF_NETLINK, 0}},
    {SCMP_SYS(prlimit64), {0, SCMP_CMP_EQ, 0, 0}},
};

static int rules_add(scmp_filter_ctx filter)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof allowed / sizeof *allowed; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
    for (size_t i = 0; rc == 0 && i < sizeof limited / sizeof *limited; i++)
        rc = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, limited[i].call, 1,
                                    &limited[i].argument);
    for (size_t i = 0; rc == 0 && i < sizeof hostile / sizeof *hostile; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, hostile[i], 0);
    return rc;
}

/* For all threads; found by halving, not one after the other. */
static int filter_load(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int rc = filter ? 0 : -ENOMEM;

    rc = rc ? rc : seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    rc = rc ? rc : seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    rc = rc ? rc : seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    rc = rc ? rc : rules_add(filter);
    rc = rc ? rc : seccomp_load(filter);
    if (filter)
        seccomp_release(filter);
    return rc;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
/* What looks for leaks at the end traces the other threads. */
bool confine_calls(void)
{
    say(LOG_WARNING, "seccomp=1 has no effect: this program was built with a sanitizer");
    return true;
}

#else
bool confine_calls(void)
{
    int rc = filter_load();

    if (rc == 0)
        return true;
    say(LOG_ERR, "seccomp=1, but system calls cannot be filtered here: %s", strerror(-rc));
    return false;
}
#endif
