/*
 * The interface of a backend: a table of functions that count one set of events on one target. A
 * backend does not know rows in use, PMC names, users or PMCs. The perf backend uses the kernel's
 * perf_events; the sim backend simulates a PMU.
 *
 * Locking: functions marked (locked) may be called with or without the engine's lock and make no
 * blocking system calls. All other functions are called without the lock, or while no request runs
 * (start, load, reload). Only one caller uses a counter at a time, except for read() and functions
 * marked (locked), which may have any number of callers.
 */
#pragma once

#include "core/base/buf.h"
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
struct sample;

enum class_capability { /* hwpmc's capabilities that can be found out on Linux */
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
    unsigned rows;    /* 0: events of the class need no rows, and any number can be counted */
    unsigned width;   /* bits of a hardware counter; 64 for software */
    unsigned capabilities;
    struct cpus cpus; /* CPUs on which the class counts in system scope; empty: all */
    bool hardware;    /* uses hardware counters, which other programs may take */
    /* Of class `generic` on a hybrid processor: the number of core PMUs that it counts with, which
     * are the first classes. 0: any other class, or more than CORE_PMUS_MAX core PMUs. */
    unsigned n_core_pmus;
    /* For each row, the number of events that can use it. Only the order of these numbers matters:
     * PMCs first get rows that few events can use (row_choose.c). NULL if the class has no rows. */
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
    pid_t pid;     /* process and thread: in the daemon's PID namespace */
    pid_t tid;     /* thread only */
    pid_t shown;   /* the number in the requester's namespace, for sentences; 0: pid or tid */
    unsigned cpu;  /* CPU only */
    int cgroup_fd; /* cgroup only; the counter duplicates it if needed */
    bool (*alive)(void *arg); /* returns false if the process or thread has exited; or NULL */
    void *alive_arg;
};

/* Returns the number of a process or thread for sentences. */
static inline pid_t target_number(const struct target_ref *target)
{
    return target->shown                   ? target->shown
           : target->kind == TARGET_THREAD ? target->tid
                                           : target->pid;
}

/* Returns true for a process or a thread. */
static inline bool target_is_task(const struct target_ref *target)
{
    return target->kind == TARGET_PROCESS || target->kind == TARGET_THREAD;
}

struct plan_event {
    const struct event *event;
    bool user, kernel; /* modes to count; both true if event->counts_both_modes */
};

/*
 * The plan of a counter: the events and the target. With descendants, admit() is called for every
 * process found below the target. It returns 1 to count the process and its descendants, 0 to skip
 * it and its descendants (another target covers them, or it has exited), or -EPERM to skip only the
 * process, which the backend adds to `left_out`. It is called again after the events of the process
 * were opened, and then only -EPERM has an effect. NULL: all are counted.
 */
struct plan {
    const struct plan_event *events;
    unsigned n; /* 1…SET_MAX */
    struct target_ref target;
    bool descendants;
    bool at_exec;         /* armed: each task starts to count at its next exec */
    bool multiplex;       /* hardware events may take turns with others; false: they are pinned */
    const char *filter;   /* for the tracepoints of the set, or NULL */
    uint64_t deadline_ns; /* fail with P13 after this time (CLOCK_MONOTONIC); 0: no limit */
    unsigned long attach_ms; /* the limit of the attach in milliseconds, for the sentence */
    unsigned max_covered;    /* with descendants: limit of processes, left_out included (P11); 0: no
                              * limit */
    unsigned long fds_left;  /* how many descriptors the attach may open, including temporary ones
                              * (P10); ULONG_MAX: no limit */
    unsigned long fds_quota; /* how many of them may stay open (P11); ULONG_MAX: no limit */
    const char *fds_limit_name; /* the name of the quota of fds_quota, for the sentence */
    int (*admit)(void *arg, pid_t pid);
    void *admit_arg;
    uint64_t tag; /* for sink.counter_gone() */

    /* Receives the records; NULL: only counting. Must outlive the counter. */
    struct recorder *recorder;
    uint64_t set_number; /* records of events[i] have LOG_ID(set_number, i) */
    bool sampling;       /* every event samples, with `period` or `freq` (the other is 0) */
    uint64_t period;     /* events per sample */
    uint64_t freq;       /* samples per second, within sample_limits() */
    /* Clock events count both modes in one value, but samples of one mode can be skipped. */
    bool skip_user, skip_kernel;
    bool chain_user, chain_kernel; /* modes of call chains */
    unsigned max_frames;           /* of call chains */
    /* Size of the part of the user stack to copy with the registers; 0: none. Needs the recorder's
     * data_maps. */
    uint32_t stack_bytes;
    bool raw;     /* record the fields of tracepoints */
    bool off_cpu; /* put RECORD_SCHED, and RECORD_WEIGHED samples: see sample_limits */
    /* counting: RECORD_VALUES at each context switch, at the exit of each thread */
    bool values_at_switch, values_at_exit;
};

