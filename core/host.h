/*
 * The interface of the host: a table of functions for processes, requesters, CPUs and clocks.
 * backends/linux implements it; unit tests have a fake host. Functions marked (locked) may be
 * called with or without the engine's lock and make no blocking system call. All others are called
 * without the lock, or while no request runs (open, load, reload).
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/cpus.h"
#include "core/base/err.h"
#include "core/work.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct host_state;

struct id_range {
    uint32_t first, count; /* count 0: no ids */
};

#define MAPPED_MAX 8 /* ranges that are kept; ids in further ranges count as not mapped */

/*
 * The rights of a process when it opened a file, or made a request such as mkdir. Open files and
 * targets with equal rights share one object: rights_share() in core/users/users.h.
 */
struct rights {
    uid_t uid;   /* fs uid, in the daemon's user namespace */
    uid_t payer; /* the uid that is charged: an ordinary user who created the outermost user
                  * namespace of the process, below the daemon's; otherwise `uid` */
    gid_t gid;
    unsigned n_groups;
    gid_t *groups;         /* supplementary groups; owned */
    uint64_t capabilities; /* effective set */
    bool superuser;        /* CAP_PERFMON or CAP_SYS_ADMIN in the daemon's user namespace */
    int userns_fd;         /* the user namespace of the process; -1: the daemon's */
    uint64_t userns;       /* inode of the user namespace; 0: the daemon's */
    /* The process, as from caller_pid(). Set by caller_rights_rest(); 0 before, and in shared
     * objects. */
    pid_t pid;
    /* The ids that are mapped into that user namespace: `capabilities` apply to these only. */
    struct id_range uids[MAPPED_MAX], gids[MAPPED_MAX];
    /* Set in shared objects only: */
    struct engine *engine;
    uint64_t id; /* of the journal record */
    unsigned refs;
    struct user *user; /* the user that is charged (a reference), or NULL */
    struct work work;  /* frees the object when it is unused */
};

/* The process that opened a file for writing, and its program, for the rule of may_observe() that a
 * process may observe itself. */
struct opener {
    uint64_t key; /* as from pid_key(); 0: unknown */
    uint64_t program_dev, program_ino;
};

/* A process or thread that a user named, held by a pidfd so that a reused number is noticed. */
struct process;
struct cgroup_watch;

/* The main loop, which calls back on the main thread with the engine's lock held. Thread-safe. */
struct loop {
    void *ctx;
    /*
     * Calls fn when the descriptor has these events (EPOLLIN, EPOLLHUP…). fn must not block, nor
     * close or free what another watch uses. EPOLLHUP is reported once and removes the watch.
     * Returns 0 or -errno.
     */
    int (*watch)(void *ctx, int fd, uint32_t events, void (*fn)(void *arg, uint64_t tag), void *arg,
                 uint64_t tag);
    /*
     * Removes a watch. If called with the engine's lock held, fn is not called after this returns.
     * Without the lock a call may be about to start; for a watch of EPOLLHUP only, that is the case
     * if this returns false.
     */
    bool (*unwatch)(void *ctx, int fd);
    /* Has the supervisor map the memory of the descriptor too, so that it outlives this process; 0
     * bytes: unmap it before the descriptor is closed. Returns true if it was already mapped. */
    bool (*keep_mapped)(void *ctx, int fd, size_t bytes);
    pid_t supervisor; /* PID of the supervisor; 0: none */
};

/* Events that host and backend report to the engine, on the main thread with the engine's lock.
 * tag: as in the call that requested the report. */
struct sink {
    void *ctx;
    void (*process_exited)(void *ctx,
                           uint64_t tag); /* host: all threads of a watched process have exited */
    /* backend: all tasks of a counter have exited or lost their events. Only for a thread, or with
     * descendants; process_exited() reports other processes. */
    void (*counter_gone)(void *ctx, uint64_t tag);
    /* backend: an exec guard has fired: the process lost its events, or its first thread exited */
    void (*guard_fired)(void *ctx, uint64_t tag);
    void (*cpu_changed)(void *ctx, unsigned cpu,
                        bool online); /* host: a CPU went online or offline */
    /* host: a watched cgroup, or one above it, was created or removed, or events were missed */
    void (*cgroup_changed)(void *ctx, uint64_t tag);
    /* backend: a recorder should be drained; tag 0: backend.drain_sideband() should be called */
    void (*drain_due)(void *ctx, uint64_t tag);
};

#define PROCESS_NAME 16 /* bytes of a name, with its NUL */

struct intake;   /* core/backend.h */
struct pid_view; /* the numbers of processes in a PID namespace */

struct host {
    const char *name;
    /* loop and sink must live until close(). Without a loop process_watch() returns -ENOTSUP. */
    int (*open)(const struct loop *loop, const struct sink *sink, struct host_state **state,
                struct err *err);
    void (*close)(struct host_state *state);

