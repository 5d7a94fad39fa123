/*
 * The inventory: names of threads and executable mappings of processes before a recording starts,
 * as records like the kernel's. Reads everything below one descriptor of /proc/PID, so that a
 * process with a reused number is not mixed in. The time is limited.
 */
#include "backends/helper.h"
#include "backends/linux/linux.h"
#include "core/backend.h"
#include "core/base/clock.h"
#include "core/log/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define COMM_BYTES 16 /* the kernel's, with its NUL */
#define LINES_MAX  1000000
#define MAPS_MAX   16384 /* mappings per process */

#define ANONYMOUS "//anon"
#define SURVEY_NS 3000000000 /* time limit of all inventories of one start */
#define MAPS_ROOM 65536      /* read buffer; longer than any line */
#define KERNEL    (UINT64_C(1) << 63)

struct survey {
    pid_t pid;
    int dir;   /* of /proc/PID */
    bool data; /* also read-only private mappings of files */
    uint64_t time_ns;
    uint64_t born_ns; /* processes created after that are not read */
    const struct intake *intake;
    struct buf out;
    uint64_t n_incomplete; /* processes that are missing or incomplete */
};

static void inventory_deliver(struct buf *out, const struct intake *intake)
{
    for (size_t at = 0; at < out->len;) {
        const struct record *record = (const struct record *)(out->data + at);
        intake->put(intake->arg, record);
        at += record->size;
    }
    buf_clear(out);
}

static bool survey_is_late(const struct survey *survey)
{
    return monotonic_ns() > survey->time_ns + SURVEY_NS;
}

/*
 * Returns true if the process existed at born_ns (or was created in the same tick of 10 ms). The
 * kernel records later ones. Start times are CLOCK_BOOTTIME, which includes suspends, so a process
 * from before the last suspend can look older, never younger. Returns false if stat cannot be read,
 * and counts the process as incomplete if a later read may succeed.
 */
static bool process_existed(struct survey *survey)
{
    const uint64_t tick_ns = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    struct proc_stat stat;
    int rc = proc_stat_at(survey->dir, "stat", &stat);

    survey->n_incomplete += is_temporary(rc);
    return rc == 0 &&
           stat.start * tick_ns <= survey->born_ns + (clock_ns(CLOCK_BOOTTIME) - monotonic_ns());
}

/* ---- names ---- */

/* Adds the name of a thread. Returns false if it is gone or dead (dead threads have names too). */
static bool thread_put_name(struct survey *survey, pid_t tid)
{
    char path[64];
    snprintf(path, sizeof path, "task/%d/status", tid);
    char *status = proc_text_at(survey->dir, path);
    const bool lives = status && !proc_status_dead(status);
    free(status);
    snprintf(path, sizeof path, "task/%d/comm", tid);
    char *name = lives ? proc_text_at(survey->dir, path) : NULL;
    if (!name)
        return false;
    const size_t len = strlen(name);
    name[len - (len > 0)] = '\0'; /* the newline */
    /* the file has longer names for kernel workers */
    record_add_comm(&survey->out, survey->time_ns, (uint32_t)survey->pid, (uint32_t)tid,
                    strncpy((char[COMM_BYTES]){0}, name, COMM_BYTES - 1), RECORD_FOUND);
    free(name);
    return true;
}

/* ---- mappings ---- */

struct line {
    uint64_t start, end, offset, inode;
    unsigned major, minor;
    char perms[5];
    char *path;
};

/* Adds a mapping. A mapping without a file has its address as offset, as in the kernel's records.
 */
static void line_put(struct survey *survey, const struct line *line)
{
    const char *perms = line->perms;
    const bool unnamed = line->path[0] == '\0' || strncmp(line->path, "[anon", 5) == 0;
    const bool own =
        unnamed || strcmp(line->path, "[heap]") == 0 || strncmp(line->path, "[stack", 6) == 0;
    struct map_facts map = {
        .pid = (uint32_t)survey->pid,
        .tid = (uint32_t)survey->pid,
        .start = line->start,
        .length = line->end - line->start,
        .offset = own ? line->start : line->offset,
        .major = line->major,
        .minor = line->minor,
        .inode = line->inode,
        .protection = (perms[0] == 'r' ? PROT_READ : 0u) | (perms[1] == 'w' ? PROT_WRITE : 0u) |
                      (perms[2] == 'x' ? PROT_EXEC : 0u),
        .flags = perms[3] == 's' ? MAP_SHARED : MAP_PRIVATE,
        .path = unnamed ? ANONYMOUS : line->path,
    };

    /* A newline in a path is shown as \012; backslashes are not escaped. */
    for (char *p = line->path; (p = strstr(p, "\\012")); p++) {
        *p = '\n';
        memmove(p + 1, p + 4, strlen(p + 4) + 1);
    }
    record_add_map(&survey->out, survey->time_ns, &map,
                   RECORD_FOUND | RECORD_USERMODE | (perms[2] == 'x' ? 0 : RECORD_DATA));
    inventory_deliver(&survey->out, survey->intake);
}

