#include "fs/program/upgrade.h"

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "fs/program/mount.h"
#include "fs/program/options.h"
#include "fs/requests/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#define RUN_DIR     "/run/pmcfs"
#define WAIT_MS     10000
#define TRIAL_BYTES 65536        /* limit of the output of --check */
#define DONE        "taken over" /* the answer to the requester; any other text is a refusal */

/* Opens the lock file of a mount, named after its device number. Sets ENODEV if nothing is mounted,
 * or EPERM if other users can write to the directory: root sends a signal to the lock's holder. */
static int lock_open(const char *mountpoint, int flags)
{
    char name[16];
    unsigned minor;
    struct stat stat;

    if (!mount_device(mountpoint, &minor))
        return -1;
    const int dir = open(RUN_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return -1;
    int fd = -1;
    snprintf(name, sizeof name, "%u", minor);
    if (fstat(dir, &stat) == 0) {
        if (stat.st_uid == geteuid() && !(stat.st_mode & 022))
            fd = openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
        else
            errno = EPERM;
    }
    const int error = errno;
    close(dir);
    errno = error;
    return fd;
}

int upgrade_lock(const char *mountpoint)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = -1;

    /* The last worker of an earlier mount with this number may still be exiting. */
    for (unsigned i = 0; i < (fd < 0 ? 3 : 300); i++) {
        if (i)
            pause_ms(10);
        if (fd < 0 && (mkdir(RUN_DIR, 0700) == 0 || errno == EEXIST))
            fd = lock_open(mountpoint, O_RDWR | O_CREAT);
        if (fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0)
            return fd;
    }
    message_log(LOG_WARNING, "pmcfs --upgrade will not find this mount: " RUN_DIR ": %s",
                errno == EPERM ? "other users can write to it" : strerror(errno));
    fd_close(fd);
    return -1;
}

/* ---- the supervisor's side ---- */

/* Reads a file of /proc/PID and replaces NULs by blanks. Returns false if it cannot be read. */
static bool proc_read(int dir, const char *name, char *text, size_t size)
{
    const int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    fd_close(fd);
    text[n > 0 ? n : 0] = '\0';
    for (ssize_t i = 0; i < n; i++)
        if (!text[i])
            text[i] = ' ';
    return n > 0;
}

static bool capabilities_of(int dir, const char *key, uint64_t *set)
{
    char text[4096];
    const char *at = proc_read(dir, "status", text, sizeof text) ? strstr(text, key) : NULL;

    if (at)
        *set = strtoull(at + strlen(key), NULL, 16);
    return at != NULL;
}

/* Returns true if the requester has all capabilities of the daemon in the same user namespace. Uid
 * 0 is not enough. */
static bool requester_is_allowed(int dir)
{
    const int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat mine, theirs;
    uint64_t needed, held;
    const bool may = self >= 0 && fstatat(self, "ns/user", &mine, 0) == 0 &&
                     fstatat(dir, "ns/user", &theirs, 0) == 0 && mine.st_ino == theirs.st_ino &&
                     mine.st_dev == theirs.st_dev && capabilities_of(self, "\nCapBnd:", &needed) &&
                     capabilities_of(dir, "\nCapEff:", &held) && (needed & ~held) == 0;

    fd_close(self);
    return may;
}

int upgrade_open_program(pid_t requester, char *why, size_t size)
{
    char name[32], words[4096];
    int fd = -1;

    snprintf(name, sizeof name, "/proc/%d", requester);
    errno = 0;
    const int dir = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0 && requester_is_allowed(dir) && proc_read(dir, "cmdline", words, sizeof words) &&
        strstr(words, " --upgrade"))
        fd = openat(dir, "exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno)
        snprintf(why, size, "cannot inspect process %d: %s", requester, strerror(errno));
    else if (fd < 0)
        snprintf(why, size,
                 "process %d may not replace it: run pmcfs --upgrade as root, with all "
                 "capabilities of the daemon",
                 requester);
    fd_close(dir);
    return fd;
}

/* Calls waitid() until the child changes state. Returns false after a time limit, or if there is no
 * such child. */
static bool child_wait_limited(pid_t pid, siginfo_t *info, int options)
{
    info->si_pid = 0;
    for (unsigned i = 0; i < WAIT_MS / 4; i++) {
        if (waitid(P_PID, (id_t)pid, info, options | WNOHANG) < 0 || info->si_pid)
            return info->si_pid == pid;
        pause_ms(2);
    }
    return false;
}

