/*
 * The machine under the engine, as a table: processes, requesters, CPUs, clocks. backends/linux is
 * the real one; unit tests bring a fake. No function here is called with the engine's lock held,
 * but for those marked (locked), which make no system call that can wait.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/cpus.h"
#include "core/base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct host_state;

/*
 * What the process that opened a file (or made the request, for mkdir and the like) may do.
 * Captured once; for open files and targets one object is kept of all that are equal: rights_keep()
 * in core/pmc/rights.h.
 */
struct id_range {
    uint32_t first, count; /* 0: none */
};

#define MAPPED_MAX 8 /* ranges that are remembered; ids of others are taken for not mapped */

struct rights {
    uid_t uid;   /* fs uid, in the daemon's user namespace */
    uid_t payer; /* the uid that is charged: see linux_caller_rights() */
    gid_t gid;
    unsigned n_groups;
    gid_t *groups;         /* supplementary groups; owned */
    uint64_t capabilities; /* effective set */
    bool superuser;        /* CAP_PERFMON or CAP_SYS_ADMIN in the initial user namespace */
    int userns_fd;         /* its user namespace, or -1 when that is the daemon's */
    uint64_t userns;       /* the inode of that; 0: the daemon's */
    /* The ids that its user namespace knows, in the daemon's: its capabilities reach that far. */
    struct id_range uids[MAPPED_MAX], gids[MAPPED_MAX];
    /* Of those that are kept: */
    struct engine *engine;
    uint64_t id; /* of their record */
    unsigned refs;
    struct user *user; /* is charged for them (a reference), or NULL */
    struct rights *next_dead;
};

/* The process that opened a file for writing, and its program: it may observe itself. */
struct opener {
    uint64_t key; /* 0: unknown */
    uint64_t program_dev, program_ino;
};

/* A process (or one thread) that a user named, held so that its number cannot come to mean another.
 */
struct process;

/* A loop that calls back on the main thread, with the engine's lock held. Thread-safe. */
struct loop {
    void *ctx;
    /*
     * events: EPOLLIN, EPOLLHUP…; 0 or -errno. fn must not wait, close or free the watch of others.
     * EPOLLHUP is said once: the descriptor is not watched any more then.
     */
    int (*watch)(void *ctx, int fd, uint32_t events, void (*fn)(void *arg, uint64_t tag), void *arg,
                 uint64_t tag);
    /*
     * No call of fn starts after this returns, if called with the engine's lock held. Else one may
     * be about to; of a descriptor that only says EPOLLHUP it is iff this returns false.
     */
    bool (*unwatch)(void *ctx, int fd);
    /* Its memory, which is mapped, is to outlive this process; 0: no more, and it is about to be
     * closed. True: it did so already. */
    bool (*hold)(void *ctx, int fd, size_t bytes);
    pid_t supervisor; /* that one; 0: there is none */
};

/* What host and backend tell the engine; called on the main thread with the engine's lock held. */
struct sink {
    void *ctx;
    void (*exited)(void *ctx, uint64_t tag);  /* host: a watched process is dead, all threads */
    void (*gone)(void *ctx, uint64_t tag);    /* backend: a counter has no living task left */
    void (*dropped)(void *ctx, uint64_t tag); /* backend: a guarded process lost its events */
    void (*cpu)(void *ctx, unsigned cpu, bool online);
    void (*ready)(void *ctx, uint64_t tag); /* backend: a recorder wants to be drained */
};

struct intake;   /* core/backend.h */
struct pid_view; /* how a PID namespace knows processes */

struct host {
    const char *name;
    /* loop and sink must live until close(). loop NULL: nothing is watched (process_watch:
     * -ENOTSUP). */
    int (*open)(const struct loop *loop, const struct sink *sink, struct host_state **state,
                struct err *err);
    void (*close)(struct host_state *state);

    uint64_t (*now_ns)(struct host_state *state);      /* CLOCK_MONOTONIC (locked) */
    uint64_t (*realtime_ns)(struct host_state *state); /* (locked) */
    uint64_t (*tsc)(struct host_state *state);    /* cycle counter, 0 if there is none (locked) */
    uint64_t (*tsc_hz)(struct host_state *state); /* a hint; 0 unknown (locked) */
    void (*cpu_name)(struct host_state *state, struct buf *out); /* cpc_cciname */
    /* Both replace what is in *out, which must have been initialised. */
    void (*cpus_possible)(struct host_state *state, struct cpus *out); /* (locked) */
    void (*cpus_online)(struct host_state *state, struct cpus *out);   /* (locked) */

    /*
     * Rights of thread tid, which made a request as uid/gid and is waiting for its answer (so that
     * it cannot go away): ids, user namespace and payer. *out is made with malloc; free with
     * rights_free(). 0 or -ENOMEM/-EIO.
     */
    int (*rights)(struct host_state *state, pid_t tid, uid_t uid, gid_t gid, struct rights **out);
    /*
     * The rest: capabilities and groups, of which there can be thousands in another user namespace;
     * none for tid 0 (not visible from here). 0 or -ENOMEM/-EIO.
     */
    int (*rights_read)(struct host_state *state, pid_t tid, struct rights *rights);
    /* Notes which process that is. NULL: cannot be known. */
    void (*opener)(struct host_state *state, pid_t tid, struct opener *opener);

