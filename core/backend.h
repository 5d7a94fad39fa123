/*
 * The counters under the engine, as a table. A backend counts one set on one target and knows
 * nothing of rows in use, names, users or PMCs. perf is the kernel's perf_events; sim is a
 * simulated PMU.
 *
 * Locking: nothing here is called with the engine's lock held, but read() when cost() is small, and
 * those marked (locked). One caller at a time per counter, except read(), which any number may
 * call.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/catalog.h"
#include "core/base/cpus.h"
#include "core/base/err.h"
#include "core/base/event.h"
#include "core/host.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct backend_state;
struct counter;
struct guard;
struct log_event;
struct recorder;
struct record;

enum class_capability { /* hwpmc's, as far as Linux can tell */
    CAP_INTERRUPT = 1,
    CAP_USER = 2,
    CAP_SYSTEM = 4,
    CAP_EDGE = 8,
    CAP_THRESHOLD = 16,
    CAP_READ = 32,
    CAP_WRITE = 64,
    CAP_INVERT = 128,
    CAP_QUALIFIER = 256,
    CAP_PRECISE = 512
};

struct class_info {
    const char *name; /* the kernel's name of the PMU: cpu, armv8_pmuv3, software, tracepoint… */
    unsigned rows;    /* 0: without a limit */
    unsigned width;   /* bits of a hardware counter; 64 for software */
    unsigned capabilities;
    struct cpus cpus; /* CPUs where it can count events in system scope; empty: every CPU */
    bool hardware;    /* takes counters of the processor: can be lost to others */
    /* Per row, how many events can use it: rows with fewest are chosen first. NULL without rows. */
    const unsigned *row_events;
};

enum target_kind {
    TARGET_PROCESS,
    TARGET_THREAD,
    TARGET_CPU,
    TARGET_CGROUP
};

struct target_ref {
    enum target_kind kind;
    pid_t pid;                /* process and thread: in the daemon's namespace */
    pid_t tid;                /* thread only */
    pid_t said;               /* how its requester knows it, for sentences; 0: as above */
    unsigned cpu;             /* CPU only */
    int cgroup_fd;            /* cgroup only; the counter makes its own copy if it needs one */
    bool (*alive)(void *arg); /* process and thread: still the one that was named? */
    void *alive_arg;
};

/* The number of a process or thread in sentences. */
static inline pid_t target_said(const struct target_ref *target)
{
    return target->said ? target->said : target->kind == TARGET_THREAD ? target->tid : target->pid;
}

struct plan_event {
    const struct event *event;
    bool user, kernel; /* what to count; both true for events that are `whole` */
};

/*
 * What to count where. admit() is asked about every process found below the target (descendants):
 * 1 take it with its descendants, 0 leave it out with its descendants (covered already by another
 * target), -EPERM leave it out (the backend counts it in `left_out`) but look below it.
 */
struct plan {
    const struct plan_event *events;
    unsigned n; /* 1…SET_MAX */
    struct target_ref target;
    bool descendants;
    bool at_exec; /* armed from the attach on: each task begins at its next exec */
    bool multiplex;
    const char *filter;      /* of the tracepoints among them, or NULL */
    uint64_t deadline_ns;    /* give up (P13) after this moment (CLOCK_MONOTONIC) */
    unsigned long attach_ms; /* the tunable that set it, for the sentence */
    unsigned max_covered;    /* processes, with descendants */
    unsigned long fds_free;  /* descriptors it may open, those of the attach itself included (P10
                              * beyond); 0: none, ULONG_MAX: no limit */
    unsigned long fds_quota; /* descriptors that may stay (P11 beyond); as fds_free */
    const char *fds_limit;   /* the name of what fds_quota is left of, for that sentence */
    int (*admit)(void *arg, pid_t pid);
    void *admit_arg;
    uint64_t tag; /* for sink.gone() */

    /* Where its records go: NULL, it only counts. Must outlive the counter. */
    struct recorder *recorder;
    uint64_t set;    /* records of events[i] have the id LOG_ID(set, i) (core/log/record.h) */
    bool sampling;   /* every event samples by itself, with `period` or `freq` (the other is 0) */
    uint64_t period; /* events per sample */
    uint64_t freq;   /* samples per second, within sample_limits() */
    /* Clocks count both modes in one (`whole`), but their samples of one mode can be left out. */
    bool skip_user, skip_kernel;
    bool chain_user, chain_kernel; /* call chains; no kernel frames where not both may be seen */
    unsigned depth;                /* frames at most */
    /* Bytes of the user's stack, copied with the registers; 0: none. Then the recorder's data_maps.
     */
    uint32_t stack;
    bool raw;          /* the fields of tracepoints */
    bool steps, lasts; /* counting: RECORD_SWITCH at each switch-out; at each thread's end */
};

