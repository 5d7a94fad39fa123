/*
 * Looking at a process in /proc: the kernel answers most questions only when the process is not
 * executing a program, or changing its address space, and the observed user can make that last for
 * ever (an exec closes a file, and its server does not answer). So it is asked by a process of
 * its own, which shares memory and descriptors with the daemon, and is killed when it takes too
 * long. What does not wait is asked directly: status, comm, task, cgroup, and a requester that
 * waits for our answer, for it executes nothing meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LOOK_MS 100

/*
 * fn(arg), with this thread's credentials, or those that it takes. It makes system calls and has
 * nothing that would be lost with it: no memory of its own, no locks, no descriptor that arg does
 * not name. What it answers; -ETIME when it has waited for LOOK_MS; without a process -EMFILE,
 * -ENFILE or -EAGAIN.
 */
long look_at(long (*fn)(void *arg), void *arg);
/* In such a process: it ends with the thread that waits for it, `parent`'s. A change of credentials
 * takes that back. False: that has ended. */
bool look_bind(pid_t parent);
/*
 * fn(arg) in a process that shares with the daemon what the flags of clone(2) say; no wait() or
 * SIGCHLD but this sees it. Its status as wait(2) has it; -ETIME: it was killed, after it had not
 * run for LOOK_MS; without a process as above.
 */
int look_process(int flags, int (*fn)(void *arg), void *arg);

/* openat(2), with CLOEXEC. A descriptor or -errno. */
int look_open(int dir, const char *path, int flags);
/*
 * Reads a file, which is opened first where *fd is -1, until there is no more, the room is full, or
 * until_ns (CLOCK_MONOTONIC) has passed: bytes, or -errno; after -ETIME what was read is lost. *fd
 * is the caller's to close.
 */
ssize_t look_read(int dir, const char *path, int *fd, char *text, size_t size, uint64_t until_ns);
/* A file of /proc, cut to the room and NUL-terminated: its length, or -errno. */
ssize_t look_file(int dir, const char *path, char *text, size_t size);
