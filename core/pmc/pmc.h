/*
 * Instances: their PMCs by name, their limits, and the last error of each user. The root is
 * instance 0.
 *
 * A PMC: settings, a set of events, rows, links to targets, and a state. core/change changes PMCs;
 * this module creates and releases them and queues the changes that the host causes.
 */
#pragma once

#include "core/base/vec.h"
#include "core/log/log.h"
#include "core/log/log_sets.h"
#include "core/log/recording.h"
#include "core/pmc/settings.h"
#include "core/pmc/target.h"
#include "core/state.h"
#include "core/users/users.h"

#include <stdatomic.h>

/* Interval between drains. A drain may leave records of the last 10 ms to the next one, so a record
 * is readable within 100 ms. */
#define DRAIN_NS 80000000

/* ---- instances ---- */

#define INSTANCES_MAX   4096
#define INSTANCE_ID_MAX ((UINT64_C(1) << 24) - 1) /* largest id in a node id */

/* Limits that the administrator sets for an instance; table in instance.c. Append only. */
enum limit {
    LIMIT_PMCS = USED_PMCS,
    LIMIT_FDS = USED_FDS,
    LIMIT_LOG = USED_BYTES,
    LIMIT_SYSTEM,   /* 1: users without superuser rights may count CPUs and cgroups */
    LIMIT_KERNEL,   /* 1: these users may count kernel mode */
    LIMIT_LIFETIME, /* 1: the instance ends with the container of its first PMC's creator */
    LIMITS
};
struct limit_row {
    const char *name;
    const char *words[2]; /* the words for 0 and 1; NULL: a number */
    uint64_t max;         /* 1 for words */
};
extern const struct limit_row limit_table[LIMITS];
/* Reads a value of the limit from a word. Returns 0, or P27 with the values that are allowed. */
int limit_read(enum limit limit, struct word word, uint64_t *value, struct err *err);

struct instance {
    struct engine *engine;
    uint64_t id;
    UT_hash_handle hh; /* in engine->instance_names */
    char *name;        /* NULL: the root */
    uid_t uid;
    gid_t gid;
    mode_t mode;               /* with the sticky bit */
    uint64_t changed_ns;       /* CLOCK_REALTIME */
    uint64_t limit[LIMITS];    /* by enum limit; of a number, 0: no limit */
    struct user *account;      /* account of all users of the instance; NULL: the root instance */
    struct proc *holder;       /* process with which it ends (a reference), or NULL */
    LIST_ENTRY(instance) held; /* on holder->held */
    struct totals totals;      /* statistics */
    struct work work_name;     /* WORK_INSTANCE, after its removal */
    bool vanished;             /* removed without an rmdir: the kernel has to forget the name */
    struct ids pmcs;
    struct pmc **by_name; /* sorted by name: n PMCs; size: capacity */
    size_t n, size;
    struct last_error { /* one per uid; above a limit a new uid replaces the oldest */
        uid_t uid;
        uint64_t when;
        char *line;
    } * errors;
    size_t n_errors;
    /* Result of bound_counts() when engine->tree_changes was bound_at; 0: none */
    uint64_t bound, bound_at;
};

/* Creates the root (id 0, name NULL), or an instance below it, which is in the engine's tables
 * then. Returns NULL on ENOMEM. */
struct instance *instance_new(struct engine *engine, uint64_t id, const char *name);
/* Sets a limit of an instance, and a number also in its account. Not for the root. The caller then
 * calls instance_touch(). */
void instance_set_limit(struct instance *instance, enum limit limit, uint64_t value);
/* Asserts that it has no PMCs and no holder. NULL is allowed. */
void instance_free(struct instance *instance);
/* Notes a change: the journal record is written before the lock is dropped. The root has none. */
static inline void instance_touch(const struct instance *instance)
{
    if (instance->id)
        engine_touch(instance->engine, JOURNAL_INSTANCE, instance->id);
}
static inline bool instance_is_root(const struct instance *instance)
{
    return instance->id == 0;
}
/* Checks the form of a PMC's or instance's name. Returns 0, P22 or P24. */
int name_check(const char *name, struct err *err);
struct instance *instance_by_name(struct engine *engine, const char *name); /* not the root */
/* Binds the instance to a process and takes a reference to the proc. */
void instance_set_holder(struct instance *instance, struct proc *proc);
void instance_clear_holder(struct instance *instance); /* drops that reference, if any */
/* Removes the instance with all its PMCs; engine_next_name() frees it later. vanishes: without
 * an rmdir, so the kernel must be notified. */
