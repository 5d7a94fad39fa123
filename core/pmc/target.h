/*
 * Targets: words of `target`, watched processes, and links. A link is one PMC attached to one
 * target, with one counter of the backend.
 */
#pragma once

#include "core/base/scan.h"
#include "core/base/vec.h"
#include "core/log/recording.h"
#include "core/state.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* A parsed word of `target`. */
struct target_word {
    struct word word;
    bool remove; /* -WORD */
    enum target_kind kind;
    bool self;        /* self, tid:self */
    uint64_t number;  /* PID or TID as written */
    bool all;         /* all CPUs of the event's class */
    struct cpus cpus; /* TARGET_CPU; owned */
    const char *path; /* cgroup: the rest of the word with \ooo, not NUL-terminated */
    size_t path_len;
};

/* Parses a word, which *out then points into. Returns 0, E27 for an invalid word or number, E21 for
 * an impossible CPU number, or E32. The caller frees out->cpus, also after a refusal. */
int target_parse(struct target_word *out, struct word word, struct err *err);
/* Takes the first target of a list with commas from *list. The word is empty between two commas.
 * The commas of cpu0,2-3 and of a cgroup's path belong to the word. */
struct word target_next(struct word *list);

struct proc_key {
    uint64_t key; /* host.process_key(): of the process */
    pid_t tid;    /* 0, or the thread of a tid: target, which has a separate proc */
};

/* A watched process, or the thread of a tid: target. All links on it share the proc. */
struct proc {
    struct engine *engine;
    uint64_t id; /* tag of the watch */
    struct process *process;
    struct proc_key key;
    UT_hash_handle hh;     /* in engine->proc_by_key while alive */
    pid_t pid;             /* PID in the daemon's namespace */
    UT_hash_handle of_pid; /* in engine->proc_by_pid while alive: the first proc of the process */
    struct proc *peer;     /* next proc of the same process, or NULL */
    unsigned refs;         /* held by links, and by PMCs and instances that end with it */
    bool dead;
    struct guard *guard; /* exec guard, or NULL */
    int guard_fd;        /* descriptor of the guard for a later worker; 0: none */
    bool guarded;        /* the exec guard is open and has not fired, or a change is opening it */
    bool lost_before_reload; /* the guard had fired before the reload; see proc_lost_events() */
    bool watched;            /* the host reports its exit */
    LIST_HEAD(, link) links;
    struct work work;           /* WORK_PROC, after the last reference */
    LIST_HEAD(, pmc) owned;     /* lifetime=owner */
    LIST_HEAD(, instance) held; /* lifetime=namespace */
};

/* Counts of a link at one moment: n values (set_values()), then n estimates. */
struct tally {
    uint64_t covered_ns, enabled_ns, running_ns;
    bool never_ran;
    bool off_hardware;
    bool descendant_lost; /* in a reading: a descendant lost its events */
    uint64_t value[];
};
#define TALLY_SIZE(n) (sizeof(struct tally) + 2 * (size_t)(n) * sizeof(uint64_t))
struct tally *tally_new(unsigned n); /* zeroed; NULL on ENOMEM */
/* tally_set() copies a reading. The others add or subtract times, values and estimates; only
 * tally_add() merges never_ran and off_hardware. */
void tally_set(struct tally *tally, const struct reading *reading, unsigned n);
void tally_add(struct tally *to, const struct tally *from, unsigned n);
void tally_subtract(struct tally *to, const struct tally *from, unsigned n);

enum link_state {
    LINK_ATTACHED, /* has a counter, or a running change is opening it */
    LINK_OFFLINE,  /* its CPU or cgroup does not exist now; the count stays in `base` */
    LINK_ENDED     /* the target has ended: `base` is the final count */
};

/* Which process of a link lost its events, because the kernel removed them when it executed a
 * privileged program and lives on: the target, or a descendant of it. */
enum link_loss {
    LOSS_NONE,
    LOSS_TARGET,
    LOSS_DESCENDANT
};

/* Events that the next change handles, and the progress of changes. */
enum link_note {
    NOTE_GONE = 1,    /* the backend reports that all tasks have exited */
    NOTE_MOVED = 2,   /* its CPU went online or offline; of a cgroup: a CPU came online */
    NOTE_FAILED = 4,  /* attaching again has failed: the next change ends the link */
    NOTE_REPLACED = 8 /* a running change detaches or reopens it */
};

/* A link. References are held by vectors (the PMC's, and an older one that a running read uses) and
 * by the change that creates the link. */
