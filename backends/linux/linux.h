/*
 * The Linux host: its state, and the functions of each file. Functions named linux_*() are members
 * of struct host (core/host.h), which describes them.
 */
#pragma once

#include "backends/proc.h"
#include "core/host.h"

#include <pthread.h>
#include <sys/queue.h>

/* cpus.c */
struct host_cpus {
    struct cpus possible; /* fixed */
    /* Written by the main thread. A concurrent reader may see a part of a change;
     * sink.cpu_changed() follows. */
    atomic_bool online[CPUS_MAX];
    int fd; /* watched netlink socket; -1 without a loop */
};

/* cgroup.c */
struct host_cgroups {
    pthread_mutex_t lock; /* a leaf: protects the list and the watches in it */
    int fd;               /* inotify, watched by the loop; -1 without a loop or after an error */
    LIST_HEAD(, cgroup_watch) watches;
};

struct host_state {
    const struct loop *loop; /* both exist until close(); loop may be NULL: nothing is watched */
    const struct sink *sink;
    pid_t self;         /* the daemon, which no user may observe, like its supervisor */
    struct ns_id pidns; /* the daemon's namespaces */
    struct ns_id userns;
    struct ns_id cgroupns; /* all 0 on a kernel without cgroups */
    /* Descriptors of the first two, or -errno: while a namespace has one, the kernel does not
     * create and free an inode each time that ns_identify() looks at a process in it. */
    int pidns_fd, userns_fd;
    struct host_cpus cpus;
    struct host_cgroups cgroups;
    uint64_t began_tsc, began_ns; /* start of the measurement of the cycle counter's rate */
};

static inline bool is_ours(const struct host_state *state, pid_t pid)
{
    return pid == state->self || (state->loop && pid && pid == state->loop->supervisor);
}

/* ---- process.c: processes that users named, held by a pidfd ---- */

int linux_process_open(struct host_state *state, pid_t tid, uint64_t number, bool thread,
                       struct process **out, struct err *err);
int linux_process_first(struct host_state *state, pid_t tid, struct process **out, struct err *err);
void linux_process_free(struct process *process);
pid_t linux_process_pid(const struct process *process);
pid_t linux_process_tid(const struct process *process);
uint64_t linux_process_key(const struct process *process);
bool linux_process_alive(const struct process *process);
void linux_process_name(const struct process *process, char name[PROCESS_NAME]);
bool linux_process_headless(const struct process *process);
int linux_process_may_observe(struct host_state *state, const struct rights *rights,
                              const struct opener *opener, const struct process *process,
                              struct err *err);
int linux_process_may_observe_pid(struct host_state *state, const struct rights *rights,
                                  const struct opener *opener, pid_t pid);
int linux_process_watch(struct process *process, uint64_t tag);
void linux_process_unwatch(struct process *process);
uint64_t linux_pid_key(struct host_state *state, pid_t pid);
uint64_t linux_caller_key(struct host_state *state, pid_t pid);
void linux_process_print(const struct process *process, struct buf *out);
int linux_process_adopt(struct host_state *state, const char *printed, struct process **out);
void linux_process_forget(struct process *process);

/* ---- pidns.c: numbers of processes in PID namespaces ---- */

/*
 * Translates the number of a thread in thread tid's PID namespace to its number in the daemon's. If
 * both namespaces are the same, sets *out to `number` without a check that such a thread exists.
 * Returns 0, -ESRCH, -EPERM if tid cannot be inspected, or another -errno (memory, descriptors).
 */
int pidns_to_host(const struct host_state *state, pid_t tid, pid_t number, pid_t *out);
/*
 * Finds the first process of the outermost PID namespace below the daemon's that contains thread
 * tid. *out is 0 if tid is in the daemon's namespace. Returns 0 or -errno; -EPERM if tid cannot be
 * inspected, or is outside the daemon's namespace.
 */
int pidns_first(const struct host_state *state, pid_t tid, pid_t *out);
/* Returns the number of pid for thread tid; 0 if it has none; or -errno. */
pid_t pidns_seen_by(const struct host_state *state, pid_t tid, pid_t pid);
pid_t linux_pid_seen_by(struct host_state *state, pid_t tid, pid_t pid);
int linux_view_open(struct host_state *state, pid_t tid, struct pid_view **view);
void linux_view_free(struct pid_view *view);
pid_t linux_view_pid(struct pid_view *view, pid_t pid);
void linux_view_forget_pid(struct pid_view *view, pid_t pid);
void linux_view_print(const struct pid_view *view, struct buf *out);
int linux_view_adopt(struct host_state *state, const char *printed, struct pid_view **view);
void linux_view_forget(struct pid_view *view);