void instance_release(struct instance *instance, bool vanishes);
/* Find, add or remove a PMC in by_name only. instance_add() returns false on ENOMEM. */
struct pmc *instance_find(const struct instance *instance, const char *name);
bool instance_add(struct instance *instance, struct pmc *pmc);
void instance_remove(struct instance *instance, struct pmc *pmc);
/* Sets the user's line of info/last_error. On ENOMEM the old line stays. */
void instance_set_error(struct instance *instance, uid_t uid, uint64_t now_ns, const char *line);
const char *instance_error(const struct instance *instance, uid_t uid); /* "ok" if there is none */
/* Return true if a user with these rights may, in this instance, count kernel mode
 * (access_kernel()) or count CPUs and cgroups (access_system()). */
bool access_kernel(const struct instance *instance, const struct rights *rights);
bool access_system(const struct instance *instance, const struct rights *rights);
/* Returns true if tables (counts, metrics.prom, info/rows) of `from`, the PMC's instance or the
 * root, may show the PMC to a reader with these rights: the superuser, the group `readers`, or a
 * user that the permission bits allow to read `count`. NULL rights: false. */
bool access_read(const struct pmc *pmc, const struct instance *from, const struct rights *rights);

/* ---- PMCs ---- */

enum pmc_state {
    PMC_NEW,
    PMC_ALLOCATED,
    PMC_ARMED,
    PMC_RUNNING,
    PMC_STOPPED,
    PMC_EXITED,
    PMC_LOST,
    PMC_WAITING,
    PMC_STATES
};
struct state_row {
    const char *name;
    bool started; /* settings that need a stop cannot be changed, except in `waiting` */
    const char *help;
};
extern const struct state_row state_table[PMC_STATES];

/* The events of a PMC. Immutable; shared by PMCs with equal sets. */
struct set {
    unsigned refs;
    unsigned n;
    struct engine *engine; /* engine whose table contains it; NULL: none */
    UT_hash_handle hh;     /* key: the first event as written */
    struct event event[];
};
struct set *set_new(unsigned n); /* one reference, empty events; NULL on ENOMEM */
/* Exchanges the reference for one to an equal set in the engine's table. If the table has none,
 * returns the set itself, and adds it unless a different set has its key. NULL is allowed. */
struct set *set_share(struct engine *engine, struct set *set);
struct set *set_ref(struct set *set);
void set_unref(struct set *set);
/* Appends members to a claim for the events of the set that need rows, and sets its class. row: the
 * setting row=, or UINT64_MAX for any. */
void claim_members(struct claim *claim, const struct set *set, uint64_t row);

/* Sampling parameters of a PMC's events: the settings within the limits. */
struct sampling {
    uint64_t period, freq; /* one of them; both 0: counting only */
    uint64_t asked;        /* the setting period= or freq=, if it differs; or 0 */
    bool slowed;           /* changed by the limit of clock events for ordinary users */
    bool chain_user, chain_kernel;
    bool raw;                     /* record the fields of tracepoints */
    unsigned depth;               /* limit of frames */
    unsigned depth_asked;         /* the setting, if it is larger; or 0 */
    uint32_t stack;               /* bytes of the user stack, with registers; 0: none */
    uint64_t registers;           /* mask of registers */
    struct memory_right observer; /* credentials; not `known`: samples have no process memory */
};

/* Kinds of records that the counters write to the log; a mask. */
enum recorded {
    RECORDED_SAMPLES = 1,
    RECORDED_SWITCHES = 2,
    RECORDED_EXITS = 4
};

