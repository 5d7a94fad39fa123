/*
 * Opens the file that a path means: as seen by a process that mapped it (from the PMC's log), else
 * by a target, else here. Also sums the log's drop records (`losses`).
 */
#include "examples/pmc-names/names.h"

#include "core/base/scan.h"
#include "core/base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAPPED_MAX  65536
#define TARGETS_MAX 256

struct mapped {
    UT_hash_handle hh;
    uint32_t pid; /* the key is this member and the path */
    char path[];  /* path in the log, unescaped */
};

static struct {
    struct mapped *mapped; /* in the order of the log */
    uint32_t target[TARGETS_MAX];
    unsigned n_targets;
} places;

struct losses losses;

/* ---- the log ---- */

static void mapped_add(uint32_t pid, char *path)
{
    struct mapped *known, *one;
    size_t bytes;

    text_unescape(path);
    bytes = strlen(path) + 1;
    one = HASH_COUNT(places.mapped) < MAPPED_MAX ? malloc(sizeof *one + bytes) : NULL;
    if (!one)
        return;
    one->pid = pid;
    memcpy(one->path, path, bytes);
    HASH_FIND(hh, places.mapped, &one->pid, sizeof one->pid + bytes, known);
    if (!known)
        HASH_ADD(hh, places.mapped, pid, sizeof one->pid + bytes, one);
    if (known || !hash_has(one))
        free(one);
}

/* Adds a record " drop lost=1 where=kernel" to `losses`. where=inventory is ignored, because it
 * counts processes, not samples. */
static void drop_add(const char *line)
{
    const char *lost = strstr(line, " lost="), *where = strstr(line, " where=");
    const uint64_t n = lost ? strtoull(lost + strlen(" lost="), NULL, 10) : 0;

    if (!where || strstr(where, "=inventory"))
        return;
    if (strstr(where, "=throttle"))
        losses.throttled++;
    else if (strstr(where, "=hidden"))
        losses.hidden += n;
    else
        losses.lost += n;
}

/* Takes a record of the log: "TIME map-in pid=1 start=… end=… offset=… path=/a", or a drop. */
static void log_line(char *line)
{
    char *path = strstr(line, " path=/"), *pid = line + strcspn(line, " ");

    if (strncmp(pid, " drop ", strlen(" drop ")) == 0)
        drop_add(pid);
    if (!path || strncmp(pid, " map-in pid=", strlen(" map-in pid=")) != 0)
        return;
    path += strlen(" path=");
    path[strcspn(path, " \n")] = '\0';
    mapped_add((uint32_t)strtoul(pid + strlen(" map-in pid="), NULL, 10), path);
}

/* Reads a target: "1234", or "tid:1234" (/proc also has directories of threads). Others are
 * ignored. */
static void target_line(char *line)
{
    const char *number = strncmp(line, "tid:", 4) == 0 ? line + 4 : line;
    unsigned long pid = strtoul(number, NULL, 10);

    if (pid > 0 && places.n_targets < TARGETS_MAX)
        places.target[places.n_targets++] = (uint32_t)pid;
}

FILE *pmc_open(const char *directory, const char *name)
{
    char *path = NULL;
    FILE *file = NULL;
    int fd = -1;

    if (asprintf(&path, "%s/%s", directory, name) >= 0) {
        fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        free(path);
    }
    if (fd >= 0)
        file = fdopen(fd, "r");
    return file;
}

void pmc_lines(const char *directory, const char *name, void (*take)(char *line))
{
    FILE *file = pmc_open(directory, name);
    char *line = NULL;
    size_t size = 0;

    while (file && getline(&line, &size, file) > 0)
        take(line);
    free(line);
    if (file)
        fclose(file);
}

void places_read(const char *directory)
{
    pmc_lines(directory, "target", target_line);
    pmc_lines(directory, "samples", log_line);
}

/* ---- files ---- */

