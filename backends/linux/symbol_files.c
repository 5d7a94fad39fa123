/*
 * Files and roots held by O_PATH descriptors: the file system is not asked for anything, so nobody
 * who serves one can make the daemon wait; nor can the process (look.h).
 */
#include "backends/linux/symbol_files.h"
#include "backends/linux/birth.h"
#include "backends/look.h"
#include "core/folded.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLAMES_MAX 2
#define LOOK_NS    5000000 /* nearly always enough */
#define LOOK_BYTES ((size_t)1 << 20)

struct held {
    enum symbol_kind kind;
    int fd;
    unsigned blames;
    uint32_t major, minor; /* ELF */
    uint64_t inode, generation;
    uint32_t shown; /* JIT: its number in the records; and the process, which has that number now */
    pid_t pid;
    uint64_t start;
    uint32_t inner_pid;
    uid_t uid;
};

struct log_files {
    pthread_mutex_t lock;
    struct held *held;
    unsigned n, size, max;
};

struct log_files *linux_files_new(struct host_state *state, unsigned max)
{
    struct log_files *files = calloc(1, sizeof *files);

    (void)state;
    if (!files)
        return NULL;
    files->max = max;
    pthread_mutex_init(&files->lock, NULL);
    return files;
}

void linux_files_keep(struct log_files *files)
{
    if (!files)
        return;
    pthread_mutex_destroy(&files->lock);
    free(files->held);
    free(files);
}

void linux_files_free(struct log_files *files)
{
    for (unsigned i = 0; files && i < files->n; i++)
        close(files->held[i].fd);
    linux_files_keep(files);
}

unsigned linux_files_count(const struct log_files *files)
{
    struct log_files *own = (struct log_files *)files; /* the lock is not part of the value */
    unsigned n;

    pthread_mutex_lock(&own->lock);
    n = files->n;
    pthread_mutex_unlock(&own->lock);
    return n;
}

/* ---- the table ---- */

/* Generation 0: not known (mappings read from /proc do not tell it). */
static bool held_is_file(const struct held *held, const struct record_map *map)
{
    return held->kind == SYMBOL_ELF && held->inode == map->inode && held->major == map->major &&
           held->minor == map->minor &&
           (held->generation == map->generation || !held->generation || !map->generation);
}

static uint32_t find_file(const struct log_files *files, const struct record_map *map)
{
    for (unsigned i = 0; i < files->n; i++)
        if (held_is_file(&files->held[i], map))
            return i;
    return SYMBOL_NONE;
}

static uint32_t find_process(const struct log_files *files, uint32_t shown)
{
    for (unsigned i = 0; i < files->n; i++)
        if (files->held[i].kind == SYMBOL_JIT && files->held[i].shown == shown)
            return i;
    return SYMBOL_NONE;
}

/* Takes the descriptor; in the place of `old` if that is one. */
static void held_add(struct log_files *files, uint32_t old, const struct held *held)
{
    pthread_mutex_lock(&files->lock);
    if (old != SYMBOL_NONE) {
        close(files->held[old].fd);
        files->held[old] = *held;
        pthread_mutex_unlock(&files->lock);
        return;
    }
    if (files->n == files->size) {
        unsigned size = files->size ? 2 * files->size : 16;
        struct held *larger = realloc(files->held, size * sizeof *larger);

        if (larger) {
            files->held = larger;
            files->size = size;
        }
    }
    if (files->n < files->size)
        files->held[files->n++] = *held;
    else
        close(held->fd);
    pthread_mutex_unlock(&files->lock);
}

uint32_t symbol_files_of_map(struct log_files *files, const struct record_map *map)
{
    uint32_t found;

    pthread_mutex_lock(&files->lock);
    found = map->inode ? find_file(files, map) : SYMBOL_NONE;
    pthread_mutex_unlock(&files->lock);
    return found;
}

uint32_t symbol_files_of_process(struct log_files *files, uint32_t shown, uid_t uid, bool anybodys)
{
    uint32_t found;

    pthread_mutex_lock(&files->lock);
    found = find_process(files, shown);
    if (found != SYMBOL_NONE && !anybodys && files->held[found].uid != uid)
        found = SYMBOL_NONE;
    pthread_mutex_unlock(&files->lock);
    return found;
}

int symbol_files_pick(struct log_files *files, uint32_t index, struct symbol_module *out)
{
    const struct held *held;
    int fd = -1;

    pthread_mutex_lock(&files->lock);
    held = &files->held[index];
    *out = (struct symbol_module){.kind = held->kind, .pid = held->inner_pid, .uid = held->uid};
    if (held->blames < BLAMES_MAX)
        fd = fcntl(held->fd, F_DUPFD_CLOEXEC, 3);
    pthread_mutex_unlock(&files->lock);
    return fd;
}