#define TRIAL                                                                                      \
    "the new program does not start with the options and the configuration of this mount: "

/* Returns true if --check has succeeded. Otherwise writes the first line of its output without the
 * program's name, or its exit status, to `why`. */
static bool trial_passed(int output, const siginfo_t *info, char *why, size_t size)
{
    char text[TRIAL_BYTES + 1], *line = text;
    const ssize_t n = pread(output, text, TRIAL_BYTES, 0);
    const bool fine = info->si_code == CLD_EXITED && info->si_status == 0;

    text[n > 0 ? n : 0] = '\0';
    if (fine && strstr(text, UPGRADE_READY))
        return true;
    line[strcspn(line, "\n")] = '\0';
    line += strncmp(line, "pmcfs: ", 7) == 0 ? 7 : 0;
    for (char *at = line; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    if (fine)
        snprintf(why, size, "the new program is not pmcfs, or its version is too old");
    else if (line[0])
        snprintf(why, size, TRIAL "%.350s", line);
    else
        snprintf(why, size, TRIAL "its --check exited with %s %d",
                 info->si_code == CLD_EXITED ? "status" : "signal", info->si_status);
    return false;
}

bool upgrade_try(int program, int inflight_fd, char **argv, char *why, size_t size)
{
    const int output = memfd_create("pmcfs --check", MFD_CLOEXEC);
    const pid_t pid = output < 0 ? -1 : fork();
    char *words[UPGRADE_ARGS + 1] = {argv[0], (char *)"--check"};
    siginfo_t info = {.si_pid = 0};

    if (pid == 0) {
        memcpy(words + 2, argv + 1, (UPGRADE_ARGS - 1) * sizeof *words);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){TRIAL_BYTES, TRIAL_BYTES});
        fcntl(inflight_fd, F_SETFD, 0);
        dup2(output, STDERR_FILENO);
        execveat(program, "", words, environ, AT_EMPTY_PATH);
        dprintf(STDERR_FILENO, "cannot execute it: %s\n", strerror(errno));
        _exit(127);
    }
    const bool exited = pid > 0 && child_wait_limited(pid, &info, WEXITED);
    bool passed = false;
    if (pid < 0) {
        snprintf(why, size, "cannot try the new program: %s", strerror(errno));
    } else if (!exited) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        snprintf(why, size, TRIAL "its --check did not exit within %d s", WAIT_MS / 2000);
    } else {
        passed = trial_passed(output, &info, why, size);
    }
    fd_close(output);
    return passed;
}

/* ---- execution of the new program ---- */

/* Clears FD_CLOEXEC of all descriptors except one. Returns false and sets errno on failure. */
static bool fds_inherit(int except)
{
    struct dirent *entry;

    errno = 0;
    DIR *dir = opendir("/proc/self/fd");
    bool fine = dir != NULL;
    while (fine && (entry = readdir(dir))) {
        const int fd = (int)strtol(entry->d_name, NULL, 10);

        if (fd > 2 && fd != dirfd(dir) && fd != except)
            fine = fcntl(fd, F_SETFD, 0) == 0;
    }
    const int error = errno;
    if (dir)
        closedir(dir);
    errno = error;
    return fine && !error;
}

/* Executes the new program and passes it a descriptor of this one. Returns only on failure. */
static void program_execute(int program, pid_t worker, int lock_fd, char **argv)
{
    char resume[64], *words[UPGRADE_ARGS];
    const int back = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const pid_t supervisor = getpid(), guard = back < 0 ? -1 : fork();

    /* The guard continues the stopped worker if this process exits before it has taken over. The
     * worker then receives the signal for its parent's death. */
    if (guard == 0) {
        close_range(0, ~0U, 0);
        while (kill(worker, 0) == 0 && getppid() == supervisor)
            pause_ms(20);
        kill(worker, SIGCONT);
        _exit(0);
    }
    memcpy(words, argv, sizeof words);
    snprintf(resume, sizeof resume, "%s,%d", argv[1], back);
    words[1] = resume;
    if (guard > 0 && fds_inherit(lock_fd))
        execveat(program, "", words, environ, AT_EMPTY_PATH);
    const int error = errno;
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    if (guard > 0)
        kill(guard, SIGKILL);
    fd_close(back);
    errno = error;
}

