/*
 * An instance: PMCs by name, what those inside may have, and the last sentence of each user. The
 * root is instance 0. And users: what each has, of all instances.
 */
#pragma once

#include "core/pmc/parts.h"

#define INSTANCES_MAX   4096
#define INSTANCE_ID_MAX ((UINT64_C(1) << 24) - 1) /* what node ids have room for */

/* What the administrator sets for an instance: the table is in core/instance.c. */
enum limit {
    LIMIT_PMCS,
    LIMIT_FDS,
    LIMIT_LOG,
    LIMIT_SYSTEM,
    LIMIT_KERNEL,
    LIMIT_LIFETIME, /* 1: that of a PID namespace */
    LIMITS
};
struct limit_row {
    const char *name;
    const char *words[2]; /* of which it is one, as 0 and 1; NULL: a number */
    uint64_t max;
};
extern const struct limit_row limit_table[LIMITS];
uint64_t limit_max(enum limit limit);

struct instance {
    struct engine *engine;
    uint64_t id;
    char *name; /* NULL: the root */
    uid_t uid;
    gid_t gid;
    mode_t mode;                  /* with the sticky bit */
    uint64_t made_ns, changed_ns; /* CLOCK_REALTIME */
    uint64_t limit[LIMITS];       /* of a number 0: none of its own */
    struct user *share;           /* what it has of all; NULL: the root */
    struct proc *holder;          /* it ends with this process (a reference); or NULL */
    struct instance *next_held;   /* on holder->held */
    struct work work;
    struct instance *next_removed;
    bool vanished; /* pmcfs itself removed it */
    struct ids pmcs;
    struct pmc **by_name; /* sorted by name */
    size_t n, size;
    struct last_error { /* by uid; the oldest is dropped beyond a bound */
        uid_t uid;
        uint64_t when;
        char *line;
    } * errors;
    size_t n_errors;
};

struct instance *instance_new(struct engine *engine, uint64_t id);
/* One that is not the root; the name is copied. NULL: no memory. */
struct instance *instance_make(struct engine *engine, uint64_t id, const char *name);
void instance_free(struct instance *instance); /* asserts that it has no PMC */
/* It changed: its record is put before the lock is dropped. */
static inline void instance_touch(const struct instance *instance)
{
    if (instance->id)
        engine_touch(instance->engine, JOURNAL_INSTANCE, instance->id);
}
static inline bool instance_is_root(const struct instance *instance)
{
    return instance->id == 0;
}
struct instance *instance_by_name(const struct engine *engine, const char *name); /* not the root */
/* Its life ends with that of the process: takes a reference that the caller has. */
void instance_hold(struct instance *instance, struct proc *proc);
void instance_let_go(struct instance *instance); /* nobody's any more */
/* Off the tree with all its PMCs; vanishes: the kernel does not know it yet. */
void instance_release(struct instance *instance, bool vanishes);
struct pmc *instance_find(const struct instance *instance, const char *name);
bool instance_add(struct instance *instance, struct pmc *pmc);
void instance_remove(struct instance *instance, struct pmc *pmc);
void instance_set_error(struct instance *instance, uid_t uid, uint64_t now_ns, const char *line);
const char *instance_error(const struct instance *instance, uid_t uid); /* "ok" without one */

/* Lives as long as a PMC of his, or a change of one. Or not a user, but what an instance has. */
struct user {
    struct user *next;
    uid_t uid;
    uint64_t instance; /* whose share this is; 0: a user's */
    unsigned refs;
    unsigned pmcs;               /* on the tree */
    unsigned opens;              /* open files that pmcfs remembers something for */
    bool draining;               /* a task drains PMCs of this user */
    _Atomic unsigned long fds;   /* descriptors of links, as accounted and booked */
    _Atomic unsigned long links; /* links that have some, the same */
    _Atomic uint64_t log;        /* bytes of his logs and their buffers; lives on while there are */
};
struct user *user_find(const struct engine *engine, uid_t uid); /* NULL: he has nothing */
struct user *user_get(struct engine *engine, uid_t uid);        /* a reference; NULL: no memory */
struct user *user_ref(struct user *user);                       /* NULL allowed */
void user_unref(struct engine *engine, struct user *user);      /* NULL allowed */
void users_free(
    struct engine *engine); /* of whom there were only logs; those that still are stay */

/*
 * What one PMC's log takes of its user's max_log_per_user and its instance's max_log: memory of
 * records, and the locked memory they come from. Logs may outlive their PMC; they ask here from any
 * thread.
 */
struct account;
/* instance NULL, or the root: the user's alone. NULL: no memory. */
struct account *account_new(struct user *user, uint64_t limit, const struct instance *instance);
/*
 * The same for an open file: beyond what logs may take there is 16 MiB for each user, and a quarter
 * more (and 64 KiB) for an instance, so that a log that has filled its limit can still be read.
 */
struct account *account_new_open(struct user *user, uint64_t limit,
                                 const struct instance *instance);
/* "max_log_per_user (…)", or the instance's max_log if that refused the last charge. */
void account_print_limit(const struct account *account, struct buf *out);
/* "max_log_per_user", or "max_log" if that refused the last charge. */
const char *account_limit_name(const struct account *account);
/* For log_set_charge(): bytes more (or less); false: more than the user may have. */
bool account_charge(void *account, int64_t bytes);
void account_add(struct account *account, int64_t bytes); /* the same, without a question */
void account_move(struct account *account, struct user *to);
/* No PMC has it any more: it ends with its last byte. NULL allowed. */
void account_end(struct account *account);
