/*
 * A counter: the perf events of one set on one target, in groups of descriptors: shape.task_groups
 * groups for each task, or one for each CPU. attach.c opens them, adopt.c restores them. The perf_
 * functions are those of struct backend (core/backend.h), which describes them.
 */
#pragma once

#include "backends/perf/count/group.h"
#include "backends/perf/record/recorder.h"
#include "backends/perf/record/sideband.h"
#include "backends/perf/state.h"
#include "core/base/vec.h"

/* Last known readings of a group that can lose its hardware counter. Relaxed atomics: several
 * threads may read a counter at the same time. */
struct group_last {
    uint64_t gap_ns; /* covered minus running time at the last attempt to revive the group */
    uint64_t judged_covered_ns,
        judged_running_ns; /* both times when off_hardware was last computed */
    uint64_t off_hardware; /* 1: the target ran, but the group did not */
    uint64_t words[];      /* time enabled, time running, values of the members */
};

struct covered; /* descendants.c */
struct follow;  /* follow.c */

struct counter {
    struct backend_state *state;
    int *groups;             /* n_groups × stride */
    char *last;              /* n_groups × struct group_last; NULL without hardware events */
    struct covered *covered; /* with descendants, else NULL */
    struct shape shape;      /* shape_free_attrs() is called once all groups are open */
    unsigned n_groups;
    uint64_t tag;
    struct {
        enum target_kind kind;
        pid_t pid, tid;
    } target;
    unsigned left_out; /* descendants that the opener may not observe */
    bool descendants, at_exec, multiplex;
    bool on;          /* atomic: started, not stopped */
    bool was_started; /* at least once */
    bool sampling;
    bool tracks;          /* uses the system-wide tracking events of the recorder (track_begin()) */
    bool raced;           /* a thread created during the attach may be missing */
    bool descendant_lost; /* a descendant lost its events during the attach */
    struct recorder *recorder; /* NULL: no records, only counts */
    struct origin *origin;
    struct guard *exit_watch; /* or NULL */
};

/* Returns an empty counter for a plan, or NULL on ENOMEM. attach.c and adopt.c add its groups. */
struct counter *counter_new(struct backend_state *state, const struct plan *plan);
/* Allocates n groups, whose numbers are all -1. Returns false on ENOMEM. */
bool counter_make_groups(struct counter *counter, unsigned n_groups);
static inline int *counter_group(const struct counter *counter, unsigned group)
{
    return counter->groups + (size_t)group * counter->shape.stride;
}
static inline int *counter_fds(const struct counter *counter, unsigned group)
{
    return GROUP_FDS(counter_group(counter, group));
}
/* Returns the size of the struct group_last of one group. */
static inline size_t counter_last_bytes(const struct counter *counter)
{
    return sizeof(struct group_last) + (2 + counter->shape.members) * sizeof(uint64_t);
}
/* Returns the last readings of a group. Needs shape.hardware. */
static inline struct group_last *counter_last(const struct counter *counter, unsigned group)
{
    return (void *)(counter->last + group * counter_last_bytes(counter));
}
static inline bool counter_is_on(const struct counter *counter)
{
    return __atomic_load_n(&counter->on, __ATOMIC_ACQUIRE);
}
/* Returns true if the target is a process or a thread. */
static inline bool counter_is_of_task(const struct counter *counter)
{
    return counter->target.kind == TARGET_PROCESS || counter->target.kind == TARGET_THREAD;
}
/* Returns true if the counter has at_exec and still waits for the first exec of a task, or if that
 * cannot be read. Makes system calls. */
bool counter_is_armed(struct counter *counter);
/* Creates counter->exit_watch (end_events.c) if the shape has one. Needs all groups. late: as for
 * guard_new(). Returns 0 or -errno. */
int counter_watch_exit(struct counter *counter, bool late);

int perf_attach(struct backend_state *state, const struct plan *plan, struct counter **out,
                struct err *err); /* attach.c */