/* ---- caller.c: the requester and its rights ---- */

int linux_caller_rights(struct host_state *state, pid_t tid, uid_t uid, gid_t gid,
                        struct rights **out);
int linux_caller_rights_rest(struct host_state *state, pid_t tid, struct rights *rights);
void linux_caller_opener(struct host_state *state, pid_t pid, struct opener *opener);
pid_t linux_caller_pid(struct host_state *state, pid_t tid);
/* Returns true if pid is the process of the opener and still executes the same program; false also
 * if that is not known (opener may be NULL). */
bool caller_is_opener(struct host_state *state, const struct opener *opener, pid_t pid);
/* Returns the thread whose cgroup namespace applies to requests of thread tid: the first thread of
 * its process for an io_uring worker, otherwise tid (0: unknown); or -errno. */
pid_t caller_thread(pid_t tid);

/* ---- observe.c: may this opener observe that process? ---- */

/*
 * Runs fn with fs ids, groups and effective capabilities of the opener, in its user namespace. Uses
 * a helper process of helper_call(), in which `first` (or NULL) runs before fn, with the daemon's
 * credentials. With `apart`, or in another user namespace, uses a forked process without `first`,
 * which also takes the opener's effective uid and gid.
 *
 * fn may use the descriptor fd, which is all that the forked process keeps, and raw system calls
 * only: no heap, locks or stdio. Returns the result of fn (0 or -errno), or of `first` if it is
 * negative; -ENOTSUP if the daemon may not take these credentials; -ETIME as helper_call(); -EAGAIN
 * if the forked process failed; or another error of helper_call().
 */
int run_as_opener(const struct rights *rights, bool apart, int fd, long (*first)(void *arg),
                  long (*fn)(void *arg), void *arg);
/*
 * Makes the kernel's ptrace read check as the opener, for every living thread of the process, or
 * only for thread tid if it is not 0. Always refuses processes of pmcfs. Allows the opener's own
 * process even if the kernel refuses, unless it has other ids or more capabilities than `rights`.
 * Returns 0, -EPERM or -ESRCH. After any other -errno the check was not made, and the caller must
 * refuse.
 */
int observe_check(struct host_state *state, const struct rights *rights,
                  const struct opener *opener, pid_t pid, pid_t tid);
/* Returns the reason for a result rc of observe_check() as the end of a sentence ("it runs as
 * another user"). Static storage. */
const char *observe_reason(const struct host_state *state, const struct rights *rights, pid_t pid,
                           int rc);

/* ---- inventory.c: names and mappings of processes and of the kernel ---- */

void linux_inventory(struct host_state *state, pid_t pid, bool data, uint64_t time_ns,
                     const struct intake *intake);
void linux_kernel_maps(struct host_state *state, uint64_t time_ns, const struct intake *intake);

/* ---- cgroup.c: control groups (v2) as a requester names them ---- */

void host_cgroups_open(struct host_state *state);
void host_cgroups_close(struct host_state *state);
int linux_cgroup_open(struct host_state *state, pid_t tid, const char *path, int *fd, char **name,
                      struct err *err);
int linux_cgroup_root(struct host_state *state, pid_t tid, const char *path, int *root, char **name,
                      struct err *err);
int linux_cgroup_reopen_root(int fd, const char *name);
int linux_cgroup_watch(struct host_state *state, int root, const char *name, uint64_t tag,
                       struct cgroup_watch **watch, int *fd, struct err *err);
void linux_cgroup_unwatch(struct cgroup_watch *watch);
uint64_t linux_cgroup_key(int fd);
bool linux_cgroup_alive(int fd);

/* ---- cpus.c: the existing and the online CPUs, and the name of the processor ---- */

int host_cpus_open(struct host_state *state, struct err *err);
void host_cpus_close(struct host_state *state);
void linux_cpus_possible(struct host_state *state, struct cpus *out);
void linux_cpus_online(struct host_state *state, struct cpus *out);
void linux_cpu_name(struct host_state *state, struct buf *out);