    /*
     * Hold the process that `number` means in the PID namespace of the requesting thread `tid`.
     * number 0 means the requesting process itself ("self"). A thread's number stands for its
     * process unless `thread`. Errors: E27 number illegal; E44 no such process, or a zombie; P15
     * requester not visible (tid 0); P16 the daemon's own.
     */
    int (*process_open)(struct host_state *state, pid_t tid, uint64_t number, bool thread,
                        struct process **out, struct err *err);
    /*
     * Hold the first process of the container that the requester tid is in: of the outermost PID
     * namespace below the daemon's, whatever it has nested in that since. NULL when it is in the
     * daemon's own. Errors: P15 requester not visible; else as process_open().
     */
    int (*process_first)(struct host_state *state, pid_t tid, struct process **out,
                         struct err *err);
    void (*process_free)(struct process *process);
    pid_t (*process_pid)(
        const struct process *process); /* tgid, in the daemon's namespace (locked) */
    pid_t (*process_tid)(const struct process *process); /* 0 unless opened as a thread (locked) */
    uint64_t (*process_key)(const struct process *process); /* equal iff the same process (start
                                                               time mixed in) (locked) */
    bool (*process_alive)(const struct process *process);   /* not a zombie, number not reused */
    /*
     * The kernel's ptrace read check with these rights, which the opener (NULL: unknown) passes for
     * itself while it has them and runs that program: 0, or E40, E44.
     */
    int (*may_observe)(struct host_state *state, const struct rights *rights,
                       const struct opener *opener, const struct process *process, struct err *err);
    /* The same for a number of the daemon's namespace (descendants found at attach): 0, -EPERM,
     * -ESRCH. rights NULL: the superuser's, refused is only the daemon itself. */
    int (*may_observe_pid)(struct host_state *state, const struct rights *rights,
                           const struct opener *opener, pid_t pid);
    /* Its first thread has ended (or is just ending), others may live. NULL: cannot be known. */
    bool (*process_headless)(const struct process *process);
    /* Tell sink.exited(tag) once the process is dead. 0 or -errno. At most one watch per process.
     */
    int (*process_watch)(struct process *process, uint64_t tag);
    void (*process_unwatch)(struct process *process); /* (locked) */
    /*
     * The number by which the thread `tid` of another request would know this process, or 0. tid 0
     * is the daemon's own view. A wrong guess is worse than 0.
     */
    pid_t (*process_seen_by)(struct host_state *state, pid_t tid, pid_t pid);
    /* The requester's own process (tgid, daemon's namespace), or 0. */
    pid_t (*caller_pid)(struct host_state *state, pid_t tid);

    /* The same number as long as pid (daemon's namespace) means the same living process; 0: none.
     */
    uint64_t (*pid_key)(struct host_state *state, pid_t pid);
    /* The same of the process that makes a request (caller_pid()), and waits for its answer. */
    uint64_t (*caller_key)(struct host_state *state, pid_t pid);
    /* Frames the kernel records of a call chain at most; UINT64_MAX: unknown. Also before open().
     */
    uint64_t (*callchain_max)(void);
    /* Bytes that the daemon's control groups let it have; UINT64_MAX: any. Also before open(). */
    uint64_t (*memory_max)(void);

    /*
     * What a process has now, as records (RECORD_FOUND) with that time: COMM of each thread and MAP
     * of each executable mapping; data: and (RECORD_DATA) of others of files. pid 0: of every
     * process. A process that is gone has nothing.
     */
    void (*inventory)(struct host_state *state, pid_t pid, bool data, uint64_t time_ns,
                      const struct intake *intake);
    /* MAP records (pid -1) of the kernel's text and modules, if their addresses may be known. */
    void (*kernel_maps)(struct host_state *state, uint64_t time_ns, const struct intake *intake);

    /*
     * The PID namespace of the requesting thread tid, held: for records, since their processes may
     * be dead when they are read. *view is NULL when that is the daemon's own. 0 or -errno.
     */
    int (*view_open)(struct host_state *state, pid_t tid, struct pid_view **view);
    void (*view_free)(struct pid_view *view); /* NULL allowed */
    /* The number of a process or thread (daemon's namespace) there, or 0. Remembers what it found,
     * so that the dead keep their numbers; view_forget() when it has ended and all is said. One
     * caller at a time. */
    pid_t (*view_pid)(struct pid_view *view, pid_t pid);
    void (*view_forget)(struct pid_view *view, pid_t pid);
    /* One descriptor in the text. */
    void (*view_print)(const struct pid_view *view, struct buf *out);
    int (*view_adopt)(struct host_state *state, const char *printed, struct pid_view **view);
    void (*view_keep)(struct pid_view *view); /* frees the memory, keeps the descriptor */

    /*
     * Open a cgroup (v2) directory named by `path` as the requester tid sees it: beneath its cgroup
     * root, no links. *fd is the directory, *name the path from that root, normalised (owned by the
     * caller, free). Errors: P33, P09 (no v2 here), P15.
     */
    int (*cgroup_open)(struct host_state *state, pid_t tid, const char *path, int *fd, char **name,
                       struct err *err);
    /* Stable identity of an open cgroup, and whether it still exists. */
    uint64_t (*cgroup_key)(int fd);
    bool (*cgroup_alive)(int fd);

    /* State for a later worker: print what process_adopt() needs (descriptor numbers included). */
    void (*process_print)(const struct process *process, struct buf *out);
    int (*process_adopt)(struct host_state *state, const char *printed, struct process **out);
    /* Frees the memory but leaves the descriptors open, for process_adopt(). */
    void (*process_forget)(struct process *process);
};

/* Frees what rights() made, closing the namespace descriptor. NULL is allowed. */
void rights_free(struct rights *rights);
/* Do its capabilities pass over the permission bits of what this user and this group have? */
bool rights_pass_bits(const struct rights *rights, uid_t uid, gid_t gid);
bool rights_in_group(const struct rights *rights, gid_t gid);