/*
 * Reopens an O_PATH descriptor for reading if it is a regular file, and closes the O_PATH
 * descriptor. Devices and pipes are never opened, because opening can have effects. Files without
 * blocks, as in /proc and /sys, are not opened either: reading can have effects.
 */
static int found_open(int found)
{
    struct stat status;
    char path[32];
    int fd = -1;

    if (found < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", found);
    if (fstat(found, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
        status.st_blocks > 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    close(found);
    return fd;
}

/* Opens a regular file below a root ("": the own) as found_open() does. flags: 0, or O_NOFOLLOW:
 * then the last component must not be a symbolic link. */
static int open_below(const char *root, const char *path, int flags)
{
    const struct open_how how = {.flags = (unsigned)(O_PATH | O_CLOEXEC | flags),
                                 .resolve = RESOLVE_IN_ROOT};
    int dir, fd;

    if (!*root)
        return found_open(open(path, O_PATH | O_CLOEXEC | flags));
    dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -1;
    fd = found_open((int)syscall(SYS_openat2, dir, path, &how, sizeof how));
    close(dir);
    return fd;
}

int place_open_below(const char *root, const char *path)
{
    return open_below(root, path, 0);
}

static int root_open(uint32_t pid, const char *path, int flags)
{
    char root[32];

    snprintf(root, sizeof root, "/proc/%" PRIu32 "/root", pid);
    return open_below(root, path, flags);
}

static int process_open(uint32_t pid, const char *path, char **name, char **root)
{
    int fd = root_open(pid, path, 0);

    if (fd < 0)
        return -1;
    if (asprintf(root, "/proc/%" PRIu32 "/root", pid) >= 0 &&
        asprintf(name, "%s%s", *root, path) >= 0)
        return fd;
    close(fd);
    return -1;
}

int place_open(const char *path, char **name, char **root)
{
    int fd = -1;

    for (struct mapped *one = places.mapped; one && fd < 0; one = one->hh.next)
        if (strcmp(one->path, path) == 0)
            fd = process_open(one->pid, path, name, root);
    for (unsigned i = 0; i < places.n_targets && fd < 0; i++)
        fd = process_open(places.target[i], path, name, root);
    if (fd >= 0)
        return fd;
    *name = strdup(path);
    *root = strdup("");
    return place_open_below("", path);
}

/* Finds the PID of a process in its own namespace, and its user. */
static bool process_facts(uint32_t pid, uint32_t *inner, uid_t *uid)
{
    char path[32], *line = NULL, *last;
    size_t size = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/status", pid);
    file = fopen(path, "re");
    *inner = pid;
    while (file && getline(&line, &size, file) > 0) {
        if (strncmp(line, "Uid:", 4) == 0)
            *uid = (uid_t)strtoul(line + 4, NULL, 10);
        last = strncmp(line, "NSpid:", 6) == 0 ? strrchr(line, '\t') : NULL;
        if (last)
            *inner = (uint32_t)strtoul(last, NULL, 10);
    }
    free(line);
    if (file)
        fclose(file);
    return file != NULL;
}

/* Every user can create links in /tmp, so symbolic links are not followed. */
FILE *place_open_map(uint32_t pid)
{
    uid_t uid = geteuid();
    struct stat status;
    uint32_t inner;
    char path[64];
    int fd = -1;

    if (process_facts(pid, &inner, &uid)) {
        snprintf(path, sizeof path, "/tmp/perf-%" PRIu32 ".map", inner);
        fd = root_open(pid, path, O_NOFOLLOW);
    }
    if (fd < 0) {
        snprintf(path, sizeof path, "/tmp/perf-%" PRIu32 ".map", pid);
        fd = open_below("", path, O_NOFOLLOW);
    }
    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) == 0 && status.st_nlink == 1 &&
        (status.st_uid == uid || status.st_uid == 0 || status.st_uid == geteuid()))
        return fdopen(fd, "r");
    close(fd);
    return NULL;
}