int upgrade_execute(int program, pid_t worker, int lock_fd, char **argv)
{
    siginfo_t info;
    int error;

    if (kill(worker, SIGSTOP) < 0) {
        error = errno;
    } else if (!child_wait_limited(worker, &info, WSTOPPED | WEXITED | WNOWAIT)) {
        error = ETIMEDOUT;
    } else if (info.si_code != CLD_STOPPED) {
        error = ECHILD; /* it exited */
    } else {
        program_execute(program, worker, lock_fd, argv);
        error = errno;
    }
    kill(worker, SIGCONT);
    return error;
}

void upgrade_roll_back(const struct options *options, char **argv, const char *why)
{
    const char *back = options->resume_fd ? strchr(options->resume_argument, ',') : NULL;
    static char resume[600];

    if (!back)
        return;
    snprintf(resume, sizeof resume, "--resume=%d:%s", options->resume_fd, why);
    argv[1] = resume;
    execveat(atoi(back + 1), "", argv, environ, AT_EMPTY_PATH);
}

const char *upgrade_failure(const struct options *options)
{
    const char *why = options->resume_fd ? strchr(options->resume_argument, ':') : NULL;

    return why ? why + 1 : NULL;
}

static void answer_write(int lock_fd, const char *line)
{
    if (lock_fd >= 0 && lseek(lock_fd, 0, SEEK_SET) == 0)
        dprintf(lock_fd, "%s\n", line);
}

void upgrade_refuse(int lock_fd, const char *why)
{
    message_log(LOG_ERR, "upgrade refused, this program continues: %s", why);
    answer_write(lock_fd, why);
}

void upgrade_done(int lock_fd)
{
    answer_write(lock_fd, DONE);
}

/* ---- the command ---- */

/* Signals the supervisor and waits for its answer. Returns false with the reason in `why`. Space
 * for the answer is allocated first, so that on a full file system nothing happens. */
static bool program_replaced(int fd, pid_t pid, char *why, size_t size)
{
    errno = ftruncate(fd, 0) < 0 ? errno : posix_fallocate(fd, 0, (off_t)size);
    if (errno || kill(pid, SIGUSR1) < 0) {
        snprintf(why, size, "cannot send a request to process %d: %s", (int)pid, strerror(errno));
        return false;
    }
    for (unsigned i = 0; i < WAIT_MS / 10; i++) {
        pause_ms(10);
        const ssize_t n = pread(fd, why, size - 1, 0);

        why[n > 0 ? n : 0] = '\0';
        char *end = strchr(why, '\n');
        if (end) { /* the line is complete */
            *end = '\0';
            return strcmp(why, DONE) == 0;
        }
        if (kill(pid, 0) < 0) {
            snprintf(why, size, "process %d has exited, and its mount has ended", (int)pid);
            return false;
        }
    }
    snprintf(why, size, "process %d has not answered for %d s", (int)pid, WAIT_MS / 1000);
    return false;
}

int upgrade_request(const char *mountpoint)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char why[512];

    if (geteuid() != 0) {
        message_log(LOG_ERR, "cannot upgrade \"%s\": only root may", mountpoint);
        return 1;
    }
    const int fd = lock_open(mountpoint, O_RDWR);
    const char *refusal = NULL;

    /* One command at a time: the file has room for one answer, and the supervisor does not hold its
     * lock while a program starts. */
    for (unsigned i = 0; fd >= 0 && !refusal && flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (i == 2 * WAIT_MS / 10)
            refusal = "another upgrade of this mount is still running";
        pause_ms(10);
    }
    if (!refusal && (fd < 0 ? errno != ENOENT && errno != ENODEV : fcntl(fd, F_GETLK, &lock) < 0))
        refusal = errno == EPERM ? "other users can write to " RUN_DIR : strerror(errno);
    if (!refusal && (fd < 0 || lock.l_type == F_UNLCK || lock.l_pid <= 0))
        refusal = "no pmcfs that can be upgraded is mounted there (with -o single, none can)";
    if (refusal) {
        message_log(LOG_ERR, "cannot upgrade \"%s\": %s", mountpoint, refusal);
        return 1;
    }
    if (program_replaced(fd, lock.l_pid, why, sizeof why))
        return 0;
    message_log(LOG_ERR, "\"%s\" was not upgraded: %s", mountpoint, why);
    return 1;
}
