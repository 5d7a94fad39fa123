/*
 * An instance: its PMCs by name, its limits, and the last error of each user. The root is instance
 * 0.
 */
#pragma once

#include "core/base/vec.h"
#include "core/users/users.h"

#define INSTANCES_MAX   4096
#define INSTANCE_ID_MAX ((UINT64_C(1) << 24) - 1) /* largest id in a node id */

/* Limits that the administrator sets for an instance; table in instance.c. Append only. */
enum limit {
    LIMIT_PMCS = USED_PMCS,
    LIMIT_FDS = USED_FDS,
    LIMIT_LOG = USED_BYTES,
    LIMIT_SYSTEM,
    LIMIT_KERNEL,
    LIMIT_LIFETIME, /* 1: the instance ends with a PID namespace */
    LIMITS
};
struct limit_row {
    const char *name;
    const char *words[2]; /* the words for 0 and 1; NULL: a number */
    uint64_t max;
};
extern const struct limit_row limit_table[LIMITS];
uint64_t limit_max(enum limit limit);
/* Reads a value of the limit. Returns 0, or P27 with the values that are allowed. */
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
    uint64_t limit[LIMITS];    /* 0: no limit, for numbers */
    struct user *share;        /* its account; NULL: the root */
    struct proc *holder;       /* process with which it ends (a reference), or NULL */
    LIST_ENTRY(instance) held; /* on holder->held */
    struct totals work;
    struct work work_name; /* once removed: the kernel forgets the name */
    bool vanished;         /* removed by pmcfs */
    struct ids pmcs;
    struct pmc **by_name; /* sorted by name */
    size_t n, size;
    struct last_error { /* by uid; the oldest is dropped above a limit */
        uid_t uid;
        uint64_t when;
        char *line;
    } * errors;
    size_t n_errors;
    uint64_t bound,
        bound_at; /* cached bound of its tables (bound_counts()), valid at engine->touches */
};

struct instance *instance_new(struct engine *engine, uint64_t id);
/* Creates an instance below the root and copies the name. Returns NULL on ENOMEM. */
struct instance *instance_make(struct engine *engine, uint64_t id, const char *name);
void instance_set_limit(struct instance *instance, enum limit limit, uint64_t value);
void instance_free(struct instance *instance); /* asserts that it has no PMCs */
/* Notes a change: the record is written before the lock is dropped. */
static inline void instance_touch(const struct instance *instance)
{
    if (instance->id)
        engine_touch(instance->engine, JOURNAL_INSTANCE, instance->id);
}
static inline bool instance_is_root(const struct instance *instance)
{
    return instance->id == 0;
}
struct instance *instance_by_name(struct engine *engine, const char *name); /* not the root */
/* Binds the instance to a process and takes over the caller's reference. */
void instance_hold(struct instance *instance, struct proc *proc);
void instance_let_go(struct instance *instance); /* unbinds it */
/* Removes the instance with all its PMCs. vanishes: the kernel must be notified. */
void instance_release(struct instance *instance, bool vanishes);
struct pmc *instance_find(const struct instance *instance, const char *name);
bool instance_add(struct instance *instance, struct pmc *pmc);
void instance_remove(struct instance *instance, struct pmc *pmc);
void instance_set_error(struct instance *instance, uid_t uid, uint64_t now_ns, const char *line);
const char *instance_error(const struct instance *instance, uid_t uid); /* "ok" if there is none */
/* Return true if the rights allow, through this instance: counting kernel mode; system scope. */
bool access_kernel(const struct instance *instance, const struct rights *rights);
bool access_system(const struct instance *instance, const struct rights *rights);