struct pmc {
    /* A text of many PMCs reads the members from here to the start of settings. They are next to
     * each other to use few cache lines. */
    uint64_t id;
    char *name; /* points to short_name if it fits: tables then read no other memory for it */
    char short_name[24];
    struct engine *engine;
    struct instance *instance; /* NULL once released */
    uid_t uid;
    uid_t payer; /* charged user: the uid, except for subordinate uids */
    gid_t gid;
    mode_t mode;
    unsigned refs; /* held by the tree, queued work, running changes and reads */
    enum pmc_state state;
    struct set *set;        /* NULL: new */
    struct links *links;    /* NULL once everything is released */
    struct tally *base;     /* initial values plus counts of removed links */
    uint64_t epoch;         /* incremented when bases change: a snapshot starts over */
    uint64_t change_number; /* incremented by each change of state or targets */
    struct change *busy;    /* running change, for which others wait; or NULL */
    uint64_t names_ns;      /* when `detail` last read the names of processes; 0: never */
    struct log *log;        /* NULL until there are many records or a reader */
    uint64_t throttled;     /* log_stats.throttled at the last reset of `missed` */
    bool missed; /* a link that left, or could not be opened again, had `missed`; until reset */
    bool counts_kernel;     /* count kernel mode, for events without a modifier */
    bool waits_for_retry;   /* its change was refused: retry at engine->retry_ns */
    bool may_have_switched; /* the change `busy` may have started or stopped its counters */
    bool is_held;           /* lifetime=open: only the open file that holds the PMC may change it */
    atomic_bool was_released; /* released, for readers without the lock */
    enum mode mode_in_use;    /* settings.mode of the last change */
    struct settings settings;
    pid_t creator_pid;               /* PID of the creator in the daemon's namespace; 0: unknown */
    uint64_t creator_key;            /* key of the creator; differs if the PID was reused */
    uint64_t created_ns, changed_ns; /* CLOCK_REALTIME */
    uint64_t created_monotonic_ns;   /* CLOCK_MONOTONIC of mkdir */
    uint64_t created_tsc;            /* cycle counter at mkdir; 0: none */
    struct work deferred[PMC_WORKS - 1]; /* pmc_work() */
    uint64_t vanished_from;              /* id of the instance from which it vanished */
    struct user *user;                   /* charged user (a reference); NULL during a load */
    unsigned long fds;                   /* descriptors of its links and its recording */
    uint64_t links_bytes;                /* memory charged for the links */
    uint64_t resets;                     /* incremented by reset, write of count, new event */
    struct {
        uint64_t first_start_ns; /* first start since the event was set; 0: none */
        uint64_t started_ns;     /* start of the last run; lines of series are due from there */
        uint64_t ran_ns;         /* time from start to stop of earlier runs */
    } run;
    struct {               /* since the event was set */
        bool any;          /* was attached */
        bool raced;        /* an attach may have missed a thread */
        unsigned left_out; /* descendants that attaches skipped: the sum over attaches */
    } attached;
    struct {
        bool all;     /* target `all` */
        bool stale;   /* with `all`: a new CPU may not be counted yet */
        bool refused; /* a change for a CPU failed: retry when a CPU goes online or offline */
    } cpus;
    struct {           /* reattach */
        bool due;      /* a cgroup target may have been created or removed */
        uint8_t tries; /* failed attempts to attach since `due` was set */
        uint8_t n;     /* pmc_schedule_reattach() calls since since_ns, to limit the attaches */
        uint64_t since_ns;
    } reattach;
    char *metrics;         /* words "metric/…" of `event`, or NULL */
    uint64_t sets_started; /* number of commands that started a set instead of extending one */
    struct claim *claim;   /* NULL: no rows */
    char *error;           /* line of the last failed command or EIO; NULL: none since a success */
    char *attach_error;    /* reattach: why an existing cgroup is not attached, or NULL */
    struct {
        bool notify; /* notify pollers after the next snapshot in any case */
        bool is_polled;
        uint64_t count;  /* count at the last snapshot for pollers */
        uint64_t ns;     /* time of that snapshot; 0: never */
        uint64_t resets; /* pmc.resets at that snapshot */
    } poll;
    struct proc *owner; /* lifetime=owner: its exit releases the PMC (a reference); or NULL */
    LIST_ENTRY(pmc) owned;

    /* the log and its recording */
    char *notes;           /* records before the log exists, or NULL */
    struct log_sets *sets; /* meaning of the ids in the log; NULL: never recorded */
    uint64_t sets_bytes;   /* bytes charged for the sets */
    uint64_t set_number;   /* id of the present set; 0: not recorded */
    struct sampling sampling;
    struct recording *recording;  /* of the newest counters; NULL: counting only */
    struct {                      /* of `recording` */
        uint8_t kinds;            /* mask of enum recorded */
        bool kernel;              /* kernel samples are visible */
        unsigned fds;             /* charged descriptors */
        uint64_t bytes;           /* charged locked memory */
        uint64_t *counted_before; /* counts that its records leave out: SET_MAX values, or NULL */
    } recorded;
    struct {
        bool running;          /* a task drains it now */
        LIST_ENTRY(pmc) entry; /* on engine->recording_pmcs; drained periodically */
    } drain;
};