    uint64_t (*now_ns)(struct host_state *state);      /* CLOCK_MONOTONIC (locked) */
    uint64_t (*realtime_ns)(struct host_state *state); /* (locked) */
    uint64_t (*tsc)(struct host_state *state);         /* cycle counter; 0: none (locked) */
    uint64_t (*tsc_hz)(struct host_state *state);      /* a hint; 0 unknown (locked) */
    void (*cpu_name)(struct host_state *state, struct buf *out); /* prints the processor's name */
    /* Replace the contents of *out. */
    void (*cpus_possible)(struct host_state *state, struct cpus *out); /* (locked) */
    void (*cpus_online)(struct host_state *state, struct cpus *out);   /* (locked) */

    /*
     * Reads ids, user namespace and payer of thread tid, which made a request as uid and gid and
     * waits for the reply. The caller frees *out with rights_free(). Returns 0, -ENOMEM, -EMFILE or
     * -EIO.
     */
    int (*caller_rights)(struct host_state *state, pid_t tid, uid_t uid, gid_t gid,
                         struct rights **out);
    /*
     * Completes these rights with the capabilities, the groups, of which there can be thousands in
     * another user namespace, `superuser` and the mapped ids. tid 0 (not visible to the daemon) has
     * none of them. Returns 0, -ENOMEM, -EMFILE, -ENFILE or -EIO.
     */
    int (*caller_rights_rest)(struct host_state *state, pid_t tid, struct rights *rights);
    /* Identifies the process of a request (see caller_pid()). If that fails, leaves *opener as it
     * is. NULL: not supported. */
    void (*caller_opener)(struct host_state *state, pid_t pid, struct opener *opener);

    /*
     * Opens the process with this number in the PID namespace of the requesting thread tid. Number
     * 0 is the requesting process ("self"). The number of a thread selects its process unless
     * `thread` is set. Errors: E27 invalid number, E44 no such process or a zombie, P15 the
     * requester is not visible (tid 0), P16 a process of the daemon, P10, P13 a read of /proc took
     * too long, P14, E32.
     */
    int (*process_open)(struct host_state *state, pid_t tid, uint64_t number, bool thread,
                        struct process **out, struct err *err);
    /*
     * Opens the first process of the requester's container, i.e. of the outermost PID namespace
     * between the daemon's and the requester's. *out is NULL if the requester is in the daemon's
     * namespace. Errors: as process_open().
     */
    int (*process_first)(struct host_state *state, pid_t tid, struct process **out,
                         struct err *err);
    void (*process_free)(struct process *process);
    pid_t (*process_pid)(
        const struct process *process); /* PID in the daemon's namespace (locked) */
    pid_t (*process_tid)(const struct process *process); /* 0 unless opened as a thread (locked) */
    /* Returns a key that differs from those of other processes, also after a reuse of the PID. A
     * thread has the key of its process (locked). */
    uint64_t (*process_key)(const struct process *process);
    /* Returns false if all threads of the process have exited (a zombie, too) or, opened as a
     * thread, if this thread has exited. For a process (locked); for a thread it reads /proc. */
    bool (*process_alive)(const struct process *process);
    /* Reads the present name of the process or thread. Leaves *name as it is if it has exited. */
    void (*process_name)(const struct process *process, char name[PROCESS_NAME]);
    /*
     * Checks whether the kernel would give ptrace read access to these rights. The opener (NULL:
     * unknown) may always observe itself while it has these rights and runs the same program.
     * Returns 0, E40 (also if the check is impossible), E44, or P13 if it took too long.
     */
    int (*may_observe)(struct host_state *state, const struct rights *rights,
                       const struct opener *opener, const struct process *process, struct err *err);
    /* may_observe() for a PID of the daemon's namespace. Returns 0, -ESRCH, or -EPERM (refused, or
     * not checked). rights NULL: the superuser, who may observe every process except the daemon. */
    int (*may_observe_pid)(struct host_state *state, const struct rights *rights,
                           const struct opener *opener, pid_t pid);
    /* Returns true if the first thread has exited or is exiting, but the process has not exited
     * completely: other threads may live. */
    bool (*process_headless)(const struct process *process);
    /* Calls sink.process_exited(tag) when all threads have exited. One watch per process. Returns 0
     * or -errno. */
    int (*process_watch)(struct process *process, uint64_t tag);
    void (*process_unwatch)(struct process *process); /* (locked) */
    /*
     * Returns the number of a process or thread in the PID namespace of the requesting thread tid
     * (0: the daemon's namespace), or 0 if it has none there or if that cannot be read.
     */
    pid_t (*pid_seen_by)(struct host_state *state, pid_t tid, pid_t pid);
    /* Returns the PID of the requester in the daemon's namespace, or 0. */
    pid_t (*caller_pid)(struct host_state *state, pid_t tid);

