/*
 * The mount (struct fs), and a request: from the FUSE operation through the engine to its reply.
 * One thread runs a request until the reply; after a wait another thread may run it again.
 */
#pragma once

#include "core/call.h"
#include "core/engine.h"
#include "fs/requests/handle.h"
#include "fs/requests/inflight.h"
#include "fs/requests/wait.h"
#include "fs/tree/node.h"

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>

#define WRITE_MAX       (128u << 10) /* the longest command */
#define WAIT_PART       3 /* a request waits at most for a third of the kernel's timeout */
#define TRIM_AFTER_NS   1000000000
#define TRIM_TEXT_BYTES 65536 /* a longer text leaves free memory that is worth trimming */

struct loop_state;
struct serve;

/*
 * The state of the mount: the engine with its lock, host and backend, open files, waiting requests
 * and threads. There is one; operations find it by fuse_req_userdata().
 */
struct fs {
    pthread_mutex_t lock;   /* the engine's lock; protects all members unless noted */
    pthread_cond_t changed; /* `n_unlocked` became 0, or `reloading` false */
    struct tree tree;
    unsigned n_unlocked;   /* requests that have dropped the lock, until they finish or wait */
    bool reloading;        /* a reload is running: fs_lock() waits */
    atomic_uint n_freeing; /* threads in fs_unlock() that free closed files and texts */
    struct handle *handles;
    struct unpublished unpublished;
    bool publishes_answer; /* the next publication validates an answer */
    struct wait_queues queues;
    uint64_t armed_ns; /* next time at which the main loop wakes */
    uint64_t trim_ns;  /* when the main loop returns free memory to the kernel; UINT64_MAX: never */
    bool attributes_stale; /* the main loop must invalidate the root's and all PMCs' attributes */
    bool conf_stale;       /* a thread without a slot must reread the configuration */

    /* set before the first thread starts */
    const struct host *host;
    struct host_state *host_state;
    const struct backend *backend;
    struct backend_state *backend_state;
    struct sink sink; /* passed to host and backend */
    struct loop_state *loop;
    void (*reread_conf)(struct fs *fs); /* rereads the configuration, without the lock */
    struct serve *serve;
    struct inflight *inflight;
    bool is_notifying; /* a thread sends notifications about names; changes with the lock */
    int notify_fd;     /* socket of loop_start_notifier(), used while is_notifying; -1: none */

    atomic_bool stopping; /* the mount stops: requests must not wait */
    atomic_bool initialised;
    atomic_bool had_readers; /* there was a group `readers`: the kernel may have cached its bits */
};

/* Takes the lock. Waits while a reload is running. */
void fs_lock(struct fs *fs);
/* Publishes changes for a later worker, then drops the lock and frees closed files and texts. */
void fs_unlock(struct fs *fs);
/* Writes and publishes all changes. Returns false if something did not fit into the journal. Needs
 * the lock. */
bool fs_publish(struct fs *fs);
/* Needs the lock. Wakes the requests and pollers of woken PMCs, a thread if there is work for it,
 * and the main loop if its deadline is earlier now or attributes are stale. */
void fs_wake(struct fs *fs);
/*
 * Runs `task` with a call on the root instance, without a request of the kernel. Called with the
 * lock. Returns true without the lock; or false with it, if task returned false or on ENOMEM.
 */
bool fs_run_task(struct fs *fs, bool (*task)(struct call *call, void *arg), void *arg);
/* The functions by which the engine drops and retakes the lock. */
extern const struct unlock_ops fs_unlock_ops;

/* ---- requests ---- */

/* The reply of a successful operation. */
enum reply {
    REPLY_CODE,  /* 0 */
    REPLY_ENTRY, /* rq->entry */
    REPLY_ATTR,  /* rq->entry.attr */
    REPLY_BYTES, /* rq->slice */
    REPLY_OPEN,  /* rq->fh */
    REPLY_WRITE, /* rq->size */
    REPLY_POLL
};

/* An operation. Functions are called in this order; `done` and `undo` may be NULL. */
struct op {
    bool counted;         /* counts in statistics and last error */
    bool is_command;      /* a write */
    bool is_quiet;        /* reads and attributes: of failures only EIO and EDQUOT are recorded */
    bool runs_if_gone;    /* run even if its PMC or instance is gone */
    bool has_text;        /* needs rq->text; ENOMEM if it is NULL */
    bool locks_directory; /* the kernel holds a directory's lock until the reply: never waits */
    enum reply reply;
    /*
     * With the lock, except in its slow parts. Returns CALL_… or -errno. Runs again after a wait,
     * so it must leave nothing half done.
     */
    int (*run)(struct request *rq);
    /* With the lock: after run returned CALL_DONE, or earlier, when run drops the lock with
     * call->committed set. Called once. Returns the result of the request. */
    int (*done)(struct request *rq);
    void (*undo)(struct request *rq); /* without the lock: the caller did not wait for the reply */
};

