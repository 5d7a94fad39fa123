/*
 * A request: from the FUSE operation through the engine to its reply. It runs in one thread, except
 * if it waits in between.
 */
#pragma once

#include "core/call.h"
#include "fs/requests/fs.h"
#include "fs/tree/node.h"

#include <fuse_lowlevel.h>

/* An operation. Functions are called in this order; all except `run` may be NULL. */
struct op {
    const char *file;     /* name in sentences; NULL: the name of its file */
    bool counted;         /* counts in statistics and last error */
    bool is_command;      /* a write */
    bool is_quiet;        /* reads and attributes: of failures only EIO is recorded */
    bool gone_ok;         /* run even if its PMC or instance is gone */
    bool has_text;        /* needs rq->text; ENOMEM if it is NULL */
    bool locks_directory; /* the kernel holds a directory's lock until the reply: never waits */
    int (*look)(struct request *rq); /* without the lock: reads rights, looks up groups */
    /* With the lock: copies the text again, which is freed while the request waits. Returns false
     * on ENOMEM. */
    bool (*text)(struct request *rq);
    /*
     * With the lock, except in its slow parts. Returns CALL_… or -errno. Runs again after a wait,
     * so it must leave nothing half done.
     */
    int (*run)(struct request *rq);
    int (*done)(struct request *rq);  /* with the lock, after run returned CALL_DONE */
    int (*reply)(struct request *rq); /* without the lock: sends the result; NULL: only success */
    void (*undo)(
        struct request *rq); /* without the lock, if the caller did not wait for the reply */
};

struct request {
    struct fs *fs;
    const struct op *op;
    fuse_req_t req;                    /* NULL: a task of the engine */
    struct inflight_request *inflight; /* its copy for a later worker; NULL: a task */
    bool answered;         /* the answer is stored with the change and sent at the end */
    bool unwanted;         /* the caller did not wait for the reply */
    struct node node;      /* its PMC is looked up before each run */
    bool gone;             /* its PMC or instance is gone; set before each run */
    bool counted;          /* op->counted, except for some opens */
    struct handle *handle; /* a reference, or NULL */
    struct rights *rights; /* rights read for this request; owned */
    struct opener opener;  /* set by an open for writing */
    bool reads_rights;     /* capabilities and groups are read before it runs */

    /* arguments and results; each operation uses some */
    uint64_t fh;
    off_t off;
    size_t size;
    int flags;          /* of fuse_file_info */
    bool remembers;     /* open: the handle stores state from the start */
    bool was_open;      /* open: an earlier worker may have answered it */
    bool plus;          /* readdirplus */
    char *text, *text2; /* owned: bytes written, names */
    int to_set;
    struct node found;
    uint64_t poll_number; /* the kernel's number of the poller; 0: nobody sleeps */
    bool by_uring;        /* poll: by io_uring itself */
    unsigned revents;
    const char *slice; /* data of the reply */
    size_t slice_len;

    /* the life of the request */
    bool ran;     /* has run at least once */
    bool charged; /* counts among the waiting requests of `payer` */
    uid_t payer;
    struct user *keeper; /* user charged for kept_bytes while it waits, or NULL */
    uint64_t kept_bytes;
    int no_group;                    /* write to `readers`: error of the look-up, or 0 */
    gid_t group;                     /* write to `readers`: the group */
    bool away;                       /* has dropped the lock and is not finished: fs->away */
    bool slow;                       /* has a slow slot */
    bool slow_superuser;             /* uses, or waits for, the superuser's slot */
    uid_t slow_payer;                /* user of the slow slot */
    LIST_ENTRY(request) slow_entry;  /* while slow */
    TAILQ_ENTRY(request) wait_entry; /* while waiting or ready */
    struct buf out;
    struct call call;

    /* members from here on are not zeroed */
    struct fuse_entry_param entry; /* also for attributes without an entry */
    struct statvfs statvfs;
    char label[32];
    char storage[4096]; /* first block of out */
};

/* Creates a zeroed request; NULL on ENOMEM. Each thread keeps one for reuse. */
struct request *request_new(struct fs *fs, const struct op *op, fuse_req_t req);
void request_free(struct request *rq);
/* Frees the thread's kept request before the thread exits. */
void request_thread_end(void);

/* Processes a request until the reply, or until it waits. */
void request_dispatch(struct request *rq);
/* Returns the longest time for which a request may wait, a third of the kernel's timeout; 0: no
 * limit. */
uint64_t request_limit_ns(const struct fs *fs);
/* Refuses a request whose PMC or instance is gone (P26). */
int request_refuse_gone(struct request *rq);
/*
 * Needs the lock. Creates a handle for the open file of rq, if it has none, which stores what was
 * read. Returns 0, P11 or E32.
 */
int request_remembers(struct request *rq);
/* For threads without a slot: run a ready request, or a task of the engine. Called with the lock
 * and return without it; if there is none, return false and keep the lock. */
bool fs_run_ready(struct fs *fs);
bool fs_run_task(struct fs *fs);
/*
 * Runs `task` in the root, without a request of the kernel. Called with the lock. Returns true
 * without the lock; or false with it, if task returned false or on ENOMEM.
 */
bool fs_run(struct fs *fs, bool (*task)(struct call *call, void *arg), void *arg);
/* The functions by which the engine drops and retakes the lock. */
extern const struct unlock_ops fs_unlock_ops;
/* Finishes a request that was removed from its queue. Called with the lock, returns without it. */
void request_end(struct request *rq, int rc);

/* Takes the lock. Waits while a reload is running. */
void fs_lock(struct fs *fs);
void fs_unlock(struct fs *fs);
/* Puts and publishes all changes. Returns false if something did not fit into the journal. */
bool fs_record(struct fs *fs);
/* Needs the lock. Wakes the requests and pollers of woken PMCs, and the main loop if its deadline
 * changed. */
void fs_drain(struct fs *fs);
/* Needs the lock. Returns the time at which the main loop must wake; UINT64_MAX: never. */
uint64_t fs_deadline(const struct fs *fs);