/*
 * The plan of a recorder: the ring buffers of one PMC, one per CPU, shared by all of its counters.
 */
struct recorder_plan {
    /* Maximum size of each CPU's buffer. The backend uses a possible size up to this, a smaller one
     * if the kernel refuses to lock so much memory, and at least a page. */
    uint64_t bytes;
    uint64_t tag;   /* for sink.drain_due() */
    bool data_maps; /* also record mappings that are not executable (RECORD_DATA) */
    unsigned long fds_left, fds_quota; /* as in struct plan */
    const char *fds_limit_name;
};

struct recorder_facts {
    unsigned descriptors;
    uint64_t bytes; /* locked memory of all buffers */
};

/* Receives records. A record is valid during the call only; its PIDs are in the daemon's namespace.
 */
struct intake {
    void (*put)(void *arg, const struct record *record);
    /* Receives a sample in parts, which the receiver writes as a record (sample_write()). NULL:
     * samples are skipped. A backend may also pass samples to put(). */
    void (*sample)(void *arg, const struct sample *sample);
    /* A backend that has called sample() calls this before drain() returns, and before a system
     * call during the drain. May be NULL. */
    void (*samples_end)(void *arg);
    void *arg;
};

struct sample_limits {
    uint64_t max_freq;   /* current limit of samples per second; UINT64_MAX: none */
    unsigned max_frames; /* limit of frames in a call chain */
    uint64_t registers;  /* registers in a sample with a stack, as perf's mask; 0: not supported */
    bool off_cpu;        /* off_cpu of a plan is supported, for processes */
};

enum {
    CORE_PMUS_MAX = 4,
    VALUES_MAX = SET_MAX + CORE_PMUS_MAX * (SET_MAX + 1)
};

/*
 * Returns the index of a part's values in the values of a set of n events. The values of the events
 * come first, then the parts, one for each core PMU (class_info.n_core_pmus): a value for each
 * event, and the time on the hardware.
 */
static inline unsigned core_pmu_index(unsigned n, unsigned part)
{
    return n + part * (n + 1);
}

/* Totals of a counter over all of its tasks and CPUs since the attach. */
struct reading {
    uint64_t covered_ns;        /* time in which the counter was on and its tasks, if any, ran */
    uint64_t enabled_ns;        /* time enabled, from the kernel */
    uint64_t running_ns;        /* time on the hardware; covered_ns - running_ns is lost */
    bool never_ran;             /* enabled, but never on the hardware: there is no estimate */
    bool off_hardware;          /* lost: the counter is started, but has no hardware counter now */
    bool descendant_lost;       /* a descendant lost its events by executing a privileged program
                                 * since the attach; stays true */
    uint64_t value[VALUES_MAX]; /* of the events, and of their parts: see core_pmu_index() */
    uint64_t estimate[VALUES_MAX]; /* of the events: sum of value × enabled / running of each task
                                    * or CPU */
};

struct counter_facts { /* for `status` and quotas */
    unsigned threads;  /* tasks opened individually at the attach */
    unsigned descriptors;
    unsigned left_out; /* descendants that the opener may not observe */
    unsigned covered;  /* covered processes that are known */
    bool raced;        /* a thread created during the attach may have been missed */
};

struct backend {
    const char *name;
    /* Prepares data that all workers share; called once before the first worker starts. May be
     * NULL. */
    void (*prepare)(void);
    /* Opens the backend and finds its classes, before other threads exist. options: words such as
     * "sim_cpus=4", or NULL. */
    int (*open)(const char *options, const struct host *host, struct host_state *host_state,
                const struct loop *loop, const struct sink *sink, struct backend_state **state,
                struct err *err);
    void (*close)(struct backend_state *state); /* asserts that no counter exists */
    /* Called after a state was loaded, when requests are served already: the part of the adoption
     * of counters and exec guards that waits for the kernel. May be NULL. */
    void (*finish_adoption)(struct backend_state *state);
    const struct class_info *(*classes)(struct backend_state *state, unsigned *n);
    void (*print_facts)(struct backend_state *state,
                        struct buf *out); /* prints the lines of info/backend after the first one */
    void (*print_cpuref)(struct backend_state *state, struct buf *out); /* prints info/cpuref */
    bool simulated_cpus; /* cpus() replaces the host's CPUs */
    void (*cpus)(struct backend_state *state, struct cpus *possible, struct cpus *online);