/*
 * The buffers into which the system writes the records of one PMC's counters: one per CPU, shared
 * by all its counters.
 */
struct recorder_plan {
    uint64_t bytes; /* of each CPU's buffer; rounded down to what is possible, at least a page */
    uint64_t tag;   /* for sink.ready() */
    bool data_maps; /* mappings that are not executable are told, too (RECORD_DATA) */
    unsigned long fds_free, fds_quota; /* as in struct plan */
    const char *fds_limit;
};

struct recorder_facts { /* (locked): no system calls */
    unsigned descriptors;
    uint64_t bytes; /* locked memory */
};

/* Takes one record, which is only valid during the call. Host PIDs. */
struct intake {
    void (*put)(void *arg, const struct record *record);
    void *arg;
};

struct sample_limits {
    uint64_t max_freq;   /* the system's present limit of samples per second; UINT64_MAX: none */
    unsigned max_frames; /* of a call chain */
    uint64_t registers;  /* what a sample with a stack has of them: perf's mask; 0: none can be */
};

/* Totals over all tasks and CPUs of a counter since it was attached. */
struct reading {
    uint64_t time_ns;    /* when (CLOCK_MONOTONIC) */
    uint64_t covered_ns; /* time during which it should have counted: tasks running × on */
    uint64_t enabled_ns; /* kernel's time enabled */
    uint64_t running_ns; /* time on the hardware; covered - running is lost */
    bool never_ran;      /* enabled for a while, never on the hardware (multiplex: no estimate) */
    bool off;            /* at this moment nothing of it is on the hardware: lost */
    bool dropped;        /* a covered descendant lost its events to the exec of a privileged
                          * program since the attach; stays true */
    uint64_t value[SET_MAX];
    uint64_t estimate[SET_MAX]; /* each task's or CPU's value × enabled / running, added */
};

struct counter_facts { /* for `status`; all (locked): no system calls */
    unsigned threads;  /* tasks opened one by one at attach */
    unsigned descriptors;
    unsigned left_out; /* descendants that the opener may not observe */
    unsigned covered;  /* processes known to be covered */
    bool raced;        /* a thread born during the attach may have been missed */
};

struct backend {
    const char *name;
    /* Once, before any worker: what all may share. May be NULL. */
    void (*prepare)(void);
    /* options: words "key=value" (sim_cpus=4 …), may be NULL. Finds the classes. Before any thread.
     */
    int (*open)(const char *options, const struct host *host, struct host_state *host_state,
                const struct loop *loop, const struct sink *sink, struct backend_state **state,
                struct err *err);
    void (*close)(struct backend_state *state); /* asserts that no counter is left */
    /* Behind a load, once users are served: what was left of adopting since it waits for the
     * system. May be NULL. */
    void (*settle)(struct backend_state *state);
    const struct class_info *(*classes)(struct backend_state *state, unsigned *n);
    void (*facts)(struct backend_state *state,
                  struct buf *out); /* lines of info/backend after the first */
    void (*cpuref)(struct backend_state *state, struct buf *out);
    bool simulated_cpus; /* cpus() below overrules the host's CPUs */
    void (*cpus)(struct backend_state *state, struct cpus *possible, struct cpus *online);

    /*
     * Tell sink.dropped(tag) when the system takes every event off the process though it lives on
     * (exec of a privileged program). One descriptor. 0 or -errno; may be NULL.
     */
    int (*guard)(struct backend_state *state, pid_t pid, uint64_t tag, struct guard **out);
    void (*unguard)(struct guard *guard);
    /* Was it that? Also of a process that has ended since. With guard. */
    bool (*guard_left)(const struct guard *guard);
    /* For a later worker: its descriptor; the same again with that descriptor; freed but for that.
     */
    int (*guard_fd)(const struct guard *guard);
    int (*guard_adopt)(struct backend_state *state, int fd, uint64_t tag, struct guard **out);
    void (*guard_forget)(struct guard *guard);
    /*
     * Recording. All may be NULL together: then nothing can be sampled. recorder_new: errors P10,
     * P11, P14 (the sentence names locked memory, CAP_IPC_LOCK, perf_event_mlock_kb where it is
     * that). Freed after every counter that was given it. sink.ready(tag) is called when a buffer
     * is about half full (again after the next drain).
     */
    int (*recorder_new)(struct backend_state *state, const struct recorder_plan *plan,
                        struct recorder **out, struct err *err);
    void (*recorder_facts)(const struct recorder *recorder, struct recorder_facts *out);
    /*
     * Hands over what is complete, in order of time over all CPUs. What is younger than 10 ms may
     * stay for the next time, unless `all` (nothing runs any more, or the order of the last few
     * milliseconds does not matter). With `all` it also tells losses the system has not told yet.
     * One caller at a time; any thread. 0, or -EIO.
     */
    int (*drain)(struct recorder *recorder, bool all, const struct intake *intake);
    /*
     * Records that were ever taken out of it: after this they are not taken again, not even by a
     * later worker. From intake->put, or while none is drained. NULL: they cannot be told.
     */
    uint64_t (*taken)(struct recorder *recorder);
    void (*recorder_print)(const struct recorder *recorder, struct buf *out);
    /* With the descriptors of a recorder that was forgotten; before adopt() of its counters. */
    int (*recorder_adopt)(struct backend_state *state, const struct recorder_plan *plan,
                          const char *printed, struct recorder **out);
    void (*recorder_forget)(struct recorder *recorder);
    void (*recorder_free)(struct recorder *recorder); /* NULL allowed */
    void (*sample_limits)(struct backend_state *state, struct sample_limits *out);

