#include "fs/program/upgrade.h"

#include "fs/program/mount.h"
#include "fs/requests/say.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define PLACE   "/run/pmcfs"
#define WAIT_MS 10000

/* A file for each device: the mount's number in the kernel. */
static int lock_open(const char *mountpoint, int flags)
{
    char name[64];
    unsigned minor;

    if (!mount_device(mountpoint, &minor))
        return -1;
    if (mkdir(PLACE, 0700) < 0 && errno != EEXIST)
        return -1;
    snprintf(name, sizeof name, PLACE "/%u", minor);
    return open(name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int upgrade_offer(const char *mountpoint)
{
    const int fd = lock_open(mountpoint, O_RDWR | O_CREAT);
    const struct timespec pause = {.tv_nsec = 10000000};
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    /* The last worker of the one that had the number before may be about to end. */
    for (unsigned i = 0; fd >= 0 && i < 20; i++) {
        if (fcntl(fd, F_SETLK, &lock) == 0)
            return fd;
        nanosleep(&pause, NULL);
    }
    say(LOG_WARNING, "pmcfs --upgrade will not find this mount: " PLACE ": %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- the supervisor's side ---- */

/* A file of /proc/PID, NUL-terminated. False: it cannot be read. */
static bool asker_text(int dir, const char *name, char *text, size_t size)
{
    const int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    for (ssize_t i = 0; i < n; i++)
        if (!text[i])
            text[i] = ' ';
    return n > 0;
}

static bool capabilities_of(int dir, const char *key, uint64_t *set)
{
    char text[4096];
    const char *at = asker_text(dir, "status", text, sizeof text) ? strstr(text, key) : NULL;

    if (at)
        *set = strtoull(at + strlen(key), NULL, 16);
    return at != NULL;
}

/* Uid 0 alone is not enough: the asker may do all that the program will, in the same namespace. */
static bool asker_may(int dir)
{
    const int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat mine, theirs;
    uint64_t needed, held;
    const bool may = self >= 0 && fstatat(self, "ns/user", &mine, 0) == 0 &&
                     fstatat(dir, "ns/user", &theirs, 0) == 0 && mine.st_ino == theirs.st_ino &&
                     mine.st_dev == theirs.st_dev &&
                     capabilities_of(self, "\nCapBnd:", &needed) &&
                     capabilities_of(dir, "\nCapEff:", &held) && (needed & ~held) == 0;

    if (self >= 0)
        close(self);
    return may;
}

int upgrade_program(pid_t asker)
{
    char name[32], words[4096];
    int fd = -1;

    snprintf(name, sizeof name, "/proc/%d", asker);
    const int dir = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0 && asker_may(dir) && asker_text(dir, "cmdline", words, sizeof words) &&
        strstr(words, " --upgrade"))
        fd = openat(dir, "exe", O_RDONLY | O_CLOEXEC);
    if (dir >= 0)
        close(dir);
    return fd;
}

bool upgrade_wait(pid_t pid, siginfo_t *info, int options)
{
    const struct timespec pause = {.tv_nsec = 2000000};

    info->si_pid = 0;
    for (unsigned i = 0; i < WAIT_MS / 4; i++) {
        if (waitid(P_PID, (id_t)pid, info, options | WNOHANG) < 0 || info->si_pid)
            return info->si_pid == pid;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* The first line of what --check said, without the program's name; or how it ended. */
static void trial_told(int said, const siginfo_t *info, char *why, size_t size)
{
    const ssize_t n = pread(said, why, size - 1, 0);
    char *text = why;

    why[n > 0 ? n : 0] = '\0';
    why[strcspn(why, "\n")] = '\0';
    if (strncmp(text, "pmcfs: ", 7) == 0)
        memmove(why, text + 7, strlen(text + 7) + 1);
    if (!why[0])
        snprintf(why, size, "its --check ended with %s %d",
                 info->si_code == CLD_EXITED ? "status" : "signal", info->si_status);
}

static _Noreturn void trial_run(int program, int hand_fd, char **argv, int said)
{
    char *words[UPGRADE_WORDS + 1] = {argv[0], (char *)"--check"};

    memcpy(words + 2, argv + 1, (UPGRADE_WORDS - 1) * sizeof *words);
    fcntl(hand_fd, F_SETFD, 0);
    dup2(said, STDERR_FILENO);
    execveat(program, "", words, environ, AT_EMPTY_PATH);
    dprintf(STDERR_FILENO, "it cannot be executed: %s\n", strerror(errno));
    _exit(127);
}

bool upgrade_tried(int program, int hand_fd, char **argv, char *why, size_t size)
{
    const int said = memfd_create("pmcfs --check", MFD_CLOEXEC);
    const pid_t pid = said < 0 ? -1 : fork();
    siginfo_t info = {.si_pid = 0};

    if (pid == 0)
        trial_run(program, hand_fd, argv, said);
    const bool ended = pid > 0 && upgrade_wait(pid, &info, WEXITED);
    if (pid < 0) {
        snprintf(why, size, "it cannot be tried: %s", strerror(errno));
    } else if (!ended) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        snprintf(why, size, "its --check did not end within %d s", WAIT_MS / 2000);
    } else {
        trial_told(said, &info, why, size);
    }
    if (said >= 0)
        close(said);
    return ended && info.si_code == CLD_EXITED && info.si_status == 0;
}

void upgrade_refuse(int lock_fd, const char *why)
{
    say(LOG_ERR, "this program stays: %s", why);
    if (lock_fd >= 0 && ftruncate(lock_fd, 0) == 0 && lseek(lock_fd, 0, SEEK_SET) == 0)
        dprintf(lock_fd, "%s\n", why);
}

/* ---- the asker's ---- */

static bool runs_this(pid_t pid)
{
    char name[32];
    struct stat theirs, mine;

    snprintf(name, sizeof name, "/proc/%d/exe", pid);
    return stat(name, &theirs) == 0 && stat("/proc/self/exe", &mine) == 0 &&
           theirs.st_dev == mine.st_dev && theirs.st_ino == mine.st_ino;
}

/* -1: it cannot be read. */
static long restarts_of(const char *mountpoint)
{
    char name[4096], line[256];
    long restarts = -1;

    snprintf(name, sizeof name, "%s/info/stats", mountpoint);
    FILE *file = fopen(name, "re");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "restarts %ld", &restarts);
    if (file)
        fclose(file);
    return restarts;
}

/* What the supervisor wrote behind its lock: a whole line. */
static bool refusal_read(int fd, char *why, size_t size)
{
    const ssize_t n = pread(fd, why, size - 1, 0);

    why[n > 0 ? n : 0] = '\0';
    char *end = strchr(why, '\n');
    if (end)
        *end = '\0';
    return end != NULL;
}

/* By a process of this program that was not there before. Else `why` says why not. */
static bool taken_over(const char *mountpoint, int fd, pid_t pid, char *why, size_t size)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    const long restarts = restarts_of(mountpoint);

    if (ftruncate(fd, 0) < 0 || kill(pid, SIGUSR1) < 0) {
        snprintf(why, size, "process %d cannot be asked: %s", (int)pid, strerror(errno));
        return false;
    }
    for (unsigned i = 0; i < WAIT_MS / 10; i++) {
        nanosleep(&pause, NULL);
        if (kill(pid, 0) < 0) {
            snprintf(why, size, "process %d has ended, and the mount with it", (int)pid);
            return false;
        }
        if (refusal_read(fd, why, size))
            return false;
        if (runs_this(pid) && restarts_of(mountpoint) > restarts)
            return true;
    }
    snprintf(why, size, "process %d has not answered for %d s", (int)pid, WAIT_MS / 1000);
    return false;
}

int upgrade_ask(const char *mountpoint)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int fd = lock_open(mountpoint, O_RDWR);
    char why[512];

    if (geteuid() != 0) {
        say(LOG_ERR, "cannot upgrade \"%s\": only root may", mountpoint);
        return 1;
    }
    if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK || lock.l_pid <= 0) {
        say(LOG_ERR, "cannot upgrade \"%s\": no supervised pmcfs is mounted there", mountpoint);
        return 1;
    }
    if (taken_over(mountpoint, fd, lock.l_pid, why, sizeof why))
        return 0;
    say(LOG_ERR, "\"%s\" was not taken over: %s", mountpoint, why);
    return 1;
}
