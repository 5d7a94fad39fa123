/*
 * A change on its way, seen by the files that make it:
 *
 *   change_find    no lock   names are resolved, processes found, and the kernel asked about them
 *   change_plan    lock      what is desired, refusals, and the difference to what is there
 *   change_open    no lock   new counters are opened, old ones stopped and read, new ones started
 *   change_swap    lock      rows; then the desired value takes the place of the old one
 *   change_close   no lock   the old counters are closed, or after a refusal the new ones
 *
 * Nothing is reserved before the swap. All answer 0 or -errno with the sentence in change->err, and
 * need the engine's lock unless it says otherwise.
 */
#pragma once

#include "core/base/vec.h"
#include "core/change/change.h"

/* A word of `target`, as far as found. */
struct wanted {
    struct target_word word;
    struct process *process; /* owned until a proc takes it */
    pid_t pid, tid;
    int cgroup_fd;
    char *cgroup;
    bool passed; /* it has exited: left out, said in the note */
};

/* The value that the PMC is to have: its present one with what the command says. */
struct desired {
    struct settings settings;
    uint32_t given;       /* keys of this command */
    char *names[SET_MAX]; /* events as written */
    unsigned n_names;
    char *metrics;             /* those that named some of them, as written, or NULL */
    bool joins;                /* the names join the set that is there */
    struct set *set;           /* a reference */
    struct plan_event *events; /* what each of the set counts */
    bool new_set;              /* the count begins anew */
    bool kernel, wants_all;
    VEC(struct wanted) targets; /* that come or go */
    bool additive;              /* targets attached already are left as they are (config) */
    enum verb verb;
    bool put; /* settings.counts are to be the value of `count` now */
};

/* A link of the PMC, as it is and as it will be. */
struct move {
    struct link *old;    /* NULL: a new target */
    struct link *next;   /* `old`: it stays; NULL: it leaves, its count goes into the PMC's base */
    bool opens;          /* `next` gets a counter; else, as another one, it keeps the final count */
    bool recheck;        /* opened anew: may the writer observe the process? */
    bool guards;         /* a guard is made for the proc of `next` … */
    struct guard *guard; /* … this one, until it is the proc's */
    pid_t said;          /* the number that the command wrote; 0: self, or none */
    const char *reason;  /* for which the log says that the target left; NULL: it says nothing */
    struct tally *last;  /* an absolute reading, if `was_read` */
    bool was_read;
    bool stopped, started; /* by this change */
    struct verdict {       /* it lost its events: what was found out without the lock */
        bool asked, below; /* below: a descendant lost them, and nothing is asked */
        bool headless;     /* nothing was lost: only its first thread has ended */
        bool dead;         /* it was a thread, and that has ended since */
        bool refused;      /* the rights with which it was attached do not suffice any more */
        unsigned drops;
    } verdict;
};

/* Between what is there and what is desired: counters to keep, open, close. */
struct difference {
    VEC(struct move) moves;
    unsigned n_opens;       /* of them */
    bool reopen;            /* every live link is opened anew */
    bool start, stop, read; /* the links that are kept */
    bool start_fresh;
    struct links *links; /* the vector afterwards, filled at the swap */
    struct tally *base;  /* of a new set */
    struct tally *total; /* the count at the swap */
};

/* In the order of the PMC's links; those behind them are new. */
#define EACH_MOVE(move, change)                                                                    \
    for (struct move *move = (change)->diff.moves.items;                                           \
         move < (change)->diff.moves.items + (change)->diff.moves.n; move++)

/* The rights of the request: those of the opener of the file. */
struct asker {
    struct rights *rights; /* as long as the request lives; NULL: the engine's own change */
    const struct opener *opener; /* or NULL */
    bool may_kernel, may_system, may_foreign, superuser;
    bool inside; /* an instance, through which no user is superuser */
};

/* What the counters record, and into what. */
struct recordal {
    struct pid_view *view;       /* PIDs as the asker knows them; NULL: as pmcfs does */
    struct sample_limits limits; /* of the system */
    struct sampling sampling;
    uint64_t set_number;
    unsigned recorded;      /* enum recorded */
    bool anew;              /* into a recording that is made for them */
    struct recording *made; /* until it is the PMC's */
    uint64_t *counted_before;
    struct recording *old;  /* to be freed after its counters */
    struct recording *held; /* not drained until the swap has told the log what begins and ends */
    uint64_t held_ns;
    struct buf inventory; /* what was there at that moment, as records */
};

enum cause {
    CAUSE_COMMAND,
    CAUSE_OWN,    /* targets ended or lost their events, CPUs went or came */
    CAUSE_RELEASE /* close everything */
};

