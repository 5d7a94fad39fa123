/*
 * Reading /proc: files, some fields of status and stat, lists of threads, and identities of
 * namespaces.
 */
#pragma once

#include "core/base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Fields of /proc/PID/stat or /proc/PID/task/TID/stat. */
struct proc_stat {
    char state;     /* R, S, D, T, t or I; Z or X if it has exited */
    bool exiting;   /* exiting in the kernel, whatever the state */
    bool io_worker; /* a worker thread of io_uring */
    uint64_t start; /* clock ticks since boot */
};

/* A namespace: the device and inode of /proc/TID/ns/WHICH. */
struct ns_id {
    dev_t dev;
    ino_t ino;
};

/* Returns the contents of a file with a NUL (free it), or NULL and errno. */
char *proc_text(const char *path);
/* Reads a file below an open directory like proc_text(). */
char *proc_text_at(int dir, const char *path);
/* Reads /proc/TID/name like proc_text(). */
char *proc_task_text(pid_t tid, const char *name);
/* Reads /proc/self/fdinfo/FD like proc_text(). */
char *proc_fd_text(int fd);
/* Returns the number at the start of a file (0: there is none), or `otherwise` if the file cannot
 * be read. */
uint64_t proc_number(const char *path, uint64_t otherwise);
/* Returns the text after "key:" and blanks in a text of "key: value" lines, or NULL. */
const char *proc_field(const char *text, const char *key);

/* Returns true if this text of status is of an exited thread, or has no State line. */
bool proc_status_dead(const char *status);
/* Returns the PID of a thread's process, or 0 and errno. */
pid_t proc_tgid(pid_t tid);
/* Reads a stat file below an open directory or AT_FDCWD. Returns 0 or -errno; -ETIME: the process
 * is executing a program (helper.h). */
int proc_stat_at(int dir, const char *path, struct proc_stat *out);
/* Returns true if this -errno means that the process is gone, not that reading failed. */
bool proc_is_gone(int rc);
/* Returns true if the same read may succeed later: after a shortage, or after -ETIME. */
bool is_temporary(int rc);
bool proc_stat_dead(const struct proc_stat *stat);
/* Reads the stat file of a thread; tid 0: the first thread. Returns 0 or -errno; -ETIME: the
 * process is executing a program (helper.h). */
int proc_stat(pid_t pid, pid_t tid, struct proc_stat *out);
/* Reads /proc/PID/stat without a helper process: only for processes that cannot execute a program
 * at the moment (requesters, which wait, and helpers). Returns 0 or -errno. */
int proc_stat_directly(pid_t pid, struct proc_stat *out);
/* Returns 1 if a thread of the process is neither dead nor exiting; 0 if there is none, or if the
 * process may not be read; -ENOMEM, -EMFILE or -ENFILE. */
int proc_alive(pid_t pid);
/* Lists the numbers in a directory (/proc, task), or in dirfd itself if path is NULL, as an array
 * (free it). Returns 0, or -errno with NULL and 0. */
int proc_list_numbers(int dirfd, const char *path, pid_t **out, size_t *n);
/* Lists the threads of a process like proc_list_numbers(). */
int proc_threads(pid_t pid, pid_t **tids, size_t *n);

/* Identifies the namespace `which` ("pid", "user" or "cgroup") of a thread. Returns 0 or -errno. */
int ns_identify(pid_t tid, const char *which, struct ns_id *out);
/* Identifies the namespace of a descriptor. Returns 0 or -errno. */
int ns_identify_fd(int fd, struct ns_id *out);
/* Opens the namespace `which` of a thread. Returns a descriptor or -errno. */
int ns_open(pid_t tid, const char *which);
bool ns_same(const struct ns_id *a, const struct ns_id *b);
