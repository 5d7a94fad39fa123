/*
 * The parts of the engine, as the modules below engine.c see them: the machine, the counters, rows,
 * objects by serial, statistics, and the queues of what is to be done after the lock is dropped.
 */
#pragma once

#include "core/backend.h"
#include "core/base/catalog.h"
#include "core/base/ids.h"
#include "core/base/journal.h"
#include "core/call.h"
#include "core/host.h"
#include "core/log/log.h"
#include "core/pmc/tunable.h"
#include "core/rows/row.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define USER_BUCKETS 256 /* a power of two */

#define FDS_KEPT 64 /* descriptors left for the daemon itself */

/* What was done so far, in all or for an instance. */
struct work {
    uint64_t operations, failed; /* hwpmc's syscalls and syscall_errors */
    uint64_t attaches, raced;
    uint64_t drained;          /* drains that found something: hwpmc's log_sweeps */
    struct log_stats released; /* sums of the logs that are gone */
};

struct engine {
    const struct unlock_ops *unlock; /* or NULL */
    const struct host *host;
    struct host_state *host_state;
    const struct backend *backend;
    struct backend_state *backend_state;
    const struct class_info *classes;
    unsigned n_classes;
    struct tunables tunables;
    struct rows *rows;
    struct cpus possible, online; /* online as last told */
    struct cpus news,
        news_went;        /* CPUs that moved (and those that went), to be told to the backend */
    uint64_t cpus_serial; /* grows with every CPU that comes or goes */
    char *machine;        /* the name of its processor */
    uint64_t next_serial, kept_serial; /* a later worker begins with the second */
    struct ids pmcs;                   /* of all instances */
    struct ids procs;                  /* watched processes */
    struct ids links;                  /* by tag, for sink.gone() */
    struct ids rights;                 /* that are kept */
    struct rights *dead_rights;        /* to be freed behind the next record */
    struct proc *proc_by_key, *proc_by_pid; /* tables: core/pmc/target.h */
    LIST_HEAD(, link) spreading;       /* links whose events are inherited: link_spread() */
    struct set *sets;                  /* of all PMCs, a table: core/pmc/pmc.h */
    struct user *users[USER_BUCKETS];
    struct instance *root;
    struct ids instances;     /* all others */
    struct instance *instance_names; /* a hash table of the same, by name */
    uint64_t next_instance;   /* their serials: never 0, never the same again */
    struct instance *removed; /* of which the kernel is to be told after the lock */
    struct proc *dead_procs;  /* to be destroyed without the lock */
    uint64_t limit_ns; /* an attach takes no longer, whatever attach_ms is; 0: no limit */
    struct catalog catalog;
    bool has_catalog, loads_catalog; /* it is there; a request compares it with the machine */
    uint64_t catalog_mark; /* backend.look() when it was made; 0: not known */
    bool (*reserved)(const char *name);
    uint64_t stats[STAT_COUNT];
    struct work work;
    struct pmc *told, **told_end; /* PMCs of which something is to be told after the lock */
    LIST_HEAD(, pmc) pending;     /* PMCs with something to do for the engine's own tasks */
    struct link *dead;            /* links to be destroyed without the lock */
    uint64_t retry_ns;            /* when those of them that were refused are tried; 0: none */
    LIST_HEAD(, pmc) recorders;   /* PMCs that run and record */
    struct pmc *drains;           /* those to be drained (references) */
    bool follow_asked, following; /* the backend wants, has a task that follows processes */
    uint64_t drain_due_ns;        /* the next tick of all recorders */
    uint64_t request; /* the one that is done: its number; 0: none, or it cannot be done again */
    struct journal *journal; /* NULL: nothing is put, as while it is loaded */
    struct touches {         /* objects that are to put their records (core/journal/keep.c) */
        struct touched {
            enum journal_kind kind;
            uint64_t id;
        } * items;
        uint32_t *slots; /* a hash table: index of the item plus 1; 0: empty */
        size_t n, n_slots;
    } touched;
    bool touch_failed;      /* something was not remembered, or did not fit: all is put anew */
    struct ids loaded;      /* logs by their block, until all their holders are loaded */
    uint64_t touches;               /* grows with each change of a PMC or an instance */
    unsigned n_polled;      /* PMCs that are polled */
    uint64_t poll_due_ns;   /* when to look at them next */
    bool polling;           /* such a look is under way */
    bool poll_asked;        /* a look at those with `poll_asked` is wanted */
    gid_t readers;          /* group of the tunable readers, or -1 */
    unsigned long fd_limit; /* RLIMIT_NOFILE */
    _Atomic unsigned long fds_used; /* by counters, processes and guards, as accounted and booked */
    bool forgetting;                /* descriptors stay open for a later worker */
};

/* It changed: its record is put before the lock is dropped. */
void engine_touch(struct engine *engine, enum journal_kind kind, uint64_t id);
void engine_touched_clear(struct engine *engine); /* their records are put */

#define SERIALS 65536 /* kept for this worker at once: a later one begins behind them */

/* Never 0, never the same again. */
static inline uint64_t engine_serial(struct engine *engine)
{
    if (engine->next_serial >= engine->kept_serial) {
        engine->kept_serial = engine->next_serial + SERIALS;
        engine_touch(engine, JOURNAL_ENGINE, 0);
    }
    return engine->next_serial++;
}

void engine_wake(struct engine *engine, uint64_t pmc_id);
