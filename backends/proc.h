/*
 * Reading /proc: whole files, the fields of status and stat that matter, lists of threads, and the
 * identity of namespaces.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What /proc/PID/stat and /proc/PID/task/TID/stat say of a process or a thread. */
struct proc_stat {
    char state;     /* R S D T t I; Z and X: has exited */
    bool exiting;   /* in the kernel's exit already, whatever the state says */
    bool io_worker; /* a thread that io_uring made */
    uint64_t start; /* clock ticks since boot */
};

/* A namespace: the device and inode of /proc/TID/ns/WHICH. */
struct ns_id {
    dev_t dev;
    ino_t ino;
};

/* The whole file, NUL-terminated (free), or NULL and errno. */
char *proc_text(const char *path);
/* The same below an open directory. */
char *proc_text_at(int dir, const char *path);
/* The same for /proc/TID/name. */
char *proc_task_text(pid_t tid, const char *name);
/* The same of what the kernel says of a descriptor of ours. */
char *proc_fd_text(int fd);
/* What follows "key:" and its blanks in a text of "key: value" lines, up to the text's end; or
 * NULL. */
const char *proc_field(const char *text, const char *key);

/* Has the thread of this text of status exited? */
bool proc_status_dead(const char *status);
/* The process of a thread, or 0 and errno. */
pid_t proc_tgid(pid_t tid);
/* The file below an open directory, or AT_FDCWD: 0 or -errno; -ETIME: it is executing a program
 * (look.h). */
int proc_stat_at(int dir, const char *path, struct proc_stat *out);
/* Does this result (-errno) say that the process is gone, and not that we could not look? */
bool proc_is_gone(int rc);
bool proc_stat_dead(const struct proc_stat *stat);
/* tid 0 means the leader. 0 or -errno; -ETIME: it is executing a program (look.h). */
int proc_stat(pid_t pid, pid_t tid, struct proc_stat *out);
/* The same of a thread, or of the leader, of a requester. */
int proc_caller_stat(pid_t pid, struct proc_stat *out);
/* Has the process a thread that is not dead or exiting? */
bool proc_alive(pid_t pid);
/*
 * The numbers in a directory (/proc, or /proc/PID/task) as an array (free). 0 or -errno. dirfd may
 * be AT_FDCWD.
 */
int proc_numbers(int dirfd, const char *path, pid_t **out, size_t *n);

/* Of the process that makes a request: which is "pid", "user", "cgroup". 0 or -errno. */
int ns_identify(pid_t tid, const char *which, struct ns_id *out);
/* Of a descriptor. */
int ns_of(int fd, struct ns_id *out);
/* A descriptor of the namespace, or -errno. */
int ns_open(pid_t tid, const char *which);
bool ns_same(const struct ns_id *a, const struct ns_id *b);
