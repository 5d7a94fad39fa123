/*
 * Changing a PMC: every store ends here. A command is parsed into a struct change, prepared without
 * the lock (names resolved, processes found), checked with it, applied without it (counters opened,
 * started, stopped, read), and committed with it in one place; then what is left over is freed.
 * All or nothing: until the commit the PMC is as it was.
 */
#pragma once

#include "core/pmc.h"

#include <stdatomic.h>

enum verb {
    VERB_NONE,
    VERB_START,
    VERB_STOP,
    VERB_RESET,
    VERB_RESTART,
    VERB_FLUSH,
    VERB_CLOSE,
    VERB_DETACH,
    VERBS
};
struct verb_row {
    const char *name;
    const char *help;
    const char *seed;
};
extern const struct verb_row verb_table[VERBS];

/* What the engine does by itself. */
enum cause {
    CAUSE_COMMAND, /* somebody wrote something */
    CAUSE_DEATHS,  /* end the links whose target is dead */
    CAUSE_DROPPED, /* a process executed a privileged program: attach again, or end */
    CAUSE_CPUS,    /* CPUs went or came */
    CAUSE_RELEASE  /* free everything */
};

/* A word of `target`, as far as prepared. */
struct wanted {
    struct target_word word;
    struct process *process; /* owned until a proc takes it */
    pid_t pid, tid;
    int cgroup_fd;
    char *cgroup;
    bool passed; /* it has exited: left out, said in the note */
    bool exited; /* -PID: a link has it, and its process is dead */
};

/* A process to be watched: by the host for its end, by a guard for losing its events. */
struct watching {
    struct proc *proc;
    bool watch, guard;  /* what this change is to set up */
    bool watched;       /* done */
    struct guard *made; /* the new guard; once settled the old one, to be freed */
};

/* CAUSE_DROPPED: a link that lost its events, and what was found out without the lock. */
struct verdict {
    struct link *link;
    struct process *process;
    const struct rights *rights;
    unsigned drops; /* of the link when it was noted */
    bool below;     /* a descendant did: nothing is asked */
    bool headless;  /* nothing was lost: only its first thread has ended */
    bool refused;   /* who attached may not observe it any more */
};

struct change {
    struct work work;
    enum cause cause;
    enum stage {
        STAGE_PARSE, /* of a long command */
        STAGE_PREPARE,
        STAGE_APPLY,
        STAGE_CLEAN
    } stage;
    struct engine *engine;
    struct pmc *pmc;             /* a reference */
    char name[NAME_LEN_MAX + 1]; /* as it was then: for sentences made without the lock */
    const struct rights *rights; /* the opener's; as long as the request lives */
    uid_t uid;                   /* of the writer */
    pid_t tid;
    struct open_file *open;
    const char *file;
    const char *text; /* STAGE_PARSE: the command; as long as the request lives */
    size_t len;
    const atomic_bool *interrupted; /* nobody waits for the answer any more; or NULL */

    /* what was asked */
    bool may_kernel, may_system, may_foreign, superuser; /* of the opener, when the change began */
    bool inside;                                         /* an instance: nobody is superuser */
    struct settings want; /* the PMC's settings with the given ones replaced */
    uint32_t given;       /* keys of this command */
    char **names;         /* events as written */
    unsigned n_names;
    char *metrics; /* those that named some of them, as written, or NULL */
    bool append; /* written through a file opened with O_APPEND */
    bool joins;  /* the names join the set that is there */
    struct wanted *wanted;
    unsigned n_wanted;
    bool additive; /* targets attached already are left as they are (config) */
    enum verb verb;
    bool put; /* the value of `count` is to be set now, to want.counts */

