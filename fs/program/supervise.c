/*
 * The supervisor. It creates workers by clone() with CLONE_FILES, so descriptors stay open with
 * their numbers when a worker dies. The supervisor does not know PMCs and hardly allocates memory,
 * so that it cannot crash. While a worker runs, it logs only refused upgrades, because syslog's
 * socket would be shared.
 */
#include "fs/program/worker.h"

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/journal.h"
#include "fs/program/confine.h"
#include "fs/program/mount.h"
#include "fs/program/options.h"
#include "fs/program/upgrade.h"
#include "fs/requests/inflight.h"
#include "fs/requests/message.h"
#include "fs/requests/serve.h"
#include "fs/requests/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

enum {
    POLL_MS = 10,        /* poll interval while waiting for a worker to serve */
    LOADS_MAX = 6,       /* workers that may die before serving until the state is dropped */
    SHORTAGES_MAX = 64,  /* the same with EXIT_SHORTAGE: about a minute */
    BACK_OFF_MS = 10,    /* pause after a crash; doubled with each crash */
    BACK_OFF_MOST = 1000 /* longest pause */
};

static struct {
    struct inflight *inflight;
    int inflight_fd;
    struct worker *worker; /* to run in the worker's process */
    const struct options *options;
    int signal_fd;
    int own_end, worker_end; /* of the socket between supervisor and worker */
    int lock_fd;             /* see upgrade.h */
    pid_t worker_pid;
    pid_t requester;          /* process that requests an upgrade; 0: none */
    bool trial_passed;        /* the new program passed its trial (--check) */
    bool took_over;           /* this program replaced another one, and the process that requested
                               * the upgrade waits for the result */
    char *argv[UPGRADE_ARGS]; /* arguments of the new program */
    bool ending;
    bool mlock_unlimited;        /* CAP_IPC_LOCK: locked memory is not limited */
    unsigned crashes;            /* consecutive crashes of workers */
    unsigned unready;            /* consecutive deaths before the worker served */
    unsigned shortages;          /* consecutive exits with EXIT_SHORTAGE; not in `unready` */
    uint64_t started_s;          /* start of the worker (CLOCK_MONOTONIC) */
    void *rings[INFLIGHT_RINGS]; /* mappings of inflight->rings */
} me;

/* ---- rings ---- */

/* Maps a ring a second time, so that its records survive a worker. The kernel charges locked memory
 * again, so this is only done if it is not limited. */
static void ring_map(unsigned i, int fd, uint64_t bytes)
{
    void *map = me.mlock_unlimited ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                   : MAP_FAILED;

    if (map == MAP_FAILED)
        return;
    me.rings[i] = map;
    me.inflight->rings[i] = (struct inflight_ring){fd, bytes};
}

/* Handles a message about a ring: maps its memory, and unmaps the ring that had this descriptor
 * before. With fd -1 unmaps all rings whose descriptors are closed. Returns true if the memory was
 * mapped already. */
static bool ring_keep(const struct supervisor_message *message)
{
    int at = -1;

    for (unsigned i = 0; i < INFLIGHT_RINGS; i++) {
        struct inflight_ring *ring = &me.inflight->rings[i];

        if (ring->fd == message->fd && ring->bytes == message->bytes)
            return true;
        if (ring->fd &&
            (ring->fd == message->fd || (message->fd < 0 && fcntl(ring->fd, F_GETFD) < 0))) {
            munmap(me.rings[i], ring->bytes);
            *ring = (struct inflight_ring){0};
        }
        if (!ring->fd && at < 0)
            at = (int)i;
    }
    if (message->fd > 0 && message->bytes && at >= 0)
        ring_map((unsigned)at, message->fd, message->bytes);
    return false;
}

/* ---- notifications about names ---- */

