/*
 * Targets: the words people write, the processes that are watched, and the links between a PMC and
 * what it is attached to (one counter of the backend each).
 */
#pragma once

#include "core/base/hash.h"
#include "core/base/scan.h"
#include "core/pmc/parts.h"
#include "core/recording/recording.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* One word of `target`, parsed: nothing is opened yet. */
struct target_word {
    struct word word;
    bool remove; /* -WORD */
    enum target_kind kind;
    bool self;        /* self, tid:self */
    uint64_t number;  /* PID or TID as written */
    bool all;         /* all CPUs of the event's class */
    struct cpus cpus; /* TARGET_CPU; owned */
    const char *path; /* cgroup: the rest of the word, \ooo in it; not terminated */
    size_t path_len;
};

/* E27 for an illegal word or number, E21 for a CPU number that cannot exist. */
int target_parse(struct target_word *out, struct word word, struct err *err);
void target_word_clear(struct target_word *word);

struct proc_key {
    uint64_t key;
    pid_t tid; /* 0, or the one thread that is meant: not shared with the process's */
};

/* A process that is watched: shared by all links on it, so that it costs one descriptor. */
struct proc {
    struct engine *engine;
    uint64_t id; /* tag of the watch */
    struct process *process;
    struct proc_key key;
    UT_hash_handle hh; /* in engine->proc_by_key, while it lives */
    pid_t pid;             /* of its process, in the daemon's namespace */
    UT_hash_handle of_pid; /* in engine->proc_by_pid, while it lives: the first of its process … */
    struct proc *peer;     /* … and the others of that process: its threads */
    unsigned refs;     /* links, and PMCs and instances that end with it */
    bool dead;
    struct guard *guard; /* tells when the system takes all events off it; or NULL */
    int guard_fd;        /* its descriptor, for a later worker; 0: there never was one */
    bool guarded;        /* there is one that has told nothing (or a change under way makes it) */
    bool left;           /* the last one told of an exec; see proc_left() */
    bool watched;        /* the host was asked to tell its end */
    LIST_HEAD(, link) links;
    struct proc *next_dead;     /* list of those to be destroyed */
    LIST_HEAD(, pmc) owned;     /* lifetime=owner */
    LIST_HEAD(, instance) held; /* lifetime=namespace */
};

/* What a link counted up to some moment. value has the set's n entries, then n estimates. */
struct tally {
    uint64_t covered_ns, enabled_ns, running_ns;
    bool never_ran;
    bool off;
    bool dropped; /* of a reading: a descendant lost its events */
    uint64_t value[];
};
#define TALLY_SIZE(n) (sizeof(struct tally) + 2 * (size_t)(n) * sizeof(uint64_t))
struct tally *tally_new(unsigned n); /* zeroed; NULL: no memory */
void tally_take(struct tally *tally, const struct reading *reading, unsigned n);
void tally_add(struct tally *to, const struct tally *from, unsigned n);
void tally_subtract(struct tally *to, const struct tally *from, unsigned n);