    /* A CPU came or went (may be NULL). */
    void (*cpu)(struct backend_state *state, unsigned cpu, bool online);

    /* Is that, before a '=' if there is one, a qualifier (usr, cmask)? It may be called anywhere.
     */
    bool (*is_qualifier)(struct word name);
    /*
     * text is one event. Fills *out (strings owned by the caller: event_clear) with what
     * it means and which rights it needs. The event is not opened: whether it can be is told by
     * verify() to those that have the rights. Errors: CS01 unknown, X06 its class (with near
     * misses), CS03, CS04, P09 known but not to be had here (why), P30. After an error, too,
     * out->needs_kernel says that what was found out is for those with that right.
     */
    int (*resolve)(struct backend_state *state, const char *text, struct event *out,
                   struct err *err);
    /* Asks the system whether it can be counted here, and fills in its rows. NULL: every event
     * that resolve() knows can be. Errors: P09 (why), E32. */
    int (*verify)(struct backend_state *state, struct event *event, struct err *err);
    /* May these, of one class as far as they take counters, be one set? The kernel's own check on
     * an idle thread. CS08 or E19. */
    int (*check_set)(struct backend_state *state, const struct plan_event *events, unsigned n,
                     bool multiplex, struct err *err);
    /* Can these events, as far as they are tracepoints, have this filter? P02 with what would have
     * been right; NULL: there are no filters. */
    int (*check_filter)(struct backend_state *state, const struct event *events, unsigned n,
                        const char *filter, struct err *err);
    /* What perf has to know of these tracepoints to print their fields: the bytes of its tracing
     * data. False: one of them is there no more, or it cannot be had. NULL: there are none. */
    bool (*formats)(struct backend_state *state, const struct log_event *const *events, unsigned n,
                    struct buf *out);
    /* A number that is another one when list() may say something else than before; cheaper than
     * that, but slow. NULL: never. */
    uint64_t (*look)(struct backend_state *state);
    /* Every event that really counts here. Slow the first time. */
    int (*list)(struct backend_state *state, struct catalog *out, struct err *err);
    /* The text of events/CLASS/EVENT, which list() gave. -ENOENT: it is there no more; -ENOMEM,
     * -EMFILE, -ENFILE. */
    int (*describe)(struct backend_state *state, const char *class_name, const char *event,
                    struct buf *out);

    /* Rows of the class on this CPU that others hold now, those in `own` apart. Disturbs no
     * counter. NULL: no other program can. */
    uint64_t (*foreign)(struct backend_state *state, unsigned class_index, unsigned cpu,
                        uint64_t own);

    /* Opened, complete, stopped. Errors: E44/X09 gone, E37 CPU, P09, P10, P13, P14, E05 (hardware
     * full). */
    int (*attach)(struct backend_state *state, const struct plan *plan, struct counter **out,
                  struct err *err);
    int (*start)(struct counter *counter, struct err *err); /* continues; or arms (at_exec) */
    int (*stop)(struct counter *counter);
    /* 0, or -EIO. Fields as above. Cheap when cost() is small. Not `patient`: -EAGAIN where the
     * kernel has to be waited for, up to some milliseconds. */
    int (*read)(struct counter *counter, struct reading *out, bool patient);
    unsigned (*cost)(const struct counter *counter); /* system calls of one read (locked) */
    void (*facts_of)(const struct counter *counter, struct counter_facts *out); /* (locked) */
    /* fn for every process known to be covered: the target itself, and those below it. (locked) */
    void (*processes)(const struct counter *counter, void (*fn)(void *arg, pid_t pid), void *arg);
    /* Is pid (daemon's namespace) covered by this counter, target or descendant? Of pid 0: may it
     * cover processes that it does not know of? (locked) */
    bool (*covers)(struct counter *counter, pid_t pid);
    void (*print)(const struct counter *counter,
                  struct buf *out); /* one line, what adopt() needs */
    int (*adopt)(struct backend_state *state, const struct plan *plan, const char *printed,
                 struct counter **out);
    void (*forget)(struct counter *counter); /* frees memory, keeps descriptors */
    void (*free)(struct counter *counter);
};
