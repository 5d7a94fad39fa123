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

static int is_name(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
}

/* Calls fn for each directory in events/PATH, in alphabetical order. */
static void each_directory(int events, const char *path,
                           void (*fn)(void *arg, const char *path, const char *name), void *arg)
{
    struct dirent **names = NULL;
    int n = events < 0 ? 0 : scandirat(events, path, &names, is_name, alphasort);

    for (int i = 0; i < n; i++) {
        fn(arg, path, names[i]->d_name);
        free(names[i]);
    }
    free(names);
}

struct lookup {
    struct word wanted;
    char found[NAME_BYTES];
    struct near near;
};

/* Accepts a name that differs in case or '-', but prefers the exact one. Longer names than found[]
 * holds do not exist. */
static void lookup_name(void *arg, const char *path, const char *name)
{
    struct lookup *lookup = arg;
    const size_t len = strlen(name);

    (void)path;
    near_offer(&lookup->near, name);
    if (len < sizeof(lookup->found) &&
        (word_is(lookup->wanted, name) ||
         (!lookup->found[0] && word_alike(lookup->wanted, name, true))))
        memcpy(lookup->found, name, len + 1);
}

static const char *lookup(struct lookup *lookup, int events, const char *path)
{
    near_init(&lookup->near, lookup->wanted);
    each_directory(events, path, lookup_name, lookup);
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

    if (events >= 0)
        close(events);
    return rc;
}

static int parse_in(struct spec *spec, struct word *text, int events, struct err *err)
{
    struct word rest, mods, whole = *text;
    struct lookup system = {.wanted = word_until(whole, ':', &rest)};
    struct lookup name = {.wanted = word_until(rest, ':', &mods)};

    if (name.wanted.len == 0 || !lookup(&system, events, ".")[0] ||
        strcmp(system.found, LAYOUTS) == 0)
        return -ENOENT;
    spec->event.needs_kernel = true; /* also to learn that the tracepoint does not exist */
    if (!lookup(&name, events, system.found)[0])
        return err_set(err, CS01, "no tracepoint \"" WORD_FMT "\" in group \"" WORD_FMT "\"%s",
                       WORD_ARG(name.wanted), WORD_ARG(system.wanted), near_text(&name.near));
    int rc = spec_use(spec, pmus_kind(spec->state->pmus, PMU_TRACEPOINT), whole, err);
    if (rc < 0)
        return rc;
    if (read_id(events, system.found, name.found, &spec->event.code[CODE_CONFIG]) < 0)
        return spec_refuse(whole, "this tracepoint has no number in tracefs", err);
    spec_append(spec, "%s:%s", system.found, name.found);
    *text = mods;
    return 0;
}

int tracepoint_parse(struct spec *spec, struct word *text, struct err *err)
{
    int events = tracefs_events(spec->state);
    int rc = parse_in(spec, text, events, err);

    if (events >= 0)
        close(events);
    return rc;
}

struct listing {
    struct catalog *out;
    int events;
};

static void list_one(void *arg, const char *system, const char *name)
{
    struct listing *listing = arg;
    char full[2 * NAME_BYTES];

    snprintf(full, sizeof(full), "%s:%s", system, name);
    catalog_add(listing->out, "tracepoint", full);
}

static void list_system(void *arg, const char *path, const char *system)
{
    struct listing *listing = arg;

    (void)path;
    if (strcmp(system, LAYOUTS) != 0)
        each_directory(listing->events, system, list_one, listing);
}

void tracepoint_list(struct backend_state *state, struct catalog *out)
{
    struct listing listing = {.out = out, .events = tracefs_events(state)};

    each_directory(listing.events, ".", list_system, &listing);
    if (listing.events >= 0)
        close(listing.events);
}

/* Hashes each line of a file, or only its first word. An unreadable file counts as empty. */
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

/* Prints the fields of a tracepoint, or nothing if its format cannot be read. */
static void fields_print(const struct backend_state *state, const struct event *event,
                         struct buf *out)
{
    const int events = tracefs_events(state);
    const char *before = ": its fields are ";
    char path[300], *colon, *format;
    struct trace_field field;

    if (events < 0)
        return;
    snprintf(path, sizeof path, "%s/format", event->resolved);
    colon = strchr(path, ':');
    if (colon)
        *colon = '/';
    format = proc_text_at(events, path);
    for (const char *at = format; at && trace_field_next(&at, &field); before = ", ") {
        buf_str(out, before);
        buf_add(out, field.name.p, field.name.len);
    }
    free(format);
    close(events);
}