/* Returns a mask of enum recorded for this mode and settings; 0: counting only. */
unsigned recorded_for(enum mode mode, const struct settings *settings);
/* Returns the size of the log in bytes: logsize=, or log_size_max(). */
uint64_t log_size(const struct engine *engine, const struct settings *settings);
/* Returns the default of logsize=, which is its maximum for ordinary users. */
uint64_t log_size_max(const struct engine *engine);

/* Creates a PMC that only instance_find() finds. pmc_add_to_tree() or pmc_drop() must follow. The
 * caller has checked the name and that it is free. Returns NULL on ENOMEM. */
struct pmc *pmc_new(struct instance *instance, const char *name);
/* Copies the name to the PMC, which must not be in by_name. Returns false on ENOMEM without a
 * change. */
bool pmc_set_name(struct pmc *pmc, const char *name);
struct pmc *pmc_ref(struct pmc *pmc);
void pmc_unref(struct pmc *pmc);
static inline bool pmc_released(const struct pmc *pmc)
{
    return pmc->instance == NULL;
}
/* Notes a change: the journal record is written before the lock is dropped. */
static inline void pmc_touch(const struct pmc *pmc)
{
    engine_touch(pmc->engine, JOURNAL_PMC, pmc->id);
}
static inline unsigned pmc_events(const struct pmc *pmc)
{
    return pmc->set ? pmc->set->n : 0;
}
/* Returns the largest n_core_pmus of the set's events, the number of parts of a value. NULL: 0 */
unsigned set_core_pmus(const struct engine *engine, const struct set *set);
/* Returns the number of values in a tally: of the events and their parts (core_pmu_index()). */
static inline unsigned set_values(const struct engine *engine, const struct set *set)
{
    return core_pmu_index(set ? set->n : 0, set_core_pmus(engine, set));
}
static inline unsigned pmc_values(const struct pmc *pmc)
{
    return set_values(pmc->engine, pmc->set);
}

/* Adds a PMC of pmc_new() to the tree with this id, sets uid and payer, and charges the payer.
 * Returns false on ENOMEM; then call pmc_drop(). */
bool pmc_add_to_tree(struct pmc *pmc, uint64_t id, uid_t uid, uid_t payer);
void pmc_drop(struct pmc *pmc); /* frees a PMC that is not on the tree */
/* Sets uid and payer, and charges the payer instead of the present user. Returns false on ENOMEM
 * without a change. */
bool pmc_charge(struct pmc *pmc, uid_t uid, uid_t payer);
/* Charge descriptors to the PMC's user: n (negative: they are closed), or those of a link (held
 * false: they are closed). */
void pmc_charge_fds(struct pmc *pmc, long n);
void pmc_charge_link_fds(struct pmc *pmc, const struct link *link, bool held);
/* Returns the bytes to charge for this number of links with n values each: 0 for a few links. */
uint64_t links_bytes(unsigned links, unsigned n);
void pmc_charge_links(struct pmc *pmc); /* for the present links, instead of the earlier charge */

/* Removes the PMC from the tree. The name is free at once. The caller then calls change_release()
 * or queues WORK_CHANGE, which frees the rest. */
void pmc_remove_from_tree(struct pmc *pmc);
/* Removes a PMC without an rmdir: also notifies the kernel and queues the release. */
void pmc_vanish(struct pmc *pmc);
static inline struct work *pmc_work(struct pmc *pmc, enum work_kind kind)
{
    return &pmc->deferred[kind - 1];
}
static inline struct pmc *work_pmc(struct work *work, enum work_kind kind)
{
    return WORK_OBJECT(work - (kind - 1), pmc, deferred);
}
/* Queues work of the PMC, with a reference, unless it is queued already. */
void pmc_defer(struct pmc *pmc, enum work_kind kind);
/* Removes the first PMC with work of this kind and returns it with the reference, or NULL. */
struct pmc *pmc_deferred_take(struct engine *engine, enum work_kind kind);
/* Wakes requests and pollers that wait for the PMC. */
static inline void pmc_wake(struct pmc *pmc)
{
    pmc_defer(pmc, WORK_WAKE);
}