    /* what follows from it */
    struct set *set; /* the set afterwards (a reference) */
    bool new_set, reopen;
    enum mode effective;
    bool kernel;
    bool wants_all;
    struct claim *claim;        /* a new one, reserved; NULL: the old one stays */
    bool new_claim;             /* claim (NULL too) replaces the PMC's */
    struct claim *before;       /* what the PMC's claim held before it was released for that */
    struct plan_event *plan;    /* of set */
    struct user *user;          /* whose descriptors are booked (a reference), or NULL */
    struct user *share;         /* … and of which instance */
    unsigned long booked;       /* descriptors, until they are those of the links */
    unsigned long booked_links; /* links of the user, until they are the PMC's */
    unsigned long found;       /* processes held while they are looked at, among engine->fds_used */
    unsigned long fds_free;    /* what may be opened: ULONG_MAX no limit, 0 none */
    unsigned long fds_quota;   /* what max_fds_per_user leaves; ULONG_MAX: no limit */
    unsigned long fds_limit;   /* of the user, with what leaves; ULONG_MAX: none */
    unsigned long fds_half;    /* the same of half of all, with what watches the targets */
    unsigned long share_limit; /* of the instance, with what leaves; ULONG_MAX: none */
    enum {
        QUOTA_USER,
        QUOTA_HALF,
        QUOTA_SHARE
    } fds_whose;          /* which of them leaves fds_quota, the least */
    uint64_t cpus_serial; /* the engine's when this was planned */
    uint64_t attach_ns;   /* how long finding and attaching all targets may take */
    uint64_t deadline_ns; /* when that is over */
    unsigned max_covered;
    bool start, stop, read; /* what to do with the links that stay */
    bool again;             /* links are opened anew though nothing of them changed */
    struct cpus named,
        unnamed; /* CPUs attached already that are meant by name now, or are no more */
    bool start_fresh;
    struct link **fresh; /* to be attached */
    unsigned n_fresh;
    struct replaced {
        struct link *link;  /* leaves the vector */
        struct tally *last; /* absolute last reading */
        bool unread;        /* it could not be read: as last seen */
        struct link *ended; /* takes its place with the final count; NULL: its count is folded */
        bool dropped;       /* its count is dropped too */
        bool renewed;       /* its target is opened anew by another link */
        bool left;          /* it ended, and a privileged program had ended its observation */
        bool stopped;       /* by this change */
        struct link *successor; /* a fresh link that carries its count on (a CPU came back) */
    } * replaced;
    unsigned n_replaced;
    struct kept {
        struct link *link;
        struct tally *now;     /* absolute reading; NULL unless `read` */
        bool started, stopped; /* by this change */
    } * kept;
    unsigned n_kept;
    struct link *dead;       /* to be destroyed */
    struct proc *dead_procs; /* the same */
    struct claim *old_claim; /* to be released after its counters are closed */
    struct process *writer;  /* lifetime=owner: the writing process, until a proc takes it */
    struct proc *owner;      /* lifetime=owner: a reference */
    struct watching *watching;
    unsigned n_watching;
    struct verdict *verdicts;
    unsigned n_verdicts;
    struct links *links; /* the vector afterwards, still empty */
    struct tally *base;  /* of a new set */
    bool forget_ended;
    char *swap; /* what `put` replaced, as text */

    /* the log */
    struct pid_view *view;       /* PIDs as who makes the change knows them; NULL: as pmcfs does */
    struct sample_limits limits; /* of the system, when the change was prepared */
    struct sampling sampling;
    uint64_t set_number;
    unsigned recorded;               /* what the counters are to record */
    bool new_recording;              /* … into a recording that is made for them */
    bool drops_recording;            /* the PMC's is not wanted any more */
    bool drain;                      /* all that was recorded goes into the log */
    struct recording *recording;     /* the new one, until it is the PMC's */
    uint64_t recording_bytes;        /* charged for it until then */
    uint64_t *counted_before;        /* for it */
    struct recording *old_recording; /* to be freed after its counters */
    struct recording *held;          /* not drained until the commit */
    uint64_t started_ns;             /* before the first counter was started */
    struct buf inventory;            /* what was there at that moment, as records */
    bool recorded_outside;           /* the new recording's PIDs are of another namespace */
    unsigned n_fresh_planned;        /* links in `fresh`, also once they are the PMC's */
    int rc;
    struct err err;
    struct err note; /* said in `error` though the command worked */
    bool brief;      /* … and ends in the words of targets that were passed over */
};