void perf_track(struct counter *counter);
int perf_start(struct counter *counter, struct err *err);
int perf_stop(struct counter *counter);
int perf_read(struct counter *counter, struct reading *out, bool patient); /* read.c */
unsigned perf_read_cost(const struct counter *counter);                    /* read.c */
/* Calls fn for every process that is known to be covered. Makes no system calls. */
void perf_each_process(const struct counter *counter, void (*fn)(void *arg, pid_t pid), void *arg);
void perf_counter_facts(const struct counter *counter, struct counter_facts *out);
bool perf_covers(struct counter *counter, pid_t pid);
void perf_print(const struct counter *counter, struct buf *out); /* adopt.c, as perf_adopt() */
int perf_adopt(struct backend_state *state, const struct plan *plan, const char *printed,
               struct counter **out);
void perf_forget(struct counter *counter);
void perf_free(struct counter *counter);

/* ---- threads of a counter ---- */

struct tids {
    VEC(pid_t) list; /* sorted */
    int shortage;    /* -errno if threads are missing for lack of memory or descriptors, else 0 */
};

/* Lists the target thread, or the threads of the target process and of its known descendants. *tids
 * is zeroed or from an earlier call: the list is replaced, `shortage` is only set. Makes system
 * calls. The caller frees tids->list.items. */
void counter_tids(const struct counter *counter, struct tids *tids);

/* ---- output to the rings of a recorder; without a recorder these do nothing ---- */

/* Redirects all events that write records to the rings and registers their ids. Call before the
 * start, while the shape still has its attrs, and after an adoption (adopted: rings that stayed
 * mapped still have their redirections). Takes the recorder's lock. Returns 0 or -errno. */
int output_begin(struct counter *counter, const struct plan *plan, bool adopted);
/* Like output_begin() for one group; needs the recorder's lock. *root: 0 for the first group of a
 * task, which sets it to the kernel's id of its first event. */
int group_begin_output(const struct origin *origin, const struct shape *shape, const int *group,
                       bool adopted, uint64_t *root);
/* Starts to record processes and mappings on every CPU, if the target needs that (a CPU or cgroup
 * that is sampled). Call after output_begin() and before the start. Takes the setup lock. Returns 0
 * or -errno. */
int output_track(struct counter *counter);
/* Redirects the events on this CPU of the counter of an origin, which is open, to the CPU's new
 * ring. Needs setup and the recorder's lock. */
void output_redirect_cpu(const struct origin *origin, unsigned cpu);

/*
 * ---- descendants.c: the processes that a counter with descendants covers ----
 *
 * The processes found at attach, to which FORK records add and from which EXIT records remove. Also
 * finds out if a process lost its events because it executed a privileged program: records show
 * which processes may have lost them, and /proc shows whether these processes are alive.
 */

/*
 * Starts to follow records; not with the engine's lock. fill() adds the processes that are covered
 * already, and returns false if some of them may be missing. covered_has() returns true for every
 * process if fill() returned false, if there is no sideband (NULL, or its rings cannot be opened),
 * and after lost records or a lack of memory. fill() runs with the sideband's lock, so no record is
 * delivered at the same time. Returns NULL on ENOMEM.
 */
struct covered *covered_new(struct sideband *sideband, const struct counter *counter,
                            bool (*fill)(struct covered *covered, const void *arg),
                            const void *arg);
void covered_free(struct covered *covered); /* NULL allowed */

/* For fill(): adds a thread of a process. */
void covered_add_thread(struct covered *covered, uint32_t pid, uint32_t tid);
/* For fill(): applies a record; records must come in order of time. */
void covered_apply_record(struct covered *covered, const struct side_record *record);

bool covered_has(struct covered *covered, pid_t pid);
void covered_each(struct covered *covered, void (*fn)(void *arg, pid_t pid), void *arg);
/* Sets *lost: a covered process except the target has lost its events since covered_new(). Returns
 * 0, or -EAGAIN if `patient` is false and this needs a read of /proc or checks of more than
 * HURRIED_SUSPECTS processes. */
