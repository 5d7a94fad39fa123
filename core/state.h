/*
 * struct engine, for the modules of core: host and backend, rows, objects by serial, statistics,
 * and queues of deferred work.
 */
#pragma once

#include "core/backend.h"
#include "core/base/event.h"
#include "core/base/journal.h"
#include "core/base/vec.h"
#include "core/call.h"
#include "core/host.h"
#include "core/log/log.h"
#include "core/pmc/tunable.h"
#include "core/rows/row.h"
#include "core/work.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define USER_BUCKETS 256 /* a power of two */

#define FDS_RESERVED 64 /* descriptors reserved for the daemon */

/* Statistics in all, or of an instance. */
struct totals {
    uint64_t saved_ns;              /* when engine_note_result() last saved them */
    uint64_t operations, failed;    /* hwpmc's syscalls and syscall_errors */
    uint64_t attaches, raced;       /* raced: attaches during which a thread may have been missed */
    uint64_t drains;                /* drains that found records: hwpmc's log_sweeps */
    struct log_stats released_logs; /* sums of released logs */
};

struct engine {
    const struct unlock_ops *unlock; /* set by fs; NULL: the lock is kept */
    const struct host *host;
    struct host_state *host_state;
    const struct backend *backend;
    struct backend_state *backend_state;
    const struct class_info *classes;
    unsigned n_classes;
    struct tunables tunables;
    struct rows *rows;
    struct cpus possible, online;            /* online: as last reported */
    struct cpus cpus_changed, cpus_offlined; /* to report to the backend; offlined: went offline */
    uint64_t cpus_serial;                    /* incremented when a CPU goes online or offline */
    char *processor;                         /* name of the processor */
    uint64_t next_serial, kept_serial;       /* a later worker starts with kept_serial */
    struct ids pmcs;                         /* of all instances */
    struct ids procs;                        /* watched processes */
    struct ids links;                        /* by tag, for sink.counter_gone() */
    struct ids rights;                       /* shared rights */
    struct proc *proc_by_key, *proc_by_pid;  /* tables: core/pmc/target.h */
    LIST_HEAD(, link) spreading; /* links whose events descendants inherit; not the superuser's */
    struct set *sets;            /* hash table of shared sets */
    struct user *users[USER_BUCKETS];
    struct instance *root;
    struct ids instances;            /* all except the root */
    struct instance *instance_names; /* hash table by name */
    uint64_t next_instance;          /* next serial; never 0, never reused */
    uint64_t limit_ns; /* of a wait or an attach, by the kernel's timeout of requests; 0: none */
    struct catalog catalog;
    bool has_catalog, loads_catalog; /* loaded; a request is checking it */
    uint64_t catalog_mark;           /* backend.catalog_mark() before it was loaded */
    bool (*is_reserved_name)(
        const char *name);      /* returns true for names that no PMC may have; set by fs */
    uint64_t stats[STAT_COUNT]; /* counted by fs */
    struct totals totals;
    struct work_queue deferred[ENGINE_WORKS]; /* by kind; PMCs are references */
    uint64_t retry_ns;                        /* time to retry refused changes; 0: none */
    LIST_HEAD(, pmc) recording_pmcs;          /* running PMCs that record */
    bool sideband_due,
        draining_sideband;   /* backend.drain_sideband() must run; a task runs it now */
    uint64_t drain_due_ns;   /* next drain of all recorders */
    uint64_t request;        /* number of the running request; 0: none, or not repeatable */
    struct journal *journal; /* NULL: nothing is written, as during a load */
    struct touches {         /* objects whose records must be written (core/journal/keep.c) */
        struct touched {
            enum journal_kind kind;
            uint64_t id;
        } * items;
        uint32_t *table; /* hash table: index of the item plus 1; 0: empty */
        size_t n, table_size;
    } touched;
    bool touch_failed;              /* a record is missing: write a full snapshot */
    struct ids loaded_logs;         /* logs by block, while a state is loaded */
    uint64_t tree_changes;          /* incremented by each change of a PMC or instance */
    unsigned n_polled;              /* number of polled PMCs */
    uint64_t poll_due_ns;           /* time of the next snapshot for pollers */
    bool polling;                   /* a snapshot for pollers is running */
    gid_t readers;                  /* group of the tunable readers, or -1 */
    unsigned long fd_limit;         /* RLIMIT_NOFILE */
    _Atomic unsigned long fds_used; /* of counters, recordings, processes, guards and rights */
    bool forgetting;                /* descriptors stay open for a later worker */
};

/* Notes an object that was created, changed or freed: its record is written before the lock is
 * dropped. */
void engine_touch(struct engine *engine, enum journal_kind kind, uint64_t id);
void engine_touched_clear(struct engine *engine); /* after their records were written */

/* Queues work (core/work.h). Returns false if it is queued already. */
static inline bool engine_defer(struct engine *engine, struct work *work, enum work_kind kind)
{
    return work_add(&engine->deferred[kind], work, kind);
}

#define SERIALS 65536 /* serials reserved at once for this worker */

/* Returns a new serial; never 0, never reused. */
static inline uint64_t engine_serial(struct engine *engine)
{
    if (engine->next_serial >= engine->kept_serial) {
        engine->kept_serial = engine->next_serial + SERIALS;
        engine_touch(engine, JOURNAL_ENGINE, 0);
    }
    return engine->next_serial++;
}

/* Lets changes that wait for engine->retry_ns (pmc->waits_for_retry) run now. */
void changes_retry(struct engine *engine);