void symbol_files_blame(struct log_files *files, uint32_t index)
{
    pthread_mutex_lock(&files->lock);
    files->held[index].blames++;
    pthread_mutex_unlock(&files->lock);
}

/* ---- files ---- */

/* What of a process's file can be read in a short time, in whole lines: how long it is, and how
 * long each read takes, is up to who is observed. NULL: nothing. */
static char *text_look(pid_t pid, const char *name)
{
    const uint64_t until = clock_now_ns() + LOOK_NS;
    char path[64], *text = malloc(LOOK_BYTES + 1), *end;
    ssize_t len = 0;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    fd = text ? look_open(AT_FDCWD, path, O_RDONLY) : -1;
    if (fd >= 0) {
        len = look_read(fd, text, LOOK_BYTES, until);
        close(fd);
    }
    end = len > 0 ? memrchr(text, '\n', (size_t)len) : NULL;
    if (end) {
        *end = '\0';
        return text;
    }
    free(text);
    return NULL;
}

struct vma {
    uint64_t start, end;
};

static int vma_open(pid_t pid, const struct vma *vma)
{
    char path[96];

    snprintf(path, sizeof path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, vma->start,
             vma->end);
    return look_open(AT_FDCWD, path, O_PATH);
}

/*
 * Ends the line and gives the next, or NULL. sscanf() looks for the end of all that it is given: a
 * long file would be gone through once for each line.
 */
static char *line_end(char *line)
{
    char *end = strchr(line, '\n');

    if (!end)
        return NULL;
    *end = '\0';
    return end + 1;
}

/* A mapping of that process that overlaps the record's and is of its file, from /proc/PID/maps. */
static bool vma_find(pid_t pid, const struct record_map *map, struct vma *out)
{
    char *text = text_look(pid, "maps");
    bool found = false;

    for (char *line = text, *next; line && !found; line = next) {
        unsigned major, minor;
        uint64_t inode;

        next = line_end(line);
        found = sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %x:%x %" SCNu64, &out->start,
                       &out->end, &major, &minor, &inode) == 5 &&
                major == map->major && minor == map->minor && inode == map->inode &&
                out->start < map->start + map->length && out->end > map->start;
    }
    free(text);
    return found;
}

/* A line of the target's mountinfo: the device and the type of a mount. */
static bool mount_find(pid_t pid, unsigned long id, unsigned device[2], char type[32])
{
    char *text = text_look(pid, "mountinfo");
    bool found = false;

    for (char *line = text, *next; line && !found; line = next) {
        const char *rest;
        unsigned long number;

        next = line_end(line);
        if (sscanf(line, "%lu %*u %u:%u", &number, &device[0], &device[1]) != 3 || number != id)
            continue;
        rest = strstr(line, " - ");
        found = rest && sscanf(rest + 3, "%31s", type) == 1;
    }
    free(text);
    return found;
}

/* Who serves these answers when he likes; the helper asks again, of the file system itself. */
static bool type_is_remote(const char *type)
{
    static const char *const remote[] = {"9p",   "afs", "autofs", "ceph", "cifs",
                                         "coda", "nfs", "nfs4",   "smb3", "smbfs"};

    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        if (strcmp(type, remote[i]) == 0)
            return true;
    return strncmp(type, "fuse", 4) == 0;
}

enum verdict {
    FILE_REFUSED,
    FILE_UNSURE, /* it cannot be told in this way */
    FILE_SAME
};

/*
 * Is this what the record speaks of? By inode and mount as the kernel knows them: stat() has other
 * numbers of devices for btrfs and overlays, and may have to ask who serves the file.
 */
static enum verdict file_compare(pid_t pid, int fd, const struct record_map *map)
{
    char path[48], type[32], *text;
    unsigned device[2] = {0, 0};
    enum verdict verdict = FILE_UNSURE;
    const char *mount, *inode;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    text = proc_text(path);
    mount = text ? proc_field(text, "mnt_id") : NULL;
    inode = text ? proc_field(text, "ino") : NULL; /* since Linux 5.14 */
    if (mount && mount_find(pid, strtoul(mount, NULL, 10), device, type)) {
        if (type_is_remote(type))
            verdict = FILE_REFUSED;
        else if (inode && strtoull(inode, NULL, 10) == map->inode && device[0] == map->major &&
                 device[1] == map->minor)
            verdict = FILE_SAME;
    }
    free(text);
    return verdict;
}

static int file_hold(pid_t pid, const struct record_map *map)
{
    struct vma vma = {map->start, map->start + map->length};
    int fd = vma_open(pid, &vma);
    enum verdict verdict = fd >= 0 ? file_compare(pid, fd, map) : FILE_UNSURE;

    if (fd == -ETIME)
        return -1;
    if (verdict == FILE_UNSURE) {
        /* Mappings are split, joined and replaced; what stands in maps has the record's numbers. */
        if (fd >= 0)
            close(fd);
        if (!vma_find(pid, map, &vma) || (fd = vma_open(pid, &vma)) < 0)
            return -1;
        verdict = file_compare(pid, fd, map);
    }
    if (verdict == FILE_REFUSED) {
        close(fd);
        return -1;
    }
    return fd;
}

