/*
 * What /proc/PID/stat and /proc/PID/task/TID/stat say of a process or a thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct proc_stat {
    char state;     /* R S D T t I; Z and X: has exited */
    bool exiting;   /* in the kernel's exit already, whatever the state says */
    bool io_worker; /* a thread that io_uring made */
    uint64_t start; /* clock ticks since boot */
};

/* The text of a stat file: 0 or -ESRCH. */
int proc_stat_scan(const char *text, struct proc_stat *out);
/* The file below an open directory, or AT_FDCWD: 0 or -errno; -ETIME: it is executing a program
 * (look.h). */
int proc_stat_at(int dir, const char *path, struct proc_stat *out);
/* Does this result (-errno) say that the process is gone, and not that we could not look? */
bool proc_is_gone(int rc);
bool proc_stat_dead(const struct proc_stat *stat);