int covered_lost_events(struct covered *covered, bool patient, bool *lost);
/* Returns true if the first thread of the process is alive and not exiting; false also if that
 * cannot be read. Reads /proc. */
bool process_lives(pid_t pid);

/*
 * ---- follow.c: values of single threads before Linux 6.12 ----
 *
 * Before that version the kernel refuses PERF_SAMPLE_READ with inherit. The counting groups stay as
 * they are. In addition each known thread gets one group per CPU that counts the same events and is
 * not inherited: its leader is EXTRA_SWITCH (sampling.h), its output goes to the recorder's rings,
 * and it is flexible (it uses only free hardware counters). The values are a lower bound: new
 * threads are found by their FORK records, when these are drained.
 */

/*
 * Starts to follow the threads of a counter if the plan needs their values and its groups cannot
 * report them. Call after output_begin(). Opens at most most_fds descriptors; a thread that cannot
 * be opened is not followed; on ENOMEM none is. Makes system calls.
 */
void follow_begin(struct counter *counter, const struct plan *plan, unsigned long most_fds);
/* Starts (on) or stops the groups of all followed threads. Call after the counting groups were
 * started, and before they are stopped. armed: the start still waits for the exec of the target, so
 * nothing is started now. */
void follow_switch(const struct counter *counter, bool on, bool armed);
/* Closes all groups. NULL allowed. Needs the recorder's lock. */
void follow_free(struct follow *follow);
/* Returns the number of descriptors that are open now. Makes no system calls. */
unsigned follow_fds(const struct counter *counter);
/* Returns most_fds of follow_begin(), or 0 if the counter does not follow threads. */
unsigned long follow_max_fds(const struct counter *counter);

/*
 * ---- end_events.c: dummy events that report the end of an observation by POLLHUP ----
 *
 * For ends that a pidfd does not report. The events have a mapped ring, because poll() reports
 * POLLHUP at once for an event without one. struct guard is either of these:
 *
 * Exit watch: the dummy events of a counter, which share one ring. They report that the last
 * covered task is dead (or has executed a program that ends the observation).
 * Exec guard: one dummy event on the first thread of a process. It reports that the kernel has
 * detached all events, root's too, from a process that lives on, because it executed a set-id,
 * file-capability or unreadable program.
 */

/*
 * Watches n descriptors (stride apart, -1 allowed), which stay the caller's and stay open until
 * guard_free(). When all have reported POLLHUP, calls sink.counter_gone(tag), or
 * sink.guard_fired(tag) for an exec guard, once, on the loop. late: nothing is reported before
 * guards_listen(), which then also reports an end that was earlier. Returns 0 or -errno.
 */
int guard_new(struct backend_state *state, const int *fds, unsigned stride, unsigned n,
              bool is_exec_guard, uint64_t tag, bool late, struct guard **out);
/* Frees an exit watch or exec guard. Its descriptors stay open: close them after this. NULL
 * allowed. */
void guard_free(struct guard *guard);
/* Maps and starts all late watches and all adopted guards. Separate from the adoption because the
 * first mmap() of a ring waits until every CPU has seen that the previous mapping is gone. */
void guards_listen(struct backend_state *state);

/* Opens an exec guard of a thread; if it has exited, of another one of its process. It calls
 * sink.guard_fired(tag) once: after an exec that detached the events, but also when the thread
 * exits: see perf_guard_lost_events(). Returns 0 or -errno. Makes system calls. */
int perf_guard(struct backend_state *state, pid_t tid, uint64_t tag, struct guard **out);
void perf_unguard(struct guard *guard); /* closes it; NULL allowed */
/* Returns true if an exec detached the events, even if the process has exited since. Returns false
 * while they are attached, after an exit without such an exec, and for a late guard before
 * guards_listen(). */
bool perf_guard_lost_events(const struct guard *guard);
int perf_guard_fd(const struct guard *guard);
/* Restores a guard from its descriptor, late. An end during the reload is reported too, because
 * the descriptor still has POLLHUP. */
int perf_guard_adopt(struct backend_state *state, int fd, uint64_t tag, struct guard **out);