/*
 * Starts the process that sends the worker's notifications about names to the kernel. There, such a
 * notification waits while a request, for example mkdir(2), holds the lock of the directory, and
 * even SIGKILL does not end the wait. A worker that was killed while it waited could not exit, and
 * the request would wait for the next worker for ever.
 *
 * The process exits at end of file: the worker closes its end, or calls notify_end(). It is no
 * child of the supervisor, whose only children are workers. It is started when a worker first needs
 * it, because systemd finds the main process of the unit only if the supervisor is the only process
 * without a parent at the end of the start. Returns the socket's other end, which the worker
 * shares, or -1.
 */
static int notifier_start(void)
{
    const struct timeval second = {.tv_sec = 1};
    char message[NOTIFICATION_MAX];
    int ends[2];
    ssize_t n;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    setsockopt(ends[1], SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    const pid_t pid = fork(); /* the signals that end a mount are blocked in it */
    if (pid == 0) {
        if (fork() != 0)
            _exit(0);
        prctl(PR_SET_NAME, "pmcfs-notify");
        dup2(ends[0], 0);
        dup2(me.inflight->fuse_fd, 1);
        if (close_range(2, ~0U, 0) < 0)
            _exit(1);
        while ((n = recv(0, message, sizeof message, 0)) > 0 || (n < 0 && errno == EINTR))
            if (n > 0 && write(1, message, (size_t)n) < 0)
                continue; /* the kernel does not know the name */
        _exit(0);
    }
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return -1;
    }
    waitpid(pid, NULL, 0);
    return ends[1];
}

/* ---- workers ---- */

/* Creates a process that runs a worker. Returns false on failure. In the new process the C library
 * still has the supervisor's thread id for the only thread. */
static bool worker_start(void)
{
    const pid_t supervisor = getpid();
    struct supervisor_message message;
    sigset_t set;

    fflush(NULL);
    while (recv(me.own_end, &message, sizeof message, MSG_DONTWAIT) > 0 ||
           recv(me.worker_end, &message, sizeof message, MSG_DONTWAIT) > 0)
        ; /* messages of the last worker */
    me.inflight->ready = false;
    if (me.inflight->has_served && !me.options->foreground)
        messages_to_syslog();
    me.started_s = monotonic_ns() / 1000000000;
    me.worker_pid =
        (pid_t)syscall(SYS_clone, (long)(CLONE_FILES | SIGCHLD), NULL, NULL, NULL, NULL);
    if (me.worker_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != supervisor)
            _exit(0);
        sigemptyset(&set);
        sigaddset(&set, SIGCHLD);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_UNBLOCK, &set, NULL); /* other signals stay blocked for its loop */
        const int status = worker_run(me.worker, me.inflight, me.worker_end);
        fflush(NULL);
        _exit(status);
    }
    me.inflight->worker = me.worker_pid; /* set here: the worker may be stopped at once */
    return me.worker_pid > 0;
}

/* Returns BACK_OFF_MS, doubled `times` times, but at most BACK_OFF_MOST. */
static unsigned doubled_pause(unsigned times)
{
    const unsigned doubled = (unsigned)BACK_OFF_MS << (times < 7 ? times : 7);
    return doubled < BACK_OFF_MOST ? doubled : BACK_OFF_MOST;
}

/* Counts the death of a worker and returns the pause before the next one in ms: 0 after SIGKILL,
 * after a worker that ran for more than a second, or before the third crash in a row; but a worker
 * that exited before it served is always followed by a pause. */
static unsigned restart_pause(int status)
{
    if (me.inflight->ready)
        me.unready = me.shortages = 0;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SHORTAGE)
        return doubled_pause(++me.shortages);
    me.unready += !me.inflight->ready;
    if (WIFEXITED(status) && !me.inflight->ready)
        return doubled_pause(me.unready);
    me.crashes = monotonic_ns() / 1000000000 - me.started_s > 1 ? 1 : me.crashes + 1;
    return me.crashes < 3 ? 0 : doubled_pause(me.crashes - 3);
}

