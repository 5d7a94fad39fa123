/*
 * A running change, for the files of this module:
 *
 *   change_find    no lock   parses, resolves names, finds processes, checks rights to observe them
 *   change_plan    lock      desired value, refusals, difference to the present value
 *   change_open    no lock   opens new counters, stops and reads old ones, starts new ones
 *   change_swap    lock      rows; then the desired value replaces the old one
 *   change_close   no lock   closes the old counters, or after a refusal the new ones
 *
 * No setting, link or count of the PMC changes before the swap. Earlier only the log and the list
 * of set ids may grow, and the plan sets notes on links (noted, loss), procs and
 * pmc.may_have_switched. Functions return 0, or -errno with a sentence in change->err, and need the
 * engine's lock unless noted.
 */
#pragma once

#include "core/base/vec.h"
#include "core/change/change.h"

/* A word of `target` and the object that was found. */
struct wanted {
    struct target_word word;
    struct process *process; /* owned until a proc takes it over */
    pid_t pid, tid;
    char name[PROCESS_NAME];
    int cgroup_fd;       /* if `absent`, the root where its path starts */
    uint64_t cgroup_key; /* unless `absent` */
    char *cgroup;
    bool absent;  /* the cgroup does not exist: wait for it */
    bool skipped; /* has exited: not attached, but named in change.note */
};

/* The desired value: the present value with the changes of the command. */
struct desired {
    struct settings settings;
    uint32_t command_keys; /* settings that the command contains */
    char *names[SET_MAX];  /* events as written */
    unsigned n_names;
    char *metrics;             /* metric words as written, or NULL */
    bool extends_set;          /* `names` are the present set's and, after them, the command's */
    struct set *set;           /* a reference */
    struct plan_event *events; /* modes of each event */
    bool new_set;              /* other events or another mode: the count restarts */
    bool kernel, wants_all;
    VEC(struct wanted) targets; /* targets to attach or detach */
    bool accepts_attached;      /* already attached targets are accepted (config) */
    enum verb verb;
    bool sets_count; /* `count` gets the values of settings.counts at the swap */
};

/* State of a link in a change of the engine, set by change_begin() and completed by change_find():
 * may it be attached again after it lost its events, and does its cgroup exist? VERDICT_CHECK and
 * all values after it are for links that lost events. */
enum verdict {
    VERDICT_NONE,           /* no check */
    VERDICT_CGROUP_CHANGED, /* its cgroup was created or removed */
    VERDICT_CHECK,          /* lost its events, not checked yet */
    VERDICT_RENEW,          /* attach it again */
    VERDICT_HEADLESS,       /* nothing was lost: only the first thread has exited */
    VERDICT_DEAD,           /* a thread, which has exited */
    VERDICT_REFUSED         /* the rights of the attach are no longer sufficient */
};

/* A link of the PMC before and after the change. */
struct move {
    struct link *old;  /* NULL: a new target */
    struct link *next; /* equal to `old`: stays; NULL: leaves, and the PMC's base gets its count */
    bool opens; /* `next` gets a counter; otherwise a new `next` has exited, is offline or waits */
    bool recheck;               /* reopened: check that the writer may observe the process */
    bool guards;                /* open an exec guard for the proc of `next` */
    struct guard *guard;        /* the new exec guard; after swap or discard the replaced one */
    pid_t written_number;       /* the number in the command; 0: self, or none */
    const char *reason;         /* of the log's detach record of `old`; NULL: no record */
    struct tally *old_counts;   /* reading of `old` if `was_read`; its count after swap_count() */
    int cgroup_fd, root_fd;     /* VERDICT_CGROUP_CHANGED: cgroup (-1: none), root of its path */
    struct cgroup_watch *watch; /* new, for `next`; after the swap the old one, to be freed */
    bool was_read;
    bool stopped, tracked, started; /* by this change */
    enum verdict verdict;
    unsigned n_losses; /* old->n_losses when the change started */
};

/* The difference between present and desired value. */
struct difference {
    VEC(struct move) moves;
    unsigned n_opens;       /* moves with `opens` */
    unsigned n_waits;       /* new targets that do not exist yet */
    bool reopen;            /* reopen every live link */
    bool start, stop, read; /* for links that stay; leaving ones are always stopped and read */
    bool start_opened;      /* start links that are opened */
    struct links *links;    /* the new vector, filled at the swap */
    struct tally *base;     /* base of a new set */
    struct tally *total;    /* total at the swap */
};

