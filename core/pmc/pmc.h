/*
 * A PMC: settings, a set of events, rows, links to targets, a state. Changes are made by change.c;
 * here are its life, its names, and what happens to it from outside.
 */
#pragma once

#include "core/base/hash.h"
#include "core/log/log.h"
#include "core/log/log_sets.h"
#include "core/pmc/instance.h"
#include "core/pmc/parts.h"
#include "core/pmc/settings.h"
#include "core/pmc/target.h"
#include "core/recording/recording.h"

#include <stdatomic.h>

#define DRAIN_NS 50000000 /* between two drains of a PMC that records */

enum pmc_state {
    PMC_NEW,
    PMC_ALLOCATED,
    PMC_ARMED,
    PMC_RUNNING,
    PMC_STOPPED,
    PMC_EXITED,
    PMC_LOST,
    PMC_STATES
};
struct state_row {
    const char *name;
    bool settable; /* settings may change: it does not run */
    const char *help;
};
extern const struct state_row state_table[PMC_STATES];

/* The events of a PMC; never changed once published, and shared by PMCs that count the same. */
struct set {
    unsigned refs;
    unsigned n;
    struct engine *engine; /* in its table; NULL: in none */
    UT_hash_handle hh;     /* by the first event, as written */
    struct event event[];
};
struct set *set_new(unsigned n);
/* The reference becomes one to the set that has the same events, if there is one. NULL allowed. */
struct set *set_share(struct engine *engine, struct set *set);
struct set *set_ref(struct set *set);
void set_unref(struct set *set);
/* What the set needs of the rows of its class, of a claim that has none yet; row: of row=. */
void claim_members(struct claim *claim, const struct set *set, uint64_t row);

/* How each event of a PMC samples: what was asked, within what is allowed. */
struct sampling {
    uint64_t period, freq; /* one of them; both 0: it only counts */
    uint64_t asked;        /* what period or freq was to be, where it is another; 0 */
    bool slowed;           /* … because it is a clock, and not the superuser's */
    bool chain_user, chain_kernel;
    bool raw;                     /* with the fields of tracepoints */
    unsigned depth;               /* frames at most */
    unsigned depth_asked;         /* where that is more; 0 */
    uint32_t stack;               /* bytes of the user's stack at most, with registers; 0: none */
    uint64_t registers;           /* … with these */
    struct memory_right observer; /* … in whose name; not known: its samples have no memory */
};

/* What the log is to have from the counters; a mask. */
enum recorded {
    RECORDED_SAMPLES = 1,
    RECORDED_SWITCHES = 2,
    RECORDED_EXITS = 4
};

struct pmc {
    uint64_t id;
    char *name; /* a short one stands beside it: a listing looks at one place of each PMC */
    char short_name[24];
    struct engine *engine;
    struct instance *instance; /* NULL once released */
    uid_t uid;
    uid_t payer; /* the user that pays for it: the uid, but for subordinate ones */
    gid_t gid;
    mode_t mode;
    pid_t maker;        /* the process that made it, as the daemon knows it; 0: not known */
    unsigned refs;      /* calls under way and the id map */
    uint64_t maker_key; /* … which is gone if its number has another key now */
    uint64_t created_ns, changed_ns; /* CLOCK_REALTIME */
    uint64_t made_ns;                /* CLOCK_MONOTONIC of mkdir */
    uint64_t made_tsc;               /* the cycle counter then; 0: there is none */
    atomic_bool taken_off;           /* the same as released, for readers without the lock */
    bool told;                       /* on engine->told (a reference), for one or both of these */
    bool wake, vanished;
    bool pending;    /* on engine->pending (a reference) */
    bool later;      /* what it needs was refused: not before engine->retry_ns */
    bool had_target; /* attached at least once since the event was set */
    bool raced;
    struct change *busy; /* the change under way, for which others wait; or NULL */
    LIST_ENTRY(pmc) pends;
    uint64_t vanished_from; /* the instance's id */
    struct pmc *next_told;
    struct user *user;       /* that pays for it (a reference); NULL while it is loaded */
    unsigned long fds;       /* descriptors of its links and its recording */
    uint64_t links_bytes;    /* of the user's memory, for the links */
    uint64_t epoch;          /* grows when bases are set anew: a long read starts over */
    uint64_t resets;         /* grows when the count begins anew: reset, write, new event */
    uint64_t change;         /* grows with each change of state or targets */
    uint64_t first_start_ns; /* CLOCK_MONOTONIC of the first start, 0: never */
    uint64_t started_ns;     /* of the present run; series' steps count from here */
    uint64_t ran_ns;         /* from start to stop, of the runs before this one */
    struct settings settings;
    enum pmc_state state;
    enum mode effective; /* settings.mode, or what was asked otherwise */
    bool kernel;         /* kernel mode is counted, for events that say nothing */
    bool wants_all;      /* `all` is among the targets */
    bool cpus_stale;     /* `all`: one may have come that is not counted */
    bool cpus_refused;   /* following the CPUs failed: not again before the next one moves */
    unsigned left_out;   /* descendants left out, of all attaches */
    struct set *set;     /* NULL: new */
    char *metrics;       /* words "metric/…" of `event` that named its events, or NULL */
    uint64_t began;      /* commands that began a set anew: later ones join it */
    struct links *links; /* never NULL */
    struct tally *base;  /* initial values, plus what forgotten links counted */
    struct claim *claim; /* NULL: holds no rows */
    char *error;         /* line of the last command, or NULL: it worked */
    uint64_t throttled;  /* what log_stats.throttled was when `missed` was forgotten */
    bool missed;         /* a target that was taken back had missed something; until reset */
    bool poll_asked;     /* too costly to be read at once: wants a look for pollers */
    bool poll_tells;     /* … and they are told in any case */
    bool held_by;        /* lifetime=open: changed only through the descriptor that holds it */
    unsigned pollers;
    uint64_t polled_count;  /* count at the last look for pollers */
    uint64_t polled_ns;     /* when that was; 0: never */
    uint64_t polled_resets; /* `resets` then */
    struct proc *owner;     /* lifetime=owner */
    LIST_ENTRY(pmc) owned;