/*
 * Adds the executable mappings of the process, and with `data` read-only files, which may contain
 * unwind tables. The process is incomplete if it has too many lines or mappings, or a line is too
 * long. tid: a living thread, because the first one may be dead.
 */
static void maps_of(struct survey *survey, pid_t tid)
{
    const uint64_t until_ns = survey->time_ns + SURVEY_NS;
    char path[64], *text = malloc(MAPS_ROOM);
    unsigned n_lines = 0, n_maps = 0;
    bool more = text != NULL;
    size_t len = 0;
    ssize_t n = 0;
    int fd = -1;
    snprintf(path, sizeof path, "task/%d/maps", tid);
    while (more && !survey_is_late(survey)) {
        const size_t room = MAPS_ROOM - len;
        char *at = text, *end = NULL;

        n = helper_read(survey->dir, path, &fd, text + len, room, until_ns);
        len += n > 0 ? (size_t)n : 0;
        while (n > 0 && (end = memchr(at, '\n', len)) && n_lines++ < LINES_MAX &&
               n_maps < MAPS_MAX) {
            *end++ = '\0';
            struct line line;
            int used = 0;
            const int fields = sscanf(
                at, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 "%n", &line.start,
                &line.end, line.perms, &line.offset, &line.major, &line.minor, &line.inode, &used);
            line.path = at + used + strspn(at + used, " ");
            if (fields == 7 && strlen(line.perms) == 4 &&
                (line.perms[2] == 'x' ||
                 (survey->data && line.path[0] == '/' && strcmp(line.perms, "r--p") == 0))) {
                line_put(survey, &line);
                n_maps++;
            }
            len -= (size_t)(end - at);
            at = end;
        }
        memmove(text, at, len);
        more = n > 0 && !end && len < MAPS_ROOM && (size_t)n == room;
    }
    survey->n_incomplete += is_temporary((int)n) || more || survey_is_late(survey);
    fd_close(fd);
    free(text);
}

/* ---- processes ---- */

static void survey_process(struct survey *survey)
{
    char path[32];
    pid_t *tids, living = 0;
    size_t n;

    if (survey_is_late(survey)) {
        survey->n_incomplete++;
        return;
    }
    snprintf(path, sizeof path, "/proc/%d", survey->pid);
    survey->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (survey->dir < 0) {
        survey->n_incomplete += is_shortage(-errno);
        return;
    }
    if (process_existed(survey) && proc_list_numbers(survey->dir, "task", &tids, &n) == 0) {
        for (size_t i = 0; i < n; i++)
            if (thread_put_name(survey, tids[i]))
                living = tids[i];
        free(tids);
        inventory_deliver(&survey->out, survey->intake);
    }
    if (living)
        maps_of(survey, living);
    close(survey->dir);
}

void linux_inventory(struct host_state *state, pid_t pid, bool data, uint64_t time_ns,
                     const struct intake *intake)
{
    /* In system scope (pid 0) the kernel has just started to record new processes; time_ns is
     * earlier. */
    struct survey survey = {.pid = pid,
                            .data = data,
                            .time_ns = time_ns,
                            .born_ns = pid ? time_ns : monotonic_ns(),
                            .intake = intake};
    pid_t *pids;
    size_t n;
    (void)state;
    if (pid) {
        survey_process(&survey);
    } else if (proc_list_numbers(AT_FDCWD, "/proc", &pids, &n) < 0) {
        survey.n_incomplete++;
    } else {
        for (size_t i = 0; i < n; i++) {
            survey.pid = pids[i];
            survey_process(&survey);
        }
        free(pids);
    }
    if (survey.n_incomplete > 0) {
        record_add_drop(&survey.out, survey.time_ns, 0, "inventory", 2,
                        (uint64_t[]){survey.n_incomplete, 0});
        inventory_deliver(&survey.out, intake);
    }
    buf_free(&survey.out);
}

/* ---- the kernel ---- */

/*
 * Adds the kernel's mapping as perf does: all addresses that can only be the kernel's. The reader's
 * perf finds names and the exact start in /proc/kallsyms with its user's rights.
 */
void linux_kernel_maps(struct host_state *state, uint64_t time_ns, const struct intake *intake)
{
    const struct map_facts map = {.pid = UINT32_MAX,
                                  .start = KERNEL,
                                  .length = UINT64_MAX - KERNEL,
                                  .path = "[kernel.kallsyms]_text"};
    struct buf out = {0};

    (void)state;
    record_add_map(&out, time_ns, &map, RECORD_FOUND | RECORD_KERNEL);
    inventory_deliver(&out, intake);
    buf_free(&out);
}