/* Moves are in the order of the PMC's links; new links follow. */
#define EACH_MOVE(move, change)                                                                    \
    for (struct move *move = (change)->diff.moves.items;                                           \
         move < (change)->diff.moves.items + (change)->diff.moves.n; move++)

/* The process that writes a command. Numbers are of its PID namespace. The rights are those of the
 * file's opener. */
struct requester {
    struct rights *rights;       /* valid during the request; NULL: a change of the engine */
    const struct opener *opener; /* or NULL */
    bool may_kernel, may_system, may_observe_others, superuser;
    bool in_instance; /* the PMC is in an instance, where no user is the superuser */
};

/* Sampling parameters and recording of the counters that the change opens. */
struct change_recording {
    struct pid_view *view;       /* PID namespace of the requester; NULL: the daemon's */
    struct sample_limits limits; /* limits of the system */
    struct sampling sampling;
    uint64_t set_number;
    unsigned kinds;           /* enum recorded */
    bool creates;             /* the change creates a recording */
    struct recording *made;   /* the new recording, until the PMC owns it */
    uint64_t *counted_before; /* memory for pmc.recorded.counted_before of the new recording */
    struct recording *old;    /* the replaced recording, freed after its counters are closed */
    struct recording *held;   /* not drained until the swap has written its records */
    uint64_t held_ns;         /* time of the swap's records */
    struct buf inventory;     /* inventory of processes as records */
};

enum cause {
    CAUSE_COMMAND,
    CAUSE_OWN,    /* targets exited or lost their events; CPUs or cgroups changed */
    CAUSE_RELEASE /* close everything */
};

/* A change: a local variable of change_run(). */
struct change {
    enum cause cause;
    struct call *call; /* its rights are used by CAUSE_COMMAND only */
    struct engine *engine;
    struct pmc *pmc;             /* a reference */
    struct user *payer;          /* the charged user (a reference) */
    char name[NAME_LEN_MAX + 1]; /* copy of the PMC's name for sentences without the lock */
    const char *file;
    bool checks_cgroups; /* also checks which cgroup targets exist (reattach) */
    struct requester requester;
    struct desired desired;
    struct difference diff;
    struct change_recording recording;
    unsigned long held_fds;    /* descriptors held by the change, part of engine->fds_used */
    unsigned long charged_fds; /* part of `held_fds` charged to the payer */
    uint64_t charged_bytes;    /* until the swap */
    char fds_limit_name[96];   /* the limit of descriptors with the least left */
    uint64_t cpus_serial;      /* engine->cpus_serial at the plan */
    uint64_t attach_ns;        /* limit of the time to find and attach all targets */
    uint64_t deadline_ns;      /* end of that time */
    struct process *writer;    /* lifetime=owner: the writing process, until a proc takes it over */
    struct proc *owner;        /* lifetime=owner: a reference */
    struct work_queue to_destroy; /* links and procs that change_close() destroys */
    struct claim *released_claim; /* claim of a released PMC, held until its counters are closed */
    int rc;
    struct err err;
    struct err note; /* shown in `error` although the command succeeded */
};

/* change.c: calls the steps, up to a NULL, until one fails. Returns its result, or 0. */
int run_steps(struct change *change, int (*const *step)(struct change *change));

/* change_parse.c: parses the command. Called without the lock. */
int change_parse(struct change *change);

/* change_find.c; called without the lock. change_find() sets change->rc. */
void change_find(struct change *change);
/* Checks between two targets whether to continue, after change_find() has set deadline_ns. Returns
 * 0, -EINTR, P26 or P13. */
int change_check_abort(struct change *change);
/* Moves the sentence about a skipped target, which has exited, from change->err to change->note. If
 * the note is long already, appends only `word`; the sentence if `word` is empty. */
void change_note_skipped(struct change *change, struct word word);

/* change_plan.c */
int change_plan(struct change *change);
/* Sets desired.set (to the PMC's set, if any), and then desired.kernel and desired.events, unless
 * desired.events is set already. Call it without the lock only if desired.set is given. */
int desired_set_fill(struct change *change);
bool change_attaches(const struct change *change); /* returns true if there are new targets */
void plan_detach(struct move *move);
/* Adds a move with a new link. opens: the change will open it; false: it is offline, because its
 * target does not exist yet. Returns NULL on ENOMEM. */