/* Lives as long as the request's function. */
struct change {
    enum cause cause;
    struct call *call; /* of the engine's own change, any: only its command's are to be asked */
    struct engine *engine;
    struct pmc *pmc;             /* a reference */
    struct user *payer;          /* the PMC's user when it began (a reference) */
    char name[NAME_LEN_MAX + 1]; /* as it was then: for sentences made without the lock */
    const char *file;
    struct asker asker;
    struct desired desired;
    struct difference diff;
    struct recordal log;
    unsigned long fds;        /* that it holds by itself, among engine->fds_used */
    unsigned long spent;      /* of them, the payer's */
    uint64_t bytes;           /* charged to the payer until they are the PMC's */
    char limit_name[96];      /* of those on them, the scarcest */
    uint64_t cpus_serial;     /* the engine's when this was planned */
    uint64_t attach_ns;       /* how long finding and attaching all targets may take */
    uint64_t deadline_ns;     /* when that is over */
    struct process *writer;   /* lifetime=owner: the writing process, until a proc takes it */
    struct proc *owner;       /* lifetime=owner: a reference */
    struct link *dead;        /* to be destroyed */
    struct proc *dead_procs;  /* the same */
    struct claim *last_claim; /* of a released PMC: held until its counters are closed */
    int rc;
    struct err err;
    struct err note; /* said in `error` though the command worked */
};

/* change.c: from beginning to end. slow: gives up the seat. CALL_WAIT: not begun. */
int change_run(struct call *call, struct pmc *pmc, enum cause cause, bool slow);

/* change_parse.c: the text of the command. Without the lock. */
int change_parse(struct change *change);

/* change_find.c. Without the lock. */
void change_find(struct change *change);
/* Between two targets: -EINTR, P26, P13 when going on is of no use. */
int change_goes_on(struct change *change);
/* A target has exited: what change->err says is kept for the note; of several, the words. */
void change_pass_over(struct change *change, struct word word);

/* change_plan.c */
int change_plan(struct change *change);
int change_desire_set(struct change *change); /* desired.set and its events, if not known yet */
bool change_attaches(const struct change *change); /* some target that is not there yet */
void plan_leave(struct move *move);
struct move *plan_fresh(struct change *change, enum target_kind kind); /* NULL: no memory */
/* A guard is to be made, which tells when the proc loses its events. */
void plan_guard(struct change *change, struct move *move);
int plan_reopen(struct change *change); /* every live link is opened anew */

/* change_check.c: in the order of the seed. The first two without the lock, too. */
int check_words(struct change *change);        /* before anything is looked up: E22, E26 */
int check_event_rights(struct change *change); /* kernel mode, whole CPUs, what the events need */
int check_command(struct change *change);      /* settings, mode, scope, rights, verb */
int check_system(struct change *change);
int refuse_system(struct change *change);
int refuse_kernel(struct change *change, const char *event, const char *instead);

/* change_targets.c: words of `target`, and CPUs that `all` means, become links. */
int plan_targets(struct change *change);
int plan_want_cpus(struct change *change, const struct target_word *word);
int plan_lifetime(struct change *change);
static inline bool wanted_is_system(const struct wanted *wanted)
{
    return wanted->word.kind == TARGET_CPU || wanted->word.kind == TARGET_CGROUP;
}

/* change_load.c: events on one process, of all PMCs: P11 */
int load_targets(struct change *change); /* once all moves are planned */
int load_below(struct change *change);   /* once it is known what descendants=on covers */

/* change_rows.c: the claim of the set, as it will be. */
int change_rows(struct change *change);

/* change_quota.c: descriptors, links. But for the last two, without the lock too. */
unsigned long quota_left(const struct change *change); /* ULONG_MAX: any number */
void quota_hold(struct change *change, unsigned n);    /* opened, and pmcfs's own */
int quota_spend(struct change *change, unsigned n);    /* opened; P11: another command was faster */
unsigned long fds_free(const struct engine *engine);
int quota_found(struct change *change, bool removes); /* a process is held: P10, P11 */
int quota_links(struct change *change);               /* the memory of those planned: P11 */
void quota_release(struct change *change);            /* they are the PMC's, or to be closed */

/* change_sampling.c: what samples, and what the log needs once it is known what starts. */
int check_sampling(struct change *change);
int plan_log(struct change *change);

/* change_open.c. Without the lock. */
void change_open(struct change *change);
void change_close(struct change *change);

/* change_record.c. The first four without the lock. */
int refuse_log(struct change *change, const char *what); /* P11. With or without the lock */
int record_open(struct change *change); /* the new recording, and room in the log */
void record_hold(struct change *change);
int record_begun(struct change *change); /* started: what is there already; 0 or an error */
struct opening change_opening(const struct change *change);
void record_end(struct change *change, bool stops, enum pmc_state after); /* into the log */
void record_swap(struct change *change);
void record_begin(struct change *change, bool starts);
void record_last_end(struct change *change); /* of a PMC that was released */

/* change_swap.c */
void change_swap(struct change *change);
void change_refuse(struct change *change); /* instead of it: what was opened is given up */
