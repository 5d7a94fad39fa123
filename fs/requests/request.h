/*
 * One request on its way: from a FUSE operation to its reply, through the engine. All of it runs in
 * one thread, unless it is parked.
 */
#pragma once

#include "core/call.h"
#include "fs/requests/fs.h"
#include "fs/tree/node.h"

#include <fuse_lowlevel.h>

/* What an operation needs. In the order in which they are called; all but `run` may be NULL. */
struct op {
    const char *file; /* its name in sentences; NULL: that of its file */
    bool counted;     /* an operation of the user's: statistics and last error */
    bool is_command;  /* a write */
    bool is_quiet;    /* reads and attributes: failures are not recorded, but for EIO */
    bool gone_ok;     /* run also when what it is of is gone */
    bool has_text;    /* none is there: no memory */
    bool locks_directory; /* the kernel holds a directory's lock until the reply: never waits */
    int (*look)(struct request *rq); /* without the lock: at the requester, the slow data bases */
    /* With the lock: the text again, which is freed while the request waits. False: no memory. */
    bool (*text)(struct request *rq);
    /*
     * With the lock, but for its slow parts; CALL_… or -errno. Run again after a wait, so it must
     * not keep half-done things.
     */
    int (*run)(struct request *rq);
    int (*done)(struct request *rq);  /* with the lock, once run ended in CALL_DONE */
    int (*reply)(struct request *rq); /* without the lock: what succeeded; NULL: nothing but that */
    void (*undo)(struct request *rq); /* without the lock: the caller did not wait for the answer */
};

struct request {
    struct fs *fs;
    const struct op *op;
    fuse_req_t req;        /* NULL: a task of the engine's own */
    struct in_hand *hand;  /* what a later worker has of it; NULL: a task */
    bool answered;         /* with what has changed; it is sent when it is over */
    bool unwanted;         /* the caller did not wait for the answer */
    struct node node;      /* its PMC is looked up before each run */
    bool gone;             /* its PMC was released, or its instance; looked at before each run */
    bool counted;          /* as the operation says, but of an open */
    struct handle *handle; /* a reference, or NULL */
    struct rights *rights; /* captured for this request alone; owned */
    struct opener opener;  /* of an open for writing */
    bool reads_rights;     /* the rest of them, before it is run */

    /* arguments and results, as the operation needs them */
    uint64_t fh;
    off_t off;
    size_t size;
    int flags;          /* of fuse_file_info */
    bool remembers;     /* open: from the beginning */
    bool was_open;      /* open: an earlier worker may have answered, and had nothing to keep */
    bool plus;          /* readdirplus */
    char *text, *text2; /* owned: bytes written, names */
    int to_set;
    struct node found;
    uint64_t poll_number; /* the kernel's, of its poller; 0: none sleeps */
    bool by_uring;        /* poll: io_uring's own */
    unsigned revents;
    const char *slice; /* of the reply */
    size_t slice_len;

    /* the life of the request */
    bool ran;                        /* once at least */
    bool charged;                    /* counted among the waiting requests of … */
    uid_t payer;                     /* … this user */
    struct user *keeper;             /* is charged for kept_bytes while it waits; or NULL */
    uint64_t kept_bytes;
    int no_group;                    /* what is written to `readers` is none: -ENOENT, -ENOMEM */
    gid_t group;                     /* … or this one */
    bool away;                       /* it let go of the lock and is not over: fs->away */
    bool slow;                       /* has a slot of slow.c */
    bool slow_superuser;             /* which is, or would be, the superuser's */
    uid_t slow_payer;                /* or this user's */
    LIST_ENTRY(request) slow_entry;  /* while slow */
    TAILQ_ENTRY(request) park_entry; /* parked or ready */
    struct buf out;
    struct call call;

    /* not zeroed, from the sentence of the call on */
    struct fuse_entry_param entry; /* its attributes: of all operations with some */
    struct statvfs statvfs;
    char label[32];
    char storage[4096]; /* first block of out */
};

/* Zeroed; NULL: no memory. One is kept per thread. */
struct request *request_new(struct fs *fs, const struct op *op, fuse_req_t req);
void request_free(struct request *rq);
/* Before a thread ends. */
void request_thread_end(void);

/* Look, take the lock, run, and do what is to be done until the reply, or until it is parked. */
void request_dispatch(struct request *rq);
/* A request is answered after waiting for so long, a third of the kernel's timeout; 0: no limit. */
uint64_t request_limit_ns(const struct fs *fs);
/* What a request is told when its PMC or instance is gone. */
int request_refuse_gone(struct request *rq);
/*
 * With the lock: the open file of rq gets a row, if it has none: from now on it remembers what it
 * has read. 0; or P11, E32.
 */
int request_remembers(struct request *rq);
/* Entered with the lock, leave without: what a thread does that has no seat. False, and the lock is
 * kept: there is none. A request that was parked and woken; a task of the engine's own. */
bool fs_run_ready(struct fs *fs);
bool fs_run_task(struct fs *fs);
/* How the engine's calls let go of the lock. */
extern const struct seat fs_seat;
/* One that was parked, taken off (with the lock; returns without): ends it with rc. */
void request_end(struct request *rq, int rc);

/* Waits while a reload is under way. */
void fs_lock(struct fs *fs);
void fs_unlock(struct fs *fs);
/* What has changed is put, and published. False: something did not fit. */
bool fs_record(struct fs *fs);
/* With the lock: pass on what the engine wants done, and wake main if it has to look. */
void fs_drain(struct fs *fs);
/* With the lock: when main has to look next; UINT64_MAX: not by itself. */
uint64_t fs_deadline(const struct fs *fs);