    /*
     * Creates an exec guard of a thread, or of a process by its first thread. If that has exited,
     * uses another one, which an exec ends or detaches as well. Uses one descriptor. Calls sink.guard_fired(tag) once, when the kernel removes all events from the
     * thread because it executes a privileged program, or when it exits (guard_lost_events()
     * returns false). Returns 0 or -errno. May be NULL.
     */
    int (*guard)(struct backend_state *state, pid_t tid, uint64_t tag, struct guard **out);
    void (*unguard)(struct guard *guard);
    /* Returns true if the thread has lost its events by executing a privileged program, even if it
     * has exited since (locked). */
    bool (*guard_lost_events)(const struct guard *guard);
    /* Returns the descriptor, for guard_adopt() in a later worker (locked). */
    int (*guard_fd)(const struct guard *guard);
    /* Creates a guard again from its descriptor. Until finish_adoption() it reports nothing.
     * Returns 0 or -errno. */
    int (*guard_adopt)(struct backend_state *state, int fd, uint64_t tag, struct guard **out);
    /* Frees the guard but keeps the descriptor open. */
    void (*guard_forget)(struct guard *guard);
    /*
     * Recorders. A recorder is freed after the counters that use it. sink.drain_due(tag) is called
     * each time about half of a buffer was written. Errors: P10, P11, P14 (the sentence names
     * locked memory, CAP_IPC_LOCK and perf_event_mlock_kb if they are the reason), E32, P09 and
     * others of why.c.
     */
    int (*recorder_new)(struct backend_state *state, const struct recorder_plan *plan,
                        struct recorder **out, struct err *err);
    /* Sets *out to the present descriptors and memory, without system calls (locked). */
    void (*recorder_facts)(const struct recorder *recorder, struct recorder_facts *out);
    /*
     * Passes complete records to intake, ordered by time over all CPUs. Returns a time: all passed
     * records are from before this time (CLOCK_MONOTONIC), later drains pass later records.
     * Records of the last 10 ms may stay for the next drain, unless `all` is set: then it also
     * reports losses that the kernel has not reported yet. Called by one thread at a time.
     */
    uint64_t (*drain)(struct recorder *recorder, bool all, const struct intake *intake);
    /*
     * Returns the number of records taken so far, including those that LOST records count, and
     * commits them: neither this worker nor a later one takes them again. Called from the functions
     * of intake, where the record that is passed does not count yet, or while no drain runs. NULL:
     * not supported.
     */
    uint64_t (*commit_taken)(struct recorder *recorder);
    /* Prints the line that recorder_adopt() reads (locked). */
    void (*recorder_print)(const struct recorder *recorder, struct buf *out);
    /* Creates a recorder from a printed line, with the same descriptors, before adopt() of its
     * counters. Returns 0 or -errno. */
    int (*recorder_adopt)(struct backend_state *state, const struct recorder_plan *plan,
                          const char *printed, struct recorder **out);
    void (*recorder_forget)(struct recorder *recorder); /* frees memory, keeps the descriptors */
    void (*recorder_free)(struct recorder *recorder);   /* NULL allowed */
    void (*sample_limits)(struct backend_state *state, struct sample_limits *out);
    /* Called after sink.drain_due(0): processes the kernel's records about covered processes. In
     * any thread, one at a time. NULL if the backend never calls sink.drain_due(0). */
    void (*drain_sideband)(struct backend_state *state);

    /* Called when a CPU goes online or offline. May be NULL. */
    void (*cpu_changed)(struct backend_state *state, unsigned cpu, bool online);