/* A PMC on a target. Counted references: the PMC's vector holds one, a long read another. */
struct link {
    unsigned refs;
    enum target_kind kind;
    uint64_t id;       /* tag for sink.gone() */
    struct pmc *pmc;   /* not counted */
    struct proc *proc; /* process and thread; NULL once ended */
    union {
        LIST_ENTRY(link) of_proc;
        struct { /* on a dead list */
            struct link *next_dead;
            struct proc *last; /* to be destroyed with the link, which held it last */
        };
    };
    pid_t pid, tid; /* daemon's namespace; kept after the end for the texts */
    unsigned cpu;
    bool offline;  /* its CPU is away: the count stands */
    bool ended;    /* dead or gone: `base` is its final tally, counter is NULL */
    bool gone;     /* the backend says that nothing of it lives */
    bool moved;    /* its CPU went or came since it was planned; cgroup: some CPU came */
    bool armed;    /* opened for start=exec: it begins at the target's next exec */
    bool dropped;  /* the system took the events off the living process; ended for that */
    bool below;    /* … not off the process, but off a descendant of it */
    bool asked;    /* attaching again failed once: the second time it is given up */
    bool missed;   /* attached again after that: something was not counted */
    bool replaced; /* a change under way takes it back or opens it anew */
    int cgroup_fd; /* -1 unless TARGET_CGROUP */
    uint64_t cgroup_key;
    char *cgroup;          /* path as the attacher wrote it, normalised */
    struct rights *rights; /* of the attacher (a reference); NULL: the superuser's (not of a CPU) */
    struct recording *recording; /* into which the counter writes (a reference), or NULL */
    struct counter *counter;
    struct counter_facts facts;
    unsigned n_events;
    LIST_ENTRY(link) of_spreading; /* engine->spreading, or of none */
    unsigned drops;             /* how often it was told that the events are off */
    pid_t shown_pid, shown_tid; /* as the process that attached it knows them; 0: it does not */
    /* Behind the link itself: */
    struct tally *base; /* live: what is subtracted from readings; ended: what it counted */
    struct tally *seen; /* the last good reading, with the lock */
    uint64_t gap_ns;
    uint64_t gone_since_ns; /* CPU offline since */
};

/* The links of a PMC at one moment: never changed once published, replaced as a whole. */
struct links {
    unsigned refs;
    unsigned n;
    struct link *link[];
};

struct links *links_new(unsigned n); /* link[] NULL; NULL: no memory */
struct links *links_ref(struct links *links);
/* Drops one reference. Links that are held no more go to *dead. */
void links_unref(struct links *links, struct link **dead);
void link_unref(struct link *link, struct link **dead);
struct link *link_new(unsigned n_events);
/* Frees links of a dead list and their counters and descriptors. Without the lock. */
void links_destroy(struct engine *engine, struct link *dead);
/* A reference is dropped; forgetting: the descriptors stay. Without the lock. NULL allowed. */
void recording_leave(struct recording *recording, bool forgetting);
static inline bool link_live(const struct link *link)
{
    return !link->ended && !link->offline && link->counter;
}
/* The last good reading, at least its base. */
const struct tally *link_seen(const struct link *link);

/*
 * The shared proc of this process: either an existing one (then `process` is still the caller's, to
 * be freed without the lock) or a new one which takes it. NULL: no memory.
 */
struct proc *proc_get(struct engine *engine, struct process *process, bool *taken);
/* A loaded one, found by its number already, is found by its process now; the host watches it. */
void proc_adopted(struct proc *proc);
int proc_watch(struct proc *proc, struct err *err); /* its end is to be told: P14 */
void proc_unindex(struct proc *proc);               /* it has ended: another may get its key */
/* Those of a process and its threads that live, linked by `peer`; NULL: none. */
const struct proc *procs_of(const struct engine *engine, pid_t pid);
void proc_ref(struct proc *proc);
/* Did a privileged program take the events off it? Of one that has ended, too. */
bool proc_left(const struct proc *proc);
/* NULL; or, when this was the last reference, the proc for proc_destroy() without the lock. */
struct proc *proc_unref(struct engine *engine, struct proc *proc);
void proc_destroy(struct engine *engine, struct proc *proc);   /* NULL allowed */
void procs_destroy(struct engine *engine, struct proc *procs); /* all that were buried */
void proc_bury(struct engine *engine, struct proc *proc); /* with the lock, for later; the same */
void link_set_proc(struct link *link, struct proc *proc); /* takes a reference */
void link_leave_lists(struct link *link); /* … and of those below; the reference to it stays */
/* With a counter that descendants of its target inherit, and not the superuser's. */
void link_spread(struct link *link);
static inline bool link_spreads(const struct link *link)
{
    return link->of_spreading.le_prev != NULL;
}

/* "pid:1234" "tid:1234" "cpu:3" "cgroup:/a" (detail) or "1234" "tid:1234" "cpu3" … (target,
 * config). */
void link_print(const struct link *link, pid_t shown, bool detail, struct buf *out);
