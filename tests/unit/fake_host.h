/*
 * A fake host: a clock that a test moves, processes, callers, CPUs and cgroups. Callers with
 * `outside` set are in another PID namespace: they see each PID 10000 higher. FAKE_FIRST is the
 * first process of that namespace.
 */
#pragma once

#include "core/host.h"

#define FAKE_PROCESSES 200
#define FAKE_CGROUPS   8
#define FAKE_SELF      1 /* the PID of pmcfs */
#define FAKE_OUTSIDE   10000
#define FAKE_FIRST     200 /* the first process of the other PID namespace */

struct fake_process {
    pid_t pid;
    uid_t uid;
    bool alive;
    uint64_t key;     /* differs after the PID was reused */
    pid_t tid[4];     /* TIDs of its other threads, terminated by 0 */
    bool outside;     /* is in the other PID namespace */
    const char *name; /* name of all its threads; NULL: "fake" */
};

struct fake_cgroup {
    const char *path;
    bool alive;
};

struct host_state {
    uint64_t now_ns; /* read with atomic operations: tasks may run on another thread */
    struct fake_process process[FAKE_PROCESSES];
    unsigned n_processes;
    struct fake_cgroup cgroup[FAKE_CGROUPS];
    unsigned n_cgroups;
    void (*on_cgroup)(void); /* called after a cgroup was opened */
    struct cpus possible, online;
    const struct sink *sink;
    unsigned n_handles; /* existing objects of struct process */
    unsigned n_watches;
    bool watch_fails;
    bool headless;     /* the first thread of every process has exited */
    pid_t unseen;      /* a process that has no PID for callers and views */
    unsigned n_opened; /* number of objects of struct process created so far */
    unsigned observed; /* number of rights checks of may_observe() and may_observe_pid() */
    uint64_t next_key;
    unsigned n_views;   /* existing objects of struct pid_view */
    unsigned forgotten; /* PIDs removed from views */
};

/* The executable mappings of every process, and of the kernel. */
#define FAKE_MAP_START     UINT64_C(0x400000)
#define FAKE_MAP_LENGTH    UINT64_C(0x10000)
#define FAKE_MAP_PATH      "/usr/bin/fake"
#define FAKE_KERNEL_START  UINT64_C(0xffffffff81000000)
#define FAKE_KERNEL_LENGTH UINT64_C(0x1000000)

extern const struct host fake_host;

void fake_init(struct host_state *state, const struct sink *sink);
/* Frees what the state owns. Asserts that no process or view is still held or watched. */
void fake_clear(struct host_state *state);
struct fake_process *fake_add(struct host_state *state, pid_t pid, uid_t uid);
struct fake_process *fake_find(struct host_state *state, pid_t pid);
void fake_pass_ms(struct host_state *state, uint64_t ms);
/* The process exits; with `notify` the sink is notified. */
void fake_kill(struct host_state *state, pid_t pid, bool notify);
/* Another process gets the PID of an exited one. */
void fake_reuse(struct host_state *state, pid_t pid, uid_t uid);
void fake_cpu(struct host_state *state, unsigned cpu, bool online);
/* Rights as captured at open. The caller frees them with rights_free(). */
struct rights *fake_rights(uid_t uid, bool superuser);