struct move *plan_new_target(struct change *change, enum target_kind kind, bool opens);
/* Plans an exec guard for the proc of a move, if it has none. */
void plan_guard(struct change *change, struct move *move);
/* Replaces each attached link by a new one. For a new set also replaces offline links, and removes
 * ended ones. */
int plan_reopen(struct change *change);

/* change_check.c: in hwpmc's order. Only check_command() and check_system() need the lock.
 * refuse_kernel() appends `instead`, such as ": write kernel=off", or "", to its sentence. */
int check_target_scope(struct change *change); /* file `target`, before any look-up: E22, E26 */
int check_event_rights(struct change *change); /* kernel mode, system scope, rights of the events */
int check_command(struct change *change);      /* settings, mode, scope, rights, verb */
int check_system(struct change *change);       /* rights to system scope, after plan_targets() */
int refuse_system(struct change *change);
int refuse_kernel(struct change *change, const char *event, const char *instead);

/* change_targets.c: turns words of `target`, and the CPUs of `all`, into moves. */
int plan_targets(struct change *change);
int plan_cpus(struct change *change, const struct target_word *word);
int plan_lifetime(struct change *change);
static inline bool wanted_is_system(const struct wanted *wanted)
{
    return wanted->word.kind == TARGET_CPU || wanted->word.kind == TARGET_CGROUP;
}

/* change_quota.c: limit of events on one process by all PMCs. P11, E32. */
int quota_target_events(struct change *change); /* once all moves are planned: sets NOTE_REPLACED */
int quota_descendant_events(struct change *change); /* after the attach */

/* change_quota.c: descriptors and links. All except quota_links() and quota_undo() may be called
 * without the lock. */
/* Returns the descriptors that the payer's quota leaves, including those of counters and recording
 * that the swap replaces. ULONG_MAX: no limit. */
unsigned long quota_fds_left(const struct change *change);
/* Count n descriptors that the change has opened, for all of pmcfs. quota_charge_fds() also charges
 * them to the payer, and returns P11 if that exceeds the quota; they stay charged until
 * quota_undo(). */
void quota_hold_fds(struct change *change, unsigned n);
int quota_charge_fds(struct change *change, unsigned n);
/* Returns how many descriptors pmcfs may still open, without the reserve FDS_RESERVED. */
unsigned long engine_fds_left(const struct engine *engine);
/* Counts the descriptor of a target that was found: P10, P11. removes: a detach, which may use half
 * of the reserve. */
int quota_target_fd(struct change *change, bool removes);
int quota_links(struct change *change); /* charges the memory of planned links: P11 */
/* Undoes the holds and charges of the change. Called before the plan, and before the swap (which
 * charges the PMC) or discard. */
void quota_undo(struct change *change);

/* change_sampling.c: sampling parameters, and requirements of the log. */
int check_sampling(struct change *change);
int plan_log(struct change *change);

/* change_open.c; called without the lock. change_open() sets change->rc. */
void change_open(struct change *change);
void change_close(struct change *change);

/* change_record.c. record_open(), record_drain_and_hold() and record_target_inventory() are called
 * without the lock. */
/* Refuses more bytes for the log (P11). `what`, such as "memory", starts the sentence. With or
 * without the lock. */
int refuse_log(struct change *change, const char *what);
int record_open(struct change *change); /* creates the recording, reserves space in the log */
int record_drain_and_hold(struct change *change); /* a step of change_open(): returns 0 */
/* Reads the inventory of the targets, after their counters started. Returns 0, or an error on
 * ENOMEM. */
int record_target_inventory(struct change *change);
struct opening change_opening(const struct change *change); /* with or without the lock */
/* Write the records of the swap: record_notes_before() before the new settings and recording are in
 * place, record_notes_after() after that. record_swap() gives the PMC its new recording. stops,
 * starts: also write a stop or start record. after: the state after the swap. */
void record_notes_before(struct change *change, bool stops, enum pmc_state after);
void record_swap(struct change *change);
void record_notes_after(struct change *change, bool starts);
void record_release_notes(struct change *change); /* last records of a released PMC */

/* change_rows.c: chooses rows for the desired set and links. Returns 0, E19, X08, E05 or
 * E32; after a refusal the PMC has its old claim. */
int change_rows(struct change *change);

/* change_swap.c. change_swap() sets change->rc if the swap is refused; then nothing has changed. */
void change_swap(struct change *change);
/* After a refusal: frees the planned links, and gives new exec guards to their procs. */
void change_discard(struct change *change);