/* Starts the next worker. Returns false if the mount shall end. */
static bool worker_restart(int status)
{
    if (me.ending || (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || !me.inflight->has_served)))
        return false;
    pause_ms(restart_pause(status));
    if (me.unready >= LOADS_MAX || me.shortages >= SHORTAGES_MAX) {
        message_log(LOG_CRIT,
                    "%u workers in a row failed to load the saved state: all PMCs and counts are "
                    "discarded, and the mount continues empty",
                    me.unready + me.shortages);
        /* Drop all state: an empty mount is better than one that hangs. */
        inflight_give_up(me.inflight);
        if (!arena_clear(me.inflight->arena_fd) || !journal_clear(me.inflight->journal_fd))
            message_log(LOG_CRIT, "cannot free memory: %s", strerror(errno));
        me.unready = me.shortages = 0;
    }
    me.inflight->restarts++;
    me.inflight->last_status = status;
    me.inflight->last_worker = me.worker_pid;
    while (!worker_start())
        pause_ms(BACK_OFF_MOST); /* retry until there is memory for a process */
    return true;
}

/* ---- a new program ---- */

/* Replaces this program by the requester's. Returns only on failure. The worker must be serving,
 * because it keeps the rings mapped. */
static void program_replace(pid_t requester)
{
    char why[512];
    const int program = upgrade_open_program(requester, why, sizeof why);
    int error = 0;

    if (program >= 0 &&
        (me.trial_passed || upgrade_try(program, me.inflight_fd, me.argv, why, sizeof why))) {
        me.trial_passed = true;
        error = upgrade_execute(program, me.worker_pid, me.lock_fd, me.argv);
        snprintf(why, sizeof why, "the new program cannot be started: %s", strerror(error));
    }
    fd_close(program);
    me.requester = error == ECHILD ? requester : 0;
    if (me.requester)
        return; /* program_replace() is called again once the next worker serves */
    if (!me.options->foreground)
        messages_to_syslog();
    upgrade_refuse(me.lock_fd, why);
}

/* ---- start ---- */

