/*
 * A machine made of numbers: a clock that stands still, processes, callers, CPUs and cgroups.
 * Numbers of processes mean the same to all but callers with `outside` set, which see them
 * 10000 higher, and FAKE_FIRST as 1.
 */
#pragma once

#include "core/host.h"

#define FAKE_PROCESSES 200
#define FAKE_CGROUPS   8
#define FAKE_SELF      1 /* the process number of "pmcfs itself" */
#define FAKE_OUTSIDE   10000
#define FAKE_FIRST     200 /* the first process of those outside */

struct fake_process {
    pid_t pid;
    uid_t uid;
    bool alive;
    uint64_t key;     /* another one after the number was given again */
    pid_t tid[4];     /* its threads' numbers, besides pid itself; 0 ends */
    bool outside;     /* sees others in another PID namespace */
    const char *name; /* of all its threads; NULL: "fake" */
};

struct fake_cgroup {
    const char *path;
    bool alive;
};

struct host_state {
    uint64_t now_ns; /* atomic: works may run on another thread */
    struct fake_process process[FAKE_PROCESSES];
    unsigned n_processes;
    struct fake_cgroup cgroup[FAKE_CGROUPS];
    unsigned n_cgroups;
    void (*on_cgroup)(void); /* called after one was opened */
    struct cpus possible, online;
    const struct sink *sink;
    unsigned n_handles; /* struct process that exist */
    unsigned n_watches;
    bool watch_fails;
    bool headless;     /* every process's first thread has ended */
    pid_t unseen;      /* a process that nobody knows by number */
    unsigned n_opened; /* processes opened ever */
    unsigned observed; /* questions asked by may_observe */
    uint64_t next_key;
    unsigned n_views;   /* struct pid_view that exist */
    unsigned forgotten; /* numbers taken out of views */
};

/* What every process has mapped for execution, and the kernel. */
#define FAKE_MAP_START     UINT64_C(0x400000)
#define FAKE_MAP_LENGTH    UINT64_C(0x10000)
#define FAKE_MAP_PATH      "/usr/bin/fake"
#define FAKE_KERNEL_START  UINT64_C(0xffffffff81000000)
#define FAKE_KERNEL_LENGTH UINT64_C(0x1000000)

extern const struct host fake_host;

void fake_init(struct host_state *state, const struct sink *sink);
/* Asserts that nothing is left held or watched. */
void fake_clear(struct host_state *state);
struct fake_process *fake_add(struct host_state *state, pid_t pid, uid_t uid);
struct fake_process *fake_find(struct host_state *state, pid_t pid);
void fake_pass_ms(struct host_state *state, uint64_t ms);
/* The process dies; told: the sink hears it. */
void fake_kill(struct host_state *state, pid_t pid, bool told);
/* Another process gets the number of a dead one. */
void fake_reuse(struct host_state *state, pid_t pid, uid_t uid);
void fake_cpu(struct host_state *state, unsigned cpu, bool online);
/* Rights as captured at open; owned by the caller (rights_free). */
struct rights *fake_rights(uid_t uid, bool superuser);