/* Notes a change of state or targets and wakes waiters. */
void pmc_changed(struct pmc *pmc);
void pmc_set_state(struct pmc *pmc, enum pmc_state state);
unsigned pmc_links_left(const struct pmc *pmc); /* number of links that have not ended */
uint64_t pmc_elapsed_ns(const struct pmc *pmc,
                        uint64_t now_ns); /* time while started, in all runs */
/* Returns the modes of an event: both if it counts in both anyway (counts_both_modes), or else its
 * modifiers, or else user= and the argument `kernel`. */
struct plan_event pmc_plan_event(const struct event *event, const struct settings *settings,
                                 bool kernel);
/* Prints the path of the PMC from an instance: "i", or from the root "instances/NAME/i". */
void pmc_print_path(const struct pmc *pmc, const struct instance *from, struct buf *out);
/* Returns the length of the names of all events, each twice as written and once in its canonical
 * form, without escapes. */
uint64_t pmc_names_bytes(const struct pmc *pmc);
/* Prints the canonical form of event i with its modes: "cycles:u". */
void pmc_print_resolved(const struct pmc *pmc, unsigned i, struct buf *out);

/* Prints the canonical form of a planned event with its modes. */
void plan_event_print(const struct plan_event *plan, struct buf *out);

/* Parameters of a link's plan that come from the PMC, or from a change. */
struct opening {
    const struct plan_event *events;
    unsigned n;
    const struct settings *settings;
    const struct sampling *sampling;
    uint64_t set_number;         /* of the ids in the log */
    struct recording *recording; /* NULL: counting only */
    unsigned recorded;           /* mask of enum recorded */
};
struct plan link_plan(struct link *link, const struct opening *opening);

/* ---- the log ---- */

bool pmc_has_log(const struct pmc *pmc); /* has records */
bool pmc_ensure_log(struct pmc *pmc);    /* creates the log if missing; false on ENOMEM */
/* Adds records if the setting log is on. Drops them on ENOMEM. */
void pmc_log_records(struct pmc *pmc, const struct buf *records);
/* Takes over a reference to the recording (or NULL) and charges its descriptors and memory. Returns
 * the old one, which the caller drops without the lock. */
struct recording *pmc_set_recording(struct pmc *pmc, struct recording *recording);
/* Charges the descriptors and memory of the recording again: CPUs may have gone online. */
void pmc_charge_recording(struct pmc *pmc);
/* Returns the plan of a recording of n events. Needs pmc->log. The caller then sets kernel, view,
 * and the recorder's bytes, data_maps and limits of descriptors. */
struct recording_plan pmc_recording_plan(const struct pmc *pmc, unsigned n, unsigned recorded);
/* Adds the PMC to the list of periodic drains if it is started and has a recording. Otherwise
 * removes it from the list. */
void pmc_update_drain_list(struct pmc *pmc);
void pmc_log_stats(const struct pmc *pmc, struct log_stats *out); /* zeroes without a log */
/* Like pmc_log_stats(), but `records` and `bytes` are 0 for a PMC that has only notes. Cheaper. */
void pmc_log_losses(const struct pmc *pmc, struct log_stats *out);
/* Returns true if sampling was throttled since pmc_clear_missed(): times continue, counts do not.
 */
bool pmc_was_throttled(const struct pmc *pmc);
void pmc_clear_missed(struct pmc *pmc); /* after a reset: earlier losses do not matter */
/* Adds the numbers of records and losses, but not bytes and memory. */
void log_stats_add(struct log_stats *to, const struct log_stats *from);

void pmc_change_later(struct pmc *pmc, uint64_t now_ns); /* WORK_CHANGE, within 100 ms */
/* Called when a cgroup target may have been created or removed. Queues a change, which compares the
 * targets with the existing cgroups; above 20 calls per second it waits for pmc_change_later(). */
void pmc_schedule_reattach(struct pmc *pmc);

/* Sets the line of `error`: "ERRNO ID FILE: sentence"; NULL: the last command succeeded. */
void pmc_set_error(struct pmc *pmc, const char *line);
/* lifetime=owner. pmc_set_owner() takes over the caller's reference, pmc_clear_owner() drops it. */
void pmc_set_owner(struct pmc *pmc, struct proc *proc);
void pmc_clear_owner(struct pmc *pmc, struct work_queue *unused);
