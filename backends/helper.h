/*
 * Helper processes for reads of /proc that may block, and for checks with a user's credentials.
 * While a process executes a program or changes its address space, the kernel blocks most reads of
 * its files in /proc. Its user can prolong that for ever (the exec closes a file whose server does
 * not answer). So a helper process does the read, and is killed when it takes too long. Helpers of
 * helper_call() share memory and descriptors with the daemon. The daemon itself reads files that
 * never block (status, comm, task, cgroup), and files of requesters, which wait for their reply.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HELPER_MS 100

/*
 * Runs fn(arg) in a helper process with this thread's credentials, which fn may change. fn only
 * makes system calls: it must not allocate memory or take locks, and must store in arg each
 * descriptor that it leaves open. Returns the result of fn; -ETIME if the helper was killed,
 * because it blocked for HELPER_MS (time without a CPU does not count); -ENOMEM, -EMFILE, -ENFILE
 * or -EAGAIN if no process could be created.
 */
long helper_call(long (*fn)(void *arg), void *arg);
/* In a helper process: makes the kernel kill the helper when the waiting thread exits. parent: the
 * daemon's PID. Call again after a change of credentials, which reverts this setting. Returns false
 * on failure, or if the parent has exited. */
bool helper_bind(pid_t parent);
/*
 * Runs fn(arg) in a process created by clone(2) with these flags, which sends no SIGCHLD, and waits
 * for it. Returns the process's status as of wait(2); errors as helper_call().
 */
int helper_process(int flags, int (*fn)(void *arg), void *arg);

/* Opens a file for reading, with CLOEXEC, in a helper process. Returns a descriptor or -errno
 * (-ETIME as helper_call()). */
int helper_open(int dir, const char *path);
/*
 * Reads a file until its end, until the buffer is full, or, after at least one read(2), until
 * until_ns (CLOCK_MONOTONIC). If *fd is -1, first opens path and sets *fd; the caller closes *fd,
 * also after an error. Returns the number of bytes, or -errno; after -ETIME the data is lost.
 */
ssize_t helper_read(int dir, const char *path, int *fd, char *text, size_t size, uint64_t until_ns);
