/*
 * What /proc says about the tasks of a target: who is there, who is still there, who is in a fork.
 */
#include "backends/look.h"
#include "backends/perf/census.h"
#include "backends/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LATE_RECORD_TRIES = 40,
    LATE_RECORD_US = 100,
    TASK_PATH_BYTES = 64
};

/* After a call that gave no descriptor: is that so because there is none? Then nobody knows who was
 * not seen. */
static void note_starved(struct census *census)
{
    census->starved |= errno == EMFILE || errno == ENFILE;
}

/* A directory stream of /proc/PID/task, through the target's own directory where it is the target.
 */
static DIR *task_dir_open(struct census *census, pid_t pid)
{
    char path[40];
    DIR *dir;
    int fd;

    if (pid == census->plan->target.pid) {
        fd = openat(census->task_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } else {
        snprintf(path, sizeof path, "/proc/%d/task", pid);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd < 0)
        note_starved(census);
    else if (!dir)
        close(fd);
    return dir;
}

static pid_t task_dir_next(DIR *dir)
{
    for (struct dirent *d = readdir(dir); d; d = readdir(dir)) {
        char *end;
        long tid = strtol(d->d_name, &end, 10);

        if (tid > 0 && !*end)
            return (pid_t)tid;
    }
    return 0;
}

/* Then what is listed does not matter any more: the attach is refused. */
static bool is_late(const struct census *census)
{
    return census->plan->deadline_ns && census_now_ns() >= census->plan->deadline_ns;
}

static void add_listed(struct census *census, pid_t tid, pid_t pid, enum task_state state)
{
    census_add(
        census,
        &(struct task){
            .tid = tid, .pid = pid, .state = state, .parent = -1, .root = -1, .asked = true});
}

static size_t children_read(struct census *census, DIR *dir, pid_t tid, char **text)
{
    char name[32];
    size_t len = 0, size = 0;
    int fd;

    *text = NULL;
    snprintf(name, sizeof name, "%d/children", tid);
    fd = openat(dirfd(dir), name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        note_starved(census);
        return 0;
    }
    for (;;) {
        if (len + 512 > size) {
            char *bigger = realloc(*text, size = 2 * size + 4096);

            if (!bigger)
                break;
            *text = bigger;
        }
        ssize_t n = read(fd, *text + len, size - len - 1);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    close(fd);
    if (*text)
        (*text)[len] = '\0';
    return len;
}

/* Of one thread: behind all others in the list of processes. */
static int list_children(struct census *census, DIR *dir, pid_t tid, struct err *err)
{
    char *text, *at, *end;
    int rc = 0;

    children_read(census, dir, tid, &text);
    for (at = text; at && !rc; at = end) {
        pid_t pid = (pid_t)strtol(at, &end, 10);
        enum task_state state;

        if (end == at || pid <= 0)
            break;
        if (census_find(census, pid) >= 0)
            continue;
        rc = census_ask(census, pid, &state, err);
        if (rc)
            break;
        add_listed(census, pid, pid, state);
        if (state != TASK_OUT) /* else nothing below it is looked at */
            census_add_process(census, pid, state);
    }
    free(text);
    return rc;
}

/* Threads of one process, and its children. */
static int list_process(struct census *census, size_t i, struct err *err)
{
    const struct listed process = census->processes[i];
    DIR *dir = task_dir_open(census, process.pid);
    int rc = 0;

    for (pid_t tid; dir && !rc && !is_late(census) && (tid = task_dir_next(dir));) {
        if (census_find(census, tid) < 0)
            add_listed(census, tid, process.pid, process.state);
        if (census->plan->descendants)
            rc = list_children(census, dir, tid, err);
    }
    if (dir)
        closedir(dir);
    return rc ? rc : census->failed ? err_set(err, E32, "no memory for the list of threads") : 0;
}

int census_list(struct census *census, struct err *err)
{
    size_t listed = 1;
    int rc = 0;

    census->looked_at = 1;
    if (!census_add_process(census, census->plan->target.pid, TASK_WAITING))
        return err_set(err, E32, "no memory for the list of threads");
    /* Twice: a list of threads can skip one while others end. */
    for (int i = 0; i < 2 && !rc; i++) {
        rc = list_process(census, 0, err);
        for (; listed < census->n_processes && !rc; listed++)
            rc = list_process(census, listed, err);
    }
    return rc;
}

/* Beneath the target's own directory, or (for openat, the same) from the root. */
static void task_path(const struct census *census, const struct task *task, const char *file,
                      char path[static TASK_PATH_BYTES])
{
    int n = 0;

    if (task->pid != census->plan->target.pid)
        n = snprintf(path, TASK_PATH_BYTES, "/proc/%d/task/", task->pid);
    snprintf(path + n, TASK_PATH_BYTES - (size_t)n, "%d/%s", task->tid, file);
}

bool census_lives(const struct census *census, const struct task *task)
{
    char path[TASK_PATH_BYTES];

    task_path(census, task, "", path);
    return !faccessat(census->task_dir, path, F_OK, 0);
}

/* A leader that was gone when it was to be opened, and is there: an exec gave its number away. */
static bool leader_is_back(DIR *dir, pid_t tid)
{
    char path[32];
    struct proc_stat stat;

    for (int i = 0; i < 10; i++) {
        snprintf(path, sizeof path, "%d/stat", tid);
        int rc = proc_stat_at(dirfd(dir), path, &stat);
        if (rc < 0)
            return !proc_is_gone(rc);
        if (proc_stat_dead(&stat))
            return false;
        usleep(200);
    }
    return true;
}

/*
 * A thread that is not known. Its record may still be under way; without one it was overlooked by
 * the first list, or its creator is held up just before the record: the next list will have it.
 */
static void newcomer_await(struct census *census, pid_t tid, pid_t pid)
{
    struct task task = {.tid = tid, .pid = pid};

    for (int i = 0; i < LATE_RECORD_TRIES; i++) {
        if (census_update(census, NULL) || census_find(census, tid) >= 0 ||
            !census_lives(census, &task))
            return;
        usleep(LATE_RECORD_US);
    }
    census->undecided = true;
}

static bool process_complete(struct census *census, pid_t pid)
{
    DIR *dir = task_dir_open(census, pid);
    bool complete = true;

    for (pid_t tid; dir && (tid = task_dir_next(dir));) {
        int i = census_find(census, tid);

        if (i < 0 && !census->listening)
            complete = false;
        else if (i < 0)
            newcomer_await(census, tid, pid);
        else if (tid == pid && (census->tasks[i].state == TASK_GONE || census->tasks[i].dead) &&
                 leader_is_back(dir, tid))
            census->undecided = true;
    }
    if (dir)
        closedir(dir);
    return complete;
}

bool census_complete(struct census *census)
{
    bool complete = true;

    for (size_t i = 0; i < census->n_processes; i++)
        complete &= process_complete(census, census->processes[i].pid);
    return complete;
}

/* The beginning of one of its files in /proc; its length, -1: it is gone, 0: it is not to be read.
 * In a look: raw calls only. */
static ssize_t task_read(struct census *census, const struct task *task, const char *file,
                         char *text, size_t size)
{
    char path[TASK_PATH_BYTES];
    ssize_t n;

    task_path(census, task, file, path);
    census->look_fd = openat(census->task_dir, path, O_RDONLY | O_CLOEXEC);
    if (census->look_fd < 0) {
        note_starved(census);
        return errno == ENOENT || errno == ESRCH ? -1 : 0;
    }
    n = read(census->look_fd, text, size - 1);
    close(census->look_fd);
    census->look_fd = -1;
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? n : 0;
}

enum birth census_makes_child(struct census *census, const struct task *task)
{
    char text[64], *end; /* "running", or the call's number and its arguments */
    ssize_t n = task_read(census, task, "syscall", text, sizeof text);
    long call = n > 0 ? strtol(text, &end, 10) : 0;

    if (n < 0)
        return BIRTH_NONE;
    if (n == 0 || end == text)
        return BIRTH_RUNNING;
    switch (call) {
#ifdef SYS_fork
    case SYS_vfork:
        return BIRTH_VFORK;
    case SYS_fork:
#endif
    case SYS_clone3:
        return BIRTH_WAITING;
    case SYS_clone:
        return strtoul(end, NULL, 16) & CLONE_VFORK ? BIRTH_VFORK : BIRTH_WAITING;
    default:
        return BIRTH_NONE;
    }
}

uint64_t census_ran_ns(struct census *census, const struct task *task)
{
    char text[64], *end;
    ssize_t n = task_read(census, task, "schedstat", text, sizeof text);
    uint64_t ran_ns = n > 0 ? strtoull(text, &end, 10) : 0;

    return n > 0 && end != text ? ran_ns : UINT64_MAX;
}
