/*
 * Tracepoints, the kernel's static probe points: their names (SYSTEM:NAME) and numbers in tracefs,
 * their filters, and their formats.
 */
#include "backends/perf/names/names.h"
#include "backends/perf/names/spec.h"
#include "backends/perf/probe/open.h"
#include "backends/perf/probe/pmu.h"
#include "backends/proc.h"

#include "core/log/log_sets.h"
#include "core/log/trace_format.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    NAME_BYTES = 128
};

/* A directory of record layouts of the tracers, which are not probe points. */
#define LAYOUTS "ftrace"

static int is_directory(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
}

/* Reads the names of the directories in events/PATH, in alphabetical order. Returns their number,
 * or -1; the caller frees each of them, and the list. */
static int directories(int events, const char *path, struct dirent ***names)
{
    *names = NULL;
    return events < 0 ? 0 : scandirat(events, path, names, is_directory, alphasort);
}

struct lookup {
    struct word wanted;
    char found[NAME_BYTES];
    struct near near;
};

/* Looks up a directory of events/PATH by lookup->wanted, or else by a name that differs only in
 * case or in '-', '_' and '.'. Returns its name, or "" if there is none. Needs an empty
 * lookup->found. Skips names that do not fit into found[]; tracefs has none. */
static const char *lookup_name(struct lookup *lookup, int events, const char *path)
{
    struct dirent **names;
    const int n = directories(events, path, &names);

    lookup->near = (struct near){.word = lookup->wanted};
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        const size_t len = strlen(name);

        near_offer(&lookup->near, name);
        if (len < sizeof(lookup->found) &&
            (word_is(lookup->wanted, name) ||
             (!lookup->found[0] && word_alike(lookup->wanted, name, true))))
            memcpy(lookup->found, name, len + 1);
        free(names[i]);
    }
    free(names);
    return lookup->found;
}

static int read_id(int events, const char *system, const char *name, uint64_t *id)
{
    char path[2 * NAME_BYTES + 8], text[32];

    snprintf(path, sizeof(path), "%s/%s/id", system, name);
    int got = file_read(events, path, text, sizeof(text));
    *id = got > 0 ? strtoull(text, NULL, 10) : 0;
    return got > 0 ? 0 : got < 0 ? got : -EIO;
}

int tracepoint_number(struct backend_state *state, const char *system, const char *name,
                      uint64_t *number)
{
    int events = tracefs_events(state);
    int rc = events < 0 ? events : read_id(events, system, name, number);

    fd_close(events);
    return rc;
}

int tracepoint_parse(struct spec *spec, struct word *text, struct err *err)
{
    const int events = tracefs_events(spec->state);
    struct word rest, mods, whole = *text;
    struct lookup system = {.wanted = word_until(whole, ':', &rest)};
    struct lookup name = {.wanted = word_until(rest, ':', &mods)};
    int rc = -ENOENT;

    if (name.wanted.len > 0 && lookup_name(&system, events, ".")[0] &&
        strcmp(system.found, LAYOUTS) != 0) {
        spec->event.needs_kernel = true; /* also to learn that the tracepoint does not exist */
        if (!lookup_name(&name, events, system.found)[0])
            rc = err_set(err, CS01, "no tracepoint \"" WORD_FMT "\" in group \"" WORD_FMT "\"%s",
                         WORD_ARG(name.wanted), WORD_ARG(system.wanted), near_text(&name.near));
        else
            rc = spec_use(spec, pmus_first_of(spec->state->pmus, PMU_TRACEPOINT), whole, err);
    }
    if (rc == 0 && read_id(events, system.found, name.found, &spec->event.code[CODE_CONFIG]) < 0)
        rc = spec_refuse(whole, "this tracepoint has no number in tracefs", err);
    if (rc == 0) {
        spec_append(spec, "%s:%s", system.found, name.found);
        *text = mods;
    }
    fd_close(events);
    return rc;
}

void tracepoint_add_all(struct backend_state *state, struct catalog *out)
{
    const int events = tracefs_events(state);
    struct dirent **systems, **names = NULL;
    const int n = directories(events, ".", &systems);
    char full[2 * sizeof systems[0]->d_name];

    for (int i = 0; i < n; i++) {
        const char *system = systems[i]->d_name;
        const int n_names = strcmp(system, LAYOUTS) == 0 ? 0 : directories(events, system, &names);

        for (int k = 0; k < n_names; k++) {
            snprintf(full, sizeof(full), "%s:%s", system, names[k]->d_name);
            catalog_add(out, "tracepoint", full);
            free(names[k]);
        }
        free(names);
        names = NULL;
        free(systems[i]);
    }
    free(systems);
    fd_close(events);
}

/* Returns `hash` with each line of a file added (words: the first word of each line). Closes fd. An
 * unreadable file (fd -1) counts as empty. */
static uint64_t hash_file(int fd, bool words, uint64_t hash)
{
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    char *line = NULL;
    size_t size = 0;

    while (file && getline(&line, &size, file) > 0) {
        size_t len = words ? strcspn(line, " ") : strlen(line);
        for (size_t i = 0; i < len; i++)
            hash = (hash ^ (unsigned char)line[i]) * UINT64_C(0x100000001b3);
    }
    free(line);
    if (file)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    return hash;
}

/* Tracepoints come and go with kernel modules and with dynamic events. */
uint64_t perf_catalog_mark(struct backend_state *state)
{
    int events = tracefs_events(state);
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + (events >= 0);

    if (events < 0)
        return hash;
    hash = hash_file(open("/proc/modules", O_RDONLY | O_CLOEXEC), true, hash);
    hash = hash_file(openat(events, "../dynamic_events", O_RDONLY | O_CLOEXEC), false, hash);
    close(events);
    return hash;
}