    /* the log, and what writes into it */
    char *notes;           /* records before there is a log, or NULL */
    struct log *log;       /* NULL until a record comes that is no note, or a reader */
    struct log_sets *sets; /* what the ids in the log mean; NULL: none was ever recorded */
    uint64_t sets_bytes;   /* what they take of the user's */
    uint64_t set_number;   /* of the present events and settings, 0: they are not recorded */
    struct sampling sampling;
    struct recording *recording; /* of the counters that were opened last; NULL: they only count */
    uint8_t recorded;            /* enum recorded: what that is for */
    bool recorded_kernel;        /* … whether its samples of the kernel are seen */
    bool drain_asked;            /* on engine->drains (a reference) */
    bool draining;
    unsigned recorded_fds; /* … its descriptors, and its locked memory */
    uint64_t recorded_bytes;
    uint64_t *counted_before; /* … what the total was when it began: SET_MAX values, or NULL */
    LIST_ENTRY(pmc) records;  /* on engine->recorders: drained at each tick */
    struct pmc *next_drain;
};

/* What must be recorded in this mode with these settings; 0: it only counts. */
unsigned recorded_for(enum mode mode, const struct settings *settings);
/* Bytes of a log: logsize=, or what the tunables say. */
uint64_t log_size(const struct engine *engine, const struct settings *settings);
uint64_t log_size_max(const struct engine *engine);

struct pmc *pmc_new(struct instance *instance, const char *name); /* NULL: no memory */
bool pmc_set_name(struct pmc *pmc, const char *name);             /* false: no memory */
struct pmc *pmc_ref(struct pmc *pmc);
void pmc_unref(struct pmc *pmc);
static inline bool pmc_released(const struct pmc *pmc)
{
    return pmc->instance == NULL;
}
/* It changed: its record is put before the lock is dropped. */
static inline void pmc_touch(const struct pmc *pmc)
{
    engine_touch(pmc->engine, JOURNAL_PMC, pmc->id);
}
static inline unsigned pmc_events(const struct pmc *pmc)
{
    return pmc->set ? pmc->set->n : 0;
}

/* A new one gets its number, and counts for this user. False: no memory; then pmc_drop(). */
bool pmc_put_on(struct pmc *pmc, uint64_t id, uid_t uid, uid_t payer);
void pmc_drop(struct pmc *pmc); /* one that pmc_put_on() has not put on the tree */
/* It counts for this user from now on. False: no memory, it stays where it was. */
bool pmc_charge(struct pmc *pmc, uid_t uid, uid_t payer);
/* Descriptors opened, or closed (negative); those of one of its links. */
void pmc_hold_fds(struct pmc *pmc, long n);
void pmc_hold_link(struct pmc *pmc, const struct link *link, bool held);
/* What so many links of n events take of the user's memory; those that it has now are charged. */
uint64_t links_bytes(unsigned links, unsigned n);
void pmc_hold_links(struct pmc *pmc);