static bool supervisor_init(struct worker *worker, struct inflight *inflight, int inflight_fd)
{
    const int numbers[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    const struct timeval second = {.tv_sec = 1};
    const struct options *options = worker->options;
    char **argv = me.argv;
    int ends[2];
    sigset_t set;

    me.inflight = inflight;
    me.inflight_fd = inflight_fd;
    me.worker = worker;
    me.options = options;
    me.mlock_unlimited = capability_held(CAP_IPC_LOCK);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&set, numbers[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    me.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (me.signal_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 ||
        setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second) <
            0) /* if the supervisor exits */
        return false;
    me.own_end = ends[0];
    me.worker_end = ends[1];
    const int mine[] = {0,
                        1,
                        2,
                        inflight_fd,
                        inflight->fuse_fd,
                        inflight->journal_fd,
                        inflight->arena_fd,
                        me.signal_fd,
                        ends[0],
                        ends[1]};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        if (!fd_exempt(mine[i]))
            return false;
    /* The new program of an upgrade gets the arguments of this one and --resume. */
    *argv++ = (char *)"pmcfs";
    if (asprintf(argv++, "--resume=%d", inflight_fd) < 0)
        return false;
    if (options->foreground)
        *argv++ = (char *)"-f";
    if (options->conf_given && asprintf(argv++, "--config=%s", options->conf) < 0)
        return false;
    if (options->mount_options.len && asprintf(argv++, "-o%.*s", (int)options->mount_options.len,
                                               options->mount_options.data) < 0)
        return false;
    *argv++ = options->source;
    *argv = options->mountpoint;
    return true;
}

struct inflight *supervisor_resume(struct worker *worker)
{
    struct inflight *inflight = inflight_open(worker->options->resume_fd);

    if (inflight && mount_adopt(&worker->mount, inflight->fuse_fd) &&
        supervisor_init(worker, inflight, worker->options->resume_fd))
        return inflight;
    message_log(LOG_ERR, "cannot start the new program: %s", strerror(errno));
    return NULL;
}

/* ---- the loop ---- */

/* Handles a signal. Returns false if the worker has exited and the mount shall end; *status is that
 * of the last child. */
static bool signal_take(const struct signalfd_siginfo *info, int *status)
{
    const int number = (int)info->ssi_signo;
    pid_t pid;

    if (number == SIGCHLD) {
        while ((pid = waitpid(-1, status, WNOHANG)) > 0)
            if (pid == me.worker_pid && !worker_restart(*status))
                return false;
        return true;
    }
    if (number == SIGUSR1) {
        me.requester = info->ssi_uid == 0 ? (pid_t)info->ssi_pid : me.requester;
        me.trial_passed = false;
        return true;
    }
    me.ending |= number == SIGTERM || number == SIGINT;
    kill(me.worker_pid, me.ending ? SIGTERM : number);
    return true;
}

static int serve(void)
{
    struct pollfd fds[] = {{.fd = me.signal_fd, .events = POLLIN},
                           {.fd = me.own_end, .events = POLLIN}};
    struct signalfd_siginfo info;
    struct supervisor_message message;
    int status = 0;

    for (;;) {
        poll(fds, 2, me.requester || me.took_over ? POLL_MS : -1);
        if (recv(me.own_end, &message, sizeof message, MSG_DONTWAIT) == (ssize_t)sizeof message) {
            if (message.fd == START_NOTIFIER) {
                message.fd = notifier_start();
                message.done = message.fd >= 0;
            } else {
                message.done = ring_keep(&message);
            }
            send(me.own_end, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        while (read(me.signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
            if (!signal_take(&info, &status))
                return status;
        if (me.took_over && me.inflight->ready) {
            upgrade_done(me.lock_fd);
            me.took_over = false;
        }
        if (me.requester && me.inflight->ready)
            program_replace(me.requester);
    }
}

static int give_up(const struct worker *worker, const char *what)
{
    message_log(LOG_ERR, "%s: %s", what, strerror(errno));
    mount_end(&worker->mount);
    return 1;
}

static void offer_upgrades(void)
{
    me.lock_fd = upgrade_lock(me.options->mountpoint);
    fd_exempt(me.lock_fd);
}

/* After an upgrade, or after a new program that could not start: maps the rings, kills the old
 * worker, which had them mapped, and starts another one. */
static void resume(void)
{
    const char *failed = upgrade_failure(me.options);
    char why[512];

    if (!me.options->foreground)
        messages_to_syslog();
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    prctl(PR_SET_NAME, "pmcfs"); /* execution by descriptor sets another name */
    me.inflight->restarts++;
    me.worker_pid = me.inflight->worker;
    for (unsigned i = 0; i < INFLIGHT_RINGS; i++) {
        const struct inflight_ring ring = me.inflight->rings[i];

        me.inflight->rings[i] = (struct inflight_ring){0};
        if (ring.fd)
            ring_map(i, ring.fd, ring.bytes);
    }
    kill(me.worker_pid, SIGKILL);
    while (waitpid(me.worker_pid, NULL, 0) < 0 && errno == EINTR)
        ;
    me.inflight->last_worker = 0;
    offer_upgrades();
    if (failed) {
        snprintf(why, sizeof why, "the new program could not start: %s", failed);
        upgrade_refuse(me.lock_fd, why);
    } else {
        message_log(LOG_NOTICE, "upgrade: this program now serves \"%s\"", me.options->mountpoint);
        me.took_over = true;
    }
    while (!worker_start())
        pause_ms(BACK_OFF_MOST);
}

int supervise(struct worker *worker, struct inflight *inflight, int inflight_fd)
{
    if (worker->options->resume_fd) {
        resume();
    } else {
        if (!supervisor_init(worker, inflight, inflight_fd))
            return give_up(worker, "cannot supervise");
        offer_upgrades();
        if (!worker_start())
            return give_up(worker, "cannot start a worker process");
    }
    int status = serve();
    if (WIFSIGNALED(status) && !me.ending)
        message_log(LOG_CRIT,
                    "worker process %d was killed by signal %d before it started to serve",
                    me.worker_pid, WTERMSIG(status));
    mount_end(&worker->mount);
    return WIFEXITED(status) ? WEXITSTATUS(status) != 0 : me.ending ? 0 : 1;
}