static void file_take(struct log_files *files, pid_t pid, const struct record_map *map)
{
    struct held held = {.kind = SYMBOL_ELF,
                        .major = map->major,
                        .minor = map->minor,
                        .inode = map->inode,
                        .generation = map->generation};

    if (files->n >= files->max || symbol_files_of_map(files, map) != SYMBOL_NONE)
        return;
    held.fd = file_hold(pid, map);
    if (held.fd >= 0)
        held_add(files, SYMBOL_NONE, &held);
}

/* ---- processes that make code ---- */

static bool process_describe(struct held *held, pid_t pid)
{
    char *status = proc_task_text(pid, "status");
    const char *uids = status ? proc_field(status, "Uid") : NULL;
    const char *pids = status ? proc_field(status, "NSpid") : NULL;
    bool good = uids && pids && sscanf(uids, "%*u %u", &held->uid) == 1;

    while (good && pids && *pids && *pids != '\n') {
        char *end;

        held->inner_pid = (uint32_t)strtoul(pids, &end, 10);
        pids = end + strspn(end, " \t");
    }
    free(status);
    return good && held->inner_pid > 0;
}

/* time_ns: when it had that number. */
static void process_take(struct log_files *files, pid_t pid, uint32_t shown, uint64_t time_ns)
{
    struct held held = {.kind = SYMBOL_JIT, .shown = shown, .pid = pid};
    uint32_t old = symbol_files_of_process(files, shown, 0, true);
    struct proc_stat stat;
    char path[32];

    if (proc_stat(pid, 0, &stat) < 0 || born_after(stat.start, time_ns))
        return;
    held.start = stat.start;
    if (old != SYMBOL_NONE ? files->held[old].pid == pid && files->held[old].start == held.start
                           : files->n >= files->max)
        return;
    snprintf(path, sizeof path, "/proc/%d/root", pid);
    held.fd = process_describe(&held, pid) ? look_open(AT_FDCWD, path, O_PATH | O_DIRECTORY) : -1;
    if (held.fd >= 0)
        held_add(files, old, &held);
}

void linux_files_take(struct log_files *files, pid_t pid, uint32_t shown,
                      const struct record_map *map)
{
    if (map->pid == UINT32_MAX || pid <= 0)
        return;
    if (folded_map_is_jit(map) && shown) /* 0 is whoever cannot be told from others */
        process_take(files, pid, shown, record_time(&map->head));
    if (map->inode)
        file_take(files, pid, map);
}

/* ---- for a later worker ---- */

/* "MAX" and, for each thing held, ";" and its fields. */
void linux_files_print(const struct log_files *files, struct buf *out)
{
    buf_u64(out, files->max);
    for (unsigned i = 0; i < files->n; i++) {
        const struct held *held = &files->held[i];

        buf_printf(out, ";%d,%d,%u,%u,%u,%" PRIu64 ",%" PRIu64 ",%u,%d,%" PRIu64 ",%u,%u",
                   (int)held->kind, held->fd, held->blames, held->major, held->minor, held->inode,
                   held->generation, held->shown, held->pid, held->start, held->inner_pid,
                   held->uid);
    }
}

static bool held_scan(const char *text, struct held *held)
{
    int kind;

    *held = (struct held){.fd = -1};
    if (sscanf(text, "%d,%d,%u,%u,%u,%" SCNu64 ",%" SCNu64 ",%u,%d,%" SCNu64 ",%u,%u", &kind,
               &held->fd, &held->blames, &held->major, &held->minor, &held->inode,
               &held->generation, &held->shown, &held->pid, &held->start, &held->inner_pid,
               &held->uid) != 12)
        return false;
    held->kind = kind == SYMBOL_JIT ? SYMBOL_JIT : SYMBOL_ELF;
    return fcntl(held->fd, F_GETFD) >= 0;
}

int linux_files_adopt(struct host_state *state, const char *printed, struct log_files **out)
{
    char *end;
    struct log_files *files = linux_files_new(state, (unsigned)strtoul(printed, &end, 10));
    int rc = !files ? -ENOMEM : end == printed ? -EINVAL : 0;

    while (rc == 0 && *end == ';') {
        struct held held;
        unsigned n = files->n;

        if (!held_scan(end + 1, &held)) {
            rc = -EINVAL;
            break;
        }
        held_add(files, SYMBOL_NONE, &held);
        if (files->n == n)
            rc = -ENOMEM;
        end += 1 + strcspn(end + 1, ";");
    }
    if (rc < 0) {
        linux_files_keep(files);
        return rc;
    }
    *out = files;
    return 0;
}