struct link {
    unsigned refs;
    enum target_kind kind;
    enum link_state state;
    bool armed;        /* start=exec: counts from the target's next exec */
    bool missed;       /* some counts are missing: see item_sum() */
    struct proc *proc; /* process and thread; NULL after the end */
    struct counter *counter;
    struct tally *base; /* live: subtracted from readings; ended: the final count */
    struct tally *seen; /* the latest reading; allocated with the link, as base */
    uint64_t id;        /* tag for sink.counter_gone() */
    struct pmc *pmc;    /* no reference */
    LIST_ENTRY(link) of_proc;
    struct work work;        /* WORK_LINK, after the last reference */
    pid_t pid, tid;          /* in the daemon's namespace; kept after the end */
    char name[PROCESS_NAME]; /* of the process or thread when it was last read; "": unknown */
    unsigned cpu;
    enum link_loss loss;        /* attached: a change must handle it; ended: why it ended */
    unsigned noted;             /* mask of enum link_note */
    int cgroup_fd;              /* -1 unless TARGET_CGROUP; if link_waits(), the root of its path */
    struct cgroup_watch *watch; /* reattach: reports creation and removal of the cgroup; or NULL */
    uint64_t cgroup_key;
    char *cgroup; /* normalised path as written */
    struct rights
        *rights; /* rights of the user that attached it (a reference); NULL: the superuser */
    struct recording *recording; /* recording of the counter (a reference), or NULL */
    struct counter_facts facts;
    unsigned n_events;
    LIST_ENTRY(link) of_spreading; /* in engine->spreading, or not in a list */
    unsigned n_losses;             /* how often it lost its events */
    pid_t shown_pid, shown_tid; /* in the namespace of the user that attached it; 0: not visible */
    uint64_t gap_ns;        /* total time without a counter, because the CPU or cgroup was gone */
    uint64_t gone_since_ns; /* time since which the CPU or cgroup is gone; 0: it exists */
};

/* Returns the TID of a thread target, or the PID of a process target, in the daemon's namespace. */
static inline pid_t link_task(const struct link *link)
{
    return link->kind == TARGET_THREAD ? link->tid : link->pid;
}

/* The links of a PMC. Immutable; a change replaces the vector. */
struct links {
    unsigned refs;
    unsigned n;
    struct link *link[];
};

struct links *links_new(unsigned n); /* link[] is NULL; returns NULL on ENOMEM */
struct links *links_ref(struct links *links);
/* Drop a reference (links may be NULL). Links and procs without references are added to `unused`,
 * the queue of a change or the engine's WORK_LINK, for targets_destroy(). */
void links_unref(struct links *links, struct work_queue *unused);
void link_unref(struct link *link, struct work_queue *unused);
struct link *link_new(const struct engine *engine, const struct set *set); /* set: or NULL */
/* Frees the queued links and procs with their counters and descriptors; if engine->forgetting, the
 * descriptors stay open. Call without the lock. */
void targets_destroy(const struct engine *engine, struct work_queue *unused);
/* Drops a reference; forgetting: descriptors stay open. Call without the lock. NULL is allowed. */
void recording_leave(struct recording *recording, bool forgetting);
static inline bool link_live(const struct link *link)
{
    return link->state == LINK_ATTACHED && link->counter;
}
/* Returns true if reattach waits for the cgroup, which does not exist now. */
static inline bool link_waits(const struct link *link)
{
    return link->state == LINK_OFFLINE && link->kind == TARGET_CGROUP;
}

/*
 * Returns the shared proc of this process. Takes no reference: the caller calls proc_ref() or
 * link_set_proc(). *taken: a new proc owns `process`; otherwise the caller frees it without the
 * lock. Returns NULL on ENOMEM.
 */
struct proc *proc_get(struct engine *engine, struct process *process, bool *taken);
/* Adds a loaded proc to the tables, counts its descriptors and sets `watched`: the caller then
 * calls the host's process_watch(). */
void proc_add_loaded(struct proc *proc);
/* Requests a report when the process exits, unless the proc is watched. Returns 0 or P14. */
int proc_watch(struct proc *proc, struct err *err);
void proc_exited(struct proc *proc); /* notes the exit, and defers changes of its PMCs */
/* Returns the living procs of a process and its threads, linked by `peer`, or NULL. */
const struct proc *procs_of(const struct engine *engine, pid_t pid);
void proc_ref(struct proc *proc);
/* Returns true if the process lost its events by executing a privileged program, even if it has
 * exited since. */
bool proc_lost_events(const struct proc *proc);
/* Drops a reference. The last one adds the proc to `unused`, for targets_destroy(). */
void proc_unref(struct proc *proc, struct work_queue *unused);
/* Sets the proc of a link that has none, and takes a reference. */
void link_set_proc(struct link *link, struct proc *proc);
void link_leave_lists(struct link *link); /* removes it from all lists; the proc reference stays */
/* Adds a link whose events descendants inherit to engine->spreading, unless it is the superuser's
 * or on the list already. */
void link_spread(struct link *link);
static inline bool link_spreads(const struct link *link)
{
    return link->of_spreading.le_prev != NULL;
}

/* Returns true if the target still exists. For backends, while the counter exists; arg is the link.
 * Always true for CPUs. */
bool link_target_alive(void *arg);
/* Returns true if the target process lives, and it or a descendant lost its events (link.loss).
 * Does not detect that a thread has exited. At most one system call. */
bool link_lost_events(const struct pmc *pmc, const struct link *link);
/* Returns true if a CPU changed so that the counter must be closed or opened again. */
bool link_moved(const struct pmc *pmc, const struct link *link);
/* Notes that a descendant lost its events and queues a change, which attaches again if the target
 * lives. Does nothing if a loss is noted already. */
void link_lost_descendant(struct link *link);
/* Returns true if the target is known to be dead and the link is not ended. See also
 * change_end_dead_links(). */
bool link_dead(const struct pmc *pmc, const struct link *link);

/* Prints "pid:1234" "tid:1234" "cpu:3" "cgroup:/a" (detail), or "1234" "tid:1234" "cpu3" (target,
 * config). */
void link_print(const struct link *link, pid_t shown, bool detail, struct buf *out);