/* Returns the text of the format of "system:name" (a modifier such as ":k" may follow), or NULL. */
static char *format_text(int events, const char *resolved)
{
    const size_t system = strcspn(resolved, ":");
    const char *name = resolved + system + (resolved[system] == ':');
    char path[300];

    snprintf(path, sizeof path, "%.*s/%.*s/format", (int)system, resolved, (int)strcspn(name, ":"),
             name);
    return proc_text_at(events, path);
}

/* Sets the filter on an event of an idle thread of the daemon. A refusal names the fields of the
 * tracepoint, if its format can be read. */
static int filter_try(const struct backend_state *state, const struct event *event,
                      const char *filter, struct err *err)
{
    const char *before = ": its fields are ";
    char room[400], *format = NULL;
    struct perf_event_attr attr;
    struct trace_field field;
    struct buf fields = buf_in(room, sizeof room);
    int fd, events, code = 0, rc;

    code_to_attr(event, true, true, &attr);
    attr.disabled = 1;
    fd = event_open(&attr, state->pmus->idle.tid, -1, -1, 0);
    if (fd < 0)
        return 0; /* the attach will report the reason */
    /* Not only EINVAL: unbalanced brackets and quotes have their own error numbers. */
    if (ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter))
        code = errno;
    event_close(&fd);
    if (!code || code == ENOMEM)
        return code ? err_nomem(err) : 0;
    events = tracefs_events(state);
    if (events >= 0) {
        format = format_text(events, event->resolved);
        close(events);
    }
    for (const char *at = format; at && trace_field_next(&at, &field); before = ", ") {
        buf_str(&fields, before);
        buf_add(&fields, field.name.p, field.name.len);
    }
    rc = err_set(err, P02,
                 "filter=%s: the kernel refuses it (%s) for \"%s\"%s; compare fields and use \\040 "
                 "for blanks, for example prev_pid==0&&next_comm~\"sh*\"",
                 text_shown(filter), err_errno_name(code), event->written, buf_text(&fields));
    buf_free(&fields);
    free(format);
    return rc;
}

int perf_check_filter(struct backend_state *state, const struct event *events, unsigned n,
                      const char *filter, struct err *err)
{
    unsigned tracepoints = 0;
    int rc = 0;

    for (unsigned i = 0; i < n && !rc; i++) {
        if (events[i].code[CODE_TYPE] != PERF_TYPE_TRACEPOINT)
            continue;
        tracepoints++;
        rc = filter_try(state, &events[i], filter, err);
    }
    if (rc || tracepoints)
        return rc;
    return err_set(err, P02,
                   "filter=%s: %s tracepoint, and only tracepoints have fields to compare",
                   text_shown(filter), n == 1 ? "the event is not a" : "none of the events is a");
}

#define MAGIC "\027\010\104tracing0.6" /* with its NUL */

static void number_add(struct buf *out, uint32_t number)
{
    buf_add(out, &number, sizeof number);
}

/* Adds a text after its size, and frees it. Returns false for NULL. */
static bool sized_text_add(struct buf *out, char *text)
{
    if (!text)
        return false;
    const uint64_t bytes = strlen(text);

    buf_add(out, &bytes, sizeof bytes);
    buf_add(out, text, bytes);
    free(text);
    return true;
}

/* Returns the text of the format of an event, or NULL: also if a later tracepoint has its name. */
static char *format_of(int events, const struct log_event *event)
{
    char *text = format_text(events, event->resolved);
    const char *id = text ? proc_field(text, "ID") : NULL;

    if (id && strtoull(id, NULL, 10) == event->config)
        return text;
    free(text);
    return NULL;
}

char *perf_tracepoint_format(struct backend_state *state, const struct log_event *event)
{
    const int dir = tracefs_events(state);
    char *text = dir < 0 ? NULL : format_of(dir, event), *end;

    fd_close(dir);
    end = text ? strstr(text, "\nprint fmt") : NULL;
    if (end)
        *end = '\0';
    return text;
}

bool perf_print_tracing_data(struct backend_state *state, const struct log_event *const *events,
                             unsigned n, struct buf *out)
{
    static const char *const headers[] = {"header_page", "header_event"};
    const int dir = tracefs_events(state);
    bool fine = true;

    if (dir < 0)
        return false;
    buf_add(out, MAGIC, sizeof MAGIC);
    buf_char(out, __BYTE_ORDER == __BIG_ENDIAN);
    buf_char(out, sizeof(long));
    number_add(out, (uint32_t)sysconf(_SC_PAGESIZE));
    for (unsigned i = 0; i < 2 && fine; i++) {
        buf_add(out, headers[i], strlen(headers[i]) + 1);
        fine = sized_text_add(out, proc_text_at(dir, headers[i]));
    }
    number_add(out, 0); /* number of formats of the tracers' own records */
    number_add(out, n);
    for (unsigned i = 0; i < n && fine; i++) { /* each a group of one format */
        buf_add(out, events[i]->resolved, strcspn(events[i]->resolved, ":"));
        buf_char(out, '\0');
        number_add(out, 1);
        fine = sized_text_add(out, format_of(dir, events[i]));
    }
    number_add(out, 0);              /* bytes of kernel symbols */
    number_add(out, 0);              /* bytes of printk formats */
    buf_add(out, &(uint64_t){0}, 8); /* bytes of task names: the stream has them */
    close(dir);
    return fine;
}
