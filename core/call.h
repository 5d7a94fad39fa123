/*
 * One request on its way through the engine. Every operation ends in one of three ways: CALL_DONE,
 * a negative errno (the sentence in call->err), or CALL_WAIT (park the request, run the operation
 * again when the object is woken). Parts of it may run without the engine's lock: core/slow.h.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/host.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PMCFS_VERSION   "0.2.0"
#define PMCFS_INTERFACE 2

#define NAME_LEN_MAX 128 /* of a PMC */

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
 * What one open file remembers between requests. Made by fs (zeroed, then rights), used by core,
 * dropped with open_file_clear() after engine_release().
 */
struct open_file {
    struct rights *rights; /* of the opener (a reference) */
    struct opener opener;
    struct user *payer;    /* the one that is charged (a reference); NULL: nothing is */
    uint64_t charged;        /* bytes */
    uint64_t kept_bytes;     /* of them, texts that fs keeps for the reader: open_file_keep() */
    uid_t payer_uid;         /* for a later worker */
    bool cut;              /* a command was: everything else written here is refused */
    uint64_t began;        /* the PMC's number of the set that was begun here; 0: none */
    bool swapped;          /* swap holds what the last write to count replaced */
    char *swap;            /* owned, NUL-terminated */
    bool has_seen;         /* `seen_change` and `seen_count` are set */
    uint64_t seen_change;  /* the object's change number at this descriptor's last read */
    uint64_t seen_count;   /* the count then (notify) */
    uint64_t seen_resets;  /* the PMC's resets then: seen_count is of another count otherwise */
    uint64_t holds;        /* PMC serial of lifetime=open, or 0 */
    uint64_t instance;     /* of the file */
    struct series_cursor *series; /* owned; core/show/series.c */
    struct log_reader *reader;    /* owned; core/read/reader.c */
    uint64_t remembers;           /* bytes that these take, about */
};

struct call {
    struct engine *engine;
    struct instance *instance; /* NULL: removed while this call ran without the lock */
    struct pmc *pmc;  /* the PMC that the file is of, or NULL; looked up as the lock is taken */
    uint64_t index;   /* tunable, slot (cpu << 16 | row), catalog id */
    const char *file; /* the file's name, for sentences: "event" */
    const char *text; /* stores: the bytes written (valid until the reply) */
    size_t len;
    struct open_file *open; /* NULL: this descriptor remembers nothing */
    struct rights *rights; /* the opener's; NULL where the files table does not ask for them */
    uid_t uid;   /* the requester's fs ids */
    gid_t gid;
    uid_t payer; /* quotas are those of this uid: of the open file, else the requester's */
    pid_t tid; /* the requesting thread in the daemon's PID namespace; 0: not visible */
    bool nonblock;
    bool append; /* written through a file opened with O_APPEND */
    uint64_t now_ns;
    struct buf *out; /* shows and streams: text is appended */
    size_t room;     /* streams: bytes that the reader takes; what is more is kept for it */
    uint64_t wait_for;      /* CALL_WAIT: the id */
    uint64_t wait_until_ns; /* CALL_WAIT: run again at the latest then; 0: no limit */
    bool committed;         /* what was asked is so: once it is published it is not done again */
    pid_t maker;        /* mkdir: the requester's process, as host->caller_pid(); else 0 */
    uint64_t maker_key; /* mkdir: its host->caller_key() */
    struct err err;     /* the last: a sentence is not zeroed with the rest */
};

/* What the engine wants done after its lock is dropped. */
enum effect_kind {
    EFFECT_WAKE,    /* run parked requests waiting for id again; tell its pollers */
    EFFECT_REMOVED, /* a PMC was released by pmcfs itself: entry `name` of instance id is gone */
    EFFECT_INSTANCE /* instance `name` is gone; id 1: by pmcfs itself, 0: by rmdir */
};
struct effect {
    enum effect_kind kind;
    uint64_t id;
    char name[256];
};

/* What fs counts for info/stats. The journal has them by number: a new one comes last. */
enum statistic {
    STAT_REQUESTS,
    STAT_PARKED,
    STAT_OPEN_FILES,
    STAT_WORKS,
    STAT_RELOADS,
    STAT_RESTARTS,
    STAT_COUNT
};

typedef int (*show_fn)(struct call *call); /* appends the whole text to call->out */
/* Of engine, pmc and instance alone: the text is not longer. Cheap: no look at any counter. */
typedef uint64_t (*bound_fn)(const struct call *call);
typedef int (*store_fn)(struct call *call); /* one complete command in call->text */
/* Appends what there is, at most one request's worth; nothing and CALL_DONE is end of file. */
typedef int (*stream_fn)(struct call *call);
/* Appends text that means nothing to a reader of the stream: what a read is given that has waited
 * for as long as it may. False: not before the stream's head. */
typedef bool (*idle_fn)(struct call *call);
typedef void (*begin_fn)(struct call *call);    /* such a file was opened (call->open) */
typedef unsigned (*poll_fn)(struct call *call); /* the level: EPOLLIN | EPOLLPRI | EPOLLHUP … */