static int filter_refused(const struct backend_state *state, const struct event *event,
                          const char *filter, int code, struct err *err)
{
    char room[400];
    struct buf fields;
    int rc;

    buf_init(&fields, room, sizeof room);
    fields_print(state, event, &fields);
    rc = err_set(err, P02,
                 "filter=%s: the kernel refuses it (%s) for \"%s\"%s; compare fields and use \\040 "
                 "for blanks, for example prev_pid==0&&next_comm~\"sh*\"",
                 text_shown(filter), err_errno_name(code), event->written, buf_text(&fields));
    buf_free(&fields);
    return rc;
}

/* Sets the filter on an event of an idle thread of the daemon. */
static int filter_try(const struct backend_state *state, const struct event *event,
                      const char *filter, struct err *err)
{
    struct perf_event_attr attr;
    int fd, rc = 0;

    code_to_attr(event, true, true, &attr);
    attr.disabled = 1;
    fd = event_open(&attr, state->pmus->parked.tid, -1, -1, 0);
    if (fd < 0)
        return 0; /* the attach will report the reason */
    /* Not only EINVAL: unbalanced brackets and quotes have their own error numbers. */
    if (ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter))
        rc = errno == ENOMEM ? err_nomem(err) : filter_refused(state, event, filter, errno, err);
    event_close(&fd);
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

static void text_add(struct buf *out, const char *text)
{
    const uint64_t bytes = strlen(text);

    buf_add(out, &bytes, sizeof bytes);
    buf_add(out, text, bytes);
}

static bool file_add(int events, const char *path, struct buf *out)
{
    char *text = proc_text_at(events, path);
    const bool there = text;

    if (there)
        text_add(out, text);
    free(text);
    return there;
}

/* Returns the text of the format of "system:name" (a modifier such as ":k" may follow), or NULL. */
static char *format_read(int events, const struct log_event *event)
{
    const char *system = event->resolved, *name = system + strcspn(system, ":"), *id;
    char path[300], *text;

    name += *name == ':';
    snprintf(path, sizeof path, "%.*s/%.*s/format", (int)strcspn(system, ":"), system,
             (int)strcspn(name, ":"), name);
    text = proc_text_at(events, path);
    id = text ? proc_field(text, "ID") : NULL;
    if (id && strtoull(id, NULL, 10) == event->config) /* not a later tracepoint of this name */
        return text;
    free(text);
    return NULL;
}

char *perf_format(struct backend_state *state, const struct log_event *event)
{
    const int dir = tracefs_events(state);
    char *text = dir < 0 ? NULL : format_read(dir, event), *end;

    if (dir >= 0)
        close(dir);
    end = text ? strstr(text, "\nprint fmt") : NULL;
    if (end)
        *end = '\0';
    return text;
}

/* Adds the format of a tracepoint as a group of one format. */
static bool format_add(int events, const struct log_event *event, struct buf *out)
{
    char *text = format_read(events, event);
    const bool fine = text;

    buf_add(out, event->resolved, strcspn(event->resolved, ":"));
    buf_char(out, '\0');
    number_add(out, 1);
    if (fine)
        text_add(out, text);
    free(text);
    return fine;
}

bool perf_formats(struct backend_state *state, const struct log_event *const *events, unsigned n,
                  struct buf *out)
{
    const int dir = tracefs_events(state);
    bool fine;

    if (dir < 0)
        return false;
    buf_add(out, MAGIC, sizeof MAGIC);
    buf_char(out, __BYTE_ORDER == __BIG_ENDIAN);
    buf_char(out, sizeof(long));
    number_add(out, (uint32_t)sysconf(_SC_PAGESIZE));
    buf_add(out, "header_page", sizeof "header_page");
    fine = file_add(dir, "header_page", out);
    buf_add(out, "header_event", sizeof "header_event");
    fine = fine && file_add(dir, "header_event", out);
    number_add(out, 0); /* number of formats of the tracers' own records */
    number_add(out, n);
    for (unsigned i = 0; i < n && fine; i++)
        fine = format_add(dir, events[i], out);
    number_add(out, 0);              /* bytes of kernel symbols */
    number_add(out, 0);              /* bytes of printk formats */
    buf_add(out, &(uint64_t){0}, 8); /* bytes of task names: the stream has them */
    close(dir);
    return fine;
}