/* Begin: answers CALL_WORK, CALL_WAIT when the PMC is busy, or an errno. */
int change_command(struct call *call, const char *file);
int change_verb(struct call *call, enum verb verb);
int change_put(struct call *call);
/* P29: its PMC is held through another descriptor (lifetime=open). */
int change_refuse_held(struct call *call);
/* A work for a PMC on the pending list, or NULL when there is nothing to do (or it is busy). */
struct work *change_pending(struct pmc *pmc);
/*
 * For a PMC that was taken off the tree: the work that frees what it held. NULL: a change under way
 * will do it.
 */
struct work *change_release(struct pmc *pmc);
/* If a target of the PMC is known to be dead: the work that ends the link. */
struct work *change_deaths(struct pmc *pmc);

/* Between two targets, without the lock: -EINTR, P26 or P13 when there is no use in going on. */
int change_goes_on(struct change *change);
/* A target has exited: what change->err says is kept for the note, with what others said; of many,
 * the word as it was written (empty: not known). */
void change_pass_over(struct change *change, struct word word);

/* change_check.c and the files of plan.h, with the lock: everything that can be refused. */
int change_check(struct change *change);
bool change_cpus_differ(const struct pmc *pmc);
/* The descriptors are booked, or given back: they are the links' now, or closed. */
void change_unbook(struct change *change);
const char *change_quota_name(const struct change *change); /* of the limit behind fds_quota */
int change_book_opened(struct change *change);              /* without the lock: P11 */
void use_descriptors(unsigned long *left, unsigned n);
/* One more process is held while it is looked at, perhaps to be taken back; without the lock: P10,
 * P11. */
int change_book_found(struct change *change, bool removes);
void change_unbook_found(struct change *change);
int change_refuse_system(struct change *change); /* -EPERM, and why */
void change_rows_back(struct change *change); /* the PMC's old claim, as far as still to be had */
/*
 * Kernel mode, whole CPUs, and what else the events of the plan need, with the rights of the
 * opener. Without the lock too: a new set is not shown to the system before.
 */
int change_rights(struct change *change);
int change_refuse_kernel(struct change *change, const char *event, const char *instead);
/* Behind the others (NULL: none), unless it is among them. P28, E32. No lock needed. */
int change_add_metric(char **words, struct word word, struct err *err);
/* Before anything is looked up: a word of the scope that the PMC cannot have (E22, E26). */
int change_words(struct change *change, struct err *err);
/* Which mode follows from what is asked and what is there. */
int change_effective(struct change *change);

/* change_record.c: what a change has to do with the log. The first five without the lock. */
int record_open(struct change *change);   /* the new recording, and room in the log */
void record_hold(struct change *change);  /* what starts is told before what it records */
void record_begun(struct change *change); /* started: what is there already */
void record_ended(struct change *change); /* stopped: what was recorded up to now */
void record_last_run(struct change *change);
void record_unhold(struct change *change);
struct opening change_opening(const struct change *change); /* how its fresh links are opened */
void commit_recording(struct change *change);
/* Into the log: what ends with the change (stops: the PMC does), and what begins (starts: a run
 * does); over: no covered process is left. */
void record_end(struct change *change, bool stops, bool over);
void record_begin(struct change *change, bool starts);
void record_last_end(struct change *change); /* of a PMC that was released */

/* change_apply.c: opening, starting, stopping, reading without the lock; the commit with it. */
void change_apply(struct change *change);
int change_stop(struct change *change); /* links that leave, and with `stop` all; they are read */
void change_commit(struct change *change);
void change_undo(struct change *change);        /* after a refusal or failure */
void change_release_now(struct change *change); /* takes everything off a released PMC */
void change_clean(struct change *change);       /* frees it, without the lock */