struct request {
    struct fs *fs;
    const struct op *op;
    fuse_req_t req;                    /* NULL: a task of the engine */
    struct inflight_request *inflight; /* its copy for a later worker; NULL: a task */
    bool counted;                      /* op->counted, except for some opens and setattrs */
    struct node node;                  /* its PMC is looked up before each run */
    const char *verb;       /* "mkdir" …, for info/last_error; NULL: a file's operation */
    bool gone;              /* its PMC or instance is gone; set whenever the lock is taken */
    uint64_t fh;            /* of the open file; 0: none */
    struct handle *handle;  /* its handle (a reference), or NULL */
    struct rights *rights;  /* rights read for this request; owned */
    bool rights_incomplete; /* caller_read_rest() is called before it runs */

    /* arguments and results of the operation */
    char *text; /* owned: names, a command, or the entries of a directory */
    size_t size;
    off_t off;
    const char *slice; /* data of the reply */
    size_t slice_len;
    union {
        struct node found;      /* lookup, mkdir, listing: the entry */
        struct node new_parent; /* rename */
        struct node stale;      /* with `invalidates`: the kernel must forget its attributes before
                                 * a successful reply */
    };
    bool invalidates;
    union {
        struct {
            int flags;            /* of fuse_file_info */
            bool makes_handle;    /* the open creates a handle, not the first read */
            bool may_be_open;     /* an earlier worker may have answered it */
            struct opener opener; /* if it is open for writing */
        } open;
        struct {
            int group_error; /* tunable `readers`: error of the look-up, or 0 */
            gid_t group;     /* the group that was written to the tunable `readers` */
        } write;
        struct {
            uint64_t number; /* the kernel's number of the poller; 0: nobody sleeps */
            bool by_uring;   /* the poller is io_uring, which polls around its reads */
            unsigned revents;
        } poll;
        const char *new_name; /* rename: in `text` */
        int to_set;           /* setattr: FUSE_SET_ATTR_… */
    };

    /* the life of the request */
    bool answer_stored; /* the answer is stored with the change and sent at the end */
    bool was_unlocked;  /* is counted in fs->n_unlocked */
    struct {            /* wait_charge(): while it waits, or has waited */
        bool counted;   /* among the waiting requests of the user */
        uid_t uid;
        struct user *charged; /* user charged for the bytes, or NULL */
        uint64_t bytes;
    } waiting;
    struct {            /* wait_enter_slow() */
        bool has_slot;  /* a slow slot */
        bool superuser; /* uses, or waits for, the superuser's slot */
        uid_t uid;      /* user who uses, or waits for, a slot */
        LIST_ENTRY(request) entry;
    } slow;
    TAILQ_ENTRY(request) wait_entry; /* while waiting or ready */
    struct buf out;
    struct call call;

    /* members from here on are not zeroed */
    struct fuse_entry_param entry; /* also for attributes without an entry */
    char storage[4096];            /* first block of out */
};

/* Creates a zeroed request for req, which is in this thread's current slot or place
 * (inflight_current()), or for a task (NULL). Returns NULL on ENOMEM. Each thread keeps one freed
 * request for reuse. */
struct request *request_new(struct fs *fs, const struct op *op, fuse_req_t req);
struct request *request_of(struct call *call);
/* Frees the thread's kept request before the thread exits. */
void request_thread_end(void);

/* Runs a request until the reply, or until it waits. rc < 0: only replies with this error. Takes
 * and drops the lock. */
void request_dispatch(struct request *rq, int rc);
/* Returns a copy of the command from the kernel's message, which stays in memory while the request
 * waits, with room for a NUL; NULL on ENOMEM. */
char *request_copy_command(const struct request *rq);
/* Refuses a request whose PMC or instance is gone (P26). */
int request_refuse_gone(struct request *rq);
/* Needs the lock. Creates a handle for the open file of rq if it has none, which then owns
 * rq->rights. Returns 0, P10, P11 or E32. */
int request_make_handle(struct request *rq);
/* For threads without a slot: runs a ready request. Called with the lock and returns without it; if
 * there is none, returns false and keeps the lock. */
bool fs_run_ready(struct fs *fs);
/* Closes an open file of fs->handles and removes its poller. Needs the lock. */
void file_close(struct fs *fs, struct handle *handle);
/* Finishes a request that is in no queue, without running it, and replies with the error rc < 0.
 * Called with the lock, returns without it. */
void request_fail(struct request *rq, int rc);

/* ---- operations: on the tree in ops.c, on open files in open.c and io.c ---- */

extern const struct fuse_lowlevel_ops fs_ops;

/* Creates a request on a node. Returns NULL after replying with an error. */
struct request *op_begin(const struct op *op, fuse_req_t req, fuse_ino_t ino);

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
/* Closes an open file and replies to its RELEASE, instead of libfuse, which drops the request on
 * ENOMEM. Takes and drops the lock. */
void file_release(struct fs *fs, struct inflight_request *request, uint64_t fh);
void op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
             struct fuse_pollhandle *poll);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
/* getattr of an open file. For texts that may be longer than a page the size is the end of the
 * text, for lseek(2) with SEEK_END. */
extern const struct op file_attr_op;
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
              struct fuse_file_info *fi);