    /* Returns true if the name, without "=VALUE", is a qualifier (usr, cmask) (locked). */
    bool (*is_qualifier)(struct word name);
    /*
     * Resolves the spelling of one event: its meaning and the rights that it needs. It opens events
     * only to choose between several meanings (presets of PAPI); verify() opens the event itself,
     * for users with these rights. The caller frees *out with event_clear().
     * Errors: CS01 unknown, X06 unknown class (both with near misses), CS03, CS04, E35, P09 not
     * available here (with the reason), E32. If out->needs_kernel is set after an error, the
     * sentence is only for users with the right to kernel mode.
     */
    int (*resolve)(struct backend_state *state, const char *text, struct event *out,
                   struct err *err);
    /* Opens the event to find out whether it can be counted here, and sets its rows. NULL: every
     * resolved event can. Errors: P09 with the reason, P10, E32. */
    int (*verify)(struct backend_state *state, struct event *event, struct err *err);
    /* Checks that the events can be counted together as one set, by opening them on an idle thread.
     * Errors: CS08, E19, P09, P10, P14, E32. */
    int (*check_set)(struct backend_state *state, const struct plan_event *events, unsigned n,
                     bool multiplex, struct err *err);
    /* Checks that the tracepoints among the events accept the filter. Errors: P02 (with their
     * fields, or if no event is a tracepoint), E32. NULL: filters are not supported. */
    int (*check_filter)(struct backend_state *state, const struct event *events, unsigned n,
                        const char *filter, struct err *err);
    /* Returns the format of a tracepoint as in tracefs, with the declarations of its fields and
     * without "print fmt" (free it), or NULL if the tracepoint is gone or its format cannot be
     * read. In any thread. NULL: not supported. */
    char *(*tracepoint_format)(struct backend_state *state, const struct log_event *event);
    /* Prints perf's tracing data, which perf needs to print the fields of these tracepoints.
     * Returns false if a tracepoint is gone or its format cannot be read. NULL: not supported. */
    bool (*print_tracing_data)(struct backend_state *state, const struct log_event *const *events,
                               unsigned n, struct buf *out);
    /* Returns a number that changes whenever the result of catalog_add_all() may change. Cheaper
     * than catalog_add_all(), but slow. NULL: the catalog never changes. */
    uint64_t (*catalog_mark)(struct backend_state *state);
    /* Adds every event that can be counted here to *out. Slow: opens each event, except
     * tracepoints, which are added without a test. The caller calls catalog_finish(). Returns 0 or
     * E32. */
    int (*catalog_add_all)(struct backend_state *state, struct catalog *out, struct err *err);
    /* Prints the text of events/CLASS/EVENT. Returns 0, -ENOENT if the event is gone, -ENOMEM,
     * -EMFILE or -ENFILE. */
    int (*describe)(struct backend_state *state, const char *class_name, const char *event,
                    struct buf *out);

    /* Returns a mask of the rows of the class on this CPU that other programs hold now. own: mask
     * of the rows that counters of pmcfs hold there. Does not disturb any counter. NULL: no other
     * program uses the counters. */
    uint64_t (*foreign_rows)(struct backend_state *state, unsigned class_index, unsigned cpu,
                             uint64_t own);

    /* Opens a counter on its target, stopped. Errors: E44 and X09 the target is gone, E37 the CPU
     * is offline, E05 no hardware counter is free, P10, P11 and P13 limits of the plan, P09, P14,
     * E32. */
    int (*attach)(struct backend_state *state, const struct plan *plan, struct counter **out,
                  struct err *err);
    /* For a sampling counter of a CPU or cgroup: records forks, names, mappings and exits until
     * stop(), as start() does. Ignores errors. May be NULL. */
    void (*track)(struct counter *counter);
    /* Starts or continues counting. If the counter is started already, starts those of its tasks
     * that are stopped. With at_exec, until a task has executed a program, each task only waits for
     * its next exec. Errors: E32, P10, P14. */
    int (*start)(struct counter *counter, struct err *err);
    /* Stops counting. A task that still waits for an exec (at_exec) starts to count there all the
     * same. Returns 0, -EIO, or (some threads or new children may still count) -ENOMEM, -EMFILE or
     * -ENFILE. */
    int (*stop)(struct counter *counter);
    /* Reads the totals. Returns 0, -EIO, or, only if not `patient`, -EAGAIN: the kernel would make
     * the caller wait for milliseconds, or /proc would have to be read. */
    int (*read)(struct counter *counter, struct reading *out, bool patient);
    unsigned (*read_cost)(
        const struct counter *counter); /* number of system calls of a read (locked) */
    void (*counter_facts)(const struct counter *counter, struct counter_facts *out); /* (locked) */
    /* Calls fn for every covered process that is known: the target process, or that of the target
     * thread, and the covered descendants; for no process if the target is a CPU or cgroup
     * (locked). */
    void (*each_process)(const struct counter *counter, void (*fn)(void *arg, pid_t pid),
                         void *arg);
    /* Returns true if pid (daemon's namespace) is the target process, the process of the target
     * thread, or a covered descendant; for every pid, 0 included, if the counter may cover
     * processes that it does not know. Returns false for a CPU or cgroup (locked). */
    bool (*covers)(struct counter *counter, pid_t pid);
    void (*print)(const struct counter *counter,
                  struct buf *out); /* prints the line that adopt() reads (locked) */
    /* Creates a counter from a printed line and the same plan, with the same descriptors, in the
     * same state (started or not). Returns 0 or -errno; then the descriptors are still open. */
    int (*adopt)(struct backend_state *state, const struct plan *plan, const char *printed,
                 struct counter **out);
    void (*forget)(struct counter *counter); /* frees the memory, keeps the descriptors */
    void (*free)(struct counter *counter);
};
