/*
 * A request in the engine. An operation returns CALL_DONE, a negative errno, usually with a
 * sentence in call->err, or CALL_WAIT: the request waits and the operation runs again when
 * call->wait_for is woken. Parts of an operation may run without the engine's lock: see
 * lock_drop().
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/host.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PMCFS_VERSION   "0.3.0"
#define PMCFS_INTERFACE 3

#define NAME_LEN_MAX 255 /* of a PMC */

enum {
    CALL_DONE = 0,
    CALL_WAIT = 1
};

struct call;
struct engine;
struct instance;
struct pmc;
struct user;

/*
 * The state of an open file between requests. fs creates it zeroed and sets `opener` and
 * `instance`; open_file_start_charge() sets payer and rights. open_file_clear() frees its members
 * after open_file_release().
 */
struct open_file {
    struct rights *rights; /* the opener's rights (a reference) */
    struct opener opener;
    struct user *payer;   /* the charged user (a reference), or NULL */
    uint64_t charged;     /* charged bytes */
    uint64_t kept_bytes;  /* part of `charged`: texts that fs keeps for the reader */
    uid_t payer_uid;      /* charged uid; a later worker finds the user by it */
    bool cut;             /* a command was cut: all further writes are refused */
    bool has_commands;    /* a command was written here, accepted or refused */
    uint64_t started_set; /* pmc.sets_started after a write here named events; 0: none did */
    char *old_count;      /* values that the last write to count replaced, not read yet; owned */
    bool has_seen;        /* `seen_change` and `seen_count` are set */
    uint64_t seen_change; /* the object's change number at this descriptor's last read */
    uint64_t seen_count;  /* the count at that read (notify) */
    uint64_t seen_resets; /* pmc.resets at that read: if it has changed, seen_count is obsolete */
    uint64_t holds;       /* id of the PMC with lifetime=open that this file holds, or 0 */
    uint64_t instance;    /* id of the file's instance */
    struct series_cursor *series; /* owned; core/show/series.c */
    struct log_reader *reader;    /* owned; core/read/reader.c */
    uint64_t remembers;           /* approximate bytes of `series` and `reader` */
};

struct call {
    struct engine *engine;
    struct instance *instance; /* NULL: removed while the lock was dropped */
    struct pmc *pmc;           /* PMC of the file, or NULL; looked up whenever the lock is taken */
    uint64_t object;  /* tunable, slot (cpu << 16 | row), catalog id, instance of a limit */
    const char *file; /* name of the file, or its placeholder in files.c: "event", "TUNABLE" */
    const char *text; /* stores: the written bytes, valid until the reply */
    size_t len;
    struct open_file *open; /* NULL: the open file has no state */
    struct rights *rights;  /* of the opener of `open`, or else the requester; NULL: not needed */
    uid_t uid;              /* the requester's fs ids */
    gid_t gid;
    uid_t payer; /* uid whose quotas apply: of the open file, or the requester */
    pid_t tid;   /* the requesting thread in the daemon's PID namespace; 0: not visible */
    bool nonblock;
    bool append; /* written through a file opened with O_APPEND */
    uint64_t now_ns;
    struct buf *out;   /* shows and streams: text is appended */
    size_t room;       /* streams: size of the reader's buffer; more is kept for the next read */
    uint64_t wait_for; /* CALL_WAIT: id of the object */
    uint64_t wait_until_ns; /* CALL_WAIT: deadline; 0: none */
    bool empty;             /* the command had no words, so `error` of the PMC stays */
    bool committed;         /* the command has taken effect and must not run again */
    pid_t creator_pid;      /* mkdir: the requester's process, as host->caller_pid(); else 0 */
    uint64_t creator_key;   /* mkdir: its host->caller_key() */
    struct err err;         /* must be last: its text is not zeroed with the rest */
};

/* A name that the kernel must forget. */
struct gone_name {
    bool is_instance;
    bool vanished;     /* instance: removed without an rmdir */
    uint64_t instance; /* PMC: id of its instance */
    char name[256];
};

/* Statistics that fs counts for info/stats. Stored by number in the journal: append only. */
enum statistic {
    STAT_REQUESTS,
    STAT_WAITING,
    STAT_OPEN_FILES,
    STAT_WORKS,
    STAT_RELOADS,
    STAT_RESTARTS,
    STAT_COUNT
};

typedef int (*show_fn)(struct call *call); /* appends the complete text to call->out */
/* Returns an upper bound of the text's length. Must be cheap: reads no counter and uses only
 * engine, pmc and instance. */
typedef uint64_t (*bound_fn)(const struct call *call);
typedef int (*store_fn)(struct call *call); /* executes the complete command in call->text */
/* Appends available text for one request. CALL_DONE without text is end of file. */
typedef int (*stream_fn)(struct call *call);
/* Appends filler text for a read that has waited for the longest time allowed, engine.limit_ns.
 * Returns false if the stream's head was not sent yet. */
typedef bool (*filler_fn)(struct call *call);
typedef void (*begin_fn)(struct call *call);    /* called when the file is opened (call->open) */
typedef unsigned (*poll_fn)(struct call *call); /* returns EPOLLIN | EPOLLPRI | EPOLLHUP … */

/*
 * ---- slow parts ----
 *
 * Before a slow part (opening counters, reading /proc) an operation drops the engine's lock. If it
 * may take more than about 100 µs, its thread also gives up its serving slot, so that slow
 * requests never occupy all slots. In a slow part an operation uses only its own objects. After it
 * call->pmc and call->instance are looked up again and may be NULL.
 */

/* The functions of fs that slow_admit(), lock_drop(), lock_retake() and slow_interrupted() call
 * (engine->unlock). */
struct unlock_ops {
    int (*admit)(struct call *call);
    void (*leave)(struct call *call, bool gives_up_slot);
    void (*take)(struct call *call);
    bool (*interrupted)(struct call *call);
};

/*
 * Takes a slow slot for the request; their number is limited per user and in all. Returns 0: the
 * request has the slot until it is finished or waits. Returns CALL_WAIT: the operation must return
 * CALL_WAIT and runs again when a slot is free. Call before any change.
 */
int slow_admit(struct call *call);
/* Drops the lock until lock_retake(); gives_up_slot: also gives up the serving slot. */
void lock_drop(struct call *call, bool gives_up_slot);
void lock_retake(struct call *call);
/* Returns true if the caller no longer waits for the reply. May be called without the lock. */
bool slow_interrupted(struct call *call);