/* Off the tree: the name is free at once; what it holds goes with change_release(). */
void pmc_take_off(struct pmc *pmc);
/* The same by pmcfs itself: the kernel is told that the name is gone, the rest follows. */
void pmc_vanish(struct pmc *pmc);
/* Requests that wait for it are run again, its pollers told. */
void pmc_wake(struct pmc *pmc);

/* State or targets changed: numbers, wakes. */
void pmc_changed(struct pmc *pmc);
void pmc_set_state(struct pmc *pmc, enum pmc_state state);
unsigned pmc_live_links(const struct pmc *pmc);
uint64_t pmc_elapsed_ns(const struct pmc *pmc, uint64_t now_ns); /* while it was started */
/* What a member counts: the event's own modifiers win over user= and kernel=. */
struct plan_event pmc_plan_event(const struct event *event, const struct settings *settings,
                                 bool kernel);
/* As it is found from there: "i", or from the root "instances/NAME/i". */
void pmc_print_path(const struct pmc *pmc, const struct instance *from, struct buf *out);
/* The resolved form with what is really counted: "cycles:u". */
void pmc_print_resolved(const struct pmc *pmc, unsigned i, struct buf *out);

/* The same for a member that is planned. */
void plan_event_print(const struct plan_event *plan, struct buf *out);

/* How counters are opened: what a link's plan has of its PMC, now or as a change wants it. */
struct opening {
    const struct plan_event *events;
    unsigned n;
    const struct settings *settings;
    const struct sampling *sampling;
    uint64_t set;
    struct recording *recording; /* NULL: they only count */
    unsigned recorded;
};
struct plan link_plan(struct link *link, const struct opening *opening);

/* ---- its log ---- */

bool pmc_has_log(const struct pmc *pmc); /* something was put */
bool pmc_keeps_log(struct pmc *pmc);     /* it is there afterwards; false: no memory */
/* Records for it, if it keeps a log; a note's time 0 is now. Nothing without memory. */
void pmc_put(struct pmc *pmc, const struct buf *records);
void pmc_note(struct pmc *pmc, struct note note);
/* The recording takes the place of the PMC's, which the caller frees without the lock; its
 * descriptors and memory are the PMC's. */
struct recording *pmc_record(struct pmc *pmc, struct recording *recording);
void pmc_record_fds(struct pmc *pmc); /* a CPU that came later has a buffer too */
/* For a recording of n events; kernel, view, bytes and limits are the caller's to add. */
struct recording_plan pmc_recording_plan(const struct pmc *pmc, unsigned n, unsigned recorded);
/* It runs and records, or not (any more): it is drained at each tick. */
void pmc_follow(struct pmc *pmc);
void pmc_log_stats(const struct pmc *pmc, struct log_stats *out); /* zeros without a log */
/* The same, but records and bytes are missing before there is more than notes: cheap. */
void pmc_log_losses(const struct pmc *pmc, struct log_stats *out);
/*
 * Since the last reset: was it paused for sampling too often (the kernel's times go on meanwhile,
 * its counts do not); was it, or has a target taken back missed something? And: begin anew.
 */
bool pmc_paused(const struct pmc *pmc);
bool pmc_missed(const struct pmc *pmc);
void pmc_miss_nothing(struct pmc *pmc);
void log_add(struct log_stats *to, const struct log_stats *from);

/* Put it on the engine's list of PMCs that need a look (change_pending). */
void pmc_pend(struct pmc *pmc);
void pmc_pend_later(struct pmc *pmc, uint64_t now_ns); /* it was refused: not at once */
/* The system took the events off its process, which lives. One system call. */
bool link_dropped(const struct pmc *pmc, const struct link *link);
/* Its CPU went, or one came that it does not count: its counter is to be closed or opened anew. */
bool link_moved(const struct pmc *pmc, const struct link *link);
/* A reading says that a descendant lost its events: its target is attached again, if it lives. */
void link_lost_below(struct link *link);
/* Its target is known to be dead, and the link not ended yet. Deaths that were not told: deaths.h.
 */
bool link_dead(const struct pmc *pmc, const struct link *link);
/* For backends, as long as the link's counter exists: arg is the link. CPUs always are. */
bool link_target_alive(void *arg);

/* The line for `error`: "ERRNO ID FILE: sentence"; NULL: the last command worked. */
void pmc_set_error(struct pmc *pmc, const char *line);
/* lifetime=owner: takes a reference that the caller has; gives the proc to destroy, or NULL. */
void pmc_own(struct pmc *pmc, struct proc *proc);
struct proc *pmc_disown(struct pmc *pmc);
int name_check(const char *name, struct err *err); /* P22, P24 */