    /* Returns a key that identifies the living process pid (daemon's namespace), or 0. Comparable
     * with caller_key() and opener.key, not with process_key(). */
    uint64_t (*pid_key)(struct host_state *state, pid_t pid);
    /* Returns the key of the process of a request (see caller_pid()), which waits for the reply. */
    uint64_t (*caller_key)(struct host_state *state, pid_t pid);
    /* Returns the kernel's limit of frames in a call chain; UINT64_MAX: unknown. May be called
     * before open(). */
    uint64_t (*callchain_max)(void);
    /* Returns the memory limit of the daemon's control groups; UINT64_MAX: none. May be called
     * before open(). */
    uint64_t (*memory_max)(void);

    /*
     * Passes the present state of a process (0: of every process) as records with flag RECORD_FOUND
     * and this time: COMM of each thread, MAP of each executable mapping, and with `data` also MAP
     * of read-only file mappings (RECORD_DATA). Skips processes that have exited, or that were
     * created after time_ns (pid 0: after the call). If processes are missing or incomplete because
     * of the time limit, passes a RECORD_DROP "inventory" with their number.
     */
    void (*inventory)(struct host_state *state, pid_t pid, bool data, uint64_t time_ns,
                      const struct intake *intake);
    /* Passes a MAP record (pid -1) of all addresses that can only be the kernel's. */
    void (*kernel_maps)(struct host_state *state, uint64_t time_ns, const struct intake *intake);

    /*
     * Opens the PID namespace of the requesting thread tid, to translate the PIDs of records, whose
     * processes may have exited. *view is NULL for the daemon's namespace. Returns 0 or -errno.
     */
    int (*view_open)(struct host_state *state, pid_t tid, struct pid_view **view);
    void (*view_free)(struct pid_view *view); /* NULL allowed */
    /* Returns the number of a process or thread (daemon's namespace) in the view's namespace; 0: it
     * has none, or too many were looked up in a short time. The view caches numbers, so that exited
     * tasks usually keep theirs until view_forget_pid(). Called by one thread at a time. */
    pid_t (*view_pid)(struct pid_view *view, pid_t pid);
    void (*view_forget_pid)(struct pid_view *view, pid_t pid);
    /* Prints the line that view_adopt() reads, with one descriptor (locked). */
    void (*view_print)(const struct pid_view *view, struct buf *out);
    int (*view_adopt)(struct host_state *state, const char *printed, struct pid_view **view);
    void (*view_forget)(struct pid_view *view); /* frees the memory, keeps the descriptor */

    /*
     * Opens a cgroup v2 directory by its path below the cgroup root of the requester tid; symbolic
     * links are not followed. *name is the normalised path from that root (free it). Errors: P33
     * no such cgroup, P09 no cgroup v2 here, P15 the root is not visible, P10, E32.
     */
    int (*cgroup_open)(struct host_state *state, pid_t tid, const char *path, int *fd, char **name,
                       struct err *err);
    /* Opens the cgroup root of the requester tid, where its paths start. `path` need not exist;
     * *name and errors are those of cgroup_open(). */
    int (*cgroup_root)(struct host_state *state, pid_t tid, const char *path, int *root,
                       char **name, struct err *err);
    /* Opens the cgroup root again from the descriptor of the cgroup with this name, which may have
     * been removed. Returns a descriptor or -errno. */
    int (*cgroup_reopen_root)(int fd, const char *name);
    /*
     * Calls sink.cgroup_changed(tag) after the cgroup with this name below root, or a cgroup above
     * it, was created or removed. root stays the caller's and may be closed. *fd is the cgroup
     * (close it), or -1: it does not exist. Errors: P14, P33 the name is a file or starts with a
     * mount point, P10, E32.
     */
    int (*cgroup_watch)(struct host_state *state, int root, const char *name, uint64_t tag,
                        struct cgroup_watch **watch, int *fd, struct err *err);
    void (*cgroup_unwatch)(struct cgroup_watch *watch); /* (locked) */
    /* Returns an id of an open cgroup that no other cgroup has until a reboot, or 0 (locked). */
    uint64_t (*cgroup_key)(int fd);
    bool (*cgroup_alive)(int fd); /* true if the open cgroup still exists (locked) */

    /* For a later worker: prints the line that process_adopt() reads, with descriptor numbers
     * (locked). process_adopt() returns 0 or -errno. */
    void (*process_print)(const struct process *process, struct buf *out);
    int (*process_adopt)(struct host_state *state, const char *printed, struct process **out);
    /* Frees the memory and keeps the descriptors open, for process_adopt(). */
    void (*process_forget)(struct process *process);
};

/* Frees the rights and closes the descriptor of the namespace. NULL is allowed. */
void rights_free(struct rights *rights);
/* Returns true if the capabilities override permission bits of files of this user and group. In
 * another user namespace than the daemon's both must be mapped there. */
bool rights_override_mode(const struct rights *rights, uid_t uid, gid_t gid);
bool rights_in_group(const struct rights *rights, gid_t gid);
